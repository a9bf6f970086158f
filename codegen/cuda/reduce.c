/* Reductions.  Where all threads of a block are together, each takes every threads-th element of
 * the row-major order of the reduced axes, and the partials are folded in halves; elsewhere one
 * thread goes through them in ascending order.  Both are fixed by the program, so a run's bits
 * are always the same. */
#include "codegen/cuda/cuda.h"
#include "ir/reduction.h"

typedef struct Reduction {
    const Node *operand;
    ReductionWalk walk;
    /* The accumulator's name. */
    const char *acc;
} Reduction;

/* Loops over the reduced axes longer than 1, one in another; returns how many. */
static int open_chain(Cuda *c, Reduction *r)
{
    int opened = 0;
    for (int k = 0; k < r->walk.along.rank; k++) {
        const int64_t count = r->walk.along.dim[k];
        if (count == 1)
            continue;
        const char *name = arena_printf(c->arena, "k%d", c->n_values++);
        cuda_push(c, false,
                  arena_printf(c->arena, "for (i64 %s = 0; %s < %lld; %s++) {", name, name,
                               (long long)count, name));
        r->walk.at.at[r->walk.axis[k]] =
            affine_var(cuda_var(c, AFFINE_VAR_LOOP, name, count, c->level, CUDA_NESTED));
        opened++;
    }
    return opened;
}

/* One loop over all of them in which a thread takes its share. */
static int open_shares(Cuda *c, Reduction *r)
{
    const int64_t count = shape_count(&r->walk.along);
    const char *name = arena_printf(c->arena, "k%d", c->n_values++);
    cuda_push(c, false,
              arena_printf(c->arena, "for (i64 %s = threadIdx.x; %s < %lld; %s += %d) {", name,
                           name, (long long)count, name, c->threads));
    const Affine number =
        affine_var(cuda_var(c, AFFINE_VAR_LOOP, name, count, c->level, CUDA_NESTED));
    const Index at = index_unflatten(&c->space, &r->walk.along, NULL, number);
    for (int k = 0; k < r->walk.along.rank; k++)
        r->walk.at.at[r->walk.axis[k]] = at.at[k];
    return 1;
}

/* The step of the reduction, applied to two partial results. */
static const char *joined(Cuda *c, const Reduction *r, const char *a, const char *b)
{
    return cuda_scalar(c->arena, r->walk.info->step, r->walk.dtype,
                       (const char *const[]){a, b});
}

static void accumulate(Cuda *c, const Reduction *r)
{
    const char *v = cuda_eval(c, r->operand, &r->walk.at);
    if (r->walk.info->position) {
        Index number = {.rank = r->walk.along.rank};
        for (int k = 0; k < r->walk.along.rank; k++)
            number.at[k] = r->walk.at.at[r->walk.axis[k]];
        const Affine flat = index_flatten(&c->space, &r->walk.along, &number);
        cuda_line(c, c->level, "hf_first(%s, %s_at, %s, (i64)(%s));", r->acc, r->acc, v,
                  cuda_affine(c, &flat));
        return;
    }
    if (r->operand->type.dtype != r->walk.dtype)
        v = cuda_scalar(c->arena, SC_CAST, r->walk.dtype, (const char *const[]){v});
    cuda_line(c, c->level, "%s = %s;", r->acc, joined(c, r, r->acc, v));
}

static void note(Cuda *c, const Reduction *r, const Index *i)
{
    CudaTrace *t = &c->trace;
    if (t->n_reductions == t->cap_reductions)
        t->reductions =
            arena_grow(c->arena, t->reductions, &t->cap_reductions, sizeof *t->reductions);
    t->reductions[t->n_reductions++] =
        (struct CudaReduction){cuda_axes_of(c, i), shape_count(&r->walk.along)};
}

const char *cuda_reduce(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    Reduction r = {.operand = n->in[0],
                   .walk = reduction_walk(&c->space, n, i),
                   .acc = arena_printf(c->arena, "r%d", c->n_values++)};
    const bool arg = r.walk.info->position;
    const bool together = c->threads && at->uniform && shape_count(&r.walk.along) > 1;
    CudaLevel *back = c->level;
    note(c, &r, i);
    c->level = at;
    cuda_line(
        c, at, "%s %s = %s;", cuda_type(r.walk.dtype), r.acc,
        cuda_number(c->arena, r.walk.dtype, reduction_identity(r.walk.info, r.walk.dtype)));
    if (arg)
        cuda_line(c, at, "i64 %s_at = 0x7fffffffffffffffLL;", r.acc);
    const int opened = together ? open_shares(c, &r) : open_chain(c, &r);
    accumulate(c, &r);
    for (int k = 0; k < opened; k++)
        cuda_pop(c);
    if (together && arg)
        cuda_line(c, at, "hf_block_first(%s, %s_at);", r.acc, r.acc);
    else if (together)
        cuda_line(c, at, "%s = hf_block(%s, [](%s a, %s b) { return %s; });", r.acc, r.acc,
                  cuda_type(r.walk.dtype), cuda_type(r.walk.dtype), joined(c, &r, "a", "b"));
    c->level = back;
    return arg ? arena_printf(c->arena, "%s_at", r.acc) : r.acc;
}
