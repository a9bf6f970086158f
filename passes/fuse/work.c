/* How often a kernel computes each of its values, counted without emitting it.
 *
 * The count goes from a kernel's stores to what they read, in descending order of node ids: so all
 * indices at which a value is asked for are known when its operands are looked at, and nothing
 * recurses.  Indices are the affine forms that the back ends use, and operands are read by the
 * rule that they use (ir/reading.h); a variable is a loop with its number of rounds.  One loop
 * stands for a vectorised axis, as its lanes are elements.
 *
 * What is too often?
 *   a reduction    more than once per element, as its loops would run again
 *   an expression  more than WORK_TIMES per element; one that costs no more than WORK_SPREAD to
 *                  compute from memory may also be computed WORK_ROUND_TIMES in each round of the
 *                  nest's loops, as a load costs about as much
 * Over all kernels of an entry the same holds of reductions, and of expressions that cost more
 * than WORK_CHEAP. */
#include "passes/fuse/work.h"

#include <string.h>

#include "ir/reading.h"
#include "ir/shape.h"

enum {
    MOST_INDICES = 64 /* of one value; no plan needs more */
};
/* In units of scalars.def. */
enum {
    COST_RANDOM = 40,
    COST_GATHER = 4,
    COST_INDEX = 2,
    COST_REDUCE = 8
};

typedef struct Level Level;
struct Level {
    const Level *up;
    int depth;
    double rounds; /* with all that stand round it */
};

/* As in codegen/cpu/eval.c: a condition under which a value is asked for. */
typedef struct Guard Guard;
struct Guard {
    const Guard *up;
    const Level *level;
    bool lanes;
    uint64_t key;
};

/* One index, under one set of guards, at which a value is computed. */
typedef struct Evaluation Evaluation;
struct Evaluation {
    Evaluation *next; /* of the same value */
    uint64_t hash, guards;
    const Level *level;
    const Guard *guard;
    Index *at;
};

/* A value that is used as an index is a variable. */
typedef struct Lookup Lookup;
struct Lookup {
    Lookup *next;
    const Node *node;
    const Index *at;
    int64_t extent;
    int var;
};

typedef struct Count {
    Work *work;
    const WorkNest *nest;
    Arena *arena;
    IndexSpace space;
    const Level **level; /* by variable; NULL: not yet known */
    int n_levels, cap_levels;
    const Level *root;
    Lookup *lookups;
    const Evaluation *of; /* whose operands are asked for */
    int depth;            /* of its value */
} Count;

Work *work_new(Arena *a, int n)
{
    Work *w = arena_alloc(a, sizeof *w);
    const size_t size = (size_t)n + 1;
    *w = (Work){.arena = a,
                .times = arena_array(a, size, sizeof *w->times),
                .cost = arena_array(a, size, sizeof *w->cost),
                .node = arena_array(a, size, sizeof *w->node),
                .asked = arena_array(a, size, sizeof *w->asked),
                .depth = arena_array(a, size, sizeof *w->depth),
                .waiting = arena_array(a, size, sizeof *w->waiting)};
    return w;
}

/* ---- loops ---- */

static const Level **level_at(Count *c, int var)
{
    while (c->n_levels <= var) {
        if (c->n_levels == c->cap_levels)
            c->level = arena_grow(c->arena, c->level, &c->cap_levels, sizeof *c->level);
        c->level[c->n_levels++] = NULL;
    }
    return &c->level[var];
}

static const Level *deeper(const Level *a, const Level *b)
{
    return b->depth > a->depth ? b : a;
}

static const Level *level_of(Count *c, const Affine *a)
{
    const Level *l = c->root;
    for (int i = 0; i < a->n; i++) {
        const int var = a->term[i].var;
        if (!*level_at(c, var)) {
            const Affine of = c->space.var[var].of;
            const Level *found = level_of(c, &of);
            *level_at(c, var) = found;
        }
        l = deeper(l, *level_at(c, var));
    }
    return l;
}

static const Level *level_of_index(Count *c, const Index *i)
{
    const Level *l = c->root;
    for (int k = 0; k < i->rank; k++)
        l = deeper(l, level_of(c, &i->at[k]));
    return l;
}

/* A loop of one round is none. */
static Affine open_loop(Count *c, const Level **level, int64_t count, bool lanes)
{
    if (count == 1)
        return affine_const(0);
    Level *l = arena_alloc(c->arena, sizeof *l);
    *l = (Level){
        .up = *level, .depth = (*level)->depth + 1, .rounds = (*level)->rounds * (double)count};
    *level = l;
    c->work->rounds += l->rounds;
    const int var = index_var(&c->space, AFFINE_VAR_LOOP, 0, count - 1, lanes);
    *level_at(c, var) = l;
    return affine_var(var);
}

static bool encloses(const Level *outer, const Level *inner)
{
    while (inner->depth > outer->depth)
        inner = inner->up;
    return inner == outer;
}

/* ---- asking for values ---- */

static uint64_t guards_key(const Guard *g, const Level *level, bool lanes)
{
    uint64_t key = 0;
    for (; g; g = g->up)
        if (encloses(g->level, level) && (lanes || !g->lanes))
            key += g->key;
    return key;
}

static bool asked_before(const Evaluation *e, const Evaluation *known)
{
    for (; known; known = known->next)
        if (known->hash == e->hash && known->guards == e->guards &&
            index_equal(known->at, e->at))
            return true;
    return false;
}

static bool is_computed(const Count *c, const Node *n)
{
    return !node_is_leaf(n) && !c->nest->external(c->nest->context, n);
}

static int n_asked(const Evaluation *e)
{
    int n = 0;
    for (; e; e = e->next)
        n++;
    return n;
}

static void wait_for(Work *w, int id)
{
    int i = w->n_waiting++;
    for (; i > 0 && w->waiting[(i - 1) / 2] < id; i = (i - 1) / 2)
        w->waiting[i] = w->waiting[(i - 1) / 2];
    w->waiting[i] = id;
}

static int take_highest(Work *w)
{
    const int highest = w->waiting[0], last = w->waiting[--w->n_waiting];
    int i = 0;
    for (int child; (child = 2 * i + 1) < w->n_waiting; i = child) {
        child += child + 1 < w->n_waiting && w->waiting[child + 1] > w->waiting[child];
        if (w->waiting[child] <= last)
            break;
        w->waiting[i] = w->waiting[child];
    }
    w->waiting[i] = last;
    return highest;
}

int node_code_depth(const Node *n)
{
    return node_kind(n) == KIND_REDUCE ? CODE_REDUCE_DEPTH : 1;
}

static void note_depth(Count *c, const Node *n)
{
    Work *w = c->work;
    const int depth = c->depth + node_code_depth(n);
    if (depth > w->depth[n->id])
        w->depth[n->id] = depth;
    if (depth > w->deepest)
        w->deepest = depth;
    if (depth > CODE_DEPTH)
        w->endless = n;
}

static void ask(Count *c, const Node *n, const Index *i, const Guard *guard)
{
    Work *w = c->work;
    if (w->endless || !is_computed(c, n))
        return;
    note_depth(c, n);
    Index *at = arena_alloc(c->arena, sizeof *at);
    index_broadcast_to(at, &n->type.shape, i);
    Evaluation e = {.at = at,
                    .hash = index_hash(at),
                    .level = level_of_index(c, at),
                    .guard = guard,
                    .next = w->asked[n->id]};
    e.guards = guards_key(guard, e.level, index_lanes(&c->space, at));
    if (asked_before(&e, w->asked[n->id]))
        return;
    if (!w->asked[n->id])
        wait_for(w, n->id);
    w->asked[n->id] = arena_alloc(c->arena, sizeof e);
    *w->asked[n->id] = e;
    w->times[n->id] += e.level->rounds;
    w->evaluations++;
    if (n_asked(w->asked[n->id]) > MOST_INDICES || w->evaluations > CODE_EVALUATIONS)
        w->endless = n;
}

static Affine value_as_index(void *count, Node *n, const Index *i, int64_t extent)
{
    Count *c = count;
    const Index at = index_broadcast(&n->type.shape, i);
    ask(c, n, i, c->of->guard);
    for (const Lookup *l = c->lookups; l; l = l->next)
        if (l->node == n && l->extent == extent && index_equal(l->at, &at))
            return affine_var(l->var);
    const int var =
        index_var(&c->space, AFFINE_VAR_VALUE, 0, extent - 1, index_lanes(&c->space, &at));
    *level_at(c, var) = level_of_index(c, &at);
    Lookup *l = arena_alloc(c->arena, sizeof *l);
    Index *copy = arena_alloc(c->arena, sizeof *copy);
    *copy = at;
    *l = (Lookup){c->lookups, n, copy, extent, var};
    c->lookups = l;
    return affine_var(var);
}

/* ---- from a value to its operands ---- */

static const Guard *add_guards(Count *c, const Guard *guard, const Reading *r)
{
    for (const ReadGuard *read = r->guards; read; read = read->next) {
        Guard *g = arena_alloc(c->arena, sizeof *g);
        *g = (Guard){.up = guard,
                     .level = level_of(c, &read->at),
                     .lanes = affine_lanes(&c->space, &read->at),
                     .key = read_guard_key(read)};
        guard = g;
    }
    return guard;
}

static void open_reduction(Count *c, const Node *n, Index *at)
{
    const Shape *from = &n->in[0]->type.shape;
    const bool lanes = reduces_inner(n) && !index_lanes(&c->space, c->of->at);
    const unsigned reduced = reduced_axes(n);
    const Level *level = c->of->level;
    int last = from->rank - 1;
    while (last > 0 && from->dim[last] == 1)
        last--;
    for (int k = 0; k < from->rank; k++)
        if (reduced >> k & 1)
            at->at[k] = open_loop(c, &level, from->dim[k], lanes && k == last);
}

/* The operands of a scatter and of a contraction lie in memory. */
static void count_operands(Count *c, const Node *n, const Evaluation *e)
{
    const Reader reader = {&c->space, value_as_index, c};
    if (node_kind(n) == KIND_SCATTER)
        return;
    c->of = e;
    for (int k = 0; k < node_n_read(n); k++) {
        Reading r;
        node_read(&reader, n, k, e->at, &r);
        if (node_kind(n) == KIND_REDUCE)
            open_reduction(c, n, &r.at);
        ask(c, n->in[k], &r.at, add_guards(c, e->guard, &r));
    }
}

/* ---- the nest ---- */

static void forget(Work *w)
{
    for (int i = 0; i < w->n; i++) {
        w->times[w->node[i]->id] = 0;
        w->depth[w->node[i]->id] = 0;
        w->asked[w->node[i]->id] = NULL;
    }
    w->n = w->evaluations = w->deepest = 0;
    w->endless = NULL;
    w->rounds = 1;
}

static void ask_for_stores(Count *c)
{
    const WorkNest *nest = c->nest;
    const Level *level = c->root;
    Index i = {.rank = nest->space->rank};
    for (int d = 0; d < i.rank; d++) {
        const int axis = nest->order[d];
        i.at[axis] = open_loop(c, &level, nest->space->dim[axis], axis == nest->vector);
    }
    if (nest->kind ==
        KERNEL_CONTRACT) /* tile by tile: what depends on some axes is computed in each */
        for (int var = 0; var < c->n_levels; var++)
            *level_at(c, var) = level;
    for (int r = 0; r < nest->n_roots; r++)
        ask(c, nest->roots[r], &i, NULL);
}

void work_count(Work *w, const WorkNest *nest)
{
    Level root = {.rounds = 1};
    Count c = {.work = w, .nest = nest, .arena = arena_new(), .root = &root};
    forget(w);
    index_space_init(&c.space, c.arena, 1);
    ask_for_stores(&c);
    while (w->n_waiting > 0) {
        Node *n = nest->graph->nodes[take_highest(w)];
        w->node[w->n++] = n;
        c.depth = w->depth[n->id];
        for (const Evaluation *e = w->asked[n->id]; e && !w->endless; e = e->next)
            count_operands(&c, n, e);
    }
    arena_free(c.arena);
}

/* ---- too often ---- */

double node_own_cost(const Node *n)
{
    switch (node_kind(n)) {
    case KIND_EXPR:
        return scalar_cost((ScalarFn)op_info(n->op)->data);
    case KIND_INDEX:
        return op_info(n->op)->data == INDEX_RANDOM   ? COST_RANDOM
               : op_info(n->op)->data == INDEX_GATHER ? COST_GATHER
                                                      : COST_INDEX;
    case KIND_REDUCE:
        return COST_REDUCE;
    case KIND_LEAF:
    case KIND_VIEW:
    case KIND_CONTRACT:
    case KIND_SCATTER:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return 0;
}

/* What one evaluation of n costs, the operands' evaluations shared out among n's.  A reduction is
 * not part of that: it has a bound of its own. */
static void add_costs(Work *w)
{
    for (int i = w->n - 1; i >= 0; i--) {
        const Node *n = w->node[i];
        const bool reduction = node_kind(n) == KIND_REDUCE;
        w->cost[n->id] = reduction ? 0 : node_own_cost(n);
        for (int k = 0; k < n->n_in && !reduction; k++) {
            const double share = w->times[n->in[k]->id] / w->times[n->id];
            if (share > 0)
                w->cost[n->id] += w->cost[n->in[k]->id] * (share < 1 ? share : 1);
        }
    }
}

bool work_is_cheap(const Work *w, const Node *n)
{
    return node_own_cost(n) > 0 && node_kind(n) != KIND_REDUCE && w->cost[n->id] <= WORK_CHEAP;
}

static double most_times(const Work *w, const Node *n)
{
    const double elements = (double)shape_count(&n->type.shape);
    const double dear = WORK_TIMES * elements, cheap = WORK_ROUND_TIMES * w->rounds;
    if (node_kind(n) == KIND_REDUCE)
        return elements;
    return w->cost[n->id] <= WORK_SPREAD && cheap > dear ? cheap : dear;
}

const Node *work_excess(Work *w, const WorkNest *nest)
{
    work_count(w, nest);
    if (w->endless)
        return w->endless;
    add_costs(w);
    w->again = 0;
    for (int i = 0; i < w->n; i++) {
        const Node *n = w->node[i];
        const double times = w->times[n->id],
                     more = times - (double)shape_count(&n->type.shape);
        if (node_own_cost(n) > 0 && times > most_times(w, n))
            return n;
        if (more > 0)
            w->again += more * node_own_cost(n);
    }
    return NULL;
}

WorkTotals work_totals(Arena *a, int n)
{
    return (WorkTotals){.times = arena_array(a, (size_t)n + 1, sizeof(double)),
                        .cheap = arena_array(a, (size_t)n + 1, sizeof(bool))};
}

void work_totals_add(WorkTotals *t, const Work *w)
{
    for (int i = 0; i < w->n; i++) {
        const Node *n = w->node[i];
        t->times[n->id] += w->times[n->id];
        t->cheap[n->id] |= work_is_cheap(w, n);
    }
}

double work_per_element(const WorkTotals *t, const Node *n)
{
    return t->times[n->id] / (double)shape_count(&n->type.shape);
}

bool work_totals_exceed(const WorkTotals *t, const Node *n)
{
    switch (node_kind(n)) {
    case KIND_EXPR:
    case KIND_INDEX:
        return !t->cheap[n->id] && work_per_element(t, n) > WORK_TIMES;
    case KIND_REDUCE:
    case KIND_CONTRACT:
    case KIND_SCATTER:
        return work_per_element(t, n) > 1;
    case KIND_LEAF:
    case KIND_VIEW:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return false;
}
