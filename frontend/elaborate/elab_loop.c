/* `repeat` as a loop region: the body is elaborated once, with a counter that stands for every
 * round.
 *
 * A trial runs the body in a graph of its own.  What the body rebinds is an argument there; x[:,
 * t] is an argument that scans x; the counter is an affine number that becomes a tensor where it
 * meets one.  Types and shapes that change from the first round to the second are tried again
 * until they hold (zeros() is weak before it is f32).  Whatever a loop cannot do - lists read by
 * t, layers made in the body, states written, conditions on t - is an error of the trial, which
 * nobody sees: the repeat is unrolled then.
 *
 * What does not depend on the round is moved in front of the loop.  Random values of all rounds
 * are drawn there at once, so that no two rounds share a draw. */
#include "frontend/elaborate/elab_loop.h"

#include <string.h>

#include "frontend/values/batch.h"

enum {
    LOOP_FROM = 8, /* rounds, if the options say nothing */
    MAX_TRIALS = 5
};

/* ---- what a trial may have touched, for when it fails ---- */

typedef struct Snapshot {
    Scope scope;
    LayerRecord *layers;
    StateRecord *states;
    StateValue *state_values;
    int n_layers, n_states, n_module_states, n_state_values, n_index_checks, n_averages,
        n_nodes;
    bool gave_up;
    Builder b;
    Value self;
    bool returned;
} Snapshot;

static void *copied(Elab *e, const void *v, size_t n, size_t size)
{
    void *copy = arena_array(e->arena, n + 1, size);
    if (n)
        memcpy(copy, v, n * size);
    return copy;
}

static Snapshot snapshot_take(Elab *e)
{
    Snapshot s = {.scope = e->frame->scope,
                  .n_layers = e->n_layers,
                  .n_states = e->n_states,
                  .n_module_states = e->module->n_states,
                  .n_state_values = e->n_state_values,
                  .n_index_checks = e->n_index_checks,
                  .n_averages = e->n_averages,
                  .n_nodes = e->b.graph->n_nodes,
                  .gave_up = e->gave_up,
                  .b = e->b,
                  .self = e->frame->self,
                  .returned = e->frame->returned};
    s.scope.v = copied(e, e->frame->scope.v, (size_t)e->frame->scope.n, sizeof *s.scope.v);
    s.scope.cap = s.scope.n + 1;
    s.layers = copied(e, e->layers, (size_t)e->n_layers, sizeof *s.layers);
    s.states = copied(e, e->states, (size_t)e->n_states, sizeof *s.states);
    s.state_values =
        copied(e, e->state_values, (size_t)e->n_state_values, sizeof *s.state_values);
    return s;
}

/* The graph around loses what the trial has moved there. */
static void snapshot_restore(Elab *e, const Snapshot *s)
{
    e->frame->scope = s->scope;
    e->frame->scope.v = copied(e, s->scope.v, (size_t)s->scope.n, sizeof *e->frame->scope.v);
    e->frame->scope.cap = s->scope.n + 1;
    if (s->n_layers)
        memcpy(e->layers, s->layers, (size_t)s->n_layers * sizeof *s->layers);
    if (s->n_states)
        memcpy(e->states, s->states, (size_t)s->n_states * sizeof *s->states);
    if (s->n_state_values)
        memcpy(e->state_values, s->state_values,
               (size_t)s->n_state_values * sizeof *s->state_values);
    e->n_layers = s->n_layers;
    e->n_states = s->n_states;
    e->module->n_states = s->n_module_states;
    e->n_state_values = s->n_state_values;
    e->n_index_checks = s->n_index_checks;
    e->n_averages = s->n_averages;
    e->gave_up = s->gave_up;
    e->b = s->b;
    e->b.graph->n_nodes = s->n_nodes;
    e->frame->self = s->self;
    e->frame->returned = s->returned;
}

/* ---- names ---- */

static bool is_carried(const LoopTrial *t, const char *name)
{
    for (int i = 0; i < t->n_carried; i++)
        if (strcmp(t->carried[i].name, name) == 0)
            return true;
    return false;
}

static void note_element(LoopTrial *t, const Ast *target)
{
    for (int i = 0; i < t->n_collected; i++)
        if (strcmp(t->collected[i].name, target->name) == 0)
            return;
    if (t->n_collected == t->cap_collected)
        t->collected =
            arena_grow(t->e->arena, t->collected, &t->cap_collected, sizeof *t->collected);
    const Binding *b = scope_find(&t->e->frame->scope, target->name);
    t->collected[t->n_collected++] = (Collected){
        .name = target->name, .before = b != NULL ? b->value : value_list(t->e, 0, NULL)};
}

/* A number is a scalar tensor at first; anything that cannot change from round to round is left
 * alone. */
static void note_name(LoopTrial *t, const Ast *target)
{
    const Binding *b = scope_find(&t->e->frame->scope, target->name);
    if (b == NULL || is_carried(t, target->name))
        return;
    Carried c = {.name = target->name, .before = b->value, .weak = true};
    if (b->value.kind == V_TENSOR) {
        c.type = (Type){.dtype = b->value.node->type.dtype, .shape = b->value.node->type.shape};
        c.weak = b->value.weak;
    } else if (value_is_number(&b->value)) {
        const bool integer = b->value.integer && dtype_holds(DT_I64, b->value.num);
        c.type = (Type){.dtype = b->value.kind == V_BOOL ? DT_BOOL : integer ? DT_I64 : DT_F64};
    } else {
        return;
    }
    if (t->n_carried == t->cap_carried)
        t->carried = arena_grow(t->e->arena, t->carried, &t->cap_carried, sizeof *t->carried);
    t->carried[t->n_carried++] = c;
}

/* Of a statement, of all statements of a body. */
static void note_targets(LoopTrial *t, const Ast *s)
{
    const Ast *lhs = s->kind == AST_ASSIGN ? s->kid[0] : NULL;
    for (int k = 0; lhs != NULL && k < lhs->n; k++) {
        if (ast_kid(lhs->kid[k], 1) != NULL)
            note_element(t, lhs->kid[k]);
        else
            note_name(t, lhs->kid[k]);
    }
    for (int k = 2; s->kind == AST_REPEAT && k < s->n; k++)
        note_name(t, s->kid[k]);
    for (int k = 0; k < s->n; k++)
        if (s->kid[k] != NULL && (s->kind == AST_BODY || s->kid[k]->kind == AST_BODY ||
                                  (s->kind == AST_IF && s->kid[k]->kind == AST_IF)))
            note_targets(t, s->kid[k]);
}

/* ---- one trial ---- */

/* The value before the loop, as the argument's type has it. */
static Node *initial_value(LoopTrial *t, const Carried *c)
{
    Builder b = t->outer;
    b.hint = elab_join(t->e, t->e->frame->prefix, c->name);
    if (value_is_number(&c->before))
        return batch_number(&c->before)
                   ? (loop_refuse(t, "a number of the batch size changes"), NULL)
                   : build_full(&b, c->type.dtype, &c->type.shape, value_number(&c->before));
    Node *n = c->before.node;
    if (!shape_equal(&n->type.shape, &c->type.shape))
        n = build_expand(&b, n, &c->type.shape);
    return build_cast(&b, n, c->type.dtype);
}

static void bind_names(LoopTrial *t)
{
    Elab *e = t->e;
    for (int i = 0; i < t->n_carried; i++) {
        Carried *c = &t->carried[i];
        const char *name = elab_join(e, e->frame->prefix, c->name);
        c->arg = loop_carried(&t->draft, name, initial_value(t, c), &c->type);
        scope_bind(e, &e->frame->scope, c->name, value_node(c->arg, c->weak), t->repeat->loc);
    }
    for (int i = 0; i < t->n_collected; i++) {
        t->collected[i].value = NULL;
        scope_bind(e, &e->frame->scope, t->collected[i].name, value_error(), t->repeat->loc);
    }
    scope_bind(e, &e->frame->scope, t->repeat->kid[2]->name,
               loop_counter_value(t->step, t->first), t->repeat->kid[2]->loc);
}

static bool touched(const LoopTrial *t, const Snapshot *s)
{
    const Elab *e = t->e;
    for (int i = 0; i < s->n_state_values; i++)
        if (e->state_values[i].now != s->state_values[i].now)
            return true;
    for (int i = s->n_state_values; i < e->n_state_values; i++)
        if (e->state_values[i].written)
            return true;
    for (int i = 0; i < e->n_layers; i++)
        if (e->layers[i].frame == e->frame->serial &&
            (i >= s->n_layers || s->layers[i].frame != e->frame->serial))
            return true;
    for (int i = s->n_states; i < e->n_states; i++)
        if (e->states[i].frame == e->frame->serial)
            return true;
    return e->n_index_checks != s->n_index_checks || e->n_averages != s->n_averages ||
           e->frame->returned || e->frame->self.list.n != s->self.list.n;
}

static bool run_trial(LoopTrial *t, const Snapshot *s)
{
    Elab *e = t->e;
    const int errors = diag_errors(e->diag);
    t->graph = loop_body_new(e->module, arena_printf(e->arena, "%s.loop", e->b.graph->name));
    t->outer = s->b;
    t->rounds = NULL;
    t->moved = NULL;
    t->cap_moved = t->n_varies = 0;
    loop_begin(&t->draft, &t->outer, t->graph, t->count, false);
    e->b.graph = t->graph;
    bind_names(t);
    e->loop = t;
    exec_body(e, t->repeat->kid[1]);
    e->loop = NULL;
    e->b = s->b;
    if (diag_errors(e->diag) == errors && touched(t, s))
        loop_refuse(t, "it makes or changes what outlives a round");
    return diag_errors(e->diag) == errors;
}

static bool marks_equal(const Shape *a, const Shape *b)
{
    return !memcmp(a->batch, b->batch, (size_t)a->rank * sizeof *a->batch);
}

/* Takes the type that a round leaves as the one that it finds; *same: it was so already. */
static bool adapt(LoopTrial *t, Carried *c, bool *same)
{
    const Binding *b = scope_find(&t->e->frame->scope, c->name);
    c->after = b->value;
    if (batch_number(&c->after))
        return loop_refuse(t, "a number of the batch size changes");
    if (value_is_number(&c->after) && !math_holds(t->e, c->type.dtype, &c->after))
        return loop_refuse(t, "a value changes its type");
    if (value_is_number(&c->after)) {
        Builder in = {.graph = t->graph, .loc = t->repeat->loc, .hint = c->name};
        c->after = value_node(
            build_full(&in, c->type.dtype, &c->type.shape, value_number(&c->after)), c->weak);
    }
    if (c->after.kind == V_COUNTER) {
        Builder in = {.graph = t->graph, .loc = t->repeat->loc, .hint = c->name};
        t->e->loop = t;
        t->e->b = in;
        c->after = loop_counter_tensor(t->e, &c->after);
        t->e->b = t->outer;
        t->e->loop = NULL;
    }
    if (c->after.kind != V_TENSOR || c->after.weight)
        return loop_refuse(t, "a value changes its kind");
    const Type *next = &c->after.node->type;
    const bool shape = shape_equal(&next->shape, &c->type.shape);
    const bool dtype = next->dtype == c->type.dtype;
    const bool scalar = c->type.shape.rank == 0;
    if ((!shape && !scalar) || (!dtype && !c->weak))
        return loop_refuse(t, "a value changes its type");
    if (shape && dtype && c->weak == c->after.weak && marks_equal(&next->shape, &c->type.shape))
        return true;
    *same = false;
    if (!math_holds(t->e, next->dtype, &c->before))
        return loop_refuse(t, "the first round's value is of another type");
    c->type = (Type){.dtype = next->dtype, .shape = next->shape};
    c->weak = c->after.weak;
    return true;
}

/* A number of the program is exact in whatever the rounds make of it; i64 would wrap. */
static bool numbers_stay_exact(LoopTrial *t, const Carried *c)
{
    if (!c->weak || dtype_class(c->type.dtype) != DTC_INT || !loop_inside(t, c->after.node) ||
        !loop_numbers(t, c->after.node))
        return true;
    t->e->loop = t;
    const bool counts = math_counts(t->e, c->after.node, c->arg, &c->before, t->count);
    t->e->loop = NULL;
    return counts || loop_refuse(t, "a number may become too large");
}

static bool adapt_all(LoopTrial *t, bool *same)
{
    *same = true;
    for (int i = 0; i < t->n_carried; i++)
        if (!adapt(t, &t->carried[i], same) || !numbers_stay_exact(t, &t->carried[i]))
            return false;
    for (int i = 0; i < t->n_collected; i++)
        if (t->collected[i].value == NULL || t->collected[i].before.kind != V_LIST)
            return loop_refuse(t, "a list does not get one element a round");
    return true;
}

/* ---- the trial has held ---- */

/* A name that the body has bound, and what it means behind the loop. */
typedef struct LoopResult {
    const char *name;
    /* The number of the loop's result that it is, or -1: it is `value` in every round. */
    int result;
    Value value;
    bool weak;
    SrcRange loc;
} LoopResult;

static bool loop_result_of(LoopTrial *t, const Binding *b, LoopResult *left)
{
    *left = (LoopResult){.name = b->name, .result = -1, .value = b->value, .loc = b->loc};
    const Value *v = &b->value;
    if (v->kind == V_COUNTER) {
        left->value = value_int(v->counter.base + v->counter.step * (t->count - 1));
        return true;
    }
    if (v->kind == V_LIST || v->kind == V_LAYER || v->kind == V_ERROR)
        return loop_refuse(t, "it leaves a list or a layer");
    if (v->kind != V_TENSOR)
        return true;
    if (!loop_varies(t, v->node)) {
        left->value.node = loop_move_out(t, v->node);
        return true;
    }
    const Type type = {.dtype = v->node->type.dtype, .shape = v->node->type.shape};
    Builder b0 = t->outer;
    b0.hint = elab_join(t->e, t->e->frame->prefix, b->name);
    loop_carried(&t->draft, b0.hint, build_full(&b0, type.dtype, &type.shape, 0), &type);
    loop_next(&t->draft, v->node);
    left->result = t->draft.n_next - 1;
    left->weak = v->weak;
    return true;
}

/* Elements of the list are slices of the stacked values. */
static Value collected_list(LoopTrial *t, const Collected *c, Node *all)
{
    Elab *e = t->e;
    const Shape *s = &all->type.shape;
    Shape element = {.rank = s->rank - 1};
    int64_t start[MAX_RANK] = {0}, step[MAX_RANK], size[MAX_RANK];
    for (int i = 0; i < s->rank; i++) {
        step[i] = 1;
        size[i] = i == 0 ? 1 : s->dim[i];
        if (i > 0) {
            element.dim[i - 1] = s->dim[i];
            element.batch[i - 1] = s->batch[i];
        }
    }
    const int64_t last = c->base + c->step * (t->count - 1);
    const int64_t top = (last > c->base ? last : c->base) + 1;
    const int n = c->before.list.n > top ? c->before.list.n : (int)top;
    Value *items = arena_array(e->arena, (size_t)n, sizeof *items);
    for (int i = 0; i < n; i++)
        items[i] = i < c->before.list.n ? c->before.list.v[i] : (Value){.kind = V_WILD};
    Builder b = t->outer;
    b.hint = elab_join(e, e->frame->prefix, c->name);
    for (int64_t i = 0; i < t->count; i++) {
        start[0] = i;
        Node *x = build_slice(&b, all, start, step, size);
        items[c->base + c->step * i] = value_node(build_reshape(&b, x, &element), c->weak);
    }
    return value_list_of(n, items);
}

static void bind_results(LoopTrial *t, Node *loop, const LoopResult *left, int n_left)
{
    Elab *e = t->e;
    for (int i = 0; i < t->n_carried; i++) {
        const char *hint = elab_join(e, e->frame->prefix, t->carried[i].name);
        scope_bind(e, &e->frame->scope, t->carried[i].name,
                   value_node(loop_result(&t->outer, loop, i, hint), t->carried[i].weak),
                   t->repeat->loc);
    }
    for (int i = 0; i < n_left; i++) {
        Value v = left[i].value;
        if (left[i].result >= 0)
            v = value_node(loop_result(&t->outer, loop, left[i].result, left[i].name),
                           left[i].weak);
        scope_bind(e, &e->frame->scope, left[i].name, v, left[i].loc);
    }
    for (int i = 0; i < t->n_collected; i++) {
        const Collected *c = &t->collected[i];
        const char *hint = elab_join(e, e->frame->prefix, c->name);
        Node *all = loop_stacked(&t->outer, loop, i, hint);
        scope_bind(e, &e->frame->scope, c->name, collected_list(t, c, all), c->loc);
    }
}

static bool collects_well(const LoopTrial *t)
{
    for (int i = 0; i < t->n_collected; i++) {
        const Collected *c = &t->collected[i];
        const int64_t last = c->base + c->step * (t->count - 1);
        if (c->base < 0 || last < 0 || c->base > 1 << 16 || last > 1 << 16)
            return false;
        for (int k = 0; k < i; k++)
            if (t->collected[k].value == c->value)
                return false; /* one stacked value would be two lists: rare */
    }
    return true;
}

static bool finish(LoopTrial *t, const Snapshot *s)
{
    Elab *e = t->e;
    const Scope *scope = &e->frame->scope;
    LoopResult *left = arena_array(e->arena, (size_t)scope->n + 1, sizeof *left);
    int n_left = 0;
    if (t->graph->n_nodes == 0)
        return loop_refuse(t, "nothing in it happens at run time");
    if (!collects_well(t))
        return false;
    for (int i = 0; i < t->n_carried; i++)
        loop_next(&t->draft, t->carried[i].after.node);
    for (int i = 0; i < scope->n; i++) {
        const Binding *b = &scope->v[i];
        bool known = is_carried(t, b->name);
        for (int k = 0; k < t->n_collected; k++)
            known |= strcmp(t->collected[k].name, b->name) == 0;
        if (known || (i < s->scope.n && b->value.kind != V_COUNTER &&
                      !memcmp(&b->value, &s->scope.v[i].value, sizeof b->value)))
            continue;
        if (!loop_result_of(t, b, &left[n_left++]))
            return false;
    }
    for (int i = 0; i < t->n_collected; i++)
        loop_stack(&t->draft, t->collected[i].value);
    for (int i = 0; i < t->draft.n_next; i++)
        t->draft.next[i] = loop_in_body(t, t->draft.next[i]);
    for (int i = 0; i < t->draft.n_stack; i++)
        t->draft.stack[i] = loop_in_body(t, t->draft.stack[i]);
    loop_close_body(t);
    Node *loop = loop_end(&t->draft, elab_join(e, e->frame->prefix, "loop"));
    graph_drop_dead(t->graph);
    bind_results(t, loop, left, n_left);
    e->n_state_values = s->n_state_values; /* their nodes were the body's */
    return true;
}

static bool try_loop(LoopTrial *t, const Snapshot *s)
{
    for (int i = 0; i < MAX_TRIALS; i++) {
        bool same;
        if (i > 0)
            snapshot_restore(t->e, s);
        if (!run_trial(t, s) || !adapt_all(t, &same))
            return false;
        if (same)
            return finish(t, s);
    }
    return loop_refuse(t, "a value changes its type again and again");
}

/* first + step * i for all of them? */
static bool is_progression(const Value *v, int n, LoopTrial *t)
{
    if (!loop_whole_number(&v[0], &t->first) || n < 2)
        return false;
    for (int i = 1; i < n; i++) {
        int64_t x;
        if (!loop_whole_number(&v[i], &x))
            return false;
        if (i == 1)
            t->step = x - t->first;
        if (x != t->first + t->step * i)
            return false;
    }
    return t->step != 0;
}

static bool may_loop(const Elab *e, const Ast *s, int n)
{
    const int from = e->options->loop_from > 0 ? e->options->loop_from : LOOP_FROM;
    const bool run_time = e->b.graph != e->scratch && e->constant == NULL;
    return n >= from && n >= 2 && s->n == 3 && e->loop == NULL && run_time &&
           (e->frame->kind == FRAME_FN || e->frame->kind == FRAME_BLOCK ||
            e->frame->kind == FRAME_MODEL);
}

bool loop_repeat(Elab *e, const Ast *s, const Value *v, int n)
{
    LoopTrial t = {.e = e, .repeat = s, .count = n};
    if (!may_loop(e, s, n) || !is_progression(v, n, &t))
        return false;
    note_targets(&t, s->kid[1]);
    const Snapshot before = snapshot_take(e);
    const int quiet = diag_hush(e->diag);
    const bool ok = try_loop(&t, &before);
    diag_unhush(e->diag, quiet);
    if (!ok)
        snapshot_restore(e, &before);
    return ok;
}
