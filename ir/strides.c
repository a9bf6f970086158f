/* Strides of stored values and of views.  A view of a view is worked out from the inside; a
 * reshape resolves where each run of its axes that splits a run of the operand's axes finds that
 * run without gaps. */
#include "ir/strides.h"

#include <string.h>

#include "ir/shape.h"

IntList stored_order(const Module *m, const Node *n)
{
    const OpInfo *info = op_info(n->op);
    if (info->kind == KIND_VIEW && info->data == VIEW_LAYOUT)
        return n->attrs.perm.dims;
    if (info->kind == KIND_LEAF && info->data == LEAF_STATE) {
        const State *s = module_state(m, n->attrs.leaf.name);
        return s ? s->layout : (IntList){0};
    }
    return n->order;
}

void ordered_strides(const Shape *s, const IntList *order, int64_t *stride)
{
    int64_t step = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        const int axis = order->n ? (int)order->v[i] : i;
        stride[axis] = step;
        step *= s->dim[axis];
    }
}

void natural_strides(const Module *m, const Node *n, int64_t *stride)
{
    const IntList order = stored_order(m, n);
    ordered_strides(&n->type.shape, &order, stride);
}

/* Each run of result axes must split a run of operand axes that lies in memory as one axis. */
bool reshape_strides(const Shape *from, const int64_t *old, const Shape *to, int64_t *stride)
{
    int i = 0, j = 0;
    while (i < from->rank || j < to->rank) {
        const int j0 = j;
        while (i < from->rank && from->dim[i] == 1)
            i++;
        int64_t a = 1, b = 1, step = 0;
        int last = -1;
        do {
            if (a <= b && i < from->rank) {
                if (from->dim[i] > 1) {
                    if (last >= 0 && old[last] != old[i] * from->dim[i])
                        return false;
                    last = i;
                    step = old[i];
                }
                a *= from->dim[i++];
            } else if (j < to->rank) {
                b *= to->dim[j++];
            } else {
                break;
            }
        } while (a != b);
        for (int k = j - 1; k >= j0; k--) {
            stride[k] = to->dim[k] > 1 ? step : 0;
            step *= to->dim[k];
        }
    }
    return true;
}

bool view_strides(const Node *view, const int64_t *operand, int64_t *stride)
{
    const Shape *to = &view->type.shape, *from = &view->in[0]->type.shape;
    const int lead = to->rank - from->rank;
    switch (op_info(view->op)->data) {
    case VIEW_PERMUTE:
        for (int i = 0; i < to->rank; i++)
            stride[i] = operand[view->attrs.perm.dims.v[i]];
        return true;
    case VIEW_SLICE:
        for (int i = 0; i < to->rank; i++)
            stride[i] =
                operand[i] * (view->attrs.slice.step.n ? view->attrs.slice.step.v[i] : 1);
        return true;
    case VIEW_WINDOW: {
        int tap[MAX_RANK];
        const int taps = window_taps(&view->attrs, from->rank, tap);
        for (int i = 0; i < from->rank; i++) {
            stride[taps + i] = operand[i] * view->attrs.window.step.v[i];
            if (tap[i] >= 0)
                stride[tap[i]] = operand[i] * view->attrs.window.dilation.v[i];
        }
        return true;
    }
    case VIEW_EXPAND:
        for (int i = 0; i < to->rank; i++)
            stride[i] = i < lead || from->dim[i - lead] == 1 ? 0 : operand[i - lead];
        return true;
    case VIEW_LAYOUT:
        memcpy(stride, operand, sizeof *stride * (size_t)to->rank);
        return true;
    default:
        return reshape_strides(from, operand, to, stride);
    }
}
