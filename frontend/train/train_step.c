/* The graph of one training step: gradients, clipping, the optimizer for each parameter, and the
 * predicate that keeps the state of a model whose step went wrong. */
#include "frontend/train/train.h"

#include <math.h>
#include <string.h>

/* A parameter that is trained. */
typedef struct TrainedParam {
    const char *name;
    Type type;
    Node *grad;
    bool no_decay;
} TrainedParam;

typedef struct Step {
    Elab *e;
    Train *train;
    /* NULL: the section has no `update` clauses. */
    Versions *versions;
    /* By update: its loss as the model has it. */
    Node **losses;
    /* True if the step went well, so that states may be written. */
    Node *ok;
    /* True in the last of the batches that are accumulated; NULL: each batch is a step. */
    Node *last;
    /* What follows is about the update that is being built. */
    Update *update;
    Node *loss;
    TrainedParam *params;
    int n_params;
    /* The schedule's factor: a NUM or a weak scalar. */
    Value factor;
    /* The learning rate with the factor in it; NONE if the optimizer has none. */
    Value lr;
    /* The number of the update in names of states, as ".1"; "" if there is only one. */
    const char *number;
} Step;

static bool matches(Pattern *p, int n, const char *name)
{
    bool found = false;
    for (int i = 0; i < n; i++)
        if (pattern_match(p[i].text, name))
            found = p[i].used = true;
    return found;
}

static bool is_target(const Update *u, const char *name)
{
    if (u->clause == NULL)
        return true;
    for (int i = 0; i < u->n_targets; i++) {
        const size_t n = strlen(u->targets[i]);
        if (strncmp(name, u->targets[i], n) == 0 && (name[n] == '.' || name[n] == '\0'))
            return true;
    }
    return false;
}

static void unused_patterns(Elab *e, const Pattern *p, int n)
{
    for (int i = 0; i < n; i++)
        if (!p[i].used)
            diag_error(e->diag, p[i].loc, "no parameter is called like \"%s\"", p[i].text);
}

static bool collect_params(Step *s)
{
    Elab *e = s->e;
    Train *t = s->train;
    const Module *m = e->module;
    s->params = arena_array(e->arena, (size_t)m->n_states, sizeof *s->params);
    for (int i = 0; i < m->n_states; i++) {
        const State *st = &m->states[i];
        if (st->role != ROLE_PARAM)
            continue;
        const bool frozen = matches(t->freeze, t->n_freeze, st->name);
        const bool no_decay = matches(t->no_decay, t->n_no_decay, st->name);
        if (!frozen && is_target(s->update, st->name))
            s->params[s->n_params++] =
                (TrainedParam){.name = st->name, .type = st->type, .no_decay = no_decay};
    }
    unused_patterns(e, t->freeze, t->n_freeze);
    unused_patterns(e, t->no_decay, t->n_no_decay);
    if (s->n_params == 0 && diag_errors(e->diag) == 0)
        diag_error(e->diag, s->update->loc, "there is no parameter to train");
    return diag_errors(e->diag) == 0;
}

/* The loss of one update as the model has it. */
static Node *find_loss(Step *s, const Update *u)
{
    Elab *e = s->e;
    Value v = u->loss;
    SrcRange at = u->loc;
    if (u->clause == NULL) {
        const ModelValue *n = model_value_find(e, AST_LOSS, NULL);
        v = n->value;
        at = n->loc;
    }
    e->b.loc = at;
    Node *loss = math_strong(e, &v, at, "the loss");
    if (loss != NULL &&
        (loss->type.shape.rank != 0 || dtype_class(loss->type.dtype) != DTC_REAL)) {
        diag_error(e->diag, at, "the loss must be one real number per model, not %s",
                   value_what(e, &v));
        return NULL;
    }
    return loss;
}

static bool find_losses(Step *s)
{
    const Train *t = s->train;
    s->losses = arena_array(s->e->arena, (size_t)t->n_updates, sizeof *s->losses);
    bool ok = true;
    for (int k = 0; k < t->n_updates; k++)
        ok &= (s->losses[k] = find_loss(s, &t->updates[k])) != NULL;
    if (ok && t->updates[0].clause != NULL)
        s->versions = versions_new(s->e, t->n_updates, s->losses);
    return ok;
}

static Node *both(Elab *e, Node *a, Node *b)
{
    e->b.hint = "ok";
    return a == NULL ? b : build2(&e->b, OP_AND, a, b);
}

/* Parameters that the loss does not reach are left alone from here on. */
static bool build_gradients(Step *s)
{
    Elab *e = s->e;
    const int n = s->n_params, n_nodes = e->b.graph->n_nodes;
    const bool *reached = train_reach(e, s->loss);
    e->b.hint = "ok";
    s->ok = both(e, s->ok, build1(&e->b, OP_ISFINITE, s->loss));
    s->n_params = 0;
    for (int i = 0; i < n; i++) {
        TrainedParam p = s->params[i];
        Node *x =
            s->versions != NULL ? versions_param(s->versions, p.name) : state_now(e, p.name);
        if (x->id >= n_nodes || !reached[x->id])
            continue;
        e->b.hint = arena_printf(e->arena, "%s.grad", p.name);
        p.grad = build2(&e->b, OP_GRAD, s->loss, x);
        s->params[s->n_params++] = p;
    }
    if (s->n_params == 0)
        diag_error(e->diag, s->update->loc, "the loss depends on no parameter that is trained");
    return s->n_params > 0;
}

static Node *reduce_all(Elab *e, OpCode op, Node *x)
{
    int64_t dims[MAX_RANK];
    const int rank = x ? x->type.shape.rank : 0;
    for (int i = 0; i < rank; i++)
        dims[i] = i;
    return rank == 0 ? x : build_reduce(&e->b, op, x, rank, dims, false);
}

/* A gradient is finite if its largest magnitude is: no overflow, and NaN wins. */
static void check_gradients(Step *s)
{
    Elab *e = s->e;
    for (int i = 0; i < s->n_params; i++) {
        e->b.hint = arena_printf(e->arena, "%s.peak", s->params[i].name);
        Node *peak = reduce_all(e, OP_REDMAX, build1(&e->b, OP_ABS, s->params[i].grad));
        e->b.hint = "ok";
        s->ok = both(e, s->ok, build1(&e->b, OP_ISFINITE, peak));
    }
}

static void check_faults(Step *s)
{
    Elab *e = s->e;
    for (int i = 0; i < e->n_index_checks; i++)
        s->ok = both(
            e, s->ok,
            build2(&e->b, OP_LT, e->index_checks[i].position, build_const(&e->b, DT_I64, 0)));
}

/* The gradient becomes the average of those of the batches so far; the last batch leaves nothing.
 */
static void accumulate(Step *s)
{
    Elab *e = s->e;
    for (int i = 0; i < s->n_params && s->last != NULL; i++) {
        TrainedParam *p = &s->params[i];
        const char *name = state_added_name(
            e, ROLE_GRADIENT, arena_printf(e->arena, "accumulate%s.%s", s->number, p->name));
        train_state(e, name, &p->type, ROLE_GRADIENT, p->name);
        Node *share = build2(&e->b, OP_MUL, p->grad,
                             build_const(&e->b, p->type.dtype, 1.0 / (double)e->accumulate));
        e->b.hint = arena_printf(e->arena, "%s.average", p->name);
        p->grad = build2(&e->b, OP_ADD, state_now(e, name), share);
        Node *zero = build_full(&e->b, p->type.dtype, &p->type.shape, 0);
        state_next(e, name, build3(&e->b, OP_WHERE, s->last, zero, p->grad), s->update->loc);
    }
}

/* torch.nn.utils.clip_grad_norm_ over all trained parameters of the model. */
static void clip_norm(Step *s, const Clip *c)
{
    Elab *e = s->e;
    Node *total = NULL;
    for (int i = 0; i < s->n_params; i++) {
        Node *g = s->params[i].grad;
        e->b.hint = arena_printf(e->arena, "%s.square", s->params[i].name);
        Node *sum = reduce_all(e, OP_SUM, build2(&e->b, OP_MUL, g, g));
        e->b.hint = "norm";
        total = total == NULL ? sum : build2(&e->b, OP_ADD, total, sum);
    }
    e->b.hint = "norm";
    const Value norm = value_node(build1(&e->b, OP_SQRT, total), false);
    e->b.hint = "clip";
    const Value ratio = math_divide(
        e, c->limit, math_binary(e, OP_ADD, norm, value_num(1e-6, false), c->loc), c->loc);
    const Value factor = math_binary(e, OP_MIN, ratio, value_num(1, false), c->loc);
    if (factor.kind == V_TENSOR)
        scalars_add(e, "clip", factor.node);
    for (int i = 0; i < s->n_params; i++) {
        TrainedParam *p = &s->params[i];
        e->b.hint = arena_printf(e->arena, "%s.clipped", p->name);
        const Value g = math_binary(e, OP_MUL, value_node(p->grad, false), factor, c->loc);
        p->grad = g.kind == V_TENSOR ? g.node : NULL;
    }
}

static void clip_value(Step *s, const Clip *c)
{
    Elab *e = s->e;
    const Value low = math_unary(e, OP_NEG, c->limit, c->loc);
    /* A limit may be infinite, but not NaN. */
    const Value some = math_binary(e, OP_MIN, c->limit, value_num(1, false), c->loc);
    if (some.kind == V_TENSOR)
        scalars_add(e, "clip", some.node);
    for (int i = 0; i < s->n_params; i++) {
        TrainedParam *p = &s->params[i];
        e->b.hint = arena_printf(e->arena, "%s.clipped", p->name);
        Value g = math_binary(e, OP_MIN, value_node(p->grad, false), c->limit, c->loc);
        g = math_binary(e, OP_MAX, g, low, c->loc);
        p->grad = g.kind == V_TENSOR ? g.node : NULL;
    }
}

static void clip(Step *s)
{
    const Clip *own = &s->update->clip, *c = own->kind != CLIP_NONE ? own : &s->train->clip;
    if (c->kind == CLIP_NORM)
        clip_norm(s, c);
    else if (c->kind == CLIP_VALUE)
        clip_value(s, c);
}

static void build_schedule(Step *s)
{
    Elab *e = s->e;
    const Schedule *own = &s->update->schedule, *c = own->n > 0 ? own : &s->train->schedule;
    const BoundDefinition *opt = s->update->optimizer.bound;
    const int k = param_named(opt->def->kid[0], "lr");
    s->factor = value_num(1, true);
    s->lr = k >= 0 ? opt->arg[k] : value_none();
    if (c->n == 0)
        return;
    if (k < 0) {
        diag_error(e->diag, c->loc, "the optimizer %s has no `lr` that a schedule could change",
                   opt->def->name);
        return;
    }
    e->b.hint = "schedule";
    s->factor = schedule_chain(e, c, opt->arg[k]);
    e->b.hint = "lr";
    s->lr = math_binary(e, OP_MUL, opt->arg[k], s->factor, c->loc);
}

/* The optimizer's parameters in its frame: lr with the schedule's factor, no weight decay where
 * none is due. */
static void bind_optimizer(Step *s, const BoundDefinition *b, const TrainedParam *p)
{
    Elab *e = s->e;
    const int lr = param_named(b->def->kid[0], "lr"),
              decay = param_named(b->def->kid[0], "weight_decay");
    bind_all(e, b);
    if (lr >= 0) {
        scope_bind(e, &e->frame->scope, "base_lr", b->arg[lr], b->loc[lr]);
        scope_bind(e, &e->frame->scope, "lr", s->lr, b->loc[lr]);
    }
    if (decay >= 0 && p->no_decay)
        scope_bind(e, &e->frame->scope, "weight_decay", value_num(0, true), b->loc[decay]);
}

static void update_param(Step *s, const TrainedParam *p)
{
    Elab *e = s->e;
    const BoundDefinition *b = s->update->optimizer.bound;
    const Ast *head = b->def->kid[1];
    if (head->n != 2) {
        diag_error(e->diag, b->def->name_loc,
                   "an optimizer works `on (p, g)`: the parameter and its gradient");
        return;
    }
    diag_push_call(e->diag, b->call, b->def->name);
    Frame *f = frame_push(e, FRAME_OPTIM, b->def, "", p->name);
    f->state_prefix = arena_printf(e->arena, "optimizer%s", s->number);
    f->parameter = p->name;
    f->state_shape = &p->type.shape;
    f->state_dtype = p->type.dtype;
    bind_optimizer(s, b, p);
    scope_bind(e, &f->scope, head->kid[0]->name, value_node(state_now(e, p->name), false),
               b->call);
    scope_bind(e, &f->scope, head->kid[1]->name, value_node(p->grad, false), b->call);
    e->updating = p->name;
    e->making = -1;
    e->n_made = 0;
    const Value v =
        run_definition(e, b->def->kid[2], arena_printf(e->arena, "%s.next", p->name));
    e->updating = NULL;
    frame_pop(e);
    Node *n = v.kind == V_ERROR
                  ? NULL
                  : math_cast(e, &v, p->type.dtype, b->call, "the new value of a parameter");
    if (n != NULL && !shape_equal(&n->type.shape, &p->type.shape))
        diag_error(e->diag, b->call,
                   "the optimizer %s makes %s of the parameter '%s', which is %s", b->def->name,
                   type_text(e->arena, &n->type), p->name, type_text(e->arena, &p->type));
    else if (n != NULL)
        state_next(e, p->name, n, b->call);
    diag_pop_call(e->diag);
}

static void add_result(Elab *e, OutputKind kind, const char *name, Node *v, SrcRange loc)
{
    e->b.hint = name;
    const Output o = {.kind = kind,
                      .name = name,
                      .value = v ? build_cast(&e->b, v, DT_F64) : NULL,
                      .loc = loc};
    if (o.value != NULL)
        graph_add_output(e->b.graph, &o);
}

/* Nothing is written if a scalar of the update is not finite; before the last batch of a step
 * none is used. */
static void check_scalars(Step *s)
{
    Elab *e = s->e;
    Node *finite = scalars_finite(e, s->update->optimizer.bound->def->name,
                                  s->update->optimizer.bound->call);
    if (finite == NULL)
        return;
    if (s->last != NULL)
        finite = build2(&e->b, OP_OR, build1(&e->b, OP_NOT, s->last), finite);
    s->ok = both(e, s->ok, finite);
}

/* A state that begins as a number that is not finite (the best so far, say) may become one again.
 */
static bool is_guarded(Elab *e, const char *name)
{
    const Dist *d = &state_record(e, name)->init;
    const bool starts_finite =
        d->family != NULL || !value_is_number(&d->arg[0]) || isfinite(value_number(&d->arg[0]));
    return starts_finite && dtype_class(module_state(e->module, name)->type.dtype) == DTC_REAL;
}

/* What a state keeps if the step went wrong, or until the last batch of a step. */
static void write_state(Step *s, const char *name, Node *next, Node *when, SrcRange loc)
{
    Elab *e = s->e;
    e->b.hint = arena_printf(e->arena, "%s.kept", name);
    e->b.loc = loc;
    const Output o = {.kind = OUT_STATE,
                      .name = name,
                      .value = build3(&e->b, OP_WHERE, when, next, build_state(&e->b, name)),
                      .guarded = is_guarded(e, name),
                      .loc = loc};
    if (o.value != NULL)
        graph_add_output(e->b.graph, &o);
}

static void write_counters(Step *s, Node *due, SrcRange loc)
{
    Elab *e = s->e;
    const char *steps = module_state_of(e->module, ROLE_COUNTER)->name;
    Node *one = build_const(&e->b, DT_I64, 1);
    e->b.hint = arena_printf(e->arena, "%s.next", steps);
    write_state(s, steps, build2(&e->b, OP_ADD, build_state(&e->b, steps), one), due, loc);
    if (s->last == NULL)
        return;
    const char *batches = module_state_of(e->module, ROLE_BATCH_COUNTER)->name;
    e->b.hint = arena_printf(e->arena, "%s.next", batches);
    Node *count = build2(&e->b, OP_ADD, build_state(&e->b, batches), one);
    Node *next = build3(&e->b, OP_WHERE, s->last, build_const(&e->b, DT_I64, 0), count);
    write_state(s, batches, next, s->ok, loc);
}

/* Does it change with every batch, or only with those that complete a step? */
static bool changes_with_batch(StateRole r)
{
    switch (r) {
    case ROLE_BUFFER:
    case ROLE_GRADIENT:
    case ROLE_BATCH_COUNTER:
        return true;
    case ROLE_PARAM:
    case ROLE_OPTIM:
    case ROLE_COUNTER:
    case ROLE_METRIC:
    case ROLE_SCHEDULE:
    case ROLE_EPOCH_METRIC:
        return false;
    }
    return false;
}

static void build_outputs(Step *s)
{
    Elab *e = s->e;
    const SrcRange loc = s->train->updates[0].loc;
    e->b.loc = loc;
    add_result(e, OUT_OK, "ok", s->ok, loc);
    entry_add_index_checks(e);
    Node *due = s->last != NULL ? both(e, s->ok, s->last) : s->ok;
    for (int i = 0; i < e->n_state_values; i++) {
        const StateValue *c = &e->state_values[i];
        const StateRole role = module_state(e->module, c->name)->role;
        if (c->written)
            write_state(s, c->name, c->now, changes_with_batch(role) ? s->ok : due, c->loc);
    }
    write_counters(s, due, loc);
}

/* The clauses to come see what this one has made of its parameters. */
static void show_update(Step *s)
{
    Elab *e = s->e;
    const char **names = arena_array(e->arena, (size_t)s->n_params + 1, sizeof *names);
    for (int i = 0; i < s->n_params; i++) {
        const char *name = names[i] = s->params[i].name;
        Node *now = state_now(e, name);
        if (s->last != NULL)
            now = build3(&e->b, OP_WHERE, s->last, now, build_state(&e->b, name));
        versions_update(s->versions, name, now);
    }
    versions_next(s->versions, s->n_params, names);
}

static bool is_result_of_program(const Elab *e, const char *name)
{
    for (int i = 0; i < e->n_model_values; i++)
        if (e->model_values[i].kind != AST_OUTPUT && strcmp(e->model_values[i].name, name) == 0)
            return true;
    for (int i = 0; i < e->n_objectives; i++)
        if (strcmp(e->objectives[i].name, name) == 0)
            return true;
    return false;
}

static void report(Step *s, int k)
{
    Elab *e = s->e;
    const Update *u = s->update;
    add_result(e, OUT_LOSS, u->name != NULL ? u->name : "loss", s->loss, u->loc);
    if (k > 0 && u->schedule.n == 0)
        return;
    const char *name = k == 0 ? "schedule" : arena_printf(e->arena, "schedule.%s", u->name);
    if (is_result_of_program(e, name))
        name = arena_printf(e->arena, "$%s", name);
    add_result(e, OUT_FACTOR, name,
               math_scalar(e, &s->factor, u->loc, "the factor of a schedule"), u->loc);
}

static bool build_update(Step *s, int k)
{
    Elab *e = s->e;
    s->update = &s->train->updates[k];
    s->n_params = 0;
    s->number = s->train->n_updates > 1 ? arena_printf(e->arena, ".%d", k) : "";
    e->b.loc = s->update->loc;
    if (!collect_params(s))
        return false;
    s->loss = s->versions != NULL ? versions_loss(s->versions, k, s->losses[k]) : s->losses[k];
    if (!build_gradients(s))
        return false;
    check_gradients(s);
    accumulate(s);
    clip(s);
    build_schedule(s);
    for (int i = 0; i < s->n_params && diag_errors(e->diag) == 0; i++)
        update_param(s, &s->params[i]);
    if (diag_errors(e->diag) > 0)
        return false;
    check_scalars(s);
    report(s, k);
    if (s->versions != NULL)
        show_update(s);
    return diag_errors(e->diag) == 0;
}

/* Is this the last batch of a step? */
static Node *last_batch(Elab *e)
{
    if (e->accumulate <= 1)
        return NULL;
    e->b.hint = "last";
    return build2(&e->b, OP_EQ, state_of_role(e, ROLE_BATCH_COUNTER),
                  build_const(&e->b, DT_I64, (double)(e->accumulate - 1)));
}

bool train_step_build(Elab *e, Train *t)
{
    Step s = {.e = e, .train = t};
    e->frame = NULL;
    if (!find_losses(&s))
        return false;
    s.last = last_batch(e);
    for (int k = 0; k < t->n_updates; k++)
        if (!build_update(&s, k))
            return false;
    check_faults(&s);
    if (s.versions != NULL)
        versions_end(s.versions);
    build_outputs(&s);
    return diag_errors(e->diag) == 0;
}
