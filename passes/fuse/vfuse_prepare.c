/* What the graph looks like before it is cut into kernels, at every level of optimisation, as it
 * decides bits.
 *
 *   - A reduction along some axes keeps them, and a reshape drops them: so that a kernel over
 *     rows can store it.
 *   - A reduction over all of a value that lies in memory in an order of its own goes along that
 *     order: a permute before it, so
 *     that its last axis is the contiguous one.
 *   - An output is stored in the shape that it is computed in.
 *   - A state that becomes another state's old value is a value of its own. */
#include <string.h>

#include "passes/fuse/vfuse.h"

static Node *append_unary(Graph *g, Node *x, OpCode op, const char *suffix)
{
    Node n = *x;
    n.op = op;
    n.name = arena_printf(g->module->arena, "%s.%s", x->name, suffix);
    n.n_in = 1;
    n.in = arena_array(g->module->arena, 1, sizeof *n.in);
    n.in[0] = x;
    n.order = (IntList){0};
    attrs_default(op_info(op)->attrs, &n.attrs);
    return graph_append(g, &n);
}

static void keep_axes(Graph *g, Node *n)
{
    Node kept = *n;
    kept.order = (IntList){0};
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

/* So that it can wait in a buffer where two states swap. */
static bool detach_states(Graph *g)
{
    bool changed = false;
    for (int i = 0; i < g->n_outputs; i++) {
        const Node *v = g->outputs[i].value;
        if (g->outputs[i].kind != OUT_STATE || !node_is_leaf(v) ||
            op_info(v->op)->data != LEAF_STATE ||
            !strcmp(v->attrs.leaf.name, g->outputs[i].name))
            continue;
        Node *same = append_unary(g, g->outputs[i].value, OP_CAST, "value");
        same->attrs.cast.to = v->type.dtype;
        g->outputs[i].value = same;
        changed = true;
    }
    return changed;
}

/* The order in which all values of a node's shape that it is elementwise computed from lie in
 * memory. */
typedef struct CommonOrder {
    enum {
        ORDER_NONE, /* none seen */
        ORDER_ONE,
        ORDER_MANY /* they differ, or one cannot be told */
    } kind;
    IntList order; /* ORDER_ONE */
} CommonOrder;

static CommonOrder joined_order(const CommonOrder *a, const CommonOrder *b)
{
    if (a->kind == ORDER_NONE || b->kind == ORDER_MANY)
        return *b;
    if (b->kind == ORDER_ONE && a->kind == ORDER_ONE &&
        memcmp(a->order.v, b->order.v, (size_t)a->order.n * sizeof *a->order.v))
        return (CommonOrder){.kind = ORDER_MANY};
    return *a;
}

/* order: of the nodes before n. */
static CommonOrder common_order(const Node *n, const Module *m, const CommonOrder *order)
{
    CommonOrder found = {.kind = ORDER_NONE};
    IntList own = {0};
    if (node_is_splat(n))
        return found;
    if (node_kind(n) == KIND_EXPR) {
        for (int i = 0; i < n->n_in; i++)
            if (shape_equal(&n->in[i]->type.shape, &n->type.shape))
                found = joined_order(&found, &order[n->in[i]->id]);
        return found;
    }
    if (node_is_layout(n))
        own = n->attrs.perm.dims;
    else if (node_is_leaf(n) && op_info(n->op)->data == LEAF_STATE)
        own = module_state(m, n->attrs.leaf.name)->layout;
    return (CommonOrder){.kind = own.n ? ORDER_ONE : ORDER_MANY, .order = own};
}

static CommonOrder *common_orders(const Graph *g, Arena *scratch)
{
    CommonOrder *order = arena_array(scratch, (size_t)g->n_nodes + 1, sizeof *order);
    graph_foreach (g, n)
        order[n->id] = common_order(n, g->module, order);
    return order;
}

static bool in_order(const IntList *order)
{
    for (int i = 0; i < order->n; i++)
        if (order->v[i] != i)
            return false;
    return true;
}

/* Not argmax: it names an axis. */
static bool reduces_all(const Node *n)
{
    return node_kind(n) == KIND_REDUCE && op_info(n->op)->data != RED_ARGMAX &&
           n->type.shape.rank == 0 && n->in[0]->type.shape.rank > 1;
}

static bool reduce_in_order(Graph *g, Node *n, const CommonOrder *orders)
{
    if (!reduces_all(n) || orders[n->in[0]->id].kind != ORDER_ONE)
        return false;
    const IntList order = orders[n->in[0]->id].order;
    if (in_order(&order))
        return false;
    Node *p = append_unary(g, n->in[0], OP_PERMUTE, "stored");
    p->attrs.perm.dims = order;
    for (int i = 0; i < order.n; i++) {
        p->type.shape.dim[i] = n->in[0]->type.shape.dim[order.v[i]];
        p->type.shape.batch[i] = n->in[0]->type.shape.batch[order.v[i]];
    }
    n->in[0] = p;
    return true;
}

/* Is the value computed, and by itself stored as it is counted through? */
static bool row_major(const Module *m, const Node *n)
{
    const OpKind kind = node_kind(n);
    int64_t own[MAX_RANK] = {0}, plain[MAX_RANK] = {0};
    natural_strides(m, n, own);
    shape_strides(&n->type.shape, plain);
    return kind != KIND_LEAF && kind != KIND_LOOP && !node_is_layout(n) &&
           !memcmp(own, plain, (size_t)n->type.shape.rank * sizeof *own);
}

/* The last reshapes before an output change nothing in memory, so that the kernel that computes
 * the value can write it, over axes that its reductions have. */
static void store_unshaped(Graph *g)
{
    for (int i = 0; i < g->n_outputs; i++) {
        Output *o = &g->outputs[i];
        Node *base = o->value;
        while (base->op == OP_RESHAPE)
            base = base->in[0];
        if (o->kind != OUT_TENSOR || base == o->value || !row_major(g->module, base))
            continue;
        o->seen = &o->value->type;
        o->value = base;
    }
}

void vfuse_prepare(Graph *g)
{
    store_unshaped(g);
    graph_drop_dead(g);
    Arena *scratch = arena_new();
    bool changed = detach_states(g);
    const CommonOrder *orders = common_orders(g, scratch);
    for (int i = 0, n = g->n_nodes; i < n; i++) {
        Node *r = g->nodes[i];
        changed |= reduce_in_order(g, r, orders);
        if (node_kind(r) == KIND_REDUCE && !r->attrs.axes.keepdim && r->type.shape.rank > 0) {
            keep_axes(g, r);
            changed = true;
        }
    }
    arena_free(scratch);
    if (changed)
        graph_sort(g);
}
