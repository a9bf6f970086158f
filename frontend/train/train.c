/* Reads the train section, in two rounds: first its sizes (batch, epochs, accumulate), before
 * any graph is built, and then, in the train graph, everything else. */
#include "frontend/train/train.h"

#include <string.h>

static void read_batch(Elab *e, Train *t, const Ast *s)
{
    int64_t n;
    if (t->batch != NULL) {
        diag_error(e->diag, s->loc, "there are two `batch` statements");
        diag_note(e->diag, t->batch->loc, "the first one is here");
        return;
    }
    t->batch = s;
    const int errors = diag_errors(e->diag);
    if (!define_dim(e, s->name, &n)) {
        if (diag_errors(e->diag) > errors)
            return;
        const Value v = eval(e, s->kid[0]);
        if (!value_to_int(e, &v, s->kid[0]->loc, "the batch size", &n))
            return;
        if (n < 1 || n > 1 << 30) {
            diag_error(e->diag, s->kid[0]->loc, "the batch size must be between 1 and 2^30");
            return;
        }
    }
    e->batch_name = s->name;
    e->module->batch = n;
}

static void read_epochs(Elab *e, Train *t, const Ast *s)
{
    const Value v = eval(e, s->kid[0]);
    int64_t n;
    t->epochs = s;
    if (!value_to_int(e, &v, s->kid[0]->loc, "the number of epochs", &n))
        return;
    if (n < 1)
        diag_error(e->diag, s->kid[0]->loc, "the number of epochs must be positive");
    e->module->epochs = n;
}

static void read_accumulate(Elab *e, Train *t, const Ast *s)
{
    (void)t;
    const Value v = eval(e, s->kid[0]);
    int64_t n;
    if (!value_to_int(e, &v, s->kid[0]->loc, "the number of batches", &n))
        return;
    if (n < 1 || n > 1 << 30)
        diag_error(e->diag, s->kid[0]->loc, "the number of batches must be between 1 and 2^30");
    e->accumulate = n;
}

static Value definition(Elab *e, const Ast *t, ValueKind def, ValueKind kind, const char *what)
{
    Value v = eval(e, t);
    const Args none = {.loc = t->loc, .name_loc = t->loc};
    if (v.kind == def)
        v = call_value(e, &v, &none);
    if (v.kind == kind || v.kind == V_ERROR)
        return v;
    diag_error(e->diag, t->loc, "%s is needed here, not %s", what, value_what(e, &v));
    return value_error();
}

static Value read_optimizer(Elab *e, const Ast *t)
{
    return definition(e, t, V_OPTDEF, V_OPTIM, "an optimizer such as Adam(lr)");
}

static Schedule read_schedule(Elab *e, const Ast *s)
{
    Schedule r = {.n = s->n, .per_step = s->flag, .loc = s->loc};
    r.part = arena_array(e->arena, (size_t)s->n, sizeof *r.part);
    for (int i = 0; i < s->n; i++)
        r.part[i] =
            definition(e, s->kid[i], V_SCHEDDEF, V_SCHED, "a schedule such as StepLR(10)");
    return r;
}

/* `norm(x)` and `value(x)` mean something only here. */
static Clip read_clip(Elab *e, const Ast *s)
{
    const Ast *c = s->kid[0];
    Clip r = {.kind = CLIP_NONE, .loc = s->loc};
    const bool call = c->kind == AST_CALL && c->n == 2 && c->kid[0]->kind == AST_NAME &&
                      c->kid[1]->kind != AST_ARG;
    const char *name = call ? c->kid[0]->name : "";
    const bool norm = strcmp(name, "norm") == 0;
    if (!norm && strcmp(name, "value") != 0) {
        diag_error(e->diag, c->loc, "`clip` is followed by norm(x) or value(x)");
        return r;
    }
    r.limit = eval(e, c->kid[1]);
    if (r.limit.kind == V_NUM && r.limit.num <= 0) {
        diag_error(e->diag, c->kid[1]->loc, "the limit of clip must be positive");
        return r;
    }
    if (r.limit.kind != V_ERROR)
        r.kind = norm ? CLIP_NORM : CLIP_VALUE;
    return r;
}

static void read_section_schedule(Elab *e, Train *t, const Ast *s)
{
    t->schedule = read_schedule(e, s);
}

static void read_section_clip(Elab *e, Train *t, const Ast *s)
{
    t->clip = read_clip(e, s);
}

static void read_patterns(Elab *e, Train *t, const Ast *s)
{
    for (int i = 0; i < s->n; i++) {
        const Value v = eval(e, s->kid[i]);
        if (v.kind != V_STR) {
            if (v.kind != V_ERROR)
                diag_error(e->diag, s->kid[i]->loc,
                           "a pattern is a string such as \"*.bias\", not %s",
                           value_what(e, &v));
            continue;
        }
        const Pattern p = {.text = v.str, .loc = s->kid[i]->loc};
        if (s->kind == AST_FREEZE) {
            if (t->n_freeze == t->cap_freeze)
                t->freeze = arena_grow(e->arena, t->freeze, &t->cap_freeze, sizeof p);
            t->freeze[t->n_freeze++] = p;
        } else {
            if (t->n_no_decay == t->cap_no_decay)
                t->no_decay = arena_grow(e->arena, t->no_decay, &t->cap_no_decay, sizeof p);
            t->no_decay[t->n_no_decay++] = p;
        }
    }
}

static Update *add_update(Elab *e, Train *t, SrcRange loc)
{
    if (t->n_updates == t->cap_updates)
        t->updates = arena_grow(e->arena, t->updates, &t->cap_updates, sizeof *t->updates);
    Update *u = &t->updates[t->n_updates++];
    *u = (Update){.loc = loc, .loss = value_none()};
    return u;
}

/* In a clause the names are the model's: layers to train, and the loss. */
Value eval_in_model(Elab *e, const Ast *t)
{
    Frame *saved = e->frame;
    e->frame = e->model_frame;
    const Value v = eval(e, t);
    e->frame = saved;
    return v;
}

/* What is reported: under the name that the model gives the loss, or "loss"; no two are alike. */
static const char *objective_name(Elab *e, const Ast *loss)
{
    const char *base = loss->kind == AST_NAME ? loss->name : "loss", *name = base;
    for (int n = 2;; n++) {
        bool used = false;
        for (int i = 0; i < e->n_objectives; i++)
            used |= strcmp(e->objectives[i].name, name) == 0;
        if (!used)
            return name;
        name = arena_printf(e->arena, "%s.%d", base, n);
    }
}

static void read_update(Elab *e, Train *t, const Ast *s)
{
    Update *u = add_update(e, t, s->loc);
    const Ast *targets = s->kid[0];
    u->clause = s;
    u->targets = arena_array(e->arena, (size_t)targets->n, sizeof *u->targets);
    for (int i = 0; i < targets->n; i++) {
        const Value v = eval_in_model(e, targets->kid[i]);
        if (v.kind == V_LAYER && v.layer->path != NULL)
            u->targets[u->n_targets++] = v.layer->path;
        else if (v.kind != V_ERROR)
            diag_error(e->diag, targets->kid[i]->loc,
                       "`update` names layers of the model, not %s", value_what(e, &v));
    }
    u->loss = eval_in_model(e, s->kid[1]);
    u->name = objective_name(e, s->kid[1]);
    *ELAB_PUSH(e, objectives) = (Objective){u->name, s->kid[1]};
    u->optimizer = read_optimizer(e, s->kid[2]);
    for (int i = 3; i < s->n; i++)
        if (s->kid[i]->kind == AST_SCHEDULE)
            u->schedule = read_schedule(e, s->kid[i]);
        else
            u->clip = read_clip(e, s->kid[i]);
}

static void read_optimizer_statement(Elab *e, Train *t, const Ast *s)
{
    const Value v = read_optimizer(e, s->kid[0]);
    for (int i = 0; i < t->n_updates; i++)
        if (t->updates[i].clause == NULL) {
            diag_error(e->diag, s->loc, "there are two `optimizer` statements");
            diag_note(e->diag, t->updates[i].loc, "the first one is here");
            return;
        }
    add_update(e, t, s->loc)->optimizer = v;
}

static void read_init(Elab *e, Train *t, const Ast *s)
{
    (void)t;
    const Value v = eval(e, s->kid[1]);
    InitRule rule = {.pattern = s->kid[0]->name, .loc = s->loc};
    if (dist_from(e, &v, s->kid[1]->loc, &rule.dist))
        *ELAB_PUSH(e, inits) = rule;
}

/* What stands in the train section, and nowhere else. */
static void (*const readers[AST_KIND_COUNT])(Elab *e, Train *t, const Ast *s) = {
    [AST_BATCH] = read_batch,
    [AST_EPOCHS] = read_epochs,
    [AST_ACCUMULATE] = read_accumulate,
    [AST_OPTIMIZER] = read_optimizer_statement,
    [AST_SCHEDULE] = read_section_schedule,
    [AST_CLIP] = read_section_clip,
    [AST_FREEZE] = read_patterns,
    [AST_NO_DECAY] = read_patterns,
    [AST_UPDATE] = read_update,
    [AST_INIT] = read_init,
};

void train_statement(Elab *e, const Ast *s)
{
    Train *t = e->frame->train;
    if (e->frame->kind != FRAME_TRAIN || t == NULL) {
        diag_error(e->diag, s->loc, "this statement belongs in the train section");
        return;
    }
    const bool size =
        s->kind == AST_BATCH || s->kind == AST_EPOCHS || s->kind == AST_ACCUMULATE;
    if (size != t->sizes)
        return;
    if (readers[s->kind] != NULL)
        readers[s->kind](e, t, s);
    else
        diag_error(e->diag, s->loc, "this statement does not belong in a train section");
}

/* Runs the section's body once. */
static void read_section(Elab *e, Train *t)
{
    Frame *f = frame_push(e, FRAME_TRAIN, e->train, "", "");
    f->train = t;
    exec_body(e, e->train->kid[0]);
    frame_pop(e);
}

bool train_sizes(Elab *e)
{
    if (e->train == NULL)
        return true;
    Train t = {.sizes = true};
    e->b = (Builder){.graph = e->scratch, .loc = e->train->loc};
    read_section(e, &t);
    if (diag_errors(e->diag) > 0)
        return false;
    const Ast *body = e->train->kid[0];
    if (find_statement(body, AST_OPTIMIZER) == NULL && find_statement(body, AST_UPDATE) == NULL)
        diag_error(e->diag, e->train->loc, "the train section has no optimizer");
    if (t.batch == NULL)
        diag_error(e->diag, e->train->loc,
                   "the train section has no batch size: add `batch N = 32`");
    if (e->train->name != NULL && strcmp(e->train->name, e->model->name) != 0) {
        diag_error(e->diag, e->train->name_loc,
                   "the train section is for '%s', but the model is called '%s'",
                   e->train->name, e->model->name);
        diag_note(e->diag, e->model->name_loc, "the model is here");
    }
    return diag_errors(e->diag) == 0;
}

bool train_build(Elab *e)
{
    Train t = {0};
    read_section(e, &t);
    if (t.n_updates == 0 && diag_errors(e->diag) == 0)
        diag_error(e->diag, e->train->loc, "the train section has no optimizer");
    if (t.n_updates > 0 && t.updates[0].clause == NULL &&
        model_value_find(e, AST_LOSS, NULL) == NULL) {
        diag_error(e->diag, e->train->loc,
                   "the model '%s' has no `loss`, so there is nothing to train",
                   e->model->name);
        diag_note(e->diag, e->model->name_loc, "the model is here");
    }
    for (int i = 1; i < t.n_updates; i++)
        if (t.updates[0].clause == NULL || t.updates[i].clause == NULL)
            diag_error(e->diag, t.updates[i].loc,
                       "a train section has one `optimizer` or `update` clauses, not both");
    return diag_errors(e->diag) == 0 && train_step_build(e, &t);
}

void train_state(Elab *e, const char *name, const Type *type, StateRole role,
                 const char *parameter)
{
    const Dist zero = {.arg = {value_int(0)}, .loc = SRC_NONE};
    const State s = {.name = name,
                     .type = *type,
                     .role = role,
                     .parameter = parameter,
                     .loc = e->train->loc};
    module_add_state(e->module, &s);
    map_set(e->state_numbers, name, e->n_states);
    *ELAB_PUSH(e, states) = (StateRecord){.name = name, .init = zero, .call = SRC_NONE};
}
