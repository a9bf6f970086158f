/* Built-in functions that make constants, and those that mean more than their value: checks of
 * indices, averages over a data set, questions about a value at compile time. */
#include "frontend/builtins/builtins.h"

#include <math.h>
#include <stdio.h>

#include "frontend/values/batch.h"

static bool number_argument(const Call *c, int i, double *out, bool *integer)
{
    const Value *v = &c->arg[i];
    if (v->kind == V_TENSOR) {
        elab_not_static(c->e, v, c->loc[i],
                        arena_printf(c->e->arena, "an argument of %s", c->builtin->name));
        return false;
    }
    if (!value_is_number(v)) {
        if (v->kind != V_ERROR)
            diag_error(c->e->diag, c->loc[i], "%s takes numbers, not %s", c->builtin->name,
                       value_what(c->e, v));
        return false;
    }
    *out = value_number(v);
    *integer = *integer && (v->kind == V_BOOL || v->integer);
    return true;
}

/* Of arange with n elements: how its length depends on N. */
static int64_t arange_mark(const Call *c, int64_t n, bool one)
{
    const Value zero = value_int(0), *lo = one ? &zero : &c->arg[0];
    const Value *hi = one ? &c->arg[0] : &c->arg[1], *step = &c->arg[2];
    const Value length =
        math_divide(c->e, math_binary(c->e, OP_SUB, *hi, *lo, c->at), *step, c->at);
    const Value count = batch_as(&length, value_int(n));
    return batch_size_mark(c->e, &count);
}

Value builtin_arange(const Call *c)
{
    Elab *e = c->e;
    const bool one = c->arg[1].kind == V_NONE;
    bool integer = true;
    double lo = 0, hi, step;
    if (!number_argument(c, 0, one ? &hi : &lo, &integer) ||
        (!one && !number_argument(c, 1, &hi, &integer)) ||
        !number_argument(c, 2, &step, &integer))
        return value_error();
    const double n = step != 0 ? ceil((hi - lo) / step) : 0;
    if (!(n >= 1) || n > 1e9) {
        diag_error(e->diag, c->at,
                   n >= 1 ? "arange: too many elements"
                          : "arange: there is no element from %g to %g",
                   lo, hi);
        return value_error();
    }
    Shape s = shape_of(1, (int64_t[]){(int64_t)n});
    s.batch[0] = arange_mark(c, (int64_t)n, one);
    Value v = value_node(build_iota(&e->b, &s, 0), true);
    if (step != 1)
        v = math_binary(e, OP_MUL, v, batch_as(&c->arg[2], value_num(step, integer)), c->at);
    if (lo != 0)
        v = math_binary(e, OP_ADD, v, batch_as(&c->arg[0], value_num(lo, integer)), c->at);
    return integer ? v : math_real(e, v);
}

Value builtin_eye(const Call *c)
{
    Elab *e = c->e;
    int64_t n, m;
    if (!value_whole(e, &c->arg[0], c->loc[0], "the size of eye", &n))
        return value_error();
    m = n;
    const Value *columns = c->arg[1].kind != V_NONE ? &c->arg[1] : &c->arg[0];
    if (!value_whole(e, columns, c->loc[1], "the size of eye", &m))
        return value_error();
    if (n < 1 || m < 1 || n > 1 << 20 || m > 1 << 20) {
        diag_error(e->diag, c->at, "the sizes of eye must be between 1 and 2^20");
        return value_error();
    }
    Shape s = shape_of(2, (int64_t[]){n, m});
    s.batch[0] = batch_size_mark(e, &c->arg[0]);
    s.batch[1] = batch_size_mark(e, columns);
    Node *same = build2(&e->b, OP_EQ, build_iota(&e->b, &s, 0), build_iota(&e->b, &s, 1));
    return value_node(same ? build_cast(&e->b, same, DT_F64) : NULL, true);
}

Value builtin_detach(const Call *c)
{
    const Value *x = &c->arg[0];
    if (x->kind != V_TENSOR)
        return *x;
    return value_node(build1(&c->e->b, OP_DETACH, x->node), x->weak);
}

Value builtin_with_slope(const Call *c)
{
    bool weak;
    Node *in[3];
    if (c->arg[1].kind != V_TENSOR)
        return c->arg[0];
    const DType dtype = math_promote(c->e, c->arg, 3, &weak);
    for (int i = 0; i < 3; i++)
        in[i] = math_cast(c->e, &c->arg[i], dtype, c->loc[i], "what with_slope takes");
    return value_node(build3(&c->e->b, OP_SLOPE, in[0], in[1], in[2]), weak);
}

Value builtin_is_same(const Call *c)
{
    const Value *a = &c->arg[0], *b = &c->arg[1];
    return value_bool(a->kind == V_TENSOR && b->kind == V_TENSOR && a->node == b->node);
}

Value builtin_is_list(const Call *c)
{
    return value_bool(c->arg[0].kind == V_LIST || c->arg[0].kind == V_RANGE);
}

Value builtin_is_tensor(const Call *c)
{
    return value_bool(c->arg[0].kind == V_TENSOR);
}

Value builtin_check(const Call *c)
{
    bool ok;
    if (!value_truth(c->e, &c->arg[0], c->loc[0], "the condition of check", &ok))
        return value_error();
    if (ok)
        return value_bool(true);
    Text t;
    text_init(&t, c->e->arena);
    text_add(&t, c->arg[1].kind == V_STR ? c->arg[1].str : "the check failed");
    for (int i = 2; i < 4 && c->arg[i].kind != V_NONE; i++)
        text_printf(&t, "%s%s", i == 2 ? " (" : " and ", value_what(c->e, &c->arg[i]));
    text_add(&t, c->arg[2].kind != V_NONE ? ")" : "");
    diag_error(c->e->diag, c->at, "%s", t.s);
    return value_error();
}

/* An interval as a text: "[0, 1)", "(0, inf)". */
static bool in_interval(const char *allowed, double v, bool *inside)
{
    char left, right;
    double lo, hi;
    if (sscanf(allowed, "%c%lf, %lf%c", &left, &lo, &hi, &right) != 4)
        return false;
    *inside = (left == '[' ? v >= lo : v > lo) && (right == ']' ? v <= hi : v < hi);
    return true;
}

static void outside(const Call *c, double v)
{
    Text t;
    text_init(&t, c->e->arena);
    text_real(&t, v);
    diag_error(c->e->diag, c->at, "%s is %s, allowed is %s", c->arg[1].str, t.s, c->arg[2].str);
}

/* What a hyper is worth is seen when the step is made: there it may not lead to values that are
 * not finite. */
Value builtin_check_range(const Call *c)
{
    Diag *d = c->e->diag;
    bool inside = false;
    if (c->arg[1].kind != V_STR || c->arg[2].kind != V_STR) {
        diag_error(d, c->at, "check_range takes a value, its name and an interval");
        return value_error();
    }
    if (!value_is_number(&c->arg[0]))
        return value_bool(c->arg[0].kind != V_ERROR);
    const double v = value_number(&c->arg[0]);
    if (!in_interval(c->arg[2].str, v, &inside))
        diag_error(d, c->loc[2], "\"%s\" is no interval", c->arg[2].str);
    else if (!inside)
        outside(c, v);
    return inside ? value_bool(true) : value_error();
}

/* The input that a node is a view of, or NULL. */
static const char *input_of(const Node *n)
{
    while (op_info(n->op)->kind == KIND_VIEW || n->op == OP_CAST)
        n = n->in[0];
    return n->op == OP_INPUT ? n->attrs.leaf.name : NULL;
}

static Node *flat(Elab *e, Node *x)
{
    const Shape s = shape_of(1, (int64_t[]){shape_count(&x->type.shape)});
    return build_reshape(&e->b, x, &s);
}

/* Position of the first bad element of x (i64, any shape), or -1, and what stands there. */
static void first_bad(Elab *e, Node *x, IndexCheck *f)
{
    Builder *b = &e->b;
    b->hint = "fault";
    Node *v = flat(e, x);
    Node *bad = build2(b, OP_OR, build2(b, OP_LT, v, build_const(b, DT_I64, (double)f->lo)),
                       build2(b, OP_GE, v, build_const(b, DT_I64, (double)f->hi)));
    if (f->has_ignore)
        bad = build2(b, OP_AND, bad,
                     build2(b, OP_NE, v, build_const(b, DT_I64, (double)f->ignore)));
    const int64_t n = v ? v->type.shape.dim[0] : 0, zero = 0;
    Node *index = v ? build_iota(b, &v->type.shape, 0) : NULL;
    Node *none = build_const(b, DT_I64, (double)n);
    Node *where = build3(b, OP_WHERE, bad, index, none);
    Node *first = where ? build_reduce(b, OP_REDMIN, where, 1, &zero, false) : NULL;
    Node *found = build2(b, OP_LT, first, none);
    f->position = build3(b, OP_WHERE, found, first, build_const(b, DT_I64, -1));
    Node *there =
        build3(b, OP_WHERE, build2(b, OP_EQ, index, first), v, build_const(b, DT_I64, 0));
    f->value = there ? build_reduce(b, OP_SUM, there, 1, &zero, false) : NULL;
}

static bool index_check_known(Elab *e, const IndexCheck *f)
{
    for (int i = 0; i < e->n_index_checks; i++) {
        const IndexCheck *o = &e->index_checks[i];
        if (o->checked == f->checked && o->lo == f->lo && o->hi == f->hi &&
            o->has_ignore == f->has_ignore && o->ignore == f->ignore)
            return true;
    }
    return false;
}

static void index_check_add(Elab *e, Node *checked, Node *x, IndexCheck f)
{
    f.checked = checked;
    f.input = input_of(checked);
    if (index_check_known(e, &f))
        return;
    /* What predict does not need must not need a target. */
    const Input *input = f.input ? module_input(e->module, f.input) : NULL;
    if (e->entry == ENTRY_PREDICT && (e->in_objective || (input != NULL && input->target)))
        return;
    const char *hint = e->b.hint;
    first_bad(e, x, &f);
    e->b.hint = hint;
    if (f.position != NULL && f.value != NULL)
        *ELAB_PUSH(e, index_checks) = f;
}

Value builtin_check_index(const Call *c)
{
    Elab *e = c->e;
    IndexCheck f = {.loc = c->at};
    int64_t lo, hi;
    if (!value_whole(e, &c->arg[1], c->loc[1], "the lowest index", &lo) ||
        !value_whole(e, &c->arg[2], c->loc[2], "the end of the indices", &hi))
        return value_error();
    f.lo = lo;
    f.hi = hi;
    f.has_ignore = c->arg[3].kind != V_NONE;
    if (f.has_ignore && !value_to_int(e, &c->arg[3], c->loc[3], "the ignored index", &f.ignore))
        return value_error();
    Node *x = math_strong(e, &c->arg[0], c->loc[0], "an index");
    if (x == NULL)
        return value_error();
    if (dtype_class(x->type.dtype) == DTC_REAL) {
        diag_error(e->diag, c->loc[0], "labels and indices are integers, not %s",
                   type_text(e->arena, &x->type));
        return value_error();
    }
    Node *wide = build_cast(&e->b, x, DT_I64);
    if (wide == NULL)
        return value_error();
    index_check_add(e, x, wide, f);
    const Value last = math_binary(e, OP_SUB, c->arg[2], value_int(1), c->at);
    Node *r = build2(&e->b, OP_MIN, wide, math_cast(e, &last, DT_I64, c->at, "an index"));
    r = build2(&e->b, OP_MAX, r, math_cast(e, &c->arg[1], DT_I64, c->at, "an index"));
    return value_node(r, false);
}

static Node *sum_all(Elab *e, Node *x)
{
    int64_t dims[MAX_RANK];
    const int rank = x->type.shape.rank;
    for (int i = 0; i < rank; i++)
        dims[i] = i;
    if (dtype_class(x->type.dtype) != DTC_REAL)
        x = build_cast(&e->b, x, DT_I64);
    return x == NULL || rank == 0 ? x : build_reduce(&e->b, OP_SUM, x, rank, dims, false);
}

Value builtin_average(const Call *c)
{
    Elab *e = c->e;
    int64_t all[MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const Value real = math_real(e, c->arg[0]);
    Node *x = math_strong(e, &real, c->loc[0], "what is averaged");
    if (x == NULL)
        return value_error();
    const Value total = value_node(sum_all(e, x), false);
    if (c->arg[1].kind == V_NONE) {
        const Value n = math_count(e, x, x->type.shape.rank, all);
        Value r = math_divide(e, total, n, c->at);
        if (r.kind == V_TENSOR && n.kind == V_TENSOR)
            r.weight = n.node;
        return r;
    }
    Node *w = math_strong(e, &c->arg[1], c->loc[1], "the weight of an average");
    const Value weight = value_node(w ? sum_all(e, w) : NULL, false);
    if (weight.kind == V_ERROR || total.kind == V_ERROR)
        return value_error();
    /* Nothing to average over gives 0, and a finite gradient. */
    const Value none = math_binary(e, OP_EQ, weight, value_int(0), c->at);
    const Value divisor = math_where(e, none, value_int(1), weight, c->at);
    Value r = math_divide(e, total, divisor, c->at);
    if (r.kind == V_TENSOR)
        r.weight = build_cast(&e->b, weight.node, DT_F64);
    return r;
}

Value builtin_avg(const Call *c)
{
    Elab *e = c->e;
    const Value *x = &c->arg[0];
    if (!e->in_objective) {
        diag_error(e->diag, c->at,
                   "`avg` belongs in a loss or a metric: it says where the average over the "
                   "data set is taken");
        return value_error();
    }
    if (e->entry != ENTRY_EVAL)
        return *x;
    Node *n = math_scalar(e, x, c->loc[0], "what is averaged");
    Node *placeholder = build1(&e->b, OP_DETACH, n);
    if (placeholder == NULL)
        return value_error();
    *ELAB_PUSH(e, averages) = (MetricAverage){.placeholder = placeholder,
                                              .value = n,
                                              .weight = x->kind == V_TENSOR ? x->weight : NULL};
    return value_node(placeholder, true);
}

/* The metric that the last epoch ended with: the run writes it into a state, each model's own,
 * when an epoch ends, and the step that sees it takes it away. */
Value builtin_epoch_metric(const Call *c)
{
    Elab *e = c->e;
    const State s = {.name = state_added_name(e, ROLE_EPOCH_METRIC, "schedule.metric"),
                     .type = {.dtype = DT_F64, .shape = shape_scalar()},
                     .role = ROLE_EPOCH_METRIC,
                     .loc = c->at};
    const Dist none = {.arg = {value_num(NAN, false)}, .loc = c->at};
    bool inside = false;
    for (const Frame *f = e->frame; f != NULL; f = f->up)
        inside = inside || f->kind == FRAME_SCHED;
    if (!inside) {
        diag_error(e->diag, c->at, "epoch_metric belongs in a schedule");
        return value_error();
    }
    if (module_state(e->module, s.name) == NULL && state_declare(e, &s, &none).kind == V_ERROR)
        return value_error();
    state_next(e, s.name, build_const(&e->b, DT_F64, NAN), c->at);
    return value_node(build_state(&e->b, s.name), true);
}
