/* A planned program as CUDA C: for each entry, in order of execution, one function per expression kernel and one
 * comment per cuBLAS call.
 *
 * Threads: one per point of the axes over which no reduction of the kernel goes; the others are loops in the
 * thread.  A reduction is one thread's chain: right, and fast enough for rows; reductions over long axes want a
 * block each, which comes with running on a GPU. */
#include "codegen/codegen.h"
#include "codegen/cuda/cuda.h"

#include <ctype.h>
#include <string.h>

static const char *c_name(Arena *a, const char *name)
{
    char *s = arena_strdup(a, name);
    for (char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p))
            *p = '_';
    return s;
}

/* Axes that some reduction inside the kernel runs over: loops in the thread. */
static void find_loops(const Cuda *c, const Kernel *k, bool *loop)
{
    int n;
    Node **body = kernel_body(c->entry, k, c->arena, &n);
    memset(loop, 0, MAX_RANK * sizeof *loop);
    for (int i = 0; i < n; i++) {
        const Shape *s = &body[i]->type.shape;
        if (op_info(body[i]->op)->kind != KIND_REDUCE || s->rank != k->space.rank)
            continue;
        for (int d = 0; d < s->rank; d++)
            loop[d] |= s->dim[d] != k->space.dim[d];
    }
}

static Index store_index(const Store *s, const Index *space)
{
    Index i = {.rank = s->value->type.shape.rank};
    if (i.rank == space->rank)
        i = index_broadcast(&s->value->type.shape, space);
    return i;
}

/* The loops around are written out by the host, which hands their counters to the kernels. */
static const char *round_parameters(const Cuda *c)
{
    const char *s = "";
    for (int i = 1; i <= c->entry->graph->depth; i++)
        s = arena_printf(c->arena, "%s, i64 round%d", s, i);
    return s;
}

/* "train", "train.h.loop": unlike any other entry's or body's. */
static const char *entry_path(Arena *a, const EntryPlan *e)
{
    const char *s = "";
    for (const Graph *g = e->graph; g; g = g->outer)
        s = arena_printf(a, "%s%s%s", g->owner ? g->owner->name : g->name, *s ? "." : "", s);
    return s;
}

static void print_function(Cuda *c, const Kernel *k, const Buffer *product, int number)
{
    bool loop[MAX_RANK];
    find_loops(c, k, loop);
    cuda_begin(c, k);
    c->product = product;
    cuda_push(c, NULL);
    CudaLevel *root = c->level;
    Index space = {.rank = k->space.rank};
    int64_t threads = 1;
    for (int o = k->space.rank; o-- > 0;) {
        const int d = k->order[o];
        if (loop[d])
            continue;
        const int64_t extent = k->space.dim[d];
        const char *name = arena_printf(c->arena, "i%d", d);
        if (extent > 1)
            cuda_line(c, root, "const i64 %s = t / %lld %% %lld;", name, (long long)threads, (long long)extent);
        space.at[d] = extent > 1 ? affine_var(cuda_var(c, name, extent, root)) : affine_const(0);
        threads *= extent;
    }
    int opened = 0;
    for (int o = 0; o < k->space.rank; o++) {
        const int d = k->order[o];
        if (!loop[d])
            continue;
        const char *name = arena_printf(c->arena, "i%d", d);
        cuda_push(c, arena_printf(c->arena, "for (i64 %s = 0; %s < %lld; %s++) {", name, name, (long long)k->space.dim[d], name));
        space.at[d] = affine_var(cuda_var(c, name, k->space.dim[d], c->level));
        opened++;
    }
    for (int s = 0; s < k->n_stores; s++) {
        const Index i = store_index(&k->stores[s], &space);
        cuda_eval(c, k->stores[s].value, &i); /* all reads before the first write: stores may be in place */
    }
    for (int s = 0; s < k->n_stores; s++) {
        const Index i = store_index(&k->stores[s], &space);
        cuda_store(c, &k->stores[s], &i);
    }
    while (opened--)
        cuda_pop(c);
    text_printf(c->out, "extern \"C\" __global__ void %s_k%d_%s(Frame f, int models%s)\n{\n",
                c_name(c->arena, entry_path(c->arena, c->entry)), number,
                c_name(c->arena, k->name), round_parameters(c));
    text_printf(c->out, "    const i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;\n");
    text_printf(c->out, "    if (t >= %lld || b >= models)\n        return;\n", (long long)threads);
    text_addn(c->out, root->text.s ? root->text.s : "", root->text.len);
    text_add(c->out, "}\n\n");
}

/* Where the call puts its product: a store of the right type; the epilogue then works in place. */
static const Buffer *product_of(const Kernel *k)
{
    for (int i = 0; i < k->n_stores; i++)
        if (k->stores[i].value == k->contract)
            return k->stores[i].to;
    for (int i = 0; i < k->n_stores; i++)
        if (k->stores[i].to->dtype == k->contract->type.dtype && k->stores[i].to->space != BUF_STATE)
            return k->stores[i].to;
    diag_internal(NULL, "contraction %%%s has no store that can take its product", k->contract->name);
}

static bool has_epilogue(const Kernel *k)
{
    return k->n_stores > 1 || k->stores[0].value != k->contract;
}

static void print_tables(Cuda *c, const EntryPlan *e)
{
    for (int i = 0; i < e->graph->n_nodes; i++) {
        const Node *n = e->graph->nodes[i];
        const Buffer *b = e->buffer[n->id];
        if (!b || b->space != BUF_CONST || b->base)
            continue;
        text_printf(c->out, "static __device__ const %s %s[] = {",
                    n->type.dtype == DT_BOOL ? "u8" : cuda_type(n->type.dtype),
                    cuda_table_name(c, b));
        for (int64_t j = 0; j < n->attrs.value.data.n; j++) {
            text_add(c->out, j ? ", " : "");
            text_real(c->out, n->attrs.value.data.v[j]);
        }
        text_add(c->out, "};\n\n");
    }
}

static void print_kernels(Cuda *c);

static void print_loop(Cuda *c, const Kernel *k)
{
    const EntryPlan *entry = c->entry;
    const int depth = k->loop->body->graph->depth;
    text_printf(c->out, "/* for (i64 round%d = 0; round%d < %lld; round%d++) {  loop %%%s, on the host:\n",
                depth, depth, (long long)k->loop->count, depth, k->contract->name);
    text_add(c->out, " * the kernels and calls up to the closing brace, in order, as one stream or graph */\n\n");
    c->entry = k->loop->body;
    print_tables(c, c->entry);
    print_kernels(c);
    c->entry = entry;
    text_printf(c->out, "/* }  end of round%d */\n\n", depth);
}

static void print_kernels(Cuda *c)
{
    const EntryPlan *e = c->entry;
    for (int i = 0; i < e->n_kernels; i++) {
        const Kernel *k = &e->kernels[i];
        if (k->kind == KERNEL_EXPR) {
            print_function(c, k, NULL, i);
        } else if (k->kind == KERNEL_CONTRACT) {
            const Buffer *product = product_of(k);
            cuda_begin(c, k);
            cuda_print_gemm(c, k, product);
            if (has_epilogue(k))
                print_function(c, k, product, i);
            else
                text_add(c->out, "\n");
        } else if (k->kind == KERNEL_LOOP) {
            print_loop(c, k);
        } else {
            diag_internal(NULL, "the CUDA back end cannot print kernel %s yet", k->name);
        }
    }
}

static void print_entry(Cuda *c, const EntryPlan *e)
{
    c->top = c->entry = e;
    text_printf(c->out, "/* ---- %s: %d kernels, %d of them shared ---- */\n\n", e->graph->name, e->n_kernels, e->n_shared);
    print_tables(c, e);
    print_kernels(c);
}

void cuda_print(Arena *a, const Plan *p, Text *out)
{
    Cuda c = {.arena = a, .out = out, .plan = p};
    text_printf(out, "/* %s for %d models: written by hftac.  Order of execution is order in this file. */\n", p->module->name,
                p->module->n_models);
    text_add(out, cuda_preamble);
    text_add(out, "\n");
    for (int i = 0; i < p->n_entries; i++)
        if (strcmp(p->entries[i].graph->name, "init")) /* initial values are computed on the host */
            print_entry(&c, &p->entries[i]);
}
