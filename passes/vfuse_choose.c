/* Which values are stored.
 *
 * One walk in definition order keeps for each value the cost of computing one element again from what is in
 * memory.  Stored are: what leaves the graph, reductions, operands of contractions and scatters that are not in
 * memory as they are, values stored in an order of their own (LAYOUT), and what is read more than once and dear.
 *
 * A contraction is not stored itself: as long as its only reader is elementwise, the chain goes on (`anchor`), and the
 * first value that is read twice, or by something else, is what its kernel stores. */
#include "passes/vfuse.h"

#include <string.h>

/* In units of scalars.def.  LIMIT: read twice and dearer than that: stored.  SPREAD: not computed again for
 * each element of an outer axis.  SCALAR_LIMIT: of a rank 0 value that tensors read, computed once per kernel. */
enum { COST_LIMIT = 8, COST_SPREAD = 4, COST_SCALAR_LIMIT = 12 };
enum { COST_RANDOM = 40, COST_GATHER = 4, COST_INDEX = 2, COST_REDUCE = 8 };
static const double cost_never = 1e9; /* of a contraction: computed once, in its kernel */

static void keep_axes(Graph *g, Node *n)
{
    Node kept = *n;
    kept.name = arena_printf(g->module->arena, "%s.kept", n->name);
    kept.attrs.axes.keepdim = true;
    kept.type.shape = n->in[0]->type.shape;
    for (int i = 0; i < n->attrs.axes.dims.n; i++) {
        kept.type.shape.dim[n->attrs.axes.dims.v[i]] = 1;
        kept.type.shape.batch[n->attrs.axes.dims.v[i]] = 0;
    }
    kept.in = arena_array(g->module->arena, 1, sizeof *kept.in);
    kept.in[0] = n->in[0];
    Node *r = graph_append(g, &kept);
    n->op = OP_RESHAPE;
    attrs_default(op_info(n->op)->attrs, &n->attrs);
    n->attrs.dims.shape = ints_of(n->type.shape.rank, n->type.shape.dim);
    n->in[0] = r;
}

/* A state that becomes another state's old value: a value of its own, which can be held in a buffer where the two
 * swap. */
static bool detach_states(Graph *g)
{
    bool changed = false;
    for (int i = 0; i < g->n_outputs; i++) {
        const Node *v = g->outputs[i].value;
        if (g->outputs[i].kind != OUT_STATE || !node_is_leaf(v) || op_info(v->op)->data != LEAF_STATE ||
            !strcmp(v->attrs.leaf.name, g->outputs[i].name))
            continue;
        Node same = *v;
        same.op = OP_CAST;
        same.name = arena_printf(g->module->arena, "%s.value", v->name);
        same.n_in = 1;
        same.in = arena_array(g->module->arena, 1, sizeof *same.in);
        same.in[0] = g->outputs[i].value;
        attrs_default(op_info(OP_CAST)->attrs, &same.attrs);
        same.attrs.cast.to = v->type.dtype;
        g->outputs[i].value = graph_append(g, &same);
        changed = true;
    }
    return changed;
}

void vfuse_prepare(Graph *g)
{
    graph_drop_dead(g);
    bool changed = detach_states(g);
    for (int i = 0, n = g->n_nodes; i < n; i++) {
        Node *r = g->nodes[i];
        if (node_kind(r) == KIND_REDUCE && !r->attrs.axes.keepdim && r->type.shape.rank > 0) {
            keep_axes(g, r);
            changed = true;
        }
    }
    if (changed)
        graph_sort(g);
}

static void count_users(Fuse *f)
{
    f->users = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->users);
    graph_foreach (f->graph, n)
        for (int i = 0; i < n->n_in; i++) {
            bool again = false;
            for (int k = 0; k < i; k++)
                again |= n->in[k] == n->in[i];
            f->users[n->in[i]->id] += !again;
        }
    for (int i = 0; i < f->graph->n_outputs; i++) {
        const Output *o = &f->graph->outputs[i];
        f->users[o->value->id]++;
        if (o->value2)
            f->users[o->value2->id]++;
    }
}

static bool in_memory(const Fuse *f, const Node *n)
{
    return f->stored[n->id] || leaf_in_memory(n);
}

/* Stores the value that a chain of views shows. */
static void store_base(Fuse *f, Node *n)
{
    while (node_kind(n) == KIND_VIEW && !in_memory(f, n))
        n = n->in[0];
    if (leaf_in_memory(n))
        return;
    f->stored[n->id] = true;
}

static double read_cost(const Fuse *f, const Node *n)
{
    return in_memory(f, n) ? 0 : f->cost[n->id];
}

/* Ends the chain of a contraction here if o is inside one. */
static void end_chain(Fuse *f, Node *o)
{
    if (f->anchor[o->id] && !f->stored[o->id])
        store_base(f, o);
}

/* Strides of o in memory through its views; stores what keeps it from being there. */
static void make_direct(Fuse *f, Node *o, int64_t *stride)
{
    if (in_memory(f, o)) {
        natural_strides(f->graph->module, o, stride);
        return;
    }
    if (node_kind(o) == KIND_VIEW) {
        int64_t below[MAX_RANK] = {0};
        make_direct(f, o->in[0], below);
        if (view_strides(o, below, stride))
            return;
    }
    f->stored[o->id] = true;
    natural_strides(f->graph->module, o, stride);
}

static void choose_direct(Fuse *f, Node *n)
{
    int64_t stride[MAX_RANK] = {0};
    for (int i = 0; i < n->n_in; i++) {
        end_chain(f, n->in[i]);
        make_direct(f, n->in[i], stride);
    }
    f->cost[n->id] = cost_never;
}

/* May the chain of a contraction that o ends go on in its reader n? */
static bool chain_goes_on(const Fuse *f, const Node *n, const Node *o)
{
    const Node *a = f->anchor[o->id];
    return f->users[o->id] == 1 && shape_equal(&n->type.shape, &o->type.shape) &&
           type_per_model(&n->type) == type_per_model(&a->type) &&
           (node_kind(n) == KIND_EXPR || node_is_layout(n));
}

static Node *open_chain(const Fuse *f, Node *o)
{
    return f->stored[o->id] ? NULL : f->anchor[o->id];
}

static void choose_chain(Fuse *f, Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        Node *o = n->in[i], *a = open_chain(f, o);
        if (!a)
            continue;
        Node *mine = f->anchor[n->id];
        if (!chain_goes_on(f, n, o)) {
            end_chain(f, o);
        } else if (!mine || mine == a || mine->id < a->id) {
            for (int k = 0; k < i; k++)
                if (mine && mine != a && open_chain(f, n->in[k]) == mine)
                    end_chain(f, n->in[k]);
            f->anchor[n->id] = a;
        } else {
            end_chain(f, o);
        }
    }
}

/* o, aligned to n's right, lacks an axis of n that lies outside one which it has: then reading it inline computes it
 * again for each element of that axis. */
static bool spreads(const Node *n, const Node *o)
{
    const Shape *big = &n->type.shape, *s = &o->type.shape;
    bool lacks = false;
    for (int i = 0; i < big->rank; i++) {
        const int k = i + s->rank - big->rank;
        const int64_t own = k < 0 ? 1 : s->dim[k];
        if (own > 1 && lacks)
            return true;
        lacks |= own == 1 && big->dim[i] > 1;
    }
    return false;
}

/* Cost of one element of o for one element of n, which it broadcasts to; stores o if that is too dear. */
static double broadcast_cost(Fuse *f, const Node *n, Node *o)
{
    const double cost = read_cost(f, o);
    if (shape_equal(&n->type.shape, &o->type.shape))
        return cost;
    const bool scalar = shape_count(&o->type.shape) == 1 && n->type.shape.rank > 0;
    if ((scalar && cost >= COST_SCALAR_LIMIT) || (cost >= COST_SPREAD && spreads(n, o))) {
        store_base(f, o);
        return 0;
    }
    const double n_o = (double)shape_count(&o->type.shape), n_n = (double)shape_count(&n->type.shape);
    return cost * (n_n > 0 ? n_o / n_n : 1);
}

static double gather_cost(Fuse *f, Node *n)
{
    Node *x = n->in[0];
    const double reads = (double)shape_count(&n->type.shape), all = (double)shape_count(&x->type.shape);
    if (read_cost(f, x) * reads > (read_cost(f, x) + 2) * all)
        store_base(f, x);
    return COST_GATHER + read_cost(f, x) + read_cost(f, n->in[1]);
}

static double view_cost(Fuse *f, Node *n)
{
    Node *o = n->in[0];
    if (read_cost(f, o) > COST_LIMIT && f->users[n->id] > 1)
        store_base(f, o);
    return op_info(n->op)->data == VIEW_EXPAND ? broadcast_cost(f, n, o) : read_cost(f, o);
}

static double expr_cost(Fuse *f, Node *n)
{
    double cost = scalar_cost((ScalarFn)op_info(n->op)->data);
    for (int i = 0; i < n->n_in; i++)
        cost += broadcast_cost(f, n, n->in[i]);
    return cost;
}

static double index_cost(Fuse *f, Node *n)
{
    switch (op_info(n->op)->data) {
    case INDEX_RANDOM:
        return COST_RANDOM;
    case INDEX_GATHER:
        return gather_cost(f, n);
    default:
        return COST_INDEX + (n->n_in ? read_cost(f, n->in[0]) : 0);
    }
}

static double node_cost(Fuse *f, Node *n)
{
    switch (node_kind(n)) {
    case KIND_EXPR:
        return expr_cost(f, n);
    case KIND_VIEW:
        return view_cost(f, n);
    case KIND_INDEX:
        return index_cost(f, n);
    case KIND_REDUCE:
        return COST_REDUCE;
    default:
        return 0;
    }
}

static void choose_node(Fuse *f, Node *n)
{
    const OpKind kind = node_kind(n);
    if (kind == KIND_LEAF)
        return;
    if (kind == KIND_CONTRACT || kind == KIND_SCATTER) {
        choose_direct(f, n);
        f->anchor[n->id] = kind == KIND_CONTRACT ? n : NULL;
        f->stored[n->id] = kind == KIND_SCATTER || f->users[n->id] > 1 || !f->optimize;
        return;
    }
    choose_chain(f, n);
    f->cost[n->id] = node_cost(f, n);
    const bool dear = f->users[n->id] > 1 && kind != KIND_VIEW &&
                      (f->anchor[n->id] || f->cost[n->id] > COST_LIMIT);
    f->stored[n->id] = kind == KIND_REDUCE || node_is_layout(n) || dear || !f->optimize;
}

/* A value that leaves the graph is stored by its own group, unless another kernel only copies it: a leaf, or a value
 * of all models that each model gets a copy of. */
static void choose_output(Fuse *f, Node *n)
{
    if (node_is_leaf(n))
        return;
    if (!type_per_model(&n->type)) {
        if (f->cost[n->id] > COST_LIMIT || f->anchor[n->id])
            f->stored[n->id] = true;
        return;
    }
    f->stored[n->id] = true;
}

void vfuse_choose(Fuse *f)
{
    f->stored = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->stored);
    f->anchor = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->anchor);
    f->cost = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->cost);
    count_users(f);
    graph_foreach (f->graph, n)
        choose_node(f, n);
    for (int i = 0; i < f->graph->n_outputs; i++) {
        const Output *o = &f->graph->outputs[i];
        if (f->output[i])
            choose_output(f, o->value);
        if (f->output_value2[i])
            choose_output(f, o->value2);
    }
}
