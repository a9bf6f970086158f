/* Layers: what a call of a block makes, how layers get their dotted names, and the parameters,
 * buffers and other states that their bodies declare.
 *
 * A layer is only a bound definition until it is called.  Its body then runs in a frame whose
 * path is the layer's name, and a state w in the layer fc1 is called "fc1.w". */
#include "frontend/elaborate/elab.h"

#include <string.h>

LayerRecord *layer_record(Elab *e, const char *path)
{
    const int i = map_get(e->layer_numbers, path);
    if (i >= 0 && i < e->n_layers && strcmp(e->layers[i].path, path) == 0)
        return &e->layers[i];
    map_set(e->layer_numbers, path, e->n_layers);
    LayerRecord *r = ELAB_PUSH(e, layers);
    *r = (LayerRecord){.path = path, .loc = SRC_NONE, .first_call = SRC_NONE};
    return r;
}

StateRecord *state_record(Elab *e, const char *name)
{
    const int i = map_get(e->state_numbers, name);
    return i >= 0 && i < e->n_states && strcmp(e->states[i].name, name) == 0 ? &e->states[i]
                                                                             : NULL;
}

static StateValue *state_value_find(Elab *e, const char *name)
{
    const int i = map_get(e->state_value_numbers, name);
    return i >= 0 && i < e->n_state_values && strcmp(e->state_values[i].name, name) == 0
               ? &e->state_values[i]
               : NULL;
}

Node *state_now(Elab *e, const char *name)
{
    const StateValue *c = state_value_find(e, name);
    if (c != NULL)
        return c->now;
    Node *n = build_state(&e->b, name);
    map_set(e->state_value_numbers, name, e->n_state_values);
    *ELAB_PUSH(e, state_values) = (StateValue){.name = name, .now = n, .loc = SRC_NONE};
    return n;
}

/* Inside a loop nothing can be written: the loop is unrolled. */
static void note_write(Elab *e, const StateValue *c, Node *v, SrcRange loc)
{
    const Frame *f = e->frame;
    while (f != NULL && f->kind != FRAME_BLOCK)
        f = f->up;
    if (f != NULL && e->entry == ENTRY_TRAIN && e->loop == NULL && c->now != NULL && v != NULL)
        *ELAB_PUSH(e, writes) = (StateWrite){.state = c->name,
                                             .before = c->now,
                                             .value = v,
                                             .lo = f->first_node,
                                             .hi = f->first_node,
                                             .frame = f->serial,
                                             .loc = loc};
}

/* The call that is being run is over. */
static void end_writes(Elab *e)
{
    for (int i = e->n_writes - 1; i >= 0; i--)
        if (e->writes[i].frame == e->frame->serial)
            e->writes[i].hi = e->b.graph->n_nodes;
}

Node *state_new_value(Elab *e, Node *v)
{
    if (v == NULL || e->entry != ENTRY_TRAIN || e->train == NULL ||
        find_statement(e->train->kid[0], AST_UPDATE) == NULL)
        return v;
    Attrs attrs;
    attrs_default(ATTR_dims, &attrs);
    attrs.dims.shape = ints_of(v->type.shape.rank, v->type.shape.dim);
    return build(&e->b, OP_RESHAPE, &attrs, 1, &v);
}

void state_unwrite(Elab *e, const char *name)
{
    StateValue *c = state_value_find(e, name);
    if (c != NULL)
        c->written = false;
}

void state_next(Elab *e, const char *name, Node *v, SrcRange loc)
{
    state_now(e, name);
    StateValue *c = state_value_find(e, name);
    note_write(e, c, v, loc);
    c->now = v;
    c->written = true;
    c->loc = loc;
}

/* The call of the innermost layer that is being run. */
static SrcRange innermost_call(Elab *e)
{
    for (const Frame *f = e->frame; f != NULL; f = f->up)
        if (f->kind == FRAME_BLOCK)
            return layer_record(e, f->path)->first_call;
    return SRC_NONE;
}

static void state_conflict(Elab *e, const State *s, StateRecord *r, const Type *type,
                           SrcRange loc)
{
    if (r->rejected)
        return;
    r->rejected = true;
    diag_error(e->diag, loc, "'%s' would be %s here, but is %s from its first call", s->name,
               type_text(e->arena, type), type_text(e->arena, &s->type));
    if (r->call.file >= 0)
        diag_note(e->diag, r->call, "the first call, which fixed its shape, is here");
}

static bool is_of_program(StateRole r)
{
    return r == ROLE_PARAM || r == ROLE_BUFFER;
}

/* Is it the same state, declared by another call? */
static bool agrees_with(Elab *e, const State *old, const State *what)
{
    StateRecord *r = state_record(e, old->name);
    const int frame = e->frame != NULL ? e->frame->serial : 0;
    if (is_of_program(old->role) != is_of_program(what->role)) {
        diag_error(
            e->diag, what->loc,
            "'%s' is what training calls a state of its own; another name is needed here",
            what->name);
        return false;
    }
    if (r != NULL && frame != 0 && r->frame == frame) {
        diag_error(e->diag, what->loc, "'%s' is bound twice", what->name);
        diag_note(e->diag, old->loc, "it is bound here first");
        return false;
    }
    if (r != NULL)
        r->frame = frame;
    if (old->type.dtype == what->type.dtype && shape_equal(&old->type.shape, &what->type.shape))
        return true;
    if (r != NULL)
        state_conflict(e, old, r, &what->type, what->loc);
    return false;
}

Value state_declare(Elab *e, const State *what, const Dist *init)
{
    const State *old = module_state(e->module, what->name);
    if (old != NULL)
        return agrees_with(e, old, what) ? value_node(state_now(e, what->name), false)
                                         : value_error();
    if (!shape_stored(e, what->loc, &what->type.shape))
        return value_error();
    module_add_state(e->module, what);
    map_set(e->state_numbers, what->name, e->n_states);
    *ELAB_PUSH(e, states) = (StateRecord){.name = what->name,
                                          .init = *init,
                                          .call = innermost_call(e),
                                          .frame = e->frame != NULL ? e->frame->serial : 0};
    return value_node(state_now(e, what->name), false);
}

const char *state_added_name(Elab *e, StateRole role, const char *wanted)
{
    const char *key = arena_printf(e->arena, "%s %s", state_role_text(role), wanted);
    const int known = map_get(e->added_numbers, key);
    if (known >= 0)
        return e->added[known];
    const char *name = wanted;
    while (module_state(e->module, name) != NULL)
        name = arena_printf(e->arena, "$%s", name);
    map_set(e->added_numbers, key, e->n_added);
    *ELAB_PUSH(e, added) = name;
    return name;
}

Node *state_of_role(Elab *e, StateRole role)
{
    return build_state(&e->b, module_state_of(e->module, role)->name);
}

static void layer_claim(Elab *e, const char *path, SrcRange loc)
{
    LayerRecord *r = layer_record(e, path);
    if (r->frame == e->frame->serial && r->frame != 0) {
        diag_error(e->diag, loc, "the layer '%s' is bound twice", path);
        diag_note(e->diag, r->loc, "it is bound here first");
    }
    r->frame = e->frame->serial;
    r->loc = loc;
}

static Value adopt_param(Elab *e, const ParamSpec *p, const char *path, SrcRange loc)
{
    const State s = {.name = path,
                     .type = {.dtype = e->real, .shape = p->shape},
                     .role = ROLE_PARAM,
                     .loc = loc};
    return state_declare(e, &s, &p->init);
}

static Value adopt_layer(Elab *e, const Layer *l, const char *path, SrcRange loc)
{
    Layer *copy = arena_alloc(e->arena, sizeof *copy);
    *copy = *l;
    copy->path = path;
    copy->loc = loc;
    layer_claim(e, path, loc);
    if (l->block == NULL) {
        copy->items = arena_array(e->arena, (size_t)l->n_items, sizeof *copy->items);
        for (int i = 0; i < l->n_items; i++)
            copy->items[i] =
                elab_adopt(e, l->items[i], arena_printf(e->arena, "%s.%d", path, i), loc);
    }
    return (Value){.kind = V_LAYER, .layer = copy};
}

static bool needs_name(const Value *v)
{
    if (v->kind == V_LIST)
        for (int i = 0; i < v->list.n; i++)
            if (needs_name(&v->list.v[i]))
                return true;
    return v->kind == V_PARAM || (v->kind == V_LAYER && v->layer->path == NULL);
}

Value elab_adopt(Elab *e, Value v, const char *path, SrcRange loc)
{
    if (!needs_name(&v))
        return v;
    if (v.kind == V_PARAM)
        return adopt_param(e, v.param, path, loc);
    if (v.kind == V_LAYER)
        return adopt_layer(e, v.layer, path, loc);
    Value *items = arena_array(e->arena, (size_t)v.list.n, sizeof *items);
    for (int i = 0; i < v.list.n; i++)
        items[i] = elab_adopt(e, v.list.v[i], arena_printf(e->arena, "%s.%d", path, i), loc);
    return value_list_of(v.list.n, items);
}

Value block_instance(Elab *e, const Ast *def, const Args *args)
{
    static const Ast no_params = {.kind = AST_PARAMS};
    const Ast *params = def->kid[0] != NULL ? def->kid[0] : &no_params;
    BoundDefinition *b = arena_alloc(e->arena, sizeof *b);
    *b = (BoundDefinition){.def = def, .n = params->n, .call = args->loc};
    b->arg = arena_array(e->arena, (size_t)b->n, sizeof *b->arg);
    b->loc = arena_array(e->arena, (size_t)b->n, sizeof *b->loc);
    bool *given = arena_array(e->arena, (size_t)b->n, sizeof *given);
    if (!args_bind(e, def->name, params, args, b->arg, b->loc, given))
        return value_error();
    const int errors = diag_errors(e->diag);
    frame_push(e, FRAME_FN, NULL, "", "");
    params_bind(e, params, b->arg, b->loc, given);
    frame_pop(e);
    if (diag_errors(e->diag) > errors)
        return value_error();
    Layer *l = arena_alloc(e->arena, sizeof *l);
    *l = (Layer){.block = b, .loc = args->loc};
    return (Value){.kind = V_LAYER, .layer = l};
}

static bool check_results(Elab *e, const Layer *l, Value *r, SrcRange at)
{
    const Ast *results = l->block->def->kid[2];
    if (results == NULL)
        return true;
    const int n = r->kind == V_LIST ? r->list.n : 1;
    if (n != results->n) {
        diag_error(e->diag, l->block->def->name_loc,
                   "the head of %s promises %d result%s, but it returns %d",
                   l->block->def->name, results->n, results->n == 1 ? "" : "s", n);
        return false;
    }
    Value *v = r->kind == V_LIST ? r->list.v : r;
    for (int i = 0; i < n; i++) {
        const char *subject = arena_printf(e->arena, "the result of '%s'", l->path);
        if (!type_match(e, results->kid[i], &v[i], at, subject))
            return false;
    }
    return true;
}

static bool path_active(const Elab *e, const char *path)
{
    for (const Frame *f = e->frame; f != NULL; f = f->up)
        if (f->kind == FRAME_BLOCK && strcmp(f->path, path) == 0)
            return true;
    return false;
}

static Value block_call(Elab *e, Layer *l, const Args *args)
{
    const Ast *def = l->block->def, *params = def->kid[1];
    Value *v = arena_array(e->arena, (size_t)params->n, sizeof *v);
    SrcRange *locs = arena_array(e->arena, (size_t)params->n, sizeof *locs);
    bool *given = arena_array(e->arena, (size_t)params->n, sizeof *given);
    if (!args_bind(e, l->path, params, args, v, locs, given))
        return value_error();
    if (path_active(e, l->path)) {
        diag_error(e->diag, args->loc, "the layer '%s' calls itself", l->path);
        return value_error();
    }
    const int errors = diag_errors(e->diag);
    frame_push(e, FRAME_BLOCK, def, l->path, l->path);
    e->frame->first_node = e->b.graph->n_nodes;
    for (int i = 0; i < l->block->n; i++)
        scope_bind(e, &e->frame->scope, def->kid[0]->kid[i]->name, l->block->arg[i],
                   l->block->loc[i]);
    params_bind(e, params, v, locs, given);
    Value r = value_error();
    if (diag_errors(e->diag) == errors)
        r = run_definition(e, def->kid[3], elab_join(e, l->path, "out"));
    if (r.kind == V_NONE && diag_errors(e->diag) == errors)
        diag_error(e->diag, def->name_loc, "the block '%s' returns nothing", def->name);
    if (diag_errors(e->diag) > errors || !check_results(e, l, &r, args->loc))
        r = value_error();
    end_writes(e);
    frame_pop(e);
    return r;
}

static Value sequential_call(Elab *e, const Layer *l, const Args *args)
{
    if (args->n != 1 || args->a[0].name != NULL) {
        diag_error(e->diag, args->loc, "a Sequential takes one argument");
        return value_error();
    }
    Value x = args->a[0].v;
    const char *hint = e->b.hint;
    for (int i = 0; i < l->n_items && x.kind != V_ERROR; i++) {
        Arg a = {.v = x, .loc = args->a[0].loc};
        const Args one = {.a = &a, .n = 1, .loc = args->loc, .name_loc = args->name_loc};
        e->b.hint = arena_printf(e->arena, "%s.%d", l->path, i);
        x = call_value(e, &l->items[i], &one);
    }
    e->b.hint = hint;
    return x;
}

Value layer_call(Elab *e, Layer *l, const Args *args)
{
    if (l->path == NULL) {
        diag_error(
            e->diag, args->loc,
            "a layer is called under its name: bind it in the model or a block first, as in "
            "`fc = %s(...)`",
            l->block != NULL ? l->block->def->name : "Sequential");
        return value_error();
    }
    LayerRecord *r = layer_record(e, l->path);
    if (!r->called)
        r->first_call = args->loc;
    r->called = true;
    return l->block != NULL ? block_call(e, l, args) : sequential_call(e, l, args);
}

void layers_check_called(Elab *e)
{
    for (int i = 0; i < e->n_layers; i++) {
        const LayerRecord *r = &e->layers[i];
        if (!r->called && r->frame != 0)
            diag_error(e->diag, r->loc, "the layer '%s' is never called", r->path);
    }
}
