/* Shape rules of the views and of pad.
 *
 * A batch mark m says that the axis is [k, N, m] in one.  A view keeps the mark where that is
 * still so, with what m has become; where it is not, every axis that the samples have gone into
 * is BATCH_MIXED. */
#include "ir/shape_rules.h"

/* One group of axes [i, i_end) of the operand that has become axes [o, o_end) of the result. */
typedef struct AxisGroup {
    int i, i_end, o, o_end;
} AxisGroup;

static int64_t product(const Shape *s, int from, int end)
{
    int64_t n = 1;
    for (int k = from; k < end; k++)
        n *= s->dim[k];
    return n;
}

/* The only axis of the group that depends on N; -1: none, -2: several, or one that is mixed
 * already. */
static int marked_axis(const Shape *x, const AxisGroup *g)
{
    int found = -1;
    for (int k = g->i; k < g->i_end; k++)
        if (x->batch[k])
            found = found == -1 && x->batch[k] > 0 ? k : -2;
    return found;
}

static void mix(const AxisGroup *g, Shape *out)
{
    for (int k = g->o; k < g->o_end; k++)
        if (out->dim[k] > 1)
            out->batch[k] = BATCH_MIXED;
}

/* The group's elements are [before, N, inner]: of the result's axes at most one can hold the N as
 * [k, N, m]. */
static void carry_mark(const Shape *x, const AxisGroup *g, int64_t samples, Shape *out)
{
    const int at = marked_axis(x, g);
    if (at == -1)
        return;
    mix(g, out);
    if (at == -2)
        return;
    const int64_t n = samples ? samples : x->dim[at] / x->batch[at];
    const int64_t before = product(x, g->i, at) * (x->dim[at] / (n * x->batch[at]));
    const int64_t inner = x->batch[at] * product(x, at + 1, g->i_end);
    for (int k = g->o; k < g->o_end; k++) {
        const int64_t left = product(out, g->o, k), right = product(out, k + 1, g->o_end);
        if (before % left || inner % right ||
            out->dim[k] != before / left * n * (inner / right))
            continue;
        for (int other = g->o; other < g->o_end; other++)
            out->batch[other] = other == k ? inner / right : 0;
        return;
    }
}

/* Splits both shapes into the smallest groups of axes with equal products. */
static void carry_marks(const Shape *x, int64_t samples, Shape *out)
{
    AxisGroup g = {0};
    while (g.i < x->rank || g.o < out->rank) {
        int64_t before = 1, after = 1;
        g.i_end = g.i;
        g.o_end = g.o;
        if (g.i_end < x->rank)
            before = x->dim[g.i_end++];
        if (g.o_end < out->rank)
            after = out->dim[g.o_end++];
        while (before != after) {
            if (before < after)
                before *= x->dim[g.i_end++];
            else
                after *= out->dim[g.o_end++];
        }
        if (g.i_end == g.i + 1 && g.o_end == g.o + 1)
            out->batch[g.o] = x->batch[g.i];
        else
            carry_mark(x, &g, samples, out);
        g.i = g.i_end;
        g.o = g.o_end;
    }
}

bool shape_rule_reshape(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape;
    *type = n->in[0]->type;
    type->shape = shape_of(n->attrs.dims.shape.n, n->attrs.dims.shape.v);
    if (!shape_fits(c, n, &type->shape))
        return false;
    if (shape_count(x) != shape_count(&type->shape))
        return shape_fail(c, "%s: %s has %lld elements and %s has %lld", shape_op(n),
                          shape_text(c->arena, x), (long long)shape_count(x),
                          shape_text(c->arena, &type->shape),
                          (long long)shape_count(&type->shape));
    carry_marks(x, c->samples, &type->shape);
    return true;
}

/* What grows has no mark but the one that its maker gives it. */
static void keep_marks(const Shape *x, Shape *out)
{
    const int lead = out->rank - x->rank;
    for (int i = 0; i < out->rank; i++)
        out->batch[i] = i >= lead && x->dim[i - lead] == out->dim[i] ? x->batch[i - lead] : 0;
}

bool shape_rule_expand(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape;
    const Shape to = shape_of(n->attrs.dims.shape.n, n->attrs.dims.shape.v);
    *type = n->in[0]->type;
    if (!shape_fits(c, n, &to))
        return false;
    if (!shape_broadcast(x, &to, &type->shape) || !shape_equal(&type->shape, &to))
        return shape_fail(c,
                          "%s: %s does not expand to %s: only extents of 1 can grow, and only "
                          "leading axes can be new",
                          shape_op(n), shape_text(c->arena, x), shape_text(c->arena, &to));
    keep_marks(x, &type->shape);
    return true;
}

bool shape_rule_permute(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape;
    const IntList *dims = &n->attrs.perm.dims;
    unsigned seen = 0;
    *type = n->in[0]->type;
    if (!shape_need_entries(c, n, dims, "dims", x->rank))
        return false;
    for (int i = 0; i < x->rank; i++) {
        const int64_t from = dims->v[i];
        if (from < 0 || from >= x->rank)
            return shape_fail(c, "%s: %s has no axis %lld", shape_op(n),
                              shape_text(c->arena, x), (long long)from);
        if (seen >> from & 1)
            return shape_fail(c, "%s: axis %lld is named twice", shape_op(n), (long long)from);
        seen |= 1u << from;
        type->shape.dim[i] = x->dim[from];
        type->shape.batch[i] = x->batch[from];
    }
    return true;
}

static bool need_slice_entries(const ShapeContext *c, const Node *n, int rank)
{
    return shape_need_entries(c, n, &n->attrs.slice.start, "start", rank) &&
           shape_need_entries(c, n, &n->attrs.slice.step, "step", rank) &&
           shape_need_entries(c, n, &n->attrs.slice.size, "size", rank);
}

/* start + step * i lies in [0, extent) for all 0 <= i < count. */
static bool steps_inside(int64_t start, int64_t step, int64_t count, int64_t extent)
{
    if (step == 0 || count < 1 || start < 0 || start >= extent)
        return false;
    return step > 0 ? (count - 1) <= (extent - 1 - start) / step
                    : step != INT64_MIN && (count - 1) <= start / -step;
}

bool shape_rule_slice(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape;
    *type = n->in[0]->type;
    if (!need_slice_entries(c, n, x->rank))
        return false;
    for (int i = 0; i < x->rank; i++) {
        const int64_t start = n->attrs.slice.start.v[i], step = n->attrs.slice.step.v[i];
        const int64_t size = n->attrs.slice.size.v[i];
        if (!steps_inside(start, step, size, x->dim[i]))
            return shape_fail(
                c,
                "%s: %lld elements from %lld in steps of %lld do not lie within axis %d of %s",
                shape_op(n), (long long)size, (long long)start, (long long)step, i,
                shape_text(c->arena, x));
        type->shape.dim[i] = size;
        if ((start != 0 || step != 1 || size != x->dim[i]) && x->batch[i])
            type->shape.batch[i] = BATCH_MIXED;
    }
    return true;
}

static bool need_pad_entries(const ShapeContext *c, const Node *n, int rank)
{
    return shape_need_entries(c, n, &n->attrs.pad.start, "start", rank) &&
           shape_need_entries(c, n, &n->attrs.pad.step, "step", rank) &&
           shape_need_entries(c, n, &n->attrs.pad.size, "size", rank);
}

bool shape_rule_pad(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape;
    *type = n->in[0]->type;
    if (!need_pad_entries(c, n, x->rank))
        return false;
    if (!dtype_holds(type->dtype, n->attrs.pad.value))
        return shape_fail(c, "%s: the value is no %s", shape_op(n), dtype_text(type->dtype));
    for (int i = 0; i < x->rank; i++) {
        const int64_t start = n->attrs.pad.start.v[i], step = n->attrs.pad.step.v[i];
        const int64_t size = n->attrs.pad.size.v[i];
        if (!steps_inside(start, step, x->dim[i], size))
            return shape_fail(
                c,
                "%s: axis %d of %s from %lld in steps of %lld does not fit into %lld elements",
                shape_op(n), i, shape_text(c->arena, x), (long long)start, (long long)step,
                (long long)size);
        type->shape.dim[i] = size;
        if ((start != 0 || step != 1 || size != x->dim[i]) && x->batch[i])
            type->shape.batch[i] = BATCH_MIXED;
    }
    return shape_fits(c, n, &type->shape);
}
