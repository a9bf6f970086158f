/* The plan's verifier.  Brute force and on its own terms: it looks at the finished plan only,
 * kernel by kernel, not at how the planner came to it. */
#include "passes/plan/plan_build.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/support/map.h"
#include "passes/fuse/work.h"
#include "passes/plan/plan_reads.h"

/* One store of the entry's kernels. */
typedef struct Stored {
    const Store *store;
    int kernel;
    int next; /* of the same value, -1: none */
} Stored;

typedef struct PlanCheck {
    const Plan *plan;
    const EntryPlan *entry;
    Stored *stores;              /* all of the entry, in order */
    int *by_value;               /* by node id: the first of its stores, -1 */
    Map *by_buffer;              /* the first store to it */
    AccessList accesses, others; /* the kernel's; of one that is looked at besides */
    const Kernel *kernel;
    int at;       /* position of kernel */
    Arena *arena; /* for the sentence */
    Arena *scratch;
    const char *wrong;
} PlanCheck;

#define FAIL(c, ...)                                            \
    do {                                                        \
        if (!(c)->wrong)                                        \
            (c)->wrong = arena_printf((c)->arena, __VA_ARGS__); \
        return;                                                 \
    } while (0)

static bool is_state_leaf(const Node *n)
{
    return node_is_leaf(n) && op_info(n->op)->data == LEAF_STATE;
}

/* The first kernel that stores to b; n_kernels: none does. */
static int first_writer(const PlanCheck *c, const Buffer *b)
{
    const int i = map_get(c->by_buffer, b);
    return i < 0 ? c->entry->n_kernels : c->stores[i].kernel;
}

static void check_read(PlanCheck *c, const Access *v)
{
    const EntryPlan *e = c->entry;
    const Buffer *b = e->buffer[v->node->id];
    const char *name = v->node->name;
    if (!b)
        FAIL(c, "kernel %s reads %%%s, which is nowhere", c->kernel->name, name);
    if (!c->kernel->per_model && (b->per_model || b->space == BUF_SCRATCH))
        FAIL(c, "shared kernel %s reads %%%s of one model", c->kernel->name, name);
    if (is_state_leaf(v->node)) {
        const int writer = first_writer(c, b);
        if (writer < c->at)
            FAIL(c, "kernel %s reads state %s after %s wrote it", c->kernel->name, b->name,
                 e->kernels[writer].name);
        if (writer == c->at && !v->exact)
            FAIL(c, "kernel %s writes state %s and reads it elsewhere", c->kernel->name,
                 b->name);
        return;
    }
    if (node_is_leaf(v->node) &&
        (b->outside || (b->space != BUF_SCRATCH && b->space != BUF_SHARED)))
        return;
    for (int i = c->by_value[v->node->id]; i >= 0 && c->stores[i].kernel < c->at;
         i = c->stores[i].next)
        if (c->stores[i].store->to == b)
            return;
    FAIL(c, "kernel %s reads %%%s before it is written", c->kernel->name, name);
}

static void check_reduce(PlanCheck *c, const Access *v)
{
    const Kernel *k = c->kernel;
    const unsigned mask = v->axes;
    if (mask & ACCESS_REDUCED || !mask_is_prefix(mask, &k->space, k->order))
        FAIL(c, "kernel %s computes the reduction %%%s again and again", k->name,
             v->node->name);
    const bool in_vector = k->vector >= 0 && (mask >> k->vector & 1);
    if (in_vector == reduces_inner(v->node))
        FAIL(c, "kernel %s reduces %%%s along the wrong loop", k->name, v->node->name);
}

static void check_computed(PlanCheck *c, const Access *v)
{
    const Kernel *k = c->kernel;
    const OpKind kind = node_kind(v->node);
    if (kind == KIND_REDUCE && k->kind != KERNEL_EXPR)
        FAIL(c, "kernel %s has the reduction %%%s inside", k->name, v->node->name);
    if (kind == KIND_REDUCE)
        check_reduce(c, v);
    if ((kind == KIND_CONTRACT || kind == KIND_SCATTER) && v->node != k->contract)
        FAIL(c, "kernel %s computes %%%s, which is not its own", k->name, v->node->name);
    if (kind == KIND_LOOP && k->kind != KERNEL_LOOP)
        FAIL(c, "kernel %s computes the loop %%%s", k->name, v->node->name);
    if (v->node == k->contract && k->kind != KERNEL_LOOP && !v->exact)
        FAIL(c, "kernel %s needs %%%s at another index", k->name, v->node->name);
}

static void check_store(PlanCheck *c, const Store *s)
{
    const Kernel *k = c->kernel;
    const Shape *v = &s->value->type.shape;
    if (!shape_equal(v, &s->to->shape))
        FAIL(c, "%%%s is stored to %s of another shape", s->value->name, s->to->name);
    if (!k->per_model && (s->to->per_model || s->to->space == BUF_SCRATCH))
        FAIL(c, "shared kernel %s writes %s of one model", k->name, s->to->name);
    if (k->kind == KERNEL_LOOP)
        return; /* the body's kernels write it; what is carried was written before */
    if (v->rank != k->space.rank && v->rank != 0)
        FAIL(c, "%%%s does not lie in the space of kernel %s", s->value->name, k->name);
    for (int i = 0; i < v->rank; i++)
        if (v->dim[i] != k->space.dim[i] && (v->dim[i] != 1 || k->kind != KERNEL_EXPR))
            FAIL(c, "%%%s does not lie in the space of kernel %s", s->value->name, k->name);
    if (c->stores[map_get(c->by_buffer, s->to)].store != s)
        FAIL(c, "%s is written twice", s->to->name);
}

static void check_loops(PlanCheck *c)
{
    const Kernel *k = c->kernel;
    unsigned seen = 0;
    for (int i = 0; i < k->space.rank; i++)
        seen |= 1u << k->order[i];
    if (seen != (1u << k->space.rank) - 1)
        FAIL(c, "the loops of kernel %s are not its axes", k->name);
    if (k->vector >= 0 && k->order[k->space.rank - 1] != k->vector)
        FAIL(c, "the vector axis of kernel %s is not innermost", k->name);
    if (k->n_stores == 0)
        FAIL(c, "kernel %s stores nothing", k->name);
}

static void check_kernel(PlanCheck *c)
{
    const Kernel *k = c->kernel;
    AccessList *l = &c->accesses;
    check_loops(c);
    for (int i = 0; i < k->n_stores; i++)
        check_store(c, &k->stores[i]);
    plan_accesses(l, c->scratch, c->entry, k, NULL);
    if (k->contract && l->first[k->contract->id] < 0)
        FAIL(c, "kernel %s does not use its contraction", k->name);
    for (int i = 0; i < l->n; i++) {
        if (l->v[i].read)
            check_read(c, &l->v[i]);
        else
            check_computed(c, &l->v[i]);
    }
}

/* ---- memory ---- */

typedef struct Life {
    Buffer *buffer;
    int first, last;
} Life;

/* In order of the first write. */
typedef struct Lives {
    Life *v;
    int n;
    Map *number; /* by buffer */
} Lives;

static void note_life(Lives *l, Buffer *b, int at)
{
    if (!buffer_is_planned(b))
        return;
    const int known = map_get(l->number, b);
    if (known >= 0) {
        l->v[known].last = at;
        return;
    }
    map_set(l->number, b, l->n);
    l->v[l->n++] = (Life){b, at, at};
}

/* From the kernels anew, not from what the planner noted. */
static void collect_lives(PlanCheck *c, Lives *l)
{
    const EntryPlan *e = c->entry;
    for (int k = 0; k < e->n_kernels; k++) {
        c->kernel = &e->kernels[k];
        c->at = k;
        check_kernel(c);
        for (int s = 0; s < c->kernel->n_stores; s++)
            note_life(l, c->kernel->stores[s].to, k);
        for (int i = 0; c->kernel->loop && i < c->kernel->loop->n_held; i++)
            note_life(l, c->kernel->loop->held[i], k);
        for (int i = 0; i < c->accesses.n; i++) {
            const Access *v = &c->accesses.v[i];
            const Buffer *b = v->read ? e->buffer[v->node->id] : NULL;
            const int at = b ? map_get(l->number, b) : -1;
            if (at >= 0)
                l->v[at].last = b->space == BUF_SHARED && c->kernel->per_model
                                    ? kernel_run_end(e, k) - 1
                                    : k;
        }
    }
}

static bool overlap(const Buffer *a, const Buffer *b)
{
    return a->space == b->space && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* How a store of the kernel reads memory: not at all, at the stored index only, or elsewhere. */
static int reads_of(PlanCheck *c, const Kernel *k, const Store *s, const Buffer *b)
{
    int reads = 0;
    plan_accesses(&c->others, c->scratch, c->entry, k, s);
    for (int i = 0; i < c->others.n; i++) {
        const Access *v = &c->others.v[i];
        if (v->read && c->entry->buffer[v->node->id] == b)
            reads = v->exact && reads < 2 ? 1 : 2;
    }
    return reads;
}

/* May the store write over memory that the kernel reads for the last time?  If each element is
 * read just before it is written over, by what is written, and by nothing else. */
static bool store_replaces(PlanCheck *c, const Kernel *k, const Store *s, const Buffer *old)
{
    const Buffer *to = s->to;
    const size_t strides = (size_t)k->space.rank * sizeof *to->stride;
    if (k->kind != KERNEL_EXPR || to->bytes != old->bytes ||
        dtype_bytes(to->dtype) != dtype_bytes(old->dtype) ||
        !shape_equal(&to->shape, &k->space) || !shape_equal(&to->shape, &old->shape) ||
        memcmp(to->stride, old->stride, strides) != 0)
        return false;
    for (int i = 0; i < k->n_stores; i++) {
        const bool same = k->stores[i].value == s->value;
        const int reads = reads_of(c, k, &k->stores[i], old);
        if (same ? reads != 1 : reads != 0)
            return false;
    }
    return true;
}

/* b is written over a in the kernel that reads a last. */
static bool written_over(PlanCheck *c, const Life *a, const Life *b)
{
    if (a->last != b->first || a->buffer->offset != b->buffer->offset)
        return false;
    const Kernel *k = &c->entry->kernels[b->first];
    for (int i = 0; i < k->n_stores; i++)
        if (k->stores[i].to == b->buffer)
            return store_replaces(c, k, &k->stores[i], a->buffer);
    return false;
}

static void check_pair(PlanCheck *c, const Life *a, const Life *b)
{
    if (a->last < b->first || b->last < a->first || !overlap(a->buffer, b->buffer))
        return;
    if (!written_over(c, a, b) && !written_over(c, b, a))
        FAIL(c, "%s and %s share memory while both are alive", a->buffer->name,
             b->buffer->name);
}

static void check_place(PlanCheck *c, const Life *l)
{
    const Buffer *b = l->buffer;
    const int64_t all =
        b->space == BUF_SCRATCH ? c->entry->scratch_bytes : c->entry->shared_bytes;
    if (b->offset < 0 || b->offset % 64 || b->offset + b->bytes > all)
        FAIL(c, "%s lies outside its memory", b->name);
    if (b->first != l->first || b->last < l->last)
        FAIL(c, "%s is alive longer than the plan thinks", b->name);
}

/* ---- what leaves the graph ---- */

static bool is_stored(const PlanCheck *c, const Node *value, BufferSpace space,
                      const Buffer *to, bool guarded)
{
    for (int i = c->by_value[value->id]; i >= 0; i = c->stores[i].next) {
        const Store *store = c->stores[i].store;
        if (store->to->space == space && (!to || store->to == to))
            return guarded == (store->flag != NULL);
    }
    return false;
}

/* Stored to a place outside the loop. */
static bool is_given(const PlanCheck *c, const Node *value)
{
    for (int i = c->by_value[value->id]; i >= 0; i = c->stores[i].next)
        if (c->stores[i].store->to->outside)
            return true;
    return false;
}

static void check_output(PlanCheck *c, const Output *o)
{
    const EntryPlan *e = c->entry;
    const Module *m = c->plan->module;
    if (o->kind == OUT_STATE) {
        const Buffer *to = &c->plan->states[module_state(m, o->name) - m->states];
        const bool kept = is_state_leaf(o->value) && e->buffer[o->value->id] == to;
        if (!kept && !is_stored(c, o->value, BUF_STATE, to, output_is_watched(o)))
            FAIL(c, "state %s is not written, or not as it is guarded", o->name);
        return;
    }
    if (o->kind == OUT_NEXT || o->kind == OUT_STACK) {
        if (o->kind == OUT_NEXT && !is_given(c, o->value))
            FAIL(c, "the next value %%%s is not written", o->value->name);
        return;
    }
    const BufferSpace space = o->kind == OUT_TENSOR ? BUF_OUTPUT : BUF_RESULT;
    if (!is_stored(c, o->value, space, NULL, false) ||
        (o->value2 && !is_stored(c, o->value2, space, NULL, false)))
        FAIL(c, "output %s is not written", o->name ? o->name : "of a fault");
}

static void check_entry(PlanCheck *c);

static bool is_held(const LoopPlan *l, const Buffer *b)
{
    for (int i = 0; i < l->n_held; i++)
        if (l->held[i] == b)
            return true;
    return false;
}

/* What the body stores for itself lies inside memory that the loop has for it. */
static void check_block(PlanCheck *c, const LoopPlan *l, const Buffer *b)
{
    if (!buffer_is_planned(b))
        return;
    if (!b->base || !is_held(l, b->base) || b->odd_base || b->step || b->shift < 0 ||
        b->shift + b->bytes > b->base->bytes)
        FAIL(c, "%s lies outside its loop's memory", b->name);
}

/* The first and the last byte of a value that a round writes, over all rounds, inside its base. */
static void check_given(PlanCheck *c, const LoopPlan *l, const Buffer *b)
{
    if (!b->outside)
        return;
    int64_t lo = b->shift, hi = b->shift + dtype_bytes(b->dtype);
    const int64_t way = (l->count - 1) * b->step;
    lo += way < 0 ? way : 0;
    hi += way > 0 ? way : 0;
    for (int i = 0; i < b->shape.rank; i++) {
        const int64_t along = (b->shape.dim[i] - 1) * b->stride[i] * dtype_bytes(b->dtype);
        lo += along < 0 ? along : 0;
        hi += along > 0 ? along : 0;
    }
    if (lo < 0 || hi > b->base->bytes || (b->odd_base && hi > b->odd_base->bytes))
        FAIL(c, "%s of a loop lies outside %s", b->name, b->base->name);
}

/* The body as an entry of its own. */
static void check_loop(PlanCheck *c, const Kernel *k)
{
    const LoopPlan *l = k->loop;
    PlanCheck in = *c;
    in.entry = l->body;
    for (int i = 0; i < l->body->n_kernels; i++)
        if (l->body->kernels[i].per_model != k->per_model)
            FAIL(c, "the body of loop %s lies in two regions", k->name);
    for (int i = 0; i < l->body->n_kernels; i++)
        for (int s = 0; s < l->body->kernels[i].n_stores; s++) {
            check_block(&in, l, l->body->kernels[i].stores[s].to);
            check_given(&in, l, l->body->kernels[i].stores[s].to);
        }
    for (int i = 0; i < l->body->graph->n_nodes; i++)
        if (l->body->buffer[i])
            check_given(&in, l, l->body->buffer[i]);
    check_entry(&in);
    if (in.wrong)
        FAIL(c, "loop %s: %s", k->name, in.wrong);
}

static int count_stores(const EntryPlan *e)
{
    int n = 0;
    for (int k = 0; k < e->n_kernels; k++)
        n += e->kernels[k].n_stores + (e->kernels[k].loop ? e->kernels[k].loop->n_held : 0);
    return n;
}

static void list_stores(PlanCheck *c)
{
    const EntryPlan *e = c->entry;
    int n = 0;
    c->stores = arena_array(c->scratch, (size_t)count_stores(e) + 1, sizeof *c->stores);
    c->by_value = arena_array(c->scratch, (size_t)e->graph->n_nodes + 1, sizeof *c->by_value);
    c->by_buffer = map_of_addresses(c->scratch);
    for (int k = 0; k < e->n_kernels; k++)
        for (int s = 0; s < e->kernels[k].n_stores; s++)
            c->stores[n++] = (Stored){.store = &e->kernels[k].stores[s], .kernel = k};
    for (int i = 0; i < e->graph->n_nodes; i++)
        c->by_value[i] = -1;
    for (int i = n - 1; i >= 0; i--) {
        int *first = &c->by_value[c->stores[i].store->value->id];
        c->stores[i].next = *first;
        *first = i;
        map_set(c->by_buffer, c->stores[i].store->to, i);
    }
}

/* ---- steps ---- */

/* The list names the kernels from `*next` on, one after the other. */
static void check_list(PlanCheck *c, const Step *list, int n, StepKind run, int *next)
{
    const EntryPlan *e = c->entry;
    for (int i = 0; i < n; i++) {
        const Step *s = &list[i];
        if (s->kernel != *next || s->kernel >= e->n_kernels)
            FAIL(c, "a step names kernel %d where %d is next", s->kernel, *next);
        const Kernel *k = &e->kernels[(*next)++];
        if (k->per_model != (run == STEP_MODELS))
            FAIL(c, "kernel %s is in the wrong run", k->name);
        if (s->kind != (k->loop ? STEP_LOOP : STEP_KERNEL))
            FAIL(c, "the step of kernel %s is of another kind", k->name);
        if (k->loop && (s->list != k->loop->body->steps || s->n_list != k->loop->body->n_steps))
            FAIL(c, "the step of loop %s has another list than its body", k->name);
    }
}

/* Runs with a barrier between each two, or the list of a loop's body; every kernel once. */
static void check_steps(PlanCheck *c)
{
    const EntryPlan *e = c->entry;
    int next = 0;
    if (e->graph->owner)
        check_list(c, e->steps, e->n_steps,
                   e->n_kernels && e->kernels[0].per_model ? STEP_MODELS : STEP_SHARED, &next);
    for (int i = 0; i < e->n_steps && !e->graph->owner; i++) {
        const Step *s = &e->steps[i];
        if (i % 2 ? s->kind != STEP_BARRIER : !step_is_run(s))
            FAIL(c, "step %d is neither a run nor a barrier between two", i);
        if (step_is_run(s))
            check_list(c, s->list, s->n_list, s->kind, &next);
    }
    if (!c->wrong && next != e->n_kernels)
        FAIL(c, "the steps name %d of %d kernels", next, e->n_kernels);
}

static void check_entry(PlanCheck *c)
{
    const EntryPlan *e = c->entry;
    check_steps(c);
    Lives lives = {.number = map_of_addresses(c->scratch)};
    lives.v = arena_array(c->scratch, (size_t)count_stores(e) + 1, sizeof *lives.v);
    c->accesses = c->others = (AccessList){0};
    list_stores(c);
    collect_lives(c, &lives);
    for (int i = 0; i < lives.n; i++) {
        check_place(c, &lives.v[i]);
        for (int j = 0; j < i; j++)
            check_pair(c, &lives.v[j], &lives.v[i]);
    }
    for (int i = 0; i < e->graph->n_outputs; i++)
        check_output(c, &e->graph->outputs[i]);
    const char *work = c->wrong ? NULL : plan_work_check(e, c->arena);
    if (work)
        FAIL(c, "%s", work);
    for (int k = 0; k < e->n_kernels; k++)
        if (e->kernels[k].kind == KERNEL_LOOP)
            check_loop(c, &e->kernels[k]);
}

static void check_states(PlanCheck *c)
{
    const Plan *p = c->plan;
    int64_t end = 0;
    for (int i = 0; i < p->module->n_states; i++) {
        if (p->states[i].offset < end || p->states[i].offset % 64)
            FAIL(c, "state %s overlaps another one", p->states[i].name);
        end = p->states[i].offset + p->states[i].bytes;
    }
    if (end > p->state_bytes || p->state_bytes % 64)
        FAIL(c, "the states do not fit into their block");
}

const char *plan_check(const Plan *p, Arena *a)
{
    PlanCheck c = {.plan = p, .arena = a, .scratch = arena_new()};
    check_states(&c);
    for (int i = 0; i < p->n_entries && !c.wrong; i++) {
        c.entry = &p->entries[i];
        check_entry(&c);
        if (c.wrong)
            c.wrong = arena_printf(a, "@%s: %s", c.entry->graph->name, c.wrong);
    }
    arena_free(c.scratch);
    return c.wrong;
}
