/* The orders of values: each lies like what it is computed from, so that the kernels between
 * contractions run along memory, whatever order the contractions like.
 *
 * Orders change no bits but those of reductions, whose order of adding is fixed here. */
#include "passes/lower/lower.h"

#include <string.h>

#include "ir/reading.h"
#include "ir/reduction.h"
#include "ir/shape.h"

IntList order_ending_in(int rank, int last)
{
    IntList order = {.n = rank};
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (i != last)
            order.v[n++] = i;
    order.v[n] = last;
    return order;
}

IntList order_canonical(const Shape *s, const IntList *order)
{
    IntList r = {.n = order->n};
    int n = 0;
    int64_t before = -1;
    bool ascending = true;
    for (int i = 0; i < order->n; i++)
        if (s->dim[i] == 1)
            r.v[n++] = i;
    for (int i = 0; i < order->n; i++) {
        const int64_t axis = order->v[i];
        if (s->dim[axis] == 1)
            continue;
        ascending = ascending && axis > before;
        before = axis;
        r.v[n++] = axis;
    }
    return ascending ? (IntList){0} : r;
}

IntList order_of_strides(const Shape *s, const int64_t *stride)
{
    IntList order = {.n = s->rank};
    int n = 0;
    for (int i = 0; i < s->rank; i++)
        if (stride[i] == 0)
            order.v[n++] = i;
    const int first = n;
    for (int i = 0; i < s->rank; i++) {
        if (stride[i] == 0)
            continue;
        int at = n++;
        const int64_t step = stride[i] < 0 ? -stride[i] : stride[i];
        while (at > first) {
            const int64_t other = stride[order.v[at - 1]];
            if ((other < 0 ? -other : other) >= step)
                break;
            order.v[at] = order.v[at - 1];
            at--;
        }
        order.v[at] = i;
    }
    return order_canonical(s, &order);
}

static bool is_stored(void *module, const Node *n, bool must, int64_t *stride)
{
    if (!must && base_of_views(n) != n)
        return false;
    natural_strides(module, n, stride);
    return true;
}

void lying_strides(const Graph *g, const Node *n, int64_t *stride)
{
    int64_t offset;
    strides_through_views(n, is_stored, g->module, stride, &offset);
}

int order_innermost(const Graph *g, const Node *n)
{
    int64_t stride[MAX_RANK] = {0};
    lying_strides(g, n, stride);
    const IntList order = order_of_strides(&n->type.shape, stride);
    return order.n ? (int)order.v[order.n - 1] : -1;
}

/* The axes of taps are outermost: in memory they only step through what the others step through. */
static IntList window_order(const Node *n, const int64_t *stride)
{
    const Shape *s = &n->type.shape;
    const int taps = s->rank - n->in[0]->type.shape.rank;
    int64_t rest[MAX_RANK];
    for (int i = 0; i < s->rank; i++)
        rest[i] = i < taps ? 0 : stride[i];
    return order_of_strides(s, rest);
}

static IntList view_order(const Graph *g, const Node *n)
{
    int64_t below[MAX_RANK] = {0}, stride[MAX_RANK] = {0}, offset;
    lying_strides(g, n->in[0], below);
    if (!view_strides(n, below, stride, &offset))
        return (IntList){0};
    return op_info(n->op)->data == VIEW_WINDOW ? window_order(n, stride)
                                               : order_of_strides(&n->type.shape, stride);
}

/* Taps outermost, as window has them, then the operand's order without them. */
static IntList unwindow_order(const Graph *g, const Node *n)
{
    const IntList from = stored_order(g->module, n->in[0]);
    const int taps = n->type.shape.rank - n->attrs.window.size.n;
    IntList order = {.n = from.n};
    int k = 0;
    for (int i = 0; i < from.n; i++)
        if (from.v[i] < taps)
            order.v[k++] = from.v[i];
    for (int i = 0; i < from.n; i++)
        if (from.v[i] >= taps)
            order.v[k++] = from.v[i];
    return order_canonical(&n->type.shape, &order);
}

static IntList reduce_order(const Graph *g, const Node *n)
{
    const IntList from = stored_order(g->module, n->in[0]);
    const unsigned reduced = reduced_axes(n);
    int64_t now[MAX_RANK]; /* by axis of the operand: the result's, -1: gone */
    int kept = 0;
    for (int i = 0; i < n->in[0]->type.shape.rank; i++)
        now[i] = (reduced >> i & 1) && !n->attrs.axes.keepdim ? -1 : kept++;
    IntList order = {0};
    for (int i = 0; i < from.n; i++)
        if (now[from.v[i]] >= 0)
            order.v[order.n++] = now[from.v[i]];
    return order_canonical(&n->type.shape, &order);
}

static bool same_order(const IntList *a, const IntList *b)
{
    return a->n == b->n && !memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v);
}

/* The order of their own that most operands of the result's shape have, the first of equals. */
static IntList expr_order(const Graph *g, const Node *n)
{
    IntList best = {0};
    int best_votes = 0;
    for (int i = 0; i < n->n_in; i++) {
        const IntList mine = stored_order(g->module, n->in[i]);
        int votes = 0;
        if (mine.n == 0 || !shape_equal(&n->in[i]->type.shape, &n->type.shape))
            continue;
        for (int k = 0; k < n->n_in; k++) {
            const IntList other = stored_order(g->module, n->in[k]);
            votes +=
                shape_equal(&n->in[k]->type.shape, &n->type.shape) && same_order(&mine, &other);
        }
        if (votes > best_votes) {
            best = mine;
            best_votes = votes;
        }
    }
    return order_canonical(&n->type.shape, &best);
}

void order_inherit(const Graph *g, Node *n)
{
    const OpInfo *info = op_info(n->op);
    switch (info->kind) {
    case KIND_EXPR:
        n->order = expr_order(g, n);
        break;
    case KIND_VIEW:
        if (info->data != VIEW_LAYOUT)
            n->order = view_order(g, n);
        break;
    case KIND_INDEX:
        if (info->data == INDEX_PAD)
            n->order = stored_order(g->module, n->in[0]);
        else if (info->data == INDEX_UNWINDOW)
            n->order = unwindow_order(g, n);
        break;
    case KIND_REDUCE:
        n->order = reduce_order(g, n);
        break;
    case KIND_LEAF:
    case KIND_CONTRACT:
    case KIND_SCATTER:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
}

/* Does argmax count its axes in another order after the permute? */
static bool renumbers(const Node *n, const IntList *order)
{
    int64_t before = -1;
    if (!reduction_info(n)->position)
        return false;
    for (int i = 0; i < order->n; i++)
        for (int k = 0; k < n->attrs.axes.dims.n; k++)
            if (n->attrs.axes.dims.v[k] == order->v[i]) {
                if (order->v[i] < before)
                    return true;
                before = order->v[i];
            }
    return false;
}

Node *reduce_in_order(Builder *b, Node *n, const IntList *order)
{
    const unsigned reduced = reduced_axes(n);
    int64_t moved[MAX_RANK], back[MAX_RANK], kept[MAX_RANK];
    int n_moved = 0, n_kept = 0;
    if (order->n == 0 || renumbers(n, order))
        return n;
    for (int i = 0; i < order->n; i++) {
        const bool gone = reduced >> order->v[i] & 1;
        if (gone)
            moved[n_moved++] = i;
        if (!gone || n->attrs.axes.keepdim)
            kept[n_kept++] = order->v[i];
    }
    /* kept[i]: the operand's axis that axis i of the new result is; back: where each goes. */
    for (int i = 0; i < n_kept; i++) {
        int place = 0;
        for (int k = 0; k < n_kept; k++)
            place += kept[k] < kept[i];
        back[place] = i;
    }
    Node *x = build_permute(b, n->in[0], order->v);
    Node *r = build_reduce(b, n->op, x, n_moved, moved, n->attrs.axes.keepdim);
    return build_permute(b, r, back);
}
