/* Shape rules of leaves and elementwise operators.  NumPy's broadcasting, PyTorch's restrictions: operands
 * have one element type, arithmetic is not done on bool. */
#include "ir/shape_rules.h"

/* A leaf's type comes from the module or from who made it; the verifier compares the two. */
bool shape_rule_given(const ShapeContext *c, const Node *n, Type *type)
{
    *type = n->type;
    return shape_fits(c, n, &type->shape);
}

static bool fail_broadcast(const ShapeContext *c, const Node *n, const Shape *a, int i)
{
    const Shape *b = &n->in[i]->type.shape;
    shape_fail(
        c, "%s: shapes do not broadcast, %s and %s: from the right, extents must be equal or 1",
        shape_op(n), shape_text(c->arena, a), shape_text(c->arena, b));
    shape_note_operand(c, n, i);
    return false;
}

static bool broadcast_all(const ShapeContext *c, const Node *n, Shape *out)
{
    Shape s = n->in[0]->type.shape;
    for (int i = 1; i < n->n_in; i++) {
        Shape joined;
        if (!shape_broadcast(&s, &n->in[i]->type.shape, &joined))
            return fail_broadcast(c, n, &s, i);
        s = joined;
    }
    *out = s;
    return shape_fits(c, n, out);
}

bool shape_rule_broadcast(const ShapeContext *c, const Node *n, Type *type)
{
    type->dtype = n->in[0]->type.dtype;
    return shape_same_dtypes(c, n, 0) && shape_need_number(c, n, 0) &&
           broadcast_all(c, n, &type->shape);
}

/* Comparisons of any one type, and the logical operators, which take bool. */
bool shape_rule_compare(const ShapeContext *c, const Node *n, Type *type)
{
    const int fn = op_info(n->op)->data;
    type->dtype = DT_BOOL;
    if ((fn == SC_AND || fn == SC_OR) &&
        !(shape_need_bool(c, n, 0) && shape_need_bool(c, n, 1)))
        return false;
    return shape_same_dtypes(c, n, 0) && broadcast_all(c, n, &type->shape);
}

bool shape_rule_where(const ShapeContext *c, const Node *n, Type *type)
{
    type->dtype = n->in[1]->type.dtype;
    return shape_need_bool(c, n, 0) && shape_same_dtypes(c, n, 1) &&
           broadcast_all(c, n, &type->shape);
}

/* The value as it is; the slope may have more axes or larger ones where the value is of a reduction. */
bool shape_rule_slope(const ShapeContext *c, const Node *n, Type *type)
{
    Shape all;
    *type = n->in[0]->type;
    return shape_need_real(c, n, 0) && shape_same_dtypes(c, n, 0) && broadcast_all(c, n, &all);
}

/* A permutation in the attributes: only the layout operator's row has one. */
static bool layout_fits(const ShapeContext *c, const Node *n)
{
    const IntList *dims = &n->attrs.perm.dims;
    unsigned seen = 0;
    if (!shape_need_entries(c, n, dims, "dims", n->in[0]->type.shape.rank))
        return false;
    for (int i = 0; i < dims->n; i++) {
        if (dims->v[i] < 0 || dims->v[i] >= dims->n || (seen >> dims->v[i] & 1))
            return shape_fail(c, "%s: dims is no permutation of the axes", shape_op(n));
        seen |= 1u << dims->v[i];
    }
    return true;
}

bool shape_rule_same(const ShapeContext *c, const Node *n, Type *type)
{
    const OpInfo *info = op_info(n->op);
    *type = n->in[0]->type;
    if (info->kind == KIND_VIEW)
        return layout_fits(c, n);
    if (info->kind != KIND_EXPR)
        return true;
    return info->data == SC_NOT ? shape_need_bool(c, n, 0) : shape_need_number(c, n, 0);
}

bool shape_rule_real(const ShapeContext *c, const Node *n, Type *type)
{
    *type = n->in[0]->type;
    return shape_need_real(c, n, 0);
}

bool shape_rule_predicate(const ShapeContext *c, const Node *n, Type *type)
{
    *type = n->in[0]->type;
    type->dtype = DT_BOOL;
    return shape_need_real(c, n, 0);
}

bool shape_rule_cast(const ShapeContext *c, const Node *n, Type *type)
{
    (void)c;
    *type = n->in[0]->type;
    type->dtype = n->attrs.cast.to;
    return true;
}
