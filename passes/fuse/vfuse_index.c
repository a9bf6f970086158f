/* Which loop variables does the index of each node in a kernel depend on?
 *
 * Walks from the stores to the operands, with the index as one set of loop axes per component.
 * Every distinct (node, index) is one visit.  Reductions' own loops are one more member of the
 * sets, VISIT_REDUCED. */
#include "passes/fuse/vfuse.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/shape.h"

OpKind node_kind(const Node *n)
{
    return op_info(n->op)->kind;
}

bool node_is_leaf(const Node *n)
{
    return node_kind(n) == KIND_LEAF;
}

bool node_is_splat(const Node *n)
{
    return node_is_leaf(n) && op_info(n->op)->data == LEAF_CONST && n->attrs.value.data.n == 1;
}

bool leaf_in_memory(const Node *n)
{
    return node_is_leaf(n) && !node_is_splat(n);
}

bool node_is_layout(const Node *n)
{
    return node_kind(n) == KIND_VIEW && op_info(n->op)->data == VIEW_LAYOUT;
}

unsigned visit_mask(const Visit *v)
{
    unsigned mask = 0;
    for (int i = 0; i < v->node->type.shape.rank; i++)
        mask |= v->component[i];
    return mask;
}

bool reduces_inner(const Node *reduce)
{
    const Shape *s = &reduce->in[0]->type.shape;
    int last = s->rank - 1;
    while (last > 0 && s->dim[last] == 1)
        last--;
    for (int i = 0; i < reduce->attrs.axes.dims.n; i++)
        if (reduce->attrs.axes.dims.v[i] == last)
            return true;
    return s->rank == 0 || s->dim[last] == 1; /* one element: in no loop at all */
}

bool mask_is_prefix(unsigned mask, const Shape *space, const int *order)
{
    bool left_one = false;
    for (int i = 0; i < space->rank; i++) {
        if (space->dim[order[i]] == 1)
            continue;
        if (!(mask >> order[i] & 1))
            left_one = true;
        else if (left_one)
            return false;
    }
    return true;
}

typedef struct Walk {
    VisitList *list;
    Arena *arena;
    ReadFromMemory *external;
    const void *context;
} Walk;

typedef struct Place {
    uint16_t component[MAX_RANK];
    uint16_t outer;
    bool exact;
} Place;

static void walk(Walk *w, Node *n, const Place *p);

static bool seen(const Walk *w, const Node *n, const Place *p)
{
    for (int i = w->list->first[n->id]; i >= 0; i = w->list->v[i].next) {
        const Visit *v = &w->list->v[i];
        if (v->exact == p->exact && v->outer == p->outer &&
            !memcmp(v->component, p->component, sizeof v->component))
            return true;
    }
    return false;
}

static void add_visit(Walk *w, Node *n, const Place *p, bool external)
{
    VisitList *l = w->list;
    if (l->n == l->cap)
        l->v = arena_grow(w->arena, l->v, &l->cap, sizeof *l->v);
    Visit *v = &l->v[l->n];
    *v = (Visit){.node = n,
                 .outer = p->outer,
                 .exact = p->exact,
                 .external = external,
                 .next = l->first[n->id]};
    memcpy(v->component, p->component, sizeof v->component);
    l->first[n->id] = l->n++;
}

static uint16_t all_of(const Place *p, int rank)
{
    uint16_t all = 0;
    for (int i = 0; i < rank; i++)
        all |= p->component[i];
    return all;
}

/* Index of an operand that broadcasts to n. */
static Place place_broadcast(const Node *n, const Node *operand, const Place *p)
{
    const Shape *from = &operand->type.shape;
    Place q = {.outer = p->outer, .exact = p->exact && shape_equal(from, &n->type.shape)};
    for (int i = 0; i < from->rank; i++)
        if (from->dim[i] > 1)
            q.component[i] = p->component[i + n->type.shape.rank - from->rank];
    return q;
}

/* Axes of a reshape fall into runs of equal products; within a run every component may depend on
 * all. */
static Place place_reshape(const Node *n, const Place *p)
{
    const Shape *to = &n->type.shape, *from = &n->in[0]->type.shape;
    Place q = {.outer = p->outer};
    int i = 0, j = 0;
    while (i < to->rank || j < from->rank) {
        const int i0 = i, j0 = j;
        int64_t a = i < to->rank ? to->dim[i++] : 1, b = j < from->rank ? from->dim[j++] : 1;
        while (a != b) {
            if (a < b && i < to->rank)
                a *= to->dim[i++];
            else if (j < from->rank)
                b *= from->dim[j++];
            else
                break;
        }
        uint16_t mask = 0;
        for (int k = i0; k < i; k++)
            mask |= p->component[k];
        for (int k = j0; k < j; k++)
            q.component[k] = from->dim[k] > 1 ? mask : 0;
    }
    return q;
}

static Place place_window(const Node *n, const Place *p)
{
    const Shape *x = &n->in[0]->type.shape;
    int tap[MAX_RANK];
    const int taps = window_taps(&n->attrs, x->rank, tap);
    Place q = {.outer = p->outer};
    for (int k = 0; k < x->rank; k++)
        if (x->dim[k] > 1)
            q.component[k] =
                (uint16_t)(p->component[taps + k] | (tap[k] < 0 ? 0 : p->component[tap[k]]));
    return q;
}

/* The element of the operand depends on the tap too, as the result's index in memory does. */
static Place place_unwindow(const Node *n, const Place *p)
{
    const int rank = n->attrs.window.size.n;
    int tap[MAX_RANK];
    const int taps = window_taps(&n->attrs, rank, tap);
    Place q = *p;
    q.exact = false;
    for (int k = 0; k < rank; k++)
        if (tap[k] >= 0)
            q.component[taps + k] |= p->component[tap[k]];
    return q;
}

static Place place_view(const Node *n, const Place *p)
{
    switch (op_info(n->op)->data) {
    case VIEW_EXPAND:
        return place_broadcast(n, n->in[0], p);
    case VIEW_LAYOUT:
        return *p;
    case VIEW_PERMUTE: {
        Place q = {.outer = p->outer};
        for (int i = 0; i < n->type.shape.rank; i++)
            q.component[n->attrs.perm.dims.v[i]] = p->component[i];
        return q;
    }
    case VIEW_SLICE: {
        Place q = *p;
        q.exact = false;
        for (int i = 0; i < n->type.shape.rank; i++)
            if (n->in[0]->type.shape.dim[i] == 1)
                q.component[i] = 0;
        return q;
    }
    case VIEW_WINDOW:
        return place_window(n, p);
    default:
        return place_reshape(n, p);
    }
}

static void walk_index(Walk *w, Node *n, const Place *p)
{
    const int data = op_info(n->op)->data;
    if (data == INDEX_GATHER) {
        const Place index = place_broadcast(n, n->in[1], p);
        walk(w, n->in[1], &index);
        Place x = *p;
        x.exact = false;
        x.component[n->attrs.axis.dim] = all_of(p, n->type.shape.rank);
        walk(w, n->in[0], &x);
        return;
    }
    if (data == INDEX_UNWINDOW) {
        const Place x = place_unwindow(n, p);
        walk(w, n->in[0], &x);
        return;
    }
    for (int i = 0; i < n->n_in; i++) {
        Place q = {.outer = p->outer};
        if (n->in[i]->type.shape.rank == n->type.shape.rank)
            memcpy(q.component, p->component, sizeof q.component);
        walk(w, n->in[i], &q);
    }
}

static void walk_reduce(Walk *w, Node *n, const Place *p)
{
    const IntList *dims = &n->attrs.axes.dims;
    const Shape *from = &n->in[0]->type.shape;
    Place q = {.outer = (uint16_t)(all_of(p, n->type.shape.rank) | VISIT_REDUCED)};
    for (int i = 0, r = 0; i < from->rank; i++) {
        bool reduced = false;
        for (int k = 0; k < dims->n; k++)
            reduced |= dims->v[k] == i;
        if (reduced)
            q.component[i] = from->dim[i] > 1 ? VISIT_REDUCED : 0;
        else
            q.component[i] = p->component[r];
        r += !reduced || n->attrs.axes.keepdim;
    }
    walk(w, n->in[0], &q);
}

/* Operands that lie in memory, read at indices that are the kernel's own affair. */
static void walk_direct(Walk *w, Node *n)
{
    const Place nowhere = {0};
    for (int i = node_is_loop(n) ? (int)n->attrs.loop.carried : 0; i < n->n_in; i++) {
        Node *x = n->in[i];
        while (node_kind(x) == KIND_VIEW && !w->external(w->context, x)) {
            if (!seen(w, x, &nowhere))
                add_visit(w, x, &nowhere, false);
            x = x->in[0];
        }
        if (!seen(w, x, &nowhere))
            add_visit(w, x, &nowhere, !node_is_splat(x) || w->external(w->context, x));
    }
}

static void walk_operands(Walk *w, Node *n, const Place *p)
{
    switch (node_kind(n)) {
    case KIND_EXPR:
        for (int i = 0; i < n->n_in; i++) {
            const Place q = place_broadcast(n, n->in[i], p);
            walk(w, n->in[i], &q);
        }
        return;
    case KIND_VIEW: {
        const Place q = place_view(n, p);
        walk(w, n->in[0], &q);
        return;
    }
    case KIND_INDEX:
        walk_index(w, n, p);
        return;
    case KIND_REDUCE:
        walk_reduce(w, n, p);
        return;
    case KIND_CONTRACT:
    case KIND_SCATTER:
        walk_direct(w, n);
        return;
    case KIND_LOOP:
        if (node_is_loop(n))
            walk_direct(w, n);
        else
            walk(w, n->in[0], p);
        return;
    default:
        return;
    }
}

static void walk(Walk *w, Node *n, const Place *p)
{
    if (seen(w, n, p))
        return;
    const bool external = leaf_in_memory(n) || w->external(w->context, n);
    add_visit(w, n, p, external);
    if (!external)
        walk_operands(w, n, p);
}

void visit_kernel(VisitList *out, Arena *a, const Graph *g, int n_roots, Node *const *roots,
                  const Shape *space, ReadFromMemory *external, const void *context)
{
    if (!out->first) {
        out->first = arena_array(a, (size_t)g->n_nodes + 1, sizeof *out->first);
        for (int i = 0; i < g->n_nodes; i++)
            out->first[i] = -1;
    }
    for (int i = 0; i < out->n; i++)
        out->first[out->v[i].node->id] = -1;
    out->n = 0;
    Walk w = {out, a, external, context};
    for (int i = 0; i < n_roots; i++) {
        const Shape *s = &roots[i]->type.shape;
        Place p = {.exact = shape_equal(s, space)};
        for (int k = 0; k < s->rank; k++)
            p.component[k] = (uint16_t)((s->dim[k] > 1) << k);
        walk(&w, roots[i], &p);
    }
}
