/* One walk from the stores down to memory gives both the places and the signature: nodes by
 * number in the order in which they are met, places by number, everything that the code depends
 * on as text, names and offsets left out. */
#include "codegen/cpu/places.h"

#include "codegen/cpu/philox.h"
#include "ir/shape.h"

typedef struct Walk {
    Arena *arena;
    const EntryPlan *entry;
    const Kernel *kernel;
    Places *out;
    Text text;
    int *number; /* by node id: 1 + number, 0: not met */
    const Node **met;
    int n_met, cap_met;
} Walk;

static bool overlap(const Buffer *a, const Buffer *b);

/* Parts of other buffers, in one and the same round: the two places of a carried value never
 * meet, what a body stores for itself lies in one block, and of anything else only the bases are
 * compared. */
static bool parts_overlap(const Buffer *a, const Buffer *b)
{
    if (a->odd_base && b->odd_base && a->base == b->odd_base && a->odd_base == b->base)
        return false;
    if (a->base == b->base && !a->outside && !b->outside)
        return a->shift < b->shift + b->bytes && b->shift < a->shift + a->bytes;
    const Buffer *x[2] = {a->base ? a->base : a, a->odd_base},
                 *y[2] = {b->base ? b->base : b, b->odd_base};
    for (int i = 0; i < 4; i++)
        if (x[i / 2] && y[i % 2] && overlap(x[i / 2], y[i % 2]))
            return true;
    return false;
}

static bool overlap(const Buffer *a, const Buffer *b)
{
    if (a == b)
        return true;
    if (a->base || b->base)
        return parts_overlap(a, b);
    if (a->space != b->space)
        return false;
    switch (a->space) {
    case BUF_STATE:
    case BUF_SHARED:
    case BUF_SCRATCH:
        return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
    case BUF_SEED:
        return true;
    case BUF_CONST:
        return false;
    case BUF_INPUT:
    case BUF_HYPER:
    case BUF_CLOCK:
    case BUF_SCALAR:
    case BUF_RESULT:
    case BUF_OUTPUT:
        break;
    }
    return a->index == b->index;
}

/* A new place joins those that overlap with it: all that do, directly or not, get the number of
 * the first. */
static void join_place(Places *p, int i)
{
    for (int j = 0; j < i; j++) {
        if (!overlap(p->place[i].buffer, p->place[j].buffer))
            continue;
        const int a = p->place[i].scope, b = p->place[j].scope, to = a < b ? a : b;
        for (int k = 0; k <= i; k++)
            if (p->place[k].scope == a || p->place[k].scope == b)
                p->place[k].scope = to;
    }
}

static int add_place(Walk *w, const Buffer *b)
{
    Places *p = w->out;
    for (int i = 0; i < p->n; i++)
        if (p->place[i].buffer == b)
            return i;
    if (p->n == p->cap)
        p->place = arena_grow(w->arena, p->place, &p->cap, sizeof *p->place);
    p->place[p->n] = (Place){.buffer = b, .scope = p->n};
    join_place(p, p->n);
    return p->n++;
}

static void put_type(Walk *w, DType t, const Shape *s)
{
    text_add(&w->text, dtype_text(t));
    for (int i = 0; i < s->rank; i++)
        text_printf(&w->text, "%c%lld", i ? ',' : '[', (long long)s->dim[i]);
}

static double operations_of(const Node *n)
{
    switch (op_info(n->op)->kind) {
    case KIND_EXPR:
        return (double)shape_count(&n->type.shape);
    case KIND_REDUCE:
        return (double)shape_count(&n->in[0]->type.shape);
    case KIND_SCATTER:
        return (double)shape_count(&n->in[n->n_in - 1]->type.shape);
    case KIND_CONTRACT:
        return 2 * (double)shape_count(&n->type.shape) * einsum_depth(n);
    case KIND_LEAF:
    case KIND_VIEW:
    case KIND_INDEX:
    case KIND_LOOP:
    case KIND_META:
        return 0;
    }
    return 0;
}

static void put_place(Walk *w, const Buffer *b, bool written)
{
    const int at = add_place(w, b);
    Place *p = &w->out->place[at];
    p->written |= written;
    p->read |= !written;
    text_printf(&w->text, "@%d:", at);
    put_type(w, b->dtype, &b->shape);
    for (int i = 0; i < b->shape.rank; i++)
        text_printf(&w->text, "%c%lld", i ? ',' : '/', (long long)b->stride[i]);
}

const Buffer *places_path(const Places *p, const Node *random)
{
    for (int i = 0; i < p->n; i++)
        if (p->place[i].random == random)
            return p->place[i].buffer;
    diag_internal(NULL, "the path of %%%s has no place", random->name);
}

/* A constant of the model.  Words, as a table of numbers holds 53 bits.  No value's name has a
 * colon. */
static const Buffer *path_buffer(Arena *a, const Node *random)
{
    const uint64_t hash = philox_path_hash(random->attrs.random.path);
    Node *table = arena_alloc(a, sizeof *table);
    Buffer *b = arena_alloc(a, sizeof *b);
    double *word = arena_array(a, 2, sizeof *word);
    word[0] = (double)(hash & UINT32_MAX);
    word[1] = (double)(hash >> 32);
    *table = (Node){.op = OP_CONST,
                    .name = arena_printf(a, "path:%s", random->name),
                    .type = {.dtype = DT_I64, .shape = {.rank = 1, .dim = {2}}}};
    table->attrs.value.data = (RealList){.n = 2, .v = word};
    *b = (Buffer){.name = table->name,
                  .space = BUF_CONST,
                  .dtype = DT_I64,
                  .bytes = 16,
                  .shape = table->type.shape,
                  .stride = {1},
                  .constant = table,
                  .first = -1,
                  .last = -1};
    return b;
}

/* All of a random node but its path. */
static void put_random(Walk *w, const Node *n)
{
    const int i = add_place(w, path_buffer(w->arena, n));
    w->out->place[i].random = n;
    w->out->place[i].read = true;
    text_printf(&w->text, "=%s@%d", op_info(n->op)->text, i);
}

static void put_node(Walk *w, const Node *n)
{
    if (w->number[n->id]) {
        text_printf(&w->text, "%%%d ", w->number[n->id]);
        return;
    }
    if (w->n_met == w->cap_met)
        w->met = arena_grow(w->arena, w->met, &w->cap_met, sizeof *w->met);
    w->met[w->n_met] = n;
    w->number[n->id] = ++w->n_met;
    const OpInfo *op = op_info(n->op);
    /* One value for all elements is written into the code, but where a contraction reads it from
     * memory. */
    const Buffer *b = kernel_read(w->entry, w->kernel, n);
    if (n->op == OP_CONST && n->attrs.value.data.n == 1 && b && b->space == BUF_CONST)
        b = NULL;
    put_type(w, n->type.dtype, &n->type.shape);
    if (b) {
        put_place(w, b, false);
        if (n->op == OP_CONST) /* an expression has the value in its code all the same */
            attrs_print(&w->text, op->attrs, &n->attrs);
        text_add(&w->text, " ");
        return;
    }
    w->out->operations += operations_of(n);
    if (op->attrs == ATTR_random) {
        put_random(w, n);
    } else {
        text_printf(&w->text, "=%s", op->text);
        attrs_print(&w->text, op->attrs, &n->attrs);
    }
    text_add(&w->text, "(");
    for (int i = 0; i < n->n_in; i++)
        put_node(w, n->in[i]);
    text_add(&w->text, ")");
}

static void put_loops(Walk *w, const Kernel *k)
{
    text_printf(&w->text, "%d %d %d ", (int)k->kind, k->vector, k->flat);
    put_type(w, DT_BOOL, &k->space);
    for (int i = 0; i < k->space.rank; i++)
        text_printf(&w->text, " %d", k->order[i]);
}

void kernel_places(Arena *a, const EntryPlan *e, const Kernel *k, int *number, Places *out)
{
    Walk w = {.arena = a, .entry = e, .kernel = k, .out = out, .number = number};
    *out = (Places){0};
    text_init(&w.text, a);
    put_loops(&w, k);
    for (int i = 0; i < k->n_stores; i++) {
        text_add(&w.text, "\n");
        put_place(&w, k->stores[i].to, true);
        if (k->stores[i].flag)
            put_place(&w, k->stores[i].flag, true);
        text_add(&w.text, "<-");
        put_node(&w, k->stores[i].value);
    }
    if (k->contract) {
        text_add(&w.text, "\ncontract ");
        put_node(&w, k->contract);
    }
    text_add(&w.text, "\nscopes");
    for (int i = 0; i < out->n; i++)
        text_printf(&w.text, " %d", out->place[i].scope);
    out->signature = w.text.s;
    for (int i = 0; i < w.n_met; i++)
        number[w.met[i]->id] = 0;
}
