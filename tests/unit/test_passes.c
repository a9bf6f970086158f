/* mask_batch, simplify, hfuse, lower, and the classification of contractions. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/contract.h"
#include "tests/unit/graphs.h"

static const Target cpu = {.optimize = 2};
static const Target cuda = {.cuda = true, .optimize = 2};

static Node *num(Lab *l, DType t, double v)
{
    return build_const(&l->b, t, v);
}

/* --- mask_batch
 * ------------------------------------------------------------------------------------------ */

enum {
    N = 6,
    C = 3
};

static const char *const masked[] = {"sum",    "max", "min",   "argmax", "all",  "count",
                                     "count2", "dot", "histo", "mean",   "flat", "kept"};
enum {
    N_MASKED = sizeof masked / sizeof *masked
};

/* Everything that may reduce over the batch axis of x [n, C]; ids: i64 [n]. */
static void open_batch(Lab *l, int n, const double *x, const double *ids)
{
    const int64_t first[] = {0}, both[] = {0, 1};
    lab_open(l, ENTRY_EVAL);
    Builder *b = &l->b;
    Shape s = shape2(n, C), line = shape1(n);
    s.batch[0] = line.batch[0] = 1;
    Node *v = lab_input(l, "x", DT_F64, s, x);
    Node *id = lab_input(l, "ids", DT_I64, line, ids);
    Node *w = lab_state(l, "w", ROLE_PARAM, DT_F64, shape2(4, C), -1, 1);
    Node *y = build2(b, OP_SUB, v, num(l, DT_F64, 5)); /* padding is not 0 */
    lab_output(l, OUT_TENSOR, "sum", build_reduce(b, OP_SUM, y, 1, first, false));
    lab_output(l, OUT_TENSOR, "max", build_reduce(b, OP_REDMAX, y, 1, first, true));
    lab_output(l, OUT_TENSOR, "min", build_reduce(b, OP_REDMIN, id, 1, first, false));
    lab_output(l, OUT_TENSOR, "argmax", build_reduce(b, OP_ARGMAX, y, 1, first, false));
    lab_output(l, OUT_TENSOR, "all", build_reduce(b, OP_SUM, y, 2, both, false));
    Node *count = build(b, OP_COUNT, &(Attrs){.axes = {.dims = ints_of(1, first)}}, 1, &y);
    lab_output(l, OUT_TENSOR, "count", count);
    Node *count2 = build(b, OP_COUNT, &(Attrs){.axes = {.dims = ints_of(2, both)}}, 1, &y);
    lab_output(l, OUT_TENSOR, "count2", count2);
    Node *h = build_einsum(b, y, w, "nk,mk->nm");
    lab_output(l, OUT_TENSOR, "dot", build_einsum(b, h, y, "nm,nk->mk"));
    const Shape bins = shape1(4);
    Node *ones = build_full(b, DT_F64, &line, 1);
    Node *zeros = build_full(b, DT_F64, &bins, 0);
    lab_output(
        l, OUT_TENSOR, "histo",
        build(b, OP_SCATTER_ADD, &(Attrs){.axis = {.dim = 0}}, 3, (Node *[]){zeros, id, ones}));
    lab_output(l, OUT_TENSOR, "mean",
               build2(b, OP_DIV, build_reduce(b, OP_SUM, y, 1, first, false), count));
    const Shape flat = shape1((int64_t)n * C);
    lab_output(l, OUT_TENSOR, "flat",
               build_reduce(b, OP_REDMAX, build_reshape(b, y, &flat), 1, first, false));
    lab_output(l, OUT_TENSOR, "kept",
               build_reduce(b, OP_SUM,
                            build_reduce(b, OP_REDMAX, y, 1, (const int64_t[]){1}, false), 1,
                            first, false));
}

static void check_masked(int n_valid)
{
    double x[N * C], ids[N];
    for (int i = 0; i < N * C; i++)
        x[i] = sin(3 * i) + (i >= n_valid * C ? 100 : 0);
    for (int i = 0; i < N; i++)
        ids[i] = i < n_valid ? 1 + i % 3 : 0;
    Lab full, small;
    open_batch(&full, N, x, ids);
    open_batch(&small, n_valid, x, ids);
    const double valid = n_valid;
    lab_bind(&full, OP_SCALAR, "n_valid", &valid, 1);
    mask_batch(full.module);
    double **values = lab_evaluate(&full, "mask_batch");
    double **expected = lab_evaluate(&small, "nothing");
    for (int i = 0; i < N_MASKED; i++) {
        int64_t count;
        const double *e = ref_output(small.graph, expected, masked[i], &count);
        CHECK(lab_error(&full, values, masked[i], e, count) < 1e-14, "n_valid = %d: %s",
              n_valid, masked[i]);
    }
    CHECK(lab_count(&full, OP_COUNT) == 0, "count is left");
    lab_close(&full);
    lab_close(&small);
}

/* A NaN in the padding does not reach a result; training counts all samples. */
static void check_mask_edges(void)
{
    double x[N * C] = {0}, ids[N] = {0};
    x[N * C - 1] = NAN;
    const double valid = N - 1;
    Lab l;
    open_batch(&l, N, x, ids);
    lab_bind(&l, OP_SCALAR, "n_valid", &valid, 1);
    mask_batch(l.module);
    int64_t count;
    const double *sum = ref_output(l.graph, lab_evaluate(&l, "mask_batch"), "all", &count);
    CHECK(sum[0] == -5.0 * (N - 1) * C, "the padding reaches a sum: %g", sum[0]);
    lab_close(&l);

    open_batch(&l, N, x, ids);
    l.graph->entry = ENTRY_TRAIN;
    mask_batch(l.module);
    const double *n = ref_output(l.graph, lab_evaluate(&l, "mask_batch"), "count2", &count);
    CHECK(n[0] == N * C, "training counts %g", n[0]);
    CHECK(lab_count(&l, OP_SCALAR) == 0, "training asks for n_valid");
    lab_close(&l);
}

/* --- simplify
 * -------------------------------------------------------------------------------------------- */

typedef Node *Make(Lab *l, Node *x, Node *y);

/* The result must be of this operator, and the same in every bit. */
typedef struct Identity {
    const char *name;
    Make *make;
    OpCode becomes;
} Identity;

#define MAKE(fn, expr)                        \
    static Node *fn(Lab *l, Node *x, Node *y) \
    {                                         \
        Builder *b = &l->b;                   \
        (void)x;                              \
        (void)y;                              \
        return expr;                          \
    }
MAKE(mul_1, build2(b, OP_MUL, x, num(l, DT_F32, 1)))
MAKE(mul_minus_1, build2(b, OP_MUL, num(l, DT_F32, -1), x))
MAKE(mul_0, build2(b, OP_MUL, x, num(l, DT_F32, 0)))
MAKE(add_0, build2(b, OP_ADD, x, num(l, DT_F32, 0)))
MAKE(add_minus_0, build2(b, OP_ADD, x, num(l, DT_F32, -0.0)))
MAKE(sub_0, build2(b, OP_SUB, x, num(l, DT_F32, 0)))
MAKE(add_neg, build2(b, OP_ADD, y, build1(b, OP_NEG, x)))
MAKE(sub_neg, build2(b, OP_SUB, y, build1(b, OP_NEG, x)))
MAKE(div_1, build2(b, OP_DIV, x, num(l, DT_F32, 1)))
MAKE(neg_neg, build1(b, OP_NEG, build1(b, OP_NEG, x)))
MAKE(where_true, build3(b, OP_WHERE, num(l, DT_BOOL, 1), x, y))
MAKE(where_not, build3(b, OP_WHERE, build1(b, OP_NOT, build2(b, OP_LT, x, y)), x, y))
MAKE(cast_up_down, build_cast(b, build_cast(b, x, DT_F64), DT_F32))
MAKE(cast_down_up, build_cast(b, build_cast(b, x, DT_I32), DT_F32))
MAKE(pow_2, build2(b, OP_POW, x, num(l, DT_F32, 2)))
MAKE(pow_half, build2(b, OP_POW, build1(b, OP_ABS, x), num(l, DT_F32, 0.5)))
MAKE(fold_scalars, build2(b, OP_ADD, build1(b, OP_EXP, num(l, DT_F32, 0)), num(l, DT_F32, 2)))
MAKE(permute_back,
     build_permute(b, build_permute(b, x, (const int64_t[]){1, 0}), (const int64_t[]){1, 0}))
MAKE(slice_slice,
     build_slice(b,
                 build_slice(b, x, (const int64_t[]){0, 1}, (const int64_t[]){1, 1},
                             (const int64_t[]){3, 3}),
                 (const int64_t[]){0, 0}, (const int64_t[]){1, 2}, (const int64_t[]){3, 2}))
MAKE(slice_reversed, build_slice(b, x, (const int64_t[]){0, 3}, (const int64_t[]){1, -1},
                                 (const int64_t[]){3, 4}))
MAKE(expand_in_mul,
     build2(b, OP_MUL, x,
            build_expand(b,
                         build_slice(b, y, (const int64_t[]){0, 0}, (const int64_t[]){1, 1},
                                     (const int64_t[]){1, 4}),
                         &x->type.shape)))
MAKE(max_same, build2(b, OP_MAX, x, x))
MAKE(sub_same, build2(b, OP_SUB, x, x))
#undef MAKE

static const Identity identities[] = {
    {"x * 1", mul_1, OP_STATE},
    {"-1 * x", mul_minus_1, OP_NEG},
    {"x * 0 (NaN)", mul_0, OP_MUL},
    {"x + 0 (-0)", add_0, OP_ADD},
    {"x + -0", add_minus_0, OP_STATE},
    {"x - 0", sub_0, OP_STATE},
    {"y + -x", add_neg, OP_SUB},
    {"y - -x", sub_neg, OP_ADD},
    {"x / 1", div_1, OP_STATE},
    {"--x", neg_neg, OP_STATE},
    {"where(true, x, y)", where_true, OP_STATE},
    {"where(not c, x, y)", where_not, OP_WHERE},
    {"f32(f64(x))", cast_up_down, OP_STATE},
    {"f32(i32(x))", cast_down_up, OP_CAST},
    {"x ** 2", pow_2, OP_MUL},
    {"|x| ** 0.5", pow_half, OP_SQRT},
    {"exp(0) + 2", fold_scalars, OP_CONST},
    {"x.T.T", permute_back, OP_STATE},
    {"x[:, 1:][:, ::2]", slice_slice, OP_SLICE},
    {"x[:, ::-1]", slice_reversed, OP_SLICE},
    {"x * expand(y)", expand_in_mul, OP_MUL},
    {"maximum(x, x)", max_same, OP_STATE},
    {"x - x (inf)", sub_same, OP_SUB},
};

static void check_identity(const Identity *it)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *x = lab_state(&l, "x", ROLE_PARAM, DT_F32, shape2(3, 4), -3, 3);
    Node *y = lab_state(&l, "y", ROLE_PARAM, DT_F32, shape2(3, 4), -3, 3);
    double *v = lab_data(&l, "x");
    v[0] = -0.0;
    v[1] = NAN;
    v[2] = INFINITY;
    lab_output(&l, OUT_TENSOR, "out", it->make(&l, x, y));
    int64_t count;
    l.module->stage = MODULE_MASKED;
    const double *before = ref_output(l.graph, lab_evaluate(&l, "nothing"), "out", &count);
    simplify(l.module);
    double **values = lab_evaluate(&l, "simplify");
    const Node *out = l.graph->outputs[0].value;
    CHECK(out->op == it->becomes, "%s becomes %s", it->name, op_info(out->op)->text);
    CHECK(lab_count(&l, OP_EXPAND) == 0, "%s: an expand is left", it->name);
    const double *after = ref_output(l.graph, values, "out", &count);
    for (int64_t i = 0; i < count; i++)
        CHECK((isnan(before[i]) && isnan(after[i])) ||
                  !memcmp(&before[i], &after[i], sizeof *after),
              "%s: [%d] was %g, is %g", it->name, (int)i, before[i], after[i]);
    lab_close(&l);
}

static void check_rounding(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *third = build2(&l.b, OP_DIV, num(&l, DT_F32, 1), num(&l, DT_F32, 3));
    lab_output(&l, OUT_TENSOR, "f32", build_cast(&l.b, third, DT_F64));
    lab_output(&l, OUT_TENSOR, "f64",
               build2(&l.b, OP_DIV, num(&l, DT_F64, 1), num(&l, DT_F64, 3)));
    const Shape s = shape2(2, 3);
    Node *t = build_table(&l.b, DT_I64, &s, (const double[]){1, 2, 3, 4, 5, 6});
    t = build_permute(&l.b, t, (const int64_t[]){1, 0});
    t = build2(&l.b, OP_FDIV, t, num(&l, DT_I64, -4));
    lab_output(&l, OUT_TENSOR, "table", t);
    simplify(l.module);
    double **values = lab_evaluate(&l, "simplify");
    const double f32 = (double)(1.0f / 3.0f), f64 = 1.0 / 3.0;
    CHECK(lab_error(&l, values, "f32", &f32, 1) == 0, "an f32 constant is not rounded");
    CHECK(lab_error(&l, values, "f64", &f64, 1) == 0, "an f64 constant is rounded");
    CHECK(lab_error(&l, values, "table", (const double[]){-1, -1, -1, -2, -1, -2}, 6) == 0,
          "a table");
    CHECK(l.graph->n_nodes == 3, "%d nodes are left", l.graph->n_nodes);
    lab_close(&l);
}

static Node *dice(Lab *l, const char *path)
{
    const Shape s = shape1(8);
    Attrs a = {.random = {.path = path, .shape = ints_of(1, s.dim)}};
    Node *seed = build_seed(&l->b);
    return build(&l->b, OP_RANDOM, &a, 2, (Node *[]){seed, num(l, DT_I64, 3)});
}

static void check_common(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *x = lab_state(&l, "x", ROLE_PARAM, DT_F32, shape1(8), -3, 3);
    Node *y = lab_state(&l, "y", ROLE_PARAM, DT_F32, shape1(8), -3, 3);
    l.b.hint = "first";
    Node *a = build1(&l.b, OP_EXP, build2(&l.b, OP_ADD, x, y));
    l.b.hint = "second";
    Node *b = build1(&l.b, OP_EXP, build2(&l.b, OP_ADD, y, x));
    build1(&l.b, OP_LOG, b); /* dead */
    lab_output(&l, OUT_TENSOR, "a", a);
    lab_output(&l, OUT_TENSOR, "b", b);
    lab_output(&l, OUT_TENSOR, "c", build2(&l.b, OP_SUB, y, x));
    lab_output(&l, OUT_TENSOR, "d", build2(&l.b, OP_SUB, x, y));
    lab_output(&l, OUT_TENSOR, "r", dice(&l, "drop"));
    lab_output(&l, OUT_TENSOR, "s", dice(&l, "drop"));
    lab_output(&l, OUT_TENSOR, "t", dice(&l, "other"));
    l.module->stage = MODULE_MASKED;
    simplify(l.module);
    lab_evaluate(&l, "simplify");
    const Output *o = l.graph->outputs;
    CHECK(o[0].value == o[1].value && !strcmp(o[1].value->name, "first.1"),
          "x + y and y + x: %s", o[1].value->name);
    CHECK(o[2].value != o[3].value, "y - x and x - y are one");
    CHECK(o[4].value == o[5].value && o[5].value != o[6].value, "random: the path decides");
    CHECK(lab_count(&l, OP_LOG) == 0, "a dead node is left");
    lab_close(&l);
}

/* A long chain with everything to do at once: not more than a few walks, no recursion. */
static void check_long(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *x = lab_state(&l, "x", ROLE_PARAM, DT_F32, shape1(8), -3, 3);
    Node *y = x;
    for (int i = 0; i < 20000; i++) {
        y = build2(&l.b, OP_MUL, build1(&l.b, OP_SIN, y), num(&l, DT_F32, 1));
        y = build1(&l.b, OP_NEG, build1(&l.b, OP_NEG, y));
    }
    lab_output(&l, OUT_TENSOR, "y", y);
    l.module->stage = MODULE_MASKED;
    simplify(l.module);
    CHECK(l.graph->n_nodes == 20001, "%d nodes", l.graph->n_nodes);
    lab_close(&l);
}

/* --- hfuse
 * -----------------------------------------------------------------------------------------------
 */

/* Two linear layers and their gradients. */
static void open_mlp(Lab *l)
{
    double x[8 * 5];
    for (int i = 0; i < 8 * 5; i++)
        x[i] = sin(i);
    lab_open(l, ENTRY_TRAIN);
    Builder *b = &l->b;
    Node *v = lab_input(l, "x", DT_F32, shape2(8, 5), x);
    Node *w1 = lab_state(l, "fc1.weight", ROLE_PARAM, DT_F32, shape2(6, 5), -1, 1);
    Node *c1 = lab_state(l, "fc1.bias", ROLE_PARAM, DT_F32, shape1(6), -1, 1);
    Node *w2 = lab_state(l, "fc2.weight", ROLE_PARAM, DT_F32, shape2(7, 6), -1, 1);
    Node *m2 = lab_state(l, "optimizer.m.fc2.weight", ROLE_OPTIM, DT_F32, shape2(7, 6), -1, 1);
    module_state(l->module, "optimizer.m.fc2.weight")->parameter = "fc2.weight";
    b->hint = "h";
    Node *h = build2(b, OP_ADD, build_einsum(b, v, w1, "mk,nk->mn"), c1);
    h = build1(b, OP_RELU, h);
    b->hint = "y";
    Node *y = build1(b, OP_TANH, build_einsum(b, h, w2, "mk,nk->mn"));
    b->hint = NULL;
    Node *loss = build_reduce(b, OP_SUM, y, 2, (const int64_t[]){0, 1}, false);
    Node *rate = num(l, DT_F32, 0.125);
    lab_output(l, OUT_RESULT, "loss", build_cast(b, loss, DT_F64));
    Node *g1 = lab_grad(l, loss, w1), *g2 = lab_grad(l, loss, w2);
    lab_output(l, OUT_STATE, "fc1.weight", build2(b, OP_SUB, w1, build2(b, OP_MUL, g1, rate)));
    Node *m = build2(b, OP_ADD, build2(b, OP_MUL, m2, rate), g2);
    lab_output(l, OUT_STATE, "optimizer.m.fc2.weight", m);
    lab_output(l, OUT_STATE, "fc2.weight", build2(b, OP_SUB, w2, build2(b, OP_MUL, m, rate)));
    lab_output(l, OUT_STATE, "fc1.bias", lab_grad(l, loss, c1));
}

static void run_until_lower(Lab *l, int n_models, const Target *t)
{
    CHECK(autodiff(l->module), "autodiff fails");
    mask_batch(l->module);
    simplify(l->module);
    hfuse(l->module, n_models, t);
    lab_evaluate(l, "hfuse");
}

static void check_hfuse(void)
{
    Lab two, many;
    open_mlp(&two);
    open_mlp(&many);
    run_until_lower(&two, 2, &cpu);
    run_until_lower(&many, 200, &cpu);
    lower(two.module, &cpu);
    lower(many.module, &cpu);
    CHECK(two.graph->n_nodes == many.graph->n_nodes, "%d nodes for 2 models, %d for 200",
          two.graph->n_nodes, many.graph->n_nodes);
    for (int i = 0; i < two.graph->n_nodes; i++) {
        const Node *a = two.graph->nodes[i], *b = many.graph->nodes[i];
        CHECK(!strcmp(a->name, b->name) && a->form == b->form && a->form != FORM_NONE,
              "%s and %s", a->name, b->name);
        CHECK(type_per_model(&a->type) == (a->form != FORM_SHARED), "%s: form and type",
              a->name);
        CHECK(!type_per_model(&b->type) || b->type.models.hi == 200, "%s: models", b->name);
        const bool wide =
            a->op == OP_EINSUM && (a->in[0]->op == OP_INPUT || a->in[1]->op == OP_INPUT);
        CHECK((a->form == FORM_WIDE) == wide, "%s: a shared with a per-model operand is wide",
              a->name);
    }
    lab_close(&two);
    lab_close(&many);
}

/* --- lower
 * -----------------------------------------------------------------------------------------------
 */

static const Node *only_reader(const Graph *g, const Node *n)
{
    const Node *reader = NULL;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in; k++)
            if (g->nodes[i]->in[k] == n)
                reader = reader && reader != g->nodes[i] ? n : g->nodes[i];
    return reader;
}

/* What ir/contract.h promises of every einsum. */
static void check_convention(const Lab *l, const char *what)
{
    for (int i = 0; i < l->graph->n_nodes; i++) {
        const Node *n = l->graph->nodes[i];
        if (n->op != OP_EINSUM)
            continue;
        const Node *reader = only_reader(l->graph, n);
        const bool ordered = reader && reader->op == OP_LAYOUT;
        Contraction c;
        const bool ok = contraction_of(n, ordered ? &reader->attrs.perm.dims : &n->order, &c);
        CHECK(ok, "%s: %s (%s) is no contraction", what, n->name, n->attrs.einsum.spec);
        if (!ok)
            continue;
        const int axis = c.letter[c.n_out - 1].in[c.vector_operand];
        const int stored = stored_innermost(l->graph, n->in[c.vector_operand]);
        CHECK(stored == axis, "%s: %s: vector operand is contiguous along %d, not %d", what,
              n->name, stored, axis);
        CHECK(c.m > 1 && c.n > 1 && c.k > 1, "%s: %s is no work for a micro-kernel", what,
              n->name);
    }
}

static void check_lower_mlp(void)
{
    Lab l;
    open_mlp(&l);
    run_until_lower(&l, 3, &cpu);
    int64_t count[5];
    double **before = lab_evaluate(&l, "hfuse");
    const double *expected[5];
    for (int i = 0; i < 5; i++)
        expected[i] = ref_output(l.graph, before, l.graph->outputs[i].name, &count[i]);
    lower(l.module, &cpu);
    double **after = lab_evaluate(&l, "lower");
    for (int i = 0; i < 5; i++)
        CHECK(lab_error(&l, after, l.graph->outputs[i].name, expected[i], count[i]) < 1e-13,
              "%s changes", l.graph->outputs[i].name);
    check_convention(&l, "mlp");
    static const char *const transposed[] = {"fc1.weight", "fc2.weight",
                                             "optimizer.m.fc2.weight"};
    for (int i = 0; i < 3; i++) {
        const IntList *order = &module_state(l.module, transposed[i])->layout;
        CHECK(order->n == 2 && order->v[0] == 1 && order->v[1] == 0, "%s is stored row-major",
              transposed[i]);
    }
    CHECK(module_state(l.module, "fc1.bias")->layout.n == 0, "a bias has a layout");
    /* dh reads fc2.weight the other way round, and both weights' gradients are stored as the
     * weights are. */
    CHECK(lab_count(&l, OP_LAYOUT) == 1, "%d layout nodes", lab_count(&l, OP_LAYOUT));
    int stored = 0;
    graph_foreach (l.graph, n)
        stored += n->op == OP_EINSUM && n->order.n == 2 && n->order.v[0] == 1;
    CHECK(stored == 2, "%d contractions are stored as the weights are", stored);
    lab_close(&l);

    open_mlp(&l);
    run_until_lower(&l, 3, &cuda);
    lower(l.module, &cuda);
    CHECK(lab_count(&l, OP_LAYOUT) == 0 && module_state(l.module, "fc1.weight")->layout.n == 0,
          "layouts for cuda");
    lab_close(&l);
}

typedef struct EinsumCase {
    const char *spec;
    Shape a, b;
    int einsums, layouts;
    int64_t chunk;
} EinsumCase;

static const EinsumCase einsum_cases[] = {
    {"mk,nk->mn",
     {2, {4, 3}, {0}},
     {2, {5, 3}, {0}},
     1,
     1,
     0}, /* a value's transpose: a copy */
    {"mk,kn->mn", {2, {4, 3}, {0}}, {2, {3, 5}, {0}}, 1, 0, 0},       /* contiguous as it is */
    {"mk,kn->mn", {2, {4, 600}, {0}}, {2, {600, 5}, {0}}, 1, 0, 256}, /* a long chain */
    {"bmk,bkn->bmn", {3, {2, 4, 3}, {0}}, {3, {2, 3, 5}, {0}}, 1, 0, 0},
    {"mkb,nkb->mnb",
     {3, {4, 3, 2}, {0}},
     {3, {5, 3, 2}, {0}},
     1,
     1,
     0}, /* last axis in both: ordered by n */
    {"mk,mk->m", {2, {4, 3}, {0}}, {2, {4, 3}, {0}}, 0, 0, 0},
    {"m,n->mn", {1, {4}, {0}}, {1, {5}, {0}}, 0, 0, 0},
    {"mk,k->m", {2, {4, 3}, {0}}, {1, {3}, {0}}, 0, 0, 0},
    {"mk,nk->mn", {2, {4, 3}, {0}}, {2, {1, 3}, {0}}, 0, 0, 0},
    {"mk,nk->mn", {2, {4, 1}, {0}}, {2, {5, 1}, {0}}, 0, 0, 0},
    {"mkj,kn->mn", {3, {4, 3, 2}, {0}}, {2, {3, 5}, {0}}, 1, 0, 0}, /* j is summed before */
};

static void check_einsum(const EinsumCase *c)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *p = lab_state(&l, "p", ROLE_SCHEDULE, DT_F32, c->a, -1, 1);
    Node *q = lab_state(&l, "q", ROLE_SCHEDULE, DT_F32, c->b, -1, 1);
    lab_output(&l, OUT_TENSOR, "y", build_einsum(&l.b, p, q, c->spec));
    l.module->stage = MODULE_MASKED;
    hfuse(l.module, 2, &cpu);
    int64_t count;
    const double *before = ref_output(l.graph, lab_evaluate(&l, "hfuse"), "y", &count);
    lower(l.module, &cpu);
    double **after = lab_evaluate(&l, "lower");
    CHECK(lab_error(&l, after, "y", before, count) < 1e-13, "%s: lower changes the value",
          c->spec);
    CHECK(lab_count(&l, OP_EINSUM) == c->einsums, "%s: %d einsums", c->spec,
          lab_count(&l, OP_EINSUM));
    CHECK(lab_count(&l, OP_LAYOUT) == c->layouts, "%s: %d layouts", c->spec,
          lab_count(&l, OP_LAYOUT));
    graph_foreach (l.graph, n)
        CHECK(n->op != OP_EINSUM || n->attrs.einsum.chunk == c->chunk, "%s: chunk", c->spec);
    check_convention(&l, c->spec);
    lab_close(&l);
}

static void check_letters(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Node *p = lab_state(&l, "p", ROLE_PARAM, DT_F32, shape4(2, 3, 4, 5), -1, 1); /* b m k l */
    Node *q = lab_state(&l, "q", ROLE_PARAM, DT_F32, shape4(5, 2, 4, 6), -1, 1); /* l b k n */
    Node *y = build_einsum(&l.b, p, q, "bmkl,lbkn->bmn");
    Contraction c;
    CHECK(contraction_of(y, NULL, &c), "row-major");
    CHECK(c.vector_operand == 1 && c.batch == 2 && c.m == 3 && c.n == 6 && c.k == 20,
          "n is the vector letter");
    CHECK(c.n_out == 3 && c.n_sum == 2 && c.letter[3].letter == 'k' &&
              c.letter[4].letter == 'l',
          "summed in order");
    const IntList by_m = ints_of(3, (const int64_t[]){0, 2, 1}),
                  by_b = ints_of(3, (const int64_t[]){1, 2, 0});
    CHECK(contraction_of(y, &by_m, &c) && c.vector_operand == 0 && c.m == 6 && c.n == 3,
          "m innermost");
    CHECK(c.letter[0].cls == LETTER_BATCH && c.letter[1].cls == LETTER_BROADCAST &&
              c.letter[2].cls == LETTER_VECTOR && c.letter[3].cls == LETTER_SUM,
          "classes");
    CHECK(!contraction_of(y, &by_b, &c), "a batch letter cannot be the vector");
    lab_close(&l);
}

static void check_stored(void)
{
    Lab l;
    lab_open(&l, ENTRY_TRAIN);
    Builder *b = &l.b;
    Node *p = lab_state(&l, "p", ROLE_PARAM, DT_F32, shape3(4, 6, 1), -1, 1);
    const Shape split = shape3(4, 2, 3), joined = shape1(24), grown = shape4(2, 4, 6, 5);
    Node *t = build_permute(b, p, (const int64_t[]){1, 0, 2});
    CHECK(stored_innermost(l.graph, p) == 1, "an axis of one element takes no step");
    CHECK(stored_innermost(l.graph, t) == 0, "permute");
    CHECK(stored_innermost(l.graph, build_reshape(b, p, &split)) == 2, "reshape that splits");
    CHECK(stored_innermost(l.graph, build_reshape(b, p, &joined)) == 0, "reshape that joins");
    CHECK(stored_innermost(l.graph, build_expand(b, p, &grown)) == 2, "expand");
    CHECK(stored_innermost(l.graph, build_slice(b, p, (const int64_t[]){0, 0, 0},
                                                (const int64_t[]){1, 2, 1},
                                                (const int64_t[]){4, 3, 1})) == -1,
          "stepped slice");
    module_state(l.module, "p")->layout = ints_of(3, (const int64_t[]){2, 1, 0});
    CHECK(stored_innermost(l.graph, p) == 0, "a state's layout");
    CHECK(stored_innermost(l.graph, build1(b, OP_NEG, t)) == 1,
          "an expression is stored row-major");
    lab_close(&l);
}

int main(void)
{
    for (int n = 1; n <= N; n++)
        check_masked(n);
    check_mask_edges();
    for (size_t i = 0; i < sizeof identities / sizeof *identities; i++)
        check_identity(&identities[i]);
    check_rounding();
    check_common();
    check_long();
    check_hfuse();
    check_lower_mlp();
    for (size_t i = 0; i < sizeof einsum_cases / sizeof *einsum_cases; i++)
        check_einsum(&einsum_cases[i]);
    check_letters();
    check_stored();
    return check_status();
}
