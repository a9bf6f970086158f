/* Built-in functions that join tensors along an axis: cat and stack.
 *
 * There is no operator for it.  Each part is padded with zeros to the whole extent and the padded
 * parts are added: of the parts at an element all but one are -0, which changes nothing.  For
 * example, cat([a, b]) of f32[2] and f32[1] is [a0, a1, -0] + [-0, -0, b0]. */
#include "frontend/builtins/builtins.h"

enum {
    /* The number of parts that are added at once; see join_in_groups. */
    CAT_GROUP = 8
};

/* Pads axis d with `before` and `after` zeros and gives it that mark. */
static Node *pad_axis(Elab *e, Node *x, int d, int64_t before, int64_t after, int64_t mark)
{
    int64_t start[MAX_RANK], step[MAX_RANK], size[MAX_RANK];
    for (int i = 0; i < x->type.shape.rank; i++) {
        start[i] = i == d ? before : 0;
        step[i] = 1;
        size[i] = x->type.shape.dim[i] + (i == d ? before + after : 0);
    }
    /* -0 leaves what is added to it as it is, -0 too. */
    const bool real = dtype_class(x->type.dtype) == DTC_REAL;
    Node *p = build_pad(&e->b, x, start, step, size, real ? -0.0 : 0);
    if (p != NULL)
        p->type.shape.batch[d] = mark;
    return p;
}

/* The mark of axis d when the tensors lie one behind the other along it: samples stay samples if
 * they are samples in all of them, with as many elements each. */
static int64_t joined_mark(Node *const *x, int n, int d)
{
    int64_t mark = x[0]->type.shape.batch[d];
    for (int i = 1; i < n; i++)
        mark = mark_meet(mark, x[i]->type.shape.batch[d]);
    return mark;
}

/* The operands of cat and stack in one element type. */
static bool operands(const Call *c, int *n, Node ***out, bool *weak)
{
    Elab *e = c->e;
    const Value *list = &c->arg[0];
    if (list->kind != V_LIST || list->list.n == 0) {
        diag_error(e->diag, c->loc[0], "%s takes a list of tensors, not %s", c->builtin->name,
                   value_what(e, list));
        return false;
    }
    *n = list->list.n;
    *out = arena_array(e->arena, (size_t)*n, sizeof **out);
    for (int i = 0; i < *n; i++) {
        const Value *v = &list->list.v[i];
        if (v->kind != V_TENSOR) {
            diag_error(e->diag, c->loc[0], "%s: element %d is %s, not a tensor",
                       c->builtin->name, i, value_what(e, v));
            return false;
        }
    }
    const DType d = math_promote(e, list->list.v, *n, weak);
    for (int i = 0; i < *n; i++)
        if (((*out)[i] = math_cast(e, &list->list.v[i], d, c->loc[0], "an element")) == NULL)
            return false;
    return true;
}

/* The sum of the parts, each of which is padded with -0 to where the others lie. */
static Node *join_parts(Elab *e, Node *const *x, int n, int d)
{
    int64_t total = 0, at = 0;
    for (int i = 0; i < n; i++)
        total += x[i]->type.shape.dim[d];
    Node *r = NULL;
    const int64_t mark = joined_mark(x, n, d);
    for (int i = 0; i < n; i++) {
        const int64_t size = x[i]->type.shape.dim[d];
        Node *p = n == 1 ? x[i] : pad_axis(e, x[i], d, at, total - at - size, mark);
        at += size;
        const OpCode join = p != NULL && p->type.dtype == DT_BOOL ? OP_OR : OP_ADD;
        r = r == NULL ? p : build2(&e->b, join, r, p);
    }
    return r;
}

/* An element of the sum looks at every part.  So many parts are joined in groups first, which the
 * plan can store: then the work does not grow with the square of their number.  Where samples lie
 * along the axis they stay side by side. */
static Node *join_in_groups(Elab *e, Node **x, int n, int d)
{
    while (n > CAT_GROUP && joined_mark(x, n, d) == 0) {
        Node **group = arena_array(e->arena, (size_t)n / CAT_GROUP + 1, sizeof(Node *));
        int n_groups = 0;
        for (int i = 0; i < n; i += CAT_GROUP) {
            const int some = n - i < CAT_GROUP ? n - i : CAT_GROUP;
            group[n_groups] = join_parts(e, x + i, some, d);
            if (group[n_groups++] == NULL)
                return NULL;
        }
        x = group;
        n = n_groups;
    }
    return join_parts(e, x, n, d);
}

static Value concatenate(const Call *c, int n, Node **x, int d, bool weak)
{
    for (int i = 0; i < n; i++) {
        const Shape *s = &x[i]->type.shape, *first = &x[0]->type.shape;
        bool same = s->rank == first->rank;
        for (int k = 0; same && k < s->rank; k++)
            same = k == d || s->dim[k] == first->dim[k];
        if (!same) {
            diag_error(c->e->diag, c->at, "%s: %s does not fit %s along axis %d",
                       c->builtin->name, shape_text(c->e->arena, s),
                       shape_text(c->e->arena, first), d);
            return value_error();
        }
    }
    return value_node(join_in_groups(c->e, x, n, d), weak);
}

Value builtin_cat(const Call *c)
{
    int n, d;
    Node **x;
    bool weak;
    if (!operands(c, &n, &x, &weak) ||
        !value_to_dim(c->e, &c->arg[1], c->loc[1], x[0]->type.shape.rank, &d))
        return value_error();
    return concatenate(c, n, x, d, weak);
}

/* x with its first axis as axis d. */
static Node *move_first(Builder *b, Node *x, int d)
{
    int64_t perm[MAX_RANK];
    for (int i = 0; i < x->type.shape.rank; i++)
        perm[i] = i < d ? i + 1 : i == d ? 0 : i;
    return build_permute(b, x, perm);
}

Value builtin_stack(const Call *c)
{
    int n, d;
    Node **x;
    bool weak;
    const Shape one = {.rank = 1, .dim = {1}};
    if (!operands(c, &n, &x, &weak) ||
        !value_to_dim(c->e, &c->arg[1], c->loc[1], x[0]->type.shape.rank + 1, &d))
        return value_error();
    const int rank = x[0]->type.shape.rank;
    Node *all = c->arg[0].kind == V_LIST ? loop_restack(c->arg[0].list.v, n) : NULL;
    if (all != NULL)
        return value_node(move_first(&c->e->b, all, d), weak);
    for (int i = 0; i < n; i++) {
        Shape r;
        if (x[i]->type.shape.rank != rank ||
            !replace_axes(c, &x[i]->type.shape, d, d, &one, &r)) {
            diag_error(c->e->diag, c->at, "stack: the tensors have different shapes");
            return value_error();
        }
        x[i] = build_reshape(&c->e->b, x[i], &r);
    }
    return concatenate(c, n, x, d, weak);
}
