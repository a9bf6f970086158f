/* Which loops does the index of each node in a kernel depend on?
 *
 * Walks from the stores to the operands, with the index as one set of loop axes per component.
 * Every distinct (node, index) is one visit.  Reductions' own loops are one more member of the
 * sets, VISIT_REDUCED.
 *
 * What an operand is read at is ir/reading.h's rule: each component becomes a variable that
 * stands for its set, and what is read depends on the sets of the variables that occur in it. */
#include "passes/fuse/vfuse.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/reading.h"
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
    if (last < 0 || s->dim[last] == 1) /* one element: in no loop at all */
        return true;
    return reduced_axes(reduce) >> last & 1;
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

/* Where a node is read. */
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

/* ---- one reading ---- */

typedef struct ReadPlace {
    const Node *node;
    const Place *place;
    IndexSpace space;
    AffineVar var[READ_MOST_VARS];
    uint16_t set[READ_MOST_VARS]; /* by variable; of quotients and remainders: not used */
    Node *index;                  /* whose value is an index, read at ... */
    Place index_place;
} ReadPlace;

static Affine var_of_set(ReadPlace *r, int64_t extent, uint16_t set)
{
    if (!set)
        return affine_const(0);
    const int var = index_var(&r->space, AFFINE_VAR_VALUE, 0, extent - 1, false);
    r->set[var] = set;
    return affine_var(var);
}

static uint16_t set_of(const ReadPlace *r, const Affine *a)
{
    uint16_t set = 0;
    for (int i = 0; i < a->n; i++) {
        const AffineVar *v = &r->space.var[a->term[i].var];
        set |= v->kind == AFFINE_VAR_VALUE ? r->set[a->term[i].var] : set_of(r, &v->of);
    }
    return set;
}

/* Place of an operand that is read at `at`, where the node is read at i. */
static Place place_at(const ReadPlace *r, const Node *operand, const Index *at, const Index *i)
{
    Place p = {.outer = r->place->outer,
               .exact = r->place->exact && index_equal(at, i) &&
                        shape_equal(&operand->type.shape, &r->node->type.shape)};
    for (int k = 0; k < at->rank; k++)
        p.component[k] = set_of(r, &at->at[k]);
    return p;
}

static Affine value_as_index(void *read_place, Node *index, const Index *at, int64_t extent)
{
    ReadPlace *r = read_place;
    r->index = index;
    r->index_place = place_at(r, index, at, at);
    return var_of_set(r, extent, all_of(&r->index_place, at->rank));
}

/* The loops of a reduction: inside them what the result's index depends on stays the same. */
static void place_reduced(ReadPlace *r, Index *at, Place *p)
{
    const unsigned reduced = reduced_axes(r->node);
    p->exact = false;
    p->outer = (uint16_t)(all_of(r->place, r->node->type.shape.rank) | VISIT_REDUCED);
    for (int k = 0; k < at->rank; k++)
        if (reduced >> k & 1)
            p->component[k] = r->node->in[0]->type.shape.dim[k] > 1 ? VISIT_REDUCED : 0;
}

/* The place of operand k; the node whose value is an index for it, and its place; or NULL.  Not
 * inlined: what it needs would be on the stack of who goes deeper. */
static __attribute__((noinline)) Node *place_operand(const Node *n, int k, const Place *p,
                                                     Place *operand, Place *index)
{
    ReadPlace r;
    const Reader reader = {&r.space, value_as_index, &r};
    Index i;
    Reading read;
    i.rank = n->type.shape.rank;
    r.node = n;
    r.place = p;
    r.index = NULL;
    index_space_init_fixed(&r.space, r.var, READ_MOST_VARS);
    for (int d = 0; d < i.rank; d++)
        i.at[d] = var_of_set(&r, n->type.shape.dim[d], p->component[d]);
    node_read(&reader, n, k, &i, &read);
    *operand = place_at(&r, n->in[k], &read.at, &i);
    if (node_kind(n) == KIND_REDUCE)
        place_reduced(&r, &read.at, operand);
    if (r.index)
        *index = r.index_place;
    return r.index;
}

/* ---- the walk ---- */

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
    if (node_is_result(n)) {
        walk(w, n->in[0], p);
        return;
    }
    if (node_kind(n) == KIND_CONTRACT || node_kind(n) == KIND_SCATTER || node_is_loop(n)) {
        walk_direct(w, n);
        return;
    }
    for (int k = 0; k < node_n_read(n); k++) {
        Place q, at;
        Node *index = place_operand(n, k, p, &q, &at);
        if (index)
            walk(w, index, &at);
        walk(w, n->in[k], &q);
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
