/* Where values are, as text. */
#include "codegen/cuda/cuda.h"

/* A constant that is printed as a table. */
struct CudaTable {
    CudaTable *next;
    const Buffer *buffer;
    const char *name;
};

const char *cuda_type(DType t)
{
    static const char *const names[DT_COUNT] = {
        [DT_BOOL] = "bool", [DT_U8] = "u8",     [DT_I32] = "i32",
        [DT_I64] = "i64",   [DT_F32] = "float", [DT_F64] = "double",
    };
    return names[t];
}

const char *cuda_memory_type(DType t)
{
    return t == DT_BOOL ? "u8" : cuda_type(t);
}

static const Node *constant_of(const Cuda *c, const Buffer *b)
{
    if (b->constant)
        return b->constant;
    for (int i = 0; i < c->entry->graph->n_nodes; i++)
        if (c->entry->buffer[i] == b)
            return c->entry->graph->nodes[i];
    diag_internal(NULL, "no constant is held by buffer %s", b->name);
}

/* Every table is printed when it is first read. */
static const char *table_text(Cuda *c, const Buffer *b)
{
    int n = 0;
    for (const CudaTable *t = c->known_tables; t; t = t->next, n++)
        if (t->buffer == b)
            return t->name;
    const Node *node = constant_of(c, b);
    const RealList *data = &node->attrs.value.data;
    CudaTable *t = arena_alloc(c->arena, sizeof *t);
    *t = (CudaTable){
        .next = c->known_tables,
        .buffer = b,
        .name = arena_printf(c->arena, "const%d_%s", n, cuda_name(c->arena, node->name))};
    c->known_tables = t;
    const int64_t count = shape_count(&node->type.shape);
    text_printf(c->tables, "__device__ const %s %s[%lld] = {",
                cuda_memory_type(node->type.dtype), t->name, (long long)count);
    for (int64_t i = 0; i < count; i++)
        text_printf(c->tables, "%s%s", i ? ", " : "",
                    cuda_number(c->arena, node->type.dtype, data->v[data->n == 1 ? 0 : i]));
    text_add(c->tables, "};\n\n");
    return t->name;
}

/* A place that the rounds of a loop move or swap: round s1, s2 ... of the loops around. */
static const char *part_text(Cuda *c, const Buffer *b, const char *type)
{
    const char *base = cuda_buffer(c, b->base);
    if (b->odd_base)
        base = arena_printf(c->arena, "(s%d & 1 ? (u8 *)%s : (u8 *)%s)", b->depth,
                            cuda_buffer(c, b->odd_base), base);
    const char *step =
        b->step ? arena_printf(c->arena, " + s%d * %lldLL", b->depth, (long long)b->step) : "";
    return arena_printf(c->arena, "((%s *)((u8 *)%s + %lld%s))", type, base,
                        (long long)b->shift, step);
}

const char *cuda_buffer(Cuda *c, const Buffer *b)
{
    const char *type = cuda_memory_type(b->dtype);
    const long long model = b->per_model ? (long long)b->model_bytes : 0,
                    at = (long long)b->offset;
    if (b->base)
        return part_text(c, b, type);
    switch (b->space) {
    case BUF_STATE:
        return arena_printf(c->arena, "((%s *)(f.state + b * %lld + %lld))", type, model, at);
    case BUF_SCRATCH:
        return arena_printf(c->arena, "((%s *)(f.scratch + b * HF_SCRATCH + %lld))", type, at);
    case BUF_SHARED:
        return arena_printf(c->arena, "((%s *)(f.shared + %lld))", type, at);
    case BUF_INPUT:
        return arena_printf(c->arena, "((%s *)((u8 *)f.inputs[%d] + b * %lld))", type, b->index,
                            model);
    case BUF_OUTPUT:
        return arena_printf(c->arena, "((%s *)((u8 *)f.outputs[%d] + b * %lld))", type,
                            b->index, model);
    case BUF_HYPER:
        return arena_printf(c->arena, "(f.hypers + b * %lld + %d)", model / 8, b->index);
    case BUF_CLOCK:
        return arena_printf(c->arena, "(f.clocks + b * %lld + %d)", model / 8, b->index);
    case BUF_SCALAR:
        return arena_printf(c->arena, "(f.scalars + %d)", b->index);
    case BUF_SEED:
        return "((const i64 *)f.seeds + b)";
    case BUF_RESULT:
        return arena_printf(c->arena, "(f.results + b * %lld + %d)", model / 8, b->index);
    case BUF_CONST:
        return table_text(c, b);
    }
    diag_internal(NULL, "buffer %s is nowhere", b->name);
}

const char *cuda_element(Cuda *c, const Buffer *b, const Index *i)
{
    const Affine at = index_offset(&c->space, &b->shape, b->stride, i);
    return arena_printf(c->arena, "%s[%s]", cuda_buffer(c, b), cuda_affine(c, &at));
}

const char *cuda_model_stride(Cuda *c, const Buffer *b)
{
    const int bytes = dtype_bytes(b->dtype);
    while (b->base)
        b = b->base;
    if (b->space == BUF_SCRATCH)
        return arena_printf(c->arena, "HF_SCRATCH / %d", bytes);
    return arena_printf(c->arena, "%lld",
                        b->per_model ? (long long)(b->model_bytes / bytes) : 0LL);
}

bool cuda_overlap(const Buffer *a, const Buffer *b)
{
    if (a == b)
        return true;
    if (a->base)
        return cuda_overlap(a->base, b) || (a->odd_base && cuda_overlap(a->odd_base, b));
    if (b->base)
        return cuda_overlap(b, a);
    if (a->space != b->space || a->space == BUF_CONST)
        return false;
    if (a->space == BUF_STATE || a->space == BUF_SHARED || a->space == BUF_SCRATCH)
        return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
    return a->index == b->index;
}

Buffer *cuda_temporary(Cuda *c, bool per_model, DType t, const Shape *shape, int64_t bytes[2])
{
    Buffer *b = arena_alloc(c->arena, sizeof *b);
    const int64_t base = per_model ? c->plan->scratch_bytes : c->plan->shared_bytes;
    *b = (Buffer){.name = "temporary",
                  .space = per_model ? BUF_SCRATCH : BUF_SHARED,
                  .dtype = t,
                  .shape = *shape,
                  .offset = ((base + 63) & ~(int64_t)63) + bytes[per_model],
                  .bytes = shape_count(shape) * dtype_bytes(t)};
    shape_strides(shape, b->stride);
    bytes[per_model] += (b->bytes + 63) & ~(int64_t)63;
    if (bytes[per_model] > c->temporary[per_model])
        c->temporary[per_model] = bytes[per_model];
    return b;
}
