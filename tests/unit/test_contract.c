/* Contraction kernels as machine code: against one chain of fused multiply-adds per output in
 * plain C, bit for bit, which is what every tile shape, register width and storage order must
 * give; with and without chunks, with the epilogue bias, relu and a long one.  `test_contract -v`
 * prints how near the kernels come to the FMA peak. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cpu/emit.h"
#include "codegen/cpu/scalar.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "tests/unit/native.h"

enum {
    GUARD = 64,
    COUNT_PLACES = 5
};

typedef enum Epilogue {
    PLAIN,
    /* nothing; the operands are pads of inputs that lack their first row, as no strides can say */
    PADDED,
    BIAS_RELU, /* relu(x + bias[last axis]) */
    LONG       /* tanh(x * x + bias) * bias, and the sum itself as a second store */
} Epilogue;

/* order_*: storage order of the axes, outermost first, as digits; NULL: row-major. */
typedef struct Case {
    const char *spec;
    int64_t a[MAX_RANK], b[MAX_RANK];
    const char *order_a, *order_b, *order_out;
    int64_t chunk;
    Epilogue epilogue;
    DType type;
} Case;

/* clang-format off */
static const Case cases[] = {
    /* linear, its two gradients, as lower lays them out: the mlp's shapes and odd ones */
    {"mk,nk->mn",     {32, 64},  {128, 64},  NULL, "10", NULL, 0, BIAS_RELU, DT_F32},
    {"mk,nk->mn",     {32, 128}, {10, 128},  NULL, "10", NULL, 0, BIAS_RELU, DT_F32},
    {"mn,nk->mk",     {32, 128}, {128, 64},  NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mn,mk->nk",     {32, 128}, {32, 64},   NULL, NULL, "10", 0, LONG,      DT_F32},
    {"mn,mk->nk",     {33, 10},  {33, 17},   NULL, NULL, NULL, 0, LONG,      DT_F32},
    {"mk,kn->mn",     {1, 7},    {7, 50},    NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mk,kn->mn",     {7, 1},    {1, 3},     NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mk,kn->mn",     {5, 3},    {3, 1},     NULL, NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"mk,kn->mn",     {13, 29},  {29, 83},   "10", NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"mk,kn->mn",     {17, 31},  {31, 65},   NULL, NULL, NULL, 8, BIAS_RELU, DT_F32},
    {"mk,kn->mn",     {130, 130}, {130, 1024}, NULL, NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"mk,kn->mn",     {1100, 300}, {300, 37}, NULL, NULL, NULL, 100, PLAIN,   DT_F32},
    {"mpq,pqn->mn",   {70, 3, 40}, {3, 40, 517}, NULL, NULL, NULL, 8, PLAIN,   DT_F32},
    {"mk,kn->mn",     {20, 50},   {50, 37},  NULL, "10", NULL, 0, BIAS_RELU, DT_F32}, /* strided lanes */
{"mk,kn->mn",     {23, 64},  {64, 40},   NULL, NULL, NULL, 16, PLAIN,    DT_F32},
    {"mk,kn->mn",     {6, 12},   {12, 24},   NULL, NULL, NULL, 12, LONG,     DT_F32},
    {"km,kn->mn",     {100, 9},  {100, 31},  NULL, NULL, NULL, 32, LONG,     DT_F32},
    {"km,kn->mn", {24, 9}, {24, 31}, NULL, NULL, NULL, 0, PADDED, DT_F32},
    {"km,kn->mn", {70, 33}, {70, 21}, NULL, NULL, NULL, 16, PADDED, DT_F32},
    /* batches, several letters of each kind */
    {"bmk,bnk->bmn",  {3, 9, 16}, {3, 20, 16}, NULL, "021", NULL, 0, PLAIN,  DT_F32},
    {"bhmk,bhkn->bhmn", {2, 3, 5, 8}, {2, 3, 8, 11}, "0213", "0213", "0213", 0, PLAIN, DT_F32},
    {"abk,nk->abn",   {5, 3, 12}, {33, 12},   NULL, "10", NULL, 0, BIAS_RELU, DT_F32},
    {"abk,kcn->abcn", {4, 2, 6},  {6, 3, 9},  NULL, NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"mpq,pqn->mn",   {7, 3, 5},  {3, 5, 18}, NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mpq,pqn->mn",   {7, 3, 10}, {3, 10, 18}, NULL, NULL, NULL, 4, PLAIN,    DT_F32},
    {"mpq,pqn->mn",   {7, 3, 4},  {3, 4, 18}, "201", NULL, NULL, 4, BIAS_RELU, DT_F32},
    {"mpq,pqn->mn",   {7, 5, 4},  {5, 4, 18}, NULL, NULL, NULL, 9, BIAS_RELU, DT_F32}, /* two of p at a time */
    {"mpqr,pqrn->mn", {7, 3, 5, 4}, {3, 5, 4, 18}, NULL, NULL, NULL, 8, LONG, DT_F32},
    {"pqrm,pqrn->mn", {9, 7, 40, 50}, {9, 7, 40, 33}, NULL, NULL, NULL, 80, PLAIN, DT_F32}, /* chunks outside */
    {"pqm,pqn->mn",   {9, 70, 64}, {9, 70, 40}, NULL, NULL, "10", 16, PLAIN, DT_F64},
    {"mk,kn->mn",     {21, 30},  {30, 45},   NULL, NULL, NULL, 0, BIAS_RELU, DT_F64},
    {"km,kn->mn",     {50, 11},  {50, 8},    NULL, NULL, NULL, 16, LONG,     DT_F64},
};
static const Case speeds[] = {
    {"mk,kn->mn", {32, 128},  {128, 128}, NULL, NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"mk,kn->mn", {128, 128}, {128, 32},  NULL, NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"mk,kn->mn", {32, 64},   {64, 128},  NULL, NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"km,kn->mn", {32, 128},  {32, 128},  NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"km,kn->mn", {32, 64},   {32, 128},  NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mk,kn->mn", {32, 128},  {128, 10},  NULL, NULL, NULL, 0, BIAS_RELU, DT_F32},
    {"mk,kn->mn", {32, 10},   {10, 128},  NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mk,kn->mn", {256, 256}, {256, 256}, NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mk,kn->mn", {256, 256}, {256, 256}, NULL, NULL, NULL, 64, PLAIN,    DT_F32},
    {"mk,kn->mn", {512, 512}, {512, 512}, NULL, NULL, NULL, 0, PLAIN,     DT_F32},
    {"mk,kn->mn", {1024, 1024}, {1024, 1024}, NULL, NULL, NULL, 0, PLAIN, DT_F32},
};
/* clang-format on */
#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

/* The kernel, its pointers taken from a table in the order of its places. */
typedef void KernelFn(void *const *places);

typedef struct Built {
    Arena *arena;
    Kernel kernel;
    EntryPlan entry;
    Plan plan;
    Node *in[3], *sum, *result;
    Buffer buffer[5]; /* a, b, bias, result, sum */
    Places places;
} Built;

static void set_strides(Buffer *b, const Shape *s, const char *order)
{
    b->shape = *s;
    int64_t stride = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        const int axis = order ? order[i] - '0' : i;
        b->stride[axis] = stride;
        stride *= s->dim[axis];
    }
}

static Buffer input_buffer(const Node *n, int index, const char *order)
{
    Buffer b = {.name = n->name, .space = BUF_INPUT, .dtype = n->type.dtype, .index = index};
    set_strides(&b, &n->type.shape, order);
    b.bytes = shape_count(&n->type.shape) * dtype_bytes(b.dtype);
    return b;
}

static Node *make_input(Built *t, Builder *b, const char *name, DType type, const Shape *shape,
                        int index, const char *order)
{
    const Input what = {
        .name = name, .type = {.dtype = type, .shape = *shape}, .loc = SRC_NONE};
    module_add_input(b->graph->module, &what);
    Node *n = build_input(b, name);
    t->in[index] = n;
    t->buffer[index] = input_buffer(n, index, order);
    return n;
}

/* An input of that shape, or what is left of one when its first row is cut off, padded with zeros
 * again. */
static Node *make_operand(Built *t, Builder *b, const Case *c, const char *name,
                          const Shape *shape, int index, const char *order)
{
    if (c->epilogue != PADDED)
        return make_input(t, b, name, c->type, shape, index, order);
    Shape cut = *shape;
    cut.dim[0]--;
    Node *n = make_input(t, b, name, c->type, &cut, index, order);
    Attrs a;
    attrs_default(op_info(OP_PAD)->attrs, &a);
    const int64_t start[MAX_RANK] = {1}, step[MAX_RANK] = {1, 1};
    a.slice.start = ints_of(shape->rank, start);
    a.slice.step = ints_of(shape->rank, step);
    a.slice.size = ints_of(shape->rank, shape->dim);
    return build(b, OP_PAD, &a, 1, &n);
}

static Node *make_epilogue(Builder *b, Epilogue kind, Node *sum, Node *bias)
{
    if (kind == PLAIN || kind == PADDED)
        return sum;
    if (kind == BIAS_RELU)
        return build1(b, OP_RELU, build2(b, OP_ADD, sum, bias));
    Node *t = build1(b, OP_TANH, build2(b, OP_ADD, build2(b, OP_MUL, sum, sum), bias));
    return build2(b, OP_MUL, t, bias);
}

static void add_store(Built *t, Node *value, int index, const char *order)
{
    Buffer *to = &t->buffer[3 + index];
    *to = input_buffer(value, index, order);
    to->space = BUF_OUTPUT;
    t->kernel.stores[index] = (Store){value, to, NULL};
    t->kernel.n_stores = index + 1;
    t->entry.buffer[value->id] = to;
}

static Built build_case(const Case *c)
{
    Built t = {.arena = arena_new()};
    Module *m = module_new(t.arena, diag_new(t.arena, &(DiagOptions){0}), "m");
    Graph *g = graph_new(m, ENTRY_TRAIN);
    Builder b = {g, SRC_NONE, NULL};
    EinsumSpec s;
    einsum_parse(c->spec, &s);
    const Shape sa = shape_of(s.n_a, c->a), sb = shape_of(s.n_b, c->b);
    Node *x = make_operand(&t, &b, c, "a", &sa, 0, c->order_a);
    Node *y = make_operand(&t, &b, c, "b", &sb, 1, c->order_b);
    t.sum = build_einsum(&b, x, y, c->spec);
    t.sum->attrs.einsum.chunk = c->chunk;
    const Shape *out = &t.sum->type.shape;
    const Shape row = shape_of(1, &out->dim[out->rank - 1]);
    Node *bias = make_input(&t, &b, "bias", c->type, &row, 2, NULL);
    t.result = make_epilogue(&b, c->epilogue, t.sum, bias);
    t.entry = (EntryPlan){.graph = g, .kernels = &t.kernel, .n_kernels = 1};
    t.entry.buffer = arena_array(t.arena, (size_t)g->n_nodes, sizeof(Buffer *));
    t.kernel = (Kernel){.kind = KERNEL_CONTRACT, .name = "k", .space = *out, .contract = t.sum};
    t.kernel.stores = arena_array(t.arena, 2, sizeof(Store));
    for (int i = 0; i < out->rank; i++)
        t.kernel.order[i] = c->order_out ? c->order_out[i] - '0' : i;
    t.kernel.vector = t.kernel.order[out->rank - 1];
    add_store(&t, t.result, 0, c->order_out);
    if (c->epilogue == LONG)
        add_store(&t, t.sum, 1, c->order_out);
    t.plan = (Plan){.module = m, .entries = &t.entry, .n_entries = 1};
    return t;
}

/* void name(ptr table): calls the kernel with the table's pointers. */
static void add_caller(Native *n, LLVMValueRef kernel, int64_t n_work, const char *name)
{
    LLVMTypeRef ptr = LLVMPointerTypeInContext(n->context, 0);
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(n->context), &ptr, 1, false);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(n->context);
    LLVMValueRef f = LLVMAddFunction(n->module, name, type);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(n->context);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(n->context, f, "entry"));
    LLVMValueRef args[3] = {LLVMGetParam(f, 0), LLVMConstInt(i64, 0, 0),
                            LLVMConstInt(i64, (uint64_t)n_work, 0)};
    LLVMBuildCall2(b, emit_kernel_type(n->context), kernel, args, 3, "");
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
}

/* Buffers live in the Built: pointers are set when it has its place. */
static void add_kernel(Native *n, Built *t, int vector_bytes, const char *name)
{
    for (int i = 0; i < 3; i++)
        t->entry.buffer[t->in[i]->id] = &t->buffer[i];
    t->entry.buffer[t->result->id] = &t->buffer[3];
    t->kernel.stores[0].to = &t->buffer[3];
    if (t->kernel.n_stores == 2) {
        t->kernel.stores[1].to = &t->buffer[4];
        t->entry.buffer[t->sum->id] = &t->buffer[4];
    }
    t->plan.entries = &t->entry;
    t->entry.kernels = &t->kernel;
    int *number = arena_array(t->arena, (size_t)t->entry.graph->n_nodes + 1, sizeof *number);
    kernel_places(t->arena, &t->entry, &t->kernel, number, &t->places);
    const CodegenOptions options = {0};
    Emit e = {.arena = t->arena,
              .options = &options,
              .context = n->context,
              .module = n->module,
              .plan = &t->plan,
              .vector_bytes = vector_bytes,
              .optimize = 2};
    e.builder = LLVMCreateBuilderInContext(n->context);
    char inner[40];
    snprintf(inner, sizeof inner, "%s.kernel", name);
    LLVMValueRef f = emit_kernel(&e, &t->entry, &t->kernel, &t->places, inner);
    add_caller(n, f, e.n_work, name);
    LLVMDisposeBuilder(e.builder);
}

/* ---- memory and the reference ---- */

typedef struct Data {
    void *in[3], *out[2];
} Data;

static double value_at(const void *p, DType t, int64_t i)
{
    return t == DT_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void set_value(void *p, DType t, int64_t i, double v)
{
    if (t == DT_F64)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

static void fill(void *p, DType t, int64_t n)
{
    uint32_t s = 12345;
    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        set_value(p, t, i, (double)(int32_t)s * 0x1p-31);
    }
}

static int64_t extent_of(const Built *t, const EinsumSpec *s, char letter)
{
    return einsum_extent(s, &t->sum->in[0]->type.shape, &t->sum->in[1]->type.shape, letter);
}

/* Offset in an operand (or the result) for index by letter. */
static int64_t offset_of(const Buffer *b, const char *letters, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < b->shape.rank; i++)
        at += index[letters[i] - 'a'] * b->stride[i];
    return at;
}

static double operand_at(const Built *t, const Case *c, const Data *d, int which,
                         const char *letters, const int64_t *index)
{
    const Buffer *b = &t->buffer[which];
    const int64_t at = offset_of(b, letters, index);
    if (c->epilogue != PADDED)
        return value_at(d->in[which], c->type, at);
    return index[letters[0] - 'a'] ? value_at(d->in[which], c->type, at - b->stride[0]) : 0;
}

static double chain(DType t, double a, double b, double c)
{
    return t == DT_F64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

static double plus(DType t, double a, double b)
{
    return t == DT_F64 ? a + b : (double)((float)a + (float)b);
}

static int summed_letters(const EinsumSpec *s, char *letters)
{
    int n = 0;
    for (int i = 0; i < s->n_a; i++)
        if (!memchr(s->out, s->a[i], (size_t)s->n_out))
            letters[n++] = s->a[i];
    return n;
}

static double reference(const Built *t, const Case *c, const EinsumSpec *s, const Data *d,
                        int64_t *index)
{
    char k[MAX_RANK];
    const int n = summed_letters(s, k);
    int64_t steps = 1;
    for (int i = 0; i < n; i++)
        steps *= extent_of(t, s, k[i]);
    /* The innermost letter along which a chunk fits is cut; `whole`: steps of it and the letters
     * inside. */
    int64_t inner = 1, whole = extent_of(t, s, k[n - 1]);
    for (int i = n - 2; i >= 0 && whole < c->chunk; i--) {
        inner = whole;
        whole *= extent_of(t, s, k[i]);
    }
    const int64_t chunk = c->chunk / inner > 1 ? c->chunk / inner * inner : inner;
    double total = 0, sum = 0;
    for (int64_t step = 0; step < steps; step++) {
        int64_t rest = step;
        for (int i = n - 1; i >= 0; rest /= extent_of(t, s, k[i]), i--)
            index[k[i] - 'a'] = rest % extent_of(t, s, k[i]);
        const double a = operand_at(t, c, d, 0, s->a, index);
        const double b = operand_at(t, c, d, 1, s->b, index);
        sum = chain(c->type, a, b, sum);
        const bool end = (step % whole + 1) % chunk == 0 || step % whole + 1 == whole;
        if (c->chunk && end) {
            total = plus(c->type, total, sum);
            sum = 0;
        }
    }
    return c->chunk ? total : sum;
}

static int check_values(const Built *t, const Case *c, const Data *d)
{
    EinsumSpec s;
    einsum_parse(c->spec, &s);
    const Shape *out = &t->sum->type.shape;
    for (int64_t n = 0; n < shape_count(out); n++) {
        int64_t index[26] = {0}, rest = n;
        for (int i = out->rank - 1; i >= 0; rest /= out->dim[i], i--)
            index[s.out[i] - 'a'] = rest % out->dim[i];
        const double sum = reference(t, c, &s, d, index);
        const double bias = value_at(d->in[2], c->type, index[s.out[out->rank - 1] - 'a']);
        const double got = value_at(d->out[0], c->type, offset_of(&t->buffer[3], s.out, index));
        double want = sum, tolerance = 0;
        if (c->epilogue == BIAS_RELU)
            want = fmax(plus(c->type, sum, bias), 0);
        if (c->epilogue == LONG) {
            want = tanh(sum * sum + bias) * bias;
            tolerance = c->type == DT_F64 ? 1e-14 : 2e-6;
            if (value_at(d->out[1], c->type, offset_of(&t->buffer[4], s.out, index)) != sum)
                return printf("FAILED %s: second store, element %d\n", c->spec, (int)n), 1;
        }
        if (!(fabs(got - want) <= tolerance))
            return printf("FAILED %s: element %d is %.9g, not %.9g\n", c->spec, (int)n, got,
                          want),
                   1;
    }
    return 0;
}

static Data make_data(const Built *t)
{
    Data d;
    for (int i = 0; i < 3; i++) {
        d.in[i] = aligned_alloc(64, ((size_t)t->buffer[i].bytes + 127) / 64 * 64);
        fill(d.in[i], t->buffer[i].dtype, t->buffer[i].bytes / dtype_bytes(t->buffer[i].dtype));
    }
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)t->buffer[3].bytes + GUARD;
        d.out[i] = aligned_alloc(64, (bytes + 63) / 64 * 64);
        memset(d.out[i], 0x5a, bytes);
    }
    return d;
}

static void free_data(const Data *d)
{
    for (int i = 0; i < 3; i++)
        free(d->in[i]);
    for (int i = 0; i < 2; i++)
        free(d->out[i]);
}

/* The pointers in the order of the kernel's places. */
static void fill_table(const Built *t, const Data *d, void **table)
{
    for (int i = 0; i < t->places.n; i++) {
        const Buffer *b = t->places.place[i].buffer;
        table[i] = b->space == BUF_OUTPUT ? d->out[b->index] : d->in[b->index];
    }
}

static int guards_whole(const Built *t, const Data *d)
{
    for (int o = 0; o < t->kernel.n_stores; o++)
        for (int i = 0; i < GUARD; i++)
            if (((unsigned char *)d->out[o])[t->buffer[3].bytes + i] != 0x5a)
                return 0;
    return 1;
}

static int check_all(const char *march, int vector_bytes)
{
    Native n = native_new(march);
    Built built[COUNT(cases)];
    char name[32];
    int failures = 0;
    for (int i = 0; i < COUNT(cases); i++) {
        built[i] = build_case(&cases[i]);
        snprintf(name, sizeof name, "case%d", i);
        add_kernel(&n, &built[i], vector_bytes, name);
    }
    native_link(&n);
    for (int i = 0; i < COUNT(cases); i++) {
        snprintf(name, sizeof name, "case%d", i);
        KernelFn *k;
        *(void **)&k = native_symbol(&n, name);
        const Data d = make_data(&built[i]);
        void *table[COUNT_PLACES];
        fill_table(&built[i], &d, table);
        k(table);
        failures += check_values(&built[i], &cases[i], &d);
        if (!guards_whole(&built[i], &d))
            failures++, printf("FAILED %s: wrote behind the result\n", cases[i].spec);
        free_data(&d);
        arena_free(built[i].arena);
    }
    native_free(&n);
    return failures;
}

/* ---- speed ---- */

/* 24 independent chains of multiply-adds: double peak(i64 turns). */
static void add_peak(Native *n, int lanes)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(n->context),
                f32 = LLVMFloatTypeInContext(n->context);
    LLVMTypeRef v = LLVMVectorType(f32, (unsigned)lanes);
    LLVMValueRef f = LLVMAddFunction(n->module, "peak",
                                     LLVMFunctionType(f32, (LLVMTypeRef[]){i64, f32}, 2, 0));
    LLVMBuilderRef b = LLVMCreateBuilderInContext(n->context);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(n->context, f, "entry");
    LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(n->context, f, "body");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(n->context, f, "done");
    enum {
        CHAINS = 12
    };
    LLVMValueRef phi[CHAINS], next[CHAINS];
    LLVMPositionBuilderAtEnd(b, entry);
    LLVMValueRef x = LLVMConstNull(v);
    for (int i = 0; i < lanes; i++)
        x = LLVMBuildInsertElement(b, x, LLVMGetParam(f, 1), LLVMConstInt(i64, (unsigned)i, 0),
                                   "");
    LLVMBuildBr(b, body);
    LLVMPositionBuilderAtEnd(b, body);
    LLVMValueRef i = LLVMBuildPhi(b, i64, "");
    for (int c = 0; c < CHAINS; c++)
        phi[c] = LLVMBuildPhi(b, v, "");
    for (int c = 0; c < CHAINS; c++)
        next[c] = scalar_emit(b, SC_FMA, DT_F32, DT_F32, (LLVMValueRef[]){x, x, phi[c]});
    LLVMValueRef j = LLVMBuildAdd(b, i, LLVMConstInt(i64, 1, 0), "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, j, LLVMGetParam(f, 0), ""), body, done);
    LLVMBasicBlockRef from[] = {entry, body};
    LLVMAddIncoming(i, (LLVMValueRef[]){LLVMConstInt(i64, 0, 0), j}, from, 2);
    for (int c = 0; c < CHAINS; c++)
        LLVMAddIncoming(phi[c], (LLVMValueRef[]){LLVMConstNull(v), next[c]}, from, 2);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMValueRef sum = next[0];
    for (int c = 1; c < CHAINS; c++)
        sum = scalar_emit(b, SC_ADD, DT_F32, DT_F32, (LLVMValueRef[]){sum, next[c]});
    LLVMBuildRet(b, LLVMBuildExtractElement(b, sum, LLVMConstInt(i64, 0, 0), ""));
    LLVMDisposeBuilder(b);
}

static double measure_peak(const Native *n, int lanes)
{
    float (*peak)(int64_t, float);
    *(void **)&peak = native_symbol(n, "peak");
    double best = 0;
    for (int r = 0; r < 5; r++) {
        const double start = native_now();
        volatile float sink = peak(1000000, 0.5f);
        (void)sink;
        const double rate = 12e6 * 2 * lanes / (native_now() - start) * 1e-9;
        best = rate > best ? rate : best;
    }
    return best;
}

static void print_speed(const Native *n, int lanes, const Built *t, const char *name,
                        const Case *c)
{
    KernelFn *k;
    *(void **)&k = native_symbol(n, name);
    const Data d = make_data(t);
    void *table[COUNT_PLACES];
    fill_table(t, &d, table);
    EinsumSpec s;
    einsum_parse(c->spec, &s);
    double flop = 2.0 * (double)shape_count(&t->sum->type.shape);
    char letters[MAX_RANK];
    for (int i = 0, e = summed_letters(&s, letters); i < e; i++)
        flop *= (double)extent_of(t, &s, letters[i]);
    const int times = 1 + (int)(2e8 / flop);
    double best = 0, peak = 0;
    for (int r = 0; r < 7; r++) {
        const double p = measure_peak(n, lanes);
        const double start = native_now();
        for (int i = 0; i < times; i++)
            k(table);
        const double rate = flop * times / (native_now() - start) * 1e-9;
        best = rate > best ? rate : best;
        peak = p > peak ? p : peak;
    }
    printf("  %s [%d,%d] [%d,%d] chunk %d: %.1f GFLOP/s, %.0f %% of %.1f\n", c->spec,
           (int)c->a[0], (int)c->a[1], (int)c->b[0], (int)c->b[1], (int)c->chunk, best,
           100 * best / peak, peak);
    free_data(&d);
}

static void print_speeds(const char *march, int vector_bytes)
{
    Native n = native_new(march);
    Built built[COUNT(speeds)];
    char name[32];
    const double start = native_now();
    for (int i = 0; i < COUNT(speeds); i++) {
        built[i] = build_case(&speeds[i]);
        snprintf(name, sizeof name, "case%d", i);
        add_kernel(&n, &built[i], vector_bytes, name);
    }
    add_peak(&n, vector_bytes / 4);
    native_link(&n);
    printf("-march=%s: %d kernels compiled in %.0f ms\n", march, COUNT(speeds),
           (native_now() - start) * 1e3);
    for (int i = 0; i < COUNT(speeds); i++) {
        snprintf(name, sizeof name, "case%d", i);
        print_speed(&n, vector_bytes / 4, &built[i], name, &speeds[i]);
        arena_free(built[i].arena);
    }
    native_free(&n);
}

int main(int argc, char **argv)
{
    if (!native_can_run()) {
        printf("skipped: this processor has no AVX2\n");
        return 77;
    }
    int failures = check_all("x86-64-v3", 32);
    failures +=
        check_all("x86-64-v3", 64); /* two registers a vector: other tiles, the same bits */
    failures += check_all("native", __builtin_cpu_supports("avx512f") ? 64 : 32);
    if (argc > 1 && !strcmp(argv[1], "-v")) {
        print_speeds("x86-64-v3", 32);
        if (__builtin_cpu_supports("avx512f"))
            print_speeds("native", 64);
    }
    printf("test_contract: %s\n", failures ? "FAILED" : "passed");
    return failures ? 1 : 0;
}
