/* Copies that change the order of axes: a kernel whose one value is a buffer seen through views,
 * where the store runs along axis a and the source lies contiguous along another axis b.
 *
 * Blocks of W x W are loaded along b, transposed in registers in log2 W rounds of two-operand
 * shuffles, and stored along a; at the edges rows are left out and lanes masked.  Any other
 * kernel is left to the general nest. */
#include "codegen/cpu/emit.h"

#include <string.h>

typedef struct Transpose {
    const Buffer *from, *to;
    int64_t stride[MAX_RANK], offset; /* of the source, per axis of the space */
    int a, b;
    DType dtype;
} Transpose;

static bool find_transpose(Emit *e, Transpose *t)
{
    const Kernel *k = e->kernel;
    if (k->n_stores != 1 || k->vector < 0)
        return false;
    const Store *s = &k->stores[0];
    const Shape *shape = &s->value->type.shape;
    *t = (Transpose){.to = s->to, .a = k->vector, .b = -1, .dtype = s->value->type.dtype};
    if (!shape_equal(shape, &k->space) || s->to->dtype != t->dtype || s->to->stride[t->a] != 1)
        return false;
    t->from = kernel_operand(&e->space, e->entry, k, s->value, t->stride, &t->offset);
    if (!t->from || t->from->dtype != t->dtype || t->stride[t->a] <= 1)
        return false;
    for (int d = 0; d < shape->rank; d++)
        if (t->stride[d] == 1 && shape->dim[d] > 1)
            t->b = d;
    return t->b >= 0 && shape->dim[t->a] >= 4 && shape->dim[t->b] >= 4;
}

/* One round for rows i and i + s: the elements of lanes with bit s change places. */
static void exchange(Emit *e, LLVMValueRef *row, int i, int s)
{
    LLVMValueRef low[MAX_LANES], high[MAX_LANES];
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    const int W = e->lanes;
    for (int l = 0; l < W; l++) {
        const bool upper = l & s;
        low[l] = LLVMConstInt(i32, (unsigned)(upper ? W + l - s : l), 0);
        high[l] = LLVMConstInt(i32, (unsigned)(upper ? W + l : l + s), 0);
    }
    LLVMValueRef x = row[i], y = row[i + s];
    row[i] = LLVMBuildShuffleVector(e->builder, x, y, LLVMConstVector(low, (unsigned)W), "");
    row[i + s] =
        LLVMBuildShuffleVector(e->builder, x, y, LLVMConstVector(high, (unsigned)W), "");
}

static Affine source_offset(const Emit *e, const Transpose *t, const Index *i)
{
    const Affine at = index_offset(&e->space, &e->kernel->space, t->stride, i);
    return affine_plus(&at, t->offset);
}

/* The block of n_a x n_b elements at i (first elements). */
static void emit_block(Emit *e, const Transpose *t, const Index *i, int n_a, int n_b)
{
    LLVMValueRef row[MAX_LANES];
    const Affine lane = affine_var(AFFINE_LANE);
    const int old = emit_set_active(e, n_b);
    Index at = *i;
    at.at[t->b] = affine_add(&i->at[t->b], &lane);
    for (int k = 0; k < e->lanes; k++) {
        at.at[t->a] = affine_plus(&i->at[t->a], k);
        const Affine offset = source_offset(e, t, &at);
        row[k] = k < n_a ? emit_load(e, t->from, &offset)
                         : LLVMGetPoison(emit_vector_type(e, t->dtype));
    }
    for (int s = 1; s < e->lanes; s *= 2)
        for (int k = 0; k < e->lanes; k++)
            if (!(k & s))
                exchange(e, row, k, s);
    emit_set_active(e, n_a);
    at.at[t->a] = affine_add(&i->at[t->a], &lane);
    for (int k = 0; k < n_b; k++) {
        at.at[t->b] = affine_plus(&i->at[t->b], k);
        const Affine offset = index_offset(&e->space, &t->to->shape, t->to->stride, &at);
        emit_guarded_store(e, &e->kernel->stores[0], &offset, row[k]);
    }
    emit_set_active(e, old);
}

/* All blocks along b, for n_a elements of a from i->at[a]. */
static void emit_strip(Emit *e, const Transpose *t, Index *i, int n_a)
{
    const int64_t extent = e->kernel->space.dim[t->b], blocks = extent / e->lanes;
    if (blocks) {
        const Affine counter = emit_loop_begin(e, blocks);
        i->at[t->b] = affine_scale(&counter, e->lanes);
        emit_block(e, t, i, n_a, e->lanes);
        emit_loop_end(e);
    }
    if (extent % e->lanes) {
        i->at[t->b] = affine_const(blocks * e->lanes);
        emit_block(e, t, i, n_a, (int)(extent % e->lanes));
    }
}

bool emit_transpose(Emit *e)
{
    Transpose t;
    if (!find_transpose(e, &t))
        return false;
    const Shape *space = &e->kernel->space;
    Index i = {.rank = space->rank};
    const int64_t extent = space->dim[t.a], blocks = extent / e->lanes;
    int outermost = t.a;
    for (int d = space->rank - 1; d >= 0; d--)
        if (d != t.a && d != t.b && space->dim[d] > 1)
            outermost = d;
    if (emit_parts_apart(e->kernel, outermost))
        e->n_work = outermost != t.a ? space->dim[outermost] : blocks + (extent % e->lanes > 0);
    for (int d = 0; d < space->rank; d++)
        if (d != t.a && d != t.b)
            i.at[d] = emit_shared_begin(e, d == outermost, 0, space->dim[d]);
    if (blocks) {
        const Affine counter = emit_shared_begin(e, outermost == t.a, 0, blocks);
        i.at[t.a] = affine_scale(&counter, e->lanes);
        emit_strip(e, &t, &i, e->lanes);
        emit_loop_end(e);
    }
    if (extent % e->lanes) {
        emit_shared_begin(e, outermost == t.a, blocks, 1);
        i.at[t.a] = affine_const(blocks * e->lanes);
        emit_strip(e, &t, &i, (int)(extent % e->lanes));
        emit_loop_end(e);
    }
    for (int d = 0; d < space->rank - 2; d++)
        emit_loop_end(e);
    return true;
}
