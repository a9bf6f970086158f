/* Making, comparing and checking the values of a running program, for everything in the frontend
 * that evaluates.  The value_to_* functions turn a value into a C number, axis or shape; where the
 * value does not fit they report it at the place of the argument and return false. */
#include "frontend/values/value.h"

#include <math.h>
#include <string.h>

#include "frontend/values/batch.h"

Value value_error(void)
{
    return (Value){.kind = V_ERROR};
}

Value value_none(void)
{
    return (Value){.kind = V_NONE};
}

Value value_bool(bool b)
{
    return (Value){.kind = V_BOOL, .b = b};
}

Value value_num(double v, bool integer)
{
    return (Value){.kind = V_NUM, .integer = integer && fabs(v) <= 0x1p63, .num = v};
}

Value value_int(int64_t v)
{
    return value_num((double)v, true);
}

Value value_str(const char *s)
{
    return (Value){.kind = V_STR, .str = s};
}

Value value_list(Elab *e, int n, const Value *v)
{
    Value *copy = arena_array(e->arena, (size_t)n, sizeof *copy);
    if (n > 0)
        memcpy(copy, v, (size_t)n * sizeof *copy);
    return value_list_of(n, copy);
}

Value value_list_of(int n, Value *v)
{
    Value r = {.kind = V_LIST, .list = {n, 1, n, v}};
    for (int i = 0; i < n; i++) {
        if (v[i].kind != V_LIST)
            continue;
        r.list.size += v[i].list.size;
        if (v[i].list.depth >= r.list.depth)
            r.list.depth = v[i].list.depth + 1;
    }
    return r;
}

bool list_checked(Elab *e, const Value *list, SrcRange at)
{
    enum {
        MAX_LIST_DEPTH = 64,
        MAX_LIST_SIZE = 1 << 20
    };
    if (list->list.depth <= MAX_LIST_DEPTH && list->list.size <= MAX_LIST_SIZE)
        return true;
    diag_error(e->diag, at, "the list becomes too large");
    return false;
}

Value value_node(Node *n, bool weak)
{
    if (n == NULL)
        return value_error();
    return (Value){.kind = V_TENSOR, .weak = weak, .node = n};
}

const char *value_what(Elab *e, const Value *v)
{
    switch (v->kind) {
    case V_NONE:
        return "none";
    case V_BOOL:
        return v->b ? "true" : "false";
    case V_NUM: {
        Text t;
        text_init(&t, e->arena);
        text_add(&t, "the number ");
        if (v->integer)
            text_printf(&t, "%.0f", v->num);
        else
            text_real(&t, v->num);
        return t.s;
    }
    case V_STR:
        return arena_printf(e->arena, "the string \"%s\"", v->str);
    case V_WILD:
        return "_";
    case V_LIST:
        return arena_printf(e->arena, "a list of %d", v->list.n);
    case V_RANGE:
        return "a range";
    case V_COUNTER:
        return "the counter of a loop";
    case V_TENSOR:
        if (v->weak && v->node->type.shape.rank == 0)
            return "a run-time scalar";
        return arena_printf(e->arena, "a tensor %s", type_text(e->arena, &v->node->type));
    case V_FN:
        return arena_printf(e->arena, "the function %s", v->def->name);
    case V_BUILTIN:
        return arena_printf(e->arena, "the function %s", v->builtin->name);
    case V_BLOCK:
        return arena_printf(e->arena, "the block %s", v->def->name);
    case V_LAYER:
        return "a layer";
    case V_PARAM:
        return "a parameter";
    case V_DIST:
        return "a distribution";
    case V_OPTDEF:
    case V_OPTIM:
        return "an optimizer";
    case V_SCHEDDEF:
    case V_SCHED:
        return "a schedule";
    case V_ERROR:
        break;
    }
    return "nothing";
}

bool value_is_number(const Value *v)
{
    return v->kind == V_NUM || v->kind == V_BOOL;
}

double value_number(const Value *v)
{
    return v->kind == V_BOOL ? (double)v->b : v->num;
}

bool value_callable(const Value *v)
{
    return v->kind == V_FN || v->kind == V_BUILTIN || v->kind == V_BLOCK ||
           v->kind == V_LAYER || v->kind == V_OPTDEF || v->kind == V_SCHEDDEF;
}

bool value_is_definition(const Value *v)
{
    return v->kind == V_FN || v->kind == V_BLOCK || v->kind == V_OPTDEF ||
           v->kind == V_SCHEDDEF;
}

static bool lists_equal(const Value *a, const Value *b)
{
    if (a->list.n != b->list.n)
        return false;
    for (int i = 0; i < a->list.n; i++)
        if (!value_equal(&a->list.v[i], &b->list.v[i]))
            return false;
    return true;
}

bool value_equal(const Value *a, const Value *b)
{
    if (value_is_number(a) && value_is_number(b))
        return value_number(a) == value_number(b);
    if (a->kind != b->kind)
        return false;
    if (a->kind == V_STR)
        return strcmp(a->str, b->str) == 0;
    if (a->kind == V_LIST)
        return lists_equal(a, b);
    if (a->kind == V_RANGE)
        return a->range.lo == b->range.lo && a->range.hi == b->range.hi &&
               a->range.reversed == b->range.reversed;
    if (a->kind == V_TENSOR)
        return a->node == b->node;
    if (value_is_definition(a))
        return a->def == b->def;
    if (a->kind == V_BUILTIN)
        return a->builtin == b->builtin;
    if (a->kind == V_LAYER)
        return a->layer == b->layer;
    return a->kind == V_NONE || a->kind == V_WILD;
}

bool value_elements(Elab *e, const Value *v, int *n, Value **out)
{
    if (v->kind == V_LIST) {
        *n = v->list.n;
        *out = v->list.v;
        return true;
    }
    if (v->kind != V_RANGE)
        return false;
    const int64_t count = v->range.hi > v->range.lo ? v->range.hi - v->range.lo : 0;
    *n = (int)count;
    *out = arena_array(e->arena, (size_t)count, sizeof **out);
    for (int64_t i = 0; i < count; i++)
        (*out)[i] = value_int(v->range.reversed ? v->range.hi - 1 - i : v->range.lo + i);
    return true;
}

/* The hyper that a scalar of the current graph depends on, or NULL. */
static const char *node_hyper(Elab *e, const Node *n)
{
    /* Operands stand before their users: one walk back over the graph. */
    const Graph *g = e->b.graph;
    if (e->loop != NULL)
        return NULL; /* in two graphs, and nobody will see it */
    bool *reached = arena_array(e->arena, (size_t)n->id + 1, sizeof *reached);
    reached[n->id] = true;
    for (int i = n->id; i >= 0; i--) {
        const Node *x = g->nodes[i];
        if (!reached[i] || x->type.shape.rank != 0)
            continue;
        if (x->op == OP_HYPER)
            return x->attrs.leaf.name;
        for (int k = 0; k < x->n_in; k++)
            reached[x->in[k]->id] = true;
    }
    return NULL;
}

void elab_not_static(Elab *e, const Value *v, SrcRange at, const char *what)
{
    if (v->kind == V_ERROR)
        return;
    const char *hyper = v->kind == V_TENSOR && v->weak ? node_hyper(e, v->node) : NULL;
    if (hyper == NULL) {
        diag_error(e->diag, at, "%s must be known at compile time, but it is %s", what,
                   value_what(e, v));
        return;
    }
    diag_error(e->diag, at,
               "%s must be known at compile time, but it depends on the hyper '%s'; declare "
               "'%s' as `arch`",
               what, hyper, hyper);
    const Hyper *h = module_hyper(e->module, hyper);
    if (h != NULL)
        diag_note(e->diag, h->loc, "'%s' is declared here", hyper);
}

bool value_whole(Elab *e, const Value *v, SrcRange at, const char *what, int64_t *out)
{
    *out = 0;
    if (v->kind == V_TENSOR) {
        elab_not_static(e, v, at, what);
        return false;
    }
    if (!value_is_number(v)) {
        if (v->kind != V_ERROR)
            diag_error(e->diag, at, "%s must be a whole number, not %s", what,
                       value_what(e, v));
        return false;
    }
    const double d = value_number(v);
    if (floor(d) != d || fabs(d) > 9007199254740992.0) {
        diag_error(e->diag, at, "%s must be a whole number, not %s", what, value_what(e, v));
        return false;
    }
    *out = (int64_t)d;
    return true;
}

bool value_to_int(Elab *e, const Value *v, SrcRange at, const char *what, int64_t *out)
{
    batch_decides(e, v, at, what);
    return value_whole(e, v, at, what, out);
}

bool value_to_bool(Elab *e, const Value *v, SrcRange at, const char *what, bool *out)
{
    batch_decides(e, v, at, what);
    return value_truth(e, v, at, what, out);
}

bool value_truth(Elab *e, const Value *v, SrcRange at, const char *what, bool *out)
{
    *out = false;
    if (v->kind == V_TENSOR) {
        elab_not_static(e, v, at, what);
        return false;
    }
    if (value_is_number(v)) {
        *out = value_number(v) != 0;
        return true;
    }
    if (v->kind == V_NONE)
        return true;
    if (v->kind != V_ERROR)
        diag_error(e->diag, at, "%s must be true or false, not %s", what, value_what(e, v));
    return false;
}

bool value_to_dim(Elab *e, const Value *v, SrcRange at, int rank, int *out)
{
    int64_t d;
    *out = 0;
    if (!value_to_int(e, v, at, "the axis", &d))
        return false;
    if (d < -rank || d >= rank) {
        if (rank == 0)
            diag_error(e->diag, at, "axis %lld of a scalar, which has no axes", (long long)d);
        else
            diag_error(e->diag, at, "axis %lld of a tensor with %d axes (allowed: %d .. %d)",
                       (long long)d, rank, -rank, rank - 1);
        return false;
    }
    *out = (int)(d < 0 ? d + rank : d);
    return true;
}

bool value_to_dims(Elab *e, const Value *v, SrcRange at, int rank, int *n, int64_t *out)
{
    bool used[MAX_RANK] = {false};
    *n = 0;
    if (v->kind == V_NONE) {
        for (int i = 0; i < rank; i++)
            out[(*n)++] = i;
        return true;
    }
    const Value *list = v->kind == V_LIST ? v->list.v : v;
    const int count = v->kind == V_LIST ? v->list.n : 1;
    for (int i = 0; i < count; i++) {
        int d;
        if (!value_to_dim(e, &list[i], at, rank, &d))
            return false;
        if (used[d]) {
            diag_error(e->diag, at, "axis %d is given twice", d);
            return false;
        }
        used[d] = true;
    }
    for (int i = 0; i < rank; i++)
        if (used[i])
            out[(*n)++] = i;
    return true;
}

bool shape_stored(Elab *e, SrcRange at, const Shape *s)
{
    if (s->rank <= MAX_STORED_RANK)
        return true;
    diag_error(e->diag, at, "%s has more than %d axes", shape_text(e->arena, s),
               MAX_STORED_RANK);
    return false;
}

bool shape_checked(Elab *e, SrcRange at, const Shape *s)
{
    double count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= (double)s->dim[i];
    if (count <= 1099511627776.0)
        return true;
    diag_error(e->diag, at, "a tensor %s is too large", shape_text(e->arena, s));
    return false;
}

bool value_to_shape(Elab *e, const Value *v, SrcRange at, bool wild, Shape *out)
{
    bool has_open = false;
    *out = shape_scalar();
    if (v->kind == V_ERROR)
        return false;
    const Value *list = v->kind == V_LIST ? v->list.v : v;
    const int n = v->kind == V_LIST ? v->list.n : 1;
    if (n > MAX_RANK) {
        diag_error(e->diag, at, "a shape of %d axes; at most %d are supported", n, MAX_RANK);
        return false;
    }
    for (int i = 0; i < n; i++) {
        int64_t d = -1;
        if (list[i].kind != V_WILD && !value_whole(e, &list[i], at, "a size", &d))
            return false;
        out->batch[i] = batch_size_mark(e, &list[i]);
        if (d == -1 && wild) {
            has_open = true;
        } else if (d < 1) {
            diag_error(e->diag, at,
                       d == -1 ? "the size of axis %d cannot be left open here"
                               : "the size of axis %d is not positive",
                       i);
            return false;
        }
        out->dim[i] = d;
    }
    out->rank = n;
    return has_open || shape_checked(e, at, out);
}

const char *elab_join(Elab *e, const char *prefix, const char *name)
{
    return prefix[0] == '\0' ? name : arena_printf(e->arena, "%s.%s", prefix, name);
}

/* The usual two-pointer glob: on a mismatch the last `*` takes one character more. */
bool pattern_match(const char *pattern, const char *s)
{
    const char *star = NULL, *retry = NULL;
    while (*s != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            retry = s;
        } else if (*pattern == '?' || *pattern == *s) {
            pattern++;
            s++;
        } else if (star != NULL) {
            pattern = star + 1;
            s = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
