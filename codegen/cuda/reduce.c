/* Reductions.  Where all threads of a block are together, each takes every threads-th element of
 * the row-major order of the reduced axes, and the partials are folded in halves; elsewhere one
 * thread goes through them in ascending order.  Both are fixed by the program, so a run's bits
 * are always the same. */
#include <math.h>

#include "codegen/cuda/cuda.h"
#include "ir/reading.h"

typedef struct Reduction {
    const Node *node, *operand;
    int kind;    /* RED_* */
    DType dtype; /* of the accumulator; argmax: of the operand */
    Index at;    /* of the operand */
    Shape along; /* reduced axes */
    int axis[MAX_RANK];
    const char *acc;
} Reduction;

static double identity(int kind, DType t)
{
    const bool real = dtype_class(t) == DTC_REAL;
    const double top = real           ? INFINITY
                       : t == DT_I32  ? INT32_MAX
                       : t == DT_U8   ? UINT8_MAX
                       : t == DT_BOOL ? 1
                                      : 0x1p63;
    const double bottom = real                         ? -INFINITY
                          : t == DT_I32                ? INT32_MIN
                          : t == DT_U8 || t == DT_BOOL ? 0
                                                       : -0x1p63;
    return kind == RED_SUM ? 0 : kind == RED_MIN ? top : bottom;
}

static Reduction reduction_of(Cuda *c, const Node *n, const Index *i)
{
    Reduction r = {.node = n, .operand = n->in[0], .kind = op_info(n->op)->data};
    const Shape *from = &r.operand->type.shape;
    const unsigned reduced = reduced_axes(n);
    const Reader reader = {.space = &c->space};
    Reading operand;
    node_read(&reader, n, 0, i, &operand);
    r.at = operand.at;
    r.dtype = r.kind == RED_ARGMAX ? r.operand->type.dtype : n->type.dtype;
    for (int k = 0; k < from->rank; k++) {
        if (!(reduced >> k & 1))
            continue;
        r.axis[r.along.rank] = k;
        r.along.dim[r.along.rank++] = from->dim[k];
    }
    r.acc = arena_printf(c->arena, "r%d", c->n_values++);
    return r;
}

/* Loops over the reduced axes longer than 1, one in another; returns how many. */
static int open_chain(Cuda *c, Reduction *r)
{
    int opened = 0;
    for (int k = 0; k < r->along.rank; k++) {
        const int64_t count = r->along.dim[k];
        if (count == 1)
            continue;
        const char *name = arena_printf(c->arena, "k%d", c->n_values++);
        cuda_push(c, false,
                  arena_printf(c->arena, "for (i64 %s = 0; %s < %lld; %s++) {", name, name,
                               (long long)count, name));
        r->at.at[r->axis[k]] =
            affine_var(cuda_var(c, AFFINE_VAR_LOOP, name, count, c->level, CUDA_NESTED));
        opened++;
    }
    return opened;
}

/* One loop over all of them in which a thread takes its share. */
static int open_shares(Cuda *c, Reduction *r)
{
    const int64_t count = shape_count(&r->along);
    const char *name = arena_printf(c->arena, "k%d", c->n_values++);
    cuda_push(c, false,
              arena_printf(c->arena, "for (i64 %s = threadIdx.x; %s < %lld; %s += %d) {", name,
                           name, (long long)count, name, c->threads));
    const Affine number =
        affine_var(cuda_var(c, AFFINE_VAR_LOOP, name, count, c->level, CUDA_NESTED));
    const Index at = index_unflatten(&c->space, &r->along, NULL, number);
    for (int k = 0; k < r->along.rank; k++)
        r->at.at[r->axis[k]] = at.at[k];
    return 1;
}

static const char *const joins[] = {[RED_SUM] = "Sum", [RED_MAX] = "Max", [RED_MIN] = "Min"};

static void accumulate(Cuda *c, const Reduction *r)
{
    const char *v = cuda_eval(c, r->operand, &r->at);
    if (r->kind == RED_ARGMAX) {
        Index number = {.rank = r->along.rank};
        for (int k = 0; k < r->along.rank; k++)
            number.at[k] = r->at.at[r->axis[k]];
        const Affine flat = index_flatten(&c->space, &r->along, &number);
        cuda_line(c, c->level, "hf_first(%s, %s_at, %s, (i64)(%s));", r->acc, r->acc, v,
                  cuda_affine(c, &flat));
        return;
    }
    if (r->operand->type.dtype != r->dtype)
        v = cuda_scalar(c->arena, SC_CAST, r->dtype, (const char *const[]){v});
    cuda_line(c, c->level, "%s = Hf%s::join<%s>(%s, %s);", r->acc, joins[r->kind],
              cuda_type(r->dtype), r->acc, v);
}

static void note(Cuda *c, const Reduction *r, const Index *i)
{
    CudaTrace *t = &c->trace;
    if (t->n_reductions == t->cap_reductions)
        t->reductions =
            arena_grow(c->arena, t->reductions, &t->cap_reductions, sizeof *t->reductions);
    t->reductions[t->n_reductions++] =
        (struct CudaReduction){cuda_axes_of(c, i), shape_count(&r->along)};
}

const char *cuda_reduce(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    Reduction r = reduction_of(c, n, i);
    const bool arg = r.kind == RED_ARGMAX;
    const bool together = c->threads && at->uniform && shape_count(&r.along) > 1;
    CudaLevel *back = c->level;
    note(c, &r, i);
    c->level = at;
    cuda_line(c, at, "%s %s = %s;", cuda_type(r.dtype), r.acc,
              cuda_number(c->arena, r.dtype, identity(r.kind, r.dtype)));
    if (arg)
        cuda_line(c, at, "i64 %s_at = 0x7fffffffffffffffLL;", r.acc);
    const int opened = together ? open_shares(c, &r) : open_chain(c, &r);
    accumulate(c, &r);
    for (int k = 0; k < opened; k++)
        cuda_pop(c);
    if (together && arg)
        cuda_line(c, at, "hf_block_first(%s, %s_at);", r.acc, r.acc);
    else if (together)
        cuda_line(c, at, "%s = hf_block<Hf%s>(%s);", r.acc, joins[r.kind], r.acc);
    c->level = back;
    return arg ? arena_printf(c->arena, "%s_at", r.acc) : r.acc;
}
