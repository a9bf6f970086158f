/* Copies a value from the graph of one entry point into that of another.
 *
 * First values and metrics are written in the model's body, which is run in one graph, and are
 * needed in graphs of their own: an init graph, or the end of an epoch. */
#include "frontend/elaborate/elab.h"

typedef struct GraphCopy {
    Elab *e;
    const Graph *from;
    /* By id in `from`: the value depends on the node; its copy, or NULL. */
    bool *needed;
    Node **done;
    SrcRange at;
    const char *what;
} GraphCopy;

static Node *copy_one(GraphCopy *c, const Node *n)
{
    Elab *e = c->e;
    if (n->op == OP_INPUT || n->op == OP_STATE) {
        diag_error(e->diag, c->at, "%s may not depend on the %s '%s'", c->what,
                   n->op == OP_INPUT ? "input" : "state", n->attrs.leaf.name);
        return NULL;
    }
    if (n->op == OP_HYPER || n->op == OP_SCALAR)
        return build_same_leaf(&e->b, n);
    Node copy = *n;
    copy.in = arena_array(e->arena, (size_t)n->n_in, sizeof(Node *));
    for (int i = 0; i < n->n_in; i++)
        copy.in[i] = c->done[n->in[i]->id];
    return graph_append(e->b.graph, &copy);
}

Node *graph_copy(Elab *e, const Graph *from, const Node *n,
                 Node *(*stop)(void *ctx, const Node *n), void *ctx, SrcRange at,
                 const char *what)
{
    GraphCopy c = {.e = e, .from = from, .at = at, .what = what};
    const size_t count = (size_t)n->id + 1;
    c.needed = arena_array(e->arena, count, sizeof *c.needed);
    c.done = arena_array(e->arena, count, sizeof(Node *));
    c.needed[n->id] = true;
    /* Operands stand before their users: back to see what is needed, forth to copy it. */
    for (int i = n->id; i >= 0; i--) {
        const Node *x = from->nodes[i];
        if (!c.needed[i])
            continue;
        c.done[i] = stop != NULL ? stop(ctx, x) : NULL;
        for (int k = 0; c.done[i] == NULL && k < x->n_in; k++)
            c.needed[x->in[k]->id] = true;
    }
    for (int i = 0; i <= n->id; i++)
        if (c.needed[i] && c.done[i] == NULL &&
            (c.done[i] = copy_one(&c, from->nodes[i])) == NULL)
            return NULL;
    return c.done[n->id];
}
