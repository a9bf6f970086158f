/* Built-in functions that convolutions and pooling are made of: padding, windows, flips.  An
 * axis, and what is given for it, may be one number or a list. */
#include "frontend/builtins/builtins.h"

#include "frontend/values/batch.h"

enum {
    MOST = 1 << 28 /* of any size or distance */
};

static Node *tensor(const Call *c, int i, bool *weak)
{
    const Value *v = &c->arg[i];
    *weak = v->kind != V_TENSOR || v->weak;
    return math_node(c->e, v, c->loc[i],
                     arena_printf(c->e->arena, "the operand of %s", c->builtin->name));
}

/* Axes in the order given. */
static bool axes_of(const Call *c, int i, int rank, int *n, int *axis)
{
    const Value *v = &c->arg[i], *list = v->kind == V_LIST ? v->list.v : v;
    const int count = v->kind == V_LIST ? v->list.n : 1;
    *n = 0;
    for (int k = 0; k < count; k++) {
        int d;
        if (!value_to_dim(c->e, &list[k], c->loc[i], rank, &d))
            return false;
        for (int j = 0; j < *n; j++)
            if (axis[j] == d) {
                diag_error(c->e->diag, c->loc[i], "axis %d is given twice", d);
                return false;
            }
        axis[(*n)++] = d;
    }
    return true;
}

/* One number for each of n axes, lo at least. */
static bool numbers_of(const Call *c, int i, int n, const char *what, int64_t lo, int64_t *out)
{
    const Value *v = &c->arg[i];
    if (v->kind == V_LIST && v->list.n != n) {
        diag_error(c->e->diag, c->loc[i], "%s: %s has %d numbers for %d axes", c->builtin->name,
                   what, v->list.n, n);
        return false;
    }
    for (int k = 0; k < n; k++) {
        const Value *one = v->kind == V_LIST ? &v->list.v[k] : v;
        if (!value_to_int(c->e, one, c->loc[i], what, &out[k]))
            return false;
        if (out[k] < lo || out[k] > MOST) {
            diag_error(c->e->diag, c->loc[i], "%s must be between %lld and %d, not %lld", what,
                       (long long)lo, MOST, (long long)out[k]);
            return false;
        }
    }
    return true;
}

/* x in a type that holds the padding's value too; 0 and 1 are bool where x is. */
static Node *pad_type(const Call *c, Node *x, bool *weak)
{
    Value v[2] = {value_node(x, *weak), c->arg[4]};
    const double fill = value_number(&v[1]);
    if (x->type.dtype == DT_BOOL && (fill == 0 || fill == 1))
        v[1] = value_bool(fill != 0);
    const DType d = math_promote(c->e, v, 2, weak);
    if (!math_fits(c->e, &v[1], d, c->loc[4], "the padding's value"))
        return NULL;
    return math_cast(c->e, &v[0], d, c->at, "the operand of pad");
}

Value builtin_pad_dim(const Call *c)
{
    bool weak;
    int n, axis[MAX_RANK];
    int64_t before[MAX_RANK], after[MAX_RANK], steps[MAX_RANK];
    int64_t start[MAX_RANK], step[MAX_RANK], size[MAX_RANK];
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !axes_of(c, 1, x->type.shape.rank, &n, axis) ||
        !numbers_of(c, 2, n, "the padding", 0, before) ||
        !numbers_of(c, 3, n, "the padding", 0, after) ||
        !numbers_of(c, 5, n, "the step", 1, steps))
        return value_error();
    if (!value_is_number(&c->arg[4])) {
        elab_not_static(c->e, &c->arg[4], c->loc[4], "the padding's value");
        return value_error();
    }
    batch_decides(c->e, &c->arg[4], c->loc[4], "the padding's value");
    for (int i = 0; i < x->type.shape.rank; i++) {
        start[i] = 0;
        step[i] = 1;
        size[i] = x->type.shape.dim[i];
    }
    for (int k = 0; k < n; k++) {
        start[axis[k]] = before[k];
        step[axis[k]] = steps[k];
        size[axis[k]] = before[k] + (size[axis[k]] - 1) * steps[k] + 1 + after[k];
    }
    x = pad_type(c, x, &weak);
    return value_node(
        x ? build_pad(&c->e->b, x, start, step, size, value_number(&c->arg[4])) : NULL, weak);
}

Value builtin_flip(const Call *c)
{
    bool weak;
    int n;
    int64_t dims[MAX_RANK], start[MAX_RANK], step[MAX_RANK];
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_dims(c->e, &c->arg[1], c->loc[1], x->type.shape.rank, &n, dims))
        return value_error();
    const Shape *s = &x->type.shape;
    for (int i = 0; i < s->rank; i++) {
        start[i] = 0;
        step[i] = 1;
    }
    for (int k = 0; k < n; k++) {
        start[dims[k]] = s->dim[dims[k]] - 1;
        step[dims[k]] = -1;
    }
    return value_node(build_slice(&c->e->b, x, start, step, s->dim), weak);
}

Value builtin_window(const Call *c)
{
    bool weak;
    int n, axis[MAX_RANK];
    int64_t taps[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK];
    Attrs a;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !axes_of(c, 1, x->type.shape.rank, &n, axis) ||
        !numbers_of(c, 2, n, "the size of a window", 1, taps) ||
        !numbers_of(c, 3, n, "the stride", 1, stride) ||
        !numbers_of(c, 4, n, "the dilation", 1, dilation))
        return value_error();
    const Shape *s = &x->type.shape;
    attrs_default(ATTR_window, &a);
    IntList *lists[] = {&a.window.start, &a.window.step, &a.window.size, &a.window.taps,
                        &a.window.dilation};
    for (int i = 0; i < 5; i++)
        lists[i]->n = s->rank;
    for (int i = 0; i < s->rank; i++) {
        a.window.step.v[i] = a.window.dilation.v[i] = 1;
        a.window.size.v[i] = s->dim[i];
    }
    for (int k = 0; k < n; k++) {
        const int64_t reach = dilation[k] * (taps[k] - 1) + 1, room = s->dim[axis[k]];
        if (reach > room) {
            diag_error(c->e->diag, c->at,
                       "a window that reaches over %lld elements does not fit into the %lld of "
                       "axis %d of %s",
                       (long long)reach, (long long)room, axis[k], shape_text(c->e->arena, s));
            return value_error();
        }
        a.window.step.v[axis[k]] = stride[k];
        a.window.size.v[axis[k]] = (room - reach) / stride[k] + 1;
        a.window.taps.v[axis[k]] = taps[k];
        a.window.dilation.v[axis[k]] = dilation[k];
    }
    return value_node(build_window(&c->e->b, OP_WINDOW, x, &a), weak);
}

Value builtin_ntuple(const Call *c)
{
    int64_t n;
    if (!value_to_int(c->e, &c->arg[1], c->loc[1], "the number of elements", &n))
        return value_error();
    if (n < 0 || n > MAX_RANK) {
        diag_error(c->e->diag, c->loc[1], "ntuple makes 0 to %d elements", MAX_RANK);
        return value_error();
    }
    const ValueKind kind = c->arg[0].kind;
    if (kind == V_LIST && c->arg[0].list.n == n)
        return c->arg[0];
    if (kind != V_NUM && kind != V_NONE) {
        diag_error(c->e->diag, c->loc[0], "a number is needed or a list of %lld, not %s",
                   (long long)n, value_what(c->e, &c->arg[0]));
        return value_error();
    }
    Value v[MAX_RANK];
    for (int64_t i = 0; i < n; i++)
        v[i] = c->arg[0];
    return value_list(c->e, (int)n, v);
}
