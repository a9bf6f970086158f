/* Copies of panels: the vector operand's columns of one tile, all steps of the sum one behind the
 * other.
 *
 * Worth it where the operand must be evaluated, or where its rows lie so far apart that they
 * share few cache sets, and there are enough rows to pay for the copy. */
#include "codegen/cpu/contract.h"

enum {
    MAX_PANEL = 256 << 10,
    LINE = 64,
    SETS = 64,
    WAYS = 8,
    ENOUGH_ROWS = 64,
    FAR = 1024
};

/* Do the panel's cache lines find room in the sets they fall into? */
static bool lines_collide(int64_t rows, int64_t row_bytes, int64_t stride_bytes)
{
    if (stride_bytes % LINE)
        return false;
    int64_t step = stride_bytes / LINE, period = SETS;
    while (step % 2 == 0 && period > 1) {
        step /= 2;
        period /= 2;
    }
    const int64_t lines = (row_bytes + LINE - 1) / LINE;
    const int64_t sets = period * lines < SETS ? period * lines : SETS;
    return rows * lines > sets * WAYS;
}

bool pack_pays(const Contract *x)
{
    const int64_t row_bytes = x->shape.vectors * x->e->lanes * dtype_bytes(x->type);
    int64_t tile_rows = 1;
    for (int l = 0; l < x->c.n_out; l++)
        tile_rows *= x->shape.rows[l];
    if (x->c.k * row_bytes > MAX_PANEL || x->c.m <= tile_rows)
        return false;
    if (!x->vector.direct)
        return true;
    const int last = x->c.n_out + x->c.n_sum - 1;
    const int64_t stride_bytes = x->vector.stride[last] * dtype_bytes(x->type);
    return x->c.m >= ENOUGH_ROWS && (stride_bytes >= FAR || stride_bytes > row_bytes) &&
           lines_collide(x->c.k, row_bytes, stride_bytes);
}

/* Strides of the packed panel: its rows are the steps of the sum in order. */
static Operand packed_operand(const Contract *x, const Tile *t)
{
    Operand o = {
        .node = x->vector.node, .which = x->vector.which, .direct = true, .base = x->panel};
    int64_t stride = (int64_t)t->n_vectors * x->e->lanes;
    for (int l = x->c.n_out + x->c.n_sum - 1; l >= x->c.n_out; l--) {
        o.stride[l] = stride;
        stride *= x->c.letter[l].extent;
    }
    return o;
}

static void copy_row(Contract *x, const Tile *t, const Operand *packed)
{
    LLVMValueRef to = tile_step_pointer(x, packed);
    LLVMValueRef from = x->vector.direct ? tile_step_pointer(x, &x->vector) : NULL;
    for (int v = 0; v < t->n_vectors; v++) {
        LLVMValueRef value = tile_load_vector(x, t, from, v, 0);
        LLVMValueRef place =
            emit_element(x->e, to, emit_const_i64(x->e, (int64_t)v * x->e->lanes), x->type);
        LLVMSetAlignment(LLVMBuildStore(x->e->builder, value, place),
                         (unsigned)x->e->vector_bytes);
    }
}

static void copy_letters(Contract *x, const Tile *t, const Operand *packed, int letter)
{
    if (letter == x->c.n_out + x->c.n_sum) {
        copy_row(x, t, packed);
        return;
    }
    x->at[letter] = emit_loop_begin(x->e, x->c.letter[letter].extent);
    copy_letters(x, t, packed, letter + 1);
    emit_loop_end(x->e);
}

Operand pack_panel(Contract *x, const Tile *t)
{
    const Operand packed = packed_operand(x, t);
    tile_set_base(x, &x->vector);
    copy_letters(x, t, &packed, x->c.n_out);
    return packed;
}
