/* What of a program's numbers comes from the batch size.
 *
 * N is a number like any other while the program is compiled, but evaluation also has to be right
 * for a last batch of n < N samples: as if it had been compiled for n.  So each number knows how
 * it depends on N - as k * N + c, or in another way - and the sizes of axes hand it on to the
 * marks of shapes.  A number that depends on N and decides something that marks cannot say (which
 * branch, which axis, how often) makes the entry point one for whole batches, here and at once;
 * one that becomes the value of a constant is judged by passes/batch/batch_use.c, when it is
 * known whether anything needs it. */
#include "frontend/values/batch.h"

#include <math.h>

static double batch_size(const Elab *e)
{
    return (double)e->module->batch;
}

bool batch_number(const Value *v)
{
    return value_is_number(v) && (v->of_n != 0 || v->by_n);
}

bool batch_any(const Value *v)
{
    if (v->kind != V_LIST)
        return batch_number(v);
    for (int i = 0; i < v->list.n; i++)
        if (batch_any(&v->list.v[i]))
            return true;
    return false;
}

Value batch_depends(Value r)
{
    r.of_n = 0;
    r.by_n = true;
    return r;
}

Value batch_as(const Value *from, Value r)
{
    if (!batch_number(from))
        return r;
    if (from->by_n || value_number(from) != value_number(&r))
        return batch_depends(r);
    r.of_n = from->of_n;
    return r;
}

/* What is left of v where its part of N is taken away. */
static double rest_of(const Elab *e, const Value *v)
{
    return value_number(v) - (double)v->of_n * batch_size(e);
}

/* Does a - b, which is k * n + c, stand in the same relation to 0 for all n from 1 to N? */
static bool same_for_all_n(const Elab *e, OpCode op, const Value *a, const Value *b)
{
    const double k = (double)(a->of_n - b->of_n), c = rest_of(e, a) - rest_of(e, b);
    const double first = k + c, last = k * batch_size(e) + c;
    switch (op_info(op)->data) {
    case SC_EQ:
    case SC_NE:
        return k == 0 || -c / k != floor(-c / k) || -c / k < 1 || -c / k > batch_size(e);
    case SC_LT:
    case SC_GE:
        return (first < 0) == (last < 0);
    case SC_GT:
    case SC_LE:
        return (first > 0) == (last > 0);
    }
    return false; /* no comparison: nothing is known of it */
}

static bool whole_in(double v)
{
    return v == floor(v) && fabs(v) < 1e15;
}

/* The factor of N in a op b; false: it is not of that form. */
static bool factor_of(const Elab *e, OpCode op, const Value *a, const Value *b, double *k)
{
    const double ka = (double)a->of_n, kb = (double)b->of_n, ca = rest_of(e, a),
                 cb = rest_of(e, b);
    const bool pure = ca == 0 && cb == 0 && kb != 0;
    switch (op_info(op)->data) {
    case SC_ADD:
        *k = ka + kb;
        return true;
    case SC_SUB:
        *k = ka - kb;
        return true;
    case SC_MUL:
        *k = kb == 0 ? ka * cb : kb * ca;
        return ka == 0 || kb == 0;
    case SC_DIV:
    case SC_FDIV:
        *k = pure ? 0 : ka / cb;
        return pure || (kb == 0 && (op == OP_DIV || whole_in(cb)));
    case SC_MOD:
        *k = pure ? ka - kb * floor(ka / kb) : 0;
        return pure || (kb == 0 && whole_in(ka / cb));
    case SC_MIN:
    case SC_MAX:
        *k = (value_number(a) < value_number(b)) == (op == OP_MIN) ? ka : kb;
        return same_for_all_n(e, OP_LT, a, b);
    }
    return false; /* of every other function it is not known */
}

Value batch_binary(const Elab *e, OpCode op, const Value *a, const Value *b, Value r)
{
    double k = 0;
    if ((!batch_number(a) && !batch_number(b)) || !value_is_number(&r))
        return r;
    if (a->by_n || b->by_n)
        return batch_depends(r);
    if (r.kind == V_BOOL)
        return same_for_all_n(e, op, a, b) ? r : batch_depends(r);
    if (!factor_of(e, op, a, b, &k) || !whole_in(k))
        return batch_depends(r);
    r.of_n = (int64_t)k;
    return r;
}

Value batch_unary(const Elab *e, OpCode op, const Value *a, Value r)
{
    const Value zero = value_int(0);
    if (!batch_number(a) || a->by_n)
        return batch_as(a, r);
    if (op == OP_NEG)
        r.of_n = -a->of_n;
    else if (op == OP_ABS && same_for_all_n(e, OP_LT, a, &zero))
        r.of_n = value_number(a) < 0 ? -a->of_n : a->of_n;
    else
        return op == OP_FLOOR || op == OP_CEIL ? batch_as(a, r) : batch_depends(r);
    return r;
}

/* Two values of any kind that are compared. */
bool batch_equal(const Elab *e, const Value *a, const Value *b)
{
    if (value_is_number(a) && value_is_number(b))
        return batch_binary(e, OP_EQ, a, b, value_bool(true)).by_n;
    if (a->kind != V_LIST || b->kind != V_LIST || a->list.n != b->list.n)
        return false;
    for (int i = 0; i < a->list.n; i++)
        if (batch_equal(e, &a->list.v[i], &b->list.v[i]))
            return true;
    return false;
}

Value batch_extent(const Elab *e, const Shape *s, int axis)
{
    Value v = value_int(s->dim[axis]);
    if (s->batch[axis] > 0 && e->module->batch > 0)
        v.of_n = s->dim[axis] / e->module->batch;
    v.by_n = s->batch[axis] == BATCH_MIXED;
    return v;
}

int64_t batch_size_mark(const Elab *e, const Value *v)
{
    if (!batch_number(v))
        return 0;
    return v->of_n > 0 && rest_of(e, v) == 0 ? v->of_n : BATCH_MIXED;
}

void batch_whole(Elab *e, SrcRange at, const char *why)
{
    Graph *g = e->model_graph;
    const bool judged = e->entry == ENTRY_EVAL || e->entry == ENTRY_PREDICT;
    /* What predict leaves out decides nothing there. */
    if (!judged || (e->entry == ENTRY_PREDICT && e->in_objective) || g == NULL)
        return;
    graph_set_whole(g, diag_user_place(e->diag, at), why);
}

void batch_decides(Elab *e, const Value *v, SrcRange at, const char *what)
{
    if (batch_number(v))
        batch_whole(e, at, arena_printf(e->arena, "%s depends on the batch size", what));
}

/* Marks that the program's sizes contradict: what it means for another N is not what the rule has
 * found. */
static bool contradicts(const Elab *e, const Shape *is, const Shape *asked, unsigned open)
{
    for (int i = 0; i < is->rank; i++) {
        const int64_t mark = is->batch[i];
        const int64_t factor = mark > 0 ? is->dim[i] / e->module->batch : mark;
        if (!(open >> i & 1) && factor != asked->batch[i])
            return true;
    }
    return false;
}

/* n with marks of its own: another node where it is x itself. */
static Node *node_with_marks(Elab *e, OpCode op, const Attrs *attrs, Node *n, Node *x)
{
    return n == x ? build(&e->b, op, attrs, 1, &x) : n;
}

Node *batch_resized(Elab *e, OpCode op, Node *x, const Shape *asked, unsigned open)
{
    Node *n = op == OP_RESHAPE ? build_reshape(&e->b, x, asked) : build_expand(&e->b, x, asked);
    if (n == NULL || e->module->batch < 2)
        return n;
    if (op == OP_EXPAND) {
        const int lead = asked->rank - x->type.shape.rank;
        for (int i = 0; i < asked->rank; i++)
            if (i < lead || x->type.shape.dim[i - lead] != asked->dim[i])
                open |= 1u << i;
    }
    if (!contradicts(e, &n->type.shape, asked, open))
        return n;
    Attrs attrs;
    attrs_default(ATTR_dims, &attrs);
    attrs.dims.shape = ints_of(asked->rank, asked->dim);
    n = node_with_marks(e, op, &attrs, n, x);
    for (int i = 0; n != NULL && i < asked->rank; i++)
        if (n->type.shape.batch[i] != 0 || asked->batch[i] != 0)
            n->type.shape.batch[i] = BATCH_MIXED;
    return n;
}

/* As Python: negative from the end, nothing: the end itself.  *cut: it lay outside. */
static Value bound_of(const Elab *e, const Shape *s, int axis, const Value *v, int64_t missing,
                      bool *cut)
{
    const Value extent = batch_extent(e, s, axis);
    if (v->kind == V_NONE)
        return missing == 0 ? value_int(0) : extent;
    Value r = *v;
    if (value_number(v) < 0)
        r = batch_binary(e, OP_ADD, v, &extent,
                         value_int((int64_t)value_number(v) + s->dim[axis]));
    *cut = *cut || value_number(&r) < 0 || value_number(&r) > (double)s->dim[axis];
    return r;
}

int64_t batch_slice_mark(const Elab *e, const Shape *s, int axis, const Value *from,
                         const Value *to, int64_t step)
{
    const int64_t mark = s->batch[axis], block = e->module->batch * (mark > 0 ? mark : 1);
    bool cut = false;
    if (mark == BATCH_MIXED)
        return mark;
    const Value lo = bound_of(e, s, axis, from, 0, &cut);
    const Value hi = bound_of(e, s, axis, to, 1, &cut);
    const bool whole = value_number(&lo) <= 0 && value_number(&hi) >= (double)s->dim[axis];
    if (whole && step == 1 && (mark > 0 || (!batch_number(&lo) && !batch_number(&hi))))
        return mark;
    if (mark == 0 && !batch_number(&lo) && !batch_number(&hi))
        return 0;
    if (cut || step != 1 || lo.by_n || hi.by_n)
        return BATCH_MIXED;
    const int64_t a = (int64_t)value_number(&lo), b = (int64_t)value_number(&hi);
    if (mark > 0)
        /* Some of the times over that all samples lie in the axis. */
        return rest_of(e, &lo) == 0 && rest_of(e, &hi) == 0 && a % block == 0 && b % block == 0
                   ? mark
                   : BATCH_MIXED;
    /* As many elements of another axis as there are samples, from a fixed one on. */
    return lo.of_n == 0 && b - a == hi.of_n * e->module->batch ? hi.of_n : BATCH_MIXED;
}

Node *batch_slice(Elab *e, Node *x, const int64_t *start, const int64_t *step,
                  const int64_t *size, const int64_t *mark)
{
    Node *n = build_slice(&e->b, x, start, step, size);
    if (n == NULL)
        return NULL;
    bool same = true;
    for (int i = 0; i < x->type.shape.rank; i++)
        same = same && n->type.shape.batch[i] == mark[i];
    if (same)
        return n;
    Attrs attrs;
    attrs_default(ATTR_slice, &attrs);
    attrs.slice.start = ints_of(x->type.shape.rank, start);
    attrs.slice.step = ints_of(x->type.shape.rank, step);
    attrs.slice.size = ints_of(x->type.shape.rank, size);
    n = node_with_marks(e, OP_SLICE, &attrs, n, x);
    for (int i = 0; n != NULL && i < x->type.shape.rank; i++)
        n->type.shape.batch[i] = mark[i];
    return n;
}
