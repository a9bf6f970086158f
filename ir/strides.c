/* Strides of a view fall out of its map (ir/reading.h): the place of an element of the operand is
 * a form in the axes' variables, and strides are its coefficients, if nothing else is in it. */
#include "ir/strides.h"

#include "ir/reading.h"
#include "ir/shape.h"

IntList stored_order(const Module *m, const Node *n)
{
    const OpInfo *info = op_info(n->op);
    if (node_is_layout(n))
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

/* A variable for each axis, also where it has one element: strides there are the operand's. */
static Index index_of_variables(IndexSpace *s, const Shape *shape, int *var)
{
    Index i = index_of_axes(s, shape, var);
    for (int k = 0; k < i.rank; k++)
        i.at[k] = affine_var(var[k]);
    return i;
}

static Affine place_of(const IndexSpace *s, const Index *at, const int64_t *stride)
{
    Affine sum = affine_const(0);
    for (int k = 0; k < at->rank; k++) {
        const Affine step = affine_scale(&at->at[k], stride[k]);
        sum = affine_add(&sum, &step);
    }
    return affine_join(s, &sum);
}

bool reshape_strides(const Shape *from, const int64_t *old, const Shape *to, int64_t *stride)
{
    AffineVar room[READ_MOST_VARS];
    IndexSpace s;
    int var[MAX_RANK];
    int64_t offset;
    index_space_init_fixed(&s, room, READ_MOST_VARS);
    Index i = index_of_variables(&s, to, var);
    i = index_reshape(&s, to, from, &i);
    return affine_strides(place_of(&s, &i, old), to->rank, var, stride, &offset);
}

bool view_strides(const Node *view, const int64_t *operand, int64_t *stride, int64_t *offset)
{
    AffineVar room[READ_MOST_VARS];
    IndexSpace s;
    int var[MAX_RANK];
    index_space_init_fixed(&s, room, READ_MOST_VARS);
    Index i = index_of_variables(&s, &view->type.shape, var);
    i = index_view(&s, view, &i);
    return affine_strides(place_of(&s, &i, operand), view->type.shape.rank, var, stride,
                          offset);
}

void strides_through_views(const Node *n, StridesInMemory *in_memory, void *context,
                           int64_t *stride, int64_t *offset)
{
    *offset = 0;
    if (in_memory(context, n, false, stride))
        return;
    if (op_info(n->op)->kind == KIND_VIEW) {
        int64_t below[MAX_RANK] = {0}, base, shift;
        strides_through_views(n->in[0], in_memory, context, below, &base);
        if (view_strides(n, below, stride, &shift)) {
            *offset = base + shift;
            return;
        }
    }
    in_memory(context, n, true, stride);
}
