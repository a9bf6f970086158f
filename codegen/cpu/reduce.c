/* Reductions: sum, max, min, argmax of an expression along axes.
 *
 * The bits depend on the operand's logical shape alone, not on what is fused with the reduction.  Where the operand's last
 * axis longer than 1 is reduced, that axis is vectorised: block number k of W elements goes to partial k % U, U depends
 * on the extent, the tail's missing lanes count as the identity, and at the end partials and then lanes are folded
 * in halves.  Otherwise it is one chain per result, in ascending row-major order of the reduced axes. */
#include "codegen/cpu/emit.h"

#include <math.h>

enum {
    MAX_PARTIALS = 4
};

/* What is accumulated: a value and, for argmax, the position that it came from (NULL otherwise). */
typedef struct Partial {
    LLVMValueRef value, position;
} Partial;

typedef struct Reduction {
    const Node *node, *operand;
    int kind;    /* RED_* */
    DType dtype; /* of the accumulator: argmax: of the operand */
    Index at;    /* of the operand; reduced axes are filled in by the loops */
    int n_axes;
    int axis[MAX_RANK]; /* reduced, extents above 1, ascending */
    bool chain;         /* lanes are results of their own, not elements of one */
    bool narrow;        /* positions fit 32 bits */
    int n_partials;
    Partial slot[MAX_PARTIALS]; /* allocas */
} Reduction;

static double identity(int kind, DType t)
{
    const bool real = dtype_class(t) == DTC_REAL;
    const double top = real          ? INFINITY
                       : t == DT_I32 ? INT32_MAX
                       : t == DT_U8  ? UINT8_MAX
                                     : 0x1p63;
    const double bottom = real ? -INFINITY : t == DT_I32 ? INT32_MIN : t == DT_U8 ? 0 : -0x1p63;
    switch (kind) {
    case RED_SUM:
        return 0;
    case RED_MIN:
        return t == DT_BOOL ? 1 : top;
    default:
        return t == DT_BOOL ? 0 : bottom;
    }
}

static ScalarFn step_function(int kind, DType t)
{
    if (t == DT_BOOL)
        return kind == RED_MIN ? SC_AND : SC_OR;
    return kind == RED_SUM ? SC_ADD : kind == RED_MIN ? SC_MIN : SC_MAX;
}

static Reduction reduction_of(const Node *n, const Index *i)
{
    Reduction r = {.node = n, .operand = n->in[0], .kind = op_info(n->op)->data};
    const Shape *from = &r.operand->type.shape;
    const IntList *dims = &n->attrs.axes.dims;
    bool reduced[MAX_RANK] = {0};
    for (int k = 0; k < dims->n; k++)
        reduced[dims->v[k]] = true;
    r.dtype = r.kind == RED_ARGMAX ? r.operand->type.dtype : n->type.dtype;
    r.at.rank = from->rank;
    for (int k = 0, out = 0; k < from->rank; k++) {
        if (!reduced[k] || n->attrs.axes.keepdim)
            r.at.at[k] = i->at[out++];
        if (!reduced[k])
            continue;
        r.at.at[k] = affine_const(0);
        if (from->dim[k] > 1)
            r.axis[r.n_axes++] = k;
    }
    r.narrow = shape_count(from) <= INT32_MAX;
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

/* b joined to a; associative and, but for rounding of sums, commutative. */
static Partial join(Emit *e, const Reduction *r, Partial a, Partial b)
{
    if (r->kind != RED_ARGMAX) {
        LLVMValueRef x[2] = {a.value, b.value};
        return (Partial){.value = emit_scalar_fn(e, step_function(r->kind, r->dtype), r->dtype,
                                                 r->dtype, 2, x)};
    }
    LLVMValueRef first =
        r->chain ? overtakes(e, r->dtype, a.value, b.value) : before(e, r->dtype, b, a);
    return (Partial){.value = LLVMBuildSelect(e->builder, first, b.value, a.value, ""),
                     .position =
                         LLVMBuildSelect(e->builder, first, b.position, a.position, "")};
}

static LLVMTypeRef position_type(Emit *e, const Reduction *r, bool vector)
{
    const DType t = r->narrow ? DT_I32 : DT_I64;
    return vector ? emit_vector_type(e, t) : emit_type(e, t);
}

static Partial partial_load(Emit *e, const Reduction *r, int k, bool vector)
{
    LLVMTypeRef type = vector ? emit_vector_type(e, r->dtype) : emit_type(e, r->dtype);
    LLVMTypeRef index = position_type(e, r, vector);
    Partial p = {.value = LLVMBuildLoad2(e->builder, type, r->slot[k].value, "")};
    if (r->slot[k].position)
        p.position = LLVMBuildLoad2(e->builder, index, r->slot[k].position, "");
    return p;
}

static void partial_store(Emit *e, const Reduction *r, int k, Partial p)
{
    LLVMBuildStore(e->builder, p.value, r->slot[k].value);
    if (p.position)
        LLVMBuildStore(e->builder, p.position, r->slot[k].position);
}

static Partial partial_identity(Emit *e, const Reduction *r, bool vector)
{
    Partial p = {.value = emit_const(e, r->dtype, identity(r->kind, r->dtype))};
    if (r->kind == RED_ARGMAX)
        p.position = LLVMConstInt(position_type(e, r, false),
                                  r->chain    ? 0
                                  : r->narrow ? INT32_MAX
                                              : INT64_MAX,
                                  0);
    if (vector) {
        p.value = emit_splat(e, p.value);
        p.position = p.position ? emit_splat(e, p.position) : NULL;
    }
    return p;
}

static void partials_begin(Emit *e, Reduction *r, int n, bool vector)
{
    r->n_partials = n;
    for (int k = 0; k < n; k++) {
        LLVMTypeRef type = vector ? emit_vector_type(e, r->dtype) : emit_type(e, r->dtype);
        LLVMTypeRef index = position_type(e, r, vector);
        r->slot[k].value = emit_alloca(e, type, "acc");
        r->slot[k].position = r->kind == RED_ARGMAX ? emit_alloca(e, index, "at") : NULL;
        partial_store(e, r, k, partial_identity(e, r, vector));
    }
}

/* Row-major number of the element at r->at among the reduced ones. */
static Affine number_along(const Reduction *r)
{
    Affine number = affine_const(0);
    for (int k = 0; k < r->n_axes; k++) {
        number = affine_scale(&number, r->operand->type.shape.dim[r->axis[k]]);
        number = affine_add(&number, &r->at.at[r->axis[k]]);
    }
    return number;
}

/* Adds the operand at r->at to partial k; in a vectorised axis' tail the missing lanes add the identity. */
static void accumulate(Emit *e, Reduction *r, int k, bool vector)
{
    LLVMValueRef v = emit_eval(e, r->operand, &r->at);
    if (r->operand->type.dtype != r->dtype)
        v = emit_scalar_fn(e, SC_CAST, r->operand->type.dtype, r->dtype, 1, &v);
    Partial p = {.value = vector ? emit_splat(e, v) : v};
    if (r->kind == RED_ARGMAX) {
        const Affine number = number_along(r);
        p.position = emit_affine(e, &number);
        if (r->narrow)
            p.position = LLVMBuildTrunc(e->builder, p.position,
                                        position_type(e, r, emit_is_vector(p.position)), "");
        if (vector)
            p.position = emit_splat(e, p.position);
    }
    if (vector && !r->chain && e->active < e->lanes) {
        const Partial none = partial_identity(e, r, true);
        LLVMValueRef lane = emit_lane_numbers(e);
        LLVMValueRef inside = LLVMBuildICmp(
            e->builder, LLVMIntULT, lane,
            emit_int_like(e, emit_type(e, DT_I64), (uint64_t)e->active, lane), "");
        p.value = LLVMBuildSelect(e->builder, inside, p.value, none.value, "");
        if (p.position)
            p.position = LLVMBuildSelect(e->builder, inside, p.position, none.position, "");
    }
    partial_store(e, r, k, join(e, r, partial_load(e, r, k, vector), p));
}

static LLVMValueRef result_of(Emit *e, const Reduction *r, Partial p)
{
    if (r->kind != RED_ARGMAX)
        return p.value;
    return r->narrow ? LLVMBuildSExt(e->builder, p.position,
                                     emit_type_like(e, DT_I64, p.position), "")
                     : p.position;
}

/* Opens loops over the first n reduced axes. */
static void open_axes(Emit *e, Reduction *r, int n)
{
    for (int k = 0; k < n; k++)
        r->at.at[r->axis[k]] = emit_loop_begin(e, r->operand->type.shape.dim[r->axis[k]]);
}

static void close_axes(Emit *e, int n)
{
    for (int k = 0; k < n; k++)
        emit_loop_end(e);
}

/* Sums of sums: what the innermost axes add up to, in a partial of its own, is added to the next outer one's, so that
 * the rounding error grows with the extents' sum and not with their product. */
static void chain_axes(Emit *e, Reduction *r, int axis, int partial, bool lanes)
{
    if (axis == r->n_axes) {
        accumulate(e, r, partial, lanes);
        return;
    }
    r->at.at[r->axis[axis]] = emit_loop_begin(e, r->operand->type.shape.dim[r->axis[axis]]);
    const int inner =
        axis + 1 < r->n_axes && partial + 1 < r->n_partials ? partial + 1 : partial;
    if (inner != partial)
        partial_store(e, r, inner, partial_identity(e, r, lanes));
    chain_axes(e, r, axis + 1, inner, lanes);
    if (inner != partial)
        partial_store(
            e, r, partial,
            join(e, r, partial_load(e, r, partial, lanes), partial_load(e, r, inner, lanes)));
    emit_loop_end(e);
}

/* With lanes all of them are results of their own; inactive ones compute what nobody reads. */
static LLVMValueRef reduce_chain(Emit *e, Reduction *r, bool lanes)
{
    const int levels = r->n_axes < MAX_PARTIALS ? r->n_axes : MAX_PARTIALS;
    r->chain = true;
    partials_begin(e, r, r->kind == RED_SUM && levels > 0 ? levels : 1, lanes);
    chain_axes(e, r, 0, 0, lanes);
    return result_of(e, r, partial_load(e, r, 0, lanes));
}

static int partials_for(int64_t extent, int lanes)
{
    return extent >= 4 * lanes ? 4 : extent >= 2 * lanes ? 2 : 1;
}

/* One block of the vectorised axis, starting at base. */
static void add_block(Emit *e, Reduction *r, int axis, const Affine *base, int partial)
{
    const Affine lane = affine_var(INDEX_LANE);
    r->at.at[axis] = affine_add(base, &lane);
    accumulate(e, r, partial, true);
}

static void sum_axis(Emit *e, Reduction *r, int axis, int64_t extent)
{
    const int64_t W = e->lanes, U = r->n_partials;
    const int64_t rounds = extent / (W * U), blocks = extent / W, tail = extent % W;
    const int old = emit_set_active(e, e->lanes);
    if (rounds) {
        const Affine counter = emit_loop_begin(e, rounds);
        for (int u = 0; u < U; u++) {
            const Affine start = affine_scale(&counter, W * U),
                         base = affine_plus(&start, W * u);
            add_block(e, r, axis, &base, u);
        }
        emit_loop_end(e);
    }
    for (int64_t k = rounds * U; k < blocks; k++) {
        const Affine base = affine_const(W * k);
        add_block(e, r, axis, &base, (int)(k % U));
    }
    if (tail) {
        const Affine base = affine_const(W * blocks);
        emit_set_active(e, (int)tail);
        add_block(e, r, axis, &base, (int)(blocks % U));
    }
    emit_set_active(e, old);
}

static LLVMValueRef upper_half(Emit *e, LLVMValueRef v, unsigned half)
{
    LLVMValueRef lane[64];
    for (unsigned i = 0; i < half; i++)
        lane[i] = LLVMConstInt(LLVMInt32TypeInContext(e->context), half + i, 0);
    return LLVMBuildShuffleVector(e->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                  LLVMConstVector(lane, half), "");
}

static LLVMValueRef lower_half(Emit *e, LLVMValueRef v, unsigned half)
{
    LLVMValueRef lane[64];
    for (unsigned i = 0; i < half; i++)
        lane[i] = LLVMConstInt(LLVMInt32TypeInContext(e->context), i, 0);
    return LLVMBuildShuffleVector(e->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                  LLVMConstVector(lane, half), "");
}

static Partial fold(Emit *e, const Reduction *r)
{
    Partial p[MAX_PARTIALS];
    for (int k = 0; k < r->n_partials; k++)
        p[k] = partial_load(e, r, k, true);
    for (int half = r->n_partials / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; k++)
            p[k] = join(e, r, p[k], p[k + half]);
    for (unsigned half = (unsigned)e->lanes / 2; half >= 1; half /= 2) {
        Partial lo = {.value = lower_half(e, p[0].value, half)};
        Partial hi = {.value = upper_half(e, p[0].value, half)};
        if (p[0].position) {
            lo.position = lower_half(e, p[0].position, half);
            hi.position = upper_half(e, p[0].position, half);
        }
        p[0] = join(e, r, lo, hi);
    }
    LLVMValueRef zero = emit_const_i64(e, 0);
    p[0].value = LLVMBuildExtractElement(e->builder, p[0].value, zero, "");
    if (p[0].position)
        p[0].position = LLVMBuildExtractElement(e->builder, p[0].position, zero, "");
    return p[0];
}

static LLVMValueRef reduce_vectorised(Emit *e, Reduction *r)
{
    if (r->n_axes == 0) {
        partials_begin(e, r, 1, false);
        accumulate(e, r, 0, false);
        return result_of(e, r, partial_load(e, r, 0, false));
    }
    const int axis = r->axis[r->n_axes - 1];
    const int64_t extent = r->operand->type.shape.dim[axis];
    partials_begin(e, r, partials_for(extent, e->lanes), true);
    open_axes(e, r, r->n_axes - 1);
    emit_hide_lane_guards(e, true);
    sum_axis(e, r, axis, extent);
    emit_hide_lane_guards(e, false);
    close_axes(e, r->n_axes - 1);
    return result_of(e, r, fold(e, r));
}

/* The same rule as reduces_inner in passes/: the plan keeps lanes out of the index of such a reduction.  (Were there
 * one, a chain would still be right but for the order of rounding.) */
static bool is_inner(const Reduction *r)
{
    const Shape *s = &r->operand->type.shape;
    int last = s->rank - 1;
    while (last > 0 && s->dim[last] == 1)
        last--;
    return r->n_axes == 0 || r->axis[r->n_axes - 1] == last;
}

LLVMValueRef emit_reduce(Emit *e, const Node *n, const Index *i)
{
    Reduction r = reduction_of(n, i);
    const bool lanes = index_lanes(&e->space, i);
    return is_inner(&r) && !lanes ? reduce_vectorised(e, &r) : reduce_chain(e, &r, lanes);
}
