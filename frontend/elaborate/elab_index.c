/* Evaluates x[...] and x.member: elements of lists, slices and gathers of tensors; the shape of a
 * tensor, the states of a layer.
 *
 * The subscripts of a tensor are gone through from left to right; a Selection collects what they
 * select from each axis, and one slice, reshape and gather are built from it in the end. */
#include "frontend/elaborate/elab.h"

#include <string.h>

#include "frontend/values/batch.h"

/* A bound of a slice, as Python takes it: negative from the end, cut to [0, n]. */
static bool slice_bound(Elab *e, const Ast *t, int64_t n, int64_t missing, Value *v,
                        int64_t *out)
{
    *out = missing;
    *v = t != NULL ? eval(e, t) : value_none();
    if (v->kind == V_NONE)
        return true;
    if (!value_whole(e, v, t->loc, "the bound of a slice", out))
        return false;
    if (*out < 0)
        *out += n;
    *out = *out < 0 ? 0 : *out > n ? n : *out;
    return true;
}

static bool element_index(Elab *e, const Value *v, SrcRange at, int64_t n, const char *what,
                          int64_t *out)
{
    if (!value_to_int(e, v, at, "an index", out))
        return false;
    if (*out < -n || *out >= n) {
        diag_error(e->diag, at, "index %lld is outside %s", (long long)*out, what);
        return false;
    }
    if (*out < 0)
        *out += n;
    return true;
}

static Value index_list(Elab *e, const Ast *t, const Value *base)
{
    int n;
    Value *v;
    value_elements(e, base, &n, &v);
    if (t->n != 2) {
        diag_error(e->diag, t->loc, "a list has one index");
        return value_error();
    }
    const Ast *sub = t->kid[1];
    if (sub->kind == AST_SLICE) {
        int64_t lo, hi;
        Value from, to;
        if (!slice_bound(e, ast_kid(sub, 0), n, 0, &from, &lo) ||
            !slice_bound(e, ast_kid(sub, 1), n, n, &to, &hi))
            return value_error();
        batch_decides(e, batch_number(&from) ? &from : &to, sub->loc, "the bound of a slice");
        return value_list(e, hi > lo ? (int)(hi - lo) : 0, v + lo);
    }
    const Value i = eval(e, sub);
    int64_t k;
    if (!element_index(e, &i, sub->loc, n, arena_printf(e->arena, "a list of %d", n), &k))
        return value_error();
    if (v[k].kind == V_WILD && base->kind == V_LIST) {
        diag_error(e->diag, t->loc, "element %lld has no value yet", (long long)k);
        return value_error();
    }
    return v[k];
}

/* What the subscripts gone through so far select from a tensor. */
typedef struct Selection {
    IntList start, step, size;
    /* The marks of the operand's axes after the slice. */
    int64_t mark[MAX_RANK];
    Shape result;
    /* The axis of the operand that the next subscript is about. */
    int axis;
    /* The axis of the operand that a loop's counter goes through, or -1. */
    int scanned;
    /* The axis of the result along which a tensor of indices picks elements, or -1; the tensor. */
    int picked;
    Value picks;
    SrcRange picks_loc;
} Selection;

static void select_keep(Selection *c, const Shape *s)
{
    const int a = c->axis++;
    c->start.v[a] = 0;
    c->step.v[a] = 1;
    c->size.v[a] = s->dim[a];
    c->mark[a] = s->batch[a];
    c->result.dim[c->result.rank++] = s->dim[a];
}

static bool select_sub(Elab *e, const Ast *sub, const Shape *s, Selection *c)
{
    const int a = c->axis;
    c->step.v[a] = 1;
    c->mark[a] = s->batch[a] ? BATCH_MIXED : 0;
    if (sub->kind == AST_SLICE) {
        int64_t lo, hi;
        Value from, to;
        if (!slice_bound(e, ast_kid(sub, 0), s->dim[a], 0, &from, &lo) ||
            !slice_bound(e, ast_kid(sub, 1), s->dim[a], s->dim[a], &to, &hi))
            return false;
        if (hi <= lo) {
            diag_error(e->diag, sub->loc, "the slice is empty");
            return false;
        }
        select_keep(c, s);
        c->start.v[a] = lo;
        c->size.v[a] = hi - lo;
        c->result.dim[c->result.rank - 1] = hi - lo;
        c->mark[a] = batch_slice_mark(e, s, a, &from, &to, 1);
        return true;
    }
    const Value v = eval(e, sub);
    if (v.kind == V_COUNTER && c->scanned < 0) {
        c->scanned = c->axis++;
        if (loop_counter_index(e, &v, s->dim[a], &c->start.v[a], &c->step.v[a], &c->size.v[a]))
            return true; /* of samples: mixed, as one round for each is */
        diag_error(e->diag, sub->loc, "an index is outside axis %d", a);
        return false;
    }
    if (v.kind == V_TENSOR && (!v.weak || v.node->type.shape.rank > 0)) {
        if (c->picked >= 0) {
            diag_error(e->diag, sub->loc, "only one tensor can be an index; use gather");
            return false;
        }
        c->picked = c->result.rank;
        c->picks = v;
        c->picks_loc = sub->loc;
        select_keep(c, s);
        return true;
    }
    int64_t i;
    if (!element_index(
            e, &v, sub->loc, s->dim[a],
            arena_printf(e->arena, "axis %d, which has %lld elements", a, (long long)s->dim[a]),
            &i))
        return false;
    c->start.v[a] = i;
    c->size.v[a] = 1;
    c->axis++;
    return true;
}

/* The elements that a tensor of integers names along an axis: a function of the library. */
static Value pick(Elab *e, Value x, const Selection *c, SrcRange at)
{
    Global *g = global_find(e, "elements_at", true);
    const Value fn = g ? global_value(e, g, at) : value_error();
    Arg arg[3] = {{.v = x, .loc = at},
                  {.v = value_int(c->picked), .loc = at},
                  {.v = c->picks, .loc = c->picks_loc}};
    const Args args = {.a = arg, .n = 3, .loc = at, .name_loc = at};
    return call_value(e, &fn, &args);
}

static Value index_tensor(Elab *e, const Ast *t, const Value *base)
{
    const Shape *s = &base->node->type.shape;
    int given = 0;
    for (int i = 1; i < t->n; i++)
        given += t->kid[i]->kind != AST_DOTS && t->kid[i]->kind != AST_NONE;
    if (given > s->rank) {
        diag_error(e->diag, t->loc, "%d indices into %s", given, value_what(e, base));
        return value_error();
    }
    Selection c = {.result = shape_scalar(), .scanned = -1, .picked = -1};
    bool dots = false;
    for (int i = 1; i < t->n; i++) {
        const Ast *sub = t->kid[i];
        if (sub->kind == AST_DOTS && !dots) {
            dots = true;
            for (int skip = s->rank - given; skip > 0; skip--)
                select_keep(&c, s);
        } else if (sub->kind == AST_NONE && c.result.rank < MAX_RANK) {
            c.result.dim[c.result.rank++] = 1;
        } else if (!select_sub(e, sub, s, &c)) {
            return value_error();
        }
    }
    while (c.axis < s->rank && c.result.rank < MAX_RANK)
        select_keep(&c, s);
    Node *n = s->rank == 0 ? base->node
                           : batch_slice(e, base->node, c.start.v, c.step.v, c.size.v, c.mark);
    if (c.scanned >= 0)
        n = loop_scan(e, n, c.scanned);
    const Value x = value_node(n ? build_reshape(&e->b, n, &c.result) : NULL, base->weak);
    return c.picked < 0 || x.kind == V_ERROR ? x : pick(e, x, &c, t->loc);
}

Value eval_index(Elab *e, const Ast *t)
{
    const Value base = eval(e, t->kid[0]);
    if (base.kind == V_ERROR)
        return base;
    if (base.kind == V_LIST || base.kind == V_RANGE)
        return index_list(e, t, &base);
    if (base.kind == V_TENSOR)
        return index_tensor(e, t, &base);
    diag_error(e->diag, t->kid[0]->loc, "%s cannot be indexed", value_what(e, &base));
    return value_error();
}

/* Methods are functions here, and self in a block is its list. */
static void no_member(Elab *e, const Ast *t, const Value *base)
{
    const char *here = elab_called_here(t->name), *name = here != NULL ? here : t->name;
    const char *hint = "";
    if (t->kid[0]->kind == AST_SELF)
        hint = "; layers are called by their names, without `self`";
    else if (base->kind == V_TENSOR && strcmp(name, "T") == 0)
        hint = "; write transpose(.., 0, 1)";
    else if (base->kind == V_TENSOR && elab_is_function(e, name))
        hint = arena_printf(e->arena, "; write %s(..)", name);
    diag_error(e->diag, t->name_loc, "%s has no member '%s'%s", value_what(e, base), t->name,
               hint);
}

Value eval_member(Elab *e, const Ast *t)
{
    const Value base = eval(e, t->kid[0]);
    if (base.kind == V_ERROR)
        return base;
    if (base.kind == V_TENSOR && strcmp(t->name, "shape") == 0) {
        const Shape *s = &base.node->type.shape;
        Value v[MAX_RANK];
        for (int i = 0; i < s->rank; i++)
            v[i] = batch_extent(e, s, i);
        return value_list(e, s->rank, v);
    }
    if (base.kind == V_LAYER && base.layer->path != NULL) {
        const char *name = elab_join(e, base.layer->path, t->name);
        if (module_state(e->module, name) != NULL)
            return value_node(state_now(e, name), false);
        diag_error(e->diag, t->name_loc,
                   "the layer '%s' has no parameter '%s' (it has those of its first call)",
                   base.layer->path, t->name);
        return value_error();
    }
    no_member(e, t, &base);
    return value_error();
}
