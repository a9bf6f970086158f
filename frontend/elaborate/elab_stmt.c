/* Runs the statements that all bodies have: bindings, states and their updates, if, repeat and
 * return. */
#include "frontend/elaborate/elab.h"

#include <string.h>

enum {
    MAX_REPEAT = 1 << 20,
    MAX_INDEX = 1 << 16,
    MAX_WORK = 20000000,
    MAX_NODES = 1000000,
    MAX_BYTES = 1 << 30
};

const Ast *ast_kid(const Ast *t, int i)
{
    return i < t->n ? t->kid[i] : NULL;
}

bool elab_tick(Elab *e, SrcRange at)
{
    if (e->gave_up)
        return false;
    e->work++;
    const bool large = e->b.graph->n_nodes > MAX_NODES || arena_used(e->arena) > MAX_BYTES;
    if (e->work <= MAX_WORK && !large && !diag_full(e->diag))
        return true;
    if (!diag_full(e->diag))
        diag_error(e->diag, at,
                   large ? "the program becomes too large here"
                         : "evaluating the program takes too long (more than %d steps)",
                   MAX_WORK);
    e->gave_up = true;
    return false;
}

/* Layers get the dotted path of the name that owns them, but a fn owns nothing. */
static bool frame_owns(const Frame *f)
{
    return f->kind == FRAME_BLOCK || f->kind == FRAME_MODEL;
}

/* Binds a name in the current frame; layers and params without a name get the path of this one. */
static void elab_bind(Elab *e, const char *name, Value v, SrcRange loc)
{
    if (strcmp(name, "_") == 0)
        return;
    if (frame_owns(e->frame))
        v = elab_adopt(e, v, elab_join(e, e->frame->path, name), loc);
    scope_bind(e, &e->frame->scope, name, v, loc);
}

/* name[i] = v or self[i] = v: the list grows by what is missing. */
static void bind_element(Elab *e, const Ast *target, Value v)
{
    const Ast *sub = target->kid[1];
    const Value index = eval(e, sub);
    int64_t i;
    if (index.kind == V_COUNTER) {
        loop_collect(e, target, &index, &v);
        return;
    }
    if (!value_to_int(e, &index, sub->loc, "the index", &i))
        return;
    if (i < 0 || i >= MAX_INDEX) {
        diag_error(e->diag, sub->loc, "index %lld is outside 0 .. %d", (long long)i, MAX_INDEX);
        return;
    }
    const bool self = strcmp(target->name, "self") == 0;
    if (self && !frame_owns(e->frame)) {
        diag_error(e->diag, target->loc, "`self` means something only in a block");
        return;
    }
    const Binding *b = self ? NULL : scope_find(&e->frame->scope, target->name);
    Value list = self ? e->frame->self : b ? b->value : value_list(e, 0, NULL);
    if (list.kind == V_ERROR)
        return;
    if (list.kind != V_LIST) {
        diag_error(e->diag, target->loc,
                   "'%s' is %s; only an element of a list can be given a value", target->name,
                   value_what(e, &list));
        return;
    }
    if (frame_owns(e->frame)) {
        const char *base = self ? e->frame->path : elab_join(e, e->frame->path, target->name);
        v = elab_adopt(e, v, elab_join(e, base, arena_printf(e->arena, "%lld", (long long)i)),
                       target->loc);
    }
    const int n = list.list.n > i ? list.list.n : (int)i + 1;
    Value *items = arena_array(e->arena, (size_t)n, sizeof *items);
    for (int k = 0; k < n; k++)
        items[k] = k < list.list.n ? list.list.v[k] : (Value){.kind = V_WILD};
    items[i] = v;
    list = value_list_of(n, items);
    if (!list_checked(e, &list, target->loc))
        return;
    if (self)
        e->frame->self = list;
    else
        scope_bind(e, &e->frame->scope, target->name, list, target->loc);
}

/* For --emit=hdl: the types of the model's own bindings; none where one in a loop has several. */
static void note_type(Elab *e, const Ast *target, const Value *v)
{
    Ast *noted = (Ast *)target;
    if (e->frame->kind != FRAME_MODEL)
        return;
    if (v->kind != V_TENSOR || v->weak ||
        (noted->type && !type_equal(noted->type, &v->node->type))) {
        noted->flag = true;
        return;
    }
    Type *t = arena_alloc(e->arena, sizeof *t);
    *t = v->node->type;
    noted->type = t;
}

static void bind_target(Elab *e, const Ast *target, Value v)
{
    const Ast *type = ast_kid(target, 0);
    if (type != NULL &&
        !type_match(e, type, &v, target->loc, arena_printf(e->arena, "'%s'", target->name)))
        v = value_error();
    if (ast_kid(target, 1) != NULL)
        bind_element(e, target, v);
    else
        elab_bind(e, target->name, v, target->name_loc);
    note_type(e, target, &v);
}

static const char *target_hint(Elab *e, const Ast *target)
{
    if (strcmp(target->name, "_") == 0)
        return e->frame->return_hint;
    const bool self = strcmp(target->name, "self") == 0;
    return self ? e->frame->prefix : elab_join(e, e->frame->prefix, target->name);
}

static void exec_assign(Elab *e, const Ast *s)
{
    const Ast *lhs = s->kid[0];
    const char *name = lhs->kid[0]->name;
    e->b.hint = target_hint(e, lhs->kid[0]);
    const int outer = making_begin(e, strcmp(name, "_") != 0 ? name : NULL);
    const Value v = eval(e, s->kid[1]);
    making_end(e, outer);
    if (lhs->n == 1) {
        bind_target(e, lhs->kid[0], v);
        return;
    }
    int n = lhs->n;
    Value *items = NULL;
    const bool list = value_elements(e, &v, &n, &items);
    if (v.kind != V_ERROR && (!list || n != lhs->n)) {
        diag_error(e->diag, s->kid[1]->loc, "%d names are given %s", lhs->n,
                   list ? arena_printf(e->arena, "%d value%s", n, n == 1 ? "" : "s")
                        : value_what(e, &v));
        items = NULL;
    }
    for (int i = 0; i < lhs->n; i++)
        bind_target(e, lhs->kid[i], items != NULL ? items[i] : value_error());
}

/* The role of what the running body calls a state. */
static StateRole role_here(const Frame *f)
{
    return f->kind == FRAME_OPTIM   ? ROLE_OPTIM
           : f->kind == FRAME_SCHED ? ROLE_SCHEDULE
                                    : ROLE_BUFFER;
}

/* The full name of state `name` of the running body. */
static const char *state_name(Elab *e, const char *name)
{
    const Frame *f = e->frame;
    const StateRole role = role_here(f);
    if (role == ROLE_BUFFER)
        return elab_join(e, f->path, name);
    const char *wanted = arena_printf(e->arena, "%s.%s", f->state_prefix, name);
    if (role == ROLE_OPTIM)
        wanted = arena_printf(e->arena, "%s.%s", wanted, f->parameter);
    return state_added_name(e, role, wanted);
}

static void exec_state(Elab *e, const Ast *s)
{
    const Frame *f = e->frame;
    const Ast *init = ast_kid(s, 1);
    Type type = {.dtype = f->state_dtype};
    Dist dist = {.arg = {value_int(0)}, .loc = s->loc};
    if (!frame_owns(f) && f->kind != FRAME_OPTIM && f->kind != FRAME_SCHED) {
        diag_error(e->diag, s->loc,
                   "`state` belongs in a block, a model, an optimizer or a schedule");
        return;
    }
    if (ast_kid(s, 0) != NULL) {
        if (!type_eval(e, s->kid[0], &type, false))
            return;
    } else if (f->kind == FRAME_OPTIM) {
        type.shape = *f->state_shape;
    } else {
        diag_error(e->diag, s->loc,
                   "the state '%s' needs a type, as in `state %s : f32[C] = 0`", s->name,
                   s->name);
        return;
    }
    if (init != NULL) {
        const Value v = eval(e, init);
        if (!dist_from(e, &v, init->loc, &dist))
            return;
    }
    const State state = {.name = state_name(e, s->name),
                         .type = type,
                         .role = role_here(f),
                         .parameter = f->kind == FRAME_OPTIM ? f->parameter : NULL,
                         .loc = s->name_loc};
    Value v = state_declare(e, &state, &dist);
    scope_bind(e, &e->frame->scope, s->name, v, s->name_loc);
}

/* `m := v`: after it, `m` is the new value. */
static void exec_next(Elab *e, const Ast *s)
{
    const char *name = state_name(e, s->name);
    const State *state = module_state(e->module, name);
    const Binding *b = scope_find(&e->frame->scope, s->name);
    e->b.hint = elab_join(e, e->frame->prefix, arena_printf(e->arena, "%s.next", s->name));
    const int outer = making_begin(e, s->name);
    const Value v = eval(e, s->kid[0]);
    making_end(e, outer);
    if (v.kind == V_ERROR || (b != NULL && b->value.kind == V_ERROR))
        return;
    if (state == NULL || b == NULL) {
        diag_error(e->diag, s->name_loc,
                   "'%s' is no state of this body; `:=` needs `state %s ...` before it",
                   s->name, s->name);
        return;
    }
    const Type type = state->type;
    const SrcRange loc = state->loc;
    Node *n = math_cast(e, &v, type.dtype, s->kid[0]->loc, "the new value of a state");
    if (n == NULL)
        return;
    if (n->type.shape.rank == 0)
        n = build_expand(&e->b, n, &type.shape);
    if (n != NULL && !shape_equal(&n->type.shape, &type.shape)) {
        diag_error(e->diag, s->loc, "the state '%s' is %s, but its new value is %s", s->name,
                   type_text(e->arena, &type), type_text(e->arena, &n->type));
        diag_note(e->diag, loc, "the state is declared here");
        return;
    }
    n = state_new_value(e, n);
    state_next(e, name, n, s->loc);
    scope_bind(e, &e->frame->scope, s->name, value_node(n, false), s->name_loc);
}

static void exec_return(Elab *e, const Ast *s)
{
    Frame *f = e->frame;
    if (f->kind == FRAME_MODEL || f->kind == FRAME_TRAIN) {
        diag_error(e->diag, s->loc,
                   "`return` belongs in a fn, a block, an optimizer or a schedule");
        return;
    }
    e->b.hint = f->return_hint;
    Value *v = arena_array(e->arena, (size_t)s->n, sizeof *v);
    const int outer = making_begin(e, NULL);
    for (int i = 0; i < s->n; i++)
        v[i] = eval(e, s->kid[i]);
    making_end(e, outer);
    f->result = s->n == 1 ? v[0] : value_list_of(s->n, v);
    f->returned = true;
}

static void exec_stmt(Elab *e, const Ast *s);

static void exec_if(Elab *e, const Ast *s)
{
    const Value c = eval(e, s->kid[0]);
    bool b;
    if (!value_to_bool(e, &c, s->kid[0]->loc, "the condition of `if`", &b))
        return;
    const Ast *branch = ast_kid(s, b ? 1 : 2);
    if (branch == NULL)
        return;
    if (branch->kind == AST_IF)
        exec_stmt(e, branch);
    else
        exec_body(e, branch);
}

/* One name: the element; more: the index and then the element, taken apart if need be. */
static bool bind_iteration(Elab *e, const Ast *s, int i, Value v)
{
    const int names = s->n - 2;
    if (names == 1) {
        elab_bind(e, s->kid[2]->name, v, s->kid[2]->loc);
        return true;
    }
    elab_bind(e, s->kid[2]->name, value_int(i), s->kid[2]->loc);
    if (names == 2) {
        elab_bind(e, s->kid[3]->name, v, s->kid[3]->loc);
        return true;
    }
    if (v.kind != V_LIST || v.list.n != names - 1) {
        diag_error(e->diag, s->kid[0]->loc, "%d names for %s", names - 1, value_what(e, &v));
        return false;
    }
    for (int k = 1; k < names; k++)
        elab_bind(e, s->kid[2 + k]->name, v.list.v[k - 1], s->kid[2 + k]->loc);
    return true;
}

/* After a mistake in a loop: what the rounds left out would have bound is unknown, quietly. */
static void poison(Elab *e, const Ast *body)
{
    for (int i = 0; i < body->n; i++) {
        const Ast *s = body->kid[i];
        const Ast *lhs = s != NULL && s->kind == AST_ASSIGN ? s->kid[0] : NULL;
        for (int k = 0; lhs != NULL && k < lhs->n; k++)
            scope_bind(e, &e->frame->scope, lhs->kid[k]->name, value_error(), lhs->kid[k]->loc);
        if (s != NULL && (s->kind == AST_REPEAT || s->kind == AST_IF))
            for (int k = 1; k < s->n; k++)
                if (s->kid[k] != NULL && s->kid[k]->kind == AST_BODY)
                    poison(e, s->kid[k]);
    }
}

static void exec_repeat(Elab *e, const Ast *s)
{
    const Value over = eval(e, s->kid[0]);
    int n;
    Value *v;
    if (over.kind == V_ERROR)
        return;
    if (!value_elements(e, &over, &n, &v)) {
        if (over.kind == V_TENSOR)
            elab_not_static(e, &over, s->kid[0]->loc, "what `repeat` goes over");
        else
            diag_error(e->diag, s->kid[0]->loc, "`repeat` goes over a range or a list, not %s",
                       value_what(e, &over));
        return;
    }
    if (n > MAX_REPEAT) {
        diag_error(e->diag, s->kid[0]->loc, "%d repetitions are too many (at most %d)", n,
                   MAX_REPEAT);
        return;
    }
    if (loop_repeat(e, s, v, n))
        return;
    for (int i = 0; i < n && !e->frame->returned && !e->gave_up; i++) {
        const int errors = diag_errors(e->diag);
        if (!bind_iteration(e, s, i, v[i]))
            return;
        exec_body(e, s->kid[1]);
        /* The next round would say the same again. */
        if (diag_errors(e->diag) > errors) {
            poison(e, s->kid[1]);
            return;
        }
    }
}

/* What stands in a body other than the train section's. */
static void (*const executors[AST_KIND_COUNT])(Elab *e, const Ast *s) = {
    [AST_ASSIGN] = exec_assign,
    [AST_STATE] = exec_state,
    [AST_NEXT] = exec_next,
    [AST_RETURN] = exec_return,
    [AST_IF] = exec_if,
    [AST_REPEAT] = exec_repeat,
    [AST_INPUT] = exec_input,
    [AST_TARGET] = exec_input,
    [AST_LOSS] = exec_objective,
    [AST_OUTPUT] = exec_output,
    [AST_METRIC] = exec_objective,
};

static void exec_one(Elab *e, const Ast *s)
{
    if (executors[s->kind] != NULL)
        executors[s->kind](e, s);
    else
        e->train_statement(e, s);
}

static void exec_stmt(Elab *e, const Ast *s)
{
    if (s == NULL || e->frame->returned || frame_failed(e) || !elab_tick(e, s->loc))
        return;
    const char *hint = e->b.hint;
    const SrcRange loc = e->b.loc;
    e->b.loc = s->loc;
    exec_one(e, s);
    e->b.hint = hint;
    e->b.loc = loc;
}

void exec_body(Elab *e, const Ast *body)
{
    for (int i = 0; i < body->n; i++)
        exec_stmt(e, body->kid[i]);
}
