/* The sums of one tile: one ascending chain of fused multiply-adds per output, the last summed
 * letter innermost.
 *
 * A step loads the tile's vectors once and broadcasts one scalar per row.  Addresses within a
 * step differ from one pointer per operand by constants only, so that they fold into the
 * instructions and no address register is spilled. With chunks every chain starts from zero and
 * is added to a total. */
#include "codegen/cpu/contract.h"

#include "codegen/cpu/scalar.h"

enum {
    STEP_BUDGET = 48,
    MAX_UNROLL = 8
};

int64_t tile_row_offset(const Contract *x, const Tile *t, int r, int l)
{
    int64_t rest = r;
    for (int i = x->c.n_out - 1; i > l; i--)
        rest /= t->rows[i];
    return rest % t->rows[l];
}

/* Steps per group of the loop: about as much code for each tile, preferably without a rest. */
static int64_t choose_unroll(const Tile *t, int64_t count)
{
    int64_t most = STEP_BUDGET / (t->n_rows * t->n_vectors);
    most = most < 2 ? 2 : most > MAX_UNROLL ? MAX_UNROLL : most;
    if (count <= most)
        return count;
    for (int64_t u = most; 2 * u > most; u--)
        if (count % u == 0)
            return u;
    return most;
}

LLVMValueRef tile_step_pointer(Contract *x, const Operand *o)
{
    Affine sum = affine_const(0);
    for (int l = x->c.n_out; l < x->c.n_out + x->c.n_sum; l++) {
        const Affine part = affine_scale(&x->at[l], o->stride[l]);
        sum = affine_add(&sum, &part);
    }
    return emit_element(x->e, o->base, emit_affine(x->e, &sum), x->type);
}

/* An operand that is no plain buffer: evaluated at the letters' indices plus offsets. */
static LLVMValueRef evaluate(Contract *x, const Operand *o, const Tile *t, int row,
                             int64_t vector, int64_t step)
{
    const int last = x->c.n_out + x->c.n_sum - 1, lane = x->c.n_out - 1;
    Index i = {.rank = o->node->type.shape.rank};
    for (int l = 0; l <= last; l++) {
        if (x->c.letter[l].in[o->which] < 0)
            continue;
        int64_t plus = l == last ? step : 0;
        if (l == lane)
            plus = vector * x->e->lanes;
        else if (l < lane && row >= 0)
            plus = tile_row_offset(x, t, row, l);
        Affine at = affine_plus(&x->at[l], plus);
        if (l == lane) {
            const Affine lanes = affine_var(AFFINE_LANE);
            at = affine_add(&at, &lanes);
        }
        i.at[x->c.letter[l].in[o->which]] = at;
    }
    return emit_eval(x->e, o->node, &i);
}

LLVMValueRef tile_load_vector(Contract *x, const Tile *t, LLVMValueRef pointer, int v,
                              int64_t step)
{
    const int last = x->c.n_out + x->c.n_sum - 1;
    const bool packed = x->vector.direct && !x->vector.buffer; /* missing lanes are 0 there */
    const int old =
        emit_set_active(x->e, v + 1 == t->n_vectors && !packed ? t->active : x->e->lanes);
    LLVMValueRef value;
    if (x->vector.direct) {
        const int64_t at = (int64_t)v * x->e->lanes + step * x->vector.stride[last];
        value = emit_load_vector(x->e, x->vector.buffer,
                                 emit_element(x->e, pointer, emit_const_i64(x->e, at), x->type),
                                 x->type);
    } else {
        value = emit_splat(x->e, evaluate(x, &x->vector, t, -1, v, step));
    }
    emit_set_active(x->e, old);
    return value;
}

static LLVMValueRef load_scalar(Contract *x, const Tile *t, LLVMValueRef pointer, int row,
                                int64_t step)
{
    if (!x->scalar.direct)
        return emit_splat(x->e, evaluate(x, &x->scalar, t, row, 0, step));
    const int last = x->c.n_out + x->c.n_sum - 1;
    int64_t at = step * x->scalar.stride[last];
    for (int l = 0; l < x->c.n_out; l++)
        at += tile_row_offset(x, t, row, l) * x->scalar.stride[l];
    LLVMValueRef p = emit_element(x->e, pointer, emit_const_i64(x->e, at), x->type);
    return emit_splat(x->e, emit_load_scalar(x->e, x->scalar.buffer, p, x->type));
}

static LLVMValueRef load_sum(Contract *x, LLVMValueRef place)
{
    return LLVMBuildLoad2(x->e->builder, emit_vector_type(x->e, x->type), place, "");
}

/* `count` steps from x->at on, as straight code. */
static void emit_steps(Contract *x, Tile *t, int64_t count)
{
    Emit *e = x->e;
    const int n = t->n_rows * t->n_vectors;
    LLVMValueRef *sum = arena_array(e->arena, (size_t)n, sizeof *sum);
    LLVMValueRef *vector = arena_array(e->arena, (size_t)t->n_vectors, sizeof *vector);
    LLVMValueRef scalars = x->scalar.direct ? tile_step_pointer(x, &x->scalar) : NULL;
    LLVMValueRef vectors = x->vector.direct ? tile_step_pointer(x, &x->vector) : NULL;
    for (int i = 0; i < n; i++)
        sum[i] = load_sum(x, t->sum[i]);
    for (int64_t step = 0; step < count; step++) {
        for (int v = 0; v < t->n_vectors; v++)
            vector[v] = tile_load_vector(x, t, vectors, v, step);
        for (int r = 0; r < t->n_rows; r++) {
            LLVMValueRef s = load_scalar(x, t, scalars, r, step);
            for (int v = 0; v < t->n_vectors; v++) {
                LLVMValueRef *to = &sum[r * t->n_vectors + v];
                *to = scalar_emit(e->builder, SC_FMA, x->type, x->type,
                                  (LLVMValueRef[]){s, vector[v], *to});
            }
        }
    }
    for (int i = 0; i < n; i++)
        LLVMBuildStore(e->builder, sum[i], t->sum[i]);
}

/* One chain: `count` steps of the last letter from `start` on. */
static void emit_chain(Contract *x, Tile *t, const Affine *start, int64_t count)
{
    const int last = x->c.n_out + x->c.n_sum - 1;
    const int64_t unroll = choose_unroll(t, count), groups = count / unroll;
    const Affine group = emit_loop_begin(x->e, groups);
    const Affine steps = affine_scale(&group, unroll);
    x->at[last] = affine_add(start, &steps);
    emit_steps(x, t, unroll);
    emit_loop_end(x->e);
    if (count % unroll) {
        x->at[last] = affine_plus(start, groups * unroll);
        emit_steps(x, t, count % unroll);
    }
}

/* Totals stay in memory (volatile): as registers they would push the sums out of theirs in the
 * inner loop. */
LLVMValueRef tile_load_total(Contract *x, LLVMValueRef place)
{
    LLVMValueRef v = load_sum(x, place);
    LLVMSetVolatile(v, true);
    return v;
}

static void store_total(Contract *x, LLVMValueRef v, LLVMValueRef place)
{
    LLVMSetVolatile(LLVMBuildStore(x->e->builder, v, place), true);
}

static void set_zero(Contract *x, const Tile *t)
{
    LLVMValueRef zero = LLVMConstNull(emit_vector_type(x->e, x->type));
    for (int i = 0; i < t->n_rows * t->n_vectors; i++)
        LLVMBuildStore(x->e->builder, zero, t->sum[i]);
}

static void add_to_total(Contract *x, const Tile *t)
{
    for (int i = 0; i < t->n_rows * t->n_vectors; i++) {
        LLVMValueRef pair[2] = {tile_load_total(x, t->total[i]), load_sum(x, t->sum[i])};
        store_total(x, scalar_emit(x->e->builder, SC_ADD, x->type, x->type, pair), t->total[i]);
    }
}

/* One chain over `count` steps of a letter from `start` on, and all of the letters inside it. */
static void emit_range(Contract *x, Tile *t, int letter, const Affine *start, int64_t count)
{
    if (letter == x->c.n_out + x->c.n_sum - 1) {
        emit_chain(x, t, start, count);
        return;
    }
    const Affine step = emit_loop_begin(x->e, count), zero = affine_const(0);
    x->at[letter] = affine_add(start, &step);
    emit_range(x, t, letter + 1, &zero, x->c.letter[letter + 1].extent);
    emit_loop_end(x->e);
}

static void emit_chunk(Contract *x, Tile *t, const Affine *start, int64_t count)
{
    set_zero(x, t);
    emit_range(x, t, x->c.cut, start, count);
    add_to_total(x, t);
}

/* All chunks of the letter that is cut. */
static void emit_chunks(Contract *x, Tile *t)
{
    const int64_t extent = x->c.letter[x->c.cut].extent, steps = x->c.cut_steps;
    if (extent / steps) {
        const Affine number = emit_loop_begin(x->e, extent / steps);
        const Affine start = affine_scale(&number, steps);
        emit_chunk(x, t, &start, steps);
        emit_loop_end(x->e);
    }
    if (extent % steps) {
        const Affine start = affine_const(extent / steps * steps);
        emit_chunk(x, t, &start, extent % steps);
    }
}

static void emit_letters(Contract *x, Tile *t, int letter)
{
    if (letter == x->c.cut) {
        emit_chunks(x, t);
        return;
    }
    x->at[letter] = emit_loop_begin(x->e, x->c.letter[letter].extent);
    emit_letters(x, t, letter + 1);
    emit_loop_end(x->e);
}

void tile_set_base(Contract *x, Operand *o)
{
    if (!o->buffer)
        return;
    Affine sum = affine_const(o->offset);
    for (int l = 0; l < x->c.n_out; l++) {
        const Affine part = affine_scale(&x->at[l], o->stride[l]);
        sum = affine_add(&sum, &part);
    }
    LLVMValueRef first = emit_buffer(x->e, o->buffer);
    o->base = emit_element(x->e, first, emit_affine(x->e, &sum), x->type);
}

void tile_emit_sums(Contract *x, Tile *t)
{
    tile_set_base(x, &x->scalar);
    tile_set_base(x, &x->vector);
    set_zero(x, t);
    if (x->c.n_chunks == 1 || x->chunks_outside) {
        emit_range(x, t, x->c.cut, &x->chunk_start, x->chunk_steps);
        return;
    }
    for (int i = 0; i < t->n_rows * t->n_vectors; i++)
        store_total(x, LLVMConstNull(emit_vector_type(x->e, x->type)), t->total[i]);
    emit_letters(x, t, x->c.n_out);
}
