/* Groups to kernels: their order, their stores, and a buffer for every value that another kernel
 * reads.
 *
 * Next is always the kernel that reads what was written last, so that values are read while they
 * are in cache; what waits for nothing comes right before its first reader. */
#include "passes/fuse/vfuse.h"

#include <string.h>

#include "ir/names.h"

static int group_key(const Fuse *f, int g)
{
    int key = 0;
    for (int i = 0; i < f->groups[g].n_items; i++) {
        const Item *item = &f->groups[g].items[i];
        const int id = item->copy ? f->n : item->value->id;
        if (item_kept(f, item, g) && id > key)
            key = id;
    }
    return key;
}

/* A group that could be next. */
typedef struct Ready {
    int recency, key, group;
} Ready;

/* A heap: no child goes before its parent. */
typedef struct ReadyHeap {
    Ready *v;
    int n, cap;
} ReadyHeap;

/* The order in the making. */
typedef struct Schedule {
    Fuse *f;
    int *key, *place;   /* by group; place -1: not yet */
    int *waits;         /* by group: for how many that are no sources */
    bool *source;       /* waits for nothing: comes right before its first reader */
    ReadyHeap ready[2]; /* shared, of each model */
    int *order;
    int n;
} Schedule;

/* When was the last of its operands written? -1: it reads none. */
static int recency(const Schedule *s, int g)
{
    const Fuse *f = s->f;
    int last = -1;
    for (int i = 0; i < f->groups[g].reads.n; i++) {
        const int owner = f->owner[f->groups[g].reads.v[i]];
        if (owner >= 0 && s->place[owner] > last)
            last = s->place[owner];
    }
    return last;
}

/* The latest in definition order of those that read what was written last: a gradient's other
 * uses before the chain goes on.  Where nothing reads anything yet, the first in definition
 * order. */
static bool goes_before(const Ready *a, const Ready *b)
{
    if (a->recency != b->recency)
        return a->recency > b->recency;
    if (a->key != b->key)
        return (a->key > b->key) == (a->recency >= 0);
    return a->group < b->group;
}

static void heap_add(Arena *a, ReadyHeap *h, Ready r)
{
    if (h->n == h->cap)
        h->v = arena_grow(a, h->v, &h->cap, sizeof *h->v);
    int i = h->n++;
    for (; i > 0 && goes_before(&r, &h->v[(i - 1) / 2]); i = (i - 1) / 2)
        h->v[i] = h->v[(i - 1) / 2];
    h->v[i] = r;
}

static Ready heap_take(ReadyHeap *h)
{
    const Ready first = h->v[0], last = h->v[--h->n];
    int i = 0;
    for (int child; (child = 2 * i + 1) < h->n; i = child) {
        child += child + 1 < h->n && goes_before(&h->v[child + 1], &h->v[child]);
        if (!goes_before(&h->v[child], &last))
            break;
        h->v[i] = h->v[child];
    }
    h->v[i] = last;
    return first;
}

static void add_ready(Schedule *s, int g)
{
    const Group *group = &s->f->groups[g];
    if (!group->dead && s->place[g] < 0 && s->waits[g] == 0)
        heap_add(s->f->scratch, &s->ready[group->per_model],
                 (Ready){recency(s, g), s->key[g], g});
}

/* A group stands in the heap once more for each change of its recency: what was so before does
 * not count. */
static int next_group(Schedule *s, bool per_model)
{
    ReadyHeap *h = &s->ready[per_model];
    while (h->n > 0) {
        const Ready r = heap_take(h);
        if (s->place[r.group] < 0 && r.recency == recency(s, r.group))
            return r.group;
    }
    return -1;
}

static void put_next(Schedule *s, int g)
{
    s->place[g] = s->n;
    s->order[s->n++] = g;
    const IdSet *after = &s->f->groups[g].after;
    for (int i = 0; i < after->n; i++) {
        s->waits[after->v[i]] -= !s->source[g];
        add_ready(s, after->v[i]);
    }
}

/* Right after the sources that it waits for. */
static void place_group(Schedule *s, int g)
{
    const IdSet *before = &s->f->groups[g].before;
    for (int i = 0; i < before->n; i++)
        if (s->place[before->v[i]] < 0)
            put_next(s, before->v[i]);
    put_next(s, g);
}

static void start_schedule(Schedule *s)
{
    const Fuse *f = s->f;
    for (int i = 0; i < f->n_groups; i++) {
        s->place[i] = -1;
        s->key[i] = f->groups[i].dead ? 0 : group_key(f, i);
        s->source[i] = !f->groups[i].dead && f->groups[i].before.n == 0;
    }
    for (int i = 0; i < f->n_groups; i++)
        for (int k = 0; !f->groups[i].dead && k < f->groups[i].before.n; k++)
            s->waits[i] += !s->source[f->groups[i].before.v[k]];
    for (int i = 0; i < f->n_groups; i++)
        add_ready(s, i);
}

static const int *order_groups(Fuse *f, int *n)
{
    const size_t size = (size_t)f->n_groups + 1;
    Schedule s = {.f = f,
                  .key = arena_array(f->scratch, size, sizeof *s.key),
                  .place = arena_array(f->scratch, size, sizeof *s.place),
                  .waits = arena_array(f->scratch, size, sizeof *s.waits),
                  .source = arena_array(f->scratch, size, sizeof *s.source),
                  .order = arena_array(f->scratch, size, sizeof *s.order)};
    int alive = 0;
    for (int i = 0; i < f->n_groups; i++)
        alive += !f->groups[i].dead;
    start_schedule(&s);
    for (int per_model = 0; per_model < 2; per_model++)
        for (int g; (g = next_group(&s, per_model != 0)) >= 0;)
            place_group(&s, g);
    *n = s.n;
    if (s.n != alive)
        diag_internal(NULL, "plan: the kernels of @%s wait for each other", f->graph->name);
    return s.order;
}

/* ---- where values are read ---- */

static bool read_directly(const Fuse *f, const Node *n)
{
    const IdSet *readers = &f->readers[n->id];
    for (int k = 0; k < readers->n; k++) {
        const Group *g = &f->groups[readers->v[k]];
        if (!g->dead && g->kind != KERNEL_EXPR && group_reads(g, n))
            return true;
    }
    return false;
}

static bool is_natural(const Fuse *f, const Node *n, const Buffer *b)
{
    int64_t stride[MAX_RANK] = {0};
    natural_strides(f->graph->module, n, stride);
    return !memcmp(stride, b->stride, (size_t)n->type.shape.rank * sizeof *stride);
}

/* The state that the value becomes, or its place outside the loop, if it can be read from there:
 * a guarded one does not hold it. */
static Buffer *readable_place(const Fuse *f, const Group *g, const Node *n)
{
    for (int i = 0; i < g->n_items; i++) {
        Buffer *to = g->items[i].to;
        if (g->items[i].value == n && to && !g->items[i].flag &&
            (to->space == BUF_STATE || to->outside) &&
            (is_natural(f, n, to) || !read_directly(f, n)))
            return to;
    }
    return NULL;
}

static Buffer *new_place(Fuse *f, const Group *g, const Item *item)
{
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    const Type *t = &item->value->type;
    *b = (Buffer){.name = item->value->name,
                  .space = g->per_model ? BUF_SCRATCH : BUF_SHARED,
                  .dtype = t->dtype,
                  .shape = t->shape,
                  .bytes = shape_count(&t->shape) * dtype_bytes(t->dtype),
                  .first = -1,
                  .last = -1};
    item_strides(f, item, b->stride);
    return b;
}

static void find_places(Fuse *f, int id)
{
    const Group *g = &f->groups[id];
    for (int i = 0; i < g->n_items; i++) {
        const Item *item = &g->items[i];
        if (item->to || !item_kept(f, item, id))
            continue;
        Buffer *place = g->loop ? loop_final_place(g->loop, item->value)
                                : readable_place(f, g, item->value);
        f->entry->buffer[item->value->id] = place ? place : new_place(f, g, item);
    }
}

/* ---- kernels ---- */

static void fill_stores(Fuse *f, Kernel *k, int id)
{
    const Group *g = &f->groups[id];
    k->stores = arena_array(f->arena, (size_t)g->n_items, sizeof *k->stores);
    for (int i = 0; i < g->n_items; i++) {
        const Item *item = &g->items[i];
        Buffer *own = f->entry->buffer[item->value->id];
        if (item->to)
            k->stores[k->n_stores++] = (Store){item->value, item->to, item->flag};
        else if (item_kept(f, item, id) && own->space != BUF_STATE && !own->outside)
            k->stores[k->n_stores++] = (Store){item->value, own, NULL};
    }
}

/* Every value that is computed or read has the space's shape and lies in memory in one and the
 * same order. */
static bool is_flat(const Fuse *f, const Kernel *k)
{
    const int64_t *stride = k->stores[0].to->stride;
    const size_t size = (size_t)k->space.rank * sizeof *stride;
    if (k->kind != KERNEL_EXPR || k->vector < 0)
        return false;
    for (int i = 0; i < k->n_stores; i++)
        if (memcmp(k->stores[i].to->stride, stride, size))
            return false;
    for (int i = 0; i < f->visits.n; i++) {
        const Visit *v = &f->visits.v[i];
        const Buffer *b = f->entry->buffer[v->node->id];
        if (v->node->type.shape.rank == 0)
            continue;
        if (!v->exact || (v->external && memcmp(b->stride, stride, size)))
            return false;
        if (!v->external && node_kind(v->node) != KIND_EXPR && !node_is_layout(v->node) &&
            !node_is_splat(v->node))
            return false;
    }
    return true;
}

static void note_use(Buffer *b, int at)
{
    if (!buffer_is_planned(b))
        return;
    if (b->first < 0)
        b->first = at;
    b->last = at;
}

static void note_lifetimes(Fuse *f, const Kernel *k, int at)
{
    for (int i = 0; i < k->n_stores; i++)
        note_use(k->stores[i].to, at);
    for (int i = 0; k->loop && i < k->loop->n_held; i++)
        note_use(k->loop->held[i], at);
    for (int i = 0; i < f->visits.n; i++) {
        Buffer *b = f->entry->buffer[f->visits.v[i].node->id];
        if (f->visits.v[i].external && b && buffer_is_planned(b))
            b->last = at;
    }
}

static void make_kernel(Fuse *f, int id, int at, NameTable *names)
{
    const Group *g = &f->groups[id];
    Kernel *k = &f->entry->kernels[at];
    *k = (Kernel){.kind = g->kind,
                  .per_model = g->per_model,
                  .space = g->space,
                  .vector = g->vector,
                  .contract = g->anchor,
                  .loop = g->loop};
    memcpy(k->order, g->order, sizeof k->order);
    fill_stores(f, k, id);
    k->name = names_take(names, k->stores[0].value->name, k->stores[0].value);
    if (!group_find_nest(f, id))
        diag_internal(NULL, "plan: kernel %%%s does not hold", k->name);
    k->flat = is_flat(f, k);
    if (g->loop)
        loop_plan_body(f, g);
    note_lifetimes(f, k, at);
}

/* What the models read from shared memory stays until the last of them is done. */
static void keep_shared(EntryPlan *e)
{
    for (int i = 0; i < e->graph->n_nodes; i++) {
        Buffer *b = e->buffer[i];
        if (b && b->space == BUF_SHARED && b->last >= 0 && e->kernels[b->last].per_model)
            b->last = kernel_run_end(e, b->last) - 1;
    }
}

void vfuse_kernels(Fuse *f)
{
    EntryPlan *e = f->entry;
    const int *order = order_groups(f, &e->n_kernels);
    e->kernels = arena_array(f->arena, (size_t)e->n_kernels + 1, sizeof *e->kernels);
    for (int i = 0; i < e->n_kernels; i++)
        find_places(f, order[i]);
    NameTable *names = names_new(f->arena);
    for (int i = 0; i < e->n_kernels; i++)
        make_kernel(f, order[i], i, names);
    keep_shared(e);
    plan_steps(e, f->arena);
}
