/* Schedules: the factor that the learning rate is multiplied with, per epoch or per step.  A
 * chain of schedules, `A(..) then B(..)`, runs one after the other. */
#include "frontend/train/train.h"

#include <math.h>
#include <string.h>

int param_named(const Ast *params, const char *name)
{
    for (int i = 0; i < params->n; i++)
        if (strcmp(params->kid[i]->name, name) == 0)
            return i;
    return -1;
}

/* After how many epochs (or steps) a schedule hands over to the next. */
static Value schedule_length(Elab *e, const BoundDefinition *b)
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

void bind_all(Elab *e, const BoundDefinition *b)
{
    for (int i = 0; i < b->n; i++)
        scope_bind(e, &e->frame->scope, b->def->kid[0]->kid[i]->name, b->arg[i], b->loc[i]);
}

/* The factor of one schedule at `epoch`. */
static Value schedule_factor(Elab *e, const BoundDefinition *b, Value epoch, Value epochs,
                             Value lr)
{
    diag_push_call(e->diag, b->call, b->def->name);
    Frame *f = frame_push(e, FRAME_SCHED, b->def, "", "schedule");
    f->state_prefix = e->n_schedules == 0
                          ? "schedule"
                          : arena_printf(e->arena, "schedule.%d", e->n_schedules);
    e->n_schedules++;
    bind_all(e, b);
    scope_bind(e, &e->frame->scope, "epoch", epoch, b->call);
    scope_bind(e, &e->frame->scope, "run_length", epochs, b->call);
    if (param_named(b->def->kid[0], "epochs") < 0)
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

Value schedule_chain(Elab *e, const Schedule *c, Value lr)
{
    const SrcRange at = c->loc;
    Value epoch = value_node(build_scalar(&e->b, RUN_EPOCH), true);
    Value epochs = value_node(build_scalar(&e->b, RUN_EPOCHS), true);
    if (c->per_step) {
        epochs = math_binary(e, OP_MUL, epochs,
                             value_node(build_scalar(&e->b, RUN_STEPS_PER_EPOCH), true), at);
        if (e->accumulate > 1)
            epochs = math_binary(e, OP_FDIV, epochs, value_int(e->accumulate), at);
        epoch = value_node(build_cast(&e->b, steps_done(e), DT_F64), true);
    }
    Value start = value_num(0, true), result = value_error();
    for (int i = 0; i < c->n; i++) {
        if (c->part[i].kind != V_SCHED)
            return value_error();
        const BoundDefinition *b = c->part[i].bound;
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
