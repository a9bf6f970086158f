/* What the target's kernels want of values and contractions; the convention is in ir/contract.h.
 *
 * Each einsum is normalised first (passes/lower/lower_einsum.c).  Then one walk, training before
 * prediction, forward before backward, decides for the CPU:
 *   1. Along which letter a contraction is vectorised (passes/lower/lower_choose.c): its result
 *      is stored with that axis innermost.
 *   2. Parameters get a stored layout: the first reader that wants one contiguous along some axis
 *      has it so.  The optimizer's states of a parameter are stored alike, and so are gradients,
 *      so that updates stay contiguous.
 *   3. Any other vector operand that is not contiguous is copied: a LAYOUT node before it, below
 *      its windows.
 *   4. All other values lie like what they are computed from, and reductions run along memory
 *      (passes/lower/lower_order.c).
 *   5. chunk depends on the summed extents only, never on B.
 *
 * In the body of a loop only contractions have an order of their own: a LAYOUT node after them. */
#include "passes/lower/lower.h"

#include <string.h>

#include "ir/loop.h"

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

/* ---- stored layouts of parameters ---- */

/* By position in module->states.  A layout that is only tried is a LayoutTrial: the module's own
 * are written once, when they are fixed. */
typedef struct Layouts {
    bool *fixed;
    const State **parameter; /* that the state lies like, or NULL */
} Layouts;

/* The parameter that a state lies like; NULL: none, or its shape is another one. */
static const State *parameter_of(const Module *m, const State *s)
{
    const State *p = s->parameter ? module_state(m, s->parameter) : NULL;
    return p && shape_equal(&p->type.shape, &s->type.shape) ? p : NULL;
}

static Layouts layouts_begin(const Module *m, Arena *scratch)
{
    Layouts l = {.fixed = arena_array(scratch, (size_t)m->n_states + 1, sizeof *l.fixed),
                 .parameter =
                     arena_array(scratch, (size_t)m->n_states + 1, sizeof *l.parameter)};
    for (int i = 0; i < m->n_states; i++)
        l.parameter[i] = parameter_of(m, &m->states[i]);
    return l;
}

static void fix_layout(const Module *m, Layouts *l, State *s, const IntList *layout)
{
    s->layout = *layout;
    l->fixed[s - m->states] = true;
    for (int i = 0; i < m->n_states; i++)
        if (l->parameter[i] == s)
            m->states[i].layout = *layout;
}

/* ---- wishes ---- */

/* What a value becomes: through `reader`, or, where that is NULL, directly, the next value of
 * `state`. */
typedef struct Wish {
    State *state;
    const Node *reader;
    const struct Wish *next; /* the reader's */
} Wish;

static bool passes_order_on(const Node *reader, const Node *n)
{
    switch (op_info(reader->op)->kind) {
    case KIND_EXPR:
        return shape_equal(&reader->type.shape, &n->type.shape);
    case KIND_VIEW:
        return reader->op == OP_RESHAPE || reader->op == OP_PERMUTE || reader->op == OP_SLICE;
    case KIND_INDEX:
        return reader->op == OP_PAD;
    case KIND_LEAF:
    case KIND_REDUCE:
    case KIND_CONTRACT:
    case KIND_SCATTER:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return false;
}

static void wish_upwards(const Node *n, const Wish *what, Wish *wish)
{
    if (wish[n->id].state)
        return;
    wish[n->id] = *what;
    const Wish mine = {what->state, n, &wish[n->id]};
    for (int i = 0; i < n->n_in; i++)
        if (passes_order_on(n, n->in[i]))
            wish_upwards(n->in[i], &mine, wish);
}

static const Wish *collect_wishes(const Graph *g, Arena *scratch)
{
    Wish *wish = arena_array(scratch, (size_t)g->n_nodes + 1, sizeof *wish);
    for (int i = 0; i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        State *s = o->kind == OUT_STATE ? module_state(g->module, o->name) : NULL;
        if (s && s->type.shape.rank >= 2)
            wish_upwards(o->value, &(Wish){.state = s}, wish);
    }
    return wish;
}

/* Strides with which a value of that shape lies in the state, seen back through its readers, if
 * the state has this layout. */
static bool wished_strides(const Wish *w, const IntList *layout, const Shape *shape,
                           int64_t *stride)
{
    const Node *r = w->reader;
    if (!r) {
        ordered_strides(shape, layout, stride);
        return true;
    }
    int64_t after[MAX_RANK] = {0};
    if (!wished_strides(w->next, layout, &r->type.shape, after))
        return false;
    if (r->op == OP_RESHAPE)
        return reshape_strides(&r->type.shape, after, shape, stride);
    for (int i = 0; i < shape->rank; i++)
        stride[r->op == OP_PERMUTE ? r->attrs.perm.dims.v[i] : i] = after[i];
    return true;
}

static IntList wished_order(const Wish *w, const IntList *layout, const Shape *shape)
{
    int64_t stride[MAX_RANK] = {0};
    if (!layout->n || !wished_strides(w, layout, shape, stride))
        return (IntList){0};
    return order_of_strides(shape, stride);
}

/* The state's order is free: it takes the one that the result has. */
static void fulfil(const Module *m, Layouts *l, const Wish *w, const Node *result)
{
    State *s = w->state;
    if (!s || s->role != ROLE_PARAM || l->fixed[s - m->states] || result->order.n == 0)
        return;
    for (int k = s->type.shape.rank - 1; k >= 0; k--) {
        const IntList ending = order_ending_in(s->type.shape.rank, k);
        const IntList layout = order_canonical(&s->type.shape, &ending);
        const IntList order = wished_order(w, &layout, &result->type.shape);
        if (order.n && order.v[order.n - 1] == result->order.v[result->order.n - 1]) {
            fix_layout(m, l, s, &layout);
            return;
        }
    }
}

/* ---- the walk ---- */

typedef struct Lowering {
    bool layouts; /* CPU */
    Layouts *states;
    const Wish *wish; /* by position in the graph */
    int position;
    Arena *scratch;
    Builder *outside; /* of the graph round this loop's body, or NULL */
    Node *loop;
} Lowering;

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
    int64_t inner = 1;
    if (c->k <= LONG_CHAIN)
        return 0;
    for (int l = c->n_out + c->n_sum - 1; l >= c->n_out; l--) {
        const int64_t extent = c->letter[l].extent;
        if (inner * extent > CHUNK)
            return inner < CHUNK ? CHUNK / inner * inner : inner;
        inner *= extent;
    }
    return 0;
}

/* x as a copy that is contiguous along `axis`; of what is the same in each round of a loop one is
 * enough, and windows look at the copy of what they are windows of. */
static Node *copied(Builder *b, Node *x, int axis, const Lowering *l)
{
    const int below =
        axis - (x->op == OP_WINDOW ? x->type.shape.rank - x->in[0]->type.shape.rank : axis + 1);
    if (below >= 0 && x->attrs.window.step.v[below] == 1)
        return build_window(b, OP_WINDOW, copied(b, x->in[0], below, l), &x->attrs);
    const IntList order = order_ending_in(x->type.shape.rank, axis);
    if (!l->loop || !node_is_arg(x) ||
        loop_role(l->loop, x->attrs.slot.index) != LOOP_INVARIANT)
        return build_layout(b, x, &order);
    return loop_add_invariant(
        l->loop, build_layout(l->outside, l->loop->in[x->attrs.slot.index], &order));
}

static Node *lower_einsum(Builder *b, Node *n, const Lowering *l)
{
    const Module *m = b->graph->module;
    const Wish *wish = l->wish ? &l->wish[l->position] : NULL;
    const IntList wished = wish && wish->state
                               ? wished_order(wish, &wish->state->layout, &n->type.shape)
                               : (IntList){0};
    Choice x;
    if (!choose_result(b->graph, n, &wished, l->states->fixed, &x))
        return n;
    n->attrs.einsum.chunk = chunk_of(&x.c);
    Node *v = n->in[x.c.vector_operand];
    const int axis = x.c.letter[x.c.n_out - 1].in[x.c.vector_operand];
    State *s = x.state ? x.state : free_state(b->graph, v, l->states->fixed);
    if (s)
        fix_layout(m, l->states, s, x.state ? &x.layout : &s->layout);
    if (stored_innermost(b->graph, v) != axis)
        n->in[x.c.vector_operand] = copied(b, v, axis, l);
    const IntList order = order_canonical(&n->type.shape, &x.order);
    if (!l->loop) {
        n->order = order;
        if (wish)
            fulfil(m, l->states, wish, n);
        return n;
    }
    if (order.n == 0)
        return n;
    rewrite_keep(b, n);
    return build_layout(b, n, &order);
}

/* A parameter that is broadcast over a value lies like it. */
static void fix_broadcast(const Graph *g, const Node *n, Layouts *l)
{
    if (op_info(n->op)->kind != KIND_EXPR || n->order.n == 0)
        return;
    for (int i = 0; i < n->n_in; i++) {
        State *s = free_state(g, n->in[i], l->fixed);
        const int axis =
            (int)n->order.v[n->order.n - 1] - (n->type.shape.rank - n->in[i]->type.shape.rank);
        IntList layout;
        if (s && axis >= 0 && n->in[i]->type.shape.dim[axis] > 1 &&
            !shape_equal(&n->in[i]->type.shape, &n->type.shape) &&
            layout_for(g, n->in[i], s, axis, &layout))
            fix_layout(g->module, l, s, &layout);
    }
}

static Node *lower_step(Builder *b, Node *n, void *context);

static void lower_body(Builder *b, Node *loop, const Lowering *l)
{
    Lowering in = *l;
    in.wish = NULL;
    in.position = 0;
    in.outside = b;
    in.loop = loop;
    rewrite_graph(loop->body, lower_step, &in);
}

static Node *lower_node(Builder *b, Node *n, const Lowering *l)
{
    if (node_is_loop(n))
        lower_body(b, n, l);
    else if (is_einsum(n))
        return l->layouts ? lower_einsum(b, n, l) : n;
    else if (op_info(n->op)->kind == KIND_REDUCE && l->layouts && !l->loop) {
        const IntList order = stored_order(b->graph->module, n->in[0]);
        return reduce_in_order(b, n, &order);
    }
    return n;
}

static Node *lower_step(Builder *b, Node *n, void *context)
{
    Lowering *l = context;
    const int first = b->graph->n_nodes;
    Node *v = is_einsum(n) ? multiply_out(b, n) : n;
    if (v == n)
        v = lower_node(b, n, l);
    if (v == n)
        rewrite_keep(b, n);
    l->position++;
    for (int i = first; i < b->graph->n_nodes && l->layouts && !l->loop; i++) {
        order_inherit(b->graph, b->graph->nodes[i]);
        fix_broadcast(b->graph, b->graph->nodes[i], l->states);
    }
    return v;
}

static void lower_graph(Graph *g, const Lowering *how)
{
    Lowering l = *how;
    l.wish = collect_wishes(g, l.scratch);
    rewrite_graph(g, lower_step, &l);
    simplify_graph(g);
}

void lower(Module *m, const Target *t)
{
    /* Who comes first has the layouts as it likes them: what runs most, and whatever the order of
     * the module's graphs is. */
    static const EntryKind order[N_ENTRIES] = {ENTRY_TRAIN, ENTRY_PREDICT, ENTRY_EVAL,
                                               ENTRY_INIT, ENTRY_EVAL_END};
    Arena *scratch = arena_new();
    for (int i = 0; i < m->n_graphs; i++) {
        rewrite_graph(m->graphs[i], normalise_step, NULL);
        simplify_graph(m->graphs[i]);
    }
    Layouts states = layouts_begin(m, scratch);
    const Lowering l = {.layouts = !t->cuda, .states = &states, .scratch = scratch};
    for (int k = 0; k < N_ENTRIES; k++) {
        Graph *g = module_graph(m, order[k]);
        if (g)
            lower_graph(g, &l);
    }
    arena_free(scratch);
    m->stage = MODULE_LOWERED;
}
