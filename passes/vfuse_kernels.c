/* Groups to kernels: their order, their stores, and a buffer for every value that another kernel reads.
 *
 * The order is the definition order of the groups' last values, as far as the edges allow: so values are read soon
 * after they were written, and state, which hangs on the whole step, is written last. */
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

static bool is_ready(const Fuse *f, int g, const bool *done)
{
    for (int i = 0; i < f->n_groups; i++)
        if (bit_get(f->groups[g].before, i) && !f->groups[i].dead && !done[i])
            return false;
    return true;
}

static int next_group(const Fuse *f, const bool *done, const int *key, bool per_model)
{
    int best = -1;
    for (int i = 0; i < f->n_groups; i++) {
        const Group *g = &f->groups[i];
        if (g->dead || done[i] || g->per_model != per_model || (best >= 0 && key[i] >= key[best]))
            continue;
        if (is_ready(f, i, done))
            best = i;
    }
    return best;
}

static int *order_groups(Fuse *f, int *n, int *n_shared)
{
    const size_t size = (size_t)f->n_groups + 1;
    bool *done = arena_array(f->scratch, size, sizeof *done);
    int *order = arena_array(f->scratch, size, sizeof *order);
    int *key = arena_array(f->scratch, size, sizeof *key);
    int alive = 0;
    for (int i = 0; i < f->n_groups; i++) {
        alive += !f->groups[i].dead;
        key[i] = f->groups[i].dead ? 0 : group_key(f, i);
    }
    *n = 0;
    for (int per_model = 0; per_model < 2; per_model++) {
        for (int g; (g = next_group(f, done, key, per_model != 0)) >= 0;) {
            done[g] = true;
            order[(*n)++] = g;
        }
        if (!per_model)
            *n_shared = *n;
    }
    if (*n != alive)
        diag_internal(NULL, "plan: the kernels of @%s wait for each other", f->graph->name);
    return order;
}

/* ---- where values are read ---- */

static bool read_directly(const Fuse *f, const Node *n)
{
    for (int i = 0; i < f->n_groups; i++)
        if (!f->groups[i].dead && f->groups[i].kind != KERNEL_EXPR && group_reads(&f->groups[i], n))
            return true;
    return false;
}

static bool is_natural(const Fuse *f, const Node *n, const Buffer *b)
{
    int64_t stride[MAX_RANK] = {0};
    natural_strides(f->graph->module, n, stride);
    return !memcmp(stride, b->stride, (size_t)n->type.shape.rank * sizeof *stride);
}

/* The state that the value becomes, if it can be read from there. */
static Buffer *readable_state(const Fuse *f, const Group *g, const Node *n)
{
    for (int i = 0; i < g->n_items; i++) {
        Buffer *to = g->items[i].to;
        if (g->items[i].value == n && to && to->space == BUF_STATE &&
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
        Buffer *state = readable_state(f, g, item->value);
        f->entry->buffer[item->value->id] = state ? state : new_place(f, g, item);
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
        else if (item_kept(f, item, id) && own->space != BUF_STATE)
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

static bool is_planned(const Buffer *b)
{
    return b && (b->space == BUF_SCRATCH || b->space == BUF_SHARED);
}

static void note_lifetimes(Fuse *f, const Kernel *k, int at)
{
    for (int i = 0; i < k->n_stores; i++)
        if (is_planned(k->stores[i].to))
            k->stores[i].to->first = k->stores[i].to->last = at;
    for (int i = 0; i < f->visits.n; i++) {
        Buffer *b = f->entry->buffer[f->visits.v[i].node->id];
        if (f->visits.v[i].external && is_planned(b))
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
                  .contract = g->anchor};
    memcpy(k->order, g->order, sizeof k->order);
    fill_stores(f, k, id);
    k->name = kernel_name(f, k, at);
    if (!group_settle(f, id))
        diag_internal(NULL, "plan: kernel %%%s does not hold", k->name);
    k->flat = is_flat(f, k);
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
