/* Vertical fusion: groups of stores become kernels.
 *
 * In order of what they save: the stores of one optimizer update become one pass over the
 * parameter; readers that are elementwise go into the contraction's epilogue; producers and
 * readers over one space become one loop nest; values without axes share one kernel.  A merge is
 * kept if it makes no cycle and one loop nest can do it.
 *
 * Order of state: who reads a state's old value comes before who writes it.  Where that would be
 * a cycle, or a kernel would overwrite what it reads at another index, the new value waits in a
 * buffer of its own and a copy writes the state. */
#include "passes/fuse/work.h"

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

/* A state that keeps its value needs no store. */
static bool keeps_state(const Fuse *f, const Node *value, const Buffer *to)
{
    return node_is_leaf(value) && f->entry->buffer[value->id] == to;
}

static bool same_strides(const Node *n, const int64_t *a, const int64_t *b)
{
    return !memcmp(a, b, (size_t)n->type.shape.rank * sizeof *a);
}

/* One group stores in one order; a contraction in its own, innermost its vector axis
 * (ir/contract.h). */
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

/* The group that stores it, -1: none need do so.  A scatter stores what it adds up again and
 * again: it is not guarded. */
static int add_store(Fuse *f, Node *value, Buffer *to, Buffer *flag, bool per_model)
{
    if (!to || keeps_state(f, value, to))
        return -1;
    const int owner = f->owner[value->id];
    if (owner >= 0 && f->groups[owner].per_model == per_model &&
        (!flag || f->groups[owner].kind != KERNEL_SCATTER) &&
        may_store(f, &f->groups[owner], value, to)) {
        group_add_item(f, &f->groups[owner], (Item){.value = value, .to = to, .flag = flag});
        return owner;
    }
    const int id = group_new(f, KERNEL_EXPR, per_model);
    group_add_item(f, &f->groups[id],
                   (Item){.value = value, .to = to, .flag = flag, .copy = true});
    return id;
}

/* What the loops carry at first is there before they begin. */
static void add_initial_values(Fuse *f)
{
    for (int i = 0, n = f->n_groups; i < n; i++) {
        const Group *g = &f->groups[i];
        for (int k = 0; g->loop && k < g->loop->n_carried; k++) {
            const int by =
                add_store(f, g->anchor->in[k], g->loop->place[k][0], NULL, g->per_model);
            if (by >= 0)
                order_precede(f, by, i);
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
static bool find_nests(Fuse *f)
{
    bool fine = true;
    for (int i = f->n_groups - 1; i >= 0; i--) {
        Group *g = &f->groups[i];
        if (!any_kept(f, i)) {
            g->dead = true;
            f->owner[g->items[0].value->id] = -1;
            f->stored[g->items[0].value->id] = false;
        } else if (!group_find_nest(f, i)) {
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
    f->groups = arena_array(f->scratch, (size_t)f->cap_groups + 1, sizeof *f->groups);
    order_init(f);
    f->readers = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->readers);
    f->owner = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->owner);
    for (int i = 0; i < f->n; i++)
        f->owner[i] = -1;
    graph_foreach (f->graph, n)
        if (f->stored[n->id])
            add_stored(f, n);
    add_initial_values(f);
    for (int i = 0; i < f->graph->n_outputs; i++) {
        add_store(f, output_of(f, i)->value, f->output[i], f->output_flag[i],
                  vfuse_per_model(f, true));
        if (output_of(f, i)->value2)
            add_store(f, output_of(f, i)->value2, f->output_value2[i], NULL,
                      vfuse_per_model(f, true));
    }
    return find_nests(f);
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

static bool is_expr(const Fuse *f, int i)
{
    return !f->groups[i].dead && f->groups[i].kind == KERNEL_EXPR;
}

/* Which i may be worth a look for a j, and is i, a candidate, to become a part of j? */
typedef struct Rule {
    const IdSet *(*candidates)(Fuse *f, int j);
    bool (*fits)(const Fuse *f, int i, int j);
} Rule;

/* Merges i into j for all pairs that fit, in ascending order; true if anything changed. */
static bool merge_pairs(Fuse *f, const Rule *rule)
{
    bool changed = false;
    for (int j = 0; j < f->n_groups; j++) {
        if (f->groups[j].dead)
            continue;
        const IdSet *all = rule->candidates(f, j);
        for (int at, i = -1; (at = idset_from(all, i + 1)) < all->n;) {
            i = all->v[at];
            if (i == j || f->groups[i].dead || !rule->fits(f, i, j) ||
                !group_try_merge(f, i, j))
                continue;
            changed = true;
            all = rule->candidates(f, j);
        }
    }
    return changed;
}

static const IdSet *groups_before(Fuse *f, int j)
{
    return &f->groups[j].before;
}

/* Those in front of j that read a value, as j does, which fills the space, or more. */
static const IdSet *groups_sharing(Fuse *f, int j)
{
    const Group *g = &f->groups[j];
    f->candidates.n = 0;
    for (int k = 0; g->space.rank > 0 && k < g->reads.n; k++) {
        const Node *n = f->graph->nodes[g->reads.v[k]];
        const IdSet *readers = &f->readers[n->id];
        if (shape_count(&n->type.shape) < shape_count(&g->space))
            continue;
        for (int r = 0; r < readers->n && readers->v[r] < j; r++)
            if (!f->groups[readers->v[r]].dead && group_reads(&f->groups[readers->v[r]], n))
                idset_push(f->scratch, &f->candidates, readers->v[r]);
    }
    idset_sort(&f->candidates);
    return &f->candidates;
}

static bool fit_update(const Fuse *f, int i, int j)
{
    const Group *a = &f->groups[i], *b = &f->groups[j];
    return i < j && is_expr(f, i) && is_expr(f, j) && a->space.rank > 0 && writes_state(a) &&
           writes_state(b) && same_space(a, b);
}

/* i is a part of an update: all its readers are j. */
static bool fit_update_part(const Fuse *f, int i, int j)
{
    if (!is_expr(f, i) || !is_expr(f, j) || !writes_state(&f->groups[j]) ||
        !same_space(&f->groups[i], &f->groups[j]) || f->groups[i].space.rank == 0)
        return false;
    const IdSet *after = &f->groups[i].after;
    for (int k = 0; k < after->n; k++)
        if (after->v[k] != j && !f->groups[after->v[k]].dead)
            return false;
    return true;
}

static bool fit_epilogue(const Fuse *f, int i, int j)
{
    return f->groups[i].kind == KERNEL_CONTRACT && is_expr(f, j);
}

static bool fit_chain(const Fuse *f, int i, int j)
{
    return is_expr(f, i) && is_expr(f, j) &&
           (f->groups[i].space.rank == 0) == (f->groups[j].space.rank == 0);
}

static bool fit_neighbours(const Fuse *f, int i, int j)
{
    return i < j && is_expr(f, i) && is_expr(f, j) && f->groups[i].space.rank > 0 &&
           f->groups[j].space.rank == f->groups[i].space.rank &&
           shape_equal(&f->groups[i].space, &f->groups[j].space);
}

static bool fit_scalars(const Fuse *f, int i, int j)
{
    return i < j && is_expr(f, i) && is_expr(f, j) && f->groups[i].space.rank == 0 &&
           f->groups[j].space.rank == 0;
}

static void find_scalar_groups(Fuse *f)
{
    f->candidates.n = 0;
    for (int i = 0; i < f->n_groups; i++)
        if (is_expr(f, i) && f->groups[i].space.rank == 0)
            idset_push(f->scratch, &f->candidates, i);
}

/* They stay the same while they are merged with each other. */
static const IdSet *scalar_groups(Fuse *f, int j)
{
    static const IdSet none;
    return is_expr(f, j) && f->groups[j].space.rank == 0 ? &f->candidates : &none;
}

/* A rank 0 value that one kernel reads, and which a loop outside its loops computes. */
static bool fit_inside(const Fuse *f, int i, int j)
{
    return is_expr(f, i) && is_expr(f, j);
}

/* ---- state: old values are read before new ones are written ---- */

/* Groups by what they do with a state. */
typedef struct StateUse {
    int writer;    /* -1: none */
    IdSet readers; /* of its old value */
} StateUse;

static void note_state_reads(const Fuse *f, StateUse *uses, int g)
{
    const IdSet *reads = &f->groups[g].reads;
    for (int i = 0; !f->groups[g].dead && i < reads->n; i++) {
        const Buffer *b = f->entry->buffer[reads->v[i]];
        if (node_is_leaf(f->graph->nodes[reads->v[i]]) && b && b->space == BUF_STATE)
            idset_add(f->scratch, &uses[b->index].readers, g);
    }
}

/* By position of the state in the module. */
static StateUse *collect_state_uses(const Fuse *f)
{
    const int n = f->graph->module->n_states;
    StateUse *uses = arena_array(f->scratch, (size_t)n + 1, sizeof *uses);
    for (int i = 0; i < n; i++)
        uses[i].writer = -1;
    for (int i = f->n_groups - 1; i >= 0; i--)
        for (int k = 0; !f->groups[i].dead && k < f->groups[i].n_items; k++) {
            const Buffer *to = f->groups[i].items[k].to;
            if (to && to->space == BUF_STATE)
                uses[to->index].writer = i;
        }
    for (int i = 0; i < f->n_groups; i++)
        note_state_reads(f, uses, i);
    return uses;
}

static bool reads_state(const Fuse *f, int g, const Buffer *state)
{
    const IdSet *reads = &f->groups[g].reads;
    for (int i = 0; !f->groups[g].dead && i < reads->n; i++)
        if (node_is_leaf(f->graph->nodes[reads->v[i]]) &&
            f->entry->buffer[reads->v[i]] == state)
            return true;
    return false;
}

static bool readers_can_come_first(Fuse *f, const StateUse *use, const Buffer *state)
{
    for (int i = 0; i < use->readers.n; i++) {
        const int reader = use->readers.v[i];
        if (reader != use->writer && reads_state(f, reader, state) &&
            order_reaches(f, use->writer, reader))
            return false;
    }
    return group_in_place(f, use->writer, state);
}

static void readers_first(Fuse *f, const StateUse *use, const Buffer *state)
{
    for (int i = 0; i < use->readers.n; i++)
        if (use->readers.v[i] != use->writer && reads_state(f, use->readers.v[i], state))
            order_precede(f, use->readers.v[i], use->writer);
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
    f->strides_like[moved.value->id] = state;
    const int id = group_new(f, KERNEL_EXPR, vfuse_per_model(f, true));
    group_add_item(f, &f->groups[id], moved);
    if (!group_find_nest(f, id) || (n > 0 && !group_find_nest(f, writer)))
        fail_at(f, moved.value, "cannot copy");
    g->dead = n == 0;
    group_edges(f, id);
    return id;
}

static void order_states(Fuse *f)
{
    StateUse *uses = collect_state_uses(f);
    for (int i = 0; i < f->graph->n_outputs; i++) {
        const Buffer *state = f->output[i];
        if (!state || state->space != BUF_STATE || uses[state->index].writer < 0)
            continue;
        StateUse *use = &uses[state->index];
        if (!readers_can_come_first(f, use, state)) {
            use->writer = copy_instead(f, use->writer, state);
            note_state_reads(f, uses, use->writer);
        }
        readers_first(f, use, state);
    }
}

/* Both, until neither changes anything. */
static void merge_all(Fuse *f, const Rule *one, const Rule *other)
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
    static const Rule update_part = {groups_before, fit_update_part},
                      update = {groups_sharing, fit_update},
                      epilogue = {groups_before, fit_epilogue},
                      chain = {groups_before, fit_chain},
                      neighbours = {groups_sharing, fit_neighbours},
                      scalars = {scalar_groups, fit_scalars},
                      inside = {groups_before, fit_inside};
    if (f->optimize)
        merge_all(f, &update_part, &update);
    order_states(f);
    if (f->optimize) {
        merge_all(f, &epilogue, NULL);
        merge_all(f, &chain, &neighbours);
        find_scalar_groups(f);
        merge_pairs(f, &scalars);
        merge_all(f, &inside, NULL);
    }
    return groups_fit(f);
}

void vfuse_graph(Fuse *f)
{
    f->work = work_new(f->scratch, f->n);
    f->too_often = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->too_often);
    do {
        f->strides_like = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->strides_like);
        vfuse_choose(f);
    } while (!vfuse_groups(f) || !vfuse_merge(f));
    vfuse_kernels(f);
    memory_plan(f->entry, f->optimize);
}
