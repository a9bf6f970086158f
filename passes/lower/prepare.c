/* The last edits of the graphs, after all orders are known and before plan_build cuts them into
 * kernels without changing anything more.  They are the same at every level of optimisation, as
 * they decide bits:
 *
 *   - A reduction along some axes keeps them, and a reshape drops them, so that a kernel over rows
 *     can store it: %s = sum %x dims=[1] : f32[4] becomes %s.kept : f32[4, 1] and a reshape %s.
 *   - A reduction over all of a value that lies in memory in an order of its own goes along that
 *     order, so that its last axis is the contiguous one.  Lower has done so where the order was
 *     known when it came by; a state's layout may have been fixed later.
 *   - An output is stored in the shape that it is computed in; Output.host_type is what it was.
 *   - A state that becomes another state's next value is a value of its own, so that it can wait
 *     in a buffer where two states swap. */
#include <string.h>

#include "ir/loop.h"
#include "ir/reading.h"
#include "ir/reduction.h"
#include "ir/shape.h"
#include "passes/lower/lower.h"

static bool is_state(const Node *n)
{
    return op_info(n->op)->kind == KIND_LEAF && op_info(n->op)->data == LEAF_STATE;
}

static Node *copied(Graph *g, Node *x)
{
    Builder b = {
        .graph = g, .loc = x->loc, .hint = arena_printf(g->module->arena, "%s.value", x->name)};
    Attrs attrs;
    attrs_default(op_info(OP_CAST)->attrs, &attrs);
    attrs.cast.to = x->type.dtype;
    Node *copy = build(&b, OP_CAST, &attrs, 1, &x);
    copy->form = x->form;
    return copy;
}

static void detach_states(Graph *g)
{
    for (int i = 0; i < g->n_outputs; i++) {
        Output *o = &g->outputs[i];
        if (o->kind == OUT_STATE && is_state(o->value) &&
            strcmp(o->value->attrs.leaf.name, o->name) != 0)
            o->value = copied(g, o->value);
    }
}

/* ---- reductions along memory ---- */

/* The order in which all values of a node's shape that it is elementwise computed from lie in
 * memory. */
typedef struct CommonOrder {
    enum {
        ORDER_NONE, /* there are none */
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

static bool is_uniform(const Node *n)
{
    return op_info(n->op)->kind == KIND_LEAF && op_info(n->op)->data == LEAF_CONST &&
           n->attrs.value.data.n == 1;
}

/* order: of the nodes before n. */
static CommonOrder common_order(const Node *n, const Module *m, const CommonOrder *order)
{
    CommonOrder found = {.kind = ORDER_NONE};
    IntList own = {0};
    if (is_uniform(n))
        return found;
    if (op_info(n->op)->kind == KIND_EXPR) {
        for (int i = 0; i < n->n_in; i++)
            if (shape_equal(&n->in[i]->type.shape, &n->type.shape))
                found = joined_order(&found, &order[n->in[i]->id]);
        return found;
    }
    if (node_is_layout(n) || is_state(n))
        own = stored_order(m, n);
    return (CommonOrder){.kind = own.n ? ORDER_ONE : ORDER_MANY, .order = own};
}

/* Not a position: that names an axis. */
static bool reduces_all(const Node *n)
{
    return op_info(n->op)->kind == KIND_REDUCE && !reduction_info(n)->position &&
           n->type.shape.rank == 0 && n->in[0]->type.shape.rank > 1;
}

/* By node: the order along which a reduction over everything goes; n == 0: as it is. */
static IntList *reduction_orders(const Graph *g, Arena *scratch)
{
    CommonOrder *common = arena_array(scratch, (size_t)g->n_nodes + 1, sizeof *common);
    IntList *along = arena_array(scratch, (size_t)g->n_nodes + 1, sizeof *along);
    graph_foreach (g, n) {
        common[n->id] = common_order(n, g->module, common);
        if (reduces_all(n) && common[n->in[0]->id].kind == ORDER_ONE)
            along[n->id] = common[n->in[0]->id].order;
    }
    return along;
}

/* ---- outputs ---- */

/* Is the value computed, and by itself stored as it is counted through? */
static bool is_row_major(const Module *m, const Node *n)
{
    const OpKind kind = op_info(n->op)->kind;
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
        if (o->kind != OUT_TENSOR || o->host_type || base == o->value ||
            !is_row_major(g->module, base))
            continue;
        o->host_type = &o->value->type;
        o->value = base;
    }
}

/* ---- the walk ---- */

typedef struct Preparing {
    const IntList *along; /* by position in the graph */
    int position;
    Arena *scratch;
} Preparing;

static Node *keep_axes(Builder *b, const Node *n)
{
    const IntList *dims = &n->attrs.axes.dims;
    b->hint = arena_printf(b->graph->module->arena, "%s.kept", n->name);
    Node *kept = build_reduce(b, n->op, n->in[0], (int)dims->n, dims->v, true);
    b->hint = n->name;
    Node *dropped = build_reshape(b, kept, &n->type.shape);
    dropped->type = n->type; /* with its batch marks */
    return dropped;
}

static void prepare_graph(Graph *g, Arena *scratch);

static Node *prepare_step(Builder *b, Node *n, void *context)
{
    Preparing *p = context;
    const IntList *along = &p->along[p->position++];
    if (node_is_loop(n))
        prepare_graph(n->body, p->scratch);
    if (op_info(n->op)->kind != KIND_REDUCE)
        return n;
    if (along->n)
        return reduce_in_order(b, n, along);
    return n->attrs.axes.keepdim || n->type.shape.rank == 0 ? n : keep_axes(b, n);
}

static void prepare_graph(Graph *g, Arena *scratch)
{
    store_unshaped(g);
    graph_drop_dead(g);
    Preparing p = {.along = reduction_orders(g, scratch), .scratch = scratch};
    rewrite_graph(g, prepare_step, &p);
    detach_states(g);
}

void prepare(Module *m)
{
    Arena *scratch = arena_new();
    for (int i = 0; i < m->n_graphs; i++)
        prepare_graph(m->graphs[i], scratch);
    arena_free(scratch);
    m->stage = MODULE_PREPARED;
}
