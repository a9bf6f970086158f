/* Vertical fusion: groups of stores become kernels.
 *
 * In order of what they save: the stores of one optimizer update become one pass over the parameter; readers
 * that are elementwise go into the contraction's epilogue; producers and readers over one space become one loop
 * nest; values without axes share one kernel.  A merge is kept if it makes no cycle and one loop nest can do it.
 *
 * Order of state: who reads a state's old value comes before who writes it.  Where that would be a cycle, or
 * a kernel would overwrite what it reads at another index, the new value waits in a buffer of its own and a copy
 * writes the state. */
#include "passes/vfuse.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/print.h"

_Noreturn static void fail_at(const Fuse *f, const Node *n, const char *what)
{
    Text dump;
    text_init(&dump, f->arena);
    graph_print(&dump, f->graph);
    diag_internal(dump.s, "plan: %s %%%s of @%s", what, n->name, f->graph->name);
}

static Output *output_of(const Fuse *f, int i)
{
    return &f->graph->outputs[i];
}

/* ---- one group per stored value ---- */

bool vfuse_per_model(const Fuse *f, bool by_type)
{
    return f->region == REGION_BY_TYPE ? by_type : f->region == REGION_MODELS;
}

/* All results of a loop are one group. */
static void add_result(Fuse *f, Node *n)
{
    Node *loop = n->in[0];
    if (f->owner[loop->id] < 0) {
        f->owner[loop->id] =
            group_new(f, KERNEL_LOOP, vfuse_per_model(f, type_per_model(&loop->type)));
        Group *g = &f->groups[f->owner[loop->id]];
        g->anchor = loop;
        g->loop = loop_plan_new(f, g);
    }
    f->owner[n->id] = f->owner[loop->id];
    group_add_item(f, &f->groups[f->owner[n->id]], (Item){.value = n});
}

static void add_stored(Fuse *f, Node *n)
{
    if (node_is_result(n)) {
        add_result(f, n);
        return;
    }
    KernelKind kind = KERNEL_EXPR;
    if (f->anchor[n->id])
        kind = KERNEL_CONTRACT;
    else if (node_kind(n) == KIND_SCATTER)
        kind = KERNEL_SCATTER;
    const int id = group_new(f, kind, vfuse_per_model(f, type_per_model(&n->type)));
    Group *g = &f->groups[id];
    g->anchor = kind == KERNEL_CONTRACT ? f->anchor[n->id] : kind == KERNEL_SCATTER ? n : NULL;
    f->owner[n->id] = id;
    group_add_item(f, g, (Item){.value = n});
}

static bool writes(const Group *g, const Buffer *to)
{
    for (int i = 0; i < g->n_items; i++)
        if (g->items[i].to == to)
            return true;
    return false;
}

/* A state that keeps its value needs no store. */
static bool keeps_state(const Fuse *f, const Node *value, const Buffer *to)
{
    return node_is_leaf(value) && f->entry->buffer[value->id] == to;
}

static bool same_strides(const Node *n, const int64_t *a, const int64_t *b)
{
    return !memcmp(a, b, (size_t)n->type.shape.rank * sizeof *a);
}

/* One group stores in one order; a contraction in its own, innermost its vector axis (ir/contract.h). */
static bool may_store(const Fuse *f, const Group *g, const Node *value, const Buffer *to)
{
    int64_t own[MAX_RANK] = {0};
    natural_strides(f->graph->module, value, own);
    if (g->kind == KERNEL_LOOP)
        return false;
    if (g->kind == KERNEL_CONTRACT && !same_strides(value, own, to->stride))
        return false;
    for (int i = 0; i < g->n_items; i++)
        if (g->items[i].to && !same_strides(value, g->items[i].to->stride, to->stride))
            return false;
    return true;
}

/* The group that stores it, -1: none need do so. */
static int add_store(Fuse *f, Node *value, Buffer *to, bool per_model)
{
    if (!to || keeps_state(f, value, to))
        return -1;
    const int owner = f->owner[value->id];
    if (owner >= 0 && f->groups[owner].per_model == per_model &&
        may_store(f, &f->groups[owner], value, to)) {
        group_add_item(f, &f->groups[owner], (Item){.value = value, .to = to});
        return owner;
    }
    const int id = group_new(f, KERNEL_EXPR, per_model);
    group_add_item(f, &f->groups[id], (Item){.value = value, .to = to, .copy = true});
    return id;
}

/* What the loops carry at first is there before they begin. */
static void add_initial_values(Fuse *f)
{
    for (int i = 0, n = f->n_groups; i < n; i++) {
        const Group *g = &f->groups[i];
        for (int k = 0; g->loop && k < g->loop->n_carried; k++) {
            const int by = add_store(f, g->anchor->in[k], g->loop->place[k][0], g->per_model);
            if (by >= 0)
                group_precede(f, by, i);
        }
    }
}

static bool any_kept(const Fuse *f, int g)
{
    for (int k = 0; k < f->groups[g].n_items; k++)
        if (item_kept(f, &f->groups[g].items[k], g))
            return true;
    return false;
}

/* Readers stand behind what they read, so from the end it is known what is read. */
static bool settle_all(Fuse *f)
{
    bool fine = true;
    for (int i = f->n_groups - 1; i >= 0; i--) {
        Group *g = &f->groups[i];
        if (!any_kept(f, i)) {
            g->dead = true;
            f->owner[g->items[0].value->id] = -1;
            f->stored[g->items[0].value->id] = false;
        } else if (!group_settle(f, i)) {
            if (!f->excess || f->stored[f->excess->id])
                fail_at(f, g->items[0].value, "no loop nest for");
            f->too_often[f->excess->id] = true;
            fine = false;
        }
    }
    for (int i = 0; i < f->n_groups; i++)
        if (!f->groups[i].dead)
            group_edges(f, i);
    return fine;
}

bool vfuse_groups(Fuse *f)
{
    int n_stored = 0;
    f->n_groups = 0;
    for (int i = 0; i < f->n; i++)
        n_stored += f->stored[i];
    f->cap_groups = n_stored + 4 * f->graph->n_outputs;
    graph_foreach (f->graph, n)
        f->cap_groups += node_is_loop(n) ? (int)n->attrs.loop.carried : 0;
    f->node_words = f->n / 64 + 1;
    f->group_words = f->cap_groups / 64 + 1;
    f->groups = arena_array(f->scratch, (size_t)f->cap_groups + 1, sizeof *f->groups);
    f->readers = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->readers);
    f->owner = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->owner);
    for (int i = 0; i < f->n; i++)
        f->owner[i] = -1;
    graph_foreach (f->graph, n)
        if (f->stored[n->id])
            add_stored(f, n);
    add_initial_values(f);
    for (int i = 0; i < f->graph->n_outputs; i++) {
        add_store(f, output_of(f, i)->value, f->output[i], vfuse_per_model(f, true));
        if (output_of(f, i)->value2)
            add_store(f, output_of(f, i)->value2, f->output_value2[i],
                      vfuse_per_model(f, true));
    }
    return settle_all(f);
}

/* ---- merges ---- */

static bool writes_state(const Group *g)
{
    for (int i = 0; i < g->n_items; i++)
        if (g->items[i].to && g->items[i].to->space == BUF_STATE)
            return true;
    return false;
}

static bool same_space(const Group *a, const Group *b)
{
    return shape_equal(&a->space, &b->space) && a->vector == b->vector &&
           !memcmp(a->order, b->order, sizeof a->order);
}

/* Both read a value that fills the space, or more. */
static bool share_read(const Fuse *f, const Group *a, const Group *b)
{
    const int64_t whole = shape_count(&a->space);
    for (int w = 0; w < f->node_words; w++)
        for (uint64_t both = a->reads[w] & b->reads[w]; both; both &= both - 1) {
            const Node *n = f->graph->nodes[w * 64 + __builtin_ctzll(both)];
            if (shape_count(&n->type.shape) >= whole)
                return true;
        }
    return false;
}

static bool is_expr(const Fuse *f, int i)
{
    return !f->groups[i].dead && f->groups[i].kind == KERNEL_EXPR;
}

/* Merges i into j for all pairs that `fit` wants; true if anything changed. */
typedef bool Fits(const Fuse *f, int i, int j);

static bool merge_pairs(Fuse *f, Fits *fit)
{
    bool changed = false;
    for (int j = 0; j < f->n_groups; j++)
        for (int i = 0; i < f->n_groups; i++)
            if (i != j && !f->groups[i].dead && !f->groups[j].dead && fit(f, i, j))
                changed |= group_try_merge(f, i, j);
    return changed;
}

static bool fit_update(const Fuse *f, int i, int j)
{
    const Group *a = &f->groups[i], *b = &f->groups[j];
    return i < j && is_expr(f, i) && is_expr(f, j) && a->space.rank > 0 && writes_state(a) &&
           writes_state(b) && same_space(a, b) && share_read(f, a, b);
}

static bool is_read_by(const Fuse *f, int i, int j)
{
    return bit_get(f->groups[j].before, i);
}

/* i is a part of an update: all its readers are j. */
static bool fit_update_part(const Fuse *f, int i, int j)
{
    if (!is_expr(f, i) || !is_expr(f, j) || !writes_state(&f->groups[j]) ||
        !is_read_by(f, i, j) || !same_space(&f->groups[i], &f->groups[j]) ||
        f->groups[i].space.rank == 0)
        return false;
    for (int k = 0; k < f->n_groups; k++)
        if (k != j && !f->groups[k].dead && bit_get(f->groups[k].before, i))
            return false;
    return true;
}

static bool fit_epilogue(const Fuse *f, int i, int j)
{
    return f->groups[i].kind == KERNEL_CONTRACT && is_expr(f, j) && is_read_by(f, i, j);
}

static bool fit_chain(const Fuse *f, int i, int j)
{
    return is_expr(f, i) && is_expr(f, j) && is_read_by(f, i, j) &&
           (f->groups[i].space.rank == 0) == (f->groups[j].space.rank == 0);
}

static bool fit_neighbours(const Fuse *f, int i, int j)
{
    return i < j && is_expr(f, i) && is_expr(f, j) && f->groups[i].space.rank > 0 &&
           f->groups[j].space.rank == f->groups[i].space.rank &&
           (shape_equal(&f->groups[i].space, &f->groups[j].space)) &&
           share_read(f, &f->groups[i], &f->groups[j]);
}

static bool fit_scalars(const Fuse *f, int i, int j)
{
    return i < j && is_expr(f, i) && is_expr(f, j) && f->groups[i].space.rank == 0 &&
           f->groups[j].space.rank == 0;
}

/* A rank 0 value that one kernel reads, and which a loop outside its loops computes. */
static bool fit_inside(const Fuse *f, int i, int j)
{
    return is_expr(f, i) && is_expr(f, j) && is_read_by(f, i, j);
}

/* ---- state: old values are read before new ones are written ---- */

/* Which groups read the old value of a state? */
static bool *readers_of(const Fuse *f, const Buffer *state, int writer)
{
    bool *readers = arena_array(f->scratch, (size_t)f->n_groups + 1, sizeof *readers);
    graph_foreach (f->graph, n) {
        if (!node_is_leaf(n) || f->entry->buffer[n->id] != state)
            continue;
        for (int i = 0; i < f->n_groups; i++)
            readers[i] |= i != writer && !f->groups[i].dead && group_reads(&f->groups[i], n);
    }
    return readers;
}

static bool readers_can_come_first(Fuse *f, int writer, const Buffer *state)
{
    const bool *readers = readers_of(f, state, writer);
    for (int i = 0; i < f->n_groups; i++)
        if (readers[i] && group_reaches(f, writer, i, true))
            return false;
    return group_in_place(f, writer, state);
}

static void readers_first(Fuse *f, int writer, const Buffer *state)
{
    const bool *readers = readers_of(f, state, writer);
    for (int i = 0; i < f->n_groups; i++)
        if (readers[i])
            group_precede(f, i, writer);
}

/* Takes the store to `state` out of its group and makes a copy of its value. */
static int copy_instead(Fuse *f, int writer, const Buffer *state)
{
    Group *g = &f->groups[writer];
    int n = 0;
    Item moved = {0};
    for (int i = 0; i < g->n_items; i++) {
        if (g->items[i].to == state)
            moved = g->items[i];
        else
            g->items[n++] = g->items[i];
    }
    g->n_items = n;
    moved.copy = true;
    f->like[moved.value->id] = state;
    const int id = group_new(f, KERNEL_EXPR, vfuse_per_model(f, true));
    group_add_item(f, &f->groups[id], moved);
    if (!group_settle(f, id) || (n > 0 && !group_settle(f, writer)))
        fail_at(f, moved.value, "cannot copy");
    g->dead = n == 0;
    group_edges(f, id);
    return id;
}

static void order_state(Fuse *f, const Buffer *state)
{
    for (int i = 0, n = f->n_groups; i < n; i++) {
        if (f->groups[i].dead || !writes(&f->groups[i], state))
            continue;
        const bool direct = readers_can_come_first(f, i, state);
        readers_first(f, direct ? i : copy_instead(f, i, state), state);
        return;
    }
}

static void order_states(Fuse *f)
{
    for (int i = 0; i < f->graph->n_outputs; i++)
        if (f->output[i] && f->output[i]->space == BUF_STATE)
            order_state(f, f->output[i]);
}

/* Both, until neither changes anything. */
static void merge_all(Fuse *f, Fits *one, Fits *other)
{
    bool changed = true;
    while (changed) {
        changed = merge_pairs(f, one);
        if (other && merge_pairs(f, other))
            changed = true;
    }
}

bool vfuse_merge(Fuse *f)
{
    if (f->optimize)
        merge_all(f, fit_update_part, fit_update);
    order_states(f);
    if (f->optimize) {
        merge_all(f, fit_epilogue, NULL);
        merge_all(f, fit_chain, fit_neighbours);
        merge_pairs(f, fit_scalars);
        merge_all(f, fit_inside, NULL);
    }
    return groups_fit(f);
}
