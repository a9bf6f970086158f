/* Buffers, loads and stores.
 *
 * Every buffer of a kernel gets an LLVM alias scope; buffers that share memory (in place) share one.  So LLVM
 * may keep values of one buffer in registers across stores to another.
 * Nothing outside a buffer is ever touched: a tail loads and stores its active lanes only, by a constant mask. */
#include "codegen/cpu/emit.h"

#include <string.h>

#include "runtime/model_abi.h"

enum { MAX_SCOPES = 48 };

typedef struct Place {
    const Buffer *buffer;
    int scope;             /* the first place with which this one shares memory */
    LLVMValueRef pointer;  /* NULL until asked for */
    LLVMValueRef scopes, others; /* metadata */
} Place;

struct MemoryMap {
    Place *place;
    int n, cap;
    bool *seen; /* by node id */
    LLVMMetadataRef domain;
    unsigned kind_scope, kind_others;
};

static bool overlap(const Buffer *a, const Buffer *b)
{
    if (a == b)
        return true;
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
    default:
        return a->index == b->index;
    }
}

static void add_place(Emit *e, const Buffer *b)
{
    MemoryMap *m = e->memory;
    for (int i = 0; i < m->n; i++)
        if (m->place[i].buffer == b)
            return;
    if (m->n == m->cap)
        m->place = arena_grow(e->arena, m->place, &m->cap, sizeof *m->place);
    m->place[m->n] = (Place){.buffer = b, .scope = m->n};
    m->n++;
}

static void add_reads(Emit *e, const Node *n)
{
    if (e->memory->seen[n->id])
        return;
    e->memory->seen[n->id] = true;
    const Buffer *b = emit_readable(e, n);
    if (b) {
        add_place(e, b);
        return;
    }
    for (int i = 0; i < n->n_in; i++)
        add_reads(e, n->in[i]);
}

/* Joins overlapping places: all that overlap, directly or not, get the number of the first. */
static void join_places(MemoryMap *m)
{
    for (int i = 0; i < m->n; i++) {
        for (int j = 0; j < i; j++) {
            if (!overlap(m->place[i].buffer, m->place[j].buffer))
                continue;
            const int from = m->place[i].scope, to = m->place[j].scope;
            for (int k = 0; k <= i; k++)
                if (m->place[k].scope == from)
                    m->place[k].scope = to;
        }
    }
}

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
    MemoryMap *m = e->memory;
    if (m->n > MAX_SCOPES)
        return;
    LLVMMetadataRef scope[MAX_SCOPES], others[MAX_SCOPES];
    m->domain = text_node(e, LLVMGetValueName(e->function), NULL);
    for (int i = 0; i < m->n; i++)
        scope[i] = text_node(e, arena_printf(e->arena, "%s %d", m->place[i].buffer->name, i),
                             m->domain);
    for (int i = 0; i < m->n; i++) {
        Place *p = &m->place[i];
        int n = 0;
        for (int j = 0; j < m->n; j++)
            if (m->place[j].scope == j && j != p->scope)
                others[n++] = scope[j];
        p->scopes = scope_list(e, &scope[p->scope], 1);
        p->others = n ? scope_list(e, others, n) : NULL;
    }
}

void emit_memory_init(Emit *e)
{
    MemoryMap *m = e->memory = arena_alloc(e->arena, sizeof *m);
    m->seen = arena_array(e->arena, (size_t)e->entry->graph->n_nodes, sizeof *m->seen);
    m->kind_scope = LLVMGetMDKindIDInContext(e->context, "alias.scope", 11);
    m->kind_others = LLVMGetMDKindIDInContext(e->context, "noalias", 7);
    for (int i = 0; i < e->kernel->n_stores; i++) {
        add_place(e, e->kernel->stores[i].to);
        add_reads(e, e->kernel->stores[i].value);
    }
    join_places(m);
    make_scopes(e);
}

static Place *place_of(Emit *e, const Buffer *b)
{
    for (int i = 0; i < e->memory->n; i++)
        if (e->memory->place[i].buffer == b)
            return &e->memory->place[i];
    add_place(e, b);
    return &e->memory->place[e->memory->n - 1];
}

static void set_scope(Emit *e, const Buffer *b, LLVMValueRef access)
{
    const Place *p = b ? place_of(e, b) : NULL;
    if (!p || !p->scopes)
        return;
    LLVMSetMetadata(access, e->memory->kind_scope, p->scopes);
    if (p->others)
        LLVMSetMetadata(access, e->memory->kind_others, p->others);
}

static LLVMTypeRef pointer_type(Emit *e)
{
    return LLVMPointerTypeInContext(e->context, 0);
}

static LLVMValueRef plus_bytes(Emit *e, LLVMValueRef base, LLVMValueRef bytes)
{
    LLVMTypeRef i8 = LLVMInt8TypeInContext(e->context);
    return LLVMBuildInBoundsGEP2(e->builder, i8, base, &bytes, 1, "");
}

/* A pointer that is a field of the frame. */
static LLVMValueRef frame_field(Emit *e, size_t offset)
{
    LLVMValueRef at = plus_bytes(e, e->frame, emit_const_i64(e, (int64_t)offset));
    LLVMValueRef p = LLVMBuildLoad2(e->builder, pointer_type(e), at, "");
    LLVMSetMetadata(p, LLVMGetMDKindIDInContext(e->context, "invariant.load", 14),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    return p;
}

/* base + fixed + model * per_model, in bytes. */
static LLVMValueRef model_part(Emit *e, LLVMValueRef base, int64_t fixed, int64_t per_model)
{
    LLVMValueRef p = base;
    if (per_model)
        p = plus_bytes(
            e, p,
            LLVMBuildNSWMul(e->builder, e->model, emit_const_i64(e, per_model), ""));
    return fixed ? plus_bytes(e, p, emit_const_i64(e, fixed)) : p;
}

static LLVMValueRef table_entry(Emit *e, size_t field, int index)
{
    LLVMValueRef at = plus_bytes(e, frame_field(e, field), emit_const_i64(e, index * 8));
    return LLVMBuildLoad2(e->builder, pointer_type(e), at, "");
}

static const Node *const_node(const Emit *e, const Buffer *b)
{
    const Graph *g = e->entry->graph;
    for (int i = 0; i < g->n_nodes; i++)
        if (e->entry->buffer[i] == b)
            return g->nodes[i];
    diag_internal(NULL, "no constant is held by buffer %s", b->name);
}

/* The table of a constant as data of the module. */
static LLVMValueRef const_table(Emit *e, const Buffer *b)
{
    const Node *n = const_node(e, b);
    const RealList *data = &n->attrs.value.data;
    const char *name = arena_printf(e->arena, "const.%s.%s", e->entry->graph->name, n->name);
    LLVMValueRef global = LLVMGetNamedGlobal(e->module, name);
    if (global)
        return global;
    const int64_t count = shape_count(&n->type.shape);
    LLVMValueRef *v = arena_array(e->arena, (size_t)count, sizeof *v);
    LLVMTypeRef type = emit_memory_type(e, n->type.dtype);
    for (int64_t i = 0; i < count; i++) {
        const double x = data->v[data->n == 1 ? 0 : i];
        v[i] = n->type.dtype == DT_BOOL ? LLVMConstInt(type, x != 0, 0)
                                        : emit_const(e, n->type.dtype, x);
    }
    LLVMValueRef init = LLVMConstArray2(type, v, (uint64_t)count);
    global = LLVMAddGlobal(e->module, LLVMTypeOf(init), name);
    LLVMSetInitializer(global, init);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    LLVMSetAlignment(global, 64);
    return global;
}

static LLVMValueRef make_pointer(Emit *e, const Buffer *b)
{
    const int64_t per_model = b->per_model ? b->model_bytes : 0;
    switch (b->space) {
    case BUF_STATE:
        return model_part(e, e->state, b->offset, 0);
    case BUF_INPUT:
        return model_part(e, table_entry(e, offsetof(HftacFrame, inputs), b->index), 0,
                          per_model);
    case BUF_HYPER:
        return model_part(e, frame_field(e, offsetof(HftacFrame, hypers)), 8 * b->index,
                          per_model);
    case BUF_SCALAR:
        return model_part(e, frame_field(e, offsetof(HftacFrame, scalars)), 8 * b->index, 0);
    case BUF_SEED:
        return model_part(e, frame_field(e, offsetof(HftacFrame, seeds)), 0, per_model);
    case BUF_CONST:
        return const_table(e, b);
    case BUF_SHARED:
        return model_part(e, frame_field(e, offsetof(HftacFrame, shared)), b->offset, 0);
    case BUF_SCRATCH:
        return model_part(e, e->scratch, b->offset, 0);
    case BUF_RESULT:
        return model_part(e, frame_field(e, offsetof(HftacFrame, results)), 8 * b->index,
                          per_model);
    case BUF_OUTPUT:
        return model_part(e, table_entry(e, offsetof(HftacFrame, outputs), b->index), 0,
                          per_model);
    }
    diag_internal(NULL, "buffer %s is nowhere", b->name);
}

LLVMValueRef emit_buffer(Emit *e, const Buffer *b)
{
    Place *p = place_of(e, b);
    if (!p->pointer) {
        LLVMPositionBuilderAtEnd(e->builder, e->allocas);
        p->pointer = make_pointer(e, b);
        LLVMPositionBuilderAtEnd(e->builder, e->level->block);
    }
    return p->pointer;
}

LLVMValueRef emit_element(Emit *e, LLVMValueRef base, LLVMValueRef elements, DType t)
{
    return LLVMBuildInBoundsGEP2(e->builder, emit_memory_type(e, t), base, &elements, 1, "");
}

/* The first `active` lanes. */
static LLVMValueRef active_mask(Emit *e)
{
    LLVMValueRef lane[64];
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
    LLVMTypeRef type = emit_is_vector(v)
                           ? LLVMVectorType(i8, LLVMGetVectorSize(LLVMTypeOf(v)))
                           : i8;
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
        return load_masked(e, b, pointer, t, active_mask(e));
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
static LLVMValueRef guarded(Emit *e, LLVMValueRef guard, int lane, LLVMValueRef offset)
{
    if (!guard)
        return offset;
    return LLVMBuildSelect(e->builder, lane_of(e, guard, lane), offset, emit_const_i64(e, 0),
                           "");
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
                               LLVMValueRef guard)
{
    const bool linear = affine_lane_linear(&e->space, offset);
    LLVMValueRef base = emit_buffer(e, b);
    LLVMValueRef each = linear ? NULL : emit_affine(e, offset);
    LLVMValueRef first = linear ? emit_affine_first(e, offset) : NULL;
    LLVMValueRef v = LLVMConstNull(emit_vector_type(e, b->dtype));
    for (int i = 0; i < e->active; i++) {
        LLVMValueRef at = lane_offset(e, first, each, affine_coef(offset, INDEX_LANE), i);
        at = guarded(e, guard, i, at);
        LLVMValueRef x = emit_load_scalar(e, b, emit_element(e, base, at, b->dtype), b->dtype);
        v = LLVMBuildInsertElement(e->builder, v, x, emit_const_i64(e, i), "");
    }
    return v;
}

static LLVMValueRef load_row(Emit *e, const Buffer *b, const Affine *offset,
                             LLVMValueRef guard)
{
    LLVMValueRef first = emit_affine_first(e, offset);
    LLVMValueRef at = emit_element(e, emit_buffer(e, b), first, b->dtype);
    if (!guard)
        return emit_load_vector(e, b, at, b->dtype);
    LLVMValueRef mask = LLVMBuildAnd(e->builder, emit_splat(e, guard), active_mask(e), "");
    return load_masked(e, b, at, b->dtype, mask);
}

LLVMValueRef emit_load(Emit *e, const Buffer *b, const Affine *offset)
{
    LLVMValueRef guard = emit_guard(e, offset);
    if (affine_lanes(&e->space, offset))
        return affine_lane_linear(&e->space, offset) && affine_coef(offset, INDEX_LANE) == 1
                   ? load_row(e, b, offset, guard)
                   : load_lanes(e, b, offset, guard);
    LLVMValueRef at = guarded(e, guard, 0, emit_affine(e, offset));
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
                            active_mask(e)};
    set_scope(e, b, emit_intrinsic(e, "llvm.masked.store", 2, types, 4, args));
}

static void store_lanes(Emit *e, const Buffer *b, const Affine *offset, LLVMValueRef v)
{
    const bool linear = affine_lane_linear(&e->space, offset);
    LLVMValueRef each = linear ? NULL : emit_affine(e, offset);
    LLVMValueRef first = linear ? emit_affine_first(e, offset) : NULL;
    for (int i = 0; i < e->active; i++)
        store_one(e, b, lane_offset(e, first, each, affine_coef(offset, INDEX_LANE), i),
                  lane_of(e, v, i));
}

void emit_store(Emit *e, const Buffer *b, const Affine *offset, DType from, LLVMValueRef v)
{
    if (from != b->dtype)
        v = emit_scalar_fn(e, SC_CAST, from, b->dtype, 1, &v);
    v = to_memory(e, b->dtype, v);
    if (!affine_lanes(&e->space, offset))
        store_one(e, b, emit_affine(e, offset), lane_of(e, v, 0));
    else if (affine_lane_linear(&e->space, offset) && affine_coef(offset, INDEX_LANE) == 1)
        store_row(e, b, emit_affine_first(e, offset), emit_splat(e, v));
    else
        store_lanes(e, b, offset, emit_splat(e, v));
}
