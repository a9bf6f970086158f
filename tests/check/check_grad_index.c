/* Cases of the rows that move elements, sum them or contract them. */
#include "tests/check/check_grad_rows.h"

#include <stdio.h>
#include <string.h>

static int64_t below(Maker *m, int64_t n)
{
    return random_below(&m->random, n);
}

static int64_t between(Maker *m, int64_t lo, int64_t hi)
{
    return random_between(&m->random, lo, hi);
}

static bool chance(Maker *m, int percent)
{
    return random_chance(&m->random, percent);
}

static int64_t size_of(int64_t v)
{
    return v < 0 ? -v : v;
}

/* 1, 2, 3 or their negatives. */
static int64_t stride(Maker *m)
{
    const int64_t s = between(m, 1, 3);
    return chance(m, 25) ? -s : s;
}

/* ---- views ---- */

/* The same count in other extents: its factors dealt out anew. */
static Shape other_shape(Maker *m, const Shape *s)
{
    Shape to = {.rank = (int)between(m, 1, 5)};
    int64_t n = shape_count(s);
    for (int i = 0; i < to.rank; i++)
        to.dim[i] = 1;
    for (int64_t f = 2; n > 1; f++)
        for (; n % f == 0; n /= f)
            to.dim[below(m, to.rank)] *= f;
    if (shape_count(s) == 1 && chance(m, 50))
        to.rank = 0;
    return to;
}

Node *make_reshape(Maker *m)
{
    const Shape s = make_shape(m, 0, 4, 300), to = other_shape(m, &s);
    Attrs a = {.dims = {.shape = ints_of(to.rank, to.dim)}};
    Node *x = make_bent(m, make_param(m, &s));
    x = build(&m->b, m->op, &a, 1, &x);
    const Shape t = make_narrower(m, &to);
    return build2(&m->b, OP_MUL, x, make_param(m, &t));
}

Node *make_expand(Maker *m)
{
    const Shape to = make_shape(m, 0, 5, 400), s = make_narrower(m, &to);
    Attrs a = {.dims = {.shape = ints_of(to.rank, to.dim)}};
    Node *x = make_bent(m, make_param(m, &s));
    return make_bent(m, build(&m->b, m->op, &a, 1, &x));
}

Node *make_permute(Maker *m)
{
    const Shape s = make_shape(m, 0, 5, 300);
    Attrs a = {.perm = {.dims = {.n = s.rank}}};
    make_axes(m, s.rank, s.rank, a.perm.dims.v);
    Node *x = make_bent(m, make_param(m, &s));
    x = build(&m->b, m->op, &a, 1, &x);
    const Shape t = make_narrower(m, &x->type.shape);
    return build2(&m->b, OP_MUL, x, make_param(m, &t));
}

Node *make_slice(Maker *m)
{
    const Shape s = make_shape(m, 0, 4, 300);
    Attrs a = {.slice = {.start = {.n = s.rank}, .step = {.n = s.rank}, .size = {.n = s.rank}}};
    for (int i = 0; i < s.rank; i++) {
        const bool whole = chance(m, 30);
        const int64_t step = whole ? 1 : stride(m), most = (s.dim[i] - 1) / size_of(step) + 1;
        const int64_t size = whole ? most : between(m, 1, most),
                      reach = size_of(step) * (size - 1);
        const int64_t lo = below(m, s.dim[i] - reach);
        a.slice.step.v[i] = step;
        a.slice.size.v[i] = size;
        a.slice.start.v[i] = step < 0 ? lo + reach : lo;
    }
    Node *x = make_bent(m, make_param(m, &s));
    return make_bent(m, build(&m->b, m->op, &a, 1, &x));
}

/* Attributes first, then an operand that they fit. */
Node *make_window(Maker *m)
{
    Shape s = {.rank = (int)between(m, 1, 3)};
    Attrs a;
    attrs_default(ATTR_window, &a);
    a.window.start.n = a.window.step.n = a.window.size.n = a.window.taps.n =
        a.window.dilation.n = s.rank;
    for (int i = 0; i < s.rank; i++) {
        const bool plain = chance(m, 25);
        const int64_t taps = plain ? 0 : between(m, 1, 4), size = between(m, 1, 7);
        const int64_t step = plain ? 1 : stride(m), dilation = plain ? 1 : stride(m);
        const int64_t before = plain ? 0 : below(m, 3), after = plain ? 0 : below(m, 3);
        const int64_t along = step * (size - 1), across = taps ? dilation * (taps - 1) : 0;
        a.window.step.v[i] = step;
        a.window.size.v[i] = size;
        a.window.taps.v[i] = taps;
        a.window.dilation.v[i] = dilation;
        a.window.start.v[i] = before - (along < 0 ? along : 0) - (across < 0 ? across : 0);
        s.dim[i] = before + size_of(along) + size_of(across) + 1 + after;
    }
    return make_bent(m, build_window(&m->b, m->op, make_bent(m, make_param(m, &s)), &a));
}

Node *make_pad(Maker *m)
{
    const Shape s = make_shape(m, 0, 4, 120);
    Attrs a;
    attrs_default(ATTR_pad, &a);
    a.pad.start.n = a.pad.step.n = a.pad.size.n = s.rank;
    a.pad.value = chance(m, 50) ? 0 : 0.75;
    for (int i = 0; i < s.rank; i++) {
        const int64_t step = chance(m, 60) ? 1 : stride(m), before = below(m, 4);
        const int64_t along = size_of(step) * (s.dim[i] - 1);
        a.pad.step.v[i] = step;
        a.pad.start.v[i] = step < 0 ? before + along : before;
        a.pad.size.v[i] = before + along + 1 + below(m, 3);
    }
    Node *x = make_bent(m, make_param(m, &s));
    return make_bent(m, build(&m->b, m->op, &a, 1, &x));
}

/* ---- indices ---- */

/* At most as large as s, on the axis `dim` of any size. */
static Shape index_shape(Maker *m, const Shape *s, int dim)
{
    Shape index = *s;
    for (int i = 0; i < s->rank; i++)
        if (i == dim)
            index.dim[i] = between(m, 1, 9);
        else if (chance(m, 30))
            index.dim[i] = between(m, 1, s->dim[i]);
    return index;
}

/* Now and then an index lies outside, and is clamped. */
Node *make_gather(Maker *m)
{
    const Shape s = make_shape(m, 1, 4, 200);
    const int dim = (int)below(m, s.rank);
    const Shape shape = index_shape(m, &s, dim);
    const int64_t outside = chance(m, 25) ? 2 : 0;
    Attrs a = {.axis = {.dim = dim}};
    Node *index = make_indices(m, &shape, -outside, s.dim[dim] - 1 + outside);
    Node *in[] = {make_bent(m, make_param(m, &s)), index};
    return make_bent(m, build(&m->b, m->op, &a, 2, in));
}

Node *make_scatter(Maker *m)
{
    const Shape s = make_shape(m, 1, 4, 200);
    const int dim = (int)below(m, s.rank);
    const Shape shape = index_shape(m, &s, dim);
    Shape updates = shape;
    for (int i = 0; i < s.rank; i++)
        updates.dim[i] += chance(m, 30) ? between(m, 1, 2) : 0;
    Attrs a = {.axis = {.dim = dim}};
    Node *index = make_indices(m, &shape, 0, s.dim[dim] - 1);
    Node *x = make_bent(m, make_param(m, &s));
    Node *in[] = {x, index, make_bent(m, make_param(m, &updates))};
    return make_bent(m, build(&m->b, m->op, &a, 3, in));
}

/* ---- reductions and scans ---- */

Node *make_reduce(Maker *m)
{
    const Shape s = make_shape(m, 1, 4, 400);
    int64_t dims[MAX_RANK];
    const int n = make_axes(m, s.rank, 1, dims);
    Node *x = make_param(m, &s);
    if (m->op == OP_SUM)
        x = make_bent(m, x);
    x = build_reduce(&m->b, m->op, x, n, dims, chance(m, 50));
    const Shape t = make_narrower(m, &x->type.shape);
    return build2(&m->b, OP_MUL, x, make_param(m, &t));
}

Node *make_cumsum(Maker *m)
{
    const Shape s = make_shape(m, 1, 4, 200);
    Attrs a = {.scan = {.dim = below(m, s.rank), .reverse = chance(m, 50)}};
    Node *x = make_bent(m, make_param(m, &s));
    return make_bent(m, build(&m->b, m->op, &a, 1, &x));
}

/* ---- contractions ---- */

enum {
    IN_FIRST = 1,
    IN_SECOND = 2,
    IN_RESULT = 4
};

/* Letters of an operand or the result, in random order. */
static int deal(Maker *m, const int *role, int n_letters, int which, char *letters)
{
    int64_t order[2 * MAX_RANK];
    int n = 0;
    make_axes(m, n_letters, n_letters, order);
    for (int i = 0; i < n_letters; i++)
        if (role[order[i]] & which)
            letters[n++] = (char)('a' + order[i]);
    letters[n] = 0;
    return n;
}

static Shape shape_of_letters(const char *letters, const int64_t *extent)
{
    Shape s = {0};
    for (; *letters; letters++)
        s.dim[s.rank++] = extent[*letters - 'a'];
    return s;
}

/* Each letter in one operand or in both, kept or summed. */
Node *make_einsum(Maker *m)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 19};
    char first[MAX_RANK + 1], second[MAX_RANK + 1], out[MAX_RANK + 1];
    int64_t extent[6], work = 1;
    int role[6];
    const int n = (int)between(m, 1, 5);
    for (int i = 0; i < n; i++) {
        role[i] = (int)between(m, 1, 3) | (chance(m, 55) ? IN_RESULT : 0);
        do
            extent[i] = sizes[below(m, sizeof sizes / sizeof *sizes)];
        while (work * extent[i] > 8000);
        work *= extent[i];
    }
    deal(m, role, n, IN_FIRST, first);
    deal(m, role, n, IN_SECOND, second);
    deal(m, role, n, IN_RESULT, out);
    const Shape s = shape_of_letters(first, extent), t = shape_of_letters(second, extent);
    Node *x = make_bent(m, make_param(m, &s)), *y = make_bent(m, make_param(m, &t));
    return build_einsum(
        &m->b, x, y, arena_printf(m->b.graph->module->arena, "%s,%s->%s", first, second, out));
}

/* ---- a convolution: windows over a padded operand, contracted with weights ---- */

typedef struct Filter {
    int n; /* axes with windows */
    int64_t taps[2], windows[2], extent[2];
    Attrs pad, window;
} Filter;

/* Axis k of the operand has windows; what they need there is padded. */
static void draw_axis(Maker *m, Filter *f, int i, int k)
{
    const int64_t taps = between(m, 1, 4), windows = between(m, 1, 6), step = between(m, 1, 3);
    const int64_t dilation = chance(m, 50)   ? 1
                             : chance(m, 20) ? -1
                                             : between(m, 1, 3),
                  across = dilation * (taps - 1);
    const int64_t before = below(m, 3),
                  length = before + step * (windows - 1) + size_of(across) + 1 + below(m, 3);
    const bool padded = f->pad.pad.size.n > 0;
    const int64_t inner = padded && chance(m, 30) ? 2 : 1,
                  start = padded ? below(m, length < 3 ? length : 3) : 0;
    f->taps[i] = taps;
    f->windows[i] = windows;
    f->extent[i] = padded ? (length - 1 - start) / inner + 1 : length;
    f->extent[i] -= padded && f->extent[i] > 2 ? below(m, 2) : 0;
    f->pad.pad.start.v[k] = start;
    f->pad.pad.step.v[k] = inner;
    f->pad.pad.size.v[k] = length;
    f->window.window.start.v[k] = before - (across < 0 ? across : 0);
    f->window.window.step.v[k] = step;
    f->window.window.size.v[k] = windows;
    f->window.window.taps.v[k] = taps;
    f->window.window.dilation.v[k] = dilation;
}

static void whole_axis(Filter *f, int k, int64_t extent)
{
    f->pad.pad.step.v[k] = f->window.window.step.v[k] = f->window.window.dilation.v[k] = 1;
    f->pad.pad.size.v[k] = f->window.window.size.v[k] = extent;
}

/* Those of the eight letters that have the role, in any order. */
static void choose_letters(Maker *m, const char *letters, const int *role, int which,
                           char *chosen)
{
    int64_t order[8];
    int n = 0;
    make_axes(m, 8, 8, order);
    for (int i = 0; i < 8; i++)
        if (role[letters[order[i]] - 'a'] & which)
            chosen[n++] = letters[order[i]];
    chosen[n] = 0;
}

/* Letters: x y taps, n samples, g groups, c channels, p q windows, o channels of the result; in
 * the result and the weights they stand in any order. */
Node *make_convolution(Maker *m)
{
    static const char letters[] = "xyngcpqo";
    const bool grouped = chance(m, 40), plane = chance(m, 60), padded = chance(m, 60);
    int64_t extent[26] = {0};
    int role[26] = {0};
    char axes[8], in[12], weights[8] = "", out[8] = "";
    Filter f = {.n = plane ? 2 : 1};
    attrs_default(ATTR_pad, &f.pad);
    attrs_default(ATTR_window, &f.window);
    snprintf(axes, sizeof axes, "n%sc%s", grouped ? "g" : "", plane ? "pq" : "p");
    snprintf(in, sizeof in, "%s%s", plane ? "xy" : "x", axes);
    Shape s = {.rank = (int)strlen(axes)};
    f.pad.pad.size.n = padded ? s.rank : 0;
    for (int k = 0; k < s.rank - f.n; k++)
        whole_axis(&f, k, s.dim[k] = between(m, 1, 5));
    for (int i = 0; i < f.n; i++)
        draw_axis(m, &f, i, s.rank - f.n + i);
    for (int i = 0; i < f.n; i++)
        s.dim[s.rank - f.n + i] = f.extent[i];
    f.pad.pad.start.n = f.pad.pad.step.n = f.pad.pad.size.n;
    f.window.window.start.n = f.window.window.step.n = f.window.window.size.n = s.rank;
    f.window.window.taps.n = f.window.window.dilation.n = s.rank;
    Node *x = make_bent(m, make_param(m, &s));
    if (padded)
        x = build(&m->b, OP_PAD, &f.pad, 1, &x);
    x = build_window(&m->b, OP_WINDOW, x, &f.window);
    if (!x)
        return NULL;
    for (int k = 0; in[k]; k++)
        extent[in[k] - 'a'] = x->type.shape.dim[k];
    extent['o' - 'a'] = between(m, 1, 9);
    for (const char *l = letters; *l; l++) {
        const bool there = strchr(in, *l) || *l == 'o';
        const bool shared =
            *l == 'g' || (*l == 'c' && chance(m, 20)); /* a channel of its own */
        const bool kept = strchr("npqo", *l) || shared;
        role[*l - 'a'] =
            there ? (strchr("xygco", *l) ? IN_SECOND : 0) | (kept ? IN_RESULT : 0) : 0;
    }
    choose_letters(m, letters, role, IN_SECOND, weights);
    choose_letters(m, letters, role, IN_RESULT, out);
    const Shape t = shape_of_letters(weights, extent);
    Node *w = make_param(m, &t);
    Arena *arena = m->b.graph->module->arena;
    return chance(m, 70)
               ? build_einsum(&m->b, x, w, arena_printf(arena, "%s,%s->%s", in, weights, out))
               : build_einsum(&m->b, w, x, arena_printf(arena, "%s,%s->%s", weights, in, out));
}

/* Rows of four padded to five, of f64 (two registers): LLVM 19 loads them wrongly where rows are
 * left out as well. */
Node *make_padded_rows(Maker *m)
{
    const Shape s = shape_of(4, (const int64_t[]){4, 4, 5, 4}),
                t = shape_of(4, (const int64_t[]){2, 8, 4, 3});
    const int64_t start[] = {0, 0, 2, 0}, step[] = {1, 1, 1, 1}, size[] = {4, 4, 7, 5};
    const Attrs a = {.window = {.start = ints_of(4, (const int64_t[]){0, 0, 0, 1}),
                                .step = ints_of(4, (const int64_t[]){1, 1, 1, 3}),
                                .size = ints_of(4, (const int64_t[]){4, 4, 1, 1}),
                                .taps = ints_of(4, (const int64_t[]){0, 0, 3, 2}),
                                .dilation = ints_of(4, (const int64_t[]){1, 1, 2, 3})}};
    Node *x = build_window(&m->b, OP_WINDOW,
                           build_pad(&m->b, make_param(m, &s), start, step, size, 0), &a);
    return build_einsum(&m->b, x, make_param(m, &t), "xyncpq,yocx->cqnop");
}
