/* Horizontal fusion: one graph for B models.
 *
 * A value is per model if anything it reads is: a state, a hyper, the clock, a seed, an `each`
 * input.  Its type then carries the interval of models it holds for; its shape stays that of one
 * model.  The form says how a target computes the models of one operator together.
 *
 * Invariant: nothing but the interval depends on B - same nodes, same names, same order for 2
 * models or 200. */
#include "ir/loop.h"
#include "ir/run_value.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static bool leaf_per_model(const Node *n)
{
    RunValue v;
    switch ((LeafKind)op_info(n->op)->data) {
    case LEAF_STATE:
    case LEAF_HYPER:
    case LEAF_SEED:
        return true;
    case LEAF_SCALAR:
        return run_value_find(n->attrs.leaf.name, &v) && run_value_per_model(v);
    case LEAF_INPUT:
    case LEAF_CONST:
    case LEAF_ARG:
        break;
    }
    return false;
}

static Interval models_of(const Graph *g, const Node *n, Interval all)
{
    const Interval shared = {0, 0};
    if (op_info(n->op)->kind == KIND_LEAF) {
        if (op_info(n->op)->data == LEAF_INPUT) {
            const Input *in = module_input(g->module, n->attrs.leaf.name);
            return in ? in->type.models : shared;
        }
        return leaf_per_model(n) ? all : shared;
    }
    for (int i = 0; i < n->n_in; i++)
        if (type_per_model(&n->in[i]->type))
            return all;
    return shared;
}

Form form_of(const Node *n)
{
    if (!type_per_model(&n->type))
        return FORM_SHARED;
    if (op_info(n->op)->kind == KIND_CONTRACT &&
        type_per_model(&n->in[0]->type) != type_per_model(&n->in[1]->type))
        return FORM_WIDE;
    return FORM_BATCHED;
}

static void fuse_graph(const Graph *g, Interval all);

/* What a loop carries is of each model if anything that it reads is. */
static void fuse_body(const Node *loop, Interval all)
{
    graph_foreach (loop->body, n)
        if (node_is_arg(n))
            n->type.models = loop_role(loop, n->attrs.slot.index) == LOOP_CARRIED
                                 ? loop->type.models
                                 : loop->in[n->attrs.slot.index]->type.models;
    fuse_graph(loop->body, all);
}

static void fuse_graph(const Graph *g, Interval all)
{
    graph_foreach (g, n) {
        if (!node_is_arg(n))
            n->type.models = models_of(g, n, all);
        n->form = form_of(n);
        if (node_is_loop(n))
            fuse_body(n, all);
    }
}

void hfuse(Module *m, int n_models, const Target *t)
{
    (void)t;
    const Interval all = {0, n_models};
    m->n_models = n_models;
    for (int i = 0; i < m->n_states; i++)
        m->states[i].type.models = all;
    for (int i = 0; i < m->n_inputs; i++)
        m->inputs[i].type.models = m->inputs[i].each ? all : (Interval){0, 0};
    for (int i = 0; i < m->n_graphs; i++)
        fuse_graph(m->graphs[i], all);
    m->stage = MODULE_FUSED;
}
