/* Which values are stored.
 *
 * One walk in definition order keeps for each value the cost of computing one element again from
 * what is in memory.  Stored are: what leaves the graph, reductions, operands of contractions and
 * scatters that are not in memory as they are, values stored in an order of their own (LAYOUT),
 * and what is read more than once and dear.
 *
 * A contraction is not stored itself: as long as its only reader is elementwise, the chain goes
 * on (`anchor`), and the first value that is read twice, or by something else, is what its kernel
 * stores. */
#include "ir/loop.h"
#include "passes/fuse/work.h"

#include <string.h>

/* In units of scalars.def. */
enum {
    /* What is read twice and is dearer is stored. */
    COST_LIMIT = 8,
    /* What costs as much is not computed again for each element of an outer axis. */
    COST_SPREAD = 4,
    /* What is of rank 0 and costs as much is stored where tensors read it; cheaper, each kernel
     * computes it once for itself. */
    COST_SCALAR_LIMIT = 12
};
static const double cost_never = 1e9; /* of a contraction: computed once, in its kernel */

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

static bool in_memory(const void *fuse, const Node *n)
{
    const Fuse *f = fuse;
    return f->stored[n->id] || leaf_in_memory(n);
}

/* Stores the value that a chain of views shows. */
static void store_base(Fuse *f, Node *n)
{
    n = read_through_views(NULL, n, in_memory, f, NULL);
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

/* What neither is in memory nor a view that has strides there is stored. */
static bool is_direct(void *fuse, const Node *n, bool must, int64_t *stride)
{
    const Fuse *f = fuse;
    if (!in_memory(f, n) && !must)
        return false;
    f->stored[n->id] |= must;
    natural_strides(f->graph->module, n, stride);
    return true;
}

/* Makes o something that can be read from memory with strides. */
static void make_direct(Fuse *f, const Node *o)
{
    int64_t stride[MAX_RANK] = {0}, offset;
    strides_through_views(o, is_direct, f, stride, &offset);
}

static void choose_direct(Fuse *f, Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        end_chain(f, n->in[i]);
        if (node_kind(n) != KIND_SCATTER || !node_is_splat(n->in[i]))
            make_direct(f, n->in[i]);
    }
    f->cost[n->id] = cost_never;
}

/* May the chain of a contraction that o ends go on in its reader n? */
static bool chain_goes_on(const Fuse *f, const Node *n, const Node *o)
{
    const Node *a = f->anchor[o->id];
    int64_t mine[MAX_RANK] = {0}, its[MAX_RANK] = {0};
    natural_strides(f->graph->module, n, mine);
    natural_strides(f->graph->module, a, its);
    return f->users[o->id] == 1 && (node_is_layout(n) || !memcmp(mine, its, sizeof mine)) &&
           shape_equal(&n->type.shape, &o->type.shape) &&
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

/* o, aligned to n's right, lacks an axis of n that lies outside one which it has: then reading it
 * inline computes it again for each element of that axis. */
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

/* Cost of one element of o for one element of n, which it broadcasts to; stores o if that is too
 * dear. */
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
    const double n_o = (double)shape_count(&o->type.shape),
                 n_n = (double)shape_count(&n->type.shape);
    return cost * (n_n > 0 ? n_o / n_n : 1);
}

static double gather_cost(Fuse *f, Node *n)
{
    Node *x = n->in[0];
    const double reads = (double)shape_count(&n->type.shape),
                 all = (double)shape_count(&x->type.shape);
    if (read_cost(f, x) * reads > (read_cost(f, x) + 2) * all)
        store_base(f, x);
    return node_own_cost(n) + read_cost(f, x) + read_cost(f, n->in[1]);
}

static double view_cost(Fuse *f, Node *n)
{
    Node *o = n->in[0];
    if (read_cost(f, o) > COST_LIMIT && f->users[n->id] > 1 && !node_is_layout(n))
        store_base(f, o);
    if (op_info(n->op)->data == VIEW_WINDOW && read_cost(f, o) > 0) {
        const double again =
            (double)shape_count(&n->type.shape) / (double)shape_count(&o->type.shape) - 1;
        if (again > 0 && read_cost(f, o) * again > COST_LIMIT)
            store_base(f, o);
    }
    return op_info(n->op)->data == VIEW_EXPAND ? broadcast_cost(f, n, o) : read_cost(f, o);
}

static double expr_cost(Fuse *f, Node *n)
{
    double cost = node_own_cost(n);
    for (int i = 0; i < n->n_in; i++)
        cost += broadcast_cost(f, n, n->in[i]);
    return cost;
}

static double index_cost(Fuse *f, Node *n)
{
    switch ((IndexKind)op_info(n->op)->data) {
    case INDEX_IOTA:
    case INDEX_RANDOM:
        break;
    case INDEX_PAD:
    case INDEX_UNWINDOW:
        return node_own_cost(n) + read_cost(f, n->in[0]);
    case INDEX_GATHER:
        return gather_cost(f, n);
    }
    return node_own_cost(n);
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
        return node_own_cost(n);
    case KIND_LEAF:
    case KIND_CONTRACT:
    case KIND_SCATTER:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return 0;
}

static void choose_output(Fuse *f, Node *n);

/* Operands are read where they lie; what is carried at first is stored like what leaves the
 * graph. */
static void choose_loop(Fuse *f, Node *n)
{
    f->cost[n->id] = node_is_result(n) ? 0 : cost_never;
    f->stored[n->id] = node_is_result(n);
    for (int i = 0; node_is_loop(n) && i < n->n_in; i++) {
        Node *o = n->in[i];
        end_chain(f, o);
        if (loop_role(n, i) == LOOP_CARRIED)
            choose_output(f, o);
        else
            make_direct(f, o);
    }
}

/* What stands behind a value that is stored is not computed with it. */
static int depth_of(const Fuse *f, const Node *n)
{
    int below = 0;
    for (int i = 0; i < n->n_in; i++)
        if (!in_memory(f, n->in[i]) && f->depth[n->in[i]->id] > below)
            below = f->depth[n->in[i]->id];
    return below + node_code_depth(n);
}

static void choose_node(Fuse *f, Node *n)
{
    const OpKind kind = node_kind(n);
    f->depth[n->id] = depth_of(f, n);
    if (kind == KIND_LEAF)
        return;
    if (kind == KIND_LOOP) {
        choose_loop(f, n);
        return;
    }
    if (kind == KIND_CONTRACT || kind == KIND_SCATTER) {
        choose_direct(f, n);
        f->anchor[n->id] = kind == KIND_CONTRACT ? n : NULL;
        f->stored[n->id] =
            kind == KIND_SCATTER || f->users[n->id] > 1 || !f->optimize || f->too_often[n->id];
        return;
    }
    /* The order of a contraction's result is part of what lower() decided: at every level. */
    if (node_is_layout(n) && node_kind(n->in[0]) == KIND_CONTRACT &&
        f->users[n->in[0]->id] == 1)
        f->stored[n->in[0]->id] = false;
    choose_chain(f, n);
    f->cost[n->id] = node_cost(f, n);
    const bool dear = f->users[n->id] > 1 && kind != KIND_VIEW &&
                      (f->anchor[n->id] || f->cost[n->id] > COST_LIMIT);
    f->stored[n->id] = kind == KIND_REDUCE || node_is_layout(n) || dear || !f->optimize ||
                       f->too_often[n->id] || f->depth[n->id] > CODE_CHOSEN_DEPTH;
}

/* A value that leaves the graph is stored by its own group, unless another kernel only copies it:
 * a leaf, or a value of all models that each model gets a copy of. */
static void choose_output(Fuse *f, Node *n)
{
    if (node_is_leaf(n))
        return;
    if (!vfuse_per_model(f, type_per_model(&n->type))) {
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
    f->depth = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->depth);
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
