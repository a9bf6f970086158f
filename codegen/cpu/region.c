/* The pointers that kernels get are made here: a part of the frame, plus the model's distance,
 * plus an offset. */
#include "codegen/cpu/region.h"

#include "codegen/cpu/emit.h"
#include "runtime/model_abi.h"

enum {
    /* LLVM takes time that grows as the square of the calls in one function. */
    CALLS_PER_PART = 64,
    PART_PARAMS = 2
};

typedef struct Region {
    const RegionInput *in;
    LLVMContextRef context;
    LLVMBuilderRef builder;
    LLVMValueRef function, frame;
    LLVMValueRef model;
    /* the pointers of the kernel that is being called */
    LLVMValueRef table;
    /* whose kernels are being called: a loop's body is one of its own */
    const EntryPlan *entry;
    /* names what it has */
    const char *path;
    /* loops around */
    int depth;
    /* by depth */
    LLVMValueRef round[HFTAC_MAX_LOOPS + 1];
} Region;

static LLVMTypeRef i64_type(const Region *r)
{
    return LLVMInt64TypeInContext(r->context);
}

static LLVMValueRef i64_of(const Region *r, int64_t v)
{
    return LLVMConstInt(i64_type(r), (uint64_t)v, 1);
}

static LLVMTypeRef pointer_type(const Region *r)
{
    return LLVMPointerTypeInContext(r->context, 0);
}

static LLVMValueRef plus_bytes(const Region *r, LLVMValueRef base, LLVMValueRef bytes)
{
    return LLVMBuildInBoundsGEP2(r->builder, LLVMInt8TypeInContext(r->context), base, &bytes, 1,
                                 "");
}

/* The pointer that stands at base + offset. */
static LLVMValueRef pointer_at(const Region *r, LLVMValueRef base, int64_t offset)
{
    return LLVMBuildLoad2(r->builder, pointer_type(r), plus_bytes(r, base, i64_of(r, offset)),
                          "");
}

static const Node *const_node(const EntryPlan *e, const Buffer *b)
{
    if (b->constant)
        return b->constant;
    for (int i = 0; i < e->graph->n_nodes; i++)
        if (e->buffer[i] == b)
            return e->graph->nodes[i];
    diag_internal(NULL, "no constant is held by buffer %s", b->name);
}

static LLVMValueRef table_element(const Region *r, DType t, double v)
{
    switch (t) {
    case DT_F32:
        return LLVMConstReal(LLVMFloatTypeInContext(r->context), v);
    case DT_F64:
        return LLVMConstReal(LLVMDoubleTypeInContext(r->context), v);
    case DT_BOOL:
        return LLVMConstInt(LLVMInt8TypeInContext(r->context), v != 0, 0);
    case DT_U8:
    case DT_I32:
    case DT_I64:
    case DT_COUNT:
        break;
    }
    return LLVMConstInt(LLVMIntTypeInContext(r->context, 8 * (unsigned)dtype_bytes(t)),
                        (uint64_t)(int64_t)v, 1);
}

/* The table of a constant as data of the module. */
static LLVMValueRef const_table(const Region *r, const Buffer *b)
{
    Arena *a = r->in->arena;
    const Node *n = const_node(r->entry, b);
    const RealList *data = &n->attrs.value.data;
    const char *name = arena_printf(a, "const.%s.%s", r->path, n->name);
    LLVMValueRef global = LLVMGetNamedGlobal(r->in->module, name);
    if (global)
        return global;
    const int64_t count = shape_count(&n->type.shape);
    LLVMValueRef *v = arena_array(a, (size_t)count, sizeof *v);
    for (int64_t i = 0; i < count; i++)
        v[i] = table_element(r, n->type.dtype, data->v[data->n == 1 ? 0 : i]);
    LLVMValueRef init = LLVMConstArray2(LLVMTypeOf(v[0]), v, (uint64_t)count);
    global = LLVMAddGlobal(r->in->module, LLVMTypeOf(init), name);
    LLVMSetInitializer(global, init);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    LLVMSetAlignment(global, 64);
    return global;
}

static LLVMValueRef buffer_pointer(const Region *r, const Buffer *b);

/* A place that rounds of a loop move or swap. */
static LLVMValueRef part_pointer(const Region *r, const Buffer *b)
{
    LLVMValueRef p = buffer_pointer(r, b->base), round = b->depth ? r->round[b->depth] : NULL;
    if (b->odd_base) {
        LLVMValueRef odd =
            LLVMBuildTrunc(r->builder, round, LLVMInt1TypeInContext(r->context), "odd");
        p = LLVMBuildSelect(r->builder, odd, buffer_pointer(r, b->odd_base), p, "");
    }
    p = b->shift ? plus_bytes(r, p, i64_of(r, b->shift)) : p;
    if (!b->step)
        return p;
    return plus_bytes(r, p, LLVMBuildMul(r->builder, round, i64_of(r, b->step), ""));
}

/* The memory that a space is, as a pointer in the frame, or in an array that the frame names. */
static LLVMValueRef space_pointer(const Region *r, const Buffer *b)
{
    static const size_t field[] = {[BUF_STATE] = offsetof(HftacFrame, state),
                                   [BUF_INPUT] = offsetof(HftacFrame, inputs),
                                   [BUF_HYPER] = offsetof(HftacFrame, hypers),
                                   [BUF_CLOCK] = offsetof(HftacFrame, clocks),
                                   [BUF_SCALAR] = offsetof(HftacFrame, scalars),
                                   [BUF_SEED] = offsetof(HftacFrame, seeds),
                                   [BUF_SHARED] = offsetof(HftacFrame, shared),
                                   [BUF_SCRATCH] = offsetof(HftacFrame, scratch),
                                   [BUF_RESULT] = offsetof(HftacFrame, results),
                                   [BUF_OUTPUT] = offsetof(HftacFrame, outputs)};
    if (b->space == BUF_CONST)
        return const_table(r, b);
    LLVMValueRef p = pointer_at(r, r->frame, (int64_t)field[b->space]);
    return b->space == BUF_INPUT || b->space == BUF_OUTPUT ? pointer_at(r, p, 8 * b->index) : p;
}

static LLVMValueRef buffer_pointer(const Region *r, const Buffer *b)
{
    if (b->base)
        return part_pointer(r, b);
    LLVMValueRef p = space_pointer(r, b);
    p = b->offset ? plus_bytes(r, p, i64_of(r, b->offset)) : p;
    if (!b->model_bytes)
        return p;
    return plus_bytes(r, p, LLVMBuildMul(r->builder, r->model, i64_of(r, b->model_bytes), ""));
}

/* The kernel's pointers go into the function's table; all of its work. */
static void call_kernel(const Region *r, const KernelCall *c)
{
    for (int k = 0; k < c->places->n; k++)
        LLVMBuildStore(r->builder, buffer_pointer(r, c->places->place[k].buffer),
                       plus_bytes(r, r->table, i64_of(r, (int64_t)sizeof(void *) * k)));
    LLVMValueRef arg[3] = {r->table, i64_of(r, 0), i64_of(r, c->function.n_work)};
    LLVMBuildCall2(r->builder, emit_kernel_type(r->context), c->function.value, arg, 3, "");
}

LLVMValueRef region_constant(const RegionInput *in, const Buffer *b)
{
    const Region r = {.in = in,
                      .context = LLVMGetModuleContext(in->module),
                      .entry = in->entry,
                      .path = in->path};
    return const_table(&r, b);
}

const char *region_loop_path(Arena *a, const char *path, const LoopPlan *loop)
{
    return arena_printf(a, "%s.%s", path, loop->body->graph->owner->name);
}

static void call_list(Region *r, const KernelCall *calls, const Step *list, int n);

/* for (round = 0; round < count; round++) all kernels of the body. */
static void call_loop(Region *r, const KernelCall *c, const Step *step)
{
    const EntryPlan *entry = r->entry;
    const char *path = r->path;
    LLVMBuilderRef b = r->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(r->context, r->function, "round");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(r->context, r->function, "rounds");
    if (++r->depth > HFTAC_MAX_LOOPS)
        diag_internal(NULL, "loops of @%s are nested too deeply", entry->graph->name);
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef round = LLVMBuildPhi(b, i64_type(r), "s");
    r->round[r->depth] = round;
    r->entry = c->loop->body;
    r->path = region_loop_path(r->in->arena, path, c->loop);
    call_list(r, c->body, step->list, step->n_list);
    LLVMValueRef next = LLVMBuildAdd(b, round, i64_of(r, 1), "");
    LLVMValueRef value[2] = {i64_of(r, 0), next};
    LLVMBasicBlockRef from[2] = {before, LLVMGetInsertBlock(b)};
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, i64_of(r, c->loop->count), ""), loop,
                    done);
    LLVMAddIncoming(round, value, from, 2);
    LLVMPositionBuilderAtEnd(b, done);
    r->entry = entry;
    r->path = path;
    r->depth--;
}

static void call_each(Region *r, const KernelCall *calls, const Step *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i].kind == STEP_LOOP)
            call_loop(r, &calls[list[i].kernel], &list[i]);
        else
            call_kernel(r, &calls[list[i].kernel]);
}

static LLVMValueRef end(Region *r)
{
    LLVMBuildRetVoid(r->builder);
    LLVMDisposeBuilder(r->builder);
    return r->function;
}

/* The builder stands at the beginning of the function. */
static LLVMValueRef new_table(const Region *r)
{
    const int n = r->in->max_places;
    return LLVMBuildAlloca(r->builder,
                           LLVMArrayType2(pointer_type(r), (uint64_t)(n > 0 ? n : 1)), "table");
}

/* Some of the calls in a function of its own, which is told the model and the rounds of the loops
 * around. */
static void call_part(Region *r, const KernelCall *calls, const Step *list, int n, int number)
{
    LLVMValueRef arg[PART_PARAMS + HFTAC_MAX_LOOPS + 1] = {r->frame, r->model};
    LLVMTypeRef type[PART_PARAMS + HFTAC_MAX_LOOPS + 1];
    const int n_args = PART_PARAMS + r->depth;
    for (int i = 0; i < n_args; i++) {
        arg[i] = i < PART_PARAMS ? arg[i] : r->round[i - PART_PARAMS + 1];
        type[i] = LLVMTypeOf(arg[i]);
    }
    Region part = *r;
    LLVMTypeRef made =
        LLVMFunctionType(LLVMVoidTypeInContext(r->context), type, (unsigned)n_args, 0);
    part.function = LLVMAddFunction(
        r->in->module,
        arena_printf(r->in->arena, "%s.%d", LLVMGetValueName(r->function), number), made);
    LLVMSetLinkage(part.function, LLVMInternalLinkage);
    LLVMValueRef *params[PART_PARAMS] = {&part.frame, &part.model};
    for (int i = 0; i < n_args; i++)
        *(i < PART_PARAMS ? params[i] : &part.round[i - PART_PARAMS + 1]) =
            LLVMGetParam(part.function, (unsigned)i);
    part.builder = LLVMCreateBuilderInContext(r->context);
    LLVMPositionBuilderAtEnd(part.builder,
                             LLVMAppendBasicBlockInContext(r->context, part.function, "entry"));
    part.table = new_table(&part);
    call_each(&part, calls, list, n);
    end(&part);
    r->in->set_attributes(r->in->context, part.function);
    LLVMBuildCall2(r->builder, made, part.function, arg, (unsigned)n_args, "");
}

static void call_list(Region *r, const KernelCall *calls, const Step *list, int n)
{
    if (n <= CALLS_PER_PART) {
        call_each(r, calls, list, n);
        return;
    }
    for (int i = 0, number = 0; i < n; i += CALLS_PER_PART, number++)
        call_part(r, calls, list + i, n - i < CALLS_PER_PART ? n - i : CALLS_PER_PART, number);
}

static void begin(Region *r, const RegionInput *in, const char *name)
{
    *r = (Region){.in = in,
                  .context = LLVMGetModuleContext(in->module),
                  .entry = in->entry,
                  .path = in->path};
    LLVMTypeRef params[3] = {pointer_type(r), i64_type(r), i64_type(r)};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(r->context), params, 3, 0);
    r->function = LLVMAddFunction(in->module, name, type);
    LLVMSetLinkage(r->function, LLVMInternalLinkage);
    r->frame = LLVMGetParam(r->function, 0);
    r->builder = LLVMCreateBuilderInContext(r->context);
    LLVMPositionBuilderAtEnd(r->builder,
                             LLVMAppendBasicBlockInContext(r->context, r->function, "entry"));
    r->table = new_table(r);
    r->model = i64_of(r, 0);
}

/* for (b = lo; b < hi; b++) all kernels of model b. */
static void call_for_models(Region *r)
{
    const RegionInput *in = r->in;
    LLVMBuilderRef b = r->builder;
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(b);
    LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(r->context, r->function, "model");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(r->context, r->function, "done");
    LLVMValueRef lo = LLVMGetParam(r->function, 1), hi = LLVMGetParam(r->function, 2);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, lo, hi, ""), loop, done);
    LLVMPositionBuilderAtEnd(b, loop);
    r->model = LLVMBuildPhi(b, i64_type(r), "b");
    call_list(r, in->calls, in->run->list, in->run->n_list);
    LLVMValueRef next = LLVMBuildAdd(b, r->model, i64_of(r, 1), "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(b); /* loops are blocks of their own */
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, hi, ""), loop, done);
    LLVMValueRef value[2] = {lo, next};
    LLVMBasicBlockRef from[2] = {entry, last};
    LLVMAddIncoming(r->model, value, from, 2);
    LLVMPositionBuilderAtEnd(b, done);
}

static void call_all(Region *r)
{
    if (r->in->run->kind == STEP_MODELS)
        call_for_models(r);
    else
        call_list(r, r->in->calls, r->in->run->list, r->in->run->n_list);
}

LLVMValueRef region_run(const RegionInput *in, const char *name)
{
    Region r;
    begin(&r, in, name);
    call_all(&r);
    return end(&r);
}
