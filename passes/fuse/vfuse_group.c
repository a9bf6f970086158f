/* Groups: kernels in the making, and when two of them may be one.
 *
 * A group is a list of items (stores).  Two groups may be one kernel if no third one stands
 * between them, if one loop nest computes all items - every item has the space's extent or 1 on
 * each axis, reductions lie outside the loops that they do not depend on - and if a state that is
 * written is read at the written index only. */
#include "passes/fuse/work.h"

#include <string.h>

/* TWICE: what is stored may be computed twice in one kernel, by a reduction and by its store, if
 * it is no dearer. AGAIN: for each round of its loops a merged kernel may do so much again that
 * its parts had stored. */
enum {
    COST_TWICE = 40,
    COST_REPEAT = 4,
    COST_AGAIN = 20
};

bool group_reads(const Group *g, const Node *n)
{
    return idset_has(&g->reads, n->id);
}

int group_new(Fuse *f, KernelKind kind, bool per_model)
{
    f->groups[f->n_groups] = (Group){.kind = kind, .per_model = per_model, .vector = -1};
    order_append(f, f->n_groups);
    return f->n_groups++;
}

void group_add_item(Fuse *f, Group *g, Item item)
{
    Item *items = arena_array(f->scratch, (size_t)g->n_items + 1, sizeof *items);
    if (g->n_items)
        memcpy(items, g->items, (size_t)g->n_items * sizeof *items);
    items[g->n_items++] = item;
    g->items = items;
}

bool read_elsewhere(const Fuse *f, const Node *n, int a, int b)
{
    const IdSet *readers = &f->readers[n->id];
    for (int k = 0; k < readers->n; k++) {
        const int i = readers->v[k];
        if (i != a && i != b && !f->groups[i].dead && group_reads(&f->groups[i], n))
            return true;
    }
    return false;
}

bool item_kept(const Fuse *f, const Item *i, int g)
{
    return i->to || read_elsewhere(f, i->value, g, g);
}

void item_strides(const Fuse *f, const Item *i, int64_t *stride)
{
    const Buffer *like = i->to ? i->to : f->strides_like[i->value->id];
    if (like)
        memcpy(stride, like->stride, sizeof like->stride);
    else
        natural_strides(f->graph->module, i->value, stride);
}

void group_edges(Fuse *f, int g)
{
    for (int i = 0; i < f->groups[g].reads.n; i++) {
        const int owner = f->owner[f->groups[g].reads.v[i]];
        if (owner >= 0 && owner != g)
            order_precede(f, owner, g);
    }
}

/* ---- one group: space, loops, reads ---- */

typedef struct GroupContext {
    const Fuse *fuse;
    int group;
} GroupContext;

static bool read_from_other(const void *context, const Node *n)
{
    const GroupContext *c = context;
    return c->fuse->stored[n->id] && c->fuse->owner[n->id] != c->group;
}

static bool find_space(const Fuse *f, Group *g, int id)
{
    bool first = true;
    Shape space = shape_scalar();
    for (int i = 0; i < g->n_items; i++) {
        const Shape *s = &g->items[i].value->type.shape;
        if (!item_kept(f, &g->items[i], id))
            continue;
        if (first)
            space = *s;
        first = false;
        if (s->rank != space.rank)
            return false;
        for (int k = 0; k < s->rank; k++) {
            if (s->dim[k] != space.dim[k] && s->dim[k] != 1 && space.dim[k] != 1)
                return false;
            if (s->dim[k] > space.dim[k])
                space.dim[k] = s->dim[k];
        }
    }
    g->space = space;
    return !first;
}

static Node **kept_values(const Fuse *f, int id, int *n)
{
    const Group *g = &f->groups[id];
    Node **roots = arena_array(f->scratch, (size_t)g->n_items, sizeof *roots);
    *n = 0;
    for (int i = 0; i < g->n_items; i++)
        if (item_kept(f, &g->items[i], id))
            roots[(*n)++] = g->items[i].value;
    return roots;
}

static void visit_group(Fuse *f, int id)
{
    Group *g = &f->groups[id];
    int n;
    Node **roots = kept_values(f, id, &n);
    const GroupContext c = {f, id};
    visit_kernel(&f->visits, f->scratch, f->graph, n, roots, &g->space, read_from_other, &c);
}

static int stride_one_axis(const Shape *s, const int64_t *stride)
{
    for (int i = s->rank - 1; i >= 0; i--)
        if (s->dim[i] > 1 && stride[i] == 1)
            return i;
    return -1;
}

/* Is the value stored to a place outside too? That one's order counts then. */
static bool has_place_outside(const Group *g, const Item *item)
{
    for (int i = 0; i < g->n_items && !item->to; i++)
        if (g->items[i].value == item->value && g->items[i].to)
            return true;
    return false;
}

static bool fills(const Group *g, const Item *item)
{
    return shape_equal(&item->value->type.shape, &g->space);
}

/* Some item fills the space, and all are stored at a depth where nothing is stored again and
 * again. */
static bool items_fit(const Fuse *f, const Group *g, int id)
{
    bool full = false;
    for (int i = 0; i < g->n_items; i++) {
        if (!item_kept(f, &g->items[i], id))
            continue;
        unsigned mask = 0;
        for (int k = 0; k < g->space.rank; k++)
            mask |= (unsigned)(g->items[i].value->type.shape.dim[k] > 1) << k;
        if (!mask_is_prefix(mask, &g->space, g->order))
            return false;
        full |= fills(g, &g->items[i]);
    }
    return full;
}

/* The contiguous axis of the items that fill the space; -2: they differ. */
static int stored_axis(const Fuse *f, const Group *g, int id, int64_t *stride)
{
    int axis = -2;
    for (int i = 0; i < g->n_items; i++) {
        const Item *item = &g->items[i];
        if (!item_kept(f, item, id) || !fills(g, item) || has_place_outside(g, item))
            continue;
        int64_t own[MAX_RANK] = {0};
        item_strides(f, item, own);
        const int v = stride_one_axis(&g->space, own);
        if (axis == -2)
            memcpy(stride, own, sizeof own);
        else if (v != axis)
            return -2;
        axis = v;
    }
    return axis;
}

static int axis_of_mask(unsigned mask)
{
    return mask && !(mask & (mask - 1)) && mask < VISIT_REDUCED ? __builtin_ctz(mask) : -1;
}

/* The axis of the space that runs along the operand's last axis, which an outer reduction keeps. */
static int kept_inner_axis(const Visit *v)
{
    const Shape *s = &v->node->in[0]->type.shape;
    int last = s->rank - 1;
    while (last > 0 && s->dim[last] == 1)
        last--;
    return axis_of_mask(v->component[last]);
}

/* Reductions along inner axes must lie outside the vectorised loop, others inside, as that
 * decides their bits. */
static bool find_vector(const Fuse *f, Group *g, int stored)
{
    int need = -1;
    bool none = false;
    for (int i = 0; i < f->visits.n; i++) {
        const Visit *v = &f->visits.v[i];
        if (v->external || node_kind(v->node) != KIND_REDUCE)
            continue;
        if (visit_mask(v) & VISIT_REDUCED)
            return false;
        if (reduces_inner(v->node))
            continue;
        const int axis = kept_inner_axis(v);
        if (axis < 0 || (need >= 0 && need != axis))
            return false;
        need = axis;
    }
    g->vector = need >= 0 ? need : stored;
    for (int i = 0; i < f->visits.n && g->vector >= 0; i++) {
        const Visit *v = &f->visits.v[i];
        if (!v->external && node_kind(v->node) == KIND_REDUCE && reduces_inner(v->node))
            none |= visit_mask(v) >> g->vector & 1;
    }
    if (none && need >= 0)
        return false;
    if (none)
        g->vector = -1;
    return true;
}

/* Outermost first by the stride of the main store, the vector axis last. */
static void find_order(Group *g, const int64_t *stride)
{
    const int rank = g->space.rank;
    for (int i = 0; i < rank; i++) {
        int at = i;
        while (at > 0 && stride[g->order[at - 1]] < stride[i]) {
            g->order[at] = g->order[at - 1];
            at--;
        }
        g->order[at] = i;
    }
    if (g->vector < 0)
        return;
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (g->order[i] != g->vector)
            g->order[n++] = g->order[i];
    g->order[n] = g->vector;
}

/* Nothing dear is computed again in a loop that it does not depend on. */
static bool computed_once(const Fuse *f, const Group *g, const Visit *v)
{
    const unsigned mask = visit_mask(v);
    const OpKind kind = node_kind(v->node);
    if (kind != KIND_REDUCE && (!f->stored[v->node->id] || f->cost[v->node->id] < COST_REPEAT))
        return true;
    if (mask & VISIT_REDUCED)
        return (mask & v->outer) == v->outer;
    return mask_is_prefix(mask, &g->space, g->order);
}

/* What was stored before the merge is not computed in two loops if it is very dear. */
static bool computed_twice(const Fuse *f, const Visit *v)
{
    if (!f->stored[v->node->id] || f->cost[v->node->id] <= COST_TWICE)
        return false;
    return f->visits.v[f->visits.first[v->node->id]].next >= 0;
}

static bool loops_fit(const Fuse *f, const Group *g)
{
    for (int i = 0; i < f->visits.n; i++) {
        const Visit *v = &f->visits.v[i];
        if (v->external)
            continue;
        if (!computed_once(f, g, v) || computed_twice(f, v))
            return false;
        const OpKind kind = node_kind(v->node);
        if (g->kind != KERNEL_CONTRACT && kind == KIND_CONTRACT)
            return false;
        if (g->kind != KERNEL_SCATTER && kind == KIND_SCATTER)
            return false;
    }
    return true;
}

/* Everything between the contraction and the stores is at the contraction's own index. */
static bool epilogue_fits(const Fuse *f, Group *g)
{
    if (!shape_equal(&g->space, &g->anchor->type.shape))
        return false;
    for (int i = 0; i < g->n_items; i++)
        if (!shape_equal(&g->items[i].value->type.shape, &g->space))
            return false;
    for (int i = 0; i < f->visits.n; i++) {
        const Visit *v = &f->visits.v[i];
        if (v->external)
            continue;
        if (node_kind(v->node) == KIND_REDUCE)
            return false;
        const bool inside = v->node == g->anchor || f->anchor[v->node->id] == g->anchor;
        if (inside && !v->exact)
            return false;
        if (node_kind(v->node) == KIND_CONTRACT && v->node != g->anchor)
            return false;
    }
    return true;
}

static void collect_reads(Fuse *f, int id)
{
    Group *g = &f->groups[id];
    g->reads.n = 0;
    for (int i = 0; i < f->visits.n; i++)
        if (f->visits.v[i].external) {
            const int n = f->visits.v[i].node->id;
            idset_push(f->scratch, &g->reads, n);
            idset_add(f->scratch, &f->readers[n], id);
        }
    idset_sort(&g->reads);
}

static bool in_place_fits(const Fuse *f, const Buffer *state)
{
    for (int i = 0; i < f->visits.n; i++) {
        const Visit *v = &f->visits.v[i];
        if (node_is_leaf(v->node) && op_info(v->node->op)->data == LEAF_STATE &&
            f->entry->buffer[v->node->id] == state && !v->exact)
            return false;
    }
    return true;
}

static bool states_fit(const Fuse *f, const Group *g)
{
    for (int i = 0; i < g->n_items; i++) {
        const Buffer *to = g->items[i].to;
        if (to && to->space == BUF_STATE && !in_place_fits(f, to))
            return false;
    }
    return true;
}

bool group_in_place(Fuse *f, int id, const Buffer *state)
{
    visit_group(f, id);
    return in_place_fits(f, state);
}

static void find_loop_reads(Fuse *f, int id)
{
    Group *g = &f->groups[id];
    const GroupContext c = {f, id};
    visit_kernel(&f->visits, f->scratch, f->graph, 1, &g->anchor, &g->space, read_from_other,
                 &c);
    collect_reads(f, id);
}

/* Nothing is computed too often: exactly, where computed_once only looks at which loops an index
 * depends on. */
static bool work_fits(Fuse *f, int id)
{
    Group *g = &f->groups[id];
    const GroupContext c = {f, id};
    WorkNest nest = {.graph = f->graph,
                     .kind = g->kind,
                     .space = &g->space,
                     .order = g->order,
                     .vector = g->vector,
                     .external = read_from_other,
                     .context = &c};
    nest.roots = kept_values(f, id, &nest.n_roots);
    f->excess = work_excess(f->work, &nest);
    g->evaluations = f->work->evaluations;
    g->again = f->work->again;
    return !f->excess;
}

/* Over all kernels; what is computed too often is noted. */
bool groups_fit(Fuse *f)
{
    bool fine = true;
    WorkTotals t = work_totals(f->scratch, f->n);
    for (int i = 0; i < f->n_groups; i++)
        if (!f->groups[i].dead && f->groups[i].kind != KERNEL_LOOP) {
            work_fits(f, i);
            work_totals_add(&t, f->work);
        }
    graph_foreach (f->graph, n)
        if (!f->too_often[n->id] && work_totals_exceed(&t, n)) {
            f->too_often[n->id] = true;
            fine = false;
        }
    return fine;
}

bool group_find_nest(Fuse *f, int id)
{
    Group *g = &f->groups[id];
    int64_t stride[MAX_RANK] = {0};
    f->excess = NULL;
    if (g->kind == KERNEL_LOOP) {
        find_loop_reads(f, id);
        return true;
    }
    if (!find_space(f, g, id))
        return false;
    visit_group(f, id);
    const int stored = stored_axis(f, g, id, stride);
    if (stored == -2 || !find_vector(f, g, stored))
        return false;
    find_order(g, stride);
    if (!items_fit(f, g, id) || !loops_fit(f, g) ||
        (g->kind == KERNEL_CONTRACT && !epilogue_fits(f, g)) || !work_fits(f, id))
        return false;
    collect_reads(f, id);
    return true;
}

/* ---- merging ---- */

static bool may_meet(const Fuse *f, int a, int b)
{
    const Group *x = &f->groups[a], *y = &f->groups[b];
    if (a == b || x->dead || y->dead || x->per_model != y->per_model ||
        x->evaluations + y->evaluations > CODE_EVALUATIONS)
        return false;
    if (x->kind == KERNEL_SCATTER || y->kind == KERNEL_SCATTER || x->kind == KERNEL_LOOP ||
        y->kind == KERNEL_LOOP)
        return false;
    return !(x->kind == KERNEL_CONTRACT && y->kind == KERNEL_CONTRACT);
}

static void take_items(Fuse *f, int from, int to)
{
    const Group *g = &f->groups[from];
    for (int i = 0; i < g->n_items; i++)
        if (!g->items[i].copy)
            f->owner[g->items[i].value->id] = to;
}

/* Items in definition order, so that the result does not depend on the order of merging. */
static Item *joined_items(const Fuse *f, const Group *x, const Group *y, int *n)
{
    Item *items = arena_array(f->scratch, (size_t)(x->n_items + y->n_items), sizeof *items);
    int i = 0, j = 0;
    *n = 0;
    while (i < x->n_items || j < y->n_items) {
        const bool left = j == y->n_items ||
                          (i < x->n_items && x->items[i].value->id <= y->items[j].value->id);
        items[(*n)++] = left ? x->items[i++] : y->items[j++];
    }
    return items;
}

/* a reads nothing any more. */
static void leave_readers(Fuse *f, int a, const IdSet *reads)
{
    for (int i = 0; i < reads->n; i++)
        idset_remove(&f->readers[reads->v[i]], a);
}

bool group_try_merge(Fuse *f, int a, int b)
{
    if (!may_meet(f, a, b) || order_between(f, a, b))
        return false;
    const Group old_a = f->groups[a], old_b = f->groups[b];
    Group *g = &f->groups[b];
    g->reads = (IdSet){0};
    g->items = joined_items(f, &old_a, &old_b, &g->n_items);
    if (old_a.kind == KERNEL_CONTRACT) {
        g->kind = KERNEL_CONTRACT;
        g->anchor = old_a.anchor;
    }
    f->groups[a].dead = true;
    take_items(f, a, b);
    if (group_find_nest(f, b) && states_fit(f, g) &&
        g->again - old_a.again - old_b.again <= COST_AGAIN * f->work->rounds &&
        (g->kind != KERNEL_CONTRACT || g->vector == old_a.vector)) {
        leave_readers(f, a, &old_a.reads);
        order_join(f, a, b);
        return true;
    }
    f->groups[a] = old_a;
    f->groups[b] = old_b;
    take_items(f, a, a);
    return false;
}
