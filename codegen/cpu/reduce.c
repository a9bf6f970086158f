/* Reductions: sum, max, min, argmax of an expression along axes: what is joined.  In which order:
 * ir/sum_order.h.
 *
 * The bits depend on the operand's logical shape alone, not on what is fused with the reduction,
 * nor on how many lanes a register has: an item of SUM_LANES elements is as many vectors as that
 * takes.  Where lanes are results of their own an item is one vector of them, and inactive ones
 * compute what nobody reads. */
#include "codegen/cpu/reduce.h"

enum {
    LONG_OPERAND = 150 /* instructions or so: of more of them there are two copies, in a loop */
};

/* Rough instructions per element of what is summed, up to `LONG_OPERAND` or a little more. */
static int operand_cost(const Emit *e, const Node *n)
{
    const OpInfo *info = op_info(n->op);
    if (info->kind == KIND_LEAF || info->kind == KIND_REDUCE || emit_readable(e, n))
        return 1;
    int cost = info->kind == KIND_EXPR    ? scalar_cost((ScalarFn)info->data)
               : info->kind == KIND_INDEX ? LONG_OPERAND
                                          : 1;
    for (int i = 0; i < n->n_in && cost < LONG_OPERAND; i++)
        cost += operand_cost(e, n->in[i]);
    return cost;
}

static Reduction reduction_begin(Emit *e, const Node *n, const Index *i)
{
    const ReductionWalk walk = reduction_walk(&e->space, n, i);
    Reduction r = {.node = n,
                   .operand = n->in[0],
                   .info = walk.info,
                   .dtype = walk.dtype,
                   .order = sum_order(n),
                   .at = walk.at,
                   .lane_base = affine_const(0)};
    const Shape *from = &r.operand->type.shape;
    const bool lanes = index_lanes(&e->space, i);
    if (r.order.inner && lanes)
        diag_internal(NULL, "kernel %s reduces %%%s along the wrong loop", e->kernel->name,
                      n->name);
    r.inner = r.order.inner;
    r.vector = lanes || r.inner;
    r.width = r.inner ? SUM_LANES / e->lanes : 1;
    r.narrow = shape_count(from) <= INT32_MAX;
    r.looped = operand_cost(e, r.operand) >= LONG_OPERAND;
    return r;
}

/* 1 where a comes before b: larger (NaN is largest), and of equal ones the earlier. */
static LLVMValueRef before(Emit *e, DType t, Partial a, Partial b)
{
    LLVMBuilderRef B = e->builder;
    LLVMValueRef greater, same;
    if (dtype_class(t) == DTC_REAL) {
        LLVMValueRef a_nan = LLVMBuildFCmp(B, LLVMRealUNO, a.value, a.value, "");
        LLVMValueRef b_nan = LLVMBuildFCmp(B, LLVMRealUNO, b.value, b.value, "");
        greater = LLVMBuildFCmp(B, LLVMRealOGT, a.value, b.value, "");
        greater =
            LLVMBuildOr(B, greater, LLVMBuildAnd(B, a_nan, LLVMBuildNot(B, b_nan, ""), ""), "");
        same = LLVMBuildOr(B, LLVMBuildFCmp(B, LLVMRealOEQ, a.value, b.value, ""),
                           LLVMBuildAnd(B, a_nan, b_nan, ""), "");
    } else {
        const bool is_signed = t == DT_I32 || t == DT_I64;
        greater = LLVMBuildICmp(B, is_signed ? LLVMIntSGT : LLVMIntUGT, a.value, b.value, "");
        same = LLVMBuildICmp(B, LLVMIntEQ, a.value, b.value, "");
    }
    LLVMValueRef earlier = LLVMBuildICmp(B, LLVMIntSLT, a.position, b.position, "");
    return LLVMBuildOr(B, greater, LLVMBuildAnd(B, same, earlier, ""), "");
}

/* 1 where b, which comes after a, takes its place: larger, or the first NaN. */
static LLVMValueRef overtakes(Emit *e, DType t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMBuilderRef B = e->builder;
    if (dtype_class(t) != DTC_REAL) {
        const bool is_signed = t == DT_I32 || t == DT_I64;
        return LLVMBuildICmp(B, is_signed ? LLVMIntSGT : LLVMIntUGT, b, a, "");
    }
    return LLVMBuildAnd(B, LLVMBuildFCmp(B, LLVMRealUGT, b, a, ""),
                        LLVMBuildFCmp(B, LLVMRealORD, a, a, ""), "");
}

Partial partial_join(Emit *e, const Reduction *r, Partial a, Partial b)
{
    if (!r->info->position) {
        LLVMValueRef x[2] = {a.value, b.value};
        return (Partial){.value = emit_scalar_fn(e, r->info->step, r->dtype, r->dtype, 2, x)};
    }
    LLVMValueRef first =
        r->inner ? before(e, r->dtype, b, a) : overtakes(e, r->dtype, a.value, b.value);
    return (Partial){.value = LLVMBuildSelect(e->builder, first, b.value, a.value, ""),
                     .position =
                         LLVMBuildSelect(e->builder, first, b.position, a.position, "")};
}

static LLVMTypeRef position_type(Emit *e, const Reduction *r, bool vector)
{
    const DType t = r->narrow ? DT_I32 : DT_I64;
    return vector ? emit_vector_type(e, t) : emit_type(e, t);
}

static LLVMTypeRef value_type(Emit *e, const Reduction *r)
{
    return r->vector ? emit_vector_type(e, r->dtype) : emit_type(e, r->dtype);
}

Partial partial_identity(Emit *e, const Reduction *r)
{
    Partial p = {.value = emit_const(e, r->dtype, reduction_identity(r->info, r->dtype))};
    if (r->info->position)
        p.position = LLVMConstInt(position_type(e, r, false),
                                  !r->inner   ? 0
                                  : r->narrow ? INT32_MAX
                                              : INT64_MAX,
                                  0);
    if (r->vector) {
        p.value = emit_splat(e, p.value);
        p.position = p.position ? emit_splat(e, p.position) : NULL;
    }
    return p;
}

Bank bank_new(Emit *e, const Reduction *r, int groups, const char *name)
{
    const uint64_t n = (uint64_t)(groups * r->width);
    Bank b = {.value = emit_alloca(e, LLVMArrayType2(value_type(e, r), n), name)};
    if (r->info->position)
        b.position =
            emit_alloca(e, LLVMArrayType2(position_type(e, r, r->vector), n), "position");
    return b;
}

static LLVMValueRef place_of(Emit *e, LLVMTypeRef type, LLVMValueRef array, LLVMValueRef at)
{
    return LLVMBuildInBoundsGEP2(e->builder, type, array, &at, 1, "");
}

static Partial part_load(Emit *e, const Reduction *r, const Bank *b, LLVMValueRef at)
{
    LLVMTypeRef type = value_type(e, r), index = position_type(e, r, r->vector);
    Partial p = {.value =
                     LLVMBuildLoad2(e->builder, type, place_of(e, type, b->value, at), "")};
    if (b->position)
        p.position = LLVMBuildLoad2(e->builder, index, place_of(e, index, b->position, at), "");
    return p;
}

static void part_store(Emit *e, const Reduction *r, const Bank *b, LLVMValueRef at, Partial p)
{
    LLVMTypeRef type = value_type(e, r), index = position_type(e, r, r->vector);
    LLVMBuildStore(e->builder, p.value, place_of(e, type, b->value, at));
    if (p.position)
        LLVMBuildStore(e->builder, p.position, place_of(e, index, b->position, at));
}

/* Vector v of a group. */
static LLVMValueRef part_number(Emit *e, const Reduction *r, LLVMValueRef number,
                                LLVMValueRef v)
{
    LLVMValueRef at = LLVMBuildMul(e->builder, number, emit_const_i64(e, r->width), "");
    return LLVMBuildAdd(e->builder, at, v, "");
}

Group group_load(Emit *e, const Reduction *r, const Bank *b, LLVMValueRef number)
{
    Group g;
    for (int v = 0; v < r->width; v++)
        g.part[v] = part_load(e, r, b, part_number(e, r, number, emit_const_i64(e, v)));
    return g;
}

void group_store(Emit *e, const Reduction *r, const Bank *b, LLVMValueRef number,
                 const Group *g)
{
    for (int v = 0; v < r->width; v++)
        part_store(e, r, b, part_number(e, r, number, emit_const_i64(e, v)), g->part[v]);
}

Group group_identity(Emit *e, const Reduction *r)
{
    Group g;
    for (int v = 0; v < r->width; v++)
        g.part[v] = partial_identity(e, r);
    return g;
}

Group group_join(Emit *e, const Reduction *r, const Group *a, const Group *b)
{
    Group g;
    for (int v = 0; v < r->width; v++)
        g.part[v] = partial_join(e, r, a->part[v], b->part[v]);
    return g;
}

/* Row-major number of the element at r->at among the reduced ones. */
static Affine number_along(const Reduction *r)
{
    const Shape *from = &r->operand->type.shape;
    const IntList *dims = &r->node->attrs.axes.dims;
    Affine number = affine_const(0);
    for (int k = 0; k < from->rank; k++)
        for (int d = 0; d < dims->n; d++)
            if (dims->v[d] == k) {
                number = affine_scale(&number, from->dim[k]);
                number = affine_add(&number, &r->at.at[k]);
            }
    return number;
}

static LLVMValueRef position_here(Emit *e, const Reduction *r)
{
    const Affine number = number_along(r);
    LLVMValueRef p = emit_affine(e, &number);
    if (r->narrow)
        p = LLVMBuildTrunc(e->builder, p, position_type(e, r, emit_is_vector(p)), "");
    return r->vector ? emit_splat(e, p) : p;
}

/* Lanes that lie beyond the operand count as the identity. */
static Partial masked(Emit *e, const Reduction *r, Partial p)
{
    const Partial none = partial_identity(e, r);
    LLVMValueRef lane = emit_lane_numbers(e);
    LLVMValueRef inside =
        LLVMBuildICmp(e->builder, LLVMIntULT, lane,
                      emit_int_like(e, emit_type(e, DT_I64), (uint64_t)e->active, lane), "");
    p.value = LLVMBuildSelect(e->builder, inside, p.value, none.value, "");
    if (p.position)
        p.position = LLVMBuildSelect(e->builder, inside, p.position, none.position, "");
    return p;
}

/* The operand at r->at. */
static Partial element(Emit *e, const Reduction *r)
{
    LLVMValueRef v = emit_eval(e, r->operand, &r->at);
    if (r->operand->type.dtype != r->dtype)
        v = emit_scalar_fn(e, SC_CAST, r->operand->type.dtype, r->dtype, 1, &v);
    Partial p = {.value = r->vector ? emit_splat(e, v) : v};
    if (r->info->position)
        p.position = position_here(e, r);
    return r->inner && e->active < e->lanes ? masked(e, r, p) : p;
}

static void part_add(Emit *e, const Reduction *r, const Bank *b, LLVMValueRef at)
{
    const Partial p = element(e, r);
    part_store(e, r, b, at, partial_join(e, r, part_load(e, r, b, at), p));
}

/* Vector v of the item, of which `lanes` lanes count. */
static void vector_add(Emit *e, Reduction *r, const Bank *b, LLVMValueRef number, int v,
                       int lanes)
{
    const Affine lane = affine_var(AFFINE_LANE),
                 first = affine_plus(&r->lane_base, v * e->lanes);
    emit_set_active(e, lanes);
    r->at.at[r->order.lane_axis] = affine_add(&first, &lane);
    part_add(e, r, b, part_number(e, r, number, emit_const_i64(e, v)));
}

void item_add(Emit *e, Reduction *r, const Bank *b, LLVMValueRef number, int lanes)
{
    if (!r->inner) {
        part_add(e, r, b, number);
        return;
    }
    const int old = e->active;
    for (int k = 0; k * e->lanes < lanes; k++) {
        const int left = lanes - k * e->lanes;
        vector_add(e, r, b, number, k, left < e->lanes ? left : e->lanes);
    }
    emit_set_active(e, old);
}

/* `half` lanes of v from `first` on. */
static LLVMValueRef lanes_from(Emit *e, LLVMValueRef v, unsigned first, unsigned half)
{
    LLVMValueRef lane[SUM_LANES];
    if (!v)
        return NULL;
    for (unsigned i = 0; i < half; i++)
        lane[i] = LLVMConstInt(LLVMInt32TypeInContext(e->context), first + i, 0);
    return LLVMBuildShuffleVector(e->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                  LLVMConstVector(lane, half), "");
}

static Partial part_from(Emit *e, Partial p, unsigned first, unsigned half)
{
    return (Partial){.value = lanes_from(e, p.value, first, half),
                     .position = lanes_from(e, p.position, first, half)};
}

/* Lanes that were never inside hold the identity: the halves that have nothing else are left out.
 */
static Partial fold_lanes(Emit *e, const Reduction *r, Group *g)
{
    int lanes = 1;
    while (lanes < r->order.item_lanes)
        lanes *= 2;
    for (; lanes > e->lanes; lanes /= 2)
        for (int v = 0; v < lanes / e->lanes / 2; v++)
            g->part[v] = partial_join(e, r, g->part[v], g->part[v + lanes / e->lanes / 2]);
    Partial p = g->part[0];
    for (unsigned half = (unsigned)lanes / 2; half >= 1; half /= 2)
        p = partial_join(e, r, part_from(e, p, 0, half), part_from(e, p, half, half));
    LLVMValueRef zero = emit_const_i64(e, 0);
    p.value = LLVMBuildExtractElement(e->builder, p.value, zero, "");
    if (p.position)
        p.position = LLVMBuildExtractElement(e->builder, p.position, zero, "");
    return p;
}

/* LLVM moves instructions down to where their result is used; of a kernel with many sums (the
 * gradients' norm) it would keep all lanes of all of them to the end.  What is done once a kernel
 * goes by way of the stack instead. */
static LLVMValueRef pinned(Emit *e, LLVMValueRef v)
{
    if (e->level != e->root)
        return v;
    LLVMValueRef place = emit_alloca(e, LLVMTypeOf(v), "once");
    LLVMSetVolatile(LLVMBuildStore(e->builder, v, place), true);
    LLVMValueRef kept = LLVMBuildLoad2(e->builder, LLVMTypeOf(v), place, "");
    LLVMSetVolatile(kept, true);
    return kept;
}

LLVMValueRef group_result(Emit *e, const Reduction *r, Group g)
{
    const Partial p = r->inner ? fold_lanes(e, r, &g) : g.part[0];
    if (!r->info->position)
        return pinned(e, p.value);
    return r->narrow ? LLVMBuildSExt(e->builder, p.position,
                                     emit_type_like(e, DT_I64, p.position), "")
                     : p.position;
}

LLVMValueRef emit_reduce(Emit *e, const Node *n, const Index *i)
{
    Reduction r = reduction_begin(e, n, i);
    if (r.inner)
        emit_hide_lane_guards(e, true);
    const Group g = reduce_levels(e, &r);
    if (r.inner)
        emit_hide_lane_guards(e, false);
    return group_result(e, &r, g);
}
