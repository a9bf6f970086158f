/* Constant folding: f64 in double, other types rounded as they would be at run time
 * (scalar_round, scalar_cast). */
#include "passes/rewrite.h"

#include <math.h>

#include "ir/reduction.h"
#include "ir/scalar.h"
#include "ir/shape.h"
#include "ir/strides.h"

enum {
    MAX_OPERANDS = 3,
    MAX_TABLE = 65536 /* elements; a larger table is computed at run time */
};

bool const_uniform(const Node *n, double *v)
{
    if (n->op == OP_EXPAND || n->op == OP_RESHAPE)
        return const_uniform(n->in[0], v);
    if (n->op != OP_CONST || n->attrs.value.data.n != 1)
        return false;
    *v = n->attrs.value.data.v[0];
    return true;
}

static bool is_uniform(const Node *n)
{
    return n->attrs.value.data.n == 1;
}

static double element(const Node *n, int64_t i)
{
    return n->attrs.value.data.v[is_uniform(n) ? 0 : i];
}

/* Position in operand x of element i of a result of shape s, by NumPy's broadcasting. */
static int64_t broadcast_position(const Shape *s, const Shape *x, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = s->rank - 1, e = x->rank - 1; e >= 0; d--, e--) {
        const int64_t index = i % s->dim[d];
        i /= s->dim[d];
        if (x->dim[e] > 1)
            at += index * stride;
        stride *= x->dim[e];
    }
    return at;
}

static double fold_element(const Node *n, int64_t i)
{
    const ScalarFn f = (ScalarFn)op_info(n->op)->data;
    double x[MAX_OPERANDS];
    for (int k = 0; k < n->n_in; k++)
        x[k] = element(n->in[k], broadcast_position(&n->type.shape, &n->in[k]->type.shape, i));
    const DType from = n->in[n->n_in - 1]->type.dtype;
    if (f == SC_CAST)
        return scalar_cast(from, n->type.dtype, x[0]);
    return scalar_round(n->type.dtype, scalar_eval(f, from, x));
}

/* Integers are carried as doubles: below 2^53 the double is the very one that was computed. */
static bool is_exact(DType t, double v)
{
    return dtype_class(t) == DTC_REAL || fabs(v) < 0x1p53;
}

static Node *fold_expr(Builder *b, Node *n)
{
    bool uniform = true;
    for (int k = 0; k < n->n_in && uniform; k++)
        uniform = is_uniform(n->in[k]);
    const int64_t count = uniform ? 1 : shape_count(&n->type.shape);
    if (n->n_in > MAX_OPERANDS || count > MAX_TABLE)
        return n;
    Arena *scratch = arena_new();
    double *v = arena_array(scratch, (size_t)count, sizeof *v);
    bool exact = true;
    for (int64_t i = 0; i < count; i++) {
        v[i] = fold_element(n, i);
        exact &= is_exact(n->type.dtype, v[i]);
    }
    Node *c = n;
    if (exact)
        c = uniform ? build_full(b, n->type.dtype, &n->type.shape, v[0])
                    : build_table(b, n->type.dtype, &n->type.shape, v);
    arena_free(scratch);
    return c;
}

static Node *fold_strided(Builder *b, Node *n)
{
    const Shape *s = &n->type.shape;
    const int64_t count = shape_count(s);
    int64_t own[MAX_RANK], stride[MAX_RANK], base;
    shape_strides(&n->in[0]->type.shape, own);
    if (count > MAX_TABLE || !view_strides(n, own, stride, &base))
        return n;
    Arena *scratch = arena_new();
    double *v = arena_array(scratch, (size_t)count, sizeof *v);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = base, rest = i;
        for (int d = s->rank - 1; d >= 0; d--) {
            at += rest % s->dim[d] * stride[d];
            rest /= s->dim[d];
        }
        v[i] = element(n->in[0], at);
    }
    Node *c = build_table(b, n->type.dtype, s, v);
    arena_free(scratch);
    return c;
}

static Node *fold_view(Builder *b, Node *n)
{
    if (op_info(n->op)->data == VIEW_LAYOUT)
        return n;
    if (is_uniform(n->in[0]))
        return build_full(b, n->type.dtype, &n->type.shape, element(n->in[0], 0));
    if (n->op == OP_RESHAPE)
        return build_table(b, n->type.dtype, &n->type.shape, n->in[0]->attrs.value.data.v);
    return n->op == OP_PERMUTE || n->op == OP_SLICE ? fold_strided(b, n) : n;
}

/* Equal values, of which a reduction in any order gives one; a sum would have to round as the
 * back end does. */
static Node *fold_reduce(Builder *b, Node *n)
{
    const ReductionInfo *r = reduction_info(n);
    if (r->rounded || r->position || !is_uniform(n->in[0]))
        return n;
    return build_full(b, n->type.dtype, &n->type.shape, element(n->in[0], 0));
}

Node *fold_constant(Builder *b, Node *n)
{
    if (n->n_in == 0)
        return n;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]->op != OP_CONST)
            return n;
    switch (op_info(n->op)->kind) {
    case KIND_EXPR:
        return fold_expr(b, n);
    case KIND_VIEW:
        return fold_view(b, n);
    case KIND_REDUCE:
        return fold_reduce(b, n);
    case KIND_LEAF:
    case KIND_INDEX:
    case KIND_CONTRACT:
    case KIND_SCATTER:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return n;
}
