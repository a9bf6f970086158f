/* Groups to kernels: their order, their stores, and a buffer for every value that another kernel reads.
 *
 * Next is always the kernel that reads what was written last, so that values are read while they are in cache; what
 * waits for nothing comes right before its first reader. */
#include "passes/vfuse.h"

#include <string.h>

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

/* The order in the making. */
typedef struct Schedule {
    const Fuse *f;
    int *key, *place; /* by group; place -1: not yet */
    uint64_t *done;
    bool *source; /* waits for nothing: comes right before its first reader */
    int *order;
    int n;
} Schedule;

static bool waits_for_sources_only(const Schedule *s, int g)
{
    for (int w = 0; w < s->f->group_words; w++)
        for (uint64_t open = s->f->groups[g].before[w] & ~s->done[w]; open; open &= open - 1)
            if (!s->source[w * 64 + __builtin_ctzll(open)])
                return false;
    return true;
}

/* When was the last of its operands written? -1: it reads none. */
static int recency(const Schedule *s, int g)
{
    const Fuse *f = s->f;
    int last = -1;
    for (int w = 0; w < f->node_words; w++)
        for (uint64_t set = f->groups[g].reads[w]; set; set &= set - 1) {
            const int owner = f->owner[w * 64 + __builtin_ctzll(set)];
            if (owner >= 0 && s->place[owner] > last)
                last = s->place[owner];
        }
    return last;
}

/* The latest in definition order of those that read what was written last: a gradient's other uses before the
 * chain goes on.  Where nothing reads anything yet, the first in definition order. */
static int next_group(const Schedule *s, bool per_model)
{
    int best = -1, best_recency = -1;
    for (int i = 0; i < s->f->n_groups; i++) {
        const Group *g = &s->f->groups[i];
        if (g->dead || s->place[i] >= 0 || g->per_model != per_model ||
            !waits_for_sources_only(s, i))
            continue;
        const int r = recency(s, i);
        const bool later = r >= 0 ? s->key[i] > s->key[best < 0 ? i : best]
                                  : s->key[i] < s->key[best < 0 ? i : best];
        if (best < 0 || r > best_recency || (r == best_recency && later)) {
            best = i;
            best_recency = r;
        }
    }
    return best;
}

static void place_group(Schedule *s, int g)
{
    const Fuse *f = s->f;
    for (int i = 0; i < f->n_groups; i++)
        if (bit_get(f->groups[g].before, i) && s->place[i] < 0)
            place_group(s, i);
    s->place[g] = s->n;
    bit_set(s->done, g);
    s->order[s->n++] = g;
}

static bool waits_for_nothing(const Fuse *f, int g)
{
    for (int w = 0; w < f->group_words; w++)
        if (f->groups[g].before[w])
            return false;
    return true;
}

static const int *order_groups(Fuse *f, int *n, int *n_shared)
{
    const size_t size = (size_t)f->n_groups + 1;
    Schedule s = {.f = f,
                  .key = arena_array(f->scratch, size, sizeof *s.key),
                  .place = arena_array(f->scratch, size, sizeof *s.place),
                  .done = arena_array(f->scratch, (size_t)f->group_words, sizeof *s.done),
                  .source = arena_array(f->scratch, size, sizeof *s.source),
                  .order = arena_array(f->scratch, size, sizeof *s.order)};
    int alive = 0;
    for (int i = 0; i < f->n_groups; i++) {
        alive += !f->groups[i].dead;
        s.place[i] = -1;
        s.key[i] = f->groups[i].dead ? 0 : group_key(f, i);
        s.source[i] = !f->groups[i].dead && waits_for_nothing(f, i);
    }
    for (int per_model = 0; per_model < 2; per_model++) {
        for (int g; (g = next_group(&s, per_model != 0)) >= 0;)
            place_group(&s, g);
        if (!per_model)
            *n_shared = s.n;
    }
    *n = s.n;
    if (s.n != alive)
        diag_internal(NULL, "plan: the kernels of @%s wait for each other", f->graph->name);
    return s.order;
}

/* ---- where values are read ---- */

static bool read_directly(const Fuse *f, const Node *n)
{
    for (int i = 0; i < f->n_groups; i++)
        if (!f->groups[i].dead && f->groups[i].kind != KERNEL_EXPR &&
            group_reads(&f->groups[i], n))
            return true;
    return false;
}

static bool is_natural(const Fuse *f, const Node *n, const Buffer *b)
{
    int64_t stride[MAX_RANK] = {0};
    natural_strides(f->graph->module, n, stride);
    return !memcmp(stride, b->stride, (size_t)n->type.shape.rank * sizeof *stride);
}

/* The state that the value becomes, or its place outside the loop, if it can be read from there. */
static Buffer *readable_place(const Fuse *f, const Group *g, const Node *n)
{
    for (int i = 0; i < g->n_items; i++) {
        Buffer *to = g->items[i].to;
        if (g->items[i].value == n && to && (to->space == BUF_STATE || to->given) &&
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

static const char *kernel_name(const Fuse *f, const Kernel *k, int n)
{
    const EntryPlan *e = f->entry;
    const char *base = k->stores[0].value->name, *name = base;
    for (int i = 0, again = 1; i < n; i++)
        if (!strcmp(e->kernels[i].name, name)) {
            name = arena_printf(f->arena, "%s.%d", base, again++);
            i = -1;
        }
    return name;
}

static void fill_stores(Fuse *f, Kernel *k, int id)
{
    const Group *g = &f->groups[id];
    k->stores = arena_array(f->arena, (size_t)g->n_items, sizeof *k->stores);
    for (int i = 0; i < g->n_items; i++) {
        const Item *item = &g->items[i];
        Buffer *own = f->entry->buffer[item->value->id];
        if (item->to)
            k->stores[k->n_stores++] = (Store){item->value, item->to};
        else if (item_kept(f, item, id) && own->space != BUF_STATE && !own->given)
            k->stores[k->n_stores++] = (Store){item->value, own};
    }
}

/* Every value that is computed or read has the space's shape and lies in memory in one and the same order. */
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
    for (int i = 0; k->loop && i < k->loop->n_own; i++)
        note_use(k->loop->own[i], at);
    for (int i = 0; i < f->visits.n; i++) {
        Buffer *b = f->entry->buffer[f->visits.v[i].node->id];
        if (f->visits.v[i].external && b && buffer_is_planned(b))
            b->last = at;
    }
}

static void make_kernel(Fuse *f, int id, int at)
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
    k->name = kernel_name(f, k, at);
    if (!group_settle(f, id))
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
        if (b && b->space == BUF_SHARED && b->last >= e->n_shared)
            b->last = e->n_kernels - 1;
    }
}

void vfuse_kernels(Fuse *f)
{
    EntryPlan *e = f->entry;
    const int *order = order_groups(f, &e->n_kernels, &e->n_shared);
    e->kernels = arena_array(f->arena, (size_t)e->n_kernels + 1, sizeof *e->kernels);
    for (int i = 0; i < e->n_kernels; i++)
        find_places(f, order[i]);
    for (int i = 0; i < e->n_kernels; i++)
        make_kernel(f, order[i], i);
    keep_shared(e);
}
