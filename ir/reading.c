/* One case per kind of operator.  Views and reductions only rename and combine components; a pad
 * and an unwindow divide, which is where guards come from: i = start + step * t has a solution t
 * for some i, and it is inside the operand for some of those. */
#include "ir/reading.h"

#include "ir/shape.h"

/* ---- views ---- */

static Index permuted(const Node *view, const Index *i)
{
    const IntList *dims = &view->attrs.perm.dims;
    Index r;
    r.rank = i->rank;
    for (int k = 0; k < i->rank; k++)
        r.at[dims->v[k]] = i->at[k];
    return r;
}

static Index sliced(const Node *view, const Index *i)
{
    Index r;
    r.rank = i->rank;
    for (int k = 0; k < i->rank; k++) {
        const Affine scaled = affine_scale(&i->at[k], view->attrs.slice.step.v[k]);
        r.at[k] = affine_plus(&scaled, view->attrs.slice.start.v[k]);
    }
    return r;
}

static Shape axes_between(const Shape *s, int first, int end)
{
    Shape r = {.rank = end - first};
    for (int k = first; k < end; k++)
        r.dim[k - first] = s->dim[k];
    return r;
}

/* Runs of axes with equal numbers of elements, as short as possible, are counted through on their
 * own. */
Index index_reshape(IndexSpace *s, const Shape *to, const Shape *from, const Index *i)
{
    Index r;
    r.rank = from->rank;
    for (int t = 0, f = 0; t < to->rank || f < from->rank;) {
        const int t0 = t, f0 = f;
        int64_t a = t < to->rank ? to->dim[t++] : 1, b = f < from->rank ? from->dim[f++] : 1;
        while (a != b) {
            if (a < b)
                a *= to->dim[t++];
            else
                b *= from->dim[f++];
        }
        const Shape outer = axes_between(to, t0, t), inner = axes_between(from, f0, f);
        Index part;
        part.rank = t - t0;
        for (int k = t0; k < t; k++)
            part.at[k - t0] = i->at[k];
        part = index_unflatten(s, &inner, NULL, index_flatten(s, &outer, &part));
        for (int k = f0; k < f; k++)
            r.at[k] = part.at[k - f0];
    }
    return r;
}

static Index windowed(const Node *view, const Index *i)
{
    const Attrs *a = &view->attrs;
    const int rank = view->in[0]->type.shape.rank;
    int tap[MAX_RANK];
    const int taps = window_taps(a, rank, tap);
    Index r;
    r.rank = rank;
    for (int k = 0; k < rank; k++) {
        const Affine along = affine_scale(&i->at[taps + k], a->window.step.v[k]);
        r.at[k] = affine_plus(&along, a->window.start.v[k]);
        if (tap[k] < 0)
            continue;
        const Affine across = affine_scale(&i->at[tap[k]], a->window.dilation.v[k]);
        r.at[k] = affine_add(&r.at[k], &across);
    }
    return r;
}

Index index_view(IndexSpace *s, const Node *view, const Index *i)
{
    const Shape *from = &view->in[0]->type.shape;
    switch ((ViewKind)op_info(view->op)->data) {
    case VIEW_RESHAPE:
        return index_reshape(s, &view->type.shape, from, i);
    case VIEW_EXPAND:
        return index_broadcast(from, i);
    case VIEW_PERMUTE:
        return permuted(view, i);
    case VIEW_SLICE:
        return sliced(view, i);
    case VIEW_WINDOW:
        return windowed(view, i);
    case VIEW_LAYOUT:
        return *i;
    }
    diag_internal(NULL, "%%%s is no view", view->name);
}

/* ---- guards ---- */

static bool may_fail(const IndexSpace *s, const ReadGuard *g)
{
    int64_t lo, hi;
    affine_range(s, &g->at, &lo, &hi);
    return lo < 0 || hi >= g->extent || g->rest.n || g->rest.base;
}

/* Along the axis the operand is read at from / step. */
static void read_quotient(IndexSpace *s, Reading *out, int axis, const Affine *from,
                          int64_t step, int64_t extent)
{
    ReadGuard g = {.at = *from, .extent = extent, .axis = axis};
    if (step < 0) {
        g.at = affine_scale(from, -1);
        step = -step;
    }
    if (step > 1) { /* of a number that is not negative */
        int64_t lo, hi;
        affine_range(s, &g.at, &lo, &hi);
        const int64_t shift = lo < 0 ? (-lo + step - 1) / step : 0;
        const Affine up = affine_plus(&g.at, shift * step);
        affine_split(s, &up, step, &g.at, &g.rest);
        g.at = affine_plus(&g.at, -shift);
    }
    out->at.at[axis] = g.at;
    if (!s->arena || !may_fail(s, &g))
        return;
    ReadGuard **end = &out->guards;
    while (*end)
        end = &(*end)->next;
    *end = arena_alloc(s->arena, sizeof g);
    **end = g;
}

uint64_t read_guard_key(const ReadGuard *g)
{
    const Index i = {.rank = 1, .at = {g->at}};
    return (index_hash(&i) ^ (uint64_t)(g->extent - 1)) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

/* ---- operators of kind INDEX ---- */

static void read_pad(IndexSpace *s, const Node *n, const Index *i, Reading *out)
{
    out->at.rank = i->rank;
    out->outside = n->attrs.pad.value;
    for (int k = 0; k < i->rank; k++) {
        const Affine from = affine_plus(&i->at[k], -n->attrs.pad.start.v[k]);
        read_quotient(s, out, k, &from, n->attrs.pad.step.v[k], n->in[0]->type.shape.dim[k]);
    }
}

/* In front the axes of taps, as they are; then t = (p - start - dilation * tap) / step. */
static void read_unwindow(IndexSpace *s, const Node *n, const Index *i, Reading *out)
{
    const Attrs *a = &n->attrs;
    const int rank = a->window.size.n;
    int tap[MAX_RANK];
    const int taps = window_taps(a, rank, tap);
    index_copy(&out->at, i);
    for (int k = 0; k < rank; k++) {
        Affine from = affine_plus(&i->at[taps + k], -a->window.start.v[k]);
        if (tap[k] >= 0) {
            const Affine back = affine_scale(&i->at[tap[k]], -a->window.dilation.v[k]);
            from = affine_add(&from, &back);
        }
        read_quotient(s, out, taps + k, &from, a->window.step.v[k],
                      n->in[0]->type.shape.dim[taps + k]);
    }
}

static void read_indexed(const Reader *r, const Node *n, int k, const Index *i, Reading *out)
{
    switch ((IndexKind)op_info(n->op)->data) {
    case INDEX_RANDOM: /* seed and step */
        out->at.rank = 0;
        return;
    case INDEX_PAD:
        read_pad(r->space, n, i, out);
        return;
    case INDEX_UNWINDOW:
        read_unwindow(r->space, n, i, out);
        return;
    case INDEX_GATHER: {
        const int64_t dim = n->attrs.axis.dim;
        index_copy(&out->at, i);
        out->at.at[dim] =
            r->value_as_index(r->client, n->in[1], i, n->in[0]->type.shape.dim[dim]);
        return;
    }
    case INDEX_IOTA:
        break;
    }
    diag_internal(NULL, "%%%s has no operand %d", n->name, k);
}

/* ---- reductions ---- */

unsigned reduced_axes(const Node *reduce)
{
    const IntList *dims = &reduce->attrs.axes.dims;
    unsigned axes = 0;
    for (int k = 0; k < dims->n; k++)
        axes |= 1u << dims->v[k];
    return axes;
}

static void read_reduced(const Node *n, const Index *i, Reading *out)
{
    const unsigned reduced = reduced_axes(n);
    out->at.rank = n->in[0]->type.shape.rank;
    for (int k = 0, result = 0; k < out->at.rank; k++) {
        const bool gone = reduced >> k & 1;
        out->at.at[k].base = out->at.at[k].n = 0;
        if (!gone)
            affine_copy(&out->at.at[k], &i->at[result]);
        result += !gone || n->attrs.axes.keepdim;
    }
}

/* ---- all ---- */

int node_n_read(const Node *n)
{
    switch (op_info(n->op)->kind) {
    case KIND_EXPR:
        return n->n_in;
    case KIND_VIEW:
    case KIND_REDUCE:
    case KIND_SCATTER:
        return 1;
    case KIND_INDEX:
        return op_info(n->op)->data == INDEX_GATHER ? 1 : n->n_in;
    case KIND_LEAF:
    case KIND_CONTRACT:
    case KIND_LOOP:
    case KIND_META:
        return 0;
    }
    return 0;
}

void node_read(const Reader *r, const Node *n, int k, const Index *i, Reading *out)
{
    out->guards = NULL;
    out->outside = 0;
    switch (op_info(n->op)->kind) {
    case KIND_EXPR:
        index_broadcast_to(&out->at, &n->in[k]->type.shape, i);
        return;
    case KIND_VIEW:
        out->at = index_view(r->space, n, i);
        return;
    case KIND_INDEX:
        read_indexed(r, n, k, i, out);
        return;
    case KIND_REDUCE:
        read_reduced(n, i, out);
        return;
    case KIND_SCATTER: /* before anything is added */
        index_copy(&out->at, i);
        return;
    case KIND_LEAF:
    case KIND_CONTRACT:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    diag_internal(NULL, "%%%s does not read its operands at an index of its own", n->name);
}

/* ---- through views ---- */

Node *read_through_views(IndexSpace *s, const Node *n, ReadFromMemory *in_memory,
                         const void *context, Index *i)
{
    while (op_info(n->op)->kind == KIND_VIEW && !in_memory(context, n)) {
        if (i)
            *i = index_view(s, n, i);
        n = n->in[0];
    }
    return (Node *)n; /* of the caller's graph */
}

bool node_is_layout(const Node *n)
{
    return op_info(n->op)->kind == KIND_VIEW && op_info(n->op)->data == VIEW_LAYOUT;
}

static bool is_layout(const void *context, const Node *n)
{
    (void)context;
    return node_is_layout(n);
}

Node *base_of_views(const Node *n)
{
    return read_through_views(NULL, n, is_layout, NULL, NULL);
}

Index index_of_axes(IndexSpace *s, const Shape *shape, int *var)
{
    Index i;
    i.rank = shape->rank;
    for (int k = 0; k < i.rank; k++) {
        var[k] = index_var(s, AFFINE_VAR_LOOP, 0, shape->dim[k] - 1, false);
        i.at[k] = shape->dim[k] == 1 ? affine_const(0) : affine_var(var[k]);
    }
    return i;
}

bool affine_strides(Affine at, int rank, const int *var, int64_t *stride, int64_t *offset)
{
    *offset = at.base;
    for (int k = 0; k < rank; k++) {
        stride[k] = affine_coef(&at, var[k]);
        at = affine_without(&at, var[k]);
    }
    return affine_is_const(&at);
}
