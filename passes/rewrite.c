/* The walk of passes/rewrite.h.  node->aux of an old node is what stands for it. */
#include "passes/rewrite.h"

static void push(Graph *g, Node *n)
{
    if (g->n_nodes == g->cap_nodes)
        g->nodes = arena_grow(g->module->arena, g->nodes, &g->cap_nodes, sizeof *g->nodes);
    n->id = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
}

static bool is_listed(const Graph *g, const Node *n)
{
    return n->id >= 0 && n->id < g->n_nodes && g->nodes[n->id] == n;
}

void rewrite_keep(Builder *b, Node *n)
{
    if (!is_listed(b->graph, n))
        push(b->graph, n);
}

static Node *stand_in(Node *n)
{
    return n && n->aux ? n->aux : n;
}

static void replace_operands(Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        n->in[i] = stand_in(n->in[i]);
}

static void replace_outputs(Graph *g)
{
    for (int i = 0; i < g->n_outputs; i++) {
        g->outputs[i].value = stand_in(g->outputs[i].value);
        g->outputs[i].value2 = stand_in(g->outputs[i].value2);
    }
}

void swap_names(Node *a, Node *b)
{
    const char *name = a->name;
    a->name = b->name;
    b->name = name;
}

/* What the step for n has built, from position `first` on. */
static void take_over(Graph *g, Node *n, Node *now, int first)
{
    if (now != n && !is_listed(g, n) && now->id >= first) {
        swap_names(now, n);
        if (now->order.n == 0 && shape_equal(&now->type.shape, &n->type.shape))
            now->order = n->order;
    }
    if (n->form != FORM_NONE)
        for (int i = first; i < g->n_nodes; i++)
            g->nodes[i]->form = form_of(g->nodes[i]);
}

void rewrite_graph(Graph *g, RewriteStep *step, void *context)
{
    Node **old = g->nodes;
    const int n_old = g->n_nodes;
    g->nodes = NULL;
    g->n_nodes = g->cap_nodes = 0;
    for (int i = 0; i < n_old; i++) {
        Node *n = old[i];
        n->id = -1;
        replace_operands(n);
        Builder b = {.graph = g, .loc = n->loc, .hint = n->name};
        const int first = g->n_nodes;
        Node *now = step(&b, n, context);
        if (now == n)
            rewrite_keep(&b, n);
        take_over(g, n, now, first);
        n->aux = now;
    }
    replace_outputs(g);
    for (int i = 0; i < n_old; i++)
        old[i]->aux = NULL;
    graph_drop_dead(g);
}
