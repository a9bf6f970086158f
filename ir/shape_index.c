/* Shape rules of operators that compute with indices: iota, random, gather, scatter. */
#include "ir/shape_rules.h"

bool shape_rule_iota(const ShapeContext *c, const Node *n, Type *type)
{
    const IntList *s = &n->attrs.iota.shape;
    *type = (Type){.dtype = DT_I64, .shape = shape_of(s->n, s->v)};
    if (n->attrs.iota.dim < 0 || n->attrs.iota.dim >= s->n)
        return shape_fail(c, "%s: %s has no axis %lld", shape_op(n),
                          shape_text(c->arena, &type->shape), (long long)n->attrs.iota.dim);
    return shape_fits(c, n, &type->shape);
}

bool shape_rule_random(const ShapeContext *c, const Node *n, Type *type)
{
    const IntList *s = &n->attrs.random.shape;
    *type = (Type){.dtype = DT_I64, .shape = shape_of(s->n, s->v)};
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->type.dtype != DT_I64 || n->in[i]->type.shape.rank != 0)
            return shape_fail(c, "%s: seed and step must be i64[], but one is %s", shape_op(n),
                              type_text(c->arena, &n->in[i]->type));
    if (!n->attrs.random.path)
        return shape_fail(c, "%s: has no path", shape_op(n));
    return shape_fits(c, n, &type->shape);
}

static bool need_axis(const ShapeContext *c, const Node *n, const Shape *x, int64_t dim)
{
    return (dim >= 0 && dim < x->rank) || shape_fail(c, "%s: %s has no axis %lld", shape_op(n),
                                                     shape_text(c->arena, x), (long long)dim);
}

/* PyTorch's condition: equal ranks, and index within `x` on all axes but dim (on all: dim < 0). */
static bool index_within(const ShapeContext *c, const Node *n, int operand, const Shape *index,
                         int64_t dim)
{
    const Shape *x = &n->in[operand]->type.shape;
    bool ok = x->rank == index->rank;
    for (int i = 0; ok && i < x->rank; i++)
        ok = i == dim || index->dim[i] <= x->dim[i];
    if (ok)
        return true;
    shape_fail(c,
               "%s: index of shape %s goes beyond %s: ranks must be equal and extents at most "
               "as large%s",
               shape_op(n), shape_text(c->arena, index), shape_text(c->arena, x),
               dim < 0 ? "" : " on the other axes");
    shape_note_operand(c, n, operand);
    return false;
}

/* Along an axis that x and the index go through side by side.  An index of fewer elements takes
 * the first ones: fine where those are not samples of x. */
static int64_t aligned_mark(const Shape *x, const Shape *index, int i)
{
    if (x->batch[i] == index->batch[i] && x->dim[i] == index->dim[i])
        return index->batch[i];
    return x->batch[i] || index->batch[i] ? BATCH_MIXED : 0;
}

bool shape_rule_gather(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *x = &n->in[0]->type.shape, *index = &n->in[1]->type.shape;
    const int64_t dim = n->attrs.axis.dim;
    type->dtype = n->in[0]->type.dtype;
    type->shape = *index;
    if (!shape_need_integer(c, n, 1) || !need_axis(c, n, x, dim) ||
        !index_within(c, n, 0, index, dim))
        return false;
    for (int i = 0; i < index->rank; i++)
        if (i != dim)
            type->shape.batch[i] = aligned_mark(x, index, i);
    return true;
}

bool shape_rule_scan(const ShapeContext *c, const Node *n, Type *type)
{
    *type = n->in[0]->type;
    return shape_need_number(c, n, 0) && need_axis(c, n, &type->shape, n->attrs.scan.dim);
}

bool shape_rule_scatter(const ShapeContext *c, const Node *n, Type *type)
{
    const Shape *index = &n->in[1]->type.shape;
    const int64_t dim = n->attrs.axis.dim;
    *type = n->in[0]->type;
    if (n->in[2]->type.dtype != type->dtype)
        return shape_fail(c, "%s: updates are %s, but %s is added to", shape_op(n),
                          type_text(c->arena, &n->in[2]->type), type_text(c->arena, type));
    if (!shape_need_integer(c, n, 1) || !shape_need_number(c, n, 0) ||
        !need_axis(c, n, &type->shape, dim) || !index_within(c, n, 0, index, dim) ||
        !index_within(c, n, 2, index, -1))
        return false;
    for (int i = 0; i < index->rank; i++)
        if (i != dim)
            type->shape.batch[i] = mark_meet(aligned_mark(&type->shape, index, i),
                                             aligned_mark(&n->in[2]->type.shape, index, i));
    return true;
}
