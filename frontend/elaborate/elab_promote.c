/* Type promotion: the one place that decides in which element type operands meet, so that no
 * number wraps; for operators, where, pad, cat, scatter_add, states and loops.
 *
 * A weak operand (a number, arange, zeros ...) takes the type of the strong tensor that it meets
 * if that type holds all of its values.  Otherwise integers widen to i64, and what i64 does not
 * hold is an error.  Comparisons compare values: a number that no integer type holds is put in
 * its place among the integers first, so that x < 256 of u8 is true everywhere. */
#include "frontend/elaborate/elab_loop.h"

#include <math.h>

#include "frontend/values/batch.h"
#include "ir/scalar.h"

enum {
    /* So many nodes are looked at to find what values an operand may have; beyond them, any. */
    SPAN_NODES = 64
};

/* A value is a whole number from lo to hi; known: more than its element type says so. */
typedef struct Span {
    double lo, hi;
    bool known;
} Span;

/* A search for a span; it may look at n_left more nodes. */
typedef struct SpanSearch {
    const Elab *e;
    int n_left;
} SpanSearch;

DTypeClass value_class(const Value *v)
{
    if (v->kind == V_BOOL)
        return DTC_BOOL;
    if (v->kind == V_NUM)
        return v->integer ? DTC_INT : DTC_REAL;
    return dtype_class(v->node->type.dtype);
}

bool value_is_strong(const Value *v)
{
    return v->kind == V_TENSOR && !v->weak;
}

static Span span_of_type(DType t)
{
    switch (t) {
    case DT_BOOL:
        return (Span){0, 1, true};
    case DT_U8:
        return (Span){0, 255, true};
    case DT_I32:
        return (Span){-0x1p31, 0x1p31 - 1, true};
    case DT_I64:
    case DT_F32:
    case DT_F64:
    case DT_COUNT:
        break;
    }
    return (Span){-0x1p63, 0x1p63, false};
}

static Span span_join(Span a, Span b)
{
    return (Span){fmin(a.lo, b.lo), fmax(a.hi, b.hi), a.known && b.known};
}

static Span span_of_const(const Node *n)
{
    const RealList *data = &n->attrs.value.data;
    Span s = {data->v[0], data->v[0], true};
    for (int64_t i = 1; i < data->n; i++)
        s = span_join(s, (Span){data->v[i], data->v[i], true});
    return s;
}

/* Of n over operands within a and b. */
typedef Span SpanRule(const Node *n, Span a, Span b);

/* The extremes are at the ends; what may pass i64 may wrap, and is anything. */
static Span span_arithmetic(const Node *n, Span a, Span b)
{
    const ScalarFn f = (ScalarFn)op_info(n->op)->data;
    Span s = {INFINITY, -INFINITY, true};
    for (int i = 0; i < 4; i++) {
        const double x[2] = {i & 1 ? a.hi : a.lo, i & 2 ? b.hi : b.lo};
        const double r = scalar_eval(f, DT_F64, x);
        s = span_join(s, (Span){r, r, a.known && b.known});
    }
    return s.lo >= -0x1p63 && s.hi < 0x1p63 ? s : span_of_type(n->type.dtype);
}

/* The sign is the divisor's. */
static Span span_mod(const Node *n, Span a, Span b)
{
    (void)a;
    return b.lo > 0 ? (Span){0, b.hi - 1, b.known} : span_of_type(n->type.dtype);
}

static Span span_same(const Node *n, Span a, Span b)
{
    (void)n;
    (void)b;
    return a;
}

static Span span_either(const Node *n, Span a, Span b)
{
    (void)n;
    return span_join(a, b);
}

static Span span_cast(const Node *n, Span a, Span b)
{
    const Span whole = span_of_type(n->type.dtype);
    (void)b;
    return a.lo >= whole.lo && a.hi <= whole.hi ? a : whole;
}

/* Where there is no rule, anything that the type holds. */
static SpanRule *const span_rules[OP_COUNT_] = {
    [OP_ADD] = span_arithmetic, [OP_SUB] = span_arithmetic, [OP_MUL] = span_arithmetic,
    [OP_MIN] = span_arithmetic, [OP_MAX] = span_arithmetic, [OP_MOD] = span_mod,
    [OP_WHERE] = span_either,   [OP_CAST] = span_cast,      [OP_RESHAPE] = span_same,
    [OP_EXPAND] = span_same,    [OP_PERMUTE] = span_same,   [OP_SLICE] = span_same,
    [OP_WINDOW] = span_same,    [OP_DETACH] = span_same,    [OP_REDMAX] = span_same,
    [OP_REDMIN] = span_same,
};

static Span span_of_node(const Node *n, SpanSearch *l);

/* Of an argument of a loop being tried.  A number that goes from round to round stays within
 * 2^53: math_counts sees to it. */
static Span span_of_argument(const Node *n, SpanSearch *l)
{
    bool number;
    const Node *from = loop_argument(l->e->loop, n, &number);
    if (number)
        return (Span){-0x1p53, 0x1p53, false};
    return from != NULL ? span_of_node(from, l) : span_of_type(n->type.dtype);
}

/* Of integers and bools. */
static Span span_of_node(const Node *n, SpanSearch *l)
{
    if (n->op == OP_CONST)
        return span_of_const(n);
    if (n->op == OP_IOTA)
        return (Span){0, (double)n->type.shape.dim[n->attrs.iota.dim] - 1, true};
    if (n->op == OP_ARG && l->e->loop != NULL && dtype_class(n->type.dtype) != DTC_REAL)
        return span_of_argument(n, l);
    if (span_rules[n->op] == NULL || dtype_class(n->type.dtype) == DTC_REAL || --l->n_left < 0)
        return span_of_type(n->type.dtype);
    const Span a = span_of_node(n->in[n->op == OP_WHERE ? 1 : 0], l);
    const Span b = n->n_in > 1 ? span_of_node(n->in[n->n_in - 1], l) : a;
    return span_rules[n->op](n, a, b);
}

static Span span_of(const Elab *e, const Value *v)
{
    SpanSearch l = {e, SPAN_NODES};
    if (value_is_number(v))
        return (Span){value_number(v), value_number(v), true};
    return span_of_node(v->node, &l);
}

/* A constant of reals below views, or NULL. */
static const Node *constant_of(const Node *n)
{
    while (op_info(n->op)->kind == KIND_VIEW)
        n = n->in[0];
    return n->op == OP_CONST ? n : NULL;
}

static bool constant_held(DType to, const Node *constant)
{
    for (int64_t i = 0; i < constant->attrs.value.data.n; i++)
        if (!dtype_holds(to, constant->attrs.value.data.v[i]))
            return false;
    return true;
}

bool math_holds(const Elab *e, DType to, const Value *v)
{
    if (dtype_class(to) == DTC_REAL)
        return true;
    if (value_is_number(v))
        return dtype_holds(to, value_number(v));
    if (v->kind != V_TENSOR)
        return false;
    if (value_class(v) == DTC_REAL) {
        const Node *constant = constant_of(v->node);
        return constant != NULL && constant_held(to, constant);
    }
    const Span s = span_of(e, v), room = span_of_type(to);
    return v->node->type.dtype == to || (s.lo >= room.lo && s.hi <= room.hi);
}

bool math_misfits(const Elab *e, DType to, const Value *v)
{
    if (math_holds(e, to, v))
        return false;
    if (value_is_number(v))
        return true;
    if (v->kind != V_TENSOR || !v->weak)
        return false;
    return value_class(v) == DTC_REAL ? constant_of(v->node) != NULL : span_of(e, v).known;
}

DType math_promote(Elab *e, const Value *v, int n, bool *weak)
{
    DType d = DT_COUNT;
    DTypeClass cls = DTC_BOOL;
    for (int i = 0; i < n; i++) {
        const DTypeClass c = value_class(&v[i]);
        cls = c > cls ? c : cls;
        if (value_is_strong(&v[i]))
            d = d == DT_COUNT ? v[i].node->type.dtype : dtype_join(d, v[i].node->type.dtype);
    }
    *weak = d == DT_COUNT;
    if (*weak)
        return cls == DTC_REAL ? DT_F64 : cls == DTC_INT ? DT_I64 : DT_BOOL;
    if (cls > dtype_class(d))
        return cls == DTC_REAL ? e->real : DT_I64;
    for (int i = 0; i < n; i++)
        if (dtype_class(d) == DTC_INT && !math_holds(e, d, &v[i]))
            d = DT_I64;
    /* The join of an integer with a real type is f32 by the table; the program's real type may be
     * f64. */
    return d == DT_F32 ? e->real : d;
}

/* ---- numbers in a loop being tried ---- */

bool math_may_wrap(const Elab *e, OpCode op, const Value v[2])
{
    if (op != OP_ADD && op != OP_SUB && op != OP_MUL)
        return false;
    const Node any = {.op = op, .type = {.dtype = DT_I64}};
    return span_arithmetic(&any, span_of(e, &v[0]), span_of(e, &v[1])).hi >= 0x1p63;
}

/* How far n is from `from`, if it is only added to. */
static bool distance(const Node *n, const Node *from, SpanSearch *l, Span *d)
{
    *d = (Span){0, 0, true};
    if (n == from)
        return true;
    if (--l->n_left < 0)
        return false;
    Span other = *d;
    if (n->op == OP_ADD || n->op == OP_SUB) {
        const bool left = distance(n->in[0], from, l, d);
        if (!left && (n->op == OP_SUB || !distance(n->in[1], from, l, d)))
            return false;
        other = span_of_node(n->in[left ? 1 : 0], l);
        const double sign = n->op == OP_SUB ? -1 : 1;
        *d = (Span){d->lo + fmin(sign * other.lo, sign * other.hi),
                    d->hi + fmax(sign * other.lo, sign * other.hi), true};
        return true;
    }
    if (n->op != OP_WHERE || !distance(n->in[1], from, l, d) ||
        !distance(n->in[2], from, l, &other))
        return false;
    *d = span_join(*d, other);
    return true;
}

bool math_counts(const Elab *e, const Node *after, const Node *from, const Value *before,
                 int64_t rounds)
{
    SpanSearch l = {e, SPAN_NODES};
    Span d;
    if (!distance(after, from, &l, &d))
        return false;
    const Span s = span_of(e, before);
    const double most = fmax(fabs(s.lo), fabs(s.hi)), step = fmax(fabs(d.lo), fabs(d.hi));
    return most + step * (double)rounds <= 0x1p53;
}

/* ---- comparisons ---- */

/* The comparison of the operands the other way round. */
static const OpCode mirrored[OP_COUNT_] = {
    [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT,
    [OP_GE] = OP_LE, [OP_EQ] = OP_EQ, [OP_NE] = OP_NE,
};

static double compare(OpCode op, double a, double b)
{
    return scalar_eval((ScalarFn)op_info(op)->data, DT_F64, (double[]){a, b});
}

/* Integers x against the number c: rounded to the integer that parts them in the same way; where
 * none does (beyond i64, a fraction that x would have to equal, NaN), every x fares as 0 does. */
static Node *against_number(Elab *e, Builder *b, OpCode op, const Value *x, const Value *number)
{
    const double c = value_number(number);
    const double to = op == OP_LT || op == OP_GE ? ceil(c) : floor(c);
    const bool parts = (op != OP_EQ && op != OP_NE) || to == c;
    DType d = x->node->type.dtype;
    double with = to;
    if (!parts || !dtype_holds(DT_I64, to)) {
        op = compare(op, 0, c) != 0 ? OP_GE : OP_LT;
        with = d == DT_U8 ? 0 : -0x1p63;
    }
    if (dtype_class(d) == DTC_BOOL || !dtype_holds(d, with))
        d = DT_I64;
    const Value parting = batch_as(number, value_num(with, true));
    const Shape scalar = shape_scalar();
    return build2(b, op, build_cast(b, x->node, d), math_full(e, d, &scalar, &parting));
}

/* i64 against reals, exactly.  Rounding x to f64 keeps every order but makes equals of
 * neighbours; among those the integers decide.  2^63 is above all integers, but becomes the
 * largest of them. */
static Node *against_reals(Builder *b, OpCode op, Node *x, Node *y)
{
    Node *near = build_cast(b, x, DT_F64), *real = build_cast(b, y, DT_F64);
    Node *whole = build_cast(b, real, DT_I64), *same = build2(b, OP_EQ, near, real);
    Node *above = build2(b, OP_GE, real, build_const(b, DT_F64, 0x1p63));
    Node *inner = build2(b, op == OP_NE ? OP_EQ : op, x, whole);
    if (op == OP_LT || op == OP_LE)
        inner = build2(b, OP_OR, inner, above);
    else
        inner = build2(b, OP_AND, inner, build1(b, OP_NOT, above));
    Node *tie = build2(b, OP_AND, same, inner);
    if (op == OP_EQ || op == OP_NE)
        return op == OP_EQ ? tie : build1(b, OP_NOT, tie);
    const OpCode strict = op == OP_LT || op == OP_LE ? OP_LT : OP_GT;
    return build2(b, OP_OR, build2(b, strict, near, real), tie);
}

/* An integer tensor x against a tensor of reals: in a real type that holds all of x. */
static Node *against_tensor(const Elab *e, Builder *b, OpCode op, const Value *x,
                            const Value *y)
{
    const Span s = span_of(e, x);
    const double most = fmax(fabs(s.lo), fabs(s.hi));
    DType d = y->node->type.dtype;
    if (d == DT_F32 && most > 0x1p24)
        d = DT_F64;
    if (d == DT_F64 && most > 0x1p53)
        return against_reals(b, op, x->node, y->node);
    return build2(b, op, build_cast(b, x->node, d), build_cast(b, y->node, d));
}

Node *math_compare(Elab *e, Builder *b, OpCode op, const Value v[2], SrcRange at)
{
    bool weak;
    for (int i = 0; i < 2; i++) {
        const Value *x = &v[i], *y = &v[1 - i];
        const OpCode as = i == 0 ? op : mirrored[op];
        if (x->kind != V_TENSOR || value_class(x) == DTC_REAL)
            continue;
        if (y->kind == V_NUM || (y->kind == V_BOOL && value_class(x) != DTC_BOOL))
            return against_number(e, b, as, x, y);
        if (y->kind == V_TENSOR && value_class(y) == DTC_REAL)
            return against_tensor(e, b, as, x, y);
    }
    const DType d = math_promote(e, v, 2, &weak);
    return build2(b, op, math_cast(e, &v[0], d, at, "an operand"),
                  math_cast(e, &v[1], d, at, "an operand"));
}
