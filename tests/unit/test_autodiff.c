/* autodiff against central differences, for every row that has a gradient, through every later
 * pass.
 *
 * A case computes y from the states p and q; the loss is sum(y * w) with fixed weights.  Its
 * gradients must agree with differences of the loss, and loss and gradients must stay what they
 * are through simplify, hfuse, lower. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/loop.h"
#include "tests/unit/graphs.h"

typedef Node *CaseBuild(Lab *l, Node *p, Node *q);

typedef struct Case {
    const char *name;
    CaseBuild *build;
    Shape p, q;
    double lo, hi; /* of the values */
} Case;

static Node *num(Lab *l, double v)
{
    return build_const(&l->b, DT_F64, v);
}

#define BINARY(fn, OP)                        \
    static Node *fn(Lab *l, Node *p, Node *q) \
    {                                         \
        return build2(&l->b, OP, p, q);       \
    }
BINARY(do_add, OP_ADD)
BINARY(do_sub, OP_SUB)
BINARY(do_mul, OP_MUL)
BINARY(do_div, OP_DIV)
BINARY(do_mod, OP_MOD)
BINARY(do_pow, OP_POW)
BINARY(do_min, OP_MIN)
BINARY(do_max, OP_MAX)
#undef BINARY

#define UNARY(fn, OP)                         \
    static Node *fn(Lab *l, Node *p, Node *q) \
    {                                         \
        (void)q;                              \
        return build1(&l->b, OP, p);          \
    }
UNARY(do_neg, OP_NEG)
UNARY(do_abs, OP_ABS)
UNARY(do_sqrt, OP_SQRT)
UNARY(do_exp, OP_EXP)
UNARY(do_log, OP_LOG)
UNARY(do_expm1, OP_EXPM1)
UNARY(do_log1p, OP_LOG1P)
UNARY(do_sin, OP_SIN)
UNARY(do_cos, OP_COS)
UNARY(do_tanh, OP_TANH)
UNARY(do_erf, OP_ERF)
UNARY(do_sigmoid, OP_SIGMOID)
UNARY(do_relu, OP_RELU)
#undef UNARY

#define POWER(fn, e)                                \
    static Node *fn(Lab *l, Node *p, Node *q)       \
    {                                               \
        (void)q;                                    \
        return build2(&l->b, OP_POW, p, num(l, e)); \
    }
POWER(do_pow_2, 2)
POWER(do_pow_3, 3)
POWER(do_pow_1, 1)
POWER(do_pow_0, 0)
POWER(do_pow_half, 0.5)
POWER(do_pow_minus_1, -1)
POWER(do_pow_minus_2, -2)
POWER(do_pow_odd, 1.7)
#undef POWER

static Node *do_where(Lab *l, Node *p, Node *q)
{
    Node *c = build2(&l->b, OP_GT, p, num(l, 0.3));
    return build3(&l->b, OP_WHERE, c, build2(&l->b, OP_MUL, p, q), build2(&l->b, OP_SUB, q, p));
}

static Node *do_fma(Lab *l, Node *p, Node *q)
{
    return build3(&l->b, OP_FMA, p, q, build1(&l->b, OP_SIN, p));
}

static Node *do_cast(Lab *l, Node *p, Node *q)
{
    Node *x = build_cast(&l->b, build2(&l->b, OP_MUL, p, q), DT_F32);
    return build_cast(&l->b, build1(&l->b, OP_EXP, x), DT_F64);
}

static Node *do_views(Lab *l, Node *p, Node *q)
{
    const Shape flat = shape2(3, 8), wide = shape4(2, 4, 3, 2);
    Node *x = build_permute(&l->b, p, (const int64_t[]){2, 0, 1}); /* [4, 2, 3] */
    x = build_permute(&l->b, x, (const int64_t[]){1, 2, 0});
    x = build_reshape(&l->b, build_permute(&l->b, x, (const int64_t[]){1, 0, 2}), &flat);
    x = build1(&l->b, OP_EXP, x);
    Node *y = build_reshape(&l->b, q, &(Shape){.rank = 3, .dim = {4, 1, 2}});
    y = build_expand(&l->b, y, &wide);
    return build2(&l->b, OP_MUL,
                  build_reshape(&l->b, x, &(Shape){.rank = 4, .dim = {2, 4, 3, 1}}), y);
}

static Node *do_slice(Lab *l, Node *p, Node *q)
{
    (void)q;
    Node *x = build_slice(&l->b, p, (const int64_t[]){1, 4}, (const int64_t[]){1, -2},
                          (const int64_t[]){2, 3});
    Attrs a = {.slice = {.start = ints_of(2, (const int64_t[]){1, 0}),
                         .step = ints_of(2, (const int64_t[]){2, 1}),
                         .size = ints_of(2, (const int64_t[]){5, 4})}};
    x = build(&l->b, OP_PAD, &a, 1, &x);
    return build1(&l->b, OP_EXP, x);
}

static Node *do_gather(Lab *l, Node *p, Node *q)
{
    const double where[] = {2, 0, 2, 1, 1, 0};
    const Shape s = shape2(3, 2);
    Node *index = build_table(&l->b, DT_I64, &s, where);
    Attrs a = {.axis = {.dim = 1}};
    Node *x = build(&l->b, OP_GATHER, &a, 2, (Node *[]){p, index});
    return build2(&l->b, OP_MUL, x, q);
}

static Node *do_scatter(Lab *l, Node *p, Node *q)
{
    const double where[] = {2, 0, 2, 1, 1, 0};
    const Shape s = shape2(3, 2);
    Node *index = build_table(&l->b, DT_I64, &s, where);
    Attrs a = {.axis = {.dim = 1}};
    Node *x = build(&l->b, OP_SCATTER_ADD, &a, 3, (Node *[]){p, index, q});
    return build2(&l->b, OP_MUL, x, x);
}

static Node *do_cumsum(Lab *l, Node *p, Node *q)
{
    (void)q;
    Attrs a = {.scan = {.dim = 1}};
    Node *x = build(&l->b, OP_CUMSUM, &a, 1, (Node *[]){p});
    a.scan.reverse = true;
    Node *y = build(&l->b, OP_CUMSUM, &a, 1, (Node *[]){p});
    return build2(&l->b, OP_MUL, x, y);
}

/* ---- the same on as many axes as there can be: those of x last, all others of one element ---- */

/* MAX_RANK numbers: `fill`, and the last two. */
static IntList deep_ints(int64_t fill, int64_t a, int64_t b)
{
    IntList v = {.n = MAX_RANK};
    for (int i = 0; i < MAX_RANK; i++)
        v.v[i] = fill;
    v.v[MAX_RANK - 2] = a;
    v.v[MAX_RANK - 1] = b;
    return v;
}

static Shape deep_shape(int64_t a, int64_t b)
{
    const IntList dims = deep_ints(1, a, b);
    Shape s = {.rank = MAX_RANK};
    memcpy(s.dim, dims.v, sizeof s.dim);
    return s;
}

static Node *deep(Lab *l, Node *x)
{
    const Shape s = deep_shape(x->type.shape.dim[0], x->type.shape.dim[1]);
    return build_reshape(&l->b, x, &s);
}

static Node *do_deep_views(Lab *l, Node *p, Node *q)
{
    IntList turned = {.n = MAX_RANK};
    for (int i = 0; i < MAX_RANK; i++)
        turned.v[i] = MAX_RANK - 1 - i;
    const IntList start = deep_ints(0, 1, 4), step = deep_ints(1, 1, -2),
                  size = deep_ints(1, 2, 3), wide = deep_ints(1, 5, 4);
    Node *x = build_slice(&l->b, deep(l, p), start.v, step.v, size.v);
    x = build_pad(&l->b, x, deep_ints(0, 1, 0).v, deep_ints(1, 2, 1).v, wide.v, 0.5);
    x = build_permute(&l->b, build1(&l->b, OP_EXP, x), turned.v);
    x = build_permute(&l->b, x, turned.v);
    const Shape s = deep_shape(5, 4);
    return build2(&l->b, OP_MUL, x, build_expand(&l->b, deep(l, q), &s));
}

static Node *deep_index(Lab *l)
{
    const double where[] = {2, 0, 2, 1, 1, 0};
    const Shape s = deep_shape(3, 2);
    return build_table(&l->b, DT_I64, &s, where);
}

static Node *do_deep_gather(Lab *l, Node *p, Node *q)
{
    Attrs a = {.axis = {.dim = MAX_RANK - 1}};
    Node *x = build(&l->b, OP_GATHER, &a, 2, (Node *[]){deep(l, p), deep_index(l)});
    return build2(&l->b, OP_MUL, x, deep(l, q));
}

/* The index leaves out a row of the updates. */
static Node *do_deep_scatter(Lab *l, Node *p, Node *q)
{
    Attrs a = {.axis = {.dim = MAX_RANK - 1}};
    Node *x =
        build(&l->b, OP_SCATTER_ADD, &a, 3, (Node *[]){deep(l, p), deep_index(l), deep(l, q)});
    return build2(&l->b, OP_MUL, x, x);
}

static Node *do_deep_sums(Lab *l, Node *p, Node *q)
{
    Attrs a = {.scan = {.dim = MAX_RANK - 1}};
    Node *x = deep(l, p);
    Node *running = build(&l->b, OP_CUMSUM, &a, 1, &x);
    Node *sum = build_reduce(&l->b, OP_SUM, x, 1, (const int64_t[]){MAX_RANK - 2}, true);
    Node *most = build_reduce(&l->b, OP_REDMAX, x, 1, (const int64_t[]){MAX_RANK - 1}, true);
    Node *y = build2(&l->b, OP_MUL, build2(&l->b, OP_MUL, running, sum), most);
    return build_einsum(&l->b, y, deep(l, q), "abcdefghmk,abcdefghnk->abcdefghmn");
}

/* Windows that overlap, and a convolution. */
static Node *do_window(Lab *l, Node *p, Node *q)
{
    const Attrs a = {.window = {.start = ints_of(2, (const int64_t[]){0, 1}),
                                .step = ints_of(2, (const int64_t[]){1, 2}),
                                .size = ints_of(2, (const int64_t[]){2, 3}),
                                .taps = ints_of(2, (const int64_t[]){0, 2}),
                                .dilation = ints_of(2, (const int64_t[]){1, 3})}};
    Node *x = build_window(&l->b, OP_WINDOW, p, &a); /* [2, 2, 3] */
    Node *y = build_einsum(&l->b, x, q, "tcn,oct->on");
    return build2(&l->b, OP_MUL, build1(&l->b, OP_EXP, x), y);
}

static Node *do_sum(Lab *l, Node *p, Node *q)
{
    Node *x = build2(&l->b, OP_MUL, p, q);
    Node *a = build_reduce(&l->b, OP_SUM, x, 2, (const int64_t[]){0, 2}, false);
    Node *b = build_reduce(&l->b, OP_SUM, x, 1, (const int64_t[]){1}, true);
    return build2(&l->b, OP_MUL, build_reshape(&l->b, a, &(Shape){.rank = 3, .dim = {1, 3, 1}}),
                  b);
}

static Node *do_prod(Lab *l, Node *p, Node *q)
{
    Node *x = build2(&l->b, OP_MUL, p, q);
    Node *a = build_reduce(&l->b, OP_PROD, x, 2, (const int64_t[]){2, 0}, false);
    Node *b = build_reduce(&l->b, OP_PROD, x, 1, (const int64_t[]){1}, true);
    return build2(&l->b, OP_MUL, build_reshape(&l->b, a, &(Shape){.rank = 3, .dim = {1, 3, 1}}),
                  b);
}

static Node *do_redmax(Lab *l, Node *p, Node *q)
{
    Node *x = build2(&l->b, OP_MUL, p, q);
    Node *one = build_reduce(&l->b, OP_REDMAX, x, 1, (const int64_t[]){1}, false); /* [2, 4] */
    Node *two = build_reduce(&l->b, OP_REDMIN, x, 2, (const int64_t[]){2, 0}, true);
    return build2(&l->b, OP_ADD,
                  build_reshape(&l->b, one, &(Shape){.rank = 3, .dim = {2, 1, 4}}), two);
}

/* The slope of a sum of squares written out; nothing flows through the sum. */
static Node *do_slope(Lab *l, Node *p, Node *q)
{
    Node *sum =
        build_reduce(&l->b, OP_SUM, build2(&l->b, OP_MUL, p, p), 1, (const int64_t[]){1}, true);
    return build2(&l->b, OP_MUL, q,
                  build3(&l->b, OP_SLOPE, sum, p, build2(&l->b, OP_ADD, p, p)));
}

#define EINSUM(fn, spec)                        \
    static Node *fn(Lab *l, Node *p, Node *q)   \
    {                                           \
        return build_einsum(&l->b, p, q, spec); \
    }
EINSUM(do_linear, "mk,nk->mn")
EINSUM(do_matmul, "bmk,bkn->bmn")
EINSUM(do_lonely, "mkj,nkz->nm")
EINSUM(do_dot, "mk,mk->m")
EINSUM(do_outer, "m,n->mn")
EINSUM(do_inner, "k,k->")
EINSUM(do_batch_last, "mkb,nkb->mnb")
EINSUM(do_two_sums, "abm,abn->mn")
#undef EINSUM

static Node *do_transposed(Lab *l, Node *p, Node *q)
{
    Node *t = build_permute(&l->b, q, (const int64_t[]){1, 0});
    return build_einsum(&l->b, p, t, "mk,nk->mn");
}

/* Layer norm, softmax and cross entropy in the small: values used several times. */
static Node *do_softmax(Lab *l, Node *p, Node *q)
{
    Node *x = build_einsum(&l->b, p, q, "mk,nk->mn");
    const int64_t last[] = {1};
    Node *top = build_reduce(&l->b, OP_REDMAX, x, 1, last, true);
    top = build1(&l->b, OP_DETACH, top);
    Node *e = build1(&l->b, OP_EXP, build2(&l->b, OP_SUB, x, top));
    Node *s = build_reduce(&l->b, OP_SUM, e, 1, last, true);
    Node *log_sum = build2(&l->b, OP_ADD, build1(&l->b, OP_LOG, s), top);
    return build2(&l->b, OP_MUL, log_sum, build2(&l->b, OP_DIV, e, s));
}

/* A gated cell over p [4, 3, 5] with the recurrent weight q [5, 5], which is a bias too: final
 * and stacked values. */
static Node *do_loop(Lab *l, Node *p, Node *q)
{
    const Shape s = shape2(3, 5);
    LoopDraft d;
    loop_begin(&d, &l->b, loop_body_new(l->module, "cell"), 4, false);
    Builder in = {.graph = d.body, .hint = "in"};
    const Type t = {.dtype = DT_F64, .shape = s};
    Node *h = loop_carried(&d, "h", build_full(&l->b, DT_F64, &s, 0.1), &t);
    Node *c = loop_carried(&d, "c", build_full(&l->b, DT_F64, &s, 0), &t);
    Node *x = loop_scanned(&d, p), *w = loop_invariant(&d, q);
    Node *row = build_slice(&in, w, (const int64_t[]){1, 0}, (const int64_t[]){1, 1},
                            (const int64_t[]){1, 5});
    Node *u = build2(&in, OP_ADD, build_einsum(&in, h, w, "mk,nk->mn"), x);
    u = build2(&in, OP_ADD, u, build_reshape(&in, row, &(Shape){.rank = 1, .dim = {5}}));
    Node *gate = build1(&in, OP_SIGMOID, u);
    c = build2(&in, OP_ADD, build2(&in, OP_MUL, gate, c), build1(&in, OP_SIN, u));
    h = build2(&in, OP_MUL, gate, build1(&in, OP_TANH, c));
    loop_next(&d, h);
    loop_next(&d, c);
    loop_stack(&d, build1(&in, OP_EXP, h));
    Node *loop = loop_end(&d, "cell");
    Node *last = build2(&l->b, OP_MUL, loop_result(&l->b, loop, 0, "h"),
                        loop_result(&l->b, loop, 1, "c"));
    return build2(&l->b, OP_ADD, loop_stacked(&l->b, loop, 0, "all"), last);
}

/* Backwards, values that change places, a carried start with a gradient, a number that goes up, a
 * sum that is carried. */
static Node *do_loop_back(Lab *l, Node *p, Node *q)
{
    const Shape s = shape2(3, 4);
    LoopDraft d;
    loop_begin(&d, &l->b, loop_body_new(l->module, "back"), 3, true);
    Builder in = {.graph = d.body, .hint = "in"};
    const Type t = {.dtype = DT_F64, .shape = s};
    Node *a = loop_carried(&d, "a", p, &t);
    Node *b = loop_carried(&d, "b", build_expand(&l->b, q, &s), &t);
    Node *rounds = build_iota(&l->b, &(Shape){.rank = 1, .dim = {3}}, 0);
    Node *at = build_cast(&in, loop_scanned(&d, rounds), DT_F64), *v = loop_invariant(&d, q);
    Node *x = build2(&in, OP_MUL, build1(&in, OP_SIN, a), build2(&in, OP_ADD, v, at));
    loop_next(&d, b);
    loop_next(&d, build2(&in, OP_ADD, x, build1(&in, OP_EXP, b)));
    loop_stack(&d, build2(&in, OP_MUL, a, at));
    Node *loop = loop_end(&d, "back");
    return build2(&l->b, OP_SUB, loop_stacked(&l->b, loop, 0, "all"),
                  loop_result(&l->b, loop, 1, "b"));
}

static const Case cases[] = {
    {"add", do_add, {2, {3, 4}, {0}}, {1, {4}, {0}}, -1, 1},
    {"sub", do_sub, {2, {3, 1}, {0}}, {2, {1, 4}, {0}}, -1, 1},
    {"mul", do_mul, {2, {3, 4}, {0}}, {0, {0}, {0}}, -1, 1},
    {"div", do_div, {2, {3, 4}, {0}}, {2, {3, 1}, {0}}, 0.5, 2},
    {"mod", do_mod, {1, {6}, {0}}, {1, {6}, {0}}, 0.4, 3},
    {"pow", do_pow, {2, {3, 4}, {0}}, {1, {4}, {0}}, 0.3, 2},
    {"min", do_min, {2, {3, 4}, {0}}, {1, {4}, {0}}, -1, 1},
    {"max", do_max, {2, {3, 4}, {0}}, {1, {4}, {0}}, -1, 1},
    {"neg", do_neg, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"abs", do_abs, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"sqrt", do_sqrt, {1, {5}, {0}}, {0, {0}, {0}}, 0.2, 2},
    {"exp", do_exp, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"log", do_log, {1, {5}, {0}}, {0, {0}, {0}}, 0.2, 2},
    {"expm1", do_expm1, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"log1p", do_log1p, {1, {5}, {0}}, {0, {0}, {0}}, -0.8, 2},
    {"sin", do_sin, {1, {5}, {0}}, {0, {0}, {0}}, -3, 3},
    {"cos", do_cos, {1, {5}, {0}}, {0, {0}, {0}}, -3, 3},
    {"tanh", do_tanh, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"erf", do_erf, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"sigmoid", do_sigmoid, {1, {5}, {0}}, {0, {0}, {0}}, -2, 2},
    {"relu", do_relu, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"pow 2", do_pow_2, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"pow 3", do_pow_3, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"pow 1", do_pow_1, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"pow 0", do_pow_0, {1, {5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"pow 0.5", do_pow_half, {1, {5}, {0}}, {0, {0}, {0}}, 0.2, 2},
    {"pow -1", do_pow_minus_1, {1, {5}, {0}}, {0, {0}, {0}}, 0.5, 2},
    {"pow -2", do_pow_minus_2, {1, {5}, {0}}, {0, {0}, {0}}, 0.5, 2},
    {"pow 1.7", do_pow_odd, {1, {5}, {0}}, {0, {0}, {0}}, 0.5, 2},
    {"where", do_where, {2, {3, 4}, {0}}, {1, {4}, {0}}, -1, 1},
    {"fma", do_fma, {2, {3, 4}, {0}}, {1, {4}, {0}}, -1, 1},
    {"cast", do_cast, {2, {3, 4}, {0}}, {1, {4}, {0}}, -1, 1},
    {"views", do_views, {3, {2, 3, 4}, {0}}, {2, {4, 2}, {0}}, -1, 1},
    {"slice", do_slice, {2, {3, 5}, {0}}, {0, {0}, {0}}, -1, 1},
    {"gather", do_gather, {2, {3, 3}, {0}}, {2, {3, 2}, {0}}, -1, 1},
    {"scatter", do_scatter, {2, {3, 3}, {0}}, {2, {4, 2}, {0}}, -1, 1},
    {"views, deep", do_deep_views, {2, {3, 5}, {0}}, {2, {1, 4}, {0}}, -1, 1},
    {"gather, deep", do_deep_gather, {2, {3, 3}, {0}}, {2, {3, 2}, {0}}, -1, 1},
    {"scatter, deep", do_deep_scatter, {2, {3, 3}, {0}}, {2, {4, 2}, {0}}, -1, 1},
    {"sums, deep", do_deep_sums, {2, {3, 4}, {0}}, {2, {5, 4}, {0}}, -1, 1},
    {"cumsum", do_cumsum, {2, {3, 4}, {0}}, {0, {0}, {0}}, -1, 1},
    {"window", do_window, {2, {2, 9}, {0}}, {3, {2, 2, 2}, {0}}, -1, 1},
    {"sum", do_sum, {3, {2, 3, 4}, {0}}, {3, {2, 1, 4}, {0}}, -1, 1},
    {"prod", do_prod, {3, {2, 3, 4}, {0}}, {3, {2, 1, 4}, {0}}, 0.5, 1.5},
    {"max, min", do_redmax, {3, {2, 3, 4}, {0}}, {3, {2, 3, 1}, {0}}, 0.2, 1},
    {"linear", do_linear, {2, {3, 4}, {0}}, {2, {5, 4}, {0}}, -1, 1},
    {"matmul", do_matmul, {3, {2, 3, 4}, {0}}, {3, {2, 4, 5}, {0}}, -1, 1},
    {"einsum, letters of one operand",
     do_lonely,
     {3, {3, 4, 2}, {0}},
     {3, {5, 4, 3}, {0}},
     -1,
     1},
    {"einsum, dot", do_dot, {2, {3, 4}, {0}}, {2, {3, 4}, {0}}, -1, 1},
    {"einsum, outer", do_outer, {1, {3}, {0}}, {1, {4}, {0}}, -1, 1},
    {"einsum, inner", do_inner, {1, {4}, {0}}, {1, {4}, {0}}, -1, 1},
    {"einsum, batch last", do_batch_last, {3, {3, 4, 2}, {0}}, {3, {5, 4, 2}, {0}}, -1, 1},
    {"einsum, two sums", do_two_sums, {3, {2, 3, 4}, {0}}, {3, {2, 3, 5}, {0}}, -1, 1},
    {"einsum, one row", do_linear, {2, {1, 4}, {0}}, {2, {5, 4}, {0}}, -1, 1},
    {"einsum, one column", do_linear, {2, {3, 4}, {0}}, {2, {1, 4}, {0}}, -1, 1},
    {"einsum, one term", do_linear, {2, {3, 1}, {0}}, {2, {5, 1}, {0}}, -1, 1},
    {"slope", do_slope, {3, {2, 3, 4}, {0}}, {3, {2, 1, 4}, {0}}, -1, 1},
    {"einsum of a transpose", do_transposed, {2, {3, 4}, {0}}, {2, {4, 5}, {0}}, -1, 1},
    {"loop", do_loop, {3, {4, 3, 5}, {0}}, {2, {5, 5}, {0}}, -1, 1},
    {"loop, backwards", do_loop_back, {2, {3, 4}, {0}}, {1, {4}, {0}}, -0.5, 0.5},
    {"softmax", do_softmax, {2, {3, 4}, {0}}, {2, {5, 4}, {0}}, -1, 1},
};
enum {
    N_CASES = sizeof cases / sizeof *cases
};

static bool covered[OP_COUNT_];

static Node *weighted_sum(Lab *l, Node *y)
{
    const int64_t count = shape_count(&y->type.shape);
    double *w = arena_array(l->arena, (size_t)count, sizeof *w);
    for (int64_t i = 0; i < count; i++)
        w[i] = 1 + 0.25 * (double)(i % 5) - 0.125 * (double)(i % 3); /* exact in f32 */
    int64_t all[MAX_RANK];
    for (int i = 0; i < y->type.shape.rank; i++)
        all[i] = i;
    Node *v = build2(&l->b, OP_MUL, y, build_table(&l->b, DT_F64, &y->type.shape, w));
    return build_reduce(&l->b, OP_SUM, v, y->type.shape.rank, all, false);
}

static void open_case(Lab *l, const Case *c)
{
    lab_open(l, ENTRY_TRAIN);
    Node *p = lab_state(l, "p", ROLE_PARAM, DT_F64, c->p, c->lo, c->hi);
    Node *q = lab_state(l, "q", ROLE_PARAM, DT_F64, c->q, c->lo, c->hi);
    l->b.hint = "y";
    Node *loss = weighted_sum(l, c->build(l, p, q));
    l->b.hint = NULL;
    lab_output(l, OUT_RESULT, "loss", loss);
    lab_output(l, OUT_STATE, "p", lab_grad(l, loss, p));
    lab_output(l, OUT_STATE, "q", lab_grad(l, loss, q));
    graph_foreach (l->graph, n)
        covered[n->op] = true;
}

static double loss_of(Lab *l)
{
    int64_t n;
    return ref_output(l->graph, lab_evaluate(l, "differences"), "loss", &n)[0];
}

/* d loss / d x by Richardson's extrapolation of central differences; error about 1e-10. */
static double slope(Lab *l, double *x)
{
    const double at = *x, h = 1e-3;
    double d[2];
    for (int k = 0; k < 2; k++) {
        const double step = h / (k + 1);
        *x = at + step;
        const double up = loss_of(l);
        *x = at - step;
        d[k] = (up - loss_of(l)) / (2 * step);
    }
    *x = at;
    return (4 * d[1] - d[0]) / 3;
}

/* tolerance: of the differences. */
static void check_gradient(Lab *l, const Case *c, const char *name)
{
    int64_t count;
    const double *g = ref_output(l->graph, lab_evaluate(l, "autodiff"), name, &count);
    double *x = lab_data(l, name);
    for (int64_t i = 0; i < count; i++) {
        const double expected = slope(l, &x[i]);
        CHECK(fabs(g[i] - expected) <= 1e-7 * (1 + fabs(expected)),
              "%s: d/d%s[%d] is %.9g, differences say %.9g", c->name, name, (int)i, g[i],
              expected);
    }
}

typedef struct Saved {
    double *v[3];
    int64_t n[3];
} Saved;

static const char *const outputs[] = {"loss", "p", "q"};

static void check_kept(Lab *l, const Case *c, const Saved *s, const char *pass)
{
    double **values = lab_evaluate(l, pass);
    for (int i = 0; i < 3; i++)
        CHECK(lab_error(l, values, outputs[i], s->v[i], s->n[i]) < 1e-12, "%s: %s changes %s",
              c->name, pass, outputs[i]);
}

static void run_case(const Case *c)
{
    Lab l;
    const Target cpu = {.optimize = 2};
    open_case(&l, c);
    CHECK(autodiff(l.module), "%s: autodiff fails", c->name);
    CHECK(lab_count(&l, OP_GRAD) == 0 && lab_count(&l, OP_DETACH) == 0, "%s: grad is left",
          c->name);
    check_gradient(&l, c, "p");
    check_gradient(&l, c, "q");
    double **values = lab_evaluate(&l, "autodiff");
    Saved s;
    for (int i = 0; i < 3; i++) {
        const double *v = ref_output(l.graph, values, outputs[i], &s.n[i]);
        s.v[i] = arena_array(l.arena, (size_t)s.n[i], sizeof *v);
        memcpy(s.v[i], v, (size_t)s.n[i] * sizeof *v);
    }
    mask_batch(l.module);
    check_kept(&l, c, &s, "mask_batch");
    simplify(l.module);
    check_kept(&l, c, &s, "simplify");
    hfuse(l.module, 3, &cpu);
    check_kept(&l, c, &s, "hfuse");
    lower(l.module, &cpu);
    check_kept(&l, c, &s, "lower");
    lab_close(&l);
}

/* Scalar functions have their cases in tests/check/check_grad_rows.c, which asks for one of each.
 */
static void check_coverage(void)
{
    for (int op = 0; op < OP_COUNT_; op++) {
        const OpInfo *info = op_info((OpCode)op);
        const bool differentiable = strcmp(info->grad, "none") && strcmp(info->grad, "missing");
        CHECK(!differentiable || covered[op] || info->kind == KIND_EXPR, "no case has %s",
              info->text);
    }
}

/* The gradient of sum(build(p)) at exactly the given values. */
static void check_at(const char *what, CaseBuild *make, int n, const double *p, const double *q,
                     const double *gp, const double *gq)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *x = lab_state(&l, "p", ROLE_PARAM, DT_F64, shape1(n), 0, 1);
    Node *y = lab_state(&l, "q", ROLE_PARAM, DT_F64, shape1(n), 0, 1);
    memcpy(lab_data(&l, "p"), p, (size_t)n * sizeof *p);
    memcpy(lab_data(&l, "q"), q, (size_t)n * sizeof *q);
    Node *loss = build_reduce(&l.b, OP_SUM, make(&l, x, y), 1, (const int64_t[]){0}, false);
    lab_output(&l, OUT_RESULT, "loss", loss);
    lab_output(&l, OUT_STATE, "p", lab_grad(&l, loss, x));
    lab_output(&l, OUT_STATE, "q", lab_grad(&l, loss, y));
    CHECK(autodiff(l.module), "%s: autodiff fails", what);
    simplify(l.module);
    double **values = lab_evaluate(&l, "simplify");
    CHECK(lab_error(&l, values, "p", gp, n) < 1e-12, "%s: gradient of the first", what);
    CHECK(lab_error(&l, values, "q", gq, n) < 1e-12, "%s: gradient of the second", what);
    lab_close(&l);
}

static Node *do_first_max(Lab *l, Node *p, Node *q)
{
    Node *m = build_reduce(&l->b, OP_REDMAX, p, 1, (const int64_t[]){0}, true);
    return build2(&l->b, OP_ADD, m,
                  build_reduce(&l->b, OP_REDMIN, q, 1, (const int64_t[]){0}, true));
}

static void check_edges(void)
{
    const double zero[4] = {0}, tie[] = {1, 2, 2, 3}, other[] = {1, 5, 2, -3};
    check_at("maximum with ties", do_max, 4, tie, other, (const double[]){0.5, 0, 0.5, 1},
             (const double[]){0.5, 1, 0.5, 0});
    check_at("relu at 0", do_relu, 2, (const double[]){0, 1}, zero, (const double[]){0, 1},
             zero);
    check_at("abs at 0", do_abs, 3, (const double[]){0, -2, 2}, zero,
             (const double[]){0, -1, 1}, zero);
    check_at("0 ** e", do_pow, 3, (const double[]){0, 0, 2}, (const double[]){0, 2, 0},
             (const double[]){0, 0, 0}, (const double[]){0, 0, log(2)});
    check_at("0 ** 2", do_pow_2, 2, zero, zero, zero, zero);
    check_at("0 ** 0", do_pow_0, 2, zero, zero, zero, zero);
    check_at("first largest and smallest", do_first_max, 4, (const double[]){1, 3, 3, 0},
             (const double[]){2, 0, 5, 0}, (const double[]){0, 1, 0, 0},
             (const double[]){0, 1, 0, 0});
}

/* What the loss does not depend on has gradient 0; detach stops a gradient; an inner node may be
 * asked for. */
static void check_reach(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *p = lab_state(&l, "p", ROLE_PARAM, DT_F64, shape1(3), 1, 2);
    Node *q = lab_state(&l, "q", ROLE_PARAM, DT_F64, shape1(3), 1, 2);
    Node *r = lab_state(&l, "r", ROLE_PARAM, DT_F64, shape1(3), 1, 2);
    Node *inner = build2(&l.b, OP_MUL, p, build1(&l.b, OP_DETACH, q));
    Node *loss = build_reduce(&l.b, OP_SUM, build2(&l.b, OP_MUL, inner, inner), 1,
                              (const int64_t[]){0}, false);
    lab_output(&l, OUT_RESULT, "loss", loss);
    lab_output(&l, OUT_STATE, "p", lab_grad(&l, loss, inner));
    lab_output(&l, OUT_STATE, "q", lab_grad(&l, loss, q));
    lab_output(&l, OUT_STATE, "r", lab_grad(&l, loss, r));
    CHECK(autodiff(l.module), "autodiff fails");
    double **values = lab_evaluate(&l, "autodiff");
    double expected[3];
    for (int i = 0; i < 3; i++)
        expected[i] = 2 * lab_data(&l, "p")[i] * lab_data(&l, "q")[i];
    CHECK(lab_error(&l, values, "p", expected, 3) < 1e-12, "gradient of an inner node");
    CHECK(lab_error(&l, values, "q", (const double[3]){0}, 3) == 0, "a gradient passes detach");
    CHECK(lab_error(&l, values, "r", (const double[3]){0}, 3) == 0,
          "gradient of what is not reached");
    lab_close(&l);
}

/* d/dp of (d/dp of sum p^3)^2 is 2 * 3 p^2 * 6 p. */
static void check_second_order(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *p = lab_state(&l, "p", ROLE_PARAM, DT_F64, shape1(3), 1, 2);
    Node *cube = build2(&l.b, OP_MUL, p, build2(&l.b, OP_MUL, p, p));
    Node *loss = build_reduce(&l.b, OP_SUM, cube, 1, (const int64_t[]){0}, false);
    Node *g = lab_grad(&l, loss, p);
    Node *penalty =
        build_reduce(&l.b, OP_SUM, build2(&l.b, OP_MUL, g, g), 1, (const int64_t[]){0}, false);
    lab_output(&l, OUT_RESULT, "loss", penalty);
    lab_output(&l, OUT_STATE, "p", lab_grad(&l, penalty, p));
    CHECK(autodiff(l.module), "autodiff fails");
    double **values = lab_evaluate(&l, "autodiff");
    double expected[3];
    for (int i = 0; i < 3; i++)
        expected[i] = 36 * pow(lab_data(&l, "p")[i], 3);
    CHECK(lab_error(&l, values, "p", expected, 3) < 1e-12, "second derivative");
    lab_close(&l);
}

/* All gradients of one loss come from one sweep; names come from the forward nodes. */
static void check_sharing(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *x = lab_state(&l, "x", ROLE_BUFFER, DT_F64, shape2(3, 4), -1, 1);
    Node *w = lab_state(&l, "w", ROLE_PARAM, DT_F64, shape2(5, 4), -1, 1);
    Node *c = lab_state(&l, "c", ROLE_PARAM, DT_F64, shape1(5), -1, 1);
    l.b.hint = "h";
    Node *h = build_einsum(&l.b, x, w, "mk,nk->mn");
    l.b.hint = "y";
    Node *y = build1(&l.b, OP_EXP, build2(&l.b, OP_ADD, h, c));
    l.b.hint = "loss";
    Node *loss = build_reduce(&l.b, OP_SUM, y, 2, (const int64_t[]){0, 1}, false);
    l.b.hint = NULL;
    lab_output(&l, OUT_RESULT, "loss", loss);
    lab_output(&l, OUT_STATE, "w", lab_grad(&l, loss, w));
    lab_output(&l, OUT_STATE, "c", lab_grad(&l, loss, c));
    CHECK(autodiff(l.module), "autodiff fails");
    lab_evaluate(&l, "autodiff");
    CHECK(lab_count(&l, OP_EXP) == 1, "the forward pass is computed twice");
    CHECK(lab_count(&l, OP_EINSUM) == 2, "%d einsums, not 2: a gradient nobody wants",
          lab_count(&l, OP_EINSUM));
    CHECK(!strcmp(l.graph->outputs[1].value->name, "w.grad"), "named %s",
          l.graph->outputs[1].value->name);
    CHECK(!strcmp(l.graph->outputs[2].value->name, "c.grad"), "named %s",
          l.graph->outputs[2].value->name);
    lab_close(&l);
}

static void check_missing(void)
{
    Lab l;
    const Shape s = shape1(3);
    lab_open(&l, ENTRY_TRAIN);
    static const char source[] = "y = layout(p)\n";
    const int file = diag_add_source(l.diag, "m.hdl", source, sizeof source - 1, false);
    Node *p = lab_state(&l, "p", ROLE_PARAM, DT_F64, s, 0, 1);
    Attrs a = {.perm = {.dims = ints_of(1, (const int64_t[]){0})}};
    l.b.loc = (SrcRange){file, 4, 13};
    Node *y = build(&l.b, OP_LAYOUT, &a, 1, &p);
    Node *loss = build_reduce(&l.b, OP_SUM, y, 1, (const int64_t[]){0}, false);
    lab_output(&l, OUT_STATE, "p", lab_grad(&l, loss, p));
    CHECK(!autodiff(l.module), "a missing gradient is accepted");
    fflush(l.out);
    CHECK(strstr(l.messages, "m.hdl:1:5: error: layout has no gradient"), "message: %s",
          l.messages);
    lab_close(&l);
}

int main(void)
{
    for (int i = 0; i < N_CASES; i++)
        run_case(&cases[i]);
    check_coverage();
    check_edges();
    check_reach();
    check_second_order();
    check_sharing();
    check_missing();
    return check_status();
}
