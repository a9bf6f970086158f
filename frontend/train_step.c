/* The graph of one training step: gradients, clipping, the optimizer for each parameter, and the predicate
 * that keeps the state of a model whose step went wrong. */
#include "frontend/train.h"

#include <string.h>

/* A parameter that is trained. */
typedef struct Trained {
    const char *name;
    Type type;
    Node *grad;
    bool no_decay;
} Trained;

typedef struct Step {
    Elab *e;
    Train *train;
    Update *update;
    Node *loss, *ok;
    Trained *params;
    int n_params;
    Value factor; /* of the schedule: NUM or weak scalar */
    Value lr;     /* with the factor; NONE: the optimizer has none */
    const char *state_prefix;
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
                (Trained){.name = st->name, .type = st->type, .no_decay = no_decay};
    }
    unused_patterns(e, t->freeze, t->n_freeze);
    unused_patterns(e, t->no_decay, t->n_no_decay);
    if (s->n_params == 0 && diag_errors(e->diag) == 0)
        diag_error(e->diag, s->update->loc, "there is no parameter to train");
    return diag_errors(e->diag) == 0;
}

static bool find_loss(Step *s)
{
    Elab *e = s->e;
    Value v = s->update->loss;
    SrcRange at = s->update->loc;
    if (s->update->clause == NULL) {
        const Named *n = named_find(e, AST_LOSS, NULL);
        v = n->value;
        at = n->loc;
    }
    s->loss = math_strong(e, &v, at, "the loss");
    if (s->loss == NULL)
        return false;
    if (s->loss->type.shape.rank != 0 || dtype_class(s->loss->type.dtype) != DTC_REAL) {
        diag_error(e->diag, at, "the loss must be one real number per model, not %s",
                   value_what(e, &v));
        return false;
    }
    e->b.loc = at;
    return true;
}

static Node *both(Elab *e, Node *a, Node *b)
{
    e->b.hint = "ok";
    return a == NULL ? b : build2(&e->b, OP_AND, a, b);
}

static void build_gradients(Step *s)
{
    Elab *e = s->e;
    e->b.hint = "ok";
    s->ok = build1(&e->b, OP_ISFINITE, s->loss);
    for (int i = 0; i < s->n_params; i++) {
        Trained *p = &s->params[i];
        e->b.hint = arena_printf(e->arena, "%s.grad", p->name);
        p->grad = build2(&e->b, OP_GRAD, s->loss, state_now(e, p->name));
    }
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
    for (int i = 0; i < e->n_faults; i++)
        s->ok =
            both(e, s->ok,
                 build2(&e->b, OP_LT, e->faults[i].position, build_const(&e->b, DT_I64, 0)));
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
    for (int i = 0; i < s->n_params; i++) {
        Trained *p = &s->params[i];
        e->b.hint = arena_printf(e->arena, "%s.clipped", p->name);
        const Value g = math_binary(e, OP_MUL, value_node(p->grad, false), factor, c->loc);
        p->grad = g.kind == V_TENSOR ? g.node : NULL;
    }
}

static void clip_value(Step *s, const Clip *c)
{
    Elab *e = s->e;
    const Value low = math_unary(e, OP_NEG, c->limit, c->loc);
    for (int i = 0; i < s->n_params; i++) {
        Trained *p = &s->params[i];
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

static int param_named(const Ast *params, const char *name)
{
    for (int i = 0; i < params->n; i++)
        if (strcmp(params->kid[i]->name, name) == 0)
            return i;
    return -1;
}

/* After how many epochs (or steps) a schedule hands over to the next. */
static Value schedule_length(Elab *e, const Bound *b)
{
    static const char *const names[] = {"total_iters", "T_max", "total_steps", "length"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int k = param_named(b->def->kid[0], names[i]);
        if (k >= 0)
            return b->arg[k];
    }
    diag_error(e->diag, b->call, "the schedule %s has no length, so nothing can come after it",
               b->def->name);
    return value_error();
}

static void bind_all(Elab *e, const Bound *b)
{
    for (int i = 0; i < b->n; i++)
        scope_bind(e, &e->frame->scope, b->def->kid[0]->kid[i]->name, b->arg[i], b->loc[i]);
}

/* The factor of one schedule at `epoch`. */
static Value schedule_factor(Elab *e, const Bound *b, Value epoch, Value epochs, Value lr)
{
    diag_push_call(e->diag, b->call, b->def->name);
    frame_push(e, FRAME_SCHED, b->def, "", "schedule");
    bind_all(e, b);
    scope_bind(e, &e->frame->scope, "epoch", epoch, b->call);
    scope_bind(e, &e->frame->scope, "epochs", epochs, b->call);
    if (param_named(b->def->kid[0], "lr") < 0)
        scope_bind(e, &e->frame->scope, "lr", lr, b->call);
    Value v = run_definition(e, b->def->kid[1], "schedule");
    frame_pop(e);
    if (v.kind != V_ERROR)
        v = value_node(math_scalar(e, &v, b->call, "the factor of a schedule"), true);
    diag_pop_call(e->diag);
    return v;
}

static Value schedule_chain(Step *s, const Schedule *c, Value lr)
{
    Elab *e = s->e;
    const SrcRange at = c->loc;
    Value epoch = value_node(build_scalar(&e->b, "epoch"), true);
    Value epochs = value_node(build_scalar(&e->b, "epochs"), true);
    if (c->per_step) {
        epochs = math_binary(e, OP_MUL, epochs,
                             value_node(build_scalar(&e->b, "steps_per_epoch"), true), at);
        epoch = value_node(build_cast(&e->b, random_step(e), DT_F64), true);
    }
    Value start = value_num(0, true), result = value_error();
    for (int i = 0; i < c->n; i++) {
        if (c->part[i].kind != V_SCHED)
            return value_error();
        const Bound *b = c->part[i].bound;
        const Value own = i == 0 ? epoch : math_binary(e, OP_SUB, epoch, start, at);
        const Value f = schedule_factor(e, b, own, epochs, lr);
        if (f.kind == V_ERROR)
            return f;
        result =
            i == 0 ? f : math_where(e, math_binary(e, OP_LT, epoch, start, at), result, f, at);
        if (i + 1 < c->n)
            start = math_binary(e, OP_ADD, start, schedule_length(e, b), at);
    }
    return result;
}

static void build_schedule(Step *s)
{
    Elab *e = s->e;
    const Schedule *own = &s->update->schedule, *c = own->n > 0 ? own : &s->train->schedule;
    const Bound *opt = s->update->optimizer.bound;
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
    s->factor = schedule_chain(s, c, opt->arg[k]);
    e->b.hint = "lr";
    s->lr = math_binary(e, OP_MUL, opt->arg[k], s->factor, c->loc);
}

/* The optimizer's parameters in its frame: lr with the schedule's factor, no weight decay where none is due. */
static void bind_optimizer(Step *s, const Bound *b, const Trained *p)
{
    Elab *e = s->e;
    const int lr = param_named(b->def->kid[0], "lr"),
              decay = param_named(b->def->kid[0], "weight_decay");
    bind_all(e, b);
    if (lr >= 0)
        scope_bind(e, &e->frame->scope, "lr", s->lr, b->loc[lr]);
    if (decay >= 0 && p->no_decay)
        scope_bind(e, &e->frame->scope, "weight_decay", value_num(0, true), b->loc[decay]);
}

static void update_param(Step *s, const Trained *p)
{
    Elab *e = s->e;
    const Bound *b = s->update->optimizer.bound;
    const Ast *head = b->def->kid[1];
    if (head->n != 2) {
        diag_error(e->diag, b->def->name_loc,
                   "an optimizer works `on (p, g)`: the parameter and its gradient");
        return;
    }
    diag_push_call(e->diag, b->call, b->def->name);
    Frame *f = frame_push(e, FRAME_OPTIM, b->def, "", p->name);
    f->state_prefix = s->state_prefix;
    f->state_suffix = p->name;
    f->state_shape = &p->type.shape;
    f->state_dtype = p->type.dtype;
    bind_optimizer(s, b, p);
    scope_bind(e, &f->scope, head->kid[0]->name, value_node(state_now(e, p->name), false),
               b->call);
    scope_bind(e, &f->scope, head->kid[1]->name, value_node(p->grad, false), b->call);
    const Value v =
        run_definition(e, b->def->kid[2], arena_printf(e->arena, "%s.next", p->name));
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

static void add_result(Elab *e, const char *name, Node *v, SrcRange loc)
{
    e->b.hint = name;
    const Output o = {.kind = OUT_RESULT,
                      .name = name,
                      .value = v ? build_cast(&e->b, v, DT_F64) : NULL,
                      .loc = loc};
    if (o.value != NULL)
        graph_add_output(e->b.graph, &o);
}

static void write_state(Step *s, const char *name, Node *next, SrcRange loc)
{
    Elab *e = s->e;
    e->b.hint = arena_printf(e->arena, "%s.kept", name);
    e->b.loc = loc;
    const Output o = {.kind = OUT_STATE,
                      .name = name,
                      .value = build3(&e->b, OP_WHERE, s->ok, next, build_state(&e->b, name)),
                      .loc = loc};
    if (o.value != NULL)
        graph_add_output(e->b.graph, &o);
}

static void build_outputs(Step *s)
{
    Elab *e = s->e;
    const SrcRange loc = s->update->loc;
    e->b.loc = loc;
    add_result(e, "loss", s->loss, loc);
    add_result(e, "ok", s->ok, loc);
    add_result(e, "schedule", math_scalar(e, &s->factor, loc, "the factor of a schedule"), loc);
    entry_add_faults(e);
    for (int i = 0; i < e->n_currents; i++)
        if (e->currents[i].written)
            write_state(s, e->currents[i].name, e->currents[i].now, e->currents[i].loc);
    e->b.hint = "$step.next";
    Node *step =
        build2(&e->b, OP_ADD, build_state(&e->b, "$step"), build_const(&e->b, DT_I64, 1));
    write_state(s, "$step", step, loc);
}

bool train_step_build(Elab *e, Train *t)
{
    Step s = {.e = e, .train = t, .update = &t->updates[0], .state_prefix = "optimizer"};
    e->frame = NULL;
    e->b.loc = s.update->loc;
    if (!find_loss(&s) || !collect_params(&s))
        return false;
    build_gradients(&s);
    check_gradients(&s);
    clip(&s);
    build_schedule(&s);
    if (diag_errors(e->diag) > 0)
        return false;
    for (int i = 0; i < s.n_params && diag_errors(e->diag) == 0; i++)
        update_param(&s, &s.params[i]);
    if (diag_errors(e->diag) > 0)
        return false;
    build_outputs(&s);
    return diag_errors(e->diag) == 0;
}
