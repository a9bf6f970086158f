/* Buffers, loads and stores.
 *
 * Every buffer of a kernel gets an LLVM alias scope; buffers that share memory (in place) share
 * one.  So LLVM may keep values of one buffer in registers across stores to another. Nothing
 * outside a buffer is ever touched: a tail loads and stores its active lanes only, by a constant
 * mask. */
#include "codegen/cpu/emit.h"

#include <string.h>

enum {
    MAX_SCOPES = 48
};

/* Metadata of one place; NULL: none. */
typedef struct Scope {
    LLVMValueRef scopes, others;
} Scope;

struct MemoryMap {
    Scope *scope; /* by place */
    unsigned kind_scope, kind_others;
};

static LLVMMetadataRef text_node(Emit *e, const char *text, LLVMMetadataRef second)
{
    LLVMMetadataRef ops[2] = {LLVMMDStringInContext2(e->context, text, strlen(text)), second};
    return LLVMMDNodeInContext2(e->context, ops, second ? 2 : 1);
}

static LLVMValueRef scope_list(Emit *e, LLVMMetadataRef *scope, int n)
{
    return LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, scope, (size_t)n));
}

static void make_scopes(Emit *e)
{
    const Places *p = e->places;
    if (p->n > MAX_SCOPES)
        return;
    LLVMMetadataRef scope[MAX_SCOPES], others[MAX_SCOPES];
    LLVMMetadataRef domain = text_node(e, LLVMGetValueName(e->function), NULL);
    for (int i = 0; i < p->n; i++)
        scope[i] =
            text_node(e, arena_printf(e->arena, "%s %d", p->place[i].buffer->name, i), domain);
    for (int i = 0; i < p->n; i++) {
        int n = 0;
        for (int j = 0; j < p->n; j++)
            if (p->place[j].scope == j && j != p->place[i].scope)
                others[n++] = scope[j];
        e->memory->scope[i].scopes = scope_list(e, &scope[p->place[i].scope], 1);
        e->memory->scope[i].others = n ? scope_list(e, others, n) : NULL;
    }
}

void emit_memory_init(Emit *e)
{
    MemoryMap *m = e->memory = arena_alloc(e->arena, sizeof *m);
    m->scope = arena_array(e->arena, (size_t)e->places->n, sizeof *m->scope);
    m->kind_scope = LLVMGetMDKindIDInContext(e->context, "alias.scope", 11);
    m->kind_others = LLVMGetMDKindIDInContext(e->context, "noalias", 7);
    make_scopes(e);
}

static int place_of(const Emit *e, const Buffer *b)
{
    for (int i = 0; i < e->places->n; i++)
        if (e->places->place[i].buffer == b)
            return i;
    diag_internal(NULL, "kernel %s has no place %s", e->kernel->name, b->name);
}

static void set_scope(Emit *e, const Buffer *b, LLVMValueRef access)
{
    const Scope *s = b ? &e->memory->scope[place_of(e, b)] : NULL;
    if (!s || !s->scopes)
        return;
    LLVMSetMetadata(access, e->memory->kind_scope, s->scopes);
    if (s->others)
        LLVMSetMetadata(access, e->memory->kind_others, s->others);
}

static LLVMTypeRef pointer_type(Emit *e)
{
    return LLVMPointerTypeInContext(e->context, 0);
}

LLVMValueRef emit_buffer(Emit *e, const Buffer *b)
{
    return e->pointer[place_of(e, b)];
}

LLVMValueRef emit_element(Emit *e, LLVMValueRef base, LLVMValueRef elements, DType t)
{
    return LLVMBuildInBoundsGEP2(e->builder, emit_memory_type(e, t), base, &elements, 1, "");
}

/* The first `active` lanes. */
LLVMValueRef emit_active_mask(Emit *e)
{
    LLVMValueRef lane[MAX_LANES];
    for (int i = 0; i < e->lanes; i++)
        lane[i] = LLVMConstInt(LLVMInt1TypeInContext(e->context), i < e->active, 0);
    return LLVMConstVector(lane, (unsigned)e->lanes);
}

/* A register value from what memory holds. */
static LLVMValueRef from_memory(Emit *e, DType t, LLVMValueRef v)
{
    if (t != DT_BOOL)
        return v;
    return LLVMBuildICmp(e->builder, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

static LLVMValueRef to_memory(Emit *e, DType t, LLVMValueRef v)
{
    if (t != DT_BOOL)
        return v;
    LLVMTypeRef i8 = LLVMInt8TypeInContext(e->context);
    LLVMTypeRef type =
        emit_is_vector(v) ? LLVMVectorType(i8, LLVMGetVectorSize(LLVMTypeOf(v))) : i8;
    return LLVMBuildZExt(e->builder, v, type, "");
}

LLVMValueRef emit_load_scalar(Emit *e, const Buffer *b, LLVMValueRef pointer, DType t)
{
    LLVMValueRef v = LLVMBuildLoad2(e->builder, emit_memory_type(e, t), pointer, "");
    LLVMSetAlignment(v, (unsigned)dtype_bytes(t));
    set_scope(e, b, v);
    return from_memory(e, t, v);
}

/* A vector load that touches the lanes of `mask` only; the others are 0. */
static LLVMValueRef load_masked(Emit *e, const Buffer *b, LLVMValueRef pointer, DType t,
                                LLVMValueRef mask)
{
    LLVMTypeRef type = LLVMVectorType(emit_memory_type(e, t), (unsigned)e->lanes);
    LLVMTypeRef types[2] = {type, pointer_type(e)};
    LLVMValueRef align =
        LLVMConstInt(LLVMInt32TypeInContext(e->context), (unsigned)dtype_bytes(t), 0);
    LLVMValueRef args[4] = {pointer, align, mask, LLVMConstNull(type)};
    LLVMValueRef v = emit_intrinsic(e, "llvm.masked.load", 2, types, 4, args);
    set_scope(e, b, v);
    return from_memory(e, t, v);
}

LLVMValueRef emit_load_vector(Emit *e, const Buffer *b, LLVMValueRef pointer, DType t)
{
    if (e->active < e->lanes)
        return load_masked(e, b, pointer, t, emit_active_mask(e));
    LLVMTypeRef type = LLVMVectorType(emit_memory_type(e, t), (unsigned)e->lanes);
    LLVMValueRef v = LLVMBuildLoad2(e->builder, type, pointer, "");
    LLVMSetAlignment(v, (unsigned)dtype_bytes(t));
    set_scope(e, b, v);
    return from_memory(e, t, v);
}

static LLVMValueRef lane_of(Emit *e, LLVMValueRef v, int lane)
{
    if (!emit_is_vector(v))
        return v;
    return LLVMBuildExtractElement(e->builder, v, emit_const_i64(e, lane), "");
}

/* The offset, or 0 where the guard says that it lies outside. */
static LLVMValueRef guarded(Emit *e, const LoadGuard *guard, int lane, LLVMValueRef offset)
{
    LLVMValueRef zero = emit_const_i64(e, 0);
    if (guard->lanes)
        offset = LLVMBuildSelect(e->builder, lane_of(e, guard->lanes, lane), offset, zero, "");
    return guard->all ? LLVMBuildSelect(e->builder, guard->all, offset, zero, "") : offset;
}

/* Offset of one lane. */
static LLVMValueRef lane_offset(Emit *e, LLVMValueRef first, LLVMValueRef each, int64_t step,
                                int lane)
{
    if (each)
        return lane_of(e, each, lane);
    return LLVMBuildAdd(e->builder, first, emit_const_i64(e, step * lane), "");
}

static LLVMValueRef load_lanes(Emit *e, const Buffer *b, const Affine *offset,
                               const LoadGuard *guard)
{
    const bool linear = affine_lane_linear(&e->space, offset);
    LLVMValueRef base = emit_buffer(e, b);
    LLVMValueRef each = linear ? NULL : emit_affine(e, offset);
    LLVMValueRef first = linear ? emit_affine_first(e, offset) : NULL;
    LLVMValueRef v = LLVMConstNull(emit_vector_type(e, b->dtype));
    for (int i = 0; i < e->active; i++) {
        LLVMValueRef at = lane_offset(e, first, each, affine_coef(offset, AFFINE_LANE), i);
        at = guarded(e, guard, i, at);
        LLVMValueRef x = emit_load_scalar(e, b, emit_element(e, base, at, b->dtype), b->dtype);
        v = LLVMBuildInsertElement(e->builder, v, x, emit_const_i64(e, i), "");
    }
    return v;
}

/* A row of zeros, as wide as the widest elements need. */
static LLVMValueRef zero_row(Emit *e)
{
    static const char name[] = "zeros";
    LLVMValueRef zeros = LLVMGetNamedGlobal(e->module, name);
    if (zeros)
        return zeros;
    LLVMTypeRef type = emit_vector_type(e, DT_F64);
    zeros = LLVMAddGlobal(e->module, type, name);
    LLVMSetInitializer(zeros, LLVMConstNull(type));
    LLVMSetGlobalConstant(zeros, 1);
    LLVMSetLinkage(zeros, LLVMInternalLinkage);
    LLVMSetAlignment(zeros, (unsigned)e->vector_bytes);
    return zeros;
}

/* What holds for all lanes chooses where to read, and is not part of the mask: LLVM 19 gets
 * masked loads of two registers wrong (or fails) whose mask is a condition of all lanes with
 * constant lanes missing. */
static LLVMValueRef load_row(Emit *e, const Buffer *b, const Affine *offset,
                             const LoadGuard *guard)
{
    LLVMValueRef first = emit_affine_first(e, offset);
    LLVMValueRef at = emit_element(e, emit_buffer(e, b), first, b->dtype);
    if (guard->all)
        at = LLVMBuildSelect(e->builder, guard->all, at, zero_row(e), "");
    if (!guard->lanes)
        return emit_load_vector(e, b, at, b->dtype);
    LLVMValueRef mask = LLVMBuildAnd(e->builder, guard->lanes, emit_active_mask(e), "");
    return load_masked(e, b, at, b->dtype, mask);
}

LLVMValueRef emit_load(Emit *e, const Buffer *b, const Affine *offset)
{
    const LoadGuard guard = emit_guard(e, offset);
    if (affine_lanes(&e->space, offset))
        return affine_lane_linear(&e->space, offset) && affine_coef(offset, AFFINE_LANE) == 1
                   ? load_row(e, b, offset, &guard)
                   : load_lanes(e, b, offset, &guard);
    LLVMValueRef at = guarded(e, &guard, 0, emit_affine(e, offset));
    return emit_load_scalar(e, b, emit_element(e, emit_buffer(e, b), at, b->dtype), b->dtype);
}

static void store_one(Emit *e, const Buffer *b, LLVMValueRef elements, LLVMValueRef v)
{
    LLVMValueRef at = emit_element(e, emit_buffer(e, b), elements, b->dtype);
    LLVMValueRef s = LLVMBuildStore(e->builder, v, at);
    LLVMSetAlignment(s, (unsigned)dtype_bytes(b->dtype));
    set_scope(e, b, s);
}

static void store_row(Emit *e, const Buffer *b, LLVMValueRef first, LLVMValueRef v)
{
    if (e->active == e->lanes) {
        store_one(e, b, first, v);
        return;
    }
    LLVMTypeRef types[2] = {LLVMTypeOf(v), pointer_type(e)};
    LLVMValueRef align =
        LLVMConstInt(LLVMInt32TypeInContext(e->context), (unsigned)dtype_bytes(b->dtype), 0);
    LLVMValueRef args[4] = {v, emit_element(e, emit_buffer(e, b), first, b->dtype), align,
                            emit_active_mask(e)};
    set_scope(e, b, emit_intrinsic(e, "llvm.masked.store", 2, types, 4, args));
}

static void store_lanes(Emit *e, const Buffer *b, const Affine *offset, LLVMValueRef v)
{
    const bool linear = affine_lane_linear(&e->space, offset);
    LLVMValueRef each = linear ? NULL : emit_affine(e, offset);
    LLVMValueRef first = linear ? emit_affine_first(e, offset) : NULL;
    for (int i = 0; i < e->active; i++)
        store_one(e, b, lane_offset(e, first, each, affine_coef(offset, AFFINE_LANE), i),
                  lane_of(e, v, i));
}

void emit_store(Emit *e, const Buffer *b, const Affine *offset, DType from, LLVMValueRef v)
{
    if (from != b->dtype)
        v = emit_scalar_fn(e, SC_CAST, from, b->dtype, 1, &v);
    v = to_memory(e, b->dtype, v);
    if (!affine_lanes(&e->space, offset))
        store_one(e, b, emit_affine(e, offset), lane_of(e, v, 0));
    else if (affine_lane_linear(&e->space, offset) && affine_coef(offset, AFFINE_LANE) == 1)
        store_row(e, b, emit_affine_first(e, offset), emit_splat(e, v));
    else
        store_lanes(e, b, offset, emit_splat(e, v));
}
