/* A plan made without the compiler's passes, for the unit test of codegen; see handplan.h. */
#include "tests/unit/handplan.h"
#include "ir/run_value.h"

#include <string.h>

#include "ir/sum_order.h"

typedef struct Maker {
    Arena *arena;
    Plan *plan;
    EntryPlan *entry;
    bool share;
    int64_t scratch, shared;
} Maker;

static int64_t align64(int64_t n)
{
    return (n + 63) / 64 * 64;
}

static Buffer *buffer_new(Maker *m, const char *name, BufferSpace space, const Type *t)
{
    Buffer *b = arena_alloc(m->arena, sizeof *b);
    *b = (Buffer){.name = name, .space = space, .dtype = t->dtype, .shape = t->shape};
    b->bytes = shape_count(&t->shape) * dtype_bytes(t->dtype);
    shape_strides(&t->shape, b->stride);
    return b;
}

/* Strides of axes stored in that order, outermost first. */
static void order_strides(Buffer *b, const IntList *order)
{
    int64_t step = 1;
    for (int k = order->n - 1; k >= 0; k--) {
        b->stride[order->v[k]] = step;
        step *= b->shape.dim[order->v[k]];
    }
}

static Kernel *kernel_new(Maker *m, KernelKind kind, Node *value, Buffer *to)
{
    Kernel *k = &m->entry->kernels[m->entry->n_kernels++];
    *k = (Kernel){.kind = kind, .name = value->name, .space = value->type.shape, .vector = -1};
    k->per_model = to->space != BUF_SHARED;
    k->stores = arena_array(m->arena, 8, sizeof *k->stores);
    k->stores[k->n_stores++] = (Store){value, to, NULL};
    int rank = 0;
    for (int d = 0; d < k->space.rank; d++)
        k->order[rank++] = d;
    if (value->op == OP_LAYOUT)
        for (int d = 0; d < rank; d++)
            k->order[d] = (int)value->attrs.perm.dims.v[d];
    const bool inner = op_info(value->op)->kind == KIND_REDUCE &&
                       sum_order(value).inner; /* lanes are its own */
    if (rank && !inner)
        k->vector = k->order[rank - 1];
    k->contract = kind == KERNEL_EXPR ? NULL : value;
    return k;
}

static void materialise(Maker *m, Node *n)
{
    if (m->entry->buffer[n->id])
        return;
    const bool per_model = type_per_model(&n->type);
    Buffer *b = buffer_new(m, n->name, per_model ? BUF_SCRATCH : BUF_SHARED, &n->type);
    int64_t *end = per_model ? &m->scratch : &m->shared;
    b->offset = *end;
    *end = align64(*end + b->bytes);
    if (n->op == OP_LAYOUT)
        order_strides(b, &n->attrs.perm.dims);
    const OpKind kind = op_info(n->op)->kind;
    kernel_new(m,
               kind == KIND_CONTRACT  ? KERNEL_CONTRACT
               : kind == KIND_SCATTER ? KERNEL_SCATTER
                                      : KERNEL_EXPR,
               n, b);
    m->entry->buffer[n->id] = b;
}

static int position(const char *name, const void *table, int n, size_t size)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(*(const char *const *)((const char *)table + (size_t)i * size), name))
            return i;
    return -1;
}

static Buffer *leaf_buffer(Maker *m, const Node *n)
{
    const Module *mod = m->plan->module;
    RunValue v;
    Buffer *b = NULL;
    switch ((LeafKind)op_info(n->op)->data) {
    case LEAF_INPUT:
        b = buffer_new(m, n->name, BUF_INPUT, &n->type);
        b->index =
            position(n->attrs.leaf.name, mod->inputs, mod->n_inputs, sizeof *mod->inputs);
        b->per_model = mod->inputs[b->index].each;
        b->model_bytes = b->per_model ? b->bytes : 0;
        break;
    case LEAF_STATE:
        return &m->plan->states[position(n->attrs.leaf.name, mod->states, mod->n_states,
                                         sizeof *mod->states)];
    case LEAF_HYPER:
        b = buffer_new(m, n->name, BUF_HYPER, &n->type);
        b->index =
            position(n->attrs.leaf.name, mod->hypers, mod->n_hypers, sizeof *mod->hypers);
        b->per_model = true;
        b->offset = 8 * b->index;
        b->model_bytes = 8 * mod->n_hypers;
        break;
    case LEAF_SCALAR:
        if (!run_value_find(n->attrs.leaf.name, &v))
            return NULL;
        b = buffer_new(m, n->name, run_value_per_model(v) ? BUF_CLOCK : BUF_SCALAR, &n->type);
        b->per_model = run_value_per_model(v);
        b->index = b->per_model ? (int)v : (int)v - RUN_CLOCK_COUNT;
        b->offset = 8 * b->index;
        b->model_bytes = b->per_model ? 8 * RUN_CLOCK_COUNT : 0;
        break;
    case LEAF_SEED:
        b = buffer_new(m, n->name, BUF_SEED, &n->type);
        b->per_model = true;
        b->model_bytes = 8;
        break;
    case LEAF_CONST:
        if (n->attrs.value.data.n == 1)
            return NULL;
        b = buffer_new(m, n->name, BUF_CONST, &n->type);
        break;
    case LEAF_ARG: /* what the loop was given, wherever that lies */
        break;
    }
    return b;
}

static void plan_states(Maker *m)
{
    const Module *mod = m->plan->module;
    m->plan->states = arena_array(m->arena, (size_t)mod->n_states, sizeof(Buffer));
    for (int i = 0; i < mod->n_states; i++) {
        const State *s = &mod->states[i];
        Buffer *b = &m->plan->states[i];
        *b = *buffer_new(m, s->name, BUF_STATE, &s->type);
        if (s->layout.n)
            order_strides(b, &s->layout);
        b->per_model = true;
        b->offset = m->plan->state_bytes;
        m->plan->state_bytes = align64(m->plan->state_bytes + b->bytes);
    }
    for (int i = 0; i < mod->n_states; i++)
        m->plan->states[i].model_bytes = m->plan->state_bytes;
}

static bool needs_memory(const Graph *g, const Node *n)
{
    if (n->op == OP_EINSUM || n->op == OP_LAYOUT || op_info(n->op)->kind == KIND_SCATTER)
        return true;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == OP_EINSUM)
            for (int k = 0; k < 2; k++)
                if (g->nodes[i]->in[k] == n && op_info(n->op)->kind != KIND_VIEW &&
                    op_info(n->op)->kind != KIND_LEAF)
                    return true;
    return false;
}

static int count_results(const Graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_outputs; i++)
        n += g->outputs[i].kind == OUT_RESULT;
    return n;
}

static void plan_output(Maker *m, const Output *o, int *n_results, int *n_outputs)
{
    Buffer *b;
    if (o->kind == OUT_STATE) {
        const Module *mod = m->plan->module;
        b = &m->plan
                 ->states[position(o->name, mod->states, mod->n_states, sizeof *mod->states)];
    } else {
        const bool result = o->kind == OUT_RESULT;
        b = buffer_new(m, o->name, result ? BUF_RESULT : BUF_OUTPUT, &o->value->type);
        b->per_model = true;
        b->index = result ? (*n_results)++ : (*n_outputs)++;
        b->offset = result ? 8 * b->index : 0;
        b->model_bytes = result ? 8 * count_results(m->entry->graph) : b->bytes;
        if (result)
            b->dtype = DT_F64;
    }
    Kernel *last = m->entry->n_kernels ? &m->entry->kernels[m->entry->n_kernels - 1] : NULL;
    /* States are written when everything of the step has been read: here, in one kernel. */
    if ((m->share || o->kind == OUT_STATE) && last && last->per_model &&
        last->kind == KERNEL_EXPR && last->n_stores < 8 &&
        last->stores[0].value->op != OP_LAYOUT && last->stores[0].to->space != BUF_SCRATCH &&
        shape_equal(&last->space, &o->value->type.shape))
        last->stores[last->n_stores++] = (Store){o->value, b, NULL};
    else
        kernel_new(m, KERNEL_EXPR, o->value, b);
}

Plan *handplan(Arena *a, Module *mod, bool share)
{
    Maker m = {.arena = a, .share = share};
    Graph *g = module_graph(mod, ENTRY_PREDICT);
    m.plan = arena_alloc(a, sizeof *m.plan);
    m.entry = arena_array(a, 2, sizeof *m.entry);
    m.entry[0] = (EntryPlan){.graph = g};
    m.entry[1] = (EntryPlan){
        .graph = module_graph(mod, ENTRY_INIT)}; /* does nothing; a file must have one */
    *m.plan = (Plan){.module = mod, .entries = m.entry, .n_entries = m.entry[1].graph ? 2 : 1};
    plan_states(&m);
    m.entry->buffer = arena_array(a, (size_t)g->n_nodes, sizeof(Buffer *));
    m.entry->kernels = arena_array(a, (size_t)(g->n_nodes + g->n_outputs), sizeof(Kernel));
    for (int i = 0; i < g->n_nodes; i++)
        if (op_info(g->nodes[i]->op)->kind == KIND_LEAF)
            m.entry->buffer[i] = leaf_buffer(&m, g->nodes[i]);
    for (int shared = 1; shared >= 0; shared--)
        for (int i = 0; i < g->n_nodes; i++)
            if (needs_memory(g, g->nodes[i]) && !type_per_model(&g->nodes[i]->type) == shared)
                materialise(&m, g->nodes[i]);
    int n_outputs = 0;
    for (int i = 0; i < g->n_outputs; i++)
        plan_output(&m, &g->outputs[i], &m.entry->n_results, &n_outputs);
    plan_steps(m.entry, a);
    m.plan->n_results = m.entry->n_results;
    m.plan->scratch_bytes = m.entry->scratch_bytes = m.scratch;
    m.plan->shared_bytes = m.entry->shared_bytes = m.shared;
    return m.plan;
}
