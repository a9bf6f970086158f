/* Built-in functions that accumulate along an axis: running sums, and sums by index. */
#include "frontend/builtins/builtins.h"

static Node *tensor(const Call *c, int i, bool *weak)
{
    const Value *v = &c->arg[i];
    *weak = v->kind != V_TENSOR || v->weak;
    return math_node(c->e, v, c->loc[i],
                     arena_printf(c->e->arena, "the operand of %s", c->builtin->name));
}

Value builtin_cumsum(const Call *c)
{
    Elab *e = c->e;
    bool weak;
    int d;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_dim(e, &c->arg[1], c->loc[1], x->type.shape.rank, &d))
        return value_error();
    if (dtype_class(x->type.dtype) != DTC_REAL)
        x = build_cast(&e->b, x, DT_I64);
    Attrs attrs;
    attrs_default(ATTR_scan, &attrs);
    attrs.scan.dim = d;
    return value_node(build(&e->b, OP_CUMSUM, &attrs, 1, &x), weak);
}

Value builtin_scatter_add(const Call *c)
{
    Elab *e = c->e;
    bool weak, weak_index, weak_updates;
    int d;
    Node *x = tensor(c, 0, &weak), *index = tensor(c, 2, &weak_index),
         *updates = tensor(c, 3, &weak_updates);
    if (x == NULL || index == NULL || updates == NULL ||
        !value_to_dim(e, &c->arg[1], c->loc[1], x->type.shape.rank, &d))
        return value_error();
    if (dtype_class(index->type.dtype) == DTC_REAL) {
        diag_error(e->diag, c->loc[2], "an index is an integer, not %s",
                   type_text(e->arena, &index->type));
        return value_error();
    }
    /* Sums of integers are i64, as elsewhere. */
    const Value v[2] = {value_node(x, weak), value_node(updates, weak_updates)};
    DType to = math_promote(e, v, 2, &weak);
    if (dtype_class(to) != DTC_REAL)
        to = DT_I64;
    Attrs attrs;
    attrs_default(ATTR_axis, &attrs);
    attrs.axis.dim = d;
    Node *in[3] = {build_cast(&e->b, x, to), build_cast(&e->b, index, DT_I64),
                   build_cast(&e->b, updates, to)};
    return value_node(build(&e->b, OP_SCATTER_ADD, &attrs, 3, in), weak);
}
