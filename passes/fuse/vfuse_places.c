/* Where leaves lie: states, inputs, hypers, scalars of the run, seeds, constants. */
#include "ir/run_value.h"
#include "passes/fuse/vfuse.h"

static int64_t type_bytes(const Type *t)
{
    return shape_count(&t->shape) * dtype_bytes(t->dtype);
}

Buffer place_buffer(const char *name, BufferSpace space, const Type *t)
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

Buffer *place_state(const Fuse *f, const char *name)
{
    return &f->plan->states[module_state(f->graph->module, name) - f->graph->module->states];
}

static Buffer *place_input(const Fuse *f, const char *name)
{
    const Module *m = f->graph->module;
    const Input *in = module_input(m, name);
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = place_buffer(name, BUF_INPUT, &in->type);
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
    *b = place_buffer(n->name, spaces[data], &n->type);
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
