/* One kernel as one LLVM function, HftacKernelFn of runtime/model_abi.h: it gets a table with a
 * pointer for each place.
 *
 * A kernel over expressions is a nest of loops over its space, the innermost one vectorised:
 * whole blocks of W, then one block whose missing lanes are masked.  At each depth all values are
 * evaluated first, then the inner loops run, then they are stored: a store in place changes
 * nothing that its kernel still reads.
 *
 * Work.  The outermost loop is what threads can share: its rounds (for the vectorised axis, its
 * blocks and the tail) are the parts of the kernel's work, and the function does those from lo to
 * hi - 1.  Take y = relu(x), f32[100] with W = 16: 6 blocks and a tail are 7 parts; asked for 5
 * to 7 it computes elements 80 to 99.  A part computes nothing in another way, or in another
 * order, than the whole, so cuts cannot matter to bits.  What is stored outside of that loop, a
 * flag, a sum over the cut axis, an accumulation in order: such kernels have one part. */
#include "codegen/cpu/emit.h"

enum {
    FLAT_BLOCKS = 2 /* of guarded stores that are looked at together */
};

static LLVMValueRef kernel_function(Emit *e, const char *name)
{
    LLVMValueRef f = LLVMAddFunction(e->module, name, emit_kernel_type(e->context));
    LLVMSetLinkage(f, LLVMInternalLinkage);
    return f;
}

/* Nothing changes the table while the kernel runs. */
static void load_pointers(Emit *e)
{
    LLVMTypeRef pointer = LLVMPointerTypeInContext(e->context, 0);
    const unsigned kind = LLVMGetMDKindIDInContext(e->context, "invariant.load", 14);
    LLVMValueRef nothing =
        LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0));
    e->pointer = arena_array(e->arena, (size_t)e->places->n + 1, sizeof *e->pointer);
    for (int i = 0; i < e->places->n; i++) {
        LLVMValueRef at = emit_const_i64(e, i);
        LLVMValueRef slot = LLVMBuildInBoundsGEP2(e->builder, pointer,
                                                  LLVMGetParam(e->function, 0), &at, 1, "");
        e->pointer[i] = LLVMBuildLoad2(e->builder, pointer, slot, "");
        LLVMSetMetadata(e->pointer[i], kind, nothing);
    }
}

static void begin_function(Emit *e, const char *name)
{
    e->function = kernel_function(e, name);
    e->allocas = LLVMAppendBasicBlockInContext(e->context, e->function, "entry");
    LLVMPositionBuilderAtEnd(e->builder, e->allocas);
    load_pointers(e);
    e->lanes = e->vector_bytes / LANE_BYTES;
    index_space_init(&e->space, e->arena, e->lanes);
    e->vars = NULL;
    e->n_vars = e->cap_vars = 0;
    e->root = arena_alloc(e->arena, sizeof *e->root);
    *e->root = (Level){.open = true, .count = 1};
    e->root->first = e->root->block =
        LLVMAppendBasicBlockInContext(e->context, e->function, "body");
    e->level = e->floor = e->root;
    e->n_work = 1;
    e->once = 0;
    e->active = e->lanes;
    emit_memo_init(e);
    emit_memory_init(e);
    LLVMPositionBuilderAtEnd(e->builder, e->root->block);
    emit_flags_clear(e);
}

static void end_function(Emit *e)
{
    LLVMPositionBuilderAtEnd(e->builder, e->root->block);
    LLVMBuildRetVoid(e->builder);
    LLVMPositionBuilderAtEnd(e->builder, e->allocas);
    LLVMBuildBr(e->builder, e->root->first);
}

static void emit_nest(Emit *e, Index *i, int depth);

bool emit_parts_apart(const Kernel *k, int axis)
{
    for (int s = 0; s < k->n_stores; s++) {
        const Shape *shape = &k->stores[s].value->type.shape;
        if (k->stores[s].flag || shape->rank != k->space.rank ||
            shape->dim[axis] != k->space.dim[axis])
            return false;
    }
    return true;
}

/* The outermost axis with a loop; -1: there is none. */
static int outermost_axis(const Kernel *k)
{
    for (int d = 0; d < k->space.rank; d++)
        if (k->space.dim[k->order[d]] > 1)
            return k->order[d];
    return -1;
}

static bool is_shared(const Emit *e, int axis)
{
    return e->n_work > 1 && axis == outermost_axis(e->kernel);
}

static int64_t blocks_of(const Emit *e, int64_t extent)
{
    return (extent + e->lanes - 1) / e->lanes;
}

/* The parts of a nest's outermost loop. */
static int64_t count_parts(const Emit *e)
{
    const int axis = outermost_axis(e->kernel);
    if (axis < 0 || !emit_parts_apart(e->kernel, axis))
        return 1;
    const int64_t extent = e->kernel->space.dim[axis];
    return axis == e->kernel->vector ? blocks_of(e, extent) : extent;
}

static void emit_vector_axis(Emit *e, Index *i, int depth)
{
    const int axis = e->kernel->order[depth];
    const bool shared = is_shared(e, axis);
    const int64_t extent = e->kernel->space.dim[axis], blocks = extent / e->lanes;
    const Affine lane = affine_var(AFFINE_LANE);
    if (blocks) {
        const Affine counter = emit_shared_begin(e, shared, 0, blocks);
        const Affine base = affine_scale(&counter, e->lanes);
        i->at[axis] = affine_add(&base, &lane);
        emit_nest(e, i, depth + 1);
        emit_loop_end(e);
    }
    if (extent % e->lanes) {
        emit_shared_begin(e, shared, blocks, 1);
        const int old = emit_set_active(e, (int)(extent % e->lanes));
        i->at[axis] = affine_plus(&lane, blocks * e->lanes);
        emit_nest(e, i, depth + 1);
        emit_set_active(e, old);
        emit_loop_end(e);
    }
}

static bool any_deeper(const Kernel *k, int depth)
{
    for (int s = 0; s < k->n_stores; s++)
        if (emit_store_depth(k, &k->stores[s]) > depth)
            return true;
    return false;
}

static void emit_axis(Emit *e, Index *i, int depth)
{
    const int axis = e->kernel->order[depth];
    if (axis == e->kernel->vector && e->kernel->space.dim[axis] > 1) {
        emit_vector_axis(e, i, depth);
        return;
    }
    i->at[axis] = emit_shared_begin(e, is_shared(e, axis), 0, e->kernel->space.dim[axis]);
    emit_nest(e, i, depth + 1);
    emit_loop_end(e);
}

static void emit_nest(Emit *e, Index *i, int depth)
{
    StoreBlock *stores = emit_stores_evaluate(e, i, depth);
    if (any_deeper(e->kernel, depth))
        emit_axis(e, i, depth);
    emit_stores_write(e, 1, &stores);
}

/* n neighbouring blocks from that number on. */
static void emit_flat_blocks(Emit *e, const Affine *number, int n, int depth)
{
    StoreBlock *stores[FLAT_BLOCKS];
    for (int k = 0; k < n; k++) {
        const Affine at = affine_plus(number, k * e->lanes);
        const Index i = index_unflatten(&e->space, &e->kernel->space, e->kernel->order, at);
        stores[k] = emit_stores_evaluate(e, &i, depth);
    }
    emit_stores_write(e, n, stores);
}

/* `rounds` times n blocks from block number `first` on. */
static void emit_flat_loop(Emit *e, int64_t rounds, int n, int64_t first, int depth)
{
    if (rounds == 0)
        return;
    const Affine lane = affine_var(AFFINE_LANE),
                 counter = emit_shared_begin(e, true, 0, rounds);
    const Affine start = affine_scale(&counter, n * e->lanes), base = affine_add(&start, &lane);
    const Affine number = affine_plus(&base, first * e->lanes);
    emit_flat_blocks(e, &number, n, depth);
    emit_loop_end(e);
}

static bool any_guarded(const Kernel *k)
{
    for (int s = 0; s < k->n_stores; s++)
        if (k->stores[s].flag)
            return true;
    return false;
}

/* All values lie in the same order without gaps: one loop over element numbers.  Quotients and
 * remainders of the number join again in every offset (affine_join), so none is ever computed. */
static void emit_flat(Emit *e)
{
    const int64_t count = shape_count(&e->kernel->space), blocks = count / e->lanes;
    const Affine lane = affine_var(AFFINE_LANE);
    const Index none = {.rank = e->kernel->space.rank};
    const int together = any_guarded(e->kernel) ? FLAT_BLOCKS : 1;
    StoreBlock *scalar = NULL;
    const int axis = outermost_axis(e->kernel);
    if (axis >= 0 && emit_parts_apart(e->kernel, axis))
        e->n_work = blocks_of(e, count);
    int depth = e->kernel->space.rank;
    while (depth > 0 && !any_deeper(e->kernel, depth - 1))
        depth--;
    if (depth > 0)
        scalar = emit_stores_evaluate(e, &none, 0);
    emit_flat_loop(e, blocks / together, together, 0, depth);
    emit_flat_loop(e, blocks % together, 1, blocks / together * together, depth);
    if (count % e->lanes) {
        emit_shared_begin(e, true, blocks, 1);
        const int old = emit_set_active(e, (int)(count % e->lanes));
        const Affine number = affine_plus(&lane, blocks * e->lanes);
        emit_flat_blocks(e, &number, 1, depth);
        emit_set_active(e, old);
        emit_loop_end(e);
    }
    if (scalar)
        emit_stores_write(e, 1, &scalar);
}

LLVMTypeRef emit_kernel_type(LLVMContextRef c)
{
    LLVMTypeRef params[3] = {LLVMPointerTypeInContext(c, 0), LLVMInt64TypeInContext(c),
                             LLVMInt64TypeInContext(c)};
    return LLVMFunctionType(LLVMVoidTypeInContext(c), params, 3, 0);
}

LLVMValueRef emit_kernel(Emit *e, const EntryPlan *entry, const Kernel *k, const Places *places,
                         const char *name)
{
    e->entry = entry;
    e->kernel = k;
    e->places = places;
    begin_function(e, name);
    Index i = {.rank = k->space.rank};
    switch (k->kind) {
    case KERNEL_EXPR:
        if (k->flat)
            emit_flat(e);
        else if (!emit_transpose(e)) {
            e->n_work = count_parts(e);
            emit_nest(e, &i, 0);
        }
        break;
    case KERNEL_CONTRACT:
        emit_contract_kernel(e);
        break;
    case KERNEL_SCATTER:
        if (op_info(k->contract->op)->data != SCATTER_SCAN)
            emit_nest(e, &i, 0); /* the first value of the result */
        emit_scatter_kernel(e);
        break;
    case KERNEL_LOOP:
        break; /* has no function: module.c emits the kernels of its body */
    }
    end_function(e);
    return e->function;
}
