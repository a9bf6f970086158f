/* Shape rules of leaves and elementwise operators.  NumPy's broadcasting, PyTorch's restrictions:
 * operands have one element type, arithmetic is not done on bool. */
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

bool op_index_only(OpCode op)
{
    const OpKind kind = op_info(op)->kind;
    return kind == KIND_EXPR || (kind == KIND_VIEW && op != OP_WINDOW) || op == OP_CONST ||
           op == OP_IOTA || op == OP_PAD || op == OP_DETACH;
}

/* Of indices and constants alone; looks at `left` nodes at most. */
static bool index_only(const Node *n, int *left)
{
    if (!op_index_only(n->op) || --*left < 0)
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!index_only(n->in[i], left))
            return false;
    return true;
}

/* The marks of operand i where others differ: 2 * N numbers may be those of two times N samples
 * as well as of N samples with two elements each, so numbers that no data has gone into follow
 * what they meet; passes/batch/batch_use.c sees to it that they are the same then.  Of two such
 * the finer mark counts. */
static void follow_marks(const Node *n, int i, const Shape *x, Shape *joined)
{
    const Shape *y = &n->in[i]->type.shape;
    bool asked = false; /* only where it matters */
    bool x_follows = false, y_follows = false;
    for (int k = 0; k < joined->rank; k++) {
        const int kx = k - (joined->rank - x->rank), ky = k - (joined->rank - y->rank);
        if (kx < 0 || ky < 0 || x->dim[kx] != y->dim[ky] || x->batch[kx] <= 0 ||
            y->batch[ky] <= 0 || x->batch[kx] == y->batch[ky])
            continue;
        if (!asked) {
            int left = 64;
            x_follows = true;
            for (int o = 0; o < i; o++)
                x_follows = x_follows && index_only(n->in[o], &left);
            left = 64;
            y_follows = index_only(n->in[i], &left);
            asked = true;
        }
        const int64_t finer = x->batch[kx] < y->batch[ky] ? x->batch[kx] : y->batch[ky];
        joined->batch[k] = x_follows && y_follows ? finer
                           : y_follows            ? x->batch[kx]
                           : x_follows            ? y->batch[ky]
                                                  : BATCH_MIXED;
    }
}

static bool broadcast_all(const ShapeContext *c, const Node *n, Shape *out)
{
    Shape s = n->in[0]->type.shape;
    for (int i = 1; i < n->n_in; i++) {
        Shape joined;
        if (!shape_broadcast(&s, &n->in[i]->type.shape, &joined))
            return fail_broadcast(c, n, &s, i);
        follow_marks(n, i, &s, &joined);
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

/* The value as it is; the slope may have more axes or larger ones where the value is of a
 * reduction. */
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
