/* Which parameters a loss reaches: those that its gradient flows to.  The others are left alone
 * by the update, as PyTorch's are whose gradient is None - which is not a gradient that is 0, as
 * behind floor or a product with 0.
 *
 * One walk from the loss to the operands, by the rows that autodiff goes by; a loop is walked
 * inside, until no further carried value turns out to matter. */
#include "frontend/train/train.h"

#include "ir/loop.h"

typedef struct Reach {
    Arena *arena;
    const Graph *graph;
    bool *reached; /* by node id */
    bool **wanted; /* by node id of a loop: its results that are reached */
} Reach;

/* Rounding has gradient 0; integers, booleans and detach have none. */
static bool flows_through(const Node *n)
{
    const OpInfo *op = op_info(n->op);
    if (dtype_class(n->type.dtype) != DTC_REAL)
        return false;
    return op->has_gradient || (op->kind == KIND_EXPR && op->n_in == 1);
}

static void reach_loop(Reach *r, const Node *loop);

/* A result of a loop wants that result of it, anything else its operands. */
static void reach_operands(Reach *r, const Node *n)
{
    if (node_is_loop(n)) {
        reach_loop(r, n);
        return;
    }
    if (!flows_through(n))
        return;
    for (int k = 0; k < n->n_in; k++)
        r->reached[n->in[k]->id] = true;
    if (!node_is_result(n))
        return;
    bool **wanted = &r->wanted[n->in[0]->id];
    if (*wanted == NULL)
        *wanted = arena_array(r->arena, (size_t)loop_n_results(n->in[0]), sizeof **wanted);
    (*wanted)[n->attrs.slot.index] = true;
}

static void reach_back(Reach *r)
{
    for (int i = r->graph->n_nodes - 1; i >= 0; i--)
        if (r->reached[i])
            reach_operands(r, r->graph->nodes[i]);
}

static Reach reach_new(Arena *arena, const Graph *g)
{
    const size_t n = (size_t)g->n_nodes + 1;
    Reach r = {.arena = arena, .graph = g};
    r.reached = arena_array(arena, n, sizeof *r.reached);
    r.wanted = arena_array(arena, n, sizeof *r.wanted);
    return r;
}

static void reach_loop(Reach *r, const Node *loop)
{
    bool *wanted = r->wanted[loop->id], more = wanted != NULL;
    Reach in = reach_new(r->arena, loop->body);
    while (more) {
        for (int i = 0; i < loop->body->n_outputs; i++)
            if (wanted[i])
                in.reached[loop->body->outputs[i].value->id] = true;
        reach_back(&in);
        more = false;
        for (int i = 0; i < loop->n_in; i++) {
            const Node *arg = loop_arg(loop, i);
            if (arg == NULL || !in.reached[arg->id])
                continue;
            r->reached[loop->in[i]->id] = true;
            if (loop_role(loop, i) == LOOP_CARRIED && !wanted[i])
                wanted[i] = more = true;
        }
    }
}

bool *train_reach(Elab *e, const Node *loss)
{
    Reach r = reach_new(e->arena, e->b.graph);
    r.reached[loss->id] = true;
    reach_back(&r);
    return r.reached;
}
