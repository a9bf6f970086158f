/* Gradients of windows: what flows back into convolutions and pooling.
 *
 * In general the adjoint of a window is `unwindow` and a sum over the taps.  Where windows lie
 * side by side every element is in one window at most, and it is a permute and a reshape.
 *
 * An einsum of a window with weights that have its taps as letters is a convolution.  Its adjoint
 * is one too: along each axis, what flows into element p comes from the windows o and taps t with
 * step * o = p - dilation * t (+ an offset), which is a window over the gradient again, of the
 * same taps and dilation the other way round:
 *
 *   dense   the gradient, spread by `step` with zeros in between and padded; right for any step
 *   and dilation
 *   phases  for step > 1 and dilation 1: p = step * q + r, t = step * t' + r, o = q - t': the
 *   taps are cut into `step`
 *           phases r, which become an axis of the weights and of the result, and nothing is
 *           multiplied by the zeros
 *
 * Where the window's operand is a pad, the gradient is made for what was padded. */
#include "passes/grad/grad.h"

#include <string.h>

/* --- a window alone
 * -------------------------------------------------------------------------------------- */

/* Does no element of the operand belong to two windows? */
static bool side_by_side(const Attrs *a, int rank)
{
    for (int k = 0; k < rank; k++)
        if (a->window.taps.v[k] > 0 &&
            (a->window.dilation.v[k] != 1 || a->window.step.v[k] < a->window.taps.v[k]))
            return false;
    return true;
}

/* [t.., i..] to [i, t, ..] to [i * t ..], with what lies between, before and behind the windows. */
static Node *lay_side_by_side(Adjoint *c, const Node *window, const Shape *x)
{
    const Attrs *a = &window->attrs;
    int tap[MAX_RANK];
    const int taps = window_taps(a, x->rank, tap);
    int64_t perm[MAX_RANK], step[MAX_RANK], start[MAX_RANK] = {0}, size[MAX_RANK];
    int64_t along[MAX_RANK];
    Shape gaps = {0}, joined = {.rank = x->rank};
    int n = 0;
    for (int k = 0; k < x->rank; k++) {
        along[k] = step[k] = 1;
        joined.dim[k] = gaps.dim[gaps.rank] = a->window.size.v[k];
        perm[n++] = taps + k;
        gaps.rank++;
        if (tap[k] < 0) {
            along[k] = a->window.step.v[k];
            continue;
        }
        perm[n++] = tap[k];
        gaps.dim[gaps.rank++] = a->window.step.v[k];
        joined.dim[k] *= a->window.step.v[k];
    }
    for (int i = 0; i < n; i++) {
        step[i] = 1;
        size[i] = gaps.dim[i];
    }
    Node *v = build_permute(c->b, c->g, perm);
    v = build_pad(c->b, v, start, step, size, 0);
    v = build_reshape(c->b, v, &joined);
    /* The last window may reach beyond the operand by its gap. */
    int64_t kept[MAX_RANK], ones[MAX_RANK];
    for (int k = 0; k < x->rank; k++) {
        const int64_t room = x->dim[k] - a->window.start.v[k];
        ones[k] = 1;
        kept[k] = tap[k] >= 0 && joined.dim[k] > room ? room : joined.dim[k];
    }
    v = build_slice(c->b, v, start, ones, kept);
    return build_pad(c->b, v, a->window.start.v, along, x->dim, 0);
}

void grad_window(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    const Shape *x = &c->in[0]->type.shape;
    if (side_by_side(&c->y->attrs, x->rank)) {
        adjoint_add(c, 0, lay_side_by_side(c, c->y, x));
        return;
    }
    Attrs a = c->y->attrs;
    int64_t dims[MAX_RANK];
    int tap[MAX_RANK];
    const int taps = window_taps(&a, x->rank, tap);
    a.window.size = ints_of(x->rank, x->dim);
    for (int k = 0; k < taps; k++)
        dims[k] = k;
    Node *v = build_window(c->b, OP_UNWINDOW, c->g, &a);
    adjoint_add(c, 0, build_reduce(c->b, OP_SUM, v, taps, dims, false));
}

/* --- a convolution
 * --------------------------------------------------------------------------------------- */

/* One axis of the window's operand: step * o = inner * p + offset - dilation * t. */
typedef struct Axis {
    char letter, tap;          /* tap 0: no window here */
    int64_t windows, elements; /* how many o and p there are */
    int64_t step, inner, offset, taps, dilation;
    bool phases;
    char phase;                     /* the letter of r */
    int64_t n_phases, tap_blocks;   /* of r, of t' */
    int64_t first_block, blocks;    /* of q */
    int64_t before, spread, padded; /* the pad of the gradient: start, step, size */
    int64_t start, window_step, window_size, window_taps, window_dilation;
} Axis;

typedef struct Convolution {
    Node *target; /* what the gradient is for */
    int rank;
    Axis axis[MAX_RANK];
    const char *weights, *result; /* letters of the other operand and of the einsum's result */
    int n_weights, n_result;
    char used[3 * MAX_RANK];
    int n_used;
} Convolution;

static bool has_letter(const char *letters, int n, char letter)
{
    return memchr(letters, letter, (size_t)n) != NULL;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* The pad under a window, if it pads windowed axes only. */
static bool is_pad_below(const Node *window)
{
    const Node *pad = window->in[0];
    if (pad->op != OP_PAD)
        return false;
    for (int k = 0; k < pad->type.shape.rank; k++)
        if (window->attrs.window.taps.v[k] == 0 &&
            pad->type.shape.dim[k] != pad->in[0]->type.shape.dim[k])
            return false;
    return true;
}

/* Taps are summed with the weights, windows are in the result; other axes as they are, in the
 * result or summed with the weights. */
static bool letters_fit(const Convolution *v, const Node *window)
{
    const Attrs *a = &window->attrs;
    for (int k = 0; k < v->rank; k++) {
        const Axis *x = &v->axis[k];
        const bool in_result = has_letter(v->result, v->n_result, x->letter);
        const bool in_weights = has_letter(v->weights, v->n_weights, x->letter);
        if (x->tap) {
            if (!in_result || in_weights || has_letter(v->result, v->n_result, x->tap) ||
                !has_letter(v->weights, v->n_weights, x->tap))
                return false;
        } else if ((!in_result && !in_weights) || a->window.start.v[k] != 0 ||
                   a->window.step.v[k] != 1 ||
                   a->window.size.v[k] != window->in[0]->type.shape.dim[k]) {
            return false;
        }
    }
    return true;
}

static char fresh_letter(Convolution *v)
{
    char letter = 'A';
    while (has_letter(v->used, v->n_used, letter))
        letter++;
    v->used[v->n_used++] = letter;
    return letter;
}

static void plan_dense(Axis *x)
{
    const int64_t across = -x->dilation * (x->taps - 1);
    const int64_t lo = min64(0, x->offset + min64(0, across));
    const int64_t hi = max64(x->step * (x->windows - 1),
                             x->inner * (x->elements - 1) + x->offset + max64(0, across));
    x->before = -lo;
    x->spread = x->step;
    x->padded = hi - lo + 1;
    x->start = x->offset - lo;
    x->window_step = x->inner;
    x->window_size = x->elements;
    x->window_taps = x->taps;
    x->window_dilation = -x->dilation;
}

static void plan_phases(Convolution *v, Axis *x)
{
    x->phases = true;
    x->phase = fresh_letter(v);
    x->tap_blocks = (x->taps + x->step - 1) / x->step;
    x->n_phases = min64(x->taps, x->step);
    x->first_block = floor_div(x->offset, x->step);
    x->blocks = floor_div(x->offset + x->elements - 1, x->step) - x->first_block + 1;
    const int64_t lo = min64(0, x->first_block - (x->tap_blocks - 1));
    const int64_t hi = max64(x->windows - 1, x->first_block + x->blocks - 1);
    x->before = -lo;
    x->spread = 1;
    x->padded = hi - lo + 1;
    x->start = x->first_block - lo;
    x->window_step = 1;
    x->window_size = x->blocks;
    x->window_taps = x->tap_blocks;
    x->window_dilation = -1;
}

static bool find_convolution(Adjoint *c, const EinsumSpec *s, int i, Convolution *v)
{
    Node *window = c->in[i];
    if (window->op != OP_WINDOW)
        return false;
    Node *operand = window->in[0];
    const char *letters = i == 0 ? s->a : s->b;
    const Attrs *a = &window->attrs;
    const bool padded = is_pad_below(window);
    int tap[MAX_RANK];
    *v = (Convolution){.target = padded ? operand->in[0] : operand,
                       .rank = operand->type.shape.rank,
                       .weights = i == 0 ? s->b : s->a,
                       .n_weights = i == 0 ? s->n_b : s->n_a,
                       .result = s->out,
                       .n_result = s->n_out};
    memcpy(v->used, s->a, (size_t)s->n_a);
    memcpy(v->used + s->n_a, s->b, (size_t)s->n_b);
    v->n_used = s->n_a + s->n_b;
    const int taps = window_taps(a, v->rank, tap);
    for (int k = 0; k < v->rank; k++) {
        const int64_t pad_start = padded ? operand->attrs.pad.start.v[k] : 0;
        v->axis[k] = (Axis){.letter = letters[taps + k],
                            .tap = tap[k] < 0 ? 0 : letters[tap[k]],
                            .windows = a->window.size.v[k],
                            .elements = v->target->type.shape.dim[k],
                            .step = a->window.step.v[k],
                            .inner = padded ? operand->attrs.pad.step.v[k] : 1,
                            .offset = pad_start - a->window.start.v[k],
                            .taps = a->window.taps.v[k],
                            .dilation = a->window.dilation.v[k]};
        if (v->axis[k].tap && v->axis[k].step < 1)
            return false;
    }
    if (!letters_fit(v, window))
        return false;
    int n_phases = 0;
    for (int k = 0; k < v->rank; k++) {
        Axis *x = &v->axis[k];
        if (!x->tap)
            continue;
        if (x->step > 1 && x->dilation == 1 && x->inner == 1) {
            plan_phases(v, x);
            n_phases++;
        } else {
            plan_dense(x);
        }
    }
    return v->rank + n_phases <= MAX_RANK && v->n_weights + n_phases <= MAX_RANK &&
           v->n_result + taps <= MAX_RANK;
}

static const Axis *axis_of(const Convolution *v, char letter, bool tap)
{
    for (int k = 0; k < v->rank; k++)
        if (v->axis[k].tap && (tap ? v->axis[k].tap : v->axis[k].letter) == letter)
            return &v->axis[k];
    return NULL;
}

/* The gradient padded and seen through windows; its letters, the taps' first. */
static Node *windowed_gradient(Adjoint *c, const Convolution *v, char *letters, int *n)
{
    const Shape *g = &c->g->type.shape;
    int64_t start[MAX_RANK], step[MAX_RANK], size[MAX_RANK];
    Attrs a;
    attrs_default(ATTR_window, &a);
    IntList *lists[] = {&a.window.start, &a.window.step, &a.window.size, &a.window.taps,
                        &a.window.dilation};
    for (int i = 0; i < 5; i++)
        lists[i]->n = g->rank;
    for (int k = 0; k < g->rank; k++) {
        const Axis *x = axis_of(v, v->result[k], false);
        start[k] = x ? x->before : 0;
        step[k] = x ? x->spread : 1;
        size[k] = x ? x->padded : g->dim[k];
        a.window.start.v[k] = x ? x->start : 0;
        a.window.step.v[k] = x ? x->window_step : 1;
        a.window.size.v[k] = x ? x->window_size : g->dim[k];
        a.window.taps.v[k] = x ? x->window_taps : 0;
        a.window.dilation.v[k] = x ? x->window_dilation : 1;
        if (x)
            letters[(*n)++] = x->tap;
    }
    for (int k = 0; k < g->rank; k++)
        letters[(*n)++] = v->result[k];
    return build_window(c->b, OP_WINDOW, build_pad(c->b, c->g, start, step, size, 0), &a);
}

/* The weights with their taps cut into blocks of phases; their letters. */
static Node *phased_weights(Adjoint *c, const Convolution *v, Node *w, char *letters, int *n)
{
    const Shape *s = &w->type.shape;
    int64_t start[MAX_RANK] = {0}, step[MAX_RANK], size[MAX_RANK];
    Shape cut = {0};
    for (int k = 0; k < s->rank; k++) {
        const Axis *x = axis_of(v, v->weights[k], true);
        letters[(*n)++] = v->weights[k];
        step[k] = 1;
        size[k] = s->dim[k];
        if (x && x->phases) {
            letters[(*n)++] = x->phase;
            size[k] = x->tap_blocks * x->n_phases;
            cut.dim[cut.rank++] = x->tap_blocks;
            cut.dim[cut.rank++] = x->n_phases;
        } else {
            cut.dim[cut.rank] = s->dim[k];
            cut.batch[cut.rank++] = s->batch[k];
        }
    }
    return build_reshape(c->b, build_pad(c->b, w, start, step, size, 0), &cut);
}

/* From [.., q, r, ..] to the elements: what phases there are, side by side, and of those what the
 * target has. */
static Node *join_phases(Adjoint *c, const Convolution *v, Node *x)
{
    int64_t zero[MAX_RANK] = {0}, one[MAX_RANK], size[MAX_RANK], start[MAX_RANK] = {0};
    Shape joined = {.rank = v->rank};
    int n = 0;
    for (int k = 0; k < v->rank; k++) {
        const Axis *a = &v->axis[k];
        joined.dim[k] = size[n] = x->type.shape.dim[n];
        joined.batch[k] = x->type.shape.batch[n++];
        if (!a->phases)
            continue;
        size[n++] = a->step;
        joined.dim[k] *= a->step;
        start[k] = a->offset - a->step * a->first_block;
    }
    for (int k = 0; k < MAX_RANK; k++)
        one[k] = 1;
    x = build_pad(c->b, x, zero, one, size, 0);
    x = build_reshape(c->b, x, &joined);
    return build_slice(c->b, x, start, one, v->target->type.shape.dim);
}

bool grad_through_window(Adjoint *c, const EinsumSpec *s, int i)
{
    Convolution v;
    if (!find_convolution(c, s, i, &v) || !adjoint_wanted_by(c, v.target))
        return false;
    char g_letters[2 * MAX_RANK], w_letters[2 * MAX_RANK], letters[2 * MAX_RANK];
    int n_g = 0, n_w = 0, n = 0;
    Node *w = phased_weights(c, &v, c->in[1 - i], w_letters, &n_w);
    Node *g = windowed_gradient(c, &v, g_letters, &n_g);
    for (int k = 0; k < v.rank; k++) {
        letters[n++] = v.axis[k].letter;
        if (v.axis[k].phases)
            letters[n++] = v.axis[k].phase;
    }
    const char *spec = arena_printf(c->b->graph->module->arena, "%.*s,%.*s->%.*s", n_g,
                                    g_letters, n_w, w_letters, n, letters);
    Node *x = build_einsum(c->b, g, w, spec);
    adjoint_add_to(c, v.target, join_phases(c, &v, x));
    return true;
}
