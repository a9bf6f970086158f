/* Planning loops: a loop is one kernel of the entry, and its body an entry of its own that is run
 * round by round.
 *
 * A carried value has two places that change their roles each round; its initial value is stored
 * to the first of them by a kernel before the loop, as if it left the graph.  Scanned operands
 * and stacked results lie in the entry's buffers, a step further each round.  Everything that the
 * body stores for itself lies in one block of the entry's memory. */
#include "passes/fuse/vfuse.h"

#include "ir/loop.h"

static int64_t round_up(int64_t v)
{
    return (v + 63) & ~(int64_t)63;
}

static Buffer *new_buffer(const Fuse *f, const char *name, BufferSpace space, const Type *t)
{
    Buffer *b = arena_alloc(f->arena, sizeof *b);
    *b = (Buffer){.name = name,
                  .space = space,
                  .dtype = t->dtype,
                  .shape = t->shape,
                  .bytes = shape_count(&t->shape) * dtype_bytes(t->dtype),
                  .first = -1,
                  .last = -1};
    shape_strides(&t->shape, b->stride);
    return b;
}

static BufferSpace space_of(const Group *g)
{
    return g->per_model ? BUF_SCRATCH : BUF_SHARED;
}

static void hold(const Fuse *f, LoopPlan *l, Buffer *b)
{
    if (l->n_held == l->cap_held)
        l->held = arena_grow(f->arena, l->held, &l->cap_held, sizeof *l->held);
    l->held[l->n_held++] = b;
}

/* ---- in the graph round the loop ---- */

LoopPlan *loop_plan_new(Fuse *f, const Group *g)
{
    const Node *loop = g->anchor;
    LoopPlan *l = arena_alloc(f->arena, sizeof *l);
    *l =
        (LoopPlan){.count = loop->attrs.loop.count, .n_carried = (int)loop->attrs.loop.carried};
    l->place = arena_array(f->arena, (size_t)l->n_carried + 1, sizeof *l->place);
    for (int i = 0; i < l->n_carried; i++)
        for (int k = 0; k < 2; k++) {
            const char *name = arena_printf(f->arena, "%s.carried%d.%d", loop->name, i, k);
            l->place[i][k] = new_buffer(f, name, space_of(g), &loop->in[i]->type);
            hold(f, l, l->place[i][k]);
        }
    return l;
}

Buffer *loop_final_place(const LoopPlan *l, const Node *result)
{
    const int64_t i = result->attrs.slot.index;
    return i < l->n_carried ? l->place[i][l->count & 1] : NULL;
}

/* ---- the body's view of what is outside ---- */

typedef struct BodyPlan {
    Fuse *outer, *fuse;
    const Node *loop;
    LoopPlan *plan;
    const Group *group;
} BodyPlan;

typedef struct OperandPlace {
    const Fuse *fuse;
    Buffer *buffer;
} OperandPlace;

static bool has_buffer(void *operand_place, const Node *n, bool must, int64_t *stride)
{
    OperandPlace *p = operand_place;
    p->buffer = p->fuse->entry->buffer[n->id];
    if (!p->buffer && must)
        diag_internal(NULL, "plan: the operand %%%s of a loop does not lie in memory", n->name);
    for (int i = 0; p->buffer && i < n->type.shape.rank; i++)
        stride[i] = p->buffer->stride[i];
    return p->buffer != NULL;
}

/* The buffer that an operand lies in, per axis the stride and the offset in elements. */
static Buffer *operand_buffer(const Fuse *f, const Node *n, int64_t *stride, int64_t *offset)
{
    OperandPlace place = {.fuse = f};
    strides_through_views(n, has_buffer, &place, stride, offset);
    return place.buffer;
}

static Buffer *part_buffer(const BodyPlan *p, const Node *value, Buffer *base)
{
    const Type type = {.dtype = base->dtype, .shape = value->type.shape};
    Buffer *b = new_buffer(p->outer, value->name, base->space, &type);
    b->outside = true;
    b->depth = p->fuse->graph->depth;
    b->per_model = base->per_model;
    b->base = base;
    return b;
}

/* Element t of the first axis; the rounds go through it in the loop's direction. */
static void step_through(const BodyPlan *p, Buffer *b, int64_t stride)
{
    const int64_t step = stride * dtype_bytes(b->dtype);
    const bool reverse = p->loop->attrs.loop.reverse;
    b->shift += reverse ? (p->plan->count - 1) * step : 0;
    b->step = reverse ? -step : step;
}

static Buffer *carried_buffer(const BodyPlan *p, const Node *value, int64_t i, int first)
{
    Buffer *b = part_buffer(p, value, p->plan->place[i][first]);
    b->odd_base = p->plan->place[i][1 - first];
    return b;
}

static Buffer *argument_buffer(const BodyPlan *p, const Node *arg)
{
    const int64_t i = arg->attrs.slot.index;
    const LoopRole role = loop_role(p->loop, i);
    if (role == LOOP_CARRIED)
        return carried_buffer(p, arg, i, 0);
    int64_t stride[MAX_RANK] = {0}, offset = 0;
    Buffer *base = operand_buffer(p->outer, p->loop->in[i], stride, &offset);
    Buffer *b = part_buffer(p, arg, base);
    const int skip = role == LOOP_SCANNED;
    b->shift = offset * dtype_bytes(b->dtype);
    for (int k = 0; k < arg->type.shape.rank; k++)
        b->stride[k] = stride[k + skip];
    if (skip)
        step_through(p, b, stride[0]);
    return b;
}

/* Where output i goes; NULL: nobody wants it. */
static Buffer *output_buffer(const BodyPlan *p, int i)
{
    const Node *value = p->loop->body->outputs[i].value;
    if (i < p->plan->n_carried)
        return carried_buffer(p, value, i, 1);
    for (int k = 0; k < p->group->n_items; k++) {
        const Node *result = p->group->items[k].value;
        Buffer *base = p->outer->entry->buffer[result->id];
        if (result->attrs.slot.index != i || !base)
            continue;
        Buffer *b = part_buffer(p, value, base);
        for (int d = 0; d < b->shape.rank; d++)
            b->stride[d] = base->stride[d + 1];
        step_through(p, b, base->stride[0]);
        return b;
    }
    return NULL;
}

static void find_buffers(BodyPlan *p)
{
    Fuse *f = p->fuse;
    graph_foreach (f->graph, n)
        if (leaf_in_memory(n))
            f->entry->buffer[n->id] = node_is_arg(n) ? argument_buffer(p, n) : place_leaf(f, n);
    const size_t n = (size_t)f->graph->n_outputs + 1;
    f->output = arena_array(f->scratch, n, sizeof *f->output);
    f->output_value2 = arena_array(f->scratch, n, sizeof *f->output_value2);
    f->output_flag = arena_array(f->scratch, n, sizeof *f->output_flag);
    for (int i = 0; i < f->graph->n_outputs; i++)
        f->output[i] = output_buffer(p, i);
}

/* What the body stores for itself becomes a part of one block. */
static void place_in_block(const Fuse *f, LoopPlan *l, const Group *g)
{
    const EntryPlan *e = l->body;
    const Type type = {
        .dtype = DT_U8,
        .shape = {.rank = 1, .dim = {round_up(e->scratch_bytes + e->shared_bytes)}}};
    if (type.shape.dim[0] == 0)
        return;
    Buffer *block =
        new_buffer(f, arena_printf(f->arena, "%s.block", g->anchor->name), space_of(g), &type);
    hold(f, l, block);
    for (int k = 0; k < e->n_kernels; k++) {
        const Kernel *kernel = &e->kernels[k];
        for (int i = 0; i < kernel->n_stores; i++)
            if (buffer_is_planned(kernel->stores[i].to))
                kernel->stores[i].to->base = block;
        for (int i = 0; kernel->loop && i < kernel->loop->n_held; i++)
            kernel->loop->held[i]->base = block;
    }
    for (int k = 0; k < e->n_kernels; k++) {
        const Kernel *kernel = &e->kernels[k];
        for (int i = 0; i < kernel->n_stores; i++)
            if (kernel->stores[i].to->base == block)
                kernel->stores[i].to->shift = kernel->stores[i].to->offset;
        for (int i = 0; kernel->loop && i < kernel->loop->n_held; i++)
            kernel->loop->held[i]->shift = kernel->loop->held[i]->offset;
    }
}

void loop_plan_body(Fuse *outer, const Group *g)
{
    LoopPlan *l = g->loop;
    Graph *body = g->anchor->body;
    l->body = arena_alloc(outer->arena, sizeof *l->body);
    *l->body = (EntryPlan){.graph = body};
    l->body->buffer =
        arena_array(outer->arena, (size_t)body->n_nodes + 1, sizeof *l->body->buffer);
    Fuse f = {.arena = outer->arena,
              .scratch = arena_new(),
              .plan = outer->plan,
              .entry = l->body,
              .graph = body,
              .optimize = outer->optimize,
              .region = g->per_model ? REGION_MODELS : REGION_SHARED,
              .n = body->n_nodes};
    BodyPlan p = {.outer = outer, .fuse = &f, .loop = g->anchor, .plan = l, .group = g};
    find_buffers(&p);
    vfuse_graph(&f);
    place_in_block(outer, l, g);
    arena_free(f.scratch);
}
