/* What is set from outside the program: the values of -D, and the table of hypers with their
 * default values and domains. */
#include "frontend/elaborate/elab.h"

#include <math.h>
#include <string.h>

/* The expression list of -DNAME=VALUE, or NULL after a report. */
static const Ast *define_parse(Elab *e, const Define *d)
{
    const char *text = arena_printf(e->arena, "hdl 1\nconst %s = [%s]\n", d->name, d->value);
    const char *path = arena_printf(e->arena, "<-D%s=%s>", d->name, d->value);
    const int file = diag_add_source(e->diag, path, text, strlen(text), false);
    const Ast *root = hdl_parse(e->arena, e->diag, file);
    if (root == NULL || root->n < 1 || root->kid[0]->kind != AST_CONST)
        return NULL;
    return root->kid[0]->kid[0]->kid[0];
}

/* -Dmode=sgd: where a string stands in the source, a bare word is one. */
static const Ast *as_string(Elab *e, const Ast *value, const Ast *original)
{
    if (value->kind != AST_NAME || original->kind != AST_STRING)
        return value;
    Ast *s = arena_alloc(e->arena, sizeof *s);
    *s = *value;
    s->kind = AST_STRING;
    return s;
}

static bool same_numbers(const Ast *list)
{
    for (int i = 1; i < list->n; i++)
        if (list->kid[i]->kind != list->kid[0]->kind ||
            list->kid[i]->value != list->kid[0]->value)
            return false;
    return true;
}

static void define_global(Elab *e, const Define *d, Global *g)
{
    if (g->kind == AST_HYPER) {
        diag_error(e->diag, g->decl->name_loc,
                   "-D%s: '%s' is a hyper, which is given at run time: hftrun --hyper %s=%s",
                   d->name, d->name, d->name, d->value);
        return;
    }
    const Ast *list = define_parse(e, d);
    if (list == NULL)
        return;
    if (list->n == 0) {
        diag_error(e->diag, list->loc, "-D%s has no value", d->name);
        return;
    }
    if (list->n > 1 && g->kind != AST_ARCH) {
        diag_error(e->diag, list->loc, "-D%s gives %d values, but '%s' is a const: it has one",
                   d->name, list->n, d->name);
        return;
    }
    if (list->n > 1 && list->n != e->options->n_models) {
        diag_error(e->diag, list->loc,
                   "-D%s gives %d values for %d models; one or %d are allowed", d->name,
                   list->n, e->options->n_models, e->options->n_models);
        return;
    }
    if (list->n > 1 && !same_numbers(list)) {
        diag_error(e->diag, list->loc,
                   "different values of an arch in one array are not yet supported");
        return;
    }
    g->define = as_string(e, list->kid[0], g->decl->kid[0]);
}

const Ast *find_statement(const Ast *body, AstKind kind)
{
    for (int i = 0; body != NULL && i < body->n; i++) {
        const Ast *s = body->kid[i];
        if (s == NULL)
            continue;
        if (s->kind == kind)
            return s;
        if (s->kind == AST_IF)
            for (int k = 1; k < s->n; k++) {
                const Ast *found = s->kid[k] ? find_statement(s->kid[k], kind) : NULL;
                if (found != NULL)
                    return found;
            }
    }
    return NULL;
}

/* Names of dims that -D may set: the batch size and what stands in the types of inputs. */
static int dim_names(Elab *e, const char **out, int max)
{
    int n = 0;
    const Ast *batch = e->train ? find_statement(e->train->kid[0], AST_BATCH) : NULL;
    if (batch != NULL && n < max)
        out[n++] = batch->name;
    const Ast *body = e->model ? e->model->kid[0] : NULL;
    for (int i = 0; body != NULL && i < body->n; i++) {
        const Ast *s = body->kid[i];
        if (s == NULL || (s->kind != AST_INPUT && s->kind != AST_TARGET))
            continue;
        const Ast *type = s->kid[0];
        for (int k = 0; type != NULL && k < type->n; k++)
            if (type->kid[k]->kind == AST_NAME && n < max)
                out[n++] = type->kid[k]->name;
    }
    return n;
}

static void define_unknown(Elab *e, const Define *d)
{
    enum {
        MAX_DIMS = 128
    };
    const char **all = arena_array(e->arena, (size_t)(MAX_DIMS + e->n_globals), sizeof *all);
    int n = dim_names(e, all, MAX_DIMS);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i], d->name) == 0)
            return;
    for (int i = 0; i < e->n_globals; i++)
        if (!e->globals[i].library &&
            (e->globals[i].kind == AST_CONST || e->globals[i].kind == AST_ARCH))
            all[n++] = e->globals[i].name;
    const char *closest = diag_closest(d->name, all, n);
    if (closest != NULL)
        diag_error(
            e->diag, SRC_NONE,
            "-D%s: the program has no const, arch or dim of that name; did you mean '%s'?",
            d->name, closest);
    else
        diag_error(e->diag, SRC_NONE,
                   "-D%s: the program has no const, arch or dim of that name", d->name);
}

bool defines_apply(Elab *e)
{
    for (int i = 0; i < e->options->n_defines; i++) {
        const Define *d = &e->options->defines[i];
        Global *g = global_find(e, d->name, false);
        if (g == NULL || (g->kind != AST_CONST && g->kind != AST_ARCH && g->kind != AST_HYPER))
            define_unknown(e, d);
        else
            define_global(e, d, g);
    }
    return diag_errors(e->diag) == 0;
}

bool define_dim(Elab *e, const char *name, int64_t *out)
{
    /* The last one counts, as with a C compiler. */
    for (int i = e->options->n_defines - 1; i >= 0; i--) {
        const Define *d = &e->options->defines[i];
        if (strcmp(d->name, name) != 0)
            continue;
        const Ast *list = define_parse(e, d);
        if (list == NULL)
            return false;
        Value v = list->n == 1 ? eval(e, list->kid[0]) : value_error();
        if (list->n != 1)
            diag_error(e->diag, list->loc, "-D%s: a dim has one value", name);
        if (!value_to_int(e, &v, list->loc, arena_printf(e->arena, "the dim '%s'", name), out))
            return false;
        if (*out < 1 || *out > 1 << 30) {
            diag_error(e->diag, list->loc, "the dim '%s' must be between 1 and 2^30", name);
            return false;
        }
        return true;
    }
    return false;
}

static bool domain_number(Elab *e, const Ast *t, double *out, bool *integer)
{
    const Value v = eval(e, t);
    if (v.kind != V_NUM) {
        if (v.kind != V_ERROR)
            diag_error(e->diag, t->loc, "a domain is made of numbers, not %s",
                       value_what(e, &v));
        return false;
    }
    *out = v.num;
    *integer = *integer && v.integer;
    return true;
}

static void domain_set(Elab *e, const Ast *d, Hyper *h)
{
    double *v = arena_array(e->arena, (size_t)d->n, sizeof *v);
    for (int i = 0; i < d->n; i++)
        if (!domain_number(e, d->kid[i], &v[i], &h->integer))
            return;
    h->domain = DOMAIN_SET;
    h->set = (RealList){d->n, v};
}

static void domain_range(Elab *e, const Ast *d, Hyper *h)
{
    bool integer = true;
    h->step = 0;
    if (!domain_number(e, d->kid[0], &h->lo, &integer) ||
        !domain_number(e, d->kid[1], &h->hi, &integer))
        return;
    if (d->n > 2 && d->kid[2] != NULL && !domain_number(e, d->kid[2], &h->step, &integer))
        return;
    const bool is_log = strcmp(d->name, "log") == 0, is_int = strcmp(d->name, "int") == 0;
    h->domain = is_log ? DOMAIN_LOG : is_int ? DOMAIN_INT : DOMAIN_RANGE;
    if (is_int && h->step == 0)
        h->step = 1;
    h->integer = h->integer && is_int;
    if (h->lo > h->hi)
        diag_error(e->diag, d->loc, "the domain is empty: %g is above %g", h->lo, h->hi);
    if (is_log && h->lo <= 0)
        diag_error(e->diag, d->loc, "a log domain must be above 0");
    if (is_int && (!integer || h->step <= 0))
        diag_error(e->diag, d->loc, "an int domain has whole ends and a positive whole step");
}

static bool domain_holds(const Hyper *h)
{
    if (h->domain == DOMAIN_NONE)
        return true;
    if (h->domain == DOMAIN_SET) {
        for (int64_t i = 0; i < h->set.n; i++)
            if (h->set.v[i] == h->value)
                return true;
        return false;
    }
    if (!(h->value >= h->lo && h->value <= h->hi))
        return false;
    return h->domain != DOMAIN_INT || fmod(h->value - h->lo, h->step) == 0;
}

static void hyper_declare(Elab *e, const Global *g)
{
    const Ast *bind = g->decl;
    if (g->value.kind == V_ERROR)
        return;
    if (g->value.kind != V_NUM) {
        diag_error(e->diag, bind->kid[0]->loc, "a hyper is a number, not %s",
                   value_what(e, &g->value));
        return;
    }
    Hyper h = {.name = g->name,
               .value = g->value.num,
               .integer = g->value.integer,
               .loc = bind->name_loc};
    const Ast *domain = ast_kid(bind, 1);
    if (domain != NULL && strcmp(domain->name, "set") == 0)
        domain_set(e, domain, &h);
    else if (domain != NULL)
        domain_range(e, domain, &h);
    else
        h.integer = false; /* `= 0` alone does not mean that 0.1 is no value */
    if (domain != NULL && !domain_holds(&h))
        diag_warn(e->diag, bind->kid[0]->loc, "the default of '%s' is outside its domain",
                  g->name);
    module_add_hyper(e->module, &h);
}

void hypers_declare(Elab *e)
{
    for (int i = 0; i < e->n_globals; i++) {
        Global *g = &e->globals[i];
        if (g->kind != AST_CONST && g->kind != AST_ARCH && g->kind != AST_HYPER)
            continue;
        /* With a mistake in every one of them each is reported here, used or not. */
        const Global *constant = e->constant;
        if (g->state == GLOBAL_NEW) {
            const Builder b = e->b;
            e->b.graph = e->scratch;
            if (g->kind == AST_HYPER) {
                /* The row must exist before its node: evaluate the default alone. */
                g->state = GLOBAL_BUSY;
                e->constant = g;
                Value v = eval(e, g->decl->kid[0]);
                g = &e->globals[i];
                g->value = v; /* hyper_declare wants a number */
                g->state = GLOBAL_DONE;
            } else {
                global_value(e, g, g->decl->loc);
            }
            e->b = b;
            e->constant = constant;
        }
        if (e->globals[i].kind == AST_HYPER)
            hyper_declare(e, &e->globals[i]);
    }
}
