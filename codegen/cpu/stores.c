/* What a kernel stores at an index: first all values at a depth are evaluated, later they are
 * written.
 *
 * Guarded stores: an element of a state whose new value is not finite stays as it is, and a flag
 * tells the host.  A kernel clears its flags first, and raises one where it meets such an
 * element.  Lanes of a tail that do not count compute whatever they like, so they raise none.
 *
 * In loops over elements that is beside the way.  The sum of all new values is finite if each is
 * (but where it overflows, which does no harm), so one comparison for several blocks tells
 * whether they can be stored as they are; if not, each element is chosen.  The comparison is with
 * a limit that nothing is below when the step shall not be written at all: so an update needs no
 * selection by that either. */
#include <math.h>

#include "codegen/cpu/emit.h"

struct StoreBlock {
    Index i;
    int depth;
    const Node *ok;  /* whether the guarded ones are written; NULL: their values say so */
    LLVMValueRef *v; /* by store */
    LLVMValueRef condition; /* of ok */
};

int emit_store_depth(const Kernel *k, const Store *s)
{
    int depth = 0;
    if (s->value->type.shape.rank == k->space.rank)
        for (int d = 0; d < k->space.rank; d++)
            if (s->value->type.shape.dim[k->order[d]] != 1)
                depth = d + 1;
    return depth;
}

/* ---- flags ---- */

void emit_flags_clear(Emit *e)
{
    const Affine zero = affine_const(0);
    for (int i = 0; i < e->kernel->n_stores; i++)
        if (e->kernel->stores[i].flag)
            emit_store(e, e->kernel->stores[i].flag, &zero, DT_F64, emit_const(e, DT_F64, 0));
}

/* i1: does it hold in any lane that counts? */
static LLVMValueRef any_lane(Emit *e, LLVMValueRef bad)
{
    if (!emit_is_vector(bad))
        return bad;
    if (e->active < e->lanes)
        bad = LLVMBuildAnd(e->builder, bad, emit_active_mask(e), "");
    LLVMTypeRef bits = LLVMIntTypeInContext(e->context, (unsigned)e->lanes);
    bad = LLVMBuildBitCast(e->builder, bad, bits, "");
    return LLVMBuildICmp(e->builder, LLVMIntNE, bad, LLVMConstNull(bits), "");
}

static void raise_flag(Emit *e, const Buffer *flag, LLVMValueRef finite)
{
    const Affine zero = affine_const(0);
    LLVMValueRef x[3] = {any_lane(e, LLVMBuildNot(e->builder, finite, "")),
                         emit_const(e, DT_F64, 1), emit_load(e, flag, &zero)};
    emit_store(e, flag, &zero, DT_F64, emit_scalar_fn(e, SC_WHERE, DT_F64, DT_F64, 3, x));
}

/* What the place holds, read again: else LLVM would keep what the values were computed from in
 * registers that the loop has better uses for. */
static LLVMValueRef load_old(Emit *e, const Store *s, const Affine *offset)
{
    LLVMValueRef old = emit_load(e, s->to, offset);
    if (LLVMIsALoadInst(old))
        LLVMSetVolatile(old, 1);
    return old;
}

/* v where it is finite, else what the place holds. */
static LLVMValueRef guarded(Emit *e, const Store *s, const Affine *offset, LLVMValueRef v)
{
    const DType t = s->to->dtype;
    if (!s->flag)
        return v;
    LLVMValueRef old = load_old(e, s, offset);
    LLVMValueRef finite = emit_scalar_fn(e, SC_ISFINITE, t, DT_BOOL, 1, &v);
    raise_flag(e, s->flag, finite);
    LLVMValueRef x[3] = {finite, v, old};
    return emit_scalar_fn(e, SC_WHERE, t, t, 3, x);
}

/* ---- one place after the other ---- */

static Affine store_offset(Emit *e, const Store *s, const Index *i)
{
    const Index at = index_broadcast(&s->to->shape, i);
    return index_offset(&e->space, &s->to->shape, s->to->stride, &at);
}

static LLVMValueRef value_at(Emit *e, const Node *n, const Index *i)
{
    const Index at = index_broadcast(&n->type.shape, i);
    return emit_eval(e, n, &at);
}

void emit_guarded_store(Emit *e, const Store *s, const Affine *offset, LLVMValueRef v)
{
    emit_store(e, s->to, offset, s->value->type.dtype, guarded(e, s, offset, v));
}

void emit_stores_at(Emit *e, const Index *i)
{
    const Kernel *k = e->kernel;
    LLVMValueRef *v = arena_array(e->arena, (size_t)k->n_stores, sizeof *v);
    for (int s = 0; s < k->n_stores; s++)
        v[s] = value_at(e, k->stores[s].value, i);
    for (int s = 0; s < k->n_stores; s++) {
        const Affine offset = store_offset(e, &k->stores[s], i);
        emit_guarded_store(e, &k->stores[s], &offset, v[s]);
    }
}

/* ---- blocks in loops ---- */

static bool stands_in(const Kernel *k, const Store *s, const StoreBlock *b, bool with_flag)
{
    return emit_store_depth(k, s) == b->depth && (s->flag != NULL) == with_flag;
}

/* The condition of where(ok, new, old) of the state itself, or NULL. */
static const Node *condition_of(const Emit *e, const Store *s)
{
    const Node *n = s->value;
    if (emit_readable(e, n) || n->op != OP_WHERE || n->in[0]->type.shape.rank > 0 ||
        n->in[2]->op != OP_STATE || e->entry->buffer[n->in[2]->id] != s->to)
        return NULL;
    return n->in[0];
}

/* If it is the same for all guarded stores. */
static const Node *common_condition(const Emit *e, const StoreBlock *b)
{
    const Kernel *k = e->kernel;
    const Node *ok = NULL;
    bool first = true;
    for (int s = 0; s < k->n_stores; s++) {
        if (!stands_in(k, &k->stores[s], b, true))
            continue;
        const Node *here = condition_of(e, &k->stores[s]);
        if (!here || (!first && here != ok))
            return NULL;
        ok = here;
        first = false;
    }
    return ok;
}

StoreBlock *emit_stores_evaluate(Emit *e, const Index *i, int depth)
{
    const Kernel *k = e->kernel;
    StoreBlock *b = arena_alloc(e->arena, sizeof *b);
    *b = (StoreBlock){.i = *i, .depth = depth};
    b->v = arena_array(e->arena, (size_t)k->n_stores + 1, sizeof(LLVMValueRef));
    b->ok = common_condition(e, b);
    b->condition = b->ok ? value_at(e, b->ok, i) : NULL;
    for (int s = 0; s < k->n_stores; s++) {
        const Node *n = k->stores[s].value;
        if (emit_store_depth(k, &k->stores[s]) == depth)
            b->v[s] = value_at(e, k->stores[s].flag && b->ok ? n->in[1] : n, i);
    }
    return b;
}

/* Of one element type: NULL if there is no guarded store of it. */
static LLVMValueRef sum_of(Emit *e, int n, StoreBlock *const *block, DType t)
{
    const Kernel *k = e->kernel;
    LLVMValueRef total = NULL;
    for (int b = 0; b < n; b++) {
        LLVMValueRef sum = NULL;
        for (int s = 0; s < k->n_stores; s++) {
            if (k->stores[s].to->dtype != t || !stands_in(k, &k->stores[s], block[b], true))
                continue;
            LLVMValueRef x[2] = {sum, block[b]->v[s]};
            sum = sum ? emit_scalar_fn(e, SC_ADD, t, t, 2, x) : block[b]->v[s];
        }
        LLVMValueRef x[2] = {total, sum};
        total = total && sum ? emit_scalar_fn(e, SC_ADD, t, t, 2, x) : sum;
    }
    return total;
}

/* i1: can the blocks' guarded stores be written as they are?  NULL: there is none. */
static LLVMValueRef blocks_hold(Emit *e, int n, StoreBlock *const *block)
{
    LLVMValueRef bad = NULL;
    for (int t = 0; t < DT_COUNT; t++) {
        LLVMValueRef sum = sum_of(e, n, block, (DType)t);
        if (!sum)
            continue;
        LLVMValueRef limit = emit_const(e, (DType)t, INFINITY);
        if (block[0]->condition)
            limit = LLVMBuildSelect(e->builder, block[0]->condition, limit,
                                    emit_const(e, (DType)t, -1), "");
        LLVMValueRef size = emit_scalar_fn(e, SC_ABS, (DType)t, (DType)t, 1, &sum);
        if (emit_is_vector(size))
            limit = emit_splat(e, limit);
        LLVMValueRef here =
            any_lane(e, LLVMBuildFCmp(e->builder, LLVMRealUGE, size, limit, ""));
        bad = bad ? LLVMBuildOr(e->builder, bad, here, "") : here;
    }
    return bad ? LLVMBuildNot(e->builder, bad, "") : NULL;
}

static LLVMValueRef chosen(Emit *e, const Store *s, const StoreBlock *b, const Affine *offset,
                           LLVMValueRef v)
{
    if (b->condition) {
        LLVMValueRef x[3] = {b->condition, v, load_old(e, s, offset)};
        v = emit_scalar_fn(e, SC_WHERE, s->to->dtype, s->to->dtype, 3, x);
    }
    return guarded(e, s, offset, v);
}

static void write_block(Emit *e, const StoreBlock *b, bool with_flag, bool choose)
{
    const Kernel *k = e->kernel;
    for (int s = 0; s < k->n_stores; s++) {
        const Store *store = &k->stores[s];
        if (!stands_in(k, store, b, with_flag))
            continue;
        const Affine offset = store_offset(e, store, &b->i);
        emit_store(e, store->to, &offset, store->value->type.dtype,
                   choose ? chosen(e, store, b, &offset, b->v[s]) : b->v[s]);
    }
}

static void stand_in(Emit *e, LLVMBasicBlockRef way)
{
    e->level->block = way;
    LLVMPositionBuilderAtEnd(e->builder, way);
}

/* The current level goes on behind both ways. */
void emit_stores_write(Emit *e, int n, StoreBlock *const *block)
{
    for (int b = 0; b < n; b++)
        write_block(e, block[b], false, false);
    LLVMValueRef finite = blocks_hold(e, n, block);
    if (!finite)
        return;
    LLVMBasicBlockRef way[3];
    for (int k = 0; k < 3; k++)
        way[k] = LLVMAppendBasicBlockInContext(e->context, e->function, "stores");
    LLVMBuildCondBr(e->builder, finite, way[0], way[1]);
    for (int k = 0; k < 2; k++) {
        stand_in(e, way[k]);
        for (int b = 0; b < n; b++)
            write_block(e, block[b], true, k == 1);
        LLVMBuildBr(e->builder, way[2]);
    }
    stand_in(e, way[2]);
}
