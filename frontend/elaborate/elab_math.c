/* Operators on values, for expressions and built-in functions.
 *
 * Numbers are computed here, at compile time; as soon as a tensor is among the operands a node
 * is made.  Which element type the operands take is decided by elab_promote.c: for example, x +
 * 1 of an f32 tensor x is an f32 node, and 1 becomes a constant of f32. */
#include "frontend/elaborate/elab_loop.h"

#include <math.h>
#include <string.h>

#include "frontend/values/batch.h"
#include "ir/scalar.h"

static Value fail(Elab *e, SrcRange at, const char *what, const Value *v)
{
    if (v->kind != V_ERROR)
        diag_error(e->diag, at, "%s must be a number or a tensor, not %s", what,
                   value_what(e, v));
    return value_error();
}

static bool is_operand(const Value *v)
{
    return value_is_number(v) || v->kind == V_TENSOR;
}

/* Shape of nested lists of numbers; false if they are ragged or hold anything else. */
static bool table_shape(const Value *v, Shape *s, bool *integer)
{
    if (value_is_number(v)) {
        *integer = *integer && (v->kind == V_BOOL || v->integer);
        return true;
    }
    if (v->kind != V_LIST || v->list.n == 0)
        return false;
    for (int i = 0; i < v->list.n; i++) {
        Shape inner = shape_scalar();
        if (!table_shape(&v->list.v[i], &inner, integer))
            return false;
        if (i == 0) {
            s->rank = inner.rank + 1;
            s->dim[0] = v->list.n;
            for (int k = 0; k < inner.rank; k++)
                s->dim[k + 1] = inner.dim[k];
        }
        for (int k = 0; k < inner.rank; k++)
            if (s->dim[k + 1] != inner.dim[k])
                return false;
        if (s->rank != inner.rank + 1)
            return false;
    }
    return true;
}

static void table_fill(const Value *v, double **to)
{
    if (v->kind != V_LIST)
        *(*to)++ = value_number(v);
    for (int i = 0; v->kind == V_LIST && i < v->list.n; i++)
        table_fill(&v->list.v[i], to);
}

/* A list of numbers (or of such lists) as a weak constant tensor; anything else as it is. */
static Value math_table(Elab *e, Value v)
{
    Shape s = shape_scalar();
    bool integer = true;
    if (v.kind == V_COUNTER)
        return loop_counter_tensor(e, &v);
    if (v.kind != V_LIST || v.list.depth >= MAX_RANK || !table_shape(&v, &s, &integer))
        return v;
    double *data = arena_array(e->arena, (size_t)shape_count(&s), sizeof *data), *to = data;
    table_fill(&v, &to);
    Node *table = build_table(&e->b, integer ? DT_I64 : DT_F64, &s, data);
    table->attrs.value.by_n = batch_any(&v);
    return value_node(table, true);
}

/* What a number or a weak tensor would lose, and what a strong one may lose, is not lost in
 * silence. */
bool math_fits(Elab *e, const Value *v, DType to, SrcRange at, const char *what)
{
    const bool certain = math_misfits(e, to, v);
    if (math_holds(e, to, v) || (!certain && value_class(v) == DTC_REAL))
        return true;
    if (certain)
        diag_error(e->diag, at, "%s is %s, with a value that %s does not hold", what,
                   value_what(e, v), dtype_text(to));
    else
        diag_error(e->diag, at,
                   "%s is %s, which may have values that %s does not hold; if it has none, "
                   "write cast(.., \"%s\")",
                   what, value_what(e, v), dtype_text(to), dtype_text(to));
    return false;
}

Node *math_full(Elab *e, DType to, const Shape *shape, const Value *v)
{
    Node *n = build_full(&e->b, to, shape, scalar_round(to, value_number(v)));
    n->attrs.value.of_n = v->of_n;
    n->attrs.value.by_n = v->by_n;
    return n;
}

Node *math_cast(Elab *e, const Value *v, DType to, SrcRange at, const char *what)
{
    if (!is_operand(v)) {
        fail(e, at, what, v);
        return NULL;
    }
    if (!math_fits(e, v, to, at, what))
        return NULL;
    const Shape scalar = shape_scalar();
    return v->kind == V_TENSOR ? build_cast(&e->b, v->node, to) : math_full(e, to, &scalar, v);
}

static DType strong_type(Elab *e, const Value *v)
{
    const DTypeClass c = value_class(v);
    if (value_is_strong(v))
        return v->node->type.dtype;
    return c == DTC_REAL ? e->real : c == DTC_INT ? DT_I64 : DT_BOOL;
}

Node *math_strong(Elab *e, const Value *v, SrcRange at, const char *what)
{
    if (!is_operand(v)) {
        fail(e, at, what, v);
        return NULL;
    }
    return math_cast(e, v, strong_type(e, v), at, what);
}

Node *math_node(Elab *e, const Value *v, SrcRange at, const char *what)
{
    const Value t = math_table(e, *v);
    if (t.kind == V_TENSOR)
        return t.node;
    return math_strong(e, &t, at, what);
}

Node *math_scalar(Elab *e, const Value *v, SrcRange at, const char *what)
{
    Node *n = math_cast(e, v, DT_F64, at, what);
    if (n != NULL && n->type.shape.rank != 0) {
        diag_error(e->diag, at, "%s must be a single number, not %s", what, value_what(e, v));
        return NULL;
    }
    return n;
}

Value math_real(Elab *e, Value v)
{
    v = math_table(e, v);
    if (value_is_number(&v))
        return batch_as(&v, value_num(value_number(&v), false));
    if (v.kind != V_TENSOR || value_class(&v) == DTC_REAL)
        return v;
    return value_node(build_cast(&e->b, v.node, v.weak ? DT_F64 : e->real), v.weak);
}

static bool same_marks(const Shape *a, const Shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->batch, b->batch, (size_t)a->rank * sizeof a->batch[0]) == 0;
}

bool math_same_value(const Node *a, const Node *b, int *left)
{
    if (a == b)
        return true;
    if (--*left < 0 || a->op != b->op || a->n_in != b->n_in || a->type.dtype != b->type.dtype ||
        !shape_equal(&a->type.shape, &b->type.shape) ||
        !attrs_equal(op_info(a->op)->attrs, &a->attrs, &b->attrs))
        return false;
    if (a->op == OP_COUNT)
        return same_marks(&a->in[0]->type.shape, &b->in[0]->type.shape) &&
               shape_equal(&a->in[0]->type.shape, &b->in[0]->type.shape);
    for (int i = 0; i < a->n_in; i++)
        if (!math_same_value(a->in[i], b->in[i], left))
            return false;
    return true;
}

static bool depends_on_data(Elab *e, const Node *n)
{
    bool *needed = arena_array(e->arena, (size_t)n->id + 1, sizeof *needed);
    needed[n->id] = true;
    for (int i = n->id; i >= 0; i--) {
        const Node *x = e->b.graph->nodes[i];
        if (needed[i] && x->op == OP_INPUT)
            return true;
        for (int k = 0; needed[i] && k < x->n_in; k++)
            needed[x->in[k]->id] = true;
    }
    return false;
}

/* What the average of a combination is weighted by: its parts' weight if all have the same, else
 * samples. */
static Node *weight_of(Elab *e, const Value *v, int n)
{
    Node *weight = NULL;
    int left = 256;
    for (int i = 0; i < n; i++)
        if (v[i].kind == V_TENSOR && v[i].weight != NULL) {
            if (weight != NULL && !math_same_value(weight, v[i].weight, &left))
                return NULL;
            weight = v[i].weight;
        }
    for (int i = 0; i < n && weight != NULL && e->entry == ENTRY_EVAL && e->loop == NULL; i++)
        if (v[i].kind == V_TENSOR && v[i].weight == NULL && depends_on_data(e, v[i].node))
            return NULL;
    return weight;
}

static Value with_weight(Elab *e, Value r, const Value *v, int n)
{
    if (r.kind == V_TENSOR && r.node->type.shape.rank == 0)
        r.weight = weight_of(e, v, n);
    return r;
}

static ScalarFn scalar_of(OpCode op)
{
    return (ScalarFn)op_info(op)->data;
}

static bool is_comparison(OpCode op)
{
    return op_info(op)->shape == op_info(OP_EQ)->shape;
}

__extension__ typedef __int128 Wide;

/* Of integers within +-2^63, all that + - * // % and small powers give. */
static Wide integer_result(OpCode op, Wide x, Wide y)
{
    if (op == OP_ADD)
        return x + y;
    if (op == OP_SUB)
        return x - y;
    if (op == OP_MUL)
        return x * y;
    if (op == OP_MIN)
        return x < y ? x : y;
    if (op == OP_MAX)
        return x > y ? x : y;
    const Wide rest = x % y, shift = rest != 0 && (rest < 0) != (y < 0);
    return op == OP_MOD ? rest + (shift ? y : 0) : x / y - shift;
}

/* A number holds integers exactly or not at all: beyond i64 they are reals, and one between that
 * no double is cannot be. */
static Value integer_value(Elab *e, Wide exact, double rounded, SrcRange at)
{
    const Wide most = (Wide)1 << 63;
    if (exact < -most || exact > most)
        return value_num(rounded, false);
    if ((Wide)(double)exact == exact)
        return value_num((double)exact, true);
    diag_error(
        e->diag, at,
        "this integer is above 2**53 and cannot be held exactly; with a real operand (2.0 "
        "for 2) it is rounded");
    return value_error();
}

static Value number_binary(Elab *e, OpCode op, const Value *a, const Value *b, SrcRange at)
{
    const double x[2] = {value_number(a), value_number(b)};
    const bool integer = value_class(a) != DTC_REAL && value_class(b) != DTC_REAL;
    if ((op == OP_FDIV || op == OP_MOD) && x[1] == 0) {
        diag_error(e->diag, at, "division by zero");
        return value_error();
    }
    double r = scalar_eval(scalar_of(op), DT_F64, x);
    if (is_comparison(op))
        return batch_binary(e, op, a, b, value_bool(r != 0));
    return batch_binary(
        e, op, a, b,
        integer ? integer_value(e, integer_result(op, (Wide)x[0], (Wide)x[1]), r, at)
                : value_num(r, false));
}

/* Integers do not wrap in arithmetic: u8 and i32 compute as i64, bool counts as 0 and 1. */
static DType arithmetic_type(DType d)
{
    return dtype_class(d) == DTC_REAL ? d : DT_I64;
}

static void note_scalars(Elab *e, OpCode op, const Value v[2], Node *x, Node *y, bool weak,
                         SrcRange at)
{
    if (weak)
        return;
    scalars_note(e, op, &v[0], x, at);
    scalars_note(e, op, &v[1], y, at);
}

Value math_binary(Elab *e, OpCode op, Value a, Value b, SrcRange at)
{
    Value counter;
    if (loop_counter_binary(op, &a, &b, &counter))
        return counter;
    a = math_table(e, a);
    b = math_table(e, b);
    const Value v[2] = {a, b};
    bool weak;
    if (!is_operand(&a) || !is_operand(&b))
        return fail(e, at, "an operand", is_operand(&a) ? &b : &a);
    if (a.kind != V_TENSOR && b.kind != V_TENSOR)
        return number_binary(e, op, &a, &b, at);
    const DType d = arithmetic_type(math_promote(e, v, 2, &weak));
    Builder bld = e->b;
    bld.loc = at;
    if (is_comparison(op))
        return with_weight(e, value_node(math_compare(e, &bld, op, v, at), weak), v, 2);
    if (e->loop != NULL && weak && d == DT_I64 && math_may_wrap(e, op, v)) {
        loop_refuse(e->loop, "a number may become too large");
        return value_error();
    }
    Node *x = math_cast(e, &a, d, at, "an operand"), *y = math_cast(e, &b, d, at, "an operand");
    note_scalars(e, op, v, x, y, weak, at);
    return with_weight(e, value_node(build2(&bld, op, x, y), weak), v, 2);
}

Value math_divide(Elab *e, Value a, Value b, SrcRange at)
{
    a = math_table(e, a);
    b = math_table(e, b);
    if (a.kind != V_TENSOR && b.kind != V_TENSOR) {
        if (!is_operand(&a) || !is_operand(&b))
            return fail(e, at, "an operand", is_operand(&a) ? &b : &a);
        const double x = value_number(&a), y = value_number(&b);
        if (y == 0) {
            diag_error(e->diag, at, "division by zero");
            return value_error();
        }
        const bool integer =
            value_class(&a) != DTC_REAL && value_class(&b) != DTC_REAL && fmod(x, y) == 0;
        return batch_binary(e, OP_DIV, &a, &b, value_num(x / y, integer));
    }
    /* Of integers it is real; a real weak operand must not pull a strong integer one to f64. */
    const Value v[2] = {a, b};
    bool weak;
    if (!is_operand(&a) || !is_operand(&b))
        return fail(e, at, "an operand", is_operand(&a) ? &b : &a);
    DType d = math_promote(e, v, 2, &weak);
    if (dtype_class(d) != DTC_REAL)
        d = weak ? DT_F64 : e->real;
    Builder bld = e->b;
    bld.loc = at;
    Node *x = math_cast(e, &a, d, at, "an operand"), *y = math_cast(e, &b, d, at, "an operand");
    note_scalars(e, OP_DIV, v, x, y, weak, at);
    return with_weight(e, value_node(build2(&bld, OP_DIV, x, y), weak), v, 2);
}

static Value power_number(Elab *e, double x, double y, bool integer, SrcRange at)
{
    const double r = pow(x, y);
    if (isnan(r) && !isnan(x) && !isnan(y)) {
        diag_error(e->diag, at, "a negative number to a power that is not whole");
        return value_error();
    }
    if (!integer || y < 0 || fabs(x) <= 1)
        return value_num(r, integer && y >= 0);
    Wide exact = 1;
    for (double i = 0; i < y && fabs((double)exact) <= 0x1p63; i++)
        exact *= (Wide)x;
    return integer_value(e, exact, r, at);
}

/* PyTorch's short cuts: x ** 2 is x * x and so on; NULL kind (V_NONE) if there is none. */
static Value power_shortcut(Elab *e, Value x, double p, SrcRange at)
{
    if (p == 1)
        return x;
    if (p == 2)
        return math_binary(e, OP_MUL, x, x, at);
    if (p == 3)
        return math_binary(e, OP_MUL, math_binary(e, OP_MUL, x, x, at), x, at);
    if (p == 0.5)
        return math_unary(e, OP_SQRT, x, at);
    if (p == -1)
        return math_divide(e, value_int(1), x, at);
    return value_none();
}

Value math_power(Elab *e, Value a, Value b, SrcRange at)
{
    a = math_table(e, a);
    b = math_table(e, b);
    if (!is_operand(&a) || !is_operand(&b))
        return fail(e, at, "an operand", is_operand(&a) ? &b : &a);
    if (a.kind != V_TENSOR && b.kind != V_TENSOR)
        return batch_binary(
            e, OP_POW, &a, &b,
            power_number(e, value_number(&a), value_number(&b),
                         value_class(&a) != DTC_REAL && value_class(&b) != DTC_REAL, at));
    if (a.kind == V_TENSOR && value_is_number(&b) && !batch_number(&b)) {
        const Value v = power_shortcut(e, a, value_number(&b), at);
        if (v.kind != V_NONE)
            return v;
    }
    return math_binary(e, OP_POW, math_real(e, a), math_real(e, b), at);
}

/* Functions of real numbers: integers are made real first. */
static bool takes_reals(OpCode op)
{
    ShapeRule *rule = op_info(op)->shape;
    return rule == op_info(OP_EXP)->shape || rule == op_info(OP_ISFINITE)->shape;
}

static Value number_unary(Elab *e, OpCode op, const Value *a, SrcRange at)
{
    const double x = value_number(a);
    if (op == OP_NOT)
        return value_bool(x == 0);
    const double r = scalar_eval(scalar_of(op), DT_F64, &x);
    if (op == OP_ISFINITE)
        return value_bool(r != 0);
    if (isnan(r) && !isnan(x)) {
        diag_error(e->diag, at, "%s of %g has no value", op_info(op)->text, x);
        return value_error();
    }
    const bool whole = op == OP_FLOOR || op == OP_CEIL;
    return value_num(r, whole || (!takes_reals(op) && value_class(a) != DTC_REAL));
}

static Node *as_bool(Elab *e, const Value *v, SrcRange at)
{
    const Shape scalar = shape_scalar();
    if (value_is_number(v)) {
        const Value truth = batch_as(v, value_bool(value_number(v) != 0));
        return math_full(e, DT_BOOL, &scalar, &truth);
    }
    return math_cast(e, v, DT_BOOL, at, "the operand");
}

Value math_unary(Elab *e, OpCode op, Value a, SrcRange at)
{
    a = math_table(e, a);
    if (!is_operand(&a))
        return fail(e, at, "the operand", &a);
    if (a.kind != V_TENSOR)
        return batch_unary(e, op, &a, number_unary(e, op, &a, at));
    Builder b = e->b;
    b.loc = at;
    if (op == OP_NOT)
        return value_node(build1(&b, OP_NOT, as_bool(e, &a, at)), a.weak);
    /* Whole numbers are their own floor. */
    if ((op == OP_FLOOR || op == OP_CEIL) && value_class(&a) != DTC_REAL)
        return a;
    Value x = takes_reals(op) ? math_real(e, a) : a;
    if (x.kind == V_TENSOR && value_class(&x) != DTC_REAL)
        x.node = build_cast(&b, x.node, DT_I64);
    return with_weight(e, value_node(build1(&b, op, x.node), a.weak), &a, 1);
}

Value math_logical(Elab *e, OpCode op, Value a, Value b, SrcRange at)
{
    if (!is_operand(&a) || !is_operand(&b))
        return fail(e, at, "an operand", is_operand(&a) ? &b : &a);
    Builder bld = e->b;
    bld.loc = at;
    return value_node(build2(&bld, op, as_bool(e, &a, at), as_bool(e, &b, at)),
                      !value_is_strong(&a) && !value_is_strong(&b));
}

Value math_where(Elab *e, Value c, Value a, Value b, SrcRange at)
{
    c = math_table(e, c);
    a = math_table(e, a);
    b = math_table(e, b);
    if (!is_operand(&c) || !is_operand(&a) || !is_operand(&b))
        return fail(e, at, "an operand of where",
                    !is_operand(&c)  ? &c
                    : is_operand(&a) ? &b
                                     : &a);
    if (value_is_number(&c) && value_is_number(&a) && value_is_number(&b))
        return batch_as(&c, value_bool(value_number(&c) != 0)).by_n
                   ? batch_depends(value_number(&c) != 0 ? a : b)
               : value_number(&c) != 0 ? a
                                       : b;
    const Value v[2] = {a, b};
    bool weak = false;
    DType d = math_promote(e, v, 2, &weak);
    /* What is chosen by data is data: it takes the program's types. */
    if (weak && value_is_strong(&c)) {
        weak = false;
        d = d == DT_F64 ? e->real : d;
    }
    Node *cond = as_bool(e, &c, at);
    Node *x = math_cast(e, &a, d, at, "an operand"), *y = math_cast(e, &b, d, at, "an operand");
    Builder bld = e->b;
    bld.loc = at;
    return with_weight(e, value_node(build3(&bld, OP_WHERE, cond, x, y), weak), v, 2);
}
