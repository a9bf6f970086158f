/* Indexed accumulation (scatter_add) and running sums (cumsum).
 *
 * A scatter first writes its operand to the result, then adds the updates one after the other in
 * ascending row-major order.  Lanes lie along the index's last axis, unless that is the indexed
 * one: then they belong to results of their own, and each result is one chain in that order
 * whatever the number of lanes.
 *
 * A running sum is one chain along its axis for each element of the others; lanes as above.  Those
 * chains are what threads can share; the updates of a scatter_add are in one order. */
#include "codegen/cpu/emit.h"

typedef struct Scatter Scatter;
typedef void Body(Scatter *s);

struct Scatter {
    Emit *e;
    const Node *node;
    const Shape *space; /* of the loops */
    Index at;           /* filled in by the loops */
    int dim;            /* the indexed axis, or that of the sum */
    bool keeps_dim;     /* the loop over dim is the body's */
    int shared;         /* the axis whose loop is cut into the parts of the work; -1 */
    Body *body;
};

static void over_axes(Scatter *s, int axis);

static void over_lanes(Scatter *s, int axis)
{
    Emit *e = s->e;
    const int64_t extent = s->space->dim[axis], blocks = extent / e->lanes;
    const Affine lane = affine_var(AFFINE_LANE);
    if (blocks) {
        const Affine counter = emit_shared_begin(e, axis == s->shared, 0, blocks);
        const Affine base = affine_scale(&counter, e->lanes);
        s->at.at[axis] = affine_add(&base, &lane);
        over_axes(s, axis + 1);
        emit_loop_end(e);
    }
    if (extent % e->lanes) {
        emit_shared_begin(e, axis == s->shared, blocks, 1);
        const int old = emit_set_active(e, (int)(extent % e->lanes));
        s->at.at[axis] = affine_plus(&lane, blocks * e->lanes);
        over_axes(s, axis + 1);
        emit_set_active(e, old);
        emit_loop_end(e);
    }
}

static bool has_lanes(const Scatter *s, int axis)
{
    return axis == s->space->rank - 1 && axis != s->dim && s->space->dim[axis] > 1;
}

static void over_axes(Scatter *s, int axis)
{
    if (axis == s->space->rank) {
        s->body(s);
    } else if (axis == s->dim && s->keeps_dim) {
        over_axes(s, axis + 1);
    } else if (has_lanes(s, axis)) {
        over_lanes(s, axis);
    } else {
        s->at.at[axis] = emit_shared_begin(s->e, axis == s->shared, 0, s->space->dim[axis]);
        over_axes(s, axis + 1);
        emit_loop_end(s->e);
    }
}

static LLVMValueRef add(const Scatter *s, LLVMValueRef a, LLVMValueRef b)
{
    const DType t = s->node->type.dtype;
    return emit_scalar_fn(s->e, SC_ADD, t, t, 2, (LLVMValueRef[]){a, b});
}

/* One update, to every place where the result is stored. */
static void accumulate(Scatter *s)
{
    Emit *e = s->e;
    const Node *n = s->node;
    Index to = s->at;
    to.at[s->dim] = emit_eval_as_index(e, n->in[1], &s->at, n->type.shape.dim[s->dim]);
    LLVMValueRef update = emit_eval(e, n->in[2], &s->at);
    for (int i = 0; i < e->kernel->n_stores; i++) {
        const Buffer *b = e->kernel->stores[i].to;
        const Affine offset = index_offset(&e->space, &b->shape, b->stride, &to);
        LLVMValueRef sum = add(s, emit_load(e, b, &offset), update);
        emit_store(e, b, &offset, n->type.dtype, sum);
    }
}

static void scan(Scatter *s)
{
    Emit *e = s->e;
    const Node *n = s->node;
    const int64_t extent = s->space->dim[s->dim];
    const bool lanes = index_lanes(&e->space, &s->at);
    LLVMTypeRef type = lanes ? emit_vector_type(e, n->type.dtype) : emit_type(e, n->type.dtype);
    LLVMValueRef sum = emit_alloca(e, type, "sum");
    LLVMBuildStore(e->builder, LLVMConstNull(type), sum);
    Affine i = emit_loop_begin(e, extent);
    if (n->attrs.scan.reverse) {
        const Affine back = affine_scale(&i, -1);
        i = affine_plus(&back, extent - 1);
    }
    s->at.at[s->dim] = i;
    LLVMValueRef v =
        add(s, LLVMBuildLoad2(e->builder, type, sum, ""), emit_eval(e, n->in[0], &s->at));
    LLVMBuildStore(e->builder, v, sum);
    for (int k = 0; k < e->kernel->n_stores; k++) {
        const Buffer *b = e->kernel->stores[k].to;
        const Affine offset = index_offset(&e->space, &b->shape, b->stride, &s->at);
        emit_store(e, b, &offset, n->type.dtype, v);
    }
    emit_loop_end(e);
    s->at.at[s->dim] = affine_const(0);
}

/* A running sum's outermost loop besides its own. */
static void share_chains(Scatter *s)
{
    for (int k = 0; k < s->space->rank && s->shared < 0; k++)
        if (k != s->dim && s->space->dim[k] > 1)
            s->shared = k;
    if (s->shared < 0)
        return;
    const int64_t extent = s->space->dim[s->shared], lanes = s->e->lanes;
    s->e->n_work = has_lanes(s, s->shared) ? (extent + lanes - 1) / lanes : extent;
}

void emit_scatter_kernel(Emit *e)
{
    const Node *n = e->kernel->contract;
    Scatter s = {.e = e, .node = n, .shared = -1};
    if (op_info(n->op)->data == SCATTER_SCAN) {
        s.space = &n->type.shape;
        s.dim = (int)n->attrs.scan.dim;
        s.keeps_dim = true;
        s.body = scan;
        share_chains(&s);
    } else {
        s.space = &n->in[1]->type.shape;
        s.dim = (int)n->attrs.axis.dim;
        s.body = accumulate;
    }
    s.at.rank = s.space->rank;
    over_axes(&s, 0);
}
