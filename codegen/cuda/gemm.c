/* A contraction as cuBLAS calls.  cuBLAS is column-major, so row-major C[m, n] = A[m, k] B[k, n] is its
 * C' = B' A': the operand of n comes first.  Letters of one class whose strides nest in every tensor become one
 * dimension; what is left over is the batch (with the models), or calls one after the other. */
#include "codegen/cuda/cuda.h"

#include <string.h>

/* One matrix dimension or batch: extent and strides (elements) in the two operands and the result. */
typedef struct Dim {
    int64_t extent, stride[3];
} Dim;

typedef struct Dims {
    Dim at[MAX_RANK];
    int n;
} Dims;

static const Buffer *operand_strides(Cuda *c, const Node *n, int64_t *stride)
{
    Index i = {.rank = n->type.shape.rank};
    int var[MAX_RANK];
    for (int k = 0; k < i.rank; k++)
        i.at[k] = affine_var(var[k] = cuda_var(c, "", n->type.shape.dim[k], NULL));
    const int rank = i.rank;
    const Node *x = n;
    while (!c->entry->buffer[x->id]) {
        if (op_info(x->op)->kind != KIND_VIEW)
            return NULL;
        i = index_view(&c->space, x, &i);
        x = x->in[0];
    }
    const Buffer *b = c->entry->buffer[x->id];
    const Affine at = index_offset(&c->space, &x->type.shape, b->stride, &i);
    for (int k = 0; k < rank; k++)
        stride[k] = affine_coef(&at, var[k]);
    return b;
}

static bool nests(const Dim *outer, const Dim *inner)
{
    for (int t = 0; t < 3; t++)
        if (outer->stride[t] != inner->stride[t] * inner->extent)
            return false;
    return true;
}

static void add_dim(Dims *d, Dim dim)
{
    if (dim.extent == 1)
        return;
    if (d->n && nests(&d->at[d->n - 1], &dim)) {
        d->at[d->n - 1] = (Dim){.extent = d->at[d->n - 1].extent * dim.extent,
                                .stride = {dim.stride[0], dim.stride[1], dim.stride[2]}};
        return;
    }
    d->at[d->n++] = dim;
}

static const char *place(Cuda *c, const Buffer *b)
{
    static const char *const names[] = {"state", "input", "hyper", "scalar", "seed", "const", "shared", "scratch", "result", "output"};
    return arena_printf(c->arena, "%s \"%s\"", names[b->space], b->name);
}

static long long model_stride(const Cuda *c, const Buffer *b)
{
    if (b->space == BUF_SCRATCH)
        return (long long)(c->top->scratch_bytes / dtype_bytes(b->dtype));
    return b->per_model ? (long long)(b->model_bytes / dtype_bytes(b->dtype)) : 0;
}

/* The leading dimension of a matrix with these strides, and whether cuBLAS sees it transposed. */
static long long leading(const Dim *rows, const Dim *columns, int t, const char **op)
{
    const bool plain = columns->stride[t] == 1 || columns->extent == 1;
    *op = plain ? "CUBLAS_OP_N" : "CUBLAS_OP_T";
    const long long ld = (long long)(plain ? rows : columns)->stride[t];
    return ld > 0 ? ld : (long long)(plain ? columns : rows)->extent;
}

static Dim innermost(const Dims *d)
{
    return d->n ? d->at[d->n - 1] : (Dim){.extent = 1};
}

void cuda_print_gemm(Cuda *c, const Kernel *k, const Buffer *product)
{
    const Node *e = k->contract;
    Contraction x;
    int64_t stride[3][MAX_RANK] = {{0}};
    const Buffer *b[3] = {operand_strides(c, e->in[0], stride[0]), operand_strides(c, e->in[1], stride[1]), product};
    if (!contraction_of(e, NULL, &x) || !b[0] || !b[1])
        diag_internal(NULL, "%%%s is no contraction of stored operands", e->name);
    memcpy(stride[2], product->stride, sizeof stride[2]);
    const int vec = x.vector_operand, bro = 1 - vec;
    Dims d[4] = {{.n = 0}};
    for (int i = 0; i < x.n_out + x.n_sum; i++) {
        const ContractLetter *l = &x.letter[i];
        Dim dim = {.extent = l->extent};
        for (int t = 0; t < 2; t++)
            dim.stride[t] = l->in[t] < 0 ? 0 : stride[t][l->in[t]];
        dim.stride[2] = l->out < 0 ? 0 : stride[2][l->out];
        add_dim(&d[l->cls], dim);
    }
    const Dim m = innermost(&d[LETTER_BROADCAST]), n = innermost(&d[LETTER_VECTOR]), s = innermost(&d[LETTER_SUM]);
    int64_t rest = 1;
    for (int cls = 0; cls < 4; cls++)
        for (int i = 0; i + (cls != LETTER_BATCH) < d[cls].n; i++)
            rest *= d[cls].at[i].extent;
    const char *op_n, *op_m;
    const long long ld_n = leading(&s, &n, vec, &op_n), ld_m = leading(&m, &s, bro, &op_m);
    const bool real64 = e->type.dtype == DT_F64;
    text_printf(c->out, "/* cublas%cgemmStridedBatched(handle, %s, %s, m = %lld, n = %lld, k = %lld, alpha = 1,\n", real64 ? 'D' : 'S', op_n,
                op_m, (long long)n.extent, (long long)m.extent, (long long)s.extent);
    text_printf(c->out, " *     A = %s, lda = %lld, strideA = %lld,\n", place(c, b[vec]), ld_n, model_stride(c, b[vec]));
    text_printf(c->out, " *     B = %s, ldb = %lld, strideB = %lld, beta = 0,\n", place(c, b[bro]), ld_m, model_stride(c, b[bro]));
    text_printf(c->out, " *     C = %s, ldc = %lld, strideC = %lld, batchCount = %d)", place(c, product),
                (long long)(m.stride[2] ? m.stride[2] : n.extent), model_stride(c, product), k->per_model ? c->plan->module->n_models : 1);
    if (rest > 1)
        text_printf(c->out, ", one call for each of %lld matrices", (long long)rest);
    text_printf(c->out, "\n *   form %s: ", e->form == FORM_WIDE ? "wide" : e->form == FORM_BATCHED ? "batched" : "shared");
    text_printf(c->out, "%%%s = einsum %%%s, %%%s spec=\"%s\" */\n", e->name, e->in[0]->name, e->in[1]->name, e->attrs.einsum.spec);
}
