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

typedef struct KernelVisit {
    VisitList *list;
    Arena *arena;
    ReadFromMemory *external;
    const void *context;
} KernelVisit;

/* The loops that the index at which a node is read depends on, as in Visit. */
typedef struct LoopSets {
    uint16_t component[MAX_RANK];
    uint16_t outer;
    bool exact;
} LoopSets;

static void walk(KernelVisit *w, Node *n, const LoopSets *p);

static bool seen(const KernelVisit *w, const Node *n, const LoopSets *p)
{
    for (int i = w->list->first[n->id]; i >= 0; i = w->list->v[i].next) {
        const Visit *v = &w->list->v[i];
        if (v->exact == p->exact && v->outer == p->outer &&
            !memcmp(v->component, p->component, sizeof v->component))
            return true;
    }
    return false;
}

static void add_visit(KernelVisit *w, Node *n, const LoopSets *p, bool external)
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

static uint16_t all_of(const LoopSets *p, int rank)
{
    uint16_t all = 0;
    for (int i = 0; i < rank; i++)
        all |= p->component[i];
    return all;
}

/* ---- one reading ---- */

typedef struct ReadSets {
    const Node *node;
    const LoopSets *sets;
    IndexSpace space;
    AffineVar var[READ_MOST_VARS];
    uint16_t set[READ_MOST_VARS]; /* by variable; of quotients and remainders: not used */
    Node *index;                  /* whose value is an index, read at ... */
    LoopSets index_sets;
} ReadSets;

static Affine var_of_set(ReadSets *r, int64_t extent, uint16_t set)
{
    if (!set)
        return affine_const(0);
    const int var = index_var(&r->space, AFFINE_VAR_VALUE, 0, extent - 1, false);
    r->set[var] = set;
    return affine_var(var);
}

static uint16_t set_of(const ReadSets *r, const Affine *a)
{
    uint16_t set = 0;
    for (int i = 0; i < a->n; i++) {
        const AffineVar *v = &r->space.var[a->term[i].var];
        set |= v->kind == AFFINE_VAR_VALUE ? r->set[a->term[i].var] : set_of(r, &v->of);
    }
    return set;
}

/* Of an operand that is read at `at`, where the node is read at i. */
static LoopSets sets_at(const ReadSets *r, const Node *operand, const Index *at, const Index *i)
{
    LoopSets p = {.outer = r->sets->outer,
                  .exact = r->sets->exact && index_equal(at, i) &&
                           shape_equal(&operand->type.shape, &r->node->type.shape)};
    for (int k = 0; k < at->rank; k++)
        p.component[k] = set_of(r, &at->at[k]);
    return p;
}

static Affine value_as_index(void *read_sets, Node *index, const Index *at, int64_t extent)
{
    ReadSets *r = read_sets;
    r->index = index;
    r->index_sets = sets_at(r, index, at, at);
    return var_of_set(r, extent, all_of(&r->index_sets, at->rank));
}

/* The loops of a reduction: inside them what the result's index depends on stays the same. */
static void reduced_sets(ReadSets *r, Index *at, LoopSets *p)
{
    const unsigned reduced = reduced_axes(r->node);
    p->exact = false;
    p->outer = (uint16_t)(all_of(r->sets, r->node->type.shape.rank) | VISIT_REDUCED);
    for (int k = 0; k < at->rank; k++)
        if (reduced >> k & 1)
            p->component[k] = r->node->in[0]->type.shape.dim[k] > 1 ? VISIT_REDUCED : 0;
}

/* The sets of operand k, where node n has the sets p.  If the value of another operand is an index
 * for it, returns that one, with its sets; else NULL.  Not inlined: its variables are large, and
 * would be on the stack of the whole walk. */
static __attribute__((noinline)) Node *operand_sets(const Node *n, int k, const LoopSets *p,
                                                    LoopSets *operand, LoopSets *index)
{
    ReadSets r;
    const Reader reader = {&r.space, value_as_index, &r};
    Index i;
    Reading read;
    i.rank = n->type.shape.rank;
    r.node = n;
    r.sets = p;
    r.index = NULL;
    index_space_init_fixed(&r.space, r.var, READ_MOST_VARS);
    for (int d = 0; d < i.rank; d++)
        i.at[d] = var_of_set(&r, n->type.shape.dim[d], p->component[d]);
    node_read(&reader, n, k, &i, &read);
    *operand = sets_at(&r, n->in[k], &read.at, &i);
    if (node_kind(n) == KIND_REDUCE)
        reduced_sets(&r, &read.at, operand);
    if (r.index)
        *index = r.index_sets;
    return r.index;
}

/* ---- the walk ---- */

/* Operands that lie in memory and are read in an order of the kernel's own: at no index. */
static void walk_direct(KernelVisit *w, Node *n)
{
    const LoopSets nowhere = {0};
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

static void walk_operands(KernelVisit *w, Node *n, const LoopSets *p)
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
        LoopSets q, at;
        Node *index = operand_sets(n, k, p, &q, &at);
        if (index)
            walk(w, index, &at);
        walk(w, n->in[k], &q);
    }
}

static void walk(KernelVisit *w, Node *n, const LoopSets *p)
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
    KernelVisit w = {out, a, external, context};
    for (int i = 0; i < n_roots; i++) {
        const Shape *s = &roots[i]->type.shape;
        LoopSets p = {.exact = shape_equal(s, space)};
        for (int k = 0; k < s->rank; k++)
            p.component[k] = (uint16_t)((s->dim[k] > 1) << k);
        walk(&w, roots[i], &p);
    }
}
