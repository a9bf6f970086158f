/* Identities that change no bit of the result (a NaN's payload apart): x + 0 is not one of them,
 * as it makes 0 of -0.  Powers with small constant exponents become what PyTorch computes for
 * them.
 *
 * A rule gives n, an operand, or one new node over nodes that are there or that it builds. */
#include "passes/rewrite.h"

#include <math.h>

typedef Node *IdentityRule(Builder *b, Node *n);

static bool is_value(const Node *n, double value)
{
    double v;
    return const_uniform(n, &v) && v == value && signbit(v) == signbit(value);
}

static bool is_integer(const Node *n)
{
    return dtype_class(n->type.dtype) != DTC_REAL;
}

/* What leaves the other operand of an addition as it is. */
static bool is_nothing(const Node *n)
{
    return is_value(n, -0.0) || (is_integer(n) && is_value(n, 0));
}

static Node *rule_add(Builder *b, Node *n)
{
    Node *x = n->in[0], *y = n->in[1];
    if (is_nothing(y))
        return x;
    if (is_nothing(x))
        return y;
    if (y->op == OP_NEG)
        return build2(b, OP_SUB, x, y->in[0]);
    return x->op == OP_NEG ? build2(b, OP_SUB, y, x->in[0]) : n;
}

static Node *rule_sub(Builder *b, Node *n)
{
    Node *x = n->in[0], *y = n->in[1];
    if (is_value(y, 0))
        return x;
    return y->op == OP_NEG ? build2(b, OP_ADD, x, y->in[0]) : n;
}

static Node *rule_mul(Builder *b, Node *n)
{
    for (int i = 0; i < 2; i++) {
        Node *x = n->in[i];
        if (is_value(n->in[1 - i], 1))
            return x;
        if (is_value(n->in[1 - i], -1) && shape_equal(&x->type.shape, &n->type.shape))
            return build1(b, OP_NEG, x);
    }
    return n;
}

static Node *rule_div(Builder *b, Node *n)
{
    (void)b;
    return is_value(n->in[1], 1) ? n->in[0] : n;
}

static Node *reciprocal(Builder *b, Node *x)
{
    Node *one = build_const(b, x->type.dtype, 1);
    return build2(b, OP_DIV, one, x);
}

static Node *rule_pow(Builder *b, Node *n)
{
    Node *x = n->in[0];
    double e;
    if (is_integer(n) || !const_uniform(n->in[1], &e) ||
        !shape_equal(&x->type.shape, &n->type.shape))
        return n;
    if (e == 1)
        return x;
    if (e == 0.5)
        return build1(b, OP_SQRT, x);
    if (e == -1)
        return reciprocal(b, x);
    if (e == -0.5)
        return reciprocal(b, build1(b, OP_SQRT, x));
    if (e != 2 && e != 3 && e != -2)
        return e == 0 ? build_full(b, n->type.dtype, &n->type.shape, 1) : n;
    Node *square = build2(b, OP_MUL, x, x);
    if (e == -2)
        return reciprocal(b, square);
    return e == 2 ? square : build2(b, OP_MUL, square, x);
}

static Node *rule_same_pair(Builder *b, Node *n)
{
    (void)b;
    return n->in[0] == n->in[1] ? n->in[0] : n;
}

/* identity: what leaves the other operand as it is. */
static Node *rule_logic(Node *n, double identity)
{
    for (int i = 0; i < 2; i++)
        if (is_value(n->in[i], identity))
            return n->in[1 - i];
    return n->in[0] == n->in[1] ? n->in[0] : n;
}

static Node *rule_and(Builder *b, Node *n)
{
    (void)b;
    return rule_logic(n, 1);
}

static Node *rule_or(Builder *b, Node *n)
{
    (void)b;
    return rule_logic(n, 0);
}

static Node *rule_involution(Builder *b, Node *n)
{
    (void)b;
    return n->in[0]->op == n->op ? n->in[0]->in[0] : n;
}

static Node *rule_abs(Builder *b, Node *n)
{
    if (n->in[0]->op == OP_ABS)
        return n->in[0];
    return n->in[0]->op == OP_NEG ? build1(b, OP_ABS, n->in[0]->in[0]) : n;
}

static Node *rule_idempotent(Builder *b, Node *n)
{
    (void)b;
    return n->in[0]->op == n->op ? n->in[0] : n;
}

static Node *rule_where(Builder *b, Node *n)
{
    Node *c = n->in[0], *x = n->in[1], *y = n->in[2];
    double v;
    if (const_uniform(c, &v))
        return build_expand(b, v != 0 ? x : y, &n->type.shape);
    if (x == y)
        return build_expand(b, x, &n->type.shape);
    return c->op == OP_NOT ? build3(b, OP_WHERE, c->in[0], y, x) : n;
}

/* Does every value of `from` exist in `to`? */
static bool holds_all(DType from, DType to)
{
    if (from == to || from == DT_BOOL)
        return true;
    if (dtype_class(to) == DTC_BOOL)
        return false;
    if (dtype_class(from) == dtype_class(to))
        return dtype_bytes(from) <= dtype_bytes(to);
    return dtype_class(to) == DTC_REAL && 2 * dtype_bytes(from) <= dtype_bytes(to);
}

/* Two casts in one, but not an integer's by way of a real type: reals are clamped to the
 * integers, which keep their low bits otherwise. */
static Node *rule_cast(Builder *b, Node *n)
{
    Node *x = n->in[0];
    if (x->type.dtype == n->type.dtype)
        return x;
    if (x->op == OP_CAST && holds_all(x->in[0]->type.dtype, x->type.dtype) &&
        !(is_integer(x->in[0]) && !is_integer(x) && is_integer(n)))
        return build_cast(b, x->in[0], n->type.dtype);
    return n;
}

static Node *rule_reshape(Builder *b, Node *n)
{
    Node *x = n->in[0];
    if (x->op == OP_RESHAPE)
        x = x->in[0];
    if (shape_equal(&x->type.shape, &n->type.shape))
        return x;
    return x == n->in[0] ? n : build_reshape(b, x, &n->type.shape);
}

static Node *rule_expand(Builder *b, Node *n)
{
    Node *x = n->in[0];
    if (x->op == OP_EXPAND)
        x = x->in[0];
    if (shape_equal(&x->type.shape, &n->type.shape))
        return x;
    return x == n->in[0] ? n : build_expand(b, x, &n->type.shape);
}

static Node *rule_permute(Builder *b, Node *n)
{
    const IntList *dims = &n->attrs.perm.dims;
    Node *x = n->in[0];
    int64_t both[MAX_RANK];
    for (int i = 0; i < dims->n; i++)
        both[i] = x->op == OP_PERMUTE ? x->attrs.perm.dims.v[dims->v[i]] : dims->v[i];
    if (x->op == OP_PERMUTE)
        return build_permute(b, x->in[0], both);
    for (int i = 0; i < dims->n; i++)
        if (both[i] != i)
            return n;
    return x;
}

static Node *rule_slice(Builder *b, Node *n)
{
    Node *x = n->in[0];
    if (shape_equal(&x->type.shape, &n->type.shape) && x->type.shape.rank > 0) {
        for (int i = 0; i < x->type.shape.rank; i++)
            if (n->attrs.slice.step.v[i] < 0 && x->type.shape.dim[i] > 1)
                return n;
        return x;
    }
    if (x->op != OP_SLICE)
        return n;
    int64_t start[MAX_RANK], step[MAX_RANK];
    for (int i = 0; i < n->type.shape.rank; i++) {
        start[i] =
            x->attrs.slice.start.v[i] + x->attrs.slice.step.v[i] * n->attrs.slice.start.v[i];
        step[i] = x->attrs.slice.step.v[i] * n->attrs.slice.step.v[i];
    }
    return build_slice(b, x->in[0], start, step, n->attrs.slice.size.v);
}

static Node *rule_pad(Builder *b, Node *n)
{
    (void)b;
    if (!shape_equal(&n->in[0]->type.shape, &n->type.shape))
        return n;
    for (int i = 0; i < n->type.shape.rank; i++)
        if (n->attrs.pad.step.v[i] < 0 && n->type.shape.dim[i] > 1)
            return n;
    return n->in[0];
}

/* A reduction over axes of one element is that element; of a sum's -0 the sign stays. */
static Node *rule_reduce(Builder *b, Node *n)
{
    Node *x = n->in[0];
    return shape_count(&x->type.shape) == shape_count(&n->type.shape)
               ? build_reshape(b, x, &n->type.shape)
               : n;
}

static Node *rule_argmax(Builder *b, Node *n)
{
    return shape_count(&n->in[0]->type.shape) == shape_count(&n->type.shape)
               ? build_full(b, n->type.dtype, &n->type.shape, 0)
               : n;
}

static IdentityRule *const rules[OP_COUNT_] = {
    [OP_ADD] = rule_add,         [OP_SUB] = rule_sub,         [OP_MUL] = rule_mul,
    [OP_DIV] = rule_div,         [OP_POW] = rule_pow,         [OP_MIN] = rule_same_pair,
    [OP_MAX] = rule_same_pair,   [OP_AND] = rule_and,         [OP_OR] = rule_or,
    [OP_NOT] = rule_involution,  [OP_NEG] = rule_involution,  [OP_ABS] = rule_abs,
    [OP_RELU] = rule_idempotent, [OP_SIGN] = rule_idempotent, [OP_FLOOR] = rule_idempotent,
    [OP_CEIL] = rule_idempotent, [OP_WHERE] = rule_where,     [OP_CAST] = rule_cast,
    [OP_RESHAPE] = rule_reshape, [OP_EXPAND] = rule_expand,   [OP_PERMUTE] = rule_permute,
    [OP_SLICE] = rule_slice,     [OP_PAD] = rule_pad,         [OP_REDMAX] = rule_reduce,
    [OP_REDMIN] = rule_reduce,   [OP_SUM] = rule_reduce,      [OP_PROD] = rule_reduce,
    [OP_ARGMAX] = rule_argmax,
};

/* An expand that the operator's own broadcasting makes superfluous. */
static Node *drop_expands(Builder *b, Node *n)
{
    Node *in[3];
    if (n->n_in < 2 || n->n_in > 3)
        return n;
    bool dropped = false;
    for (int i = 0; i < n->n_in; i++)
        in[i] = n->in[i];
    for (int i = 0; i < n->n_in; i++) {
        if (in[i]->op != OP_EXPAND)
            continue;
        Shape s = in[i]->in[0]->type.shape;
        bool fits = true;
        for (int k = 0; k < n->n_in && fits; k++)
            fits = k == i || shape_broadcast(&s, &in[k]->type.shape, &s);
        if (!fits || !shape_equal(&s, &n->type.shape))
            continue;
        in[i] = in[i]->in[0];
        dropped = true;
    }
    return dropped ? build(b, n->op, &n->attrs, n->n_in, in) : n;
}

Node *apply_identity(Builder *b, Node *n)
{
    IdentityRule *rule = rules[n->op];
    Node *v = rule ? rule(b, n) : n;
    return v == n && op_info(n->op)->kind == KIND_EXPR ? drop_expands(b, n) : v;
}
