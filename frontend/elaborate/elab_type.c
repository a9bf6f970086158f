/* Types as a program writes them: in heads of blocks, in declarations and in bindings.
 *
 * A type both checks and binds.  When x of shape [32, 10] meets `x: [N, 10]`, 10 is compared,
 * and N, if no name N is known yet, is bound to 32. */
#include "frontend/elaborate/elab.h"

#include <string.h>

#include "frontend/values/batch.h"

DType elab_dtype(Elab *e, const char *name)
{
    if (name == NULL)
        return e->real;
    const DType t = dtype_find(name);
    return t == DT_F32 ? e->real : t;
}

static bool type_dtype(Elab *e, const Ast *type, DType *out)
{
    *out = elab_dtype(e, type->name);
    if (*out != DT_COUNT)
        return true;
    static const char *const names[] = {"f32", "f64", "i32", "i64", "u8", "bool"};
    const char *closest = diag_closest(type->name, names, 6);
    diag_error(e->diag, type->loc, "unknown element type '%s'%s", type->name,
               closest ? arena_printf(e->arena, "; did you mean '%s'?", closest)
                       : " (f32, f64, i32, i64, u8 and bool exist)");
    return false;
}

static bool is_batch_name(const Elab *e, const Ast *t)
{
    return t->kind == AST_NAME && e->batch_name != NULL && strcmp(t->name, e->batch_name) == 0;
}

/* The size that a name means where no head has bound it: a const or arch, the batch, -D. */
static bool free_dim(Elab *e, const Ast *t, int64_t *out, int64_t *mark)
{
    const bool library = t->loc.file >= 0 && diag_is_library(e->diag, t->loc.file);
    Global *g = global_find(e, t->name, library);
    const char *what = arena_printf(e->arena, "the dim '%s'", t->name);
    if (g != NULL) {
        const Value v = global_value(e, g, t->loc);
        return value_whole(e, &v, t->loc, what, out);
    }
    const int errors = diag_errors(e->diag);
    if (define_dim(e, t->name, out)) {
        *mark = is_batch_name(e, t);
        return true;
    }
    if (diag_errors(e->diag) == errors)
        diag_error(e->diag, t->loc, "the dim '%s' has no value here: give it by -D%s=..%s",
                   t->name, t->name,
                   e->train != NULL ? "" : ", or by `batch` in a train section");
    return false;
}

static bool known_dim(Elab *e, const Ast *t, int64_t *out, int64_t *mark)
{
    *mark = 0;
    if (t->kind == AST_NAME && scope_find(&e->frame->scope, t->name) == NULL)
        return free_dim(e, t, out, mark);
    const Value v = eval(e, t);
    *mark = batch_size_mark(e, &v);
    return value_whole(e, &v, t->loc, "a size", out);
}

/* Only an input's first axis of N is one of samples; what else N makes the size of has as many
 * elements in a last batch, which no other N would give it. */
static int64_t declared_mark(const Elab *e, const Shape *s, int axis, const Ast *t,
                             int64_t mark, bool is_input)
{
    bool first = is_input && is_batch_name(e, t);
    for (int i = 0; i < axis; i++)
        first = first && s->batch[i] <= 0;
    return first ? 1 : mark ? BATCH_MIXED : 0;
}

bool type_eval(Elab *e, const Ast *type, Type *out, bool is_input)
{
    *out = (Type){.dtype = DT_F32, .shape = shape_scalar()};
    if (!type_dtype(e, type, &out->dtype))
        return false;
    if (type->flag || type->n > MAX_STORED_RANK) {
        diag_error(e->diag, type->loc,
                   type->flag ? "`...` has no meaning in a declaration"
                              : "a type of more than %d axes",
                   MAX_STORED_RANK);
        return false;
    }
    for (int i = 0; i < type->n; i++) {
        const Ast *t = type->kid[i];
        int64_t d, mark;
        if (t->kind == AST_WILD) {
            diag_error(e->diag, t->loc, "the size of axis %d must be given here", i);
            return false;
        }
        if (!known_dim(e, t, &d, &mark))
            return false;
        if (d < 1) {
            diag_error(e->diag, t->loc, "the size of axis %d is %lld; sizes are positive", i,
                       (long long)d);
            return false;
        }
        out->shape.dim[i] = d;
        out->shape.batch[i] = declared_mark(e, &out->shape, i, t, mark, is_input);
    }
    out->shape.rank = type->n;
    return shape_checked(e, type->loc, &out->shape);
}

/* A type or dim as it is written. */
static const char *source_text(Elab *e, SrcRange at)
{
    size_t len;
    const char *text = diag_source(e->diag, at.file, &len);
    return arena_strndup(e->arena, text + at.lo, at.hi - at.lo);
}

/* A value that is compared with a type: what both are, for messages. */
typedef struct TypeMatch {
    const Ast *type;
    const Shape *shape;
    SrcRange at;
    const char *subject, *what;
} TypeMatch;

static bool dim_conflict(Elab *e, const TypeMatch *c, const Ast *t, const Binding *b, int axis,
                         int64_t should)
{
    const char *dim = source_text(e, t->loc);
    if (t->kind == AST_NUMBER)
        diag_error(e->diag, c->at, "%s is %s, but axis %d must be %s", c->subject, c->what,
                   axis, dim);
    else
        diag_error(e->diag, c->at, "%s is %s, but axis %d must be %s = %lld", c->subject,
                   c->what, axis, dim, (long long)should);
    if (b != NULL)
        diag_note(e->diag, b->loc, "'%s' is %lld from here", dim, (long long)should);
    return false;
}

/* One dim of a type against a size. */
static bool dim_match(Elab *e, const TypeMatch *c, const Ast *t, int axis)
{
    const int64_t is = c->shape->dim[axis];
    if (t->kind == AST_WILD)
        return true;
    Scope *scope = &e->frame->scope;
    const Binding *b = t->kind == AST_NAME ? scope_find(scope, t->name) : NULL;
    const bool library = t->loc.file >= 0 && diag_is_library(e->diag, t->loc.file);
    if (t->kind == AST_NAME && b == NULL && global_find(e, t->name, library) == NULL) {
        scope_bind(e, scope, t->name, batch_extent(e, c->shape, axis), c->at);
        scope_find(scope, t->name)->is_dim = true;
        return true;
    }
    const Value v = eval(e, t);
    int64_t should;
    if (!value_whole(e, &v, t->loc, "a size in a type", &should))
        return false;
    return is == should || dim_conflict(e, c, t, b, axis, should);
}

/* `...`: the same dims everywhere in one head. */
static bool dots_match(Elab *e, const TypeMatch *c, int n)
{
    const Shape *s = c->shape;
    Scope *scope = &e->frame->scope;
    const Binding *b = scope_find(scope, "...");
    if (b == NULL) {
        Value v[MAX_RANK];
        for (int i = 0; i < n; i++)
            v[i] = batch_extent(e, s, i);
        scope_bind(e, scope, "...", value_list(e, n, v), c->at);
        scope_find(scope, "...")->is_dim = true;
        return true;
    }
    const Value *old = &b->value;
    bool same = old->list.n == n;
    for (int i = 0; same && i < n; i++)
        same = old->list.v[i].num == (double)s->dim[i];
    if (same)
        return true;
    Shape should = shape_scalar();
    for (int i = 0; i < old->list.n; i++)
        should.dim[i] = (int64_t)old->list.v[i].num;
    should.rank = old->list.n;
    diag_error(e->diag, c->at, "%s is %s, but its %s must be %s", c->subject, c->what,
               c->type->n == 0 ? "shape" : "leading axes", shape_text(e->arena, &should));
    diag_note(e->diag, b->loc, "`...` is %s from here", shape_text(e->arena, &should));
    return false;
}

bool type_match(Elab *e, const Ast *type, Value *v, SrcRange at, const char *subject)
{
    DType dtype;
    if (v->kind == V_ERROR || !type_dtype(e, type, &dtype))
        return false;
    /* A number may stand for a whole tensor. */
    if (value_is_number(v) || (v->kind == V_TENSOR && v->weak && v->node->type.shape.rank == 0))
        return true;
    if (v->kind != V_TENSOR) {
        diag_error(e->diag, at, "%s must be a tensor %s, but is %s", subject,
                   source_text(e, type->loc), value_what(e, v));
        return false;
    }
    if (type->name != NULL && v->weak)
        *v = value_node(math_cast(e, v, dtype, at, subject), false);
    if (v->kind == V_ERROR)
        return false;
    const Shape *s = &v->node->type.shape;
    if (type->name != NULL && v->node->type.dtype != dtype) {
        diag_error(e->diag, at, "%s must be %s, but is %s", subject, dtype_text(dtype),
                   value_what(e, v));
        return false;
    }
    const int lead = type->flag ? s->rank - type->n : 0;
    if (lead < 0 || (!type->flag && s->rank != type->n)) {
        diag_error(e->diag, at, "%s must have the shape %s, but is %s", subject,
                   source_text(e, type->loc), value_what(e, v));
        return false;
    }
    const TypeMatch c = {type, s, at, subject, value_what(e, v)};
    if (type->flag && !dots_match(e, &c, lead))
        return false;
    for (int i = 0; i < type->n; i++)
        if (!dim_match(e, &c, type->kid[i], lead + i))
            return false;
    return true;
}
