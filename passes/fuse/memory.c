/* Offsets of scratch and shared buffers.
 *
 * Two buffers that are alive in one kernel do not overlap.  Largest first, each goes into the
 * smallest gap that is big enough between those placed already.  A store may write over a value
 * that dies in its kernel if it reads it at the index that it writes only: the two then are one
 * block with the life of both. */
#include <stdlib.h>
#include <string.h>

#include "ir/support/map.h"
#include "passes/fuse/vfuse.h"

typedef struct Block {
    Buffer *buffer;
    int first, last;
    int into; /* this block lies where that one does, -1 */
} Block;

typedef struct Blocks {
    Block *v;
    int n, cap;
    Map *number;  /* by buffer */
    IdSet *dying; /* by kernel: the blocks whose own last kernel it is */
    VisitList visits;
    Arena *arena;
} Blocks;

static int64_t round_up(int64_t v)
{
    return (v + 63) & ~(int64_t)63;
}

static void add_block(Blocks *l, Buffer *b, BufferSpace space)
{
    if (!buffer_is_planned(b) || b->space != space || map_get(l->number, b) >= 0)
        return;
    if (l->n == l->cap)
        l->v = arena_grow(l->arena, l->v, &l->cap, sizeof *l->v);
    map_set(l->number, b, l->n);
    l->v[l->n++] = (Block){.buffer = b, .first = b->first, .last = b->last, .into = -1};
}

/* How the stores of k - store s alone, or all others - read `old`: 0 not at all, 1 at the written
 * index only, 2 else. */
static int reads_of(const EntryPlan *e, const Kernel *k, const Store *s, bool others,
                    const Buffer *old, VisitList *l, Arena *a)
{
    Node **roots = arena_array(a, (size_t)k->n_stores, sizeof *roots);
    int n = 0, reads = 0;
    for (int i = 0; i < k->n_stores; i++)
        if ((k->stores[i].value == s->value) != others)
            roots[n++] = k->stores[i].value;
    const KernelOfEntry c = {e, k};
    visit_kernel(l, a, e->graph, n, roots, &k->space, kernel_reads, &c);
    for (int i = 0; i < l->n; i++)
        if (l->v[i].external && e->buffer[l->v[i].node->id] == old)
            reads = l->v[i].exact && reads < 2 ? 1 : 2;
    return reads;
}

bool store_in_place(const EntryPlan *e, const Kernel *k, const Store *s, const Buffer *old,
                    VisitList *visits, Arena *a)
{
    const Buffer *to = s->to;
    return k->kind == KERNEL_EXPR && to->space == old->space && to->bytes == old->bytes &&
           dtype_bytes(to->dtype) == dtype_bytes(old->dtype) &&
           shape_equal(&to->shape, &k->space) && shape_equal(&to->shape, &old->shape) &&
           !memcmp(to->stride, old->stride, (size_t)k->space.rank * sizeof *to->stride) &&
           reads_of(e, k, s, false, old, visits, a) == 1 &&
           reads_of(e, k, s, true, old, visits, a) == 0;
}

static int root_of(const Blocks *l, int i)
{
    while (l->v[i].into >= 0)
        i = l->v[i].into;
    return i;
}

/* Puts what kernel `at` stores over what it reads for the last time. */
static void join_kernel(Blocks *l, const EntryPlan *e, int at, BufferSpace space)
{
    const Kernel *k = &e->kernels[at];
    for (int i = 0; i < k->n_stores; i++) {
        const Store *s = &k->stores[i];
        if (!buffer_is_planned(s->to) || s->to->space != space || s->to->bytes == 0)
            continue;
        const int mine = map_get(l->number, s->to);
        for (int d = 0; d < l->dying[at].n && l->v[mine].into < 0; d++) {
            const int j = l->dying[at].v[d], root = root_of(l, j);
            if (j == mine || l->v[root].last != at || root == mine ||
                !store_in_place(e, k, s, l->v[j].buffer, &l->visits, l->arena))
                continue;
            l->v[mine].into = root;
            l->v[root].last = l->v[mine].last;
        }
    }
}

static void find_dying(Blocks *l, int n_kernels)
{
    l->dying = arena_array(l->arena, (size_t)n_kernels + 1, sizeof *l->dying);
    for (int i = 0; i < l->n; i++)
        if (l->v[i].last >= 0)
            idset_push(l->arena, &l->dying[l->v[i].last], i);
}

static bool alive_together(const Block *a, const Block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The smallest gap between the placed blocks that live with b; else behind them all.  placed: by
 * offset. */
static int64_t find_gap(Block *const *placed, int n, const Block *b)
{
    int64_t best = -1, best_size = 0, at = 0;
    for (int i = 0; i < n; i++) {
        const Block *o = placed[i];
        if (!alive_together(o, b))
            continue;
        const int64_t lo = o->buffer->offset, hi = lo + round_up(o->buffer->bytes);
        const int64_t size = lo - at;
        if (size > 0 && size >= round_up(b->buffer->bytes) && (best < 0 || size < best_size)) {
            best = at;
            best_size = size;
        }
        at = hi > at ? hi : at;
    }
    return best >= 0 ? best : at;
}

static int larger_first(const void *a, const void *b)
{
    const Block *x = *(Block *const *)a, *y = *(Block *const *)b;
    if (x->buffer->bytes != y->buffer->bytes)
        return x->buffer->bytes < y->buffer->bytes ? 1 : -1;
    return (x > y) - (x < y);
}

/* Keeps the list in the order of offsets. */
static void add_placed(Block **placed, int n, Block *b)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (placed[mid]->buffer->offset <= b->buffer->offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(placed + lo + 1, placed + lo, (size_t)(n - lo) * sizeof *placed);
    placed[lo] = b;
}

static int64_t place_blocks(Blocks *l)
{
    Block **open = arena_array(l->arena, (size_t)l->n + 1, sizeof(Block *));
    Block **placed = arena_array(l->arena, (size_t)l->n + 1, sizeof(Block *));
    int64_t end = 0;
    int n = 0;
    for (int i = 0; i < l->n; i++)
        if (l->v[i].into < 0)
            open[n++] = &l->v[i];
    if (n > 0)
        qsort(open, (size_t)n, sizeof *open, larger_first);
    for (int i = 0; i < n; i++) {
        Buffer *b = open[i]->buffer;
        b->offset = find_gap(placed, i, open[i]);
        add_placed(placed, i, open[i]);
        if (b->offset + round_up(b->bytes) > end)
            end = b->offset + round_up(b->bytes);
    }
    for (int i = 0; i < l->n; i++)
        l->v[i].buffer->offset = l->v[root_of(l, i)].buffer->offset;
    return end;
}

static int64_t place_in_a_row(Blocks *l)
{
    int64_t end = 0;
    for (int i = 0; i < l->n; i++) {
        l->v[i].buffer->offset = end;
        end += round_up(l->v[i].buffer->bytes);
    }
    return end;
}

static int64_t plan_space(EntryPlan *e, BufferSpace space, Arena *a, bool reuse)
{
    Blocks l = {.arena = a, .number = map_of_addresses(a)};
    for (int k = 0; k < e->n_kernels; k++) {
        const LoopPlan *loop = e->kernels[k].loop;
        for (int s = 0; s < e->kernels[k].n_stores; s++)
            add_block(&l, e->kernels[k].stores[s].to, space);
        for (int i = 0; loop && i < loop->n_held; i++)
            add_block(&l, loop->held[i], space);
    }
    if (!reuse)
        return place_in_a_row(&l);
    find_dying(&l, e->n_kernels);
    for (int k = 0; k < e->n_kernels; k++)
        join_kernel(&l, e, k, space);
    return place_blocks(&l);
}

void memory_plan(EntryPlan *e, bool reuse)
{
    Arena *a = arena_new();
    e->shared_bytes = plan_space(e, BUF_SHARED, a, reuse);
    e->scratch_bytes = plan_space(e, BUF_SCRATCH, a, reuse);
    arena_free(a);
}
