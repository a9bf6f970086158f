/* The statements that only a model's body has: inputs and targets, losses, metrics and outputs. */
#include "frontend/elaborate/elab.h"

#include <string.h>

static bool in_model(Elab *e, const Ast *s, const char *what)
{
    if (e->frame->kind == FRAME_MODEL)
        return true;
    diag_error(e->diag, s->loc, "`%s` belongs in the model", what);
    return false;
}

/* The module's row, made in the first entry that meets it. */
static bool declare_input(Elab *e, const Ast *s)
{
    const Input *old = module_input(e->module, s->name);
    if (old != NULL && (old->loc.file != s->name_loc.file || old->loc.lo != s->name_loc.lo)) {
        diag_error(e->diag, s->name_loc, "there are two inputs '%s'", s->name);
        diag_note(e->diag, old->loc, "the first one is here");
        return false;
    }
    if (old != NULL)
        return true;
    if (e->module->n_inputs == MAX_INPUTS) {
        diag_error(e->diag, s->name_loc, "more than %d inputs", MAX_INPUTS);
        return false;
    }
    Input in = {
        .name = s->name, .target = s->kind == AST_TARGET, .each = s->flag, .loc = s->name_loc};
    if (!type_eval(e, s->kid[0], &in.type, true))
        return false;
    in.drawn = ast_kid(s, 1) != NULL;
    if (in.drawn && dtype_class(in.type.dtype) != DTC_REAL) {
        diag_error(e->diag, s->kid[1]->loc, "only a real input can be drawn, not %s",
                   type_text(e->arena, &in.type));
        return false;
    }
    module_add_input(e->module, &in);
    return true;
}

/* Where the data has none the run gives NaN: those elements are drawn, by each model anew in each
 * batch. */
static Node *drawn_input(Elab *e, const Ast *s, Node *given)
{
    const Value v = eval(e, s->kid[1]);
    Dist dist;
    if (given == NULL || !dist_from(e, &v, s->kid[1]->loc, &dist))
        return NULL;
    Node *drawn = dist_drawn(e, &dist, s->name, &given->type, random_step(e));
    e->b.hint = s->name;
    return build3(&e->b, OP_WHERE, build2(&e->b, OP_EQ, given, given), given, drawn);
}

void exec_input(Elab *e, const Ast *s)
{
    if (!in_model(e, s, s->kind == AST_INPUT ? "input" : "target"))
        return;
    Value v = value_error();
    if (declare_input(e, s)) {
        e->b.hint = s->name;
        Node *given = build_input(&e->b, s->name);
        v = value_node(ast_kid(s, 1) != NULL ? drawn_input(e, s, given) : given, false);
    }
    scope_bind(e, &e->frame->scope, s->name, v, s->name_loc);
}

const ModelValue *model_value_find(Elab *e, AstKind kind, const char *name)
{
    for (int i = 0; i < e->n_model_values; i++)
        if (e->model_values[i].kind == kind &&
            (name == NULL || strcmp(e->model_values[i].name, name) == 0))
            return &e->model_values[i];
    return NULL;
}

static bool is_new(Elab *e, const Ast *s, const char *name)
{
    for (int i = 0; i < e->n_model_values; i++) {
        const ModelValue *old = &e->model_values[i];
        const bool output = old->kind == AST_OUTPUT;
        if (output != (s->kind == AST_OUTPUT) || strcmp(old->name, name) != 0)
            continue;
        if (s->kind == AST_LOSS)
            diag_error(e->diag, s->loc,
                       "a model has one `loss`; with several, bind them to names and use "
                       "`update` in train");
        else
            diag_error(e->diag, s->loc, "'%s' is declared twice", name);
        diag_note(e->diag, old->loc, "the first one is here");
        return false;
    }
    return true;
}

void exec_objective(Elab *e, const Ast *s)
{
    const bool loss = s->kind == AST_LOSS;
    const char *name = loss ? "loss" : s->name;
    if (!in_model(e, s, loss ? "loss" : "metric") || !is_new(e, s, name))
        return;
    e->b.hint = name;
    e->in_objective = true;
    e->n_averages = 0;
    Value v = eval(e, s->kid[0]);
    e->in_objective = false;
    if (v.kind != V_ERROR) {
        Node *n = math_node(e, &v, s->kid[0]->loc, loss ? "the loss" : "a metric");
        if (n != NULL && n->type.shape.rank != 0) {
            diag_error(e->diag, s->kid[0]->loc,
                       "%s is one number per model, but this is %s; use mean(...)",
                       loss ? "the loss" : "a metric", value_what(e, &v));
            n = NULL;
        }
        if (n == NULL)
            v = value_error();
        else if (v.kind != V_TENSOR)
            v = value_node(n, true);
    }
    scope_bind(e, &e->frame->scope, name, v, s->loc);
    MetricAverage *averages = arena_array(e->arena, (size_t)e->n_averages, sizeof *averages);
    for (int i = 0; i < e->n_averages; i++)
        averages[i] = e->averages[i];
    *ELAB_PUSH(e, model_values) =
        (ModelValue){s->kind, name, v, averages, e->n_averages, s->loc};
}

void exec_output(Elab *e, const Ast *s)
{
    if (!in_model(e, s, "output") || !is_new(e, s, s->name))
        return;
    e->b.hint = s->name;
    Value v = ast_kid(s, 0) != NULL ? eval(e, s->kid[0]) : elab_name(e, s->name, s->name_loc);
    if (v.kind != V_ERROR) {
        Node *n = math_strong(e, &v, s->loc, "an output");
        v = value_node(n && shape_stored(e, s->loc, &n->type.shape) ? n : NULL, false);
    }
    scope_bind(e, &e->frame->scope, s->name, v, s->name_loc);
    *ELAB_PUSH(e, model_values) =
        (ModelValue){.kind = AST_OUTPUT, .name = s->name, .value = v, .loc = s->loc};
}

void entry_add_index_checks(Elab *e)
{
    for (int i = 0; i < e->n_index_checks; i++) {
        const IndexCheck *f = &e->index_checks[i];
        const Output o = {.kind = OUT_FAULT,
                          .name = f->input != NULL ? f->input : "index",
                          .value = f->position,
                          .value2 = f->value,
                          .input = f->input,
                          .lo = f->lo,
                          .hi = f->hi,
                          .ignore = f->ignore,
                          .has_ignore = f->has_ignore,
                          .loc = f->loc};
        graph_add_output(e->b.graph, &o);
    }
}
