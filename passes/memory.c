/* Offsets of scratch and shared buffers.
 *
 * Two buffers that are alive in one kernel do not overlap.  Largest first, each goes into the smallest gap that is big
 * enough between those placed already.  A store may write over a value that dies in its kernel if it reads it at the
 * index that it writes only: the two then are one block with the life of both. */
#include <string.h>

#include "passes/vfuse.h"

typedef struct Block {
    Buffer *buffer;
    int first, last;
    int into; /* this block lies where that one does, -1 */
    bool placed;
} Block;

typedef struct Blocks {
    Block *v;
    int n, cap;
    Arena *arena;
} Blocks;

static int64_t round_up(int64_t v)
{
    return (v + 63) & ~(int64_t)63;
}

static int block_of(const Blocks *l, const Buffer *b)
{
    for (int i = 0; i < l->n; i++)
        if (l->v[i].buffer == b)
            return i;
    return -1;
}

static void add_block(Blocks *l, Buffer *b, BufferSpace space)
{
    if (!buffer_is_planned(b) || b->space != space || block_of(l, b) >= 0)
        return;
    if (l->n == l->cap)
        l->v = arena_grow(l->arena, l->v, &l->cap, sizeof *l->v);
    l->v[l->n++] = (Block){.buffer = b, .first = b->first, .last = b->last, .into = -1};
}

typedef struct KernelContext {
    const EntryPlan *entry;
    const Kernel *kernel;
} KernelContext;

static bool read_by_kernel(const void *context, const Node *n)
{
    const KernelContext *c = context;
    const Buffer *b = c->entry->buffer[n->id];
    for (int i = 0; i < c->kernel->n_stores; i++)
        if (b && c->kernel->stores[i].value == n && c->kernel->stores[i].to == b)
            return false;
    return b != NULL;
}

/* How the stores of k - store s alone, or all others - read `old`: 0 not at all, 1 at the written index only, 2 else. */
static int reads_of(const EntryPlan *e, const Kernel *k, const Store *s, bool others,
                    const Buffer *old, Arena *a)
{
    Node **roots = arena_array(a, (size_t)k->n_stores, sizeof *roots);
    int n = 0, reads = 0;
    for (int i = 0; i < k->n_stores; i++)
        if ((k->stores[i].value == s->value) != others)
            roots[n++] = k->stores[i].value;
    VisitList l = {0};
    const KernelContext c = {e, k};
    visit_kernel(&l, a, e->graph, n, roots, &k->space, read_by_kernel, &c);
    for (int i = 0; i < l.n; i++)
        if (l.v[i].external && e->buffer[l.v[i].node->id] == old)
            reads = l.v[i].exact && reads < 2 ? 1 : 2;
    return reads;
}

bool store_in_place(const EntryPlan *e, const Kernel *k, const Store *s, const Buffer *old,
                    Arena *a)
{
    const Buffer *to = s->to;
    return k->kind == KERNEL_EXPR && to->space == old->space && to->bytes == old->bytes &&
           dtype_bytes(to->dtype) == dtype_bytes(old->dtype) &&
           shape_equal(&to->shape, &k->space) && shape_equal(&to->shape, &old->shape) &&
           !memcmp(to->stride, old->stride, (size_t)k->space.rank * sizeof *to->stride) &&
           reads_of(e, k, s, false, old, a) == 1 && reads_of(e, k, s, true, old, a) == 0;
}

static int root_of(const Blocks *l, int i)
{
    while (l->v[i].into >= 0)
        i = l->v[i].into;
    return i;
}

/* Puts what kernel `at` stores over what it reads for the last time. */
static void join_kernel(Blocks *l, const EntryPlan *e, int at, BufferSpace space, Arena *a)
{
    const Kernel *k = &e->kernels[at];
    for (int i = 0; i < k->n_stores; i++) {
        const Store *s = &k->stores[i];
        if (!buffer_is_planned(s->to) || s->to->space != space || s->to->bytes == 0)
            continue;
        const int mine = block_of(l, s->to);
        for (int j = 0; j < l->n && l->v[mine].into < 0; j++) {
            const int root = root_of(l, j);
            if (j == mine || l->v[j].buffer->last != at || l->v[root].last != at ||
                root == mine || !store_in_place(e, k, s, l->v[j].buffer, a))
                continue;
            l->v[mine].into = root;
            l->v[root].last = l->v[mine].last;
        }
    }
}

static bool alive_together(const Block *a, const Block *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The smallest gap between the placed blocks that live with b; else behind them all. */
static int64_t find_gap(const Blocks *l, const Block *b)
{
    int64_t best = -1, best_size = 0, at = 0;
    for (;;) {
        const Block *next = NULL;
        int64_t covered = at;
        for (int i = 0; i < l->n; i++) {
            const Block *o = &l->v[i];
            if (!o->placed || o->into >= 0 || !alive_together(o, b))
                continue;
            const int64_t lo = o->buffer->offset, hi = lo + round_up(o->buffer->bytes);
            if (lo <= covered && hi > covered)
                covered = hi;
            else if (lo > covered && (!next || lo < next->buffer->offset))
                next = o;
        }
        if (covered != at) {
            at = covered;
            continue;
        }
        if (!next)
            return best >= 0 ? best : at;
        const int64_t size = next->buffer->offset - at;
        if (size >= round_up(b->buffer->bytes) && (best < 0 || size < best_size)) {
            best = at;
            best_size = size;
        }
        at = next->buffer->offset;
    }
}

static int largest_open(const Blocks *l)
{
    int best = -1;
    for (int i = 0; i < l->n; i++)
        if (!l->v[i].placed && l->v[i].into < 0 &&
            (best < 0 || l->v[i].buffer->bytes > l->v[best].buffer->bytes))
            best = i;
    return best;
}

static int64_t place_blocks(Blocks *l)
{
    int64_t end = 0;
    for (int i; (i = largest_open(l)) >= 0;) {
        Buffer *b = l->v[i].buffer;
        b->offset = find_gap(l, &l->v[i]);
        l->v[i].placed = true;
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
    Blocks l = {.arena = a};
    for (int k = 0; k < e->n_kernels; k++) {
        const LoopPlan *loop = e->kernels[k].loop;
        for (int s = 0; s < e->kernels[k].n_stores; s++)
            add_block(&l, e->kernels[k].stores[s].to, space);
        for (int i = 0; loop && i < loop->n_own; i++)
            add_block(&l, loop->own[i], space);
    }
    if (!reuse)
        return place_in_a_row(&l);
    for (int k = 0; k < e->n_kernels; k++)
        join_kernel(&l, e, k, space, a);
    return place_blocks(&l);
}

void memory_plan(EntryPlan *e, bool reuse)
{
    Arena *a = arena_new();
    e->shared_bytes = plan_space(e, BUF_SHARED, a, reuse);
    e->scratch_bytes = plan_space(e, BUF_SCRATCH, a, reuse);
    arena_free(a);
}
