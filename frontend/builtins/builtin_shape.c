/* Built-in functions that ask for shapes or rearrange the elements of one tensor: reshape, permute,
 * slices, gathers.  None of them computes anything; each becomes one node or two.  What joins
 * several tensors is in builtin_join.c. */
#include "frontend/builtins/builtins.h"

#include <string.h>

#include "frontend/values/batch.h"

static Node *tensor(const Call *c, int i, bool *weak)
{
    const Value *v = &c->arg[i];
    *weak = v->kind != V_TENSOR || v->weak;
    return math_node(c->e, v, c->loc[i],
                     arena_printf(c->e->arena, "the operand of %s", c->builtin->name));
}

Value builtin_shape(const Call *c)
{
    Value v[MAX_RANK];
    bool weak;
    const Node *x = tensor(c, 0, &weak);
    if (x == NULL)
        return value_error();
    for (int i = 0; i < x->type.shape.rank; i++)
        v[i] = batch_extent(c->e, &x->type.shape, i);
    return value_list(c->e, x->type.shape.rank, v);
}

Value builtin_rank(const Call *c)
{
    bool weak;
    const Node *x = tensor(c, 0, &weak);
    return x ? value_int(x->type.shape.rank) : value_error();
}

Value builtin_len(const Call *c)
{
    const Value *x = &c->arg[0];
    if (x->kind == V_LIST)
        return value_int(x->list.n);
    if (x->kind == V_RANGE)
        return value_int(x->range.hi > x->range.lo ? x->range.hi - x->range.lo : 0);
    if (x->kind == V_STR)
        return value_int((int64_t)strlen(x->str));
    if (x->kind == V_TENSOR && x->node->type.shape.rank > 0)
        return batch_extent(c->e, &x->node->type.shape, 0);
    diag_error(c->e->diag, c->loc[0], "%s has no length", value_what(c->e, x));
    return value_error();
}

Value builtin_reversed(const Call *c)
{
    Value x = c->arg[0];
    if (x.kind == V_RANGE) {
        x.range.reversed = !x.range.reversed;
        return x;
    }
    if (x.kind != V_LIST) {
        diag_error(c->e->diag, c->loc[0], "reversed takes a list or a range, not %s",
                   value_what(c->e, &x));
        return value_error();
    }
    Value r = value_list(c->e, x.list.n, x.list.v);
    for (int i = 0; i < r.list.n; i++)
        r.list.v[i] = x.list.v[x.list.n - 1 - i];
    return r;
}

/* Fills in the size left open so that the product is `count`. */
static bool infer_size(const Call *c, Shape *s, int64_t count, const Shape *from)
{
    int open = -1;
    int64_t known = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] == -1 && open >= 0) {
            diag_error(c->e->diag, c->at, "only one size can be left open");
            return false;
        }
        if (s->dim[i] == -1)
            open = i;
        else if (s->dim[i] > count / known + 1)
            known = count + 1; /* too much already */
        else
            known *= s->dim[i];
    }
    const bool fits = open >= 0 ? known <= count && count % known == 0 : known == count;
    if (!fits) {
        if (open >= 0)
            s->dim[open] = -1;
        diag_error(c->e->diag, c->at, "%s: %s has %lld elements, which do not fill %s",
                   c->builtin->name, shape_text(c->e->arena, from), (long long)count,
                   shape_text(c->e->arena, s));
        return false;
    }
    if (open >= 0)
        s->dim[open] = count / known;
    return true;
}

static Value reshaped(const Call *c, Node *x, const Shape *s, bool weak)
{
    return value_node(x ? build_reshape(&c->e->b, x, s) : NULL, weak);
}

static unsigned open_sizes(const Shape *s)
{
    unsigned bits = 0;
    for (int i = 0; i < s->rank; i++)
        bits |= (unsigned)(s->dim[i] == -1) << i;
    return bits;
}

Value builtin_reshape(const Call *c)
{
    bool weak;
    Shape s;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_shape(c->e, &c->arg[1], c->loc[1], true, &s))
        return value_error();
    const unsigned open = open_sizes(&s);
    if (!infer_size(c, &s, shape_count(&x->type.shape), &x->type.shape))
        return value_error();
    return value_node(batch_resized(c->e, OP_RESHAPE, x, &s, open), weak);
}

bool replace_axes(const Call *c, const Shape *s, int lo, int hi, const Shape *mid, Shape *out)
{
    *out = shape_scalar();
    if (s->rank - (hi - lo) + mid->rank > MAX_RANK) {
        diag_error(c->e->diag, c->at, "%s: more than %d axes", c->builtin->name, MAX_RANK);
        return false;
    }
    for (int i = 0; i < lo; i++)
        out->dim[out->rank++] = s->dim[i];
    for (int i = 0; i < mid->rank; i++)
        out->dim[out->rank++] = mid->dim[i];
    for (int i = hi; i < s->rank; i++)
        out->dim[out->rank++] = s->dim[i];
    return true;
}

Value builtin_flatten(const Call *c)
{
    bool weak;
    int lo, hi;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL)
        return value_error();
    const Shape *s = &x->type.shape;
    if (s->rank == 0)
        return reshaped(c, x, &(Shape){.rank = 1, .dim = {1}}, weak);
    if (!value_to_dim(c->e, &c->arg[1], c->loc[1], s->rank, &lo) ||
        !value_to_dim(c->e, &c->arg[2], c->loc[2], s->rank, &hi))
        return value_error();
    if (lo > hi) {
        diag_error(c->e->diag, c->at, "flatten: start_dim %d comes after end_dim %d", lo, hi);
        return value_error();
    }
    Shape mid = {.rank = 1, .dim = {1}}, r;
    for (int i = lo; i <= hi; i++)
        mid.dim[0] *= s->dim[i];
    replace_axes(c, s, lo, hi + 1, &mid, &r);
    return reshaped(c, x, &r, weak);
}

Value builtin_unflatten(const Call *c)
{
    bool weak;
    int d;
    Shape mid, r;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_dim(c->e, &c->arg[1], c->loc[1], x->type.shape.rank, &d) ||
        !value_to_shape(c->e, &c->arg[2], c->loc[2], true, &mid))
        return value_error();
    const unsigned mid_open = open_sizes(&mid);
    if (!infer_size(c, &mid, x->type.shape.dim[d], &x->type.shape) ||
        !replace_axes(c, &x->type.shape, d, d + 1, &mid, &r))
        return value_error();
    unsigned open = ~0u;
    for (int i = 0; i < mid.rank; i++)
        if (!(mid_open >> i & 1)) {
            open &= ~(1u << (d + i));
            r.batch[d + i] = mid.batch[i];
        }
    return value_node(batch_resized(c->e, OP_RESHAPE, x, &r, open), weak);
}

Value builtin_squeeze(const Call *c)
{
    bool weak;
    int n;
    int64_t dims[MAX_RANK];
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_dims(c->e, &c->arg[1], c->loc[1], x->type.shape.rank, &n, dims))
        return value_error();
    Shape r = shape_scalar();
    for (int i = 0, k = 0; i < x->type.shape.rank; i++) {
        const bool named = k < n && dims[k] == i;
        k += named;
        if (!named || x->type.shape.dim[i] != 1)
            r.dim[r.rank++] = x->type.shape.dim[i];
    }
    return reshaped(c, x, &r, weak);
}

Value builtin_unsqueeze(const Call *c)
{
    bool weak;
    int d;
    Shape r;
    const Shape one = {.rank = 1, .dim = {1}};
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_dim(c->e, &c->arg[1], c->loc[1], x->type.shape.rank + 1, &d) ||
        !replace_axes(c, &x->type.shape, d, d, &one, &r))
        return value_error();
    return reshaped(c, x, &r, weak);
}

Value builtin_permute(const Call *c)
{
    bool weak, used[MAX_RANK] = {false};
    int64_t dims[MAX_RANK];
    Node *x = tensor(c, 0, &weak);
    if (x == NULL)
        return value_error();
    const int rank = x->type.shape.rank;
    if (c->arg[1].kind != V_LIST || c->arg[1].list.n != rank) {
        diag_error(c->e->diag, c->loc[1], "permute needs the %d axes of %s in their new order",
                   rank, shape_text(c->e->arena, &x->type.shape));
        return value_error();
    }
    for (int i = 0; i < rank; i++) {
        int d;
        if (!value_to_dim(c->e, &c->arg[1].list.v[i], c->loc[1], rank, &d))
            return value_error();
        if (used[d]) {
            diag_error(c->e->diag, c->loc[1], "axis %d is given twice", d);
            return value_error();
        }
        used[d] = true;
        dims[i] = d;
    }
    return value_node(build_permute(&c->e->b, x, dims), weak);
}

Value builtin_transpose(const Call *c)
{
    bool weak;
    int a, b;
    int64_t dims[MAX_RANK];
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_dim(c->e, &c->arg[1], c->loc[1], x->type.shape.rank, &a) ||
        !value_to_dim(c->e, &c->arg[2], c->loc[2], x->type.shape.rank, &b))
        return value_error();
    for (int i = 0; i < x->type.shape.rank; i++)
        dims[i] = i == a ? b : i == b ? a : i;
    return value_node(build_permute(&c->e->b, x, dims), weak);
}

Value builtin_expand(const Call *c)
{
    bool weak;
    Shape s;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_shape(c->e, &c->arg[1], c->loc[1], true, &s))
        return value_error();
    const unsigned open = open_sizes(&s);
    const int lead = s.rank - x->type.shape.rank;
    for (int i = 0; i < s.rank; i++) {
        if (s.dim[i] != -1)
            continue;
        if (i < lead) {
            diag_error(c->e->diag, c->loc[1], "the size of a new axis cannot be left open");
            return value_error();
        }
        s.dim[i] = x->type.shape.dim[i - lead];
    }
    if (!shape_checked(c->e, c->at, &s))
        return value_error();
    return value_node(batch_resized(c->e, OP_EXPAND, x, &s, open), weak);
}

static bool bound(const Call *c, int i, int64_t n, int64_t missing, int64_t *out)
{
    *out = missing;
    if (c->arg[i].kind == V_NONE)
        return true;
    if (!value_whole(c->e, &c->arg[i], c->loc[i], "the bound of a slice", out))
        return false;
    if (*out < 0)
        *out += n;
    *out = *out < 0 ? 0 : *out > n ? n : *out;
    return true;
}

/* x[lo:hi:step] along one axis, which has the mark `cut` then. */
static Value slice_axis(Elab *e, Node *x, bool weak, int axis, int64_t lo, int64_t hi,
                        int64_t step, int64_t cut)
{
    int64_t start[MAX_RANK], steps[MAX_RANK], size[MAX_RANK], mark[MAX_RANK];
    for (int i = 0; i < x->type.shape.rank; i++) {
        start[i] = i == axis ? lo : 0;
        steps[i] = i == axis ? step : 1;
        size[i] = i == axis ? (hi - lo + step - 1) / step : x->type.shape.dim[i];
        mark[i] = i == axis ? cut : x->type.shape.batch[i];
    }
    return value_node(batch_slice(e, x, start, steps, size, mark), weak);
}

Value builtin_slice(const Call *c)
{
    bool weak;
    int d;
    int64_t lo, hi, step;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL || !value_to_dim(c->e, &c->arg[1], c->loc[1], x->type.shape.rank, &d))
        return value_error();
    const int64_t n = x->type.shape.dim[d];
    if (!bound(c, 2, n, 0, &lo) || !bound(c, 3, n, n, &hi) ||
        !value_to_int(c->e, &c->arg[4], c->loc[4], "the step of a slice", &step))
        return value_error();
    if (step < 1 || hi <= lo) {
        diag_error(c->e->diag, c->at,
                   step < 1 ? "the step of a slice must be positive" : "the slice is empty");
        return value_error();
    }
    const int64_t cut = batch_slice_mark(c->e, &x->type.shape, d, &c->arg[2], &c->arg[3], step);
    return slice_axis(c->e, x, weak, d, lo, hi, step, cut);
}

/* Where all samples lie in the axis k times over, k chunks (or a part of k) have all samples
 * each. */
static int64_t chunk_mark(const Call *c, const Shape *s, int d, int count, int64_t chunks)
{
    const int64_t mark = s->batch[d];
    if (mark > 0 && count == chunks && s->dim[d] / (c->e->module->batch * mark) % chunks == 0)
        return mark;
    if (mark)
        batch_whole(c->e, c->at, "`chunk` cuts the samples' axis");
    return mark ? BATCH_MIXED : 0;
}

Value builtin_chunk(const Call *c)
{
    bool weak;
    int d;
    int64_t chunks;
    Node *x = tensor(c, 0, &weak);
    if (x == NULL ||
        !value_to_int(c->e, &c->arg[1], c->loc[1], "the number of chunks", &chunks) ||
        !value_to_dim(c->e, &c->arg[2], c->loc[2], x->type.shape.rank, &d))
        return value_error();
    if (chunks < 1) {
        diag_error(c->e->diag, c->loc[1], "the number of chunks must be positive");
        return value_error();
    }
    const int64_t n = x->type.shape.dim[d], size = (n - 1) / chunks + 1;
    const int count = (int)((n - 1) / size + 1);
    const int64_t cut = chunk_mark(c, &x->type.shape, d, count, chunks);
    Value *v = arena_array(c->e->arena, (size_t)count, sizeof *v);
    for (int i = 0; i < count; i++)
        v[i] = slice_axis(c->e, x, weak, d, i * size, (i + 1) * size < n ? (i + 1) * size : n,
                          1, cut);
    return value_list(c->e, count, v);
}

Value builtin_gather(const Call *c)
{
    bool weak, weak_index;
    int d;
    Node *x = tensor(c, 0, &weak), *index = tensor(c, 2, &weak_index);
    if (x == NULL || index == NULL ||
        !value_to_dim(c->e, &c->arg[1], c->loc[1], x->type.shape.rank, &d))
        return value_error();
    if (dtype_class(index->type.dtype) == DTC_REAL) {
        diag_error(c->e->diag, c->loc[2], "an index is an integer, not %s",
                   type_text(c->e->arena, &index->type));
        return value_error();
    }
    Attrs attrs;
    attrs_default(ATTR_axis, &attrs);
    attrs.axis.dim = d;
    Node *in[2] = {x, build_cast(&c->e->b, index, DT_I64)};
    return value_node(build(&c->e->b, OP_GATHER, &attrs, 2, in), weak && weak_index);
}
