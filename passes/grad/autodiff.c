/* Reverse-mode differentiation over the graph.
 *
 * All grad(loss, x) nodes of one loss share one sweep: a node takes part if it depends on some x
 * and the loss depends on it; those are visited from the loss backwards, each adding to its
 * operands' adjoints by the rule of its row.  Losses are taken in the order of their first grad
 * node, so a gradient may itself be differentiated by a later loss; detach() stops every flow.
 *
 * Adjoints are named <x>.grad after the forward node and stand at its place in the source. */
#include "passes/grad/grad.h"

#include <string.h>

#include "ir/loop.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static GradRule *const rules[] = {
#define OP(NAME, text, in, attrs, shape, grad, kind, data) [OP_##NAME] = grad_##grad,
#include "ir/ops.def"
};

void grad_none(Adjoint *c)
{
    (void)c;
}

void grad_missing(Adjoint *c)
{
    (void)c;
}

bool adjoint_wanted(Adjoint *c, int i)
{
    return adjoint_wanted_by(c, c->in[i]);
}

bool adjoint_wanted_by(Adjoint *c, const Node *x)
{
    if (!c->sweep->depends[x->id])
        return false;
    c->b->hint = arena_printf(c->sweep->graph->module->arena, "%s.grad", x->name);
    c->first_built = c->sweep->graph->n_nodes;
    return true;
}

void adjoint_add(Adjoint *c, int i, Node *v)
{
    adjoint_add_to(c, c->in[i], v);
}

void adjoint_add_to(Adjoint *c, Node *x, Node *v)
{
    Node **sum = &c->sweep->adjoint[x->id];
    v = build_sum_to(c->b, v, &x->type.shape);
    if (!v)
        return;
    /* The plain name belongs to the last of the nodes built for this operand, and to the total. */
    if (v->id > c->first_built)
        swap_names(v, c->sweep->graph->nodes[c->first_built]);
    if (*sum) {
        Node *total = build2(c->b, OP_ADD, *sum, v);
        if ((*sum)->id >= c->sweep->n)
            swap_names(total, *sum);
        v = total;
    }
    *sum = v;
}

Node *adjoint_const(Adjoint *c, double v)
{
    return build_const(c->b, c->y->type.dtype, v);
}

bool sweep_real(const Node *n)
{
    return dtype_class(n->type.dtype) == DTC_REAL || node_is_loop(n);
}

void sweep_mark(Sweep *s, int last)
{
    for (int i = 0; i <= last; i++) {
        const Node *n = s->graph->nodes[i];
        if (!sweep_real(n) || rules[n->op] == grad_none)
            continue;
        for (int k = 0; k < n->n_in; k++)
            s->depends[i] |= s->depends[n->in[k]->id];
    }
}

/* Marks the x of every grad node of this loss and what depends on them up to the loss. */
static void mark_dependent(Sweep *s, const Node *loss)
{
    for (int i = 0; i < s->n; i++) {
        const Node *n = s->graph->nodes[i];
        if (n->op == OP_GRAD && n->in[0] == loss)
            s->depends[n->in[1]->id] = true;
    }
    sweep_mark(s, loss->id);
}

/* Does anything flow from y into an operand? */
static bool flows_on(const Sweep *s, const Node *y)
{
    if (rules[y->op] == grad_none)
        return false;
    for (int k = 0; k < y->n_in; k++)
        if (s->depends[y->in[k]->id])
            return true;
    return false;
}

static bool visit(Sweep *s, Builder *b, Node *y)
{
    if (!flows_on(s, y))
        return true;
    if (rules[y->op] == grad_missing) {
        diag_error(s->graph->module->diag, y->loc, "%s has no gradient, and one is asked for",
                   op_info(y->op)->text);
        return false;
    }
    b->loc = y->loc;
    Adjoint c = {.b = b, .y = y, .g = s->adjoint[y->id], .in = y->in, .sweep = s};
    rules[y->op](&c);
    return true;
}

bool sweep_back(Sweep *s, Builder *b, int from)
{
    bool ok = true;
    for (int i = from; i >= 0; i--)
        if (s->adjoint[i])
            ok &= visit(s, b, s->graph->nodes[i]);
    return ok;
}

static Node *gradient_of(Sweep *s, Builder *b, const Node *request)
{
    Node *x = request->in[1];
    Node *v = s->adjoint[x->id];
    b->loc = request->loc;
    b->hint = request->name;
    return v ? v : build_full(b, x->type.dtype, &x->type.shape, 0);
}

/* The request's name passes to its answer where that is a node of the sweep with no other claim. */
static Node *answer(Sweep *s, Builder *b, Node *request)
{
    Node *v = gradient_of(s, b, request);
    if (v->id >= s->n)
        swap_names(v, request);
    return v;
}

static void answer_all(Sweep *s, Builder *b, const Node *loss, Arena *scratch)
{
    /* Answers may be new nodes, so the table is made when all are there. */
    Node **answers = arena_array(scratch, (size_t)s->n + 1, sizeof *answers);
    for (int i = 0; i < s->n; i++)
        if (s->graph->nodes[i]->op == OP_GRAD && s->graph->nodes[i]->in[0] == loss)
            answers[i] = answer(s, b, s->graph->nodes[i]);
    Node **to = arena_array(scratch, (size_t)s->graph->n_nodes + 1, sizeof *to);
    memcpy(to, answers, (size_t)s->n * sizeof *to);
    graph_replace_all(s->graph, to);
}

static bool sweep_loss(Graph *g, Node *loss, Arena *scratch)
{
    Sweep s = {.graph = g, .n = g->n_nodes};
    s.adjoint = arena_array(scratch, (size_t)s.n, sizeof *s.adjoint);
    s.depends = arena_array(scratch, (size_t)s.n, sizeof *s.depends);
    mark_dependent(&s, loss);
    Builder b = {.graph = g, .loc = loss->loc};
    b.hint = arena_printf(g->module->arena, "%s.grad", loss->name);
    s.adjoint[loss->id] = build_const(&b, loss->type.dtype, 1);
    const bool ok = sweep_back(&s, &b, loss->id);
    if (ok)
        answer_all(&s, &b, loss, scratch);
    return ok;
}

static Node *first_request(const Graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == OP_GRAD)
            return g->nodes[i];
    return NULL;
}

/* detach and slope are their first operand. */
static void remove_detach(Graph *g)
{
    Arena *scratch = arena_new();
    Node **to = arena_array(scratch, (size_t)g->n_nodes + 1, sizeof *to);
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == OP_DETACH || g->nodes[i]->op == OP_SLOPE)
            to[i] = g->nodes[i]->in[0];
    graph_replace_all(g, to);
    arena_free(scratch);
    for (int i = 0; i < g->n_nodes; i++) {
        if (node_is_loop(g->nodes[i])) {
            remove_detach(g->nodes[i]->body);
            graph_drop_dead(g->nodes[i]->body);
        }
    }
}

static bool differentiate(Graph *g)
{
    bool ok = true;
    graph_drop_dead(g);
    for (Node *request; ok && (request = first_request(g));) {
        Arena *scratch = arena_new();
        ok = sweep_loss(g, request->in[0], scratch);
        arena_free(scratch);
        graph_sort(g);
        graph_drop_dead(g);
    }
    remove_detach(g);
    graph_drop_dead(g);
    return ok;
}

bool autodiff(Module *m)
{
    bool ok = true;
    for (int i = 0; i < m->n_graphs; i++)
        ok &= differentiate(m->graphs[i]);
    m->stage = MODULE_GRAD;
    return ok && diag_errors(m->diag) == 0;
}
