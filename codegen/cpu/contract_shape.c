/* Tile sizes for a contraction: a small cost model over all shapes that fit the registers.
 *
 * A step of the sum over a tile of R rows and V registers wide takes R * V multiply-adds at two a
 * cycle, R + V loads at two a cycle, and no less than the latency of one multiply-add.  Extents
 * are split evenly, so that an edge is a tile that is one smaller and not a sliver. */
#include "codegen/cpu/contract.h"

/* Of the 32 registers with AVX-512 some must be free: LLVM's scheduler moves loads of the next
 * step up. */
enum {
    MAX_ROWS = 16,
    LATENCY = 4,
    USABLE_256 = 16,
    USABLE_512 = 29
};

Split split_evenly(int64_t extent, int64_t most)
{
    const int64_t n = (extent + most - 1) / most, low = extent / n, n_hi = extent % n;
    if (n_hi == 0)
        return (Split){low, n, 0};
    return (Split){low + 1, n_hi, n - n_hi};
}

typedef struct Machine {
    int registers;
    int per_vector; /* registers that hold W lanes */
} Machine;

static double step_cost(const Machine *m, int64_t rows, int64_t vectors)
{
    const double wide = (double)(vectors * m->per_vector);
    const double fma = (double)rows * wide / 2, load = ((double)rows + wide) / 2;
    const double busy = fma > load ? fma : load;
    return busy > LATENCY ? busy : LATENCY;
}

/* Of one tile: its steps, and per register of result the epilogue. */
static double tile_cost(const Machine *m, int64_t rows, int64_t vectors, int64_t k)
{
    return step_cost(m, rows, vectors) * (double)k +
           3.0 * (double)(rows * vectors * m->per_vector) + 8;
}

static bool fits(const Machine *m, int64_t rows, int64_t vectors)
{
    return (rows * vectors + vectors) * m->per_vector + 1 <= m->registers;
}

/* All tiles of a space of `rows` rows (split at `r`) and `width` vectors (split at `v`). */
static double space_cost(const Machine *m, int64_t rows, int64_t r, int64_t width, int64_t v,
                         int64_t k)
{
    const Split sr = split_evenly(rows, r), sv = split_evenly(width, v);
    double cost = 0;
    const int64_t n_r[2] = {sr.n_hi, sr.n_lo}, n_v[2] = {sv.n_hi, sv.n_lo};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (n_r[i] && n_v[j])
                cost += (double)(n_r[i] * n_v[j]) * tile_cost(m, sr.size - i, sv.size - j, k);
    return cost;
}

typedef struct Search {
    const Contraction *c;
    Machine m;
    int64_t width; /* vectors */
    double best;
    TileShape shape;
} Search;

/* Rows along letter `main`, whole letters `inner` (or -1) inside it. */
static void try_shape(Search *s, int main, int inner, int64_t rows, int64_t vectors)
{
    const int64_t whole = inner < 0 ? 1 : s->c->letter[inner].extent;
    const int64_t extent = s->c->letter[main].extent;
    if (!fits(&s->m, rows * whole, vectors))
        return;
    const Split split = split_evenly(extent, rows);
    double cost = 0;
    for (int lo = 0; lo < 2; lo++) {
        const int64_t n = lo ? split.n_lo : split.n_hi, size = split.size - lo;
        if (n)
            cost += (double)n *
                    space_cost(&s->m, size * whole, size * whole, s->width, vectors, s->c->k);
    }
    cost *= (double)(s->c->m / (extent * whole));
    if (s->best != 0 && cost >= s->best)
        return;
    s->best = cost;
    s->shape = (TileShape){.vectors = vectors};
    for (int l = 0; l < s->c->n_out; l++)
        s->shape.rows[l] = l == main ? rows : l == inner ? whole : 1;
}

static void try_letters(Search *s, int main, int inner)
{
    const int64_t extent = s->c->letter[main].extent;
    for (int64_t rows = 1; rows <= extent && rows <= MAX_ROWS; rows++)
        for (int64_t vectors = 1; vectors <= s->width && vectors <= MAX_ROWS; vectors++)
            try_shape(s, main, inner, rows, vectors);
}

TileShape tile_choose(const Contraction *c, int vector_bytes, int lanes, int bytes)
{
    Search s = {.c = c,
                .m = {vector_bytes == VECTOR_BYTES_512 ? USABLE_512 : USABLE_256,
                      lanes * bytes / vector_bytes}};
    s.width = (c->letter[c->n_out - 1].extent + lanes - 1) / lanes;
    for (int l = 0; l < c->n_out; l++) {
        if (c->letter[l].cls != LETTER_BROADCAST)
            continue;
        try_letters(&s, l, -1);
        for (int k = 0; k < c->n_out; k++)
            if (k != l && c->letter[k].cls == LETTER_BROADCAST &&
                c->letter[k].extent <= MAX_ROWS)
                try_letters(&s, l, k);
    }
    if (s.best == 0)
        diag_internal(NULL, "einsum %%%s has no row letter", c->node->name);
    return s.shape;
}
