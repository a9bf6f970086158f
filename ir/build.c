/* The builder.  Types come from the shape rules; explicit batch marks that a caller gives with a
 * shape (expand, iota, full) are kept, as no rule can infer them. */
#include "ir/build.h"

#include <string.h>

#include "ir/shape.h"

static Interval interval_join(Interval a, Interval b)
{
    if (a.hi == 0)
        return b;
    if (b.hi == 0)
        return a;
    return (Interval){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

Node *build(Builder *b, OpCode op, const Attrs *attrs, int n_in, Node *const *in)
{
    Module *m = b->graph->module;
    Node *operands[n_in + 1]; /* a row's few operands */
    Node n = {.op = op, .name = b->hint, .n_in = n_in, .in = operands, .loc = b->loc};
    for (int i = 0; i < n_in; i++) {
        if (!in[i])
            return NULL;
        operands[i] = in[i];
        n.type.models = interval_join(n.type.models, in[i]->type.models);
    }
    if (attrs)
        n.attrs = *attrs;
    else
        attrs_default(op_info(op)->attrs, &n.attrs);
    const ShapeContext c = {
        .arena = m->arena, .diag = m->diag, .loc = b->loc, .samples = m->batch};
    Type type = {0};
    if (!op_info(op)->shape(&c, &n, &type))
        return NULL;
    type.models = n.type.models;
    n.type = type;
    return graph_append(b->graph, &n);
}

Node *build1(Builder *b, OpCode op, Node *x)
{
    return build(b, op, NULL, 1, (Node *[]){x});
}

Node *build2(Builder *b, OpCode op, Node *x, Node *y)
{
    return build(b, op, NULL, 2, (Node *[]){x, y});
}

Node *build3(Builder *b, OpCode op, Node *x, Node *y, Node *z)
{
    return build(b, op, NULL, 3, (Node *[]){x, y, z});
}

static Node *build_leaf(Builder *b, OpCode op, const Attrs *attrs, const Type *type,
                        const char *name)
{
    const Node n = {.op = op, .name = name, .type = *type, .attrs = *attrs, .loc = b->loc};
    return graph_append(b->graph, &n);
}

/* One node per graph and name. */
static Node *named_leaf(Builder *b, OpCode op, const Type *type, const char *name)
{
    Attrs attrs;
    attrs_default(ATTR_leaf, &attrs);
    attrs.leaf.name = arena_intern(b->graph->module->arena, name, strlen(name));
    Node *known = graph_leaf(b->graph, op, name);
    return known ? known : build_leaf(b, op, &attrs, type, name);
}

/* Per model once there are models. */
static Type per_model_scalar(const Builder *b, DType t)
{
    return (Type){.dtype = t, .models = {0, b->graph->module->n_models}};
}

Node *build_input(Builder *b, const char *name)
{
    const Input *i = module_input(b->graph->module, name);
    if (!i)
        diag_internal(NULL, "no input \"%s\" is declared", name);
    return named_leaf(b, OP_INPUT, &i->type, name);
}

Node *build_state(Builder *b, const char *name)
{
    const State *s = module_state(b->graph->module, name);
    if (!s)
        diag_internal(NULL, "no state \"%s\" is declared", name);
    return named_leaf(b, OP_STATE, &s->type, name);
}

Node *build_hyper(Builder *b, const char *name)
{
    const Type type = per_model_scalar(b, DT_F64);
    if (!module_hyper(b->graph->module, name))
        diag_internal(NULL, "no hyper \"%s\" is declared", name);
    return named_leaf(b, OP_HYPER, &type, name);
}

Node *build_scalar(Builder *b, RunValue v)
{
    return named_leaf(b, OP_SCALAR, &(Type){.dtype = DT_F64}, run_value_text(v));
}

Node *build_seed(Builder *b)
{
    graph_foreach (b->graph, n)
        if (n->op == OP_SEED)
            return n;
    Attrs attrs;
    attrs_default(ATTR_none, &attrs);
    const Type type = per_model_scalar(b, DT_I64);
    return build_leaf(b, OP_SEED, &attrs, &type, "seed");
}

Node *build_same_leaf(Builder *b, const Node *n)
{
    RunValue value;
    switch ((LeafKind)op_info(n->op)->data) {
    case LEAF_INPUT:
        return build_input(b, n->attrs.leaf.name);
    case LEAF_STATE:
        return build_state(b, n->attrs.leaf.name);
    case LEAF_HYPER:
        return build_hyper(b, n->attrs.leaf.name);
    case LEAF_SEED:
        return build_seed(b);
    case LEAF_SCALAR:
        if (run_value_find(n->attrs.leaf.name, &value))
            return build_scalar(b, value);
        diag_internal(NULL, "no scalar of the run is called %s", n->attrs.leaf.name);
    case LEAF_CONST:
    case LEAF_ARG:
        break;
    }
    return graph_append(b->graph, n);
}

Node *build_table(Builder *b, DType dtype, const Shape *shape, const double *data)
{
    const int64_t count = shape_count(shape);
    double *copy = arena_array(b->graph->module->arena, (size_t)count, sizeof *copy);
    memcpy(copy, data, (size_t)count * sizeof *copy);
    Attrs attrs;
    attrs_default(ATTR_value, &attrs);
    attrs.value.data = (RealList){.n = count, .v = copy};
    return build_leaf(b, OP_CONST, &attrs, &(Type){.dtype = dtype, .shape = *shape}, b->hint);
}

Node *build_full(Builder *b, DType dtype, const Shape *shape, double value)
{
    double *copy = arena_array(b->graph->module->arena, 1, sizeof *copy);
    *copy = value;
    Attrs attrs;
    attrs_default(ATTR_value, &attrs);
    attrs.value.data = (RealList){.n = 1, .v = copy};
    return build_leaf(b, OP_CONST, &attrs, &(Type){.dtype = dtype, .shape = *shape}, b->hint);
}

Node *build_const(Builder *b, DType dtype, double value)
{
    const Shape scalar = shape_scalar();
    return build_full(b, dtype, &scalar, value);
}

Node *build_cast(Builder *b, Node *x, DType to)
{
    if (!x || x->type.dtype == to)
        return x;
    Attrs attrs;
    attrs_default(ATTR_cast, &attrs);
    attrs.cast.to = to;
    return build(b, OP_CAST, &attrs, 1, &x);
}

Node *build_reshape(Builder *b, Node *x, const Shape *shape)
{
    if (!x || shape_equal(&x->type.shape, shape))
        return x;
    Attrs attrs;
    attrs_default(ATTR_dims, &attrs);
    attrs.dims.shape = ints_of(shape->rank, shape->dim);
    return build(b, OP_RESHAPE, &attrs, 1, &x);
}

Node *build_mark(Node *n, const Shape *shape)
{
    for (int i = 0; n && i < shape->rank; i++)
        if (!n->type.shape.batch[i])
            n->type.shape.batch[i] = shape->batch[i];
    return n;
}

Node *build_expand(Builder *b, Node *x, const Shape *shape)
{
    if (!x || shape_equal(&x->type.shape, shape))
        return x;
    Attrs attrs;
    attrs_default(ATTR_dims, &attrs);
    attrs.dims.shape = ints_of(shape->rank, shape->dim);
    return build_mark(build(b, OP_EXPAND, &attrs, 1, &x), shape);
}

Node *build_permute(Builder *b, Node *x, const int64_t *dims)
{
    if (!x)
        return NULL;
    bool same = true;
    for (int i = 0; i < x->type.shape.rank; i++)
        same = same && dims[i] == i;
    if (same)
        return x;
    Attrs attrs;
    attrs_default(ATTR_perm, &attrs);
    attrs.perm.dims = ints_of(x->type.shape.rank, dims);
    return build(b, OP_PERMUTE, &attrs, 1, &x);
}

Node *build_slice(Builder *b, Node *x, const int64_t *start, const int64_t *step,
                  const int64_t *size)
{
    if (!x)
        return NULL;
    const int rank = x->type.shape.rank;
    bool same = true;
    for (int i = 0; i < rank; i++)
        same = same && start[i] == 0 && step[i] == 1 && size[i] == x->type.shape.dim[i];
    if (same)
        return x;
    Attrs attrs;
    attrs_default(ATTR_slice, &attrs);
    attrs.slice.start = ints_of(rank, start);
    attrs.slice.step = ints_of(rank, step);
    attrs.slice.size = ints_of(rank, size);
    return build(b, OP_SLICE, &attrs, 1, &x);
}

Node *build_pad(Builder *b, Node *x, const int64_t *start, const int64_t *step,
                const int64_t *size, double value)
{
    if (!x)
        return NULL;
    const int rank = x->type.shape.rank;
    bool same = true;
    for (int i = 0; i < rank; i++)
        same = same && start[i] == 0 && step[i] == 1 && size[i] == x->type.shape.dim[i];
    if (same)
        return x;
    Attrs attrs;
    attrs_default(ATTR_pad, &attrs);
    attrs.pad.start = ints_of(rank, start);
    attrs.pad.step = ints_of(rank, step);
    attrs.pad.size = ints_of(rank, size);
    attrs.pad.value = value;
    return build(b, OP_PAD, &attrs, 1, &x);
}

Node *build_window(Builder *b, OpCode op, Node *x, const Attrs *attrs)
{
    return x ? build(b, op, attrs, 1, &x) : NULL;
}

Node *build_reduce(Builder *b, OpCode op, Node *x, int n, const int64_t *dims, bool keepdim)
{
    if (!x || (n == 0 && op != OP_ARGMAX))
        return x;
    Attrs attrs;
    attrs_default(ATTR_axes, &attrs);
    attrs.axes.dims = ints_of(n, dims);
    attrs.axes.keepdim = keepdim;
    return build(b, op, &attrs, 1, &x);
}

Node *build_einsum(Builder *b, Node *x, Node *y, const char *spec)
{
    Attrs attrs;
    attrs_default(ATTR_einsum, &attrs);
    attrs.einsum.spec = arena_intern(b->graph->module->arena, spec, strlen(spec));
    return build(b, OP_EINSUM, &attrs, 2, (Node *[]){x, y});
}

Node *build_iota(Builder *b, const Shape *shape, int64_t dim)
{
    Attrs attrs;
    attrs_default(ATTR_iota, &attrs);
    attrs.iota.shape = ints_of(shape->rank, shape->dim);
    attrs.iota.dim = dim;
    return build_mark(build(b, OP_IOTA, &attrs, 0, NULL), shape);
}

Node *build_sum_to(Builder *b, Node *x, const Shape *shape)
{
    if (!x)
        return NULL;
    const Shape *from = &x->type.shape;
    const int new_axes = from->rank - shape->rank;
    int64_t dims[MAX_RANK];
    int n = 0;
    for (int i = 0; i < from->rank; i++)
        if (i < new_axes || (shape->dim[i - new_axes] == 1 && from->dim[i] != 1))
            dims[n++] = i;
    return build_reshape(b, build_reduce(b, OP_SUM, x, n, dims, false), shape);
}
