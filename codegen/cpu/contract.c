/* A contraction's kernel: loops over register tiles of the result, each finished by the kernel's
 * stores.
 *
 * Loops from outside: batch letters and the "n" letters but the vector letter; large blocks of
 * rows; tiles along the vector letter; tiles along the "m" letters.  So a panel of the vector
 * operand, as wide as a tile and as long as the sums, stays in the first level cache while the
 * block's rows, in the second, go by.  Bits do not depend on any of this: see contract_tile.c.
 *
 * Threads can share the outermost loop over more than one tile, but rather rows than columns: each
 * tile is some thread's as a whole, with all its chunks. */
#include "codegen/cpu/contract.h"

enum {
    HEAVY = 12,
    CACHED = 512 << 10,
    FIRST_LEVEL = 32 << 10
};

static void find_operand(Contract *x, Operand *o, int which)
{
    o->node = x->c.node->in[which];
    o->which = which;
    int64_t stride[MAX_RANK];
    const Buffer *b =
        kernel_operand(&x->e->space, x->e->entry, x->e->kernel, o->node, stride, &o->offset);
    if (!b || b->dtype != x->type)
        return;
    for (int l = 0; l < x->c.n_out + x->c.n_sum; l++) {
        const int axis = x->c.letter[l].in[which];
        o->stride[l] = axis < 0 || x->c.letter[l].extent == 1 ? 0 : stride[axis];
    }
    const int lane = x->c.n_out - 1;
    const bool rows_of_lanes = o->stride[lane] == 1 || x->c.letter[lane].extent == 1;
    if (which != x->c.vector_operand || rows_of_lanes) {
        o->buffer = b;
        o->direct = true;
    }
}

/* Rough instructions per vector between the sum and the stores. */
static int epilogue_cost(const Contract *x, const Node *n)
{
    if (n == x->c.node || emit_readable(x->e, n))
        return 0;
    const OpInfo *info = op_info(n->op);
    int cost = info->kind == KIND_EXPR ? scalar_cost((ScalarFn)info->data) : 1;
    for (int i = 0; i < n->n_in && cost < HEAVY; i++)
        cost += epilogue_cost(x, n->in[i]);
    return cost;
}

static bool is_heavy(const Contract *x)
{
    int cost = 0;
    for (int s = 0; s < x->e->kernel->n_stores; s++)
        cost += epilogue_cost(x, x->e->kernel->stores[s].value);
    return cost >= HEAVY;
}

/* The result's index: the tile's place plus, by letter, what is added. */
static Index result_index(const Contract *x, const Affine *plus, int64_t vector)
{
    Index i = {.rank = x->c.n_out};
    for (int l = 0; l < x->c.n_out; l++)
        i.at[x->c.letter[l].out] = affine_add(&x->at[l], &plus[l]);
    const int lane = x->c.n_out - 1;
    Affine *at = &i.at[x->c.letter[lane].out];
    const Affine lanes = affine_var(AFFINE_LANE);
    *at = affine_plus(at, vector * x->e->lanes);
    *at = affine_add(at, &lanes);
    return i;
}

/* Chunks before this one have left their sum in the result's place. */
static LLVMValueRef add_to_stored(Contract *x, const Index *i, LLVMValueRef sum)
{
    Emit *e = x->e;
    const Buffer *to = e->kernel->stores[0].to;
    const Affine offset = index_offset(&e->space, &to->shape, to->stride, i);
    LLVMValueRef old = emit_load(e, to, &offset);
    LLVMValueRef first = emit_is_vector(old) ? emit_splat(e, x->first_chunk) : x->first_chunk;
    LLVMValueRef pair[2] = {
        LLVMBuildSelect(e->builder, first, LLVMConstNull(LLVMTypeOf(old)), old, ""), sum};
    return emit_scalar_fn(e, SC_ADD, x->type, x->type, 2, pair);
}

static void store_vector(Contract *x, const Tile *t, const Affine *plus, int v,
                         LLVMValueRef sum)
{
    Emit *e = x->e;
    const int old = emit_set_active(e, v + 1 == t->n_vectors ? t->active : e->lanes);
    const Index i = result_index(x, plus, v);
    if (x->c.letter[x->c.n_out - 1].extent == 1)
        sum = LLVMBuildExtractElement(e->builder, sum, emit_const_i64(e, 0), "");
    if (x->chunks_outside)
        sum = add_to_stored(x, &i, sum);
    emit_bind(e, x->c.node, &i, sum);
    emit_stores_at(e, &i);
    emit_set_active(e, old);
}

static LLVMValueRef load_result(Contract *x, const Tile *t, int i)
{
    if (t->total)
        return tile_load_total(x, t->total[i]);
    return LLVMBuildLoad2(x->e->builder, emit_vector_type(x->e, x->type), t->sum[i], "");
}

/* Short epilogues: once per register, as straight code. */
static void store_straight(Contract *x, const Tile *t)
{
    for (int r = 0; r < t->n_rows; r++) {
        Affine plus[MAX_RANK];
        for (int l = 0; l < x->c.n_out; l++)
            plus[l] = affine_const(tile_row_offset(x, t, r, l));
        for (int v = 0; v < t->n_vectors; v++)
            store_vector(x, t, plus, v, load_result(x, t, r * t->n_vectors + v));
    }
}

/* Long ones: the sums go through the stack and the code is there once per vector. */
static void store_rows(Contract *x, const Tile *t, LLVMValueRef stack, Affine *plus, int letter,
                       const Affine *row)
{
    if (letter < x->c.n_out) {
        plus[letter] = emit_loop_begin(x->e, t->rows[letter]);
        const Affine before = affine_scale(row, t->rows[letter]);
        const Affine here = affine_add(&before, &plus[letter]);
        store_rows(x, t, stack, plus, letter + 1, &here);
        emit_loop_end(x->e);
        return;
    }
    LLVMTypeRef type = emit_vector_type(x->e, x->type);
    const Affine first = affine_scale(row, t->n_vectors);
    for (int v = 0; v < t->n_vectors; v++) {
        const Affine number = affine_plus(&first, v);
        LLVMValueRef at = emit_affine(x->e, &number);
        LLVMValueRef p = LLVMBuildInBoundsGEP2(x->e->builder, type, stack, &at, 1, "");
        store_vector(x, t, plus, v, LLVMBuildLoad2(x->e->builder, type, p, ""));
    }
}

static void store_looped(Contract *x, const Tile *t)
{
    const int n = t->n_rows * t->n_vectors;
    LLVMTypeRef type = emit_vector_type(x->e, x->type);
    LLVMValueRef stack = emit_alloca(x->e, LLVMArrayType2(type, (uint64_t)n), "tile");
    for (int i = 0; i < n; i++) {
        LLVMValueRef at = emit_const_i64(x->e, i);
        LLVMValueRef p = LLVMBuildInBoundsGEP2(x->e->builder, type, stack, &at, 1, "");
        LLVMBuildStore(x->e->builder, load_result(x, t, i), p);
    }
    Affine plus[MAX_RANK];
    const Affine zero = affine_const(0);
    store_rows(x, t, stack, plus, 0, &zero);
}

static LLVMValueRef *make_places(Contract *x, int n)
{
    LLVMValueRef *place = arena_array(x->e->arena, (size_t)n, sizeof *place);
    for (int i = 0; i < n; i++)
        place[i] = emit_alloca(x->e, emit_vector_type(x->e, x->type), "sum");
    return place;
}

static void emit_tile(Contract *x, Tile *t)
{
    t->n_rows = 1;
    for (int l = 0; l < x->c.n_out; l++)
        t->n_rows *= (int)t->rows[l];
    t->sum = make_places(x, t->n_rows * t->n_vectors);
    t->total = x->c.n_chunks > 1 && !x->chunks_outside
                   ? make_places(x, t->n_rows * t->n_vectors)
                   : NULL;
    tile_emit_sums(x, t);
    if (x->heavy_epilogue && t->n_rows > 1)
        store_looped(x, t);
    else
        store_straight(x, t);
}

/* The "m" letters' tiles, outermost letter first. */
static void emit_rows(Contract *x, Tile *t, int letter)
{
    while (letter < x->c.n_out && x->c.letter[letter].cls != LETTER_BROADCAST)
        t->rows[letter++] = 1;
    if (letter == x->c.n_out) {
        emit_tile(x, t);
        return;
    }
    const Split s = split_evenly(x->block_extent[letter], x->shape.rows[letter]);
    const int64_t n[2] = {s.n_hi, s.n_lo}, start[2] = {0, s.n_hi * s.size};
    for (int lo = 0; lo < 2; lo++) {
        if (!n[lo])
            continue;
        const Affine number =
            emit_shared_begin(x->e, letter == x->shared_letter, lo ? n[0] : 0, n[lo]);
        const Affine part = affine_scale(&number, s.size - lo);
        const Affine from = affine_plus(&x->block_start[letter], start[lo]);
        x->at[letter] = affine_add(&from, &part);
        t->rows[letter] = s.size - lo;
        emit_rows(x, t, letter + 1);
        emit_loop_end(x->e);
    }
}

/* `n` tiles of `vectors` vectors from vector `first` on, which is where tile number `tile` is. */
static void emit_columns(Contract *x, int64_t tile, int64_t n, int64_t vectors, int64_t first,
                         int active)
{
    if (n == 0)
        return;
    const bool shared = x->shared_letter == x->c.n_out - 1;
    const Affine number = emit_shared_begin(x->e, shared, tile, n);
    const Affine part = affine_scale(&number, vectors * x->e->lanes);
    x->at[x->c.n_out - 1] = affine_plus(&part, first * x->e->lanes);
    Tile t = {.n_vectors = (int)vectors, .active = active};
    const Operand plain = x->vector;
    if (x->panel)
        x->vector = pack_panel(x, &t);
    emit_rows(x, &t, 0);
    x->vector = plain;
    emit_loop_end(x->e);
}

/* Whole vectors in loops; a tile whose last vector is not whole stands alone. */
static void emit_vector_letter(Contract *x)
{
    const int lanes = x->e->lanes;
    const int64_t extent = x->c.letter[x->c.n_out - 1].extent,
                  width = (extent + lanes - 1) / lanes;
    const int rest = (int)(extent % lanes);
    Split s = split_evenly(width, x->shape.vectors);
    const int64_t n_hi = s.n_hi, tiles = s.n_hi + s.n_lo;
    int64_t *last = s.n_lo ? &s.n_lo : &s.n_hi;
    const int64_t last_size = s.n_lo ? s.size - 1 : s.size;
    if (rest)
        --*last;
    emit_columns(x, 0, s.n_hi, s.size, 0, lanes);
    emit_columns(x, n_hi, s.n_lo, s.size - 1, s.n_hi * s.size, lanes);
    if (rest)
        emit_columns(x, tiles - 1, 1, last_size, width - last_size, rest);
}

/* Rows of the outermost "m" letter for which the broadcast operand's part stays in the second
 * level cache. */
static int64_t block_rows(const Contract *x, int letter)
{
    const int64_t extent = x->c.letter[letter].extent, tile = x->shape.rows[letter];
    const int64_t row_bytes = x->c.m / extent * x->c.k * dtype_bytes(x->type);
    if (extent * row_bytes <= 2 * CACHED)
        return extent;
    const int64_t rows = CACHED / row_bytes / tile * tile;
    return rows < tile ? tile : rows;
}

/* The outermost letter "m" with a loop; -1: there is none. */
static int first_rows(const Contract *x)
{
    for (int l = 0; l < x->c.n_out; l++)
        if (x->c.letter[l].cls == LETTER_BROADCAST && x->c.letter[l].extent > 1)
            return l;
    return -1;
}

/* Blocks of rows, and for each all columns: the broadcast operand's block is read again for each
 * column tile. */
static void emit_blocks(Contract *x)
{
    const int letter = first_rows(x);
    if (letter < 0) {
        emit_vector_letter(x);
        return;
    }
    const Split s = split_evenly(x->c.letter[letter].extent, block_rows(x, letter));
    const int64_t n[2] = {s.n_hi, s.n_lo}, start[2] = {0, s.n_hi * s.size};
    for (int lo = 0; lo < 2; lo++) {
        if (!n[lo])
            continue;
        const Affine number = emit_shared_begin(x->e, x->shares_blocks, lo ? n[0] : 0, n[lo]);
        const Affine part = affine_scale(&number, s.size - lo);
        x->block_start[letter] = affine_plus(&part, start[lo]);
        x->block_extent[letter] = s.size - lo;
        emit_vector_letter(x);
        emit_loop_end(x->e);
    }
}

static void emit_outer(Contract *x, int letter)
{
    if (letter == x->c.n_out - 1) {
        emit_blocks(x);
        return;
    }
    if (x->c.letter[letter].cls == LETTER_BROADCAST) {
        emit_outer(x, letter + 1);
        return;
    }
    x->at[letter] =
        emit_shared_begin(x->e, letter == x->shared_letter, 0, x->c.letter[letter].extent);
    emit_outer(x, letter + 1);
    emit_loop_end(x->e);
}

static int64_t count_tiles(int64_t extent, int64_t most)
{
    const Split s = split_evenly(extent, most);
    return s.n_hi + s.n_lo;
}

/* The loop over letter l, if it has more than one round. */
static bool share_letter(Contract *x, int l, int64_t rounds)
{
    if (rounds <= 1)
        return false;
    x->shared_letter = l;
    x->e->n_work = rounds;
    return true;
}

static void share_tiles(Contract *x)
{
    const int lane = x->c.n_out - 1;
    for (int l = 0; l < x->c.n_out; l++)
        if (x->c.letter[l].cls == LETTER_BROADCAST &&
            share_letter(x, l, count_tiles(x->c.letter[l].extent, x->shape.rows[l])))
            return;
    share_letter(x, lane,
                 count_tiles((x->c.letter[lane].extent + x->e->lanes - 1) / x->e->lanes,
                             x->shape.vectors));
}

static void choose_shared(Contract *x)
{
    x->shared_letter = -1;
    if (!emit_parts_apart(x->e->kernel, x->c.letter[x->c.n_out - 1].out))
        return;
    for (int l = 0; l < x->c.n_out - 1; l++)
        if (x->c.letter[l].cls != LETTER_BROADCAST && share_letter(x, l, x->c.letter[l].extent))
            return;
    const int rows = first_rows(x);
    const int64_t blocks =
        rows < 0 ? 1 : count_tiles(x->c.letter[rows].extent, block_rows(x, rows));
    x->shares_blocks = blocks > 1;
    if (x->shares_blocks)
        x->e->n_work = blocks;
    else
        share_tiles(x);
}

/* With all chunks at each tile, the vector operand's panel is read for every tile of rows, and
 * where it is longer than the first level cache the memory behind sets the pace; with all tiles
 * at each chunk, the result is read and written once a chunk.  Bits are the same. */
static bool chunks_pay_outside(const Contract *x)
{
    const Kernel *k = x->e->kernel;
    const int64_t bytes = dtype_bytes(x->type),
                  panel = x->c.k * x->shape.vectors * x->e->lanes * bytes;
    int64_t tile_rows = 1;
    for (int l = 0; l < x->c.n_out; l++)
        tile_rows *= x->shape.rows[l];
    if (x->c.n_chunks == 1 || panel <= FIRST_LEVEL || !x->vector.direct || !x->scalar.direct)
        return false;
    if (k->n_stores != 1 || k->stores[0].flag || k->stores[0].value != x->c.node ||
        k->stores[0].to->dtype != x->type)
        return false;
    const double read = (double)x->c.m / (double)tile_rows * (double)x->c.n * (double)x->c.k;
    const double stored = 2.0 * (double)x->c.n_chunks * (double)x->c.m * (double)x->c.n;
    return read > 2 * stored;
}

/* What is done for one chunk, or for the only one. */
static void emit_steps_of(Contract *x, const Affine *start, int64_t steps)
{
    x->chunk_start = *start;
    x->chunk_steps = steps;
    emit_outer(x, 0);
}

static LLVMValueRef is_zero(Emit *e, const Affine *a)
{
    return LLVMBuildICmp(e->builder, LLVMIntEQ, emit_affine(e, a), emit_const_i64(e, 0), "");
}

/* Loops over the summed letters outside the cut and the chunks.  first: so far these are the
 * first ones. */
static void emit_chunks_outside(Contract *x, int letter, LLVMValueRef first)
{
    Emit *e = x->e;
    const int64_t extent = x->c.letter[letter].extent,
                  steps = letter == x->c.cut ? x->c.cut_steps : 1;
    if (extent / steps) {
        const Affine number = emit_loop_begin(e, extent / steps);
        const Affine start = affine_scale(&number, steps);
        LLVMValueRef here = LLVMBuildAnd(e->builder, first, is_zero(e, &number), "");
        x->first_chunk = here;
        x->at[letter] = start;
        if (letter == x->c.cut)
            emit_steps_of(x, &start, steps);
        else
            emit_chunks_outside(x, letter + 1, here);
        emit_loop_end(e);
    }
    if (extent % steps) {
        const Affine start = affine_const(extent / steps * steps);
        x->first_chunk = LLVMConstNull(LLVMTypeOf(first));
        emit_steps_of(x, &start, extent % steps);
    }
}

void emit_contract_kernel(Emit *e)
{
    const Kernel *k = e->kernel;
    IntList order = {.n = k->space.rank};
    for (int i = 0; i < k->space.rank; i++)
        order.v[i] = k->order[i];
    Contract x = {.e = e, .type = k->contract->type.dtype};
    if (!contraction_of(k->contract, &order, &x.c))
        diag_internal(NULL, "einsum %%%s of @%s is no contraction for this kernel",
                      k->contract->name, e->entry->graph->name);
    find_operand(&x, &x.scalar, 1 - x.c.vector_operand);
    find_operand(&x, &x.vector, x.c.vector_operand);
    x.heavy_epilogue = is_heavy(&x);
    x.shape = tile_choose(&x.c, e->vector_bytes, e->lanes, dtype_bytes(x.type));
    for (int l = 0; l < x.c.n_out; l++) {
        x.block_start[l] = affine_const(0);
        x.block_extent[l] = x.c.letter[l].extent;
    }
    choose_shared(&x);
    const Affine zero = affine_const(0);
    x.chunks_outside = chunks_pay_outside(&x);
    if (x.chunks_outside) {
        LLVMTypeRef bit = LLVMInt1TypeInContext(e->context);
        emit_chunks_outside(&x, x.c.n_out, LLVMConstInt(bit, 1, 0));
        return;
    }
    if (pack_pays(&x)) {
        LLVMTypeRef type = emit_vector_type(e, x.type);
        x.panel =
            emit_alloca(e, LLVMArrayType2(type, (uint64_t)(x.c.k * x.shape.vectors)), "panel");
    }
    emit_steps_of(&x, &zero, x.c.letter[x.c.cut].extent);
}
