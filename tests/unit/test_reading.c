/* Test of ir/reading.h: values that are read by the rule against values that are computed.
 *
 * Random chains of views, pads, windows and their adjoints, gathers, sums and additions over small
 * arrays.  On the one side the reference (ref.c) computes every node with plain loops.  On the
 * other side the chain is read once, at an index of variables, down to the inputs; then each
 * element of the result is what that reading gives for the values of the variables.  Half of the
 * axes are two variables, as where a back end vectorises.  For views the strides are checked in
 * the same way. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/reading.h"
#include "ir/shape.h"
#include "ir/strides.h"
#include "tests/unit/ref.h"

enum {
    N_CHAINS = 1500,
    MAX_CHAIN = 5,
    MAX_ELEMENTS = 120,
    MAX_LEAVES = 16,
    MAX_TREES = 64,
    MAX_VARS = 512,
    N_KINDS = 10
};

static int n_checks, n_failed;

static void check(bool ok, const char *what, int chain)
{
    n_checks++;
    if (!ok && n_failed++ < 20)
        printf("test_reading.c: chain %d: %s\n", chain, what);
}

/* ---- chains ---- */

static uint32_t random_state;

/* 0 .. n-1. */
static int64_t pick(int64_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int64_t)(random_state >> 8) % n;
}

typedef struct Case {
    Arena *arena;
    Builder b;
    RefBinding leaf[MAX_LEAVES];
    int n_leaves;
    int made[N_KINDS];
} Case;

/* An input whose values are lo .. lo + span - 1; span 0: all different. */
static Node *input(Case *c, DType t, const Shape *shape, int64_t lo, int64_t span)
{
    const int64_t n = shape_count(shape);
    const char *name = arena_printf(c->arena, "x%d", c->n_leaves);
    double *data = arena_array(c->arena, (size_t)n, sizeof *data);
    for (int64_t i = 0; i < n; i++)
        data[i] = (double)(span ? lo + pick(span) : lo + i);
    const Input in = {.name = name, .type = {.dtype = t, .shape = *shape}};
    module_add_input(c->b.graph->module, &in);
    c->leaf[c->n_leaves++] = (RefBinding){OP_INPUT, name, data};
    return build_input(&c->b, name);
}

static Shape random_shape(int rank, int64_t most)
{
    Shape s = {.rank = rank};
    for (int k = 0; k < rank; k++)
        s.dim[k] = 1 + pick(most);
    return s;
}

/* Splits the elements into up to four axes anew. */
static Node *reshape(Case *c, Node *x)
{
    int64_t rest = shape_count(&x->type.shape);
    Shape s = {0};
    while (s.rank < 3 && pick(4)) {
        int64_t d = 1 + pick(rest);
        while (rest % d)
            d--;
        s.dim[s.rank++] = d;
        rest /= d;
    }
    s.dim[s.rank++] = rest;
    return build_reshape(&c->b, x, &s);
}

static Node *expand(Case *c, Node *x)
{
    Shape s = x->type.shape;
    for (int k = 0; k < s.rank; k++)
        s.dim[k] = s.dim[k] == 1 ? 1 + pick(3) : s.dim[k];
    return build_expand(&c->b, x, &s);
}

static void shuffle(int rank, int64_t *dims)
{
    for (int k = 0; k < rank; k++) {
        const int j = (int)pick(k + 1);
        dims[k] = dims[j];
        dims[j] = k;
    }
}

static Node *permute(Case *c, Node *x)
{
    int64_t dims[MAX_RANK];
    shuffle(x->type.shape.rank, dims);
    return build_permute(&c->b, x, dims);
}

static Node *layout(Case *c, Node *x)
{
    Attrs a = {.perm = {.dims = {.n = x->type.shape.rank}}};
    shuffle(a.perm.dims.n, a.perm.dims.v);
    return build(&c->b, OP_LAYOUT, &a, 1, &x);
}

/* From where on `n` elements in steps lie within `extent`, which grows to hold them if it may. */
static int64_t random_start(int64_t n, int64_t step, int64_t extent)
{
    const int64_t span = (n - 1) * llabs(step) + 1;
    return (step < 0 ? span - 1 : 0) + pick(extent - span + 1);
}

static int64_t random_step(void)
{
    return (pick(3) ? 1 : -1) * (1 + pick(3));
}

static Node *slice(Case *c, Node *x)
{
    const Shape *s = &x->type.shape;
    int64_t start[MAX_RANK], step[MAX_RANK], size[MAX_RANK];
    for (int k = 0; k < s->rank; k++) {
        step[k] = random_step();
        size[k] = 1 + pick((s->dim[k] - 1) / llabs(step[k]) + 1);
        start[k] = random_start(size[k], step[k], s->dim[k]);
    }
    return build_slice(&c->b, x, start, step, size);
}

static Node *pad(Case *c, Node *x)
{
    const Shape *s = &x->type.shape;
    int64_t start[MAX_RANK], step[MAX_RANK], size[MAX_RANK];
    for (int k = 0; k < s->rank; k++) {
        step[k] = pick(2) ? 1 : random_step();
        size[k] = (s->dim[k] - 1) * llabs(step[k]) + 1 + pick(3);
        start[k] = random_start(s->dim[k], step[k], size[k]);
    }
    return build_pad(&c->b, x, start, step, size, (double)(-1 - pick(9)));
}

static Node *window(Case *c, Node *x)
{
    const Shape *s = &x->type.shape;
    Attrs a;
    attrs_default(ATTR_window, &a);
    a.window.start.n = a.window.step.n = a.window.size.n = s->rank;
    a.window.taps.n = a.window.dilation.n = s->rank;
    for (int k = 0; k < s->rank; k++) {
        const int64_t taps = pick(2) ? 0 : 1 + pick(3), step = 1 + pick(2), by = 1 + pick(2);
        const int64_t across = taps ? (taps - 1) * by : 0;
        if (across >= s->dim[k])
            return NULL;
        const int64_t size = 1 + pick((s->dim[k] - across - 1) / step + 1);
        a.window.start.v[k] = pick(s->dim[k] - across - (size - 1) * step);
        a.window.step.v[k] = step;
        a.window.size.v[k] = size;
        a.window.taps.v[k] = taps;
        a.window.dilation.v[k] = by;
    }
    return build_window(&c->b, OP_WINDOW, x, &a);
}

/* The first axis becomes the taps of one of the others. */
static Node *unwindow(Case *c, Node *x)
{
    const int rank = x->type.shape.rank - 1;
    Attrs a;
    if (rank < 1)
        return NULL;
    attrs_default(ATTR_window, &a);
    a.window.start.n = a.window.step.n = a.window.size.n = rank;
    a.window.taps.n = a.window.dilation.n = rank;
    const int with_taps = (int)pick(rank);
    for (int k = 0; k < rank; k++) {
        const int64_t taps = k == with_taps ? x->type.shape.dim[0] : 0;
        const int64_t step = 1 + pick(3), by = 1 + pick(2), start = pick(2);
        const int64_t along = (x->type.shape.dim[1 + k] - 1) * step,
                      across = taps ? (taps - 1) * by : 0;
        a.window.start.v[k] = start;
        a.window.step.v[k] = step;
        a.window.size.v[k] = start + along + across + 1 + pick(2);
        a.window.taps.v[k] = taps;
        a.window.dilation.v[k] = by;
    }
    return build_window(&c->b, OP_UNWINDOW, x, &a);
}

static Node *gather(Case *c, Node *x)
{
    Shape s = x->type.shape;
    if (s.rank == 0)
        return NULL;
    const Attrs a = {.axis = {.dim = pick(s.rank)}};
    for (int k = 0; k < s.rank; k++)
        s.dim[k] = k == a.axis.dim ? 1 + pick(4) : 1 + pick(s.dim[k]);
    /* Some are outside: they are clamped. */
    Node *index = input(c, DT_I32, &s, -1, x->type.shape.dim[a.axis.dim] + 2);
    return build(&c->b, OP_GATHER, &a, 2, (Node *[]){x, index});
}

static Node *add(Case *c, Node *x)
{
    Shape s = x->type.shape;
    for (int k = 0; k < s.rank; k++)
        s.dim[k] = pick(2) ? 1 : s.dim[k];
    return build2(&c->b, OP_ADD, x, input(c, DT_F64, &s, 1000, 0));
}

static Node *sum(Case *c, Node *x)
{
    int64_t dims[MAX_RANK];
    int n = 0;
    for (int k = 0; k < x->type.shape.rank; k++)
        if (!pick(3))
            dims[n++] = k;
    return n ? build_reduce(&c->b, OP_SUM, x, n, dims, pick(2)) : NULL;
}

typedef Node *Make(Case *c, Node *x);
static Make *const makes[N_KINDS] = {reshape, expand, permute, layout,   slice,
                                     window,  pad,    gather,  unwindow, add};
enum {
    N_VIEWS = 6 /* of these, the first ones */
};

static Node *chain(Case *c, int n_kinds)
{
    const Shape s = random_shape(1 + (int)pick(3), 5);
    Node *x = input(c, DT_F64, &s, 1, 0);
    for (int i = 1 + (int)pick(MAX_CHAIN); i > 0; i--) {
        const int kind = (int)pick(n_kinds);
        Node *next = n_kinds == N_KINDS && !pick(12) ? sum(c, x) : makes[kind](c, x);
        if (!next || next->type.shape.rank > 6 || shape_count(&next->type.shape) > MAX_ELEMENTS)
            continue;
        c->made[kind]++;
        x = next;
    }
    return x;
}

/* ---- reading ---- */

/* What is read at `at` of node n, a form of variables. */
typedef struct Tree Tree;
struct Tree {
    const Node *node;
    Index at;
    Reading read[2];
    Tree *operand[2];
    int loop[MAX_RANK]; /* of a reduction, by axis of its operand */
};

typedef struct Reads {
    Arena *arena;
    const RefBinding *leaf;
    IndexSpace space;
    int64_t value[MAX_VARS]; /* of a loop's variable */
    Tree *index[MAX_VARS];   /* of a variable that is a value: where it comes from */
    int chain;
    bool outside; /* something was read outside its operand */
} Reads;

static Tree *read_tree(Reads *r, const Node *n, const Index *i);

static Affine value_as_index(void *reads, Node *index, const Index *at, int64_t extent)
{
    Reads *r = reads;
    Tree *t = read_tree(r, index, at);
    const int var = index_var(&r->space, AFFINE_VAR_VALUE, 0, extent - 1, false);
    r->index[var] = t;
    return affine_var(var);
}

static Tree *read_tree(Reads *r, const Node *n, const Index *i)
{
    const Reader reader = {&r->space, value_as_index, r};
    Tree *t = arena_alloc(r->arena, sizeof *t);
    t->node = n;
    t->at = index_broadcast(&n->type.shape, i);
    for (int k = 0; k < node_n_read(n); k++) {
        node_read(&reader, n, k, &t->at, &t->read[k]);
        for (int d = 0; op_info(n->op)->kind == KIND_REDUCE && d < t->read[k].at.rank; d++) {
            if (!(reduced_axes(n) >> d & 1))
                continue;
            t->loop[d] = index_var(&r->space, AFFINE_VAR_LOOP, 0,
                                   n->in[0]->type.shape.dim[d] - 1, false);
            t->read[k].at.at[d] = affine_var(t->loop[d]);
        }
        t->operand[k] = read_tree(r, n->in[k], &t->read[k].at);
    }
    return t;
}

static double tree_value(Reads *r, const Tree *t);

static int64_t form_value(Reads *r, const Affine *a)
{
    int64_t v = a->base;
    for (int i = 0; i < a->n; i++) {
        const int var = a->term[i].var;
        const AffineVar x = r->space.var[var];
        int64_t is = r->value[var];
        if (x.kind == AFFINE_VAR_DIV || x.kind == AFFINE_VAR_MOD) {
            const int64_t of = form_value(r, &x.of);
            check(of >= 0, "a quotient of a negative number", r->chain);
            is = x.kind == AFFINE_VAR_DIV ? of / x.by : of % x.by;
        } else if (x.kind == AFFINE_VAR_VALUE) {
            is = (int64_t)fmin(fmax(tree_value(r, r->index[var]), 0), (double)x.hi);
        }
        check(is >= x.lo && is <= x.hi, "a variable leaves its range", r->chain);
        v += a->term[i].coef * is;
    }
    return v;
}

static bool holds(Reads *r, const ReadGuard *guards)
{
    for (const ReadGuard *g = guards; g; g = g->next) {
        const int64_t at = form_value(r, &g->at);
        if (at < 0 || at >= g->extent || form_value(r, &g->rest) != 0)
            return false;
    }
    return true;
}

static double leaf_value(Reads *r, const Tree *t)
{
    const Affine flat = index_flatten(&r->space, &t->node->type.shape, &t->at);
    for (int k = 0; k < t->at.rank; k++) {
        const int64_t at = form_value(r, &t->at.at[k]);
        if (at < 0 || at >= t->node->type.shape.dim[k]) {
            r->outside = true;
            return 0;
        }
    }
    return r->leaf[atoi(t->node->attrs.leaf.name + 1)].data[form_value(r, &flat)];
}

static double operand_value(Reads *r, const Tree *t, int k)
{
    return holds(r, t->read[k].guards) ? tree_value(r, t->operand[k]) : t->read[k].outside;
}

static double sum_value(Reads *r, const Tree *t)
{
    const Shape *s = &t->node->in[0]->type.shape;
    const unsigned reduced = reduced_axes(t->node);
    int64_t count = 1;
    double total = 0;
    for (int d = 0; d < s->rank; d++)
        count *= reduced >> d & 1 ? s->dim[d] : 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (int d = 0; d < s->rank; d++)
            if (reduced >> d & 1) {
                r->value[t->loop[d]] = rest % s->dim[d];
                rest /= s->dim[d];
            }
        total += operand_value(r, t, 0);
    }
    return total;
}

static double tree_value(Reads *r, const Tree *t)
{
    switch (op_info(t->node->op)->kind) {
    case KIND_LEAF:
        return leaf_value(r, t);
    case KIND_EXPR:
        return operand_value(r, t, 0) + operand_value(r, t, 1);
    case KIND_REDUCE:
        return sum_value(r, t);
    case KIND_VIEW:
    case KIND_INDEX:
    case KIND_CONTRACT:
    case KIND_SCATTER:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return operand_value(r, t, 0);
}

/* An axis is a variable, or two where it can be split in two. */
typedef struct Axis {
    int block, rest;
    int64_t width;
} Axis;

static Affine axis_form(Reads *r, int64_t extent, Axis *a)
{
    a->width = 1;
    for (int64_t w = 2; w < extent && pick(2); w++)
        a->width = extent % w == 0 ? w : a->width;
    a->block = index_var(&r->space, AFFINE_VAR_LOOP, 0, extent / a->width - 1, false);
    a->rest = index_var(&r->space, AFFINE_VAR_LOOP, 0, a->width - 1, false);
    const Affine block = affine_var(a->block), rest = affine_var(a->rest),
                 blocks = affine_scale(&block, a->width);
    return a->width == 1 ? blocks : affine_add(&blocks, &rest);
}

static void test_values(Reads *r, const Node *n, const double *want)
{
    const Shape *s = &n->type.shape;
    Axis axis[MAX_RANK];
    Index i = {.rank = s->rank};
    for (int k = 0; k < s->rank; k++)
        i.at[k] = axis_form(r, s->dim[k], &axis[k]);
    const Tree *t = read_tree(r, n, &i);
    bool same = true;
    for (int64_t e = 0, count = shape_count(s); e < count; e++) {
        int64_t rest = e;
        for (int k = s->rank - 1; k >= 0; k--) {
            r->value[axis[k].block] = rest % s->dim[k] / axis[k].width;
            r->value[axis[k].rest] = rest % s->dim[k] % axis[k].width;
            rest /= s->dim[k];
        }
        same &= tree_value(r, t) == want[e];
    }
    check(same, "what is read is not what is computed", r->chain);
    check(!r->outside, "a guard holds, but what is read is outside", r->chain);
}

static Case case_new(void)
{
    Case c = {.arena = arena_new()};
    Diag *d = diag_new(c.arena, &(DiagOptions){.out = stdout});
    Module *m = module_new(c.arena, d, "m");
    c.b = (Builder){.graph = graph_new(m, ENTRY_TRAIN), .loc = SRC_NONE};
    return c;
}

static void test_chain(int number, int *made)
{
    Case c = case_new();
    random_state = (uint32_t)number * 2654435761u;
    Node *n = chain(&c, N_KINDS);
    const RefWorld world = {.bindings = c.leaf, .n_bindings = c.n_leaves};
    double **values = ref_evaluate(c.arena, c.b.graph, &world);
    Reads *r = arena_alloc(c.arena, sizeof *r);
    *r = (Reads){.arena = c.arena, .leaf = c.leaf, .chain = number};
    index_space_init(&r->space, c.arena, 1);
    test_values(r, n, values[n->id]);
    for (int k = 0; k < N_KINDS; k++)
        made[k] += c.made[k];
    arena_free(c.arena);
}

/* ---- strides ---- */

static bool is_leaf(const void *context, const Node *n)
{
    (void)context;
    return op_info(n->op)->kind == KIND_LEAF;
}

/* Dense leaves; *missed: a view without strides was met. */
static bool dense(void *missed, const Node *n, bool must, int64_t *stride)
{
    *(bool *)missed |= must;
    shape_strides(&n->type.shape, stride);
    return op_info(n->op)->kind == KIND_LEAF || must;
}

/* Does element e of the value lie where strides say, in a dense leaf whose element i is i + 1? */
static void check_places(const Node *n, const double *value, const int64_t *stride,
                         int64_t offset, int number)
{
    const Shape *s = &n->type.shape;
    bool same = true;
    for (int64_t e = 0, count = shape_count(s); e < count; e++) {
        int64_t rest = e, place = offset;
        for (int k = s->rank - 1; k >= 0; k--) {
            place += rest % s->dim[k] * stride[k];
            rest /= s->dim[k];
        }
        same &= value[e] == (double)(place + 1);
    }
    check(same, "strides lead to another element", number);
}

/* A chain of views has strides from its index at the leaf, and view by view. */
static bool test_strides(int number)
{
    Case c = case_new();
    random_state = (uint32_t)number * 2246822519u;
    Node *n = chain(&c, N_VIEWS);
    const RefWorld world = {.bindings = c.leaf, .n_bindings = c.n_leaves};
    double **values = ref_evaluate(c.arena, c.b.graph, &world);
    IndexSpace space;
    int var[MAX_RANK];
    int64_t stride[MAX_RANK], offset;
    index_space_init(&space, c.arena, 1);
    Index i = index_of_axes(&space, &n->type.shape, var);
    const Node *base = read_through_views(&space, n, is_leaf, NULL, &i);
    const Affine at = index_flatten(&space, &base->type.shape, &i);
    const bool found = affine_strides(at, n->type.shape.rank, var, stride, &offset);
    if (found)
        check_places(n, values[n->id], stride, offset, number);
    bool missed = false;
    strides_through_views(n, dense, &missed, stride, &offset);
    if (!missed)
        check_places(n, values[n->id], stride, offset, number);
    check(found || missed, "views have strides one by one, but not together", number);
    arena_free(c.arena);
    return !missed;
}

/* ---- the example of reading.h ---- */

/* Windows 0..2 of the padded row, or window 1 alone. */
static void test_window(const Node *w, int64_t first, int64_t last)
{
    Arena *a = arena_new();
    IndexSpace s;
    const Reader reader = {.space = &s};
    Reading p, x;
    index_space_init(&s, a, 1);
    const int t = index_var(&s, AFFINE_VAR_LOOP, 0, 2, false),
              o = index_var(&s, AFFINE_VAR_LOOP, first, last, false);
    const Index i = {.rank = 2, .at = {affine_var(t), affine_var(o)}};
    node_read(&reader, w, 0, &i, &p);
    node_read(&reader, w->in[0], 0, &p.at, &x);
    const Affine *at = &x.at.at[0];
    check(!p.guards && x.at.rank == 1 && at->base == -1 && affine_coef(at, t) == 1 &&
              affine_coef(at, o) == 2,
          "the window over the padded row is not read at t + 2 * o - 1", -1);
    const bool guarded =
        x.guards && x.guards->extent == 5 && affine_equal(&x.guards->at, at) && !x.guards->next;
    check(last > first ? guarded : !x.guards, "guard of the window over the padded row", -1);
    check(x.outside == 7, "what is outside the row", -1);
    arena_free(a);
}

static void test_example(void)
{
    Case c = case_new();
    const Shape five = {.rank = 1, .dim = {5}};
    Node *x = input(&c, DT_F64, &five, 1, 0);
    Node *p = build_pad(&c.b, x, (int64_t[]){1}, (int64_t[]){1}, (int64_t[]){7}, 7);
    Attrs a;
    attrs_default(ATTR_window, &a);
    a.window.start = ints_of(1, (int64_t[]){0});
    a.window.step = ints_of(1, (int64_t[]){2});
    a.window.size = a.window.taps = ints_of(1, (int64_t[]){3});
    a.window.dilation = ints_of(1, (int64_t[]){1});
    Node *w = build_window(&c.b, OP_WINDOW, p, &a);
    test_window(w, 0, 2);
    test_window(w, 1, 1);
    arena_free(c.arena);
}

int main(void)
{
    int made[N_KINDS] = {0}, strided = 0;
    test_example();
    for (int i = 0; i < N_CHAINS; i++) {
        test_chain(i, made);
        strided += test_strides(i);
    }
    for (int k = 0; k < N_KINDS; k++)
        check(made[k] > N_CHAINS / 10, "an operator is hardly tested", k);
    check(strided > N_CHAINS / 2 && strided < N_CHAINS, "strides are hardly tested", strided);
    printf("test_reading: %d checks, %d failed\n", n_checks, n_failed);
    return n_failed != 0;
}
