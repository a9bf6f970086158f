/* Module to Plan: places of what comes from outside and goes there, then one entry after the
 * other. */
#include "passes/plan/plan_build.h"
#include "ir/run_value.h"

#include <string.h>

#include "passes/fuse/work.h"

static int64_t round_up(int64_t v)
{
    return (v + 63) & ~(int64_t)63;
}

static int64_t type_bytes(const Type *t)
{
    return shape_count(&t->shape) * dtype_bytes(t->dtype);
}

static Buffer buffer_of(const char *name, BufferSpace space, const Type *t)
{
    Buffer b = {.name = name,
                .space = space,
                .dtype = t->dtype,
                .bytes = type_bytes(t),
                .shape = t->shape,
                .first = -1,
                .last = -1};
    shape_strides(&t->shape, b.stride);
    return b;
}

static void strides_in_order(const Shape *s, const IntList *order, int64_t *stride)
{
    int64_t step = 1;
    for (int i = order->n - 1; i >= 0; i--) {
        stride[order->v[i]] = step;
        step *= s->dim[order->v[i]];
    }
}

static void place_states(Plan *p)
{
    const Module *m = p->module;
    p->states = arena_array(m->arena, (size_t)m->n_states + 1, sizeof *p->states);
    for (int i = 0; i < m->n_states; i++) {
        const State *s = &m->states[i];
        Buffer *b = &p->states[i];
        *b = buffer_of(s->name, BUF_STATE, &s->type);
        strides_in_order(&s->type.shape, &s->layout, b->stride);
        b->per_model = true;
        b->index = i;
        b->offset = p->state_bytes;
        p->state_bytes += round_up(b->bytes);
    }
    for (int i = 0; i < m->n_states; i++)
        p->states[i].model_bytes = p->state_bytes;
}

/* The clock is each model's own; what belongs to the batch is one for all. */
static void place_run_value(Buffer *b, const char *name)
{
    RunValue v;
    if (!run_value_find(name, &v))
        diag_internal(NULL, "plan: no run-time scalar is called %s", name);
    b->name = name;
    b->per_model = run_value_per_model(v);
    b->space = b->per_model ? BUF_CLOCK : BUF_SCALAR;
    b->index = b->per_model ? (int)v : (int)v - RUN_CLOCK_COUNT;
    b->offset = 8 * b->index;
    b->model_bytes = b->per_model ? RUN_CLOCK_COUNT * 8 : 0;
}

static Buffer *place_state(const Fuse *f, const char *name)
{
    return &f->plan->states[module_state(f->graph->module, name) - f->graph->module->states];
}

static Buffer *place_input(const Fuse *f, const char *name)
{
    const Module *m = f->graph->module;
    const Input *in = module_input(m, name);
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = buffer_of(name, BUF_INPUT, &in->type);
    b->index = (int)(in - m->inputs);
    b->per_model = in->each;
    b->model_bytes = in->each ? b->bytes : 0;
    return b;
}

Buffer *place_leaf(const Fuse *f, const Node *n)
{
    const Module *m = f->graph->module;
    static const BufferSpace spaces[] = {[LEAF_HYPER] = BUF_HYPER,
                                         [LEAF_SCALAR] = BUF_SCALAR,
                                         [LEAF_SEED] = BUF_SEED,
                                         [LEAF_CONST] = BUF_CONST};
    const int data = op_info(n->op)->data;
    if (data == LEAF_STATE)
        return place_state(f, n->attrs.leaf.name);
    if (data == LEAF_INPUT)
        return place_input(f, n->attrs.leaf.name);
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = buffer_of(n->name, spaces[data], &n->type);
    b->index = n->id;
    if (data == LEAF_HYPER) {
        b->name = n->attrs.leaf.name;
        b->index = (int)(module_hyper(m, b->name) - m->hypers);
        b->per_model = true;
        b->offset = 8 * (int64_t)b->index;
        b->model_bytes = (int64_t)m->n_hypers * 8;
    } else if (data == LEAF_SCALAR) {
        place_run_value(b, n->attrs.leaf.name);
    } else if (data == LEAF_CONST) {
        b->constant = n;
        if (f->graph->owner)
            b->name = arena_printf(f->arena, "%s.%s", f->graph->owner->name, n->name);
    } else if (data == LEAF_SEED) {
        b->index = 0;
        b->per_model = true;
        b->model_bytes = 8;
    }
    return b;
}

static Buffer *new_result(Fuse *f, const char *name)
{
    EntryPlan *e = f->entry;
    const Type t = {.dtype = DT_F64, .shape = shape_scalar()};
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = buffer_of(name, BUF_RESULT, &t);
    b->per_model = true;
    b->index = e->n_results;
    b->offset = 8 * (int64_t)b->index;
    e->results[e->n_results++] = name;
    return b;
}

static Buffer *new_output(Fuse *f, const Output *o, int index)
{
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = buffer_of(o->name, BUF_OUTPUT, &o->value->type);
    b->per_model = true;
    b->model_bytes = b->bytes;
    b->index = index;
    return b;
}

static void place_outputs(Fuse *f)
{
    const int n = f->graph->n_outputs;
    f->output = arena_array(f->scratch, (size_t)n + 1, sizeof *f->output);
    f->output_value2 = arena_array(f->scratch, (size_t)n + 1, sizeof *f->output_value2);
    f->output_flag = arena_array(f->scratch, (size_t)n + 1, sizeof *f->output_flag);
    f->entry->results = arena_array(f->arena, 2 * (size_t)n + 1, sizeof *f->entry->results);
    for (int i = 0, n_tensors = 0; i < n; i++) {
        const Output *o = &f->graph->outputs[i];
        switch (o->kind) {
        case OUT_STATE:
            f->output[i] = place_state(f, o->name);
            if (output_is_watched(o))
                f->output_flag[i] = new_result(f, o->name);
            break;
        case OUT_RESULT:
        case OUT_OK:
        case OUT_FACTOR:
        case OUT_CAUSE:
            f->output[i] = new_result(f, o->name);
            break;
        case OUT_TENSOR:
            f->output[i] = new_output(f, o, n_tensors++);
            break;
        case OUT_FAULT:
            f->output[i] = new_result(f, o->input ? o->input : o->name);
            f->output_value2[i] = new_result(f, f->output[i]->name);
            break;
        case OUT_NEXT:
        case OUT_STACK:
            diag_internal(NULL, "plan: @%s is the body of a loop", f->graph->name);
        }
    }
}

void vfuse_graph(Fuse *f)
{
    f->work = work_new(f->scratch, f->n);
    f->too_often = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->too_often);
    do {
        f->like = arena_array(f->scratch, (size_t)f->n + 1, sizeof *f->like);
        vfuse_choose(f);
    } while (!vfuse_groups(f) || !vfuse_merge(f));
    vfuse_kernels(f);
    memory_plan(f->entry, f->optimize);
}

static void plan_entry(Plan *p, EntryPlan *e, Graph *g, const Target *t)
{
    Arena *a = p->module->arena;
    *e = (EntryPlan){.graph = g};
    e->buffer = arena_array(a, (size_t)g->n_nodes + 1, sizeof *e->buffer);
    Fuse f = {.arena = a,
              .scratch = arena_new(),
              .plan = p,
              .entry = e,
              .graph = g,
              .optimize = t->optimize > 0,
              .n = g->n_nodes};
    graph_foreach (g, n)
        if (leaf_in_memory(n))
            e->buffer[n->id] = place_leaf(&f, n);
    place_outputs(&f);
    vfuse_graph(&f);
    arena_free(f.scratch);
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void join_entry(Plan *p, const EntryPlan *e)
{
    p->scratch_bytes = max64(p->scratch_bytes, e->scratch_bytes);
    p->shared_bytes = max64(p->shared_bytes, e->shared_bytes);
    if (e->n_results > p->n_results)
        p->n_results = e->n_results;
}

static void space_result(const Plan *p, const Store *s)
{
    const int64_t bytes = (int64_t)p->n_results * 8;
    if (s->to->space == BUF_RESULT)
        s->to->model_bytes = bytes;
    if (s->flag)
        s->flag->model_bytes = bytes;
}

static void space_results(const Plan *p, const EntryPlan *e)
{
    for (int k = 0; k < e->n_kernels; k++)
        for (int s = 0; s < e->kernels[k].n_stores; s++)
            space_result(p, &e->kernels[k].stores[s]);
}

Plan *plan_build(Module *m, const Target *t)
{
    Plan *p = arena_alloc(m->arena, sizeof *p);
    p->module = m;
    p->n_entries = m->n_graphs;
    p->entries = arena_array(m->arena, (size_t)m->n_graphs + 1, sizeof *p->entries);
    place_states(p);
    for (int i = 0; i < m->n_graphs; i++) {
        plan_entry(p, &p->entries[i], m->graphs[i], t);
        join_entry(p, &p->entries[i]);
    }
    for (int i = 0; i < m->n_graphs; i++)
        space_results(p, &p->entries[i]);
    const char *wrong = plan_check(p, m->arena);
    if (wrong) {
        Text dump;
        text_init(&dump, m->arena);
        plan_print(&dump, p, true);
        diag_internal(dump.s, "plan: %s", wrong);
    }
    return p;
}
