/* Built-in functions that compute with elements: scalar functions, reductions, casts; and the table
 * of all built-ins, builtin_rows, expanded from builtins.def. */
#include "frontend/builtins/builtins.h"

#include <math.h>
#include <string.h>

#include "frontend/values/batch.h"
#include "ir/scalar.h"

#define BUILTIN(fname, pars, handler, opcode) {#fname, pars, builtin_##handler, OP_##opcode},
const Builtin builtin_rows[] = {
#include "frontend/builtins/builtins.def"
};
const int builtin_row_count = (int)(sizeof builtin_rows / sizeof *builtin_rows);

Value builtin_unary(const Call *c)
{
    return math_unary(c->e, c->builtin->op, c->arg[0], c->at);
}

Value builtin_binary(const Call *c)
{
    if (c->builtin->op == OP_POW)
        return math_power(c->e, c->arg[0], c->arg[1], c->at);
    return math_binary(c->e, c->builtin->op, c->arg[0], c->arg[1], c->at);
}

Value builtin_where(const Call *c)
{
    return math_where(c->e, c->arg[0], c->arg[1], c->arg[2], c->at);
}

/* Integers of run time keep their low bits, as in PyTorch; those that are known now must be held.
 */
static Value cast_constant(const Call *c, const Value *x, DType d)
{
    const bool integer = dtype_class(d) == DTC_INT;
    Value whole = *x;
    if (value_is_number(x))
        whole =
            batch_as(x, value_num(integer ? trunc(value_number(x)) : value_number(x), integer));
    if (math_misfits(c->e, d, &whole) && !math_fits(c->e, &whole, d, c->loc[0], "what is cast"))
        return value_error();
    if (x->kind == V_TENSOR)
        return value_node(build_cast(&c->e->b, x->node, d), false);
    return value_is_number(x)
               ? whole
               : value_node(math_cast(c->e, x, d, c->loc[0], "what is cast"), false);
}

Value builtin_cast(const Call *c)
{
    Elab *e = c->e;
    const Value *x = &c->arg[0], *to = &c->arg[1];
    if (to->kind != V_STR) {
        diag_error(e->diag, c->loc[1], "the element type is a string such as \"f32\", not %s",
                   value_what(e, to));
        return value_error();
    }
    if (strcmp(to->str, "real") == 0)
        return math_real(e, *x);
    const DType d = elab_dtype(e, to->str);
    if (d == DT_COUNT) {
        diag_error(e->diag, c->loc[1], "unknown element type \"%s\"", to->str);
        return value_error();
    }
    if (d == DT_BOOL && value_is_number(x))
        return batch_as(x, value_bool(value_number(x) != 0));
    if (x->kind == V_TENSOR && (!x->weak || value_class(x) == DTC_REAL || d == DT_BOOL)) {
        Node *n = build_cast(&e->b, x->node, d);
        scalars_note(e, OP_CAST, x, n, c->loc[0]);
        return value_node(n, false);
    }
    return cast_constant(c, x, d);
}

Value builtin_dtype(const Call *c)
{
    const Value *x = &c->arg[0];
    if (x->kind == V_TENSOR)
        return value_str(dtype_text(x->node->type.dtype));
    if (x->kind == V_NUM)
        return value_str(x->integer ? "i64" : dtype_text(c->e->real));
    if (x->kind == V_BOOL)
        return value_str("bool");
    diag_error(c->e->diag, c->loc[0], "%s has no element type", value_what(c->e, x));
    return value_error();
}

/* The operand of a function of tensors; numbers become rank 0. */
static Node *operand(const Call *c, int i, bool *weak)
{
    *weak = c->arg[i].kind != V_TENSOR || c->arg[i].weak;
    return math_node(c->e, &c->arg[i], c->loc[i],
                     arena_printf(c->e->arena, "the operand of %s", c->builtin->name));
}

static Value reduce(const Call *c, OpCode op, const Value *dim, SrcRange dim_loc,
                    const Value *keep, SrcRange keep_loc)
{
    Elab *e = c->e;
    bool weak, keepdim;
    int n;
    int64_t dims[MAX_RANK];
    Node *x = operand(c, 0, &weak);
    if (x == NULL || !value_to_bool(e, keep, keep_loc, "keepdim", &keepdim) ||
        !value_to_dims(e, dim, dim_loc, x->type.shape.rank, &n, dims))
        return value_error();
    /* As PyTorch: sums and products of integers and of truth values are i64. */
    if ((op == OP_SUM || op == OP_PROD) && dtype_class(x->type.dtype) != DTC_REAL)
        x = build_cast(&e->b, x, DT_I64);
    if (op == OP_ARGMAX && dim->kind == V_NONE) {
        const Shape flat = shape_of(1, (int64_t[]){shape_count(&x->type.shape)});
        x = build_reshape(&e->b, x, &flat);
        n = 1;
        dims[0] = 0;
    } else if (op == OP_ARGMAX && n != 1) {
        diag_error(e->diag, dim_loc, "argmax goes along one axis");
        return value_error();
    }
    if (x == NULL || n == 0)
        return value_node(x, weak);
    return value_node(build_reduce(&e->b, op, x, n, dims, keepdim), weak);
}

Value builtin_reduce(const Call *c)
{
    return reduce(c, c->builtin->op, &c->arg[1], c->loc[1], &c->arg[2], c->loc[2]);
}

/* The largest (or smallest) of all elements.  Equal ones share the gradient, unlike along an
 * axis; if some are NaN, those do. */
static Value extreme_of_all(const Call *c, OpCode op)
{
    Builder *b = &c->e->b;
    bool weak, keepdim;
    int64_t dims[MAX_RANK];
    Node *x = operand(c, 0, &weak);
    if (x == NULL || !value_to_bool(c->e, &c->arg[3], c->loc[3], "keepdim", &keepdim))
        return value_error();
    const int rank = x->type.shape.rank;
    for (int i = 0; i < rank; i++)
        dims[i] = i;
    if (rank == 0)
        return value_node(x, weak);
    Node *y = build_reduce(b, op, x, rank, dims, keepdim);
    if (dtype_class(x->type.dtype) != DTC_REAL)
        return value_node(y, weak);
    Node *hit = build2(b, OP_EQ, x, y);
    hit = build2(b, OP_OR, hit, build2(b, OP_NE, x, x));
    hit = build_cast(b, hit, x->type.dtype);
    Node *share = build2(b, OP_DIV, hit, build_reduce(b, OP_SUM, hit, rank, dims, false));
    return value_node(build3(b, OP_SLOPE, y, x, share), weak);
}

Value builtin_minmax(const Call *c)
{
    const bool is_max = c->builtin->op == OP_MAX;
    const Value *other = &c->arg[1], *dim = &c->arg[2];
    if (other->kind != V_NONE && dim->kind != V_NONE) {
        diag_error(c->e->diag, c->at, "%s() takes a second operand or `dim`, not both",
                   c->builtin->name);
        return value_error();
    }
    if (other->kind != V_NONE)
        return math_binary(c->e, c->builtin->op, c->arg[0], *other, c->at);
    if (value_is_number(&c->arg[0]))
        return c->arg[0];
    const OpCode op = is_max ? OP_REDMAX : OP_REDMIN;
    if (dim->kind == V_NONE)
        return extreme_of_all(c, op);
    return reduce(c, op, dim, c->loc[2], &c->arg[3], c->loc[3]);
}

/* How many elements of x lie along dims; a node where only valid samples count. */
Value math_count(Elab *e, Node *x, int n, const int64_t *dims)
{
    double count = 1;
    bool batch = false;
    for (int i = 0; i < n; i++) {
        count *= (double)x->type.shape.dim[dims[i]];
        batch = batch || x->type.shape.batch[dims[i]] != 0;
    }
    if (!batch || e->entry == ENTRY_TRAIN || e->entry == ENTRY_INIT)
        return value_num(count, true);
    Attrs attrs;
    attrs_default(ATTR_axes, &attrs);
    attrs.axes.dims = ints_of(n, dims);
    return value_node(build(&e->b, OP_COUNT, &attrs, 1, &x), true);
}

Value builtin_count(const Call *c)
{
    bool weak;
    int n;
    int64_t dims[MAX_RANK];
    Node *x = operand(c, 0, &weak);
    if (x == NULL || !value_to_dims(c->e, &c->arg[1], c->loc[1], x->type.shape.rank, &n, dims))
        return value_error();
    return math_count(c->e, x, n, dims);
}
