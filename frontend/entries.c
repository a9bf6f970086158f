/* The graphs of a module, one for each entry point: init, train, eval, predict ...
 *
 * For the driver, elaborate.c, which calls these functions one after the other.  The model's
 * body is run anew for each entry point in a graph of its own; what the entry point is about is
 * added to it: a train step by train/, the sums of metrics over a data set and the outputs here. */
#include "frontend/entries.h"
#include "frontend/train/train.h"

#include <string.h>

static void bind_batch(Elab *e)
{
    Value n = value_int(e->module->batch);
    n.of_n = 1;
    scope_bind(e, &e->frame->scope, e->batch_name, n, e->model->name_loc);
}

static bool entry_run_model(Elab *e, EntryKind entry)
{
    e->entry = entry;
    e->b = (Builder){.graph = graph_new(e->module, entry), .loc = e->model->loc};
    e->n_state_values = e->n_index_checks = e->n_model_values = e->n_averages = e->n_writes = 0;
    for (int i = 0; i < e->n_layers; i++)
        e->layers[i].randoms = 0;
    e->frame = NULL;
    e->model_graph = e->b.graph;
    e->model_frame = frame_push(e, FRAME_MODEL, e->model, "", "");
    if (e->batch_name != NULL)
        bind_batch(e);
    exec_body(e, e->model->kid[0]);
    e->frame = NULL;
    return diag_errors(e->diag) == 0;
}

static void add_output(Elab *e, OutputKind kind, const char *name, Node *value, SrcRange loc)
{
    const Output o = {.kind = kind, .name = name, .value = value, .loc = loc};
    if (value != NULL)
        graph_add_output(e->b.graph, &o);
}

static const char *accumulator(Elab *e, const char *metric, int k, const char *part)
{
    return state_added_name(e, ROLE_METRIC,
                            k == 0
                                ? arena_printf(e->arena, "metric.%s.%s", metric, part)
                                : arena_printf(e->arena, "metric.%s.%d.%s", metric, k, part));
}

/* One accumulator: what it holds and `more`. */
static void accumulate(Elab *e, const char *name, Node *more, SrcRange loc)
{
    const State s = {.name = name,
                     .type = {.dtype = DT_F64, .shape = shape_scalar()},
                     .role = ROLE_METRIC,
                     .loc = loc};
    const Dist zero = {.arg = {value_int(0)}, .loc = loc};
    const Value old = state_declare(e, &s, &zero);
    e->b.hint = arena_printf(e->arena, "%s.next", name);
    if (old.kind == V_TENSOR)
        add_output(e, OUT_STATE, name, build2(&e->b, OP_ADD, old.node, more), loc);
}

static void accumulate_metric(Elab *e, ModelValue *m)
{
    if (m->value.kind != V_TENSOR)
        return;
    if (m->n_averages == 0) {
        /* Averaged outermost. */
        m->averages = arena_alloc(e->arena, sizeof *m->averages);
        m->averages[0] = (MetricAverage){.value = m->value.node, .weight = m->value.weight};
        m->n_averages = 1;
    }
    for (int k = 0; k < m->n_averages; k++) {
        e->b.loc = m->loc;
        e->b.hint = arena_printf(e->arena, "metric.%s", m->name);
        Node *v = build_cast(&e->b, m->averages[k].value, DT_F64);
        Node *w = m->averages[k].weight != NULL ? m->averages[k].weight
                                                : build_scalar(&e->b, RUN_N_VALID);
        MetricAverage *average = &m->averages[k];
        average->sum_state = accumulator(e, m->name, k, "sum");
        accumulate(e, average->sum_state, build2(&e->b, OP_MUL, v, w), m->loc);
        average->weight_state = accumulator(e, m->name, k, "weight");
        accumulate(e, average->weight_state, w, m->loc);
    }
}

/* What the `update` clauses minimize is measured as a loss is. */
static void add_objectives(Elab *e)
{
    for (int i = 0; i < e->n_objectives; i++) {
        const Objective *o = &e->objectives[i];
        bool known = false;
        for (int k = 0; k < e->n_model_values; k++)
            known |= e->model_values[k].kind != AST_OUTPUT &&
                     strcmp(e->model_values[k].name, o->name) == 0;
        if (!known)
            *ELAB_PUSH(e, model_values) = (ModelValue){.kind = AST_LOSS,
                                                       .name = o->name,
                                                       .value = eval_in_model(e, o->expr),
                                                       .loc = o->expr->loc};
    }
}

static bool build_eval(Elab *e)
{
    if (!entry_run_model(e, ENTRY_EVAL))
        return false;
    add_objectives(e);
    for (int i = 0; i < e->n_model_values; i++)
        if (e->model_values[i].kind != AST_OUTPUT)
            accumulate_metric(e, &e->model_values[i]);
    entry_add_index_checks(e);
    return diag_errors(e->diag) == 0;
}

typedef struct Averages {
    Elab *e;
    const ModelValue *metric;
} Averages;

/* sum / weight of one average; nothing averaged is 0. */
static Node *average_of(Elab *e, const ModelValue *m, int k)
{
    Builder *b = &e->b;
    Node *sum = build_state(b, m->averages[k].sum_state);
    Node *weight = build_state(b, m->averages[k].weight_state);
    Node *none = build2(b, OP_EQ, weight, build_const(b, DT_F64, 0));
    return build2(b, OP_DIV, sum, build3(b, OP_WHERE, none, build_const(b, DT_F64, 1), weight));
}

static Node *stop_at_average(void *ctx, const Node *n)
{
    const Averages *a = ctx;
    for (int k = 0; k < a->metric->n_averages; k++)
        if (a->metric->averages[k].placeholder == n)
            return average_of(a->e, a->metric, k);
    return NULL;
}

static void eval_end_metric(Elab *e, const ModelValue *m)
{
    if (m->kind == AST_OUTPUT || m->value.kind != V_TENSOR)
        return;
    Averages ctx = {e, m};
    e->b.hint = m->name;
    e->b.loc = m->loc;
    Node *r = m->averages[0].placeholder == NULL
                  ? average_of(e, m, 0)
                  : graph_copy(e, e->model_graph, m->value.node, stop_at_average, &ctx, m->loc,
                               "what is outside `avg` in a metric");
    add_output(e, m->kind == AST_LOSS ? OUT_LOSS : OUT_RESULT, m->name,
               r ? build_cast(&e->b, r, DT_F64) : NULL, m->loc);
}

static bool build_eval_end(Elab *e)
{
    e->b = (Builder){.graph = graph_new(e->module, ENTRY_EVAL_END)};
    for (int i = 0; i < e->n_model_values; i++)
        eval_end_metric(e, &e->model_values[i]);
    return diag_errors(e->diag) == 0;
}

static bool build_predict(Elab *e)
{
    if (!entry_run_model(e, ENTRY_PREDICT))
        return false;
    for (int i = 0; i < e->n_model_values; i++)
        if (e->model_values[i].kind == AST_OUTPUT && e->model_values[i].value.kind == V_TENSOR)
            add_output(e, OUT_TENSOR, e->model_values[i].name, e->model_values[i].value.node,
                       e->model_values[i].loc);
    entry_add_index_checks(e);
    return diag_errors(e->diag) == 0;
}

static const Dist *init_of(Elab *e, const State *s, const StateRecord *r, bool *used)
{
    const Dist *d = &r->init;
    for (int i = 0; i < e->n_inits; i++)
        if (s->role == ROLE_PARAM && pattern_match(e->inits[i].pattern, s->name)) {
            d = &e->inits[i].dist;
            used[i] = true;
        }
    return d;
}

static bool build_init(Elab *e)
{
    bool *used = arena_array(e->arena, (size_t)e->n_inits, sizeof *used);
    e->entry = ENTRY_INIT;
    e->b = (Builder){.graph = graph_new(e->module, ENTRY_INIT)};
    e->n_state_values = 0;
    for (int i = 0; i < e->module->n_states; i++) {
        const State *s = &e->module->states[i];
        const Dist *d = init_of(e, s, state_record(e, s->name), used);
        add_output(e, OUT_STATE, s->name, dist_value(e, d, s->name, &s->type), s->loc);
    }
    for (int i = 0; i < e->n_inits; i++)
        if (!used[i])
            diag_error(e->diag, e->inits[i].loc, "no parameter is called like \"%s\"",
                       e->inits[i].pattern);
    return diag_errors(e->diag) == 0;
}

/* In the order in which a run uses them, without what no output needs. */
static void tidy(Module *m)
{
    int at = 0;
    for (int k = 0; k < N_ENTRIES; k++)
        for (int i = at; i < m->n_graphs; i++)
            if ((int)m->graphs[i]->entry == k) {
                Graph *g = m->graphs[i];
                m->graphs[i] = m->graphs[at];
                m->graphs[at++] = g;
                break;
            }
    for (int i = 0; i < m->n_graphs; i++)
        graph_drop_dead(m->graphs[i]);
}

static bool has_kind(Elab *e, bool output)
{
    for (int i = 0; i < e->n_model_values; i++)
        if ((e->model_values[i].kind == AST_OUTPUT) == output)
            return true;
    return false;
}

bool entries_build(Elab *e)
{
    if (e->train != NULL) {
        const Type type = {.dtype = DT_I64, .shape = shape_scalar()};
        train_state(e, "$step", &type, ROLE_COUNTER, NULL);
        if (e->accumulate > 1)
            train_state(e, "$accumulate.count", &type, ROLE_BATCH_COUNTER, NULL);
        if (entry_run_model(e, ENTRY_TRAIN))
            layers_check_called(e);
        if (!train_build(e))
            return false;
    }
    if (!build_eval(e))
        return false;
    if (e->train == NULL)
        layers_check_called(e);
    const bool outputs = has_kind(e, true), objectives = has_kind(e, false);
    if (!outputs && !objectives) {
        diag_error(e->diag, e->model->name_loc, "the model '%s' has no loss, metric or output",
                   e->model->name);
        return false;
    }
    if (objectives && !build_eval_end(e))
        return false;
    if (outputs && !build_predict(e))
        return false;
    if (!build_init(e))
        return false;
    if (!objectives) {
        /* An eval graph without metrics does nothing. */
        Module *m = e->module;
        for (int i = 0; i < m->n_graphs; i++)
            if (m->graphs[i]->entry == ENTRY_EVAL)
                m->graphs[i] = m->graphs[--m->n_graphs];
    }
    tidy(e->module);
    return true;
}
