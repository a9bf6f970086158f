/* Gradients of the elementwise rows.  Broadcast operands are summed back by adjoint_add.
 *
 * At most one argument of a call builds nodes, here and in the other rules: C leaves the order of
 * arguments open, and the order of nodes must not depend on the compiler. */
#include "passes/grad/grad.h"

#include <math.h>

#include "passes/rewrite.h"

static Node *mul(Adjoint *c, Node *x, Node *y)
{
    return build2(c->b, OP_MUL, x, y);
}

static Node *divide(Adjoint *c, Node *x, Node *y)
{
    return build2(c->b, OP_DIV, x, y);
}

static Node *neg(Adjoint *c, Node *x)
{
    return build1(c->b, OP_NEG, x);
}

/* g where `pass` holds, else 0. */
static Node *keep(Adjoint *c, Node *pass, Node *g)
{
    return build3(c->b, OP_WHERE, pass, g, adjoint_const(c, 0));
}

/* g where `stop` does not hold, else 0. */
static Node *drop(Adjoint *c, Node *stop, Node *g)
{
    return build3(c->b, OP_WHERE, stop, adjoint_const(c, 0), g);
}

void grad_add(Adjoint *c)
{
    for (int i = 0; i < 2; i++)
        if (adjoint_wanted(c, i))
            adjoint_add(c, i, c->g);
}

void grad_sub(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, c->g);
    if (adjoint_wanted(c, 1))
        adjoint_add(c, 1, neg(c, c->g));
}

void grad_mul(Adjoint *c)
{
    for (int i = 0; i < 2; i++)
        if (adjoint_wanted(c, i))
            adjoint_add(c, i, mul(c, c->g, c->in[1 - i]));
}

void grad_div(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, divide(c, c->g, c->in[1]));
    if (adjoint_wanted(c, 1))
        adjoint_add(c, 1, neg(c, mul(c, c->g, divide(c, c->y, c->in[1]))));
}

/* a - floor(a / b) * b */
void grad_mod(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, c->g);
    if (adjoint_wanted(c, 1))
        adjoint_add(c, 1, neg(c, mul(c, c->g, build2(c->b, OP_FDIV, c->in[0], c->in[1]))));
}

/* d x^e / dx for an exponent known at compile time. */
static Node *power_slope(Adjoint *c, double e)
{
    Node *x = c->in[0];
    if (e == 2)
        return mul(c, x, adjoint_const(c, 2));
    if (e == 0.5)
        return divide(c, adjoint_const(c, 0.5), c->y);
    if (e == -1)
        return neg(c, mul(c, c->y, c->y));
    Node *power = build2(c->b, OP_POW, x, adjoint_const(c, e - 1));
    return mul(c, power, adjoint_const(c, e));
}

static Node *pow_base(Adjoint *c)
{
    Node *x = c->in[0], *e = c->in[1];
    double v;
    if (const_uniform(e, &v)) {
        if (v == 0)
            return mul(c, c->g, adjoint_const(c, 0));
        return v == 1 ? c->g : mul(c, c->g, power_slope(c, v));
    }
    Node *lower = build2(c->b, OP_SUB, e, adjoint_const(c, 1));
    Node *slope = mul(c, e, build2(c->b, OP_POW, x, lower));
    Node *flat = build2(c->b, OP_EQ, e, adjoint_const(c, 0));
    return drop(c, flat, mul(c, c->g, slope));
}

void grad_pow(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, pow_base(c));
    if (adjoint_wanted(c, 1)) {
        Node *v = mul(c, c->g, mul(c, c->y, build1(c->b, OP_LOG, c->in[0])));
        /* 0 ** e is 0 for e > 0, and 1 for e = 0; below, it is infinite. */
        Node *zero = build2(c->b, OP_EQ, c->in[0], adjoint_const(c, 0));
        Node *flat = build2(c->b, OP_GE, c->in[1], adjoint_const(c, 0));
        adjoint_add(c, 1, drop(c, build2(c->b, OP_AND, zero, flat), v));
    }
}

/* As torch.maximum: a tie gives each operand half; a NaN passes to both. */
void grad_minmax(Adjoint *c)
{
    const OpCode loses = c->y->op == OP_MAX ? OP_LT : OP_GT;
    for (int i = 0; i < 2; i++)
        if (adjoint_wanted(c, i)) {
            Node *x = c->in[i], *other = c->in[1 - i];
            Node *won = drop(c, build2(c->b, loses, x, other), c->g);
            Node *half = mul(c, c->g, adjoint_const(c, 0.5));
            adjoint_add(c, i, build3(c->b, OP_WHERE, build2(c->b, OP_EQ, x, other), half, won));
        }
}

void grad_where(Adjoint *c)
{
    if (adjoint_wanted(c, 1))
        adjoint_add(c, 1, keep(c, c->in[0], c->g));
    if (adjoint_wanted(c, 2))
        adjoint_add(c, 2, drop(c, c->in[0], c->g));
}

void grad_fma(Adjoint *c)
{
    for (int i = 0; i < 2; i++)
        if (adjoint_wanted(c, i))
            adjoint_add(c, i, mul(c, c->g, c->in[1 - i]));
    if (adjoint_wanted(c, 2))
        adjoint_add(c, 2, c->g);
}

void grad_neg(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, neg(c, c->g));
}

void grad_abs(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, mul(c, c->g, build1(c->b, OP_SIGN, c->in[0])));
}

void grad_sqrt(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, divide(c, c->g, mul(c, c->y, adjoint_const(c, 2))));
}

void grad_exp(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, mul(c, c->g, c->y));
}

void grad_log(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, divide(c, c->g, c->in[0]));
}

/* e^x, which y + 1 is not where y is near -1. */
void grad_expm1(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, mul(c, c->g, build1(c->b, OP_EXP, c->in[0])));
}

void grad_log1p(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, divide(c, c->g, build2(c->b, OP_ADD, c->in[0], adjoint_const(c, 1))));
}

void grad_sin(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, mul(c, c->g, build1(c->b, OP_COS, c->in[0])));
}

void grad_cos(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, neg(c, mul(c, c->g, build1(c->b, OP_SIN, c->in[0]))));
}

/* 1 - y */
static Node *rest(Adjoint *c, Node *y)
{
    return build2(c->b, OP_SUB, adjoint_const(c, 1), y);
}

void grad_tanh(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, mul(c, c->g, rest(c, mul(c, c->y, c->y))));
}

void grad_erf(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    Node *bell = build1(c->b, OP_EXP, neg(c, mul(c, c->in[0], c->in[0])));
    adjoint_add(c, 0, mul(c, c->g, mul(c, bell, adjoint_const(c, 2 / sqrt(acos(-1))))));
}

void grad_sigmoid(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, mul(c, c->g, mul(c, c->y, rest(c, c->y))));
}

/* 0 at 0; through NaN. */
void grad_relu(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, drop(c, build2(c->b, OP_LE, c->y, adjoint_const(c, 0)), c->g));
}

/* To x alone, by a product as in PyTorch's own formulas: infinities and NaN go through. */
void grad_slope(Adjoint *c)
{
    if (adjoint_wanted(c, 1))
        adjoint_add(c, 1, mul(c, c->g, c->in[2]));
}

/* Only real operands want an adjoint. */
void grad_cast(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, build_cast(c->b, c->g, c->in[0]->type.dtype));
}
