/* Finds what a name means.  It is looked for in the scope of the running body first, then among
 * the program's declarations, the standard library's, and the built-in functions. */
#include "frontend/elaborate/elab.h"

#include <string.h>

Binding *scope_find(Scope *s, const char *name)
{
    for (int i = s->n - 1; i >= 0; i--)
        if (strcmp(s->v[i].name, name) == 0)
            return &s->v[i];
    return NULL;
}

void scope_bind(Elab *e, Scope *s, const char *name, Value v, SrcRange loc)
{
    Binding *b = scope_find(s, name);
    if (b == NULL) {
        if (s->n == s->cap)
            s->v = arena_grow(e->arena, s->v, &s->cap, sizeof *s->v);
        b = &s->v[s->n++];
    }
    *b = (Binding){.name = name, .value = v, .loc = loc};
}

Global *global_find(Elab *e, const char *name, bool library)
{
    for (int i = 0; i < e->n_globals; i++)
        if (e->globals[i].library == library && strcmp(e->globals[i].name, name) == 0)
            return &e->globals[i];
    return NULL;
}

static const Builtin *builtin_find(const char *name)
{
    for (int i = 0; i < builtin_row_count; i++)
        if (strcmp(builtin_rows[i].name, name) == 0)
            return &builtin_rows[i];
    return NULL;
}

/* epoch, step and the like: values of the run. */
static bool context_name(Elab *e, const char *name, SrcRange at, Value *out)
{
    if (strcmp(name, "training") == 0) {
        *out = value_bool(e->entry == ENTRY_TRAIN);
        return true;
    }
    RunValue value;
    const bool is_clock = run_value_find(name, &value) && run_value_per_model(value);
    if (!is_clock && strcmp(name, "step") != 0)
        return false;
    if (e->b.graph == e->scratch || e->constant != NULL) {
        diag_error(e->diag, at, "'%s' is known only at run time", name);
        *out = value_error();
        return true;
    }
    Builder b = e->b;
    b.loc = at;
    if (is_clock) {
        *out = value_node(build_scalar(&b, value), true);
        return true;
    }
    Node *n = steps_done(e);
    const int outer = making_begin(e, "step");
    b.hint = "step";
    /* Training counts from 1: the step that is being done. */
    if (e->entry == ENTRY_TRAIN)
        n = build2(&b, OP_ADD, n, build_const(&b, DT_I64, 1));
    *out = value_node(build_cast(&b, n, DT_F64), true);
    making_end(e, outer);
    return true;
}

static bool elab_lookup(Elab *e, const char *name, SrcRange at, Value *out)
{
    if (e->frame != NULL) {
        const Binding *b = scope_find(&e->frame->scope, name);
        if (b != NULL) {
            *out = b->value;
            return true;
        }
    }
    const bool library = at.file >= 0 && diag_is_library(e->diag, at.file);
    Global *g = library ? NULL : global_find(e, name, false);
    if (g == NULL)
        g = global_find(e, name, true);
    if (g != NULL) {
        *out = global_value(e, g, at);
        return true;
    }
    const Builtin *builtin = builtin_find(name);
    if (builtin != NULL) {
        *out = (Value){.kind = V_BUILTIN, .builtin = builtin};
        return true;
    }
    return context_name(e, name, at, out);
}

static const char *suggestion(Elab *e, const char *name)
{
    const int max = (e->frame ? e->frame->scope.n : 0) + e->n_globals + builtin_row_count + 5;
    const char **all = arena_array(e->arena, (size_t)max, sizeof *all);
    int n = 0;
    if (e->frame != NULL)
        for (int i = 0; i < e->frame->scope.n; i++)
            all[n++] = e->frame->scope.v[i].name;
    for (int i = 0; i < e->n_globals; i++)
        all[n++] = e->globals[i].name;
    for (int i = 0; i < builtin_row_count; i++)
        all[n++] = builtin_rows[i].name;
    all[n++] = "training";
    all[n++] = "epoch";
    all[n++] = "step";
    return diag_closest(name, all, n);
}

/* PyTorch's and Python's names for what is called differently here. */
const char *elab_called_here(const char *name)
{
    static const struct {
        const char *there, *here;
    } rows[] = {
        {"True", "true"},
        {"False", "false"},
        {"None", "none"},
        {"view", "reshape"},
        {"size", "shape"},
        {"BCELoss", "binary_cross_entropy"},
        {"BCEWithLogitsLoss", "bce_with_logits"},
        {"CrossEntropyLoss", "cross_entropy"},
        {"HuberLoss", "huber_loss"},
        {"KLDivLoss", "kl_div"},
        {"L1Loss", "l1_loss"},
        {"MSELoss", "mse_loss"},
        {"NLLLoss", "nll_loss"},
        {"SmoothL1Loss", "smooth_l1_loss"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].there, name) == 0)
            return rows[i].here;
    return NULL;
}

static bool is_python_module(const char *name)
{
    return !strcmp(name, "nn") || !strcmp(name, "F") || !strcmp(name, "torch");
}

bool elab_is_function(Elab *e, const char *name)
{
    const Global *g = global_find(e, name, true);
    return (g != NULL && g->decl->kind == AST_FN) || builtin_find(name) != NULL;
}

Value elab_name(Elab *e, const char *name, SrcRange at)
{
    Value v;
    if (elab_lookup(e, name, at, &v))
        return v;
    const char *here = elab_called_here(name);
    const char *closest = here != NULL ? here : suggestion(e, name);
    if (is_python_module(name))
        diag_error(e->diag, at,
                   "unknown name '%s'; layers and functions stand without a module: relu(x)",
                   name);
    else if (closest != NULL)
        diag_error(e->diag, at, "unknown name '%s'; did you mean '%s'?", name, closest);
    else
        diag_error(e->diag, at, "unknown name '%s'", name);
    /* Once is enough. */
    if (e->frame != NULL)
        scope_bind(e, &e->frame->scope, name, value_error(), at);
    return value_error();
}

/* What the name of a definition stands for; V_ERROR: the kind defines none. */
static const ValueKind definition_kinds[AST_KIND_COUNT] = {
    [AST_FN] = V_FN,
    [AST_BLOCK] = V_BLOCK,
    [AST_OPTDEF] = V_OPTDEF,
    [AST_SCHEDDEF] = V_SCHEDDEF,
};

static bool is_binding(AstKind k)
{
    return k == AST_CONST || k == AST_ARCH || k == AST_HYPER;
}

static const char *binding_word(AstKind k)
{
    return k == AST_CONST ? "const" : k == AST_ARCH ? "arch" : "hyper";
}

/* A const may read consts; an arch also other archs; a hyper's default both. */
static bool binding_allowed(Elab *e, const Global *g, SrcRange at)
{
    const Global *user = e->constant;
    if (user == NULL)
        return true;
    const bool bad = g->kind == AST_HYPER || (g->kind == AST_ARCH && user->kind == AST_CONST);
    if (!bad)
        return true;
    diag_error(e->diag, at, "the %s '%s' may not depend on the %s '%s'",
               binding_word(user->kind), user->name, binding_word(g->kind), g->name);
    diag_note(e->diag, g->decl->name_loc, "'%s' is declared here", g->name);
    return false;
}

static Value global_evaluate(Elab *e, Global *g)
{
    Frame *saved = e->frame;
    const Global *constant = e->constant;
    const Builder b = e->b;
    e->frame = NULL;
    e->b.graph = e->scratch;
    e->constant = g;
    frame_push(e, FRAME_GLOBAL, g->decl, "", "");
    Value v = eval(e, g->define != NULL ? g->define : g->decl->kid[0]);
    e->frame = saved;
    e->constant = constant;
    e->b = b;
    return v;
}

/* What is part of a graph, or of an instance, has no place at the top. */
static const Value *not_constant(const Value *v)
{
    for (int i = 0; v->kind == V_LIST && i < v->list.n; i++) {
        const Value *bad = not_constant(&v->list.v[i]);
        if (bad != NULL)
            return bad;
    }
    const bool bad = v->kind == V_TENSOR || v->kind == V_LAYER || v->kind == V_PARAM ||
                     v->kind == V_OPTIM || v->kind == V_SCHED;
    return bad ? v : NULL;
}

static Value check_constant(Elab *e, const Global *g, Value v)
{
    const Value *bad = not_constant(&v);
    if (bad == NULL)
        return v;
    diag_error(e->diag, g->decl->loc,
               "the %s '%s' cannot hold %s: that is made in a model, a block or a fn",
               binding_word(g->kind), g->name, value_what(e, bad));
    return value_error();
}

Value global_value(Elab *e, Global *g, SrcRange at)
{
    if (g->kind != AST_CONST && g->kind != AST_ARCH && g->kind != AST_HYPER)
        return (Value){.kind = definition_kinds[g->kind], .def = g->decl};
    if (!binding_allowed(e, g, at))
        return value_error();
    if (g->state == GLOBAL_BUSY) {
        diag_error(e->diag, at, "'%s' depends on itself", g->name);
        return value_error();
    }
    if (g->state == GLOBAL_NEW) {
        const int index = (int)(g - e->globals);
        g->state = GLOBAL_BUSY;
        Value v = global_evaluate(e, g);
        g = &e->globals[index];
        g->state = GLOBAL_DONE;
        g->value = check_constant(e, g, v);
    }
    if (g->kind != AST_HYPER || g->value.kind == V_ERROR)
        return g->value;
    if (e->b.graph == e->scratch) {
        diag_error(e->diag, at,
                   "the hyper '%s' is known only at run time; declare it `arch` or `const`",
                   g->name);
        return value_error();
    }
    Builder b = e->b;
    b.loc = at;
    return value_node(build_hyper(&b, g->name), true);
}

/* Adds one name, unless it is there. */
static Global *global_add(Elab *e, const Ast *decl, AstKind kind, bool library)
{
    const Global *old = global_find(e, decl->name, library);
    if (old != NULL) {
        diag_error(e->diag, decl->name_loc, "'%s' is declared twice", decl->name);
        diag_note(e->diag, old->decl->name_loc, "the first declaration is here");
        return NULL;
    }
    Global *g = ELAB_PUSH(e, globals);
    *g = (Global){.name = decl->name, .decl = decl, .kind = kind, .library = library};
    return g;
}

static void only_one(Elab *e, const Ast **slot, const Ast *decl, const char *what)
{
    if (*slot != NULL) {
        diag_error(e->diag, decl->loc, "a program has one %s", what);
        diag_note(e->diag, (*slot)->loc, "the first one is here");
        return;
    }
    *slot = decl;
}

void globals_collect(Elab *e, const Ast *file, bool library)
{
    for (int i = 0; i < file->n; i++) {
        const Ast *d = file->kid[i];
        if (d == NULL)
            continue;
        if (is_binding(d->kind))
            for (int k = 0; k < d->n; k++)
                global_add(e, d->kid[k], d->kind, library);
        else if (definition_kinds[d->kind] != V_ERROR)
            global_add(e, d, d->kind, library);
        else if (d->kind == AST_MODEL)
            only_one(e, &e->model, d, "model");
        else if (d->kind == AST_TRAIN)
            only_one(e, &e->train, d, "train section");
    }
}
