/* One case for each differentiable row of the op table (several where a row has several sides),
 * as IR that goes through the whole compiler: random shapes and attributes, the loss a weighted
 * sum of the values or of their squares. */
#include "tests/check/check_grad_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/loop.h"
#include "ir/print.h"
#include "ir/verify.h"

typedef struct Row {
    OpCode op;
    MakeCase *make;
    double lo, hi;   /* of the parameters' values */
    double exact_by; /* see GradCase */
} Row;

static const Row rows[] = {
    {OP_ADD, make_binary, -1, 1, 0},
    {OP_SUB, make_binary, -1, 1, 0},
    {OP_MUL, make_binary, -1, 1, 0},
    {OP_DIV, make_binary, 0.4, 2, 0},
    {OP_MOD, make_mod, 0.4, 3, 0},
    {OP_POW, make_binary, 0.3, 2, 0},
    {OP_POW, make_pow_number, 0.3, 2, 0},
    {OP_MIN, make_binary, -1, 1, 0},
    {OP_MAX, make_binary, -1, 1, 0},
    {OP_WHERE, make_where, -1, 1, 0},
    {OP_FMA, make_fma, -1, 1, 0},
    {OP_NEG, make_unary, -1, 1, 0},
    {OP_ABS, make_unary, -1, 1, 0},
    {OP_SQRT, make_unary, 0.2, 2, 0},
    {OP_EXP, make_unary, -3, 3, 0},
    {OP_LOG, make_unary, 0.2, 5, 0},
    {OP_EXPM1, make_unary, -2, 2, 0},
    {OP_LOG1P, make_unary, -0.7, 3, 0},
    {OP_SIN, make_unary, -9, 9, 0},
    {OP_COS, make_unary, -9, 9, 0},
    {OP_TANH, make_unary, -3, 3, 0},
    {OP_ERF, make_unary, -3, 3, 0},
    {OP_SIGMOID, make_unary, -6, 6, 0},
    {OP_RELU, make_unary, -1, 1, 0},
    {OP_SLOPE, make_slope, -1, 1, 0},
    {OP_CAST, make_cast, -1, 1, 0x1p-6},
    {OP_RESHAPE, make_reshape, -1, 1, 0},
    {OP_EXPAND, make_expand, -1, 1, 0},
    {OP_PERMUTE, make_permute, -1, 1, 0},
    {OP_SLICE, make_slice, -1, 1, 0},
    {OP_WINDOW, make_window, -1, 1, 0},
    {OP_PAD, make_pad, -1, 1, 0},
    {OP_PAD, make_padded_rows, -1, 1, 0},
    {OP_GATHER, make_gather, -1, 1, 0},
    {OP_SUM, make_reduce, -1, 1, 0},
    {OP_PROD, make_reduce, 0.6, 1.5, 0},
    {OP_REDMAX, make_reduce, -1, 1, 0},
    {OP_REDMIN, make_reduce, -1, 1, 0},
    {OP_EINSUM, make_einsum, -1, 1, 0},
    {OP_EINSUM, make_einsum, -1, 1, 0},
    {OP_EINSUM, make_convolution, -1, 1, 0},
    {OP_WINDOW, make_convolution, -1, 1, 0},
    {OP_SCATTER_ADD, make_scatter, -1, 1, 0},
    {OP_CUMSUM, make_cumsum, -1, 1, 0},
    {OP_LOOP, make_loop, -1, 1, 0},
    {OP_RESULT, make_loop, -1, 1, 0},
};
enum {
    N_ROWS = sizeof rows / sizeof *rows
};

/* ---- what the cases are made with ---- */

Node *make_param(Maker *m, const Shape *s)
{
    Module *module = m->b.graph->module;
    const char *name = arena_printf(module->arena, "c%d_p%d", m->number, m->n_params++);
    module_add_state(
        module,
        &(State){.name = name, .role = ROLE_PARAM, .type = {.dtype = DT_F64, .shape = *s}});
    return build_state(&m->b, name);
}

Shape make_shape(Maker *m, int min_rank, int max_rank, int64_t limit)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33};
    Shape s = {.rank = (int)random_between(&m->random, min_rank, max_rank)};
    for (int i = 0; i < s.rank; i++) {
        do
            s.dim[i] = sizes[random_below(&m->random, sizeof sizes / sizeof *sizes)];
        while (s.dim[i] > limit);
        limit /= s.dim[i];
    }
    for (int i = s.rank - 1; i > 0; i--) { /* the large ones are not always in front */
        const int64_t j = random_below(&m->random, i + 1), d = s.dim[i];
        s.dim[i] = s.dim[j];
        s.dim[j] = d;
    }
    return s;
}

Shape make_narrower(Maker *m, const Shape *s)
{
    Shape n = {0};
    int first = 0;
    while (first < s->rank && random_chance(&m->random, 25))
        first++;
    for (int i = first; i < s->rank; i++)
        n.dim[n.rank++] = random_chance(&m->random, 30) ? 1 : s->dim[i];
    return n;
}

Node *make_bent(Maker *m, Node *x)
{
    switch (random_below(&m->random, 4)) {
    case 0:
        return build1(&m->b, OP_TANH, x);
    case 1:
        return build2(&m->b, OP_ADD, x, build2(&m->b, OP_MUL, x, x));
    default:
        return x;
    }
}

int make_axes(Maker *m, int rank, int least, int64_t *dims)
{
    int64_t all[MAX_RANK];
    for (int i = 0; i < rank; i++)
        all[i] = i;
    random_shuffle(&m->random, all, rank);
    const int n = (int)random_between(&m->random, least, rank);
    memcpy(dims, all, (size_t)n * sizeof *dims);
    return n;
}

Node *make_indices(Maker *m, const Shape *s, int64_t lo, int64_t hi)
{
    const int64_t n = shape_count(s);
    double *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (double)random_between(&m->random, lo, hi);
    Node *table = build_table(&m->b, DT_I64, s, v);
    free(v);
    return table;
}

/* ---- elementwise ---- */

/* Two operands that broadcast, in either order. */
static void make_pair(Maker *m, Node **x, Node **y)
{
    const Shape s = make_shape(m, 0, 4, 240), t = make_narrower(m, &s);
    *x = make_param(m, &s);
    *y = make_param(m, &t);
    if (random_chance(&m->random, 50)) {
        Node *z = *x;
        *x = *y;
        *y = z;
    }
}

Node *make_binary(Maker *m)
{
    Node *x, *y;
    make_pair(m, &x, &y);
    return build2(&m->b, m->op, x, y);
}

Node *make_pow_number(Maker *m)
{
    static const double exponents[] = {2, 3, 1, 0, 0.5, -1, -2, 1.7, -0.5};
    const Shape s = make_shape(m, 0, 4, 240);
    Node *e = build_const(&m->b, DT_F64, exponents[random_below(&m->random, 9)]);
    return build2(&m->b, m->op, make_param(m, &s), e);
}

/* Of either sign. */
Node *make_mod(Maker *m)
{
    Node *x, *y;
    make_pair(m, &x, &y);
    if (random_chance(&m->random, 50))
        x = build1(&m->b, OP_NEG, x);
    if (random_chance(&m->random, 50))
        y = build1(&m->b, OP_NEG, y);
    return build2(&m->b, m->op, x, y);
}

/* The condition is of a parameter as well; nothing flows there. */
Node *make_where(Maker *m)
{
    Node *x, *y;
    make_pair(m, &x, &y);
    const Shape *s = x->type.shape.rank > y->type.shape.rank ? &x->type.shape : &y->type.shape;
    const Shape t = make_narrower(m, s);
    Node *c = build2(&m->b, OP_GT, make_param(m, &t), build_const(&m->b, DT_F64, 0.1));
    return build3(&m->b, m->op, c, make_bent(m, x), make_bent(m, y));
}

Node *make_fma(Maker *m)
{
    Node *x, *y;
    make_pair(m, &x, &y);
    const Shape t =
        make_narrower(m, random_chance(&m->random, 50) ? &x->type.shape : &y->type.shape);
    return build3(&m->b, m->op, x, y, make_param(m, &t));
}

/* Of a sum of squares along some axes, or of the squares. */
Node *make_slope(Maker *m)
{
    const Shape s = make_shape(m, 1, 4, 240);
    int64_t dims[MAX_RANK];
    const int n = make_axes(m, s.rank, 0, dims);
    Node *x = make_param(m, &s), *value = build2(&m->b, OP_MUL, x, x);
    if (n > 0)
        value = build_reduce(&m->b, OP_SUM, value, n, dims, true);
    return build3(&m->b, m->op, value, x, build2(&m->b, OP_ADD, x, x));
}

Node *make_unary(Maker *m)
{
    const Shape s = make_shape(m, 0, 4, 240);
    return build1(&m->b, m->op, make_param(m, &s));
}

/* Through f32 and back: with multiples of 1/64 that loses nothing. */
Node *make_cast(Maker *m)
{
    const Shape s = make_shape(m, 0, 3, 240);
    Node *x = build_cast(&m->b, make_param(m, &s), DT_F32);
    x = build2(&m->b, OP_MUL, x, build_const(&m->b, DT_F32, 0.75));
    return build_cast(&m->b, x, DT_F64);
}

/* ---- a program ---- */

static Node *sum_of_all(Builder *b, Node *x)
{
    int64_t all[MAX_RANK];
    for (int i = 0; i < x->type.shape.rank; i++)
        all[i] = i;
    return build_reduce(b, OP_SUM, x, x->type.shape.rank, all, false);
}

/* sum(w * y) or sum(w * y * y), w different for each element. */
static Node *make_loss(Maker *m, Node *y)
{
    if (!y)
        return NULL;
    const int64_t n = shape_count(&y->type.shape);
    double *w = malloc((size_t)n * sizeof *w);
    for (int64_t i = 0; i < n; i++)
        w[i] = floor(random_unit(&m->random) * 32 - 16) / 16 + 1.0 / 32;
    Node *v = build2(&m->b, OP_MUL, y, build_table(&m->b, DT_F64, &y->type.shape, w));
    free(w);
    if (random_chance(&m->random, 50))
        v = build2(&m->b, OP_MUL, v, y);
    return sum_of_all(&m->b, v);
}

static void add_state(Module *m, const char *name, StateRole role, const char *parameter,
                      Node *value)
{
    module_add_state(m, &(State){.name = name,
                                 .role = role,
                                 .parameter = parameter,
                                 .type = {.dtype = DT_F64, .shape = value->type.shape}});
    graph_add_output(module_graph(m, ENTRY_TRAIN),
                     &(Output){.kind = OUT_STATE, .name = name, .value = value});
}

static void describe_node(GradCase *c, const Node *n)
{
    Text t;
    Arena *a = arena_new();
    text_init(&t, a);
    node_print(&t, n);
    for (int i = 0; i < n->n_in; i++) {
        text_printf(&t, "%s %%%s ", i ? "," : ";", n->in[i]->name);
        type_print(&t, &n->in[i]->type);
    }
    snprintf(c->name, sizeof c->name, "%s", t.s);
    arena_free(a);
}

static Node *make_case(Maker *m, const Row *row, GradCase *c, bool *covered)
{
    m->op = row->op;
    m->n_params = 0;
    c->lo = row->lo;
    c->hi = row->hi;
    c->exact_by = row->exact_by;
    const int before = m->b.graph->n_nodes;
    Node *y = row->make(m);
    for (int i = m->b.graph->n_nodes - 1; y && i >= before; i--)
        if (m->b.graph->nodes[i]->op == row->op) {
            describe_node(c, m->b.graph->nodes[i]);
            covered[row->op] = true;
            break;
        }
    return make_loss(m, y);
}

/* First values, and gradients of all parameters. */
static void finish(Module *m, Builder *train, Node *total)
{
    const int n = m->n_states;
    for (int i = 0; i < n; i++) {
        if (m->states[i].role != ROLE_PARAM)
            continue;
        const char *name = m->states[i].name;
        Node *x = build_state(train, name);
        graph_add_output(train->graph, &(Output){.kind = OUT_STATE, .name = name, .value = x});
        add_state(m, arena_printf(m->arena, "optimizer.grad.%s", name), ROLE_OPTIM, name,
                  build2(train, OP_GRAD, total, x));
    }
    Node *ok = build_cast(train, build1(train, OP_ISFINITE, total), DT_F64);
    graph_add_output(train->graph,
                     &(Output){.kind = OUT_RESULT, .name = "loss", .value = total});
    graph_add_output(train->graph, &(Output){.kind = OUT_OK, .name = "ok", .value = ok});
    Builder init = {.graph = module_graph(m, ENTRY_INIT), .loc = SRC_NONE};
    for (int i = 0; i < m->n_states; i++) {
        Node *zero = build_full(&init, DT_F64, &m->states[i].type.shape, 0);
        graph_add_output(
            init.graph, &(Output){.kind = OUT_STATE, .name = m->states[i].name, .value = zero});
    }
}

GradProgram grad_rows_program(const int *which, int n, uint64_t seed, bool covered[OP_COUNT_])
{
    Arena *arena = arena_new();
    Diag *diag = diag_new(arena, &(DiagOptions){.out = stdout});
    Module *module = module_new(arena, diag, "Rows");
    GradProgram p = {.suffix = ".hir", .n_cases = n};
    module->stage = MODULE_IR;
    module->batch = 1;
    graph_new(module, ENTRY_INIT);
    Maker m = {.random = {seed},
               .b = {.graph = graph_new(module, ENTRY_TRAIN), .loc = SRC_NONE}};
    Node *total = NULL;
    for (int i = 0; i < n; i++) {
        m.number = i;
        Node *loss = make_case(&m, &rows[which[i]], &p.cases[i], covered);
        if (!loss) {
            printf("FAILED: a case about %s cannot be built\n", op_info(m.op)->text);
            exit(1);
        }
        add_state(module, arena_printf(arena, "c%d_kept.value", i), ROLE_BUFFER, NULL, loss);
        total = total ? build2(&m.b, OP_ADD, total, loss) : loss;
    }
    finish(module, &m.b, total);
    module_verify(module, "check_grad");
    Text t;
    text_init(&t, arena);
    module_print(&t, module);
    p.text = strdup(t.s);
    arena_free(arena);
    return p;
}

int grad_rows_count(void)
{
    return N_ROWS;
}

const char *grad_rows_name(int i)
{
    return op_info(rows[i].op)->text;
}

bool grad_rows_covered(const bool covered[OP_COUNT_])
{
    bool all = true;
    for (int op = 0; op < OP_COUNT_; op++) {
        const OpInfo *info = op_info((OpCode)op);
        const bool differentiable = strcmp(info->grad, "none") && strcmp(info->grad, "missing");
        if (differentiable && !covered[op])
            printf("FAILED: %s has a gradient, but no case\n", info->text);
        all &= !differentiable || covered[op];
    }
    return all;
}
