/* Module to Plan: places of what comes from outside and goes there, then one entry after the
 * other. */
#include "passes/plan/plan_build.h"

#include <string.h>

#include "passes/fuse/work.h"

static int64_t round_up(int64_t v)
{
    return (v + 63) & ~(int64_t)63;
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
        *b = place_buffer(s->name, BUF_STATE, &s->type);
        strides_in_order(&s->type.shape, &s->layout, b->stride);
        b->per_model = true;
        b->index = i;
        b->offset = p->state_bytes;
        p->state_bytes += round_up(b->bytes);
    }
    for (int i = 0; i < m->n_states; i++)
        p->states[i].model_bytes = p->state_bytes;
}

static Buffer *new_result(Fuse *f, const char *name)
{
    EntryPlan *e = f->entry;
    const Type t = {.dtype = DT_F64, .shape = shape_scalar()};
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = place_buffer(name, BUF_RESULT, &t);
    b->per_model = true;
    b->index = e->n_results;
    b->offset = 8 * (int64_t)b->index;
    e->results[e->n_results++] = name;
    return b;
}

static Buffer *new_output(Fuse *f, const Output *o, int index)
{
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = place_buffer(o->name, BUF_OUTPUT, &o->value->type);
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
        case OUT_LOSS:
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
