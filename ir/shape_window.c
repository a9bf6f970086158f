/* Shape rules of window and its adjoint: what convolutions and pooling are made of. */
#include "ir/shape_rules.h"

int window_taps(const Attrs *a, int rank, int *tap)
{
    int n = 0;
    for (int k = 0; k < rank; k++)
        tap[k] = a->window.taps.v[k] > 0 ? n++ : -1;
    return n;
}

static bool need_window_entries(const ShapeContext *c, const Node *n, int rank)
{
    return shape_need_entries(c, n, &n->attrs.window.start, "start", rank) &&
           shape_need_entries(c, n, &n->attrs.window.step, "step", rank) &&
           shape_need_entries(c, n, &n->attrs.window.size, "size", rank) &&
           shape_need_entries(c, n, &n->attrs.window.taps, "taps", rank) &&
           shape_need_entries(c, n, &n->attrs.window.dilation, "dilation", rank);
}

/* Numbers from outside, kept small enough that no product of two and no sum of such products
 * overflows. */
static bool is_small(int64_t v)
{
    return v > -(INT64_C(1) << 30) && v < INT64_C(1) << 30;
}

/* start + step * i + dilation * t lies in [0, extent) for all 0 <= i < count, 0 <= t < taps. */
static bool window_inside(const Attrs *a, int k, int64_t count, int64_t extent)
{
    const int64_t start = a->window.start.v[k], step = a->window.step.v[k];
    const int64_t taps = a->window.taps.v[k], dilation = a->window.dilation.v[k];
    if (!is_small(start) || !is_small(step) || !is_small(taps) || !is_small(dilation) ||
        !is_small(count) || count < 1 || taps < 0 || (step == 0 && count > 1))
        return false;
    const int64_t along = step * (count - 1), across = taps > 0 ? dilation * (taps - 1) : 0;
    const int64_t lo = start + (along < 0 ? along : 0) + (across < 0 ? across : 0);
    const int64_t hi = start + (along > 0 ? along : 0) + (across > 0 ? across : 0);
    return lo >= 0 && hi < extent;
}

static bool fail_window(const ShapeContext *c, const Node *n, int k, const Shape *within)
{
    return shape_fail(
        c,
        "%s: %lld windows of %lld elements, %lld apart from %lld on in steps of "
        "%lld, do not lie within axis %d of %s",
        shape_op(n), (long long)n->attrs.window.size.v[k], (long long)n->attrs.window.taps.v[k],
        (long long)n->attrs.window.dilation.v[k], (long long)n->attrs.window.start.v[k],
        (long long)n->attrs.window.step.v[k], k, shape_text(c->arena, within));
}

bool shape_rule_window(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape;
    const Attrs *a = &n->attrs;
    int tap[MAX_RANK];
    *type = n->in[0]->type;
    if (!need_window_entries(c, n, x->rank))
        return false;
    const int taps = window_taps(a, x->rank, tap);
    if (taps + x->rank > MAX_RANK)
        return shape_fail(c, "%s: the result would have more than %d axes", shape_op(n),
                          MAX_RANK);
    type->shape = (Shape){.rank = taps + x->rank};
    for (int k = 0; k < x->rank; k++) {
        if (!window_inside(a, k, a->window.size.v[k], x->dim[k]))
            return fail_window(c, n, k, x);
        const bool whole = tap[k] < 0 && a->window.start.v[k] == 0 &&
                           a->window.step.v[k] == 1 && a->window.size.v[k] == x->dim[k];
        type->shape.dim[taps + k] = a->window.size.v[k];
        type->shape.batch[taps + k] = whole || !x->batch[k] ? x->batch[k] : BATCH_MIXED;
        if (tap[k] >= 0)
            type->shape.dim[tap[k]] = a->window.taps.v[k];
    }
    return shape_fits(c, n, &type->shape);
}

/* The operand has the shape that window makes of the result without its axes of taps. */
bool shape_rule_unwindow(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape;
    const Attrs *a = &n->attrs;
    int tap[MAX_RANK];
    const int rank = a->window.size.n;
    *type = n->in[0]->type;
    if (!need_window_entries(c, n, rank))
        return false;
    const int taps = window_taps(a, rank, tap);
    if (taps + rank != x->rank)
        return shape_fail(c, "%s: %s does not have %d axes", shape_op(n),
                          shape_text(c->arena, x), taps + rank);
    for (int k = 0; k < rank; k++) {
        if ((tap[k] >= 0 && x->dim[tap[k]] != a->window.taps.v[k]) ||
            !window_inside(a, k, x->dim[taps + k], a->window.size.v[k]))
            return fail_window(c, n, k, x);
        const bool whole = tap[k] < 0 && a->window.start.v[k] == 0 &&
                           a->window.step.v[k] == 1 && a->window.size.v[k] == x->dim[taps + k];
        type->shape.dim[taps + k] = a->window.size.v[k];
        type->shape.batch[taps + k] =
            whole || !x->batch[taps + k] ? x->batch[taps + k] : BATCH_MIXED;
    }
    return shape_fits(c, n, &type->shape);
}
