/* Calls: evaluates the arguments, assigns them to parameters by position or name, fills in the
 * defaults, and runs what is called - a function of the program, a built-in or a layer. */
#include "frontend/elaborate/elab.h"

#include <string.h>

Frame *frame_push(Elab *e, FrameKind kind, const Ast *def, const char *path, const char *prefix)
{
    Frame *f = arena_alloc(e->arena, sizeof *f);
    *f = (Frame){.up = e->frame,
                 .kind = kind,
                 .def = def,
                 .path = path,
                 .prefix = prefix,
                 .serial = ++e->serials,
                 .self = value_list(e, 0, NULL),
                 .errors = diag_errors(e->diag),
                 .library = def != NULL && def->loc.file >= 0 &&
                            diag_is_library(e->diag, def->loc.file),
                 .return_hint = prefix};
    e->frame = f;
    return f;
}

void frame_pop(Elab *e)
{
    e->frame = e->frame->up;
}

bool frame_failed(const Elab *e)
{
    return e->frame->library && diag_errors(e->diag) > e->frame->errors;
}

Value run_definition(Elab *e, const Ast *body, const char *hint)
{
    const char *saved = e->b.hint;
    Value v;
    e->frame->return_hint = hint;
    e->b.hint = hint;
    if (body->kind == AST_BODY) {
        exec_body(e, body);
        v = e->frame->returned ? e->frame->result : value_none();
    } else {
        v = eval(e, body);
    }
    e->b.hint = saved;
    return frame_failed(e) ? value_error() : v;
}

static int param_index(const Ast *params, const char *name)
{
    for (int i = 0; i < params->n; i++)
        if (strcmp(params->kid[i]->name, name) == 0)
            return i;
    return -1;
}

static void unknown_argument(Elab *e, const char *callee, const Ast *params, const Arg *a)
{
    const char **names = arena_array(e->arena, (size_t)params->n, sizeof *names);
    for (int i = 0; i < params->n; i++)
        names[i] = params->kid[i]->name;
    const char *closest = diag_closest(a->name, names, params->n);
    if (closest != NULL)
        diag_error(e->diag, a->loc, "%s() has no argument '%s'; did you mean '%s'?", callee,
                   a->name, closest);
    else
        diag_error(e->diag, a->loc, "%s() has no argument '%s'", callee, a->name);
}

/* "'a', 'b' and 'c'" of those that are required and not given. */
static void missing_arguments(Elab *e, const char *callee, const Ast *params, const bool *given,
                              SrcRange at)
{
    Text t;
    int n = 0, left = 0;
    text_init(&t, e->arena);
    for (int i = 0; i < params->n; i++)
        n += !given[i] && ast_kid(params->kid[i], 1) == NULL;
    left = n;
    for (int i = 0; i < params->n; i++) {
        if (given[i] || ast_kid(params->kid[i], 1) != NULL)
            continue;
        text_printf(&t, "%s'%s'",
                    left == n   ? ""
                    : left == 1 ? " and "
                                : ", ",
                    params->kid[i]->name);
        left--;
    }
    diag_error(e->diag, at, "%s() is missing its argument%s %s", callee, n == 1 ? "" : "s",
               t.s);
}

/*
 * A number for a switch of the library is a size in the wrong place: PyTorch's Linear(64, 10) would
 * be 64 features and a bias.
 */
static bool switch_checked(Elab *e, const char *callee, const Ast *param, const Arg *a)
{
    const Ast *preset = ast_kid(param, 1);
    if (preset == NULL || (preset->kind != AST_TRUE && preset->kind != AST_FALSE) ||
        a->v.kind != V_NUM || param->loc.file < 0 || !diag_is_library(e->diag, param->loc.file))
        return true;
    const double v = value_number(&a->v);
    if (v == 0 || v == 1)
        return true;
    const bool layer = callee[0] >= 'A' && callee[0] <= 'Z';
    diag_error(e->diag, a->loc, "argument '%s' of %s() is true or false, not %s%s", param->name,
               callee, value_what(e, &a->v),
               layer ? "; sizes that the input tells (in_features and the like) are not given"
                     : "");
    return false;
}

bool args_bind(Elab *e, const char *callee, const Ast *params, const Args *args, Value *out,
               SrcRange *locs, bool *given)
{
    bool ok = true;
    int position = 0;
    for (int i = 0; i < args->n; i++) {
        const Arg *a = &args->a[i];
        const int k = a->name != NULL ? param_index(params, a->name) : position++;
        if (a->v.kind == V_ERROR)
            ok = false;
        if (k < 0) {
            unknown_argument(e, callee, params, a);
            ok = false;
        } else if (k >= params->n) {
            int n = 0;
            for (int j = 0; j < args->n; j++)
                n += args->a[j].name == NULL;
            if (k == params->n)
                diag_error(e->diag, a->loc,
                           "%s() takes at most %d argument%s, but %d are given", callee,
                           params->n, params->n == 1 ? "" : "s", n);
            ok = false;
        } else if (given[k]) {
            diag_error(e->diag, a->loc, "%s() is given its argument '%s' twice", callee,
                       params->kid[k]->name);
            ok = false;
        } else {
            ok = switch_checked(e, callee, params->kid[k], a) && ok;
            given[k] = true;
            out[k] = a->v;
            locs[k] = a->loc;
        }
    }
    for (int k = 0; k < params->n && ok; k++)
        if (!given[k] && ast_kid(params->kid[k], 1) == NULL) {
            missing_arguments(e, callee, params, given, args->loc);
            return false;
        }
    return ok;
}

/* "argument 'x' of fc1" */
static const char *argument_subject(Elab *e, const char *param)
{
    const Frame *f = e->frame;
    const char *callee = f->kind == FRAME_BLOCK ? f->path
                         : f->def != NULL       ? f->def->name
                                                : NULL;
    return callee != NULL ? arena_printf(e->arena, "argument '%s' of %s", param, callee)
                          : arena_printf(e->arena, "argument '%s'", param);
}

void params_bind(Elab *e, const Ast *params, Value *v, SrcRange *locs, const bool *given)
{
    for (int i = 0; i < params->n; i++) {
        const Ast *p = params->kid[i];
        if (!given[i]) {
            v[i] = eval(e, ast_kid(p, 1));
            locs[i] = p->loc;
        }
        scope_bind(e, &e->frame->scope, p->name, v[i], locs[i]);
    }
    for (int i = 0; i < params->n; i++) {
        const Ast *type = ast_kid(params->kid[i], 0);
        if (type == NULL || !given[i])
            continue;
        const char *subject = argument_subject(e, params->kid[i]->name);
        if (!type_match(e, type, &v[i], locs[i], subject))
            v[i] = value_error();
        scope_find(&e->frame->scope, params->kid[i]->name)->value = v[i];
    }
}

static bool is_active(const Elab *e, const Ast *def)
{
    for (const Frame *f = e->frame; f != NULL; f = f->up)
        if (f->def == def)
            return true;
    return false;
}

static Value call_fn(Elab *e, const Ast *def, const Args *args)
{
    const Ast *params = def->kid[0];
    Value *v = arena_array(e->arena, (size_t)params->n, sizeof *v);
    SrcRange *locs = arena_array(e->arena, (size_t)params->n, sizeof *locs);
    bool *given = arena_array(e->arena, (size_t)params->n, sizeof *given);
    if (!args_bind(e, def->name, params, args, v, locs, given))
        return value_error();
    if (is_active(e, def)) {
        diag_error(e->diag, args->loc, "the fn '%s' may not call itself", def->name);
        return value_error();
    }
    const char *hint = e->b.hint != NULL ? e->b.hint : def->name;
    const int errors = diag_errors(e->diag);
    frame_push(e, FRAME_FN, def, e->frame != NULL ? e->frame->path : "", hint);
    if (e->frame->up != NULL)
        e->frame->self = e->frame->up->self;
    params_bind(e, params, v, locs, given);
    Value r =
        diag_errors(e->diag) > errors ? value_error() : run_definition(e, def->kid[1], hint);
    frame_pop(e);
    if (r.kind == V_NONE && def->kid[1]->kind == AST_BODY && diag_errors(e->diag) == errors)
        diag_error(e->diag, def->name_loc, "the fn '%s' returns nothing", def->name);
    return r;
}

static Value call_builtin(Elab *e, const Builtin *b, const Args *args)
{
    Call c = {.e = e, .builtin = b, .at = args->loc};
    if (strcmp(b->params, "*") == 0) {
        c.n = args->n;
        c.arg = arena_array(e->arena, (size_t)c.n, sizeof *c.arg);
        c.loc = arena_array(e->arena, (size_t)c.n, sizeof *c.loc);
        for (int i = 0; i < c.n; i++) {
            if (args->a[i].name != NULL) {
                diag_error(e->diag, args->a[i].loc, "%s() has no argument '%s'", b->name,
                           args->a[i].name);
                return value_error();
            }
            c.arg[i] = args->a[i].v;
            c.loc[i] = args->a[i].loc;
            if (c.arg[i].kind == V_ERROR)
                return value_error();
        }
        return b->run(&c);
    }
    const Ast *params = e->builtin_params[b - builtin_rows];
    c.n = params->n;
    c.arg = arena_array(e->arena, (size_t)c.n, sizeof *c.arg);
    c.loc = arena_array(e->arena, (size_t)c.n, sizeof *c.loc);
    bool *given = arena_array(e->arena, (size_t)c.n, sizeof *given);
    if (!args_bind(e, b->name, params, args, c.arg, c.loc, given))
        return value_error();
    for (int i = 0; i < c.n; i++)
        if (!given[i]) {
            c.arg[i] = eval(e, ast_kid(params->kid[i], 1));
            c.loc[i] = args->loc;
        }
    const SrcRange loc = e->b.loc;
    e->b.loc = args->loc;
    const Value v = b->run(&c);
    e->b.loc = loc;
    return v;
}

/* An optimizer or schedule with its arguments; its body runs later. */
static Value bind_definition(Elab *e, ValueKind kind, const Ast *def, const Args *args)
{
    const Ast *params = def->kid[0];
    BoundDefinition *b = arena_alloc(e->arena, sizeof *b);
    *b = (BoundDefinition){.def = def, .n = params->n, .call = args->loc};
    b->arg = arena_array(e->arena, (size_t)b->n, sizeof *b->arg);
    b->loc = arena_array(e->arena, (size_t)b->n, sizeof *b->loc);
    bool *given = arena_array(e->arena, (size_t)b->n, sizeof *given);
    if (!args_bind(e, def->name, params, args, b->arg, b->loc, given))
        return value_error();
    frame_push(e, FRAME_FN, NULL, "", "");
    params_bind(e, params, b->arg, b->loc, given);
    frame_pop(e);
    return (Value){.kind = kind, .bound = b};
}

static Value call_dispatch(Elab *e, const Value *callee, const Args *args)
{
    const ValueKind kind = callee->kind;
    if (kind == V_FN)
        return call_fn(e, callee->def, args);
    if (kind == V_BUILTIN)
        return call_builtin(e, callee->builtin, args);
    if (kind == V_BLOCK)
        return block_instance(e, callee->def, args);
    if (kind == V_LAYER)
        return layer_call(e, callee->layer, args);
    if (kind == V_OPTDEF || kind == V_SCHEDDEF)
        return bind_definition(e, kind == V_OPTDEF ? V_OPTIM : V_SCHED, callee->def, args);
    if (kind != V_ERROR)
        diag_error(e->diag, args->name_loc, "%s cannot be called", value_what(e, callee));
    return value_error();
}

static const char *layer_name(const Layer *l)
{
    if (l->path != NULL)
        return l->path;
    return l->block ? l->block->def->name : "Sequential";
}

static const char *callee_name(const Value *v)
{
    if (v->kind == V_BUILTIN)
        return v->builtin->name;
    if (v->kind == V_LAYER)
        return layer_name(v->layer);
    return value_is_definition(v) ? v->def->name : "";
}

/* Nodes made inside the library stand at the user's call: later phases report there. */
static void relocate(Elab *e, int first, SrcRange at)
{
    for (int i = first; i < e->b.graph->n_nodes; i++) {
        Node *n = e->b.graph->nodes[i];
        if (n->loc.file < 0 || diag_is_library(e->diag, n->loc.file))
            n->loc = at;
    }
}

Value call_value(Elab *e, const Value *callee, const Args *args)
{
    const Graph *g = e->b.graph;
    const bool user = args->loc.file >= 0 && !diag_is_library(e->diag, args->loc.file);
    const int first = g->n_nodes;
    if (callee->kind == V_ERROR || !elab_tick(e, args->loc))
        return value_error();
    diag_push_call(e->diag, args->loc, callee_name(callee));
    const Value v = call_dispatch(e, callee, args);
    diag_pop_call(e->diag);
    if (user && e->b.graph == g)
        relocate(e, first, args->loc);
    return v;
}

/* Arguments of a CALL after `extra` that come from a pipe. */
static Args eval_args(Elab *e, const Ast *call, int extra)
{
    Args args = {.n = extra + (call != NULL ? call->n - 1 : 0)};
    args.a = arena_array(e->arena, (size_t)args.n, sizeof *args.a);
    for (int i = extra; i < args.n; i++) {
        const Ast *a = call->kid[1 + i - extra];
        const bool named = a->kind == AST_ARG;
        args.a[i] = (Arg){.name = named ? a->name : NULL, .loc = a->loc};
        args.a[i].v = eval(e, named ? a->kid[0] : a);
    }
    return args;
}

Value eval_call(Elab *e, const Ast *t)
{
    const Value callee = eval(e, t->kid[0]);
    Args args = eval_args(e, t, 0);
    args.loc = t->loc;
    args.name_loc = t->kid[0]->loc;
    return call_value(e, &callee, &args);
}

Value eval_pipe(Elab *e, const Ast *t)
{
    const Value x = eval(e, t->kid[0]);
    const Ast *call = t->kid[1]->kind == AST_CALL ? t->kid[1] : NULL;
    const Ast *name = call != NULL ? call->kid[0] : t->kid[1];
    const Value callee = eval(e, name);
    Args args = eval_args(e, call, 1);
    args.a[0] = (Arg){.v = x, .loc = t->kid[0]->loc};
    /* The caret stands under the callee: what comes before it is often long. */
    args.loc = t->kid[1]->loc;
    args.name_loc = name->loc;
    return call_value(e, &callee, &args);
}
