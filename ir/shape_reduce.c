/* Shape rules of reductions, and of the operators that ask about a value: grad and count. */
#include "ir/shape_rules.h"

/* Axes are non-negative, in range and distinct; sets their bits. */
static bool axes_fit(const ShapeContext *c, const Node *n, unsigned *bits)
{
    const Shape *x = &n->in[0]->type.shape;
    const IntList *dims = &n->attrs.axes.dims;
    *bits = 0;
    for (int i = 0; i < dims->n; i++) {
        const int64_t d = dims->v[i];
        if (d < 0 || d >= x->rank)
            return shape_fail(c, "%s: %s has no axis %lld", shape_op(n),
                              shape_text(c->arena, x), (long long)d);
        if (*bits >> d & 1)
            return shape_fail(c, "%s: axis %lld is named twice", shape_op(n), (long long)d);
        *bits |= 1u << d;
    }
    return true;
}

/* Reduced axes go, or stay with one element and without a mark. */
static Shape reduced(const Shape *x, unsigned bits, bool keepdim)
{
    Shape s = {0};
    for (int i = 0; i < x->rank; i++) {
        const bool gone = bits >> i & 1;
        if (gone && !keepdim)
            continue;
        s.dim[s.rank] = gone ? 1 : x->dim[i];
        s.batch[s.rank++] = gone ? 0 : x->batch[i];
    }
    return s;
}

bool shape_rule_reduce(const ShapeContext *c, const Node *n, Type *type)
{
    unsigned bits;
    if (!axes_fit(c, n, &bits) || !shape_need_number(c, n, 0))
        return false;
    type->dtype = n->in[0]->type.dtype;
    type->shape = reduced(&n->in[0]->type.shape, bits, n->attrs.axes.keepdim);
    return true;
}

bool shape_rule_argreduce(const ShapeContext *c, const Node *n, Type *type)
{
    unsigned bits;
    if (!axes_fit(c, n, &bits) || !shape_need_number(c, n, 0))
        return false;
    if (n->attrs.axes.dims.n == 0)
        return shape_fail(c, "%s: needs an axis", shape_op(n));
    type->dtype = DT_I64;
    type->shape = reduced(&n->in[0]->type.shape, bits, n->attrs.axes.keepdim);
    return true;
}

bool shape_rule_count(const ShapeContext *c, const Node *n, Type *type)
{
    unsigned bits;
    *type = (Type){.dtype = DT_F64};
    return axes_fit(c, n, &bits);
}

bool shape_rule_grad(const ShapeContext *c, const Node *n, Type *type)
{
    if (n->in[0]->type.shape.rank != 0)
        return shape_fail(c, "%s: what is differentiated must be one number, not %s",
                          shape_op(n), type_text(c->arena, &n->in[0]->type));
    *type = n->in[1]->type;
    return shape_need_real(c, n, 0) && shape_need_real(c, n, 1);
}
