/* What the target's kernels want of contractions; the convention is in ir/contract.h.
 *
 * For the CPU, after each einsum is normalised (passes/lower_einsum.c):
 *   1. Parameters get a stored layout: the first contraction that reads one as its vector operand (training
 *      before evaluation, forward before backward) has it contiguous along its vector letter.  The optimizer's
 *      states of a parameter are stored alike, so that updates stay contiguous.
 *   2. A contraction that ends in a state of such a layout, through elementwise operators, stores its result in
 *      that order: a LAYOUT node after it.
 *   3. Any other vector operand that is not contiguous is copied: a LAYOUT node before it.
 *   4. chunk depends on the summed extents only, never on B.
 *
 * A result whose last axis is in both operands is stored with its largest axis of one operand innermost. */
#include "passes/passes.h"

#include <string.h>

#include "ir/contract.h"
#include "ir/loop.h"
#include "passes/rewrite.h"

enum {
    LONG_CHAIN = 512,
    CHUNK = 256
};

static bool is_einsum(const Node *n)
{
    return op_info(n->op)->kind == KIND_CONTRACT;
}

static Node *normalise_step(Builder *b, Node *n, void *context)
{
    if (node_is_loop(n))
        rewrite_graph(n->body, normalise_step, context);
    return is_einsum(n) ? normalise_einsum(b, n) : n;
}

/* The axes in order, but `last` innermost. */
static IntList order_ending_in(int rank, int last)
{
    IntList order = {.n = rank};
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (i != last)
            order.v[n++] = i;
    order.v[n] = last;
    return order;
}

static bool is_row_major(const IntList *order)
{
    for (int i = 0; i < order->n; i++)
        if (order->v[i] != i)
            return false;
    return true;
}

/* Whether the result's axis is in one operand only; its extent in *extent. */
static bool is_exclusive(const Node *einsum, int axis, int64_t *extent)
{
    Contraction c;
    const IntList order = order_ending_in(einsum->type.shape.rank, axis);
    *extent = einsum->type.shape.dim[axis];
    return *extent > 1 && contraction_of(einsum, &order, &c);
}

/* Storage order of an einsum's result: as wished, or row-major, where its innermost axis can be the vector. */
static IntList result_order(const Node *einsum, const IntList *wish)
{
    const int rank = einsum->type.shape.rank;
    int64_t extent, best = 0;
    if (wish && wish->n && is_exclusive(einsum, (int)wish->v[rank - 1], &extent))
        return *wish;
    IntList order = order_ending_in(rank, rank - 1);
    if (rank == 0 || is_exclusive(einsum, rank - 1, &extent))
        return order;
    for (int i = rank - 1; i >= 0; i--)
        if (is_exclusive(einsum, i, &extent) && extent > best) {
            best = extent;
            order = order_ending_in(rank, i);
        }
    return order;
}

/* --- stored layouts of parameters ------------------------------------------------------------------------ */

static bool may_have_layout(const State *s)
{
    return (s->role == ROLE_PARAM || s->role == ROLE_BUFFER) && s->type.shape.rank >= 2;
}

static void settle_layout(const Graph *g, const Node *einsum, bool *settled)
{
    Contraction c;
    const IntList order = result_order(einsum, NULL);
    if (!contraction_of(einsum, &order, &c))
        return;
    const Node *v = loop_origin(&g, einsum->in[c.vector_operand]);
    if (v->op != OP_STATE)
        return;
    State *s = module_state(g->module, v->attrs.leaf.name);
    if (!s || !may_have_layout(s) || settled[s - g->module->states])
        return;
    settled[s - g->module->states] = true;
    const IntList wanted =
        order_ending_in(s->type.shape.rank, c.letter[c.n_out - 1].in[c.vector_operand]);
    if (!is_row_major(&wanted))
        s->layout = wanted;
}

/* The parameter whose update an optimizer's state belongs to: "optimizer.<...>.<param>", the longest name. */
static const State *parameter_of(const Module *m, const State *optim)
{
    const State *best = NULL;
    const size_t len = strlen(optim->name);
    for (int i = 0; i < m->n_states; i++) {
        const State *p = &m->states[i];
        const size_t n = strlen(p->name);
        if (p->role == ROLE_PARAM && n < len && optim->name[len - n - 1] == '.' &&
            !strcmp(optim->name + len - n, p->name) && (!best || n > strlen(best->name)))
            best = p;
    }
    return best;
}

static void settle_graph(const Graph *g, bool *settled)
{
    graph_foreach (g, n) {
        if (is_einsum(n))
            settle_layout(g, n, settled);
        if (node_is_loop(n))
            settle_graph(n->body, settled);
    }
}

static void choose_state_layouts(Module *m, Arena *scratch)
{
    static const char *const priority[] = {"train", "predict", "eval"};
    bool *settled = arena_array(scratch, (size_t)m->n_states, sizeof *settled);
    for (size_t i = 0; i < sizeof priority / sizeof *priority; i++) {
        const Graph *g = module_graph(m, priority[i]);
        if (g)
            settle_graph(g, settled);
    }
    for (int i = 0; i < m->n_states; i++) {
        State *s = &m->states[i];
        const State *p = s->role == ROLE_OPTIM ? parameter_of(m, s) : NULL;
        if (p && shape_equal(&p->type.shape, &s->type.shape))
            s->layout = p->layout;
    }
}

/* --- results and operands -------------------------------------------------------------------------------- */

typedef struct Lowering {
    bool layouts;         /* CPU */
    const IntList **wish; /* by position in the graph: the order its readers would like */
    int position;
    Arena *scratch;
    Builder *outside; /* of the graph round this loop's body, or NULL */
    Node *loop;
} Lowering;

/* Elementwise on values of this shape: wishes the state's layout of every contraction that ends in it. */
static void wish_upwards(const Node *n, const Shape *shape, const IntList *layout,
                         const IntList **wish, int *stamp, int mark)
{
    if (stamp[n->id] == mark || !shape_equal(&n->type.shape, shape))
        return;
    stamp[n->id] = mark;
    if (is_einsum(n) && !wish[n->id])
        wish[n->id] = layout;
    if (op_info(n->op)->kind == KIND_EXPR)
        for (int i = 0; i < n->n_in; i++)
            wish_upwards(n->in[i], shape, layout, wish, stamp, mark);
}

static const IntList **collect_wishes(const Graph *g, Arena *scratch)
{
    const IntList **wish = arena_array(scratch, (size_t)g->n_nodes, sizeof *wish);
    int *stamp = arena_array(scratch, (size_t)g->n_nodes, sizeof *stamp);
    for (int i = 0; i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        const State *s = o->kind == OUT_STATE ? module_state(g->module, o->name) : NULL;
        if (s && s->layout.n)
            wish_upwards(o->value, &s->type.shape, &s->layout, wish, stamp, i + 1);
    }
    return wish;
}

static Node *build_layout(Builder *b, Node *x, const IntList *order)
{
    Attrs a;
    attrs_default(op_info(OP_LAYOUT)->attrs, &a);
    a.perm.dims = *order;
    b->hint = arena_printf(b->graph->module->arena, "%s.layout", x->name);
    return build(b, OP_LAYOUT, &a, 1, &x);
}

static int64_t chunk_of(const Contraction *c)
{
    const int64_t last = c->letter[c->n_out + c->n_sum - 1].extent;
    return c->k > LONG_CHAIN && last > CHUNK ? CHUNK : 0;
}

/* x as a copy in that order; of what is the same in each round of a loop one is enough. */
static Node *copied(Builder *b, Node *x, const IntList *order, const Lowering *l)
{
    if (!l->loop || !node_is_arg(x) ||
        loop_role(l->loop, x->attrs.slot.index) != LOOP_INVARIANT)
        return build_layout(b, x, order);
    return loop_add_invariant(
        l->loop, build_layout(l->outside, l->loop->in[x->attrs.slot.index], order));
}

static Node *lower_einsum(Builder *b, Node *n, const Lowering *l)
{
    Contraction c;
    const IntList order = result_order(n, l->wish[l->position]);
    if (!l->layouts || !contraction_of(n, &order, &c))
        return n;
    n->attrs.einsum.chunk = chunk_of(&c);
    Node *v = n->in[c.vector_operand];
    const int axis = c.letter[c.n_out - 1].in[c.vector_operand];
    if (stored_innermost(b->graph, v) != axis) {
        const IntList stored = order_ending_in(v->type.shape.rank, axis);
        n->in[c.vector_operand] = copied(b, v, &stored, l);
    }
    if (is_row_major(&order))
        return n;
    rewrite_keep(b, n);
    return build_layout(b, n, &order);
}

static Node *lower_step(Builder *b, Node *n, void *context);

static void lower_body(Builder *b, Node *loop, const Lowering *l)
{
    Lowering in = {.layouts = l->layouts, .scratch = l->scratch, .outside = b, .loop = loop};
    in.wish = collect_wishes(loop->body, l->scratch);
    rewrite_graph(loop->body, lower_step, &in);
}

static Node *lower_step(Builder *b, Node *n, void *context)
{
    Lowering *l = context;
    if (node_is_loop(n))
        lower_body(b, n, l);
    Node *v = is_einsum(n) ? lower_einsum(b, n, l) : n;
    l->position++;
    return v;
}

void lower(Module *m, const Target *t)
{
    const bool layouts = strcmp(t->name, "cuda") != 0;
    Arena *scratch = arena_new();
    for (int i = 0; i < m->n_graphs; i++) {
        rewrite_graph(m->graphs[i], normalise_step, NULL);
        simplify_graph(m->graphs[i]);
    }
    if (layouts)
        choose_state_layouts(m, scratch);
    for (int i = 0; i < m->n_graphs; i++) {
        Lowering l = {.layouts = layouts, .scratch = scratch};
        l.wish = collect_wishes(m->graphs[i], scratch);
        rewrite_graph(m->graphs[i], lower_step, &l);
        simplify_graph(m->graphs[i]);
    }
    arena_free(scratch);
    m->stage = "lowered";
}
