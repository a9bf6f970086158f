/* Evaluating a node at an index, as C text.  The same walk as the CPU back end's, one element at
 * a time: a `pad` or `unwindow` becomes a condition, inside which its operand is evaluated. */
#include <math.h>

#include "codegen/cuda/cuda.h"
#include "ir/shape.h"

const char *cuda_number(Arena *a, DType t, double v)
{
    if (dtype_class(t) != DTC_REAL) {
        if (v >= 0x1p63)
            return "0x7fffffffffffffffLL";
        return v <= -0x1p63 ? "(-0x7fffffffffffffffLL - 1)"
                            : arena_printf(a, "(%s)%lldLL", cuda_type(t), (long long)v);
    }
    if (isnan(v))
        return t == DT_F32 ? "__int_as_float(0x7fc00000)"
                           : "__longlong_as_double(0x7ff8000000000000LL)";
    if (isinf(v) && t == DT_F32)
        return v < 0 ? "-__int_as_float(0x7f800000)" : "__int_as_float(0x7f800000)";
    if (isinf(v))
        return v < 0 ? "-__longlong_as_double(0x7ff0000000000000LL)"
                     : "__longlong_as_double(0x7ff0000000000000LL)";
    return arena_printf(a, v == floor(v) && fabs(v) < 1e15 ? "(%s)%.1f" : "(%s)%.17g",
                        cuda_type(t), v);
}

const char *cuda_value(Cuda *c, CudaLevel *at, DType t, const char *expression)
{
    const char *name = arena_printf(c->arena, "v%d", c->n_values++);
    cuda_line(c, at, "const %s %s = %s;", cuda_type(t), name, expression);
    return name;
}

static const char *cast_text(Cuda *c, DType from, DType to, const char *v)
{
    return from == to ? v : cuda_scalar(c->arena, SC_CAST, to, (const char *const[]){v});
}

static bool is_immediate(const Node *n)
{
    return n->op == OP_CONST && n->attrs.value.data.n == 1;
}

/* Where n is read; NULL: this kernel computes it, or has it in its text. */
static const Buffer *readable(const Cuda *c, const Node *n)
{
    if (n == c->kernel->contract && c->product)
        return c->product;
    return is_immediate(n) ? NULL : kernel_read(c->entry, c->kernel, n);
}

static uint64_t path_hash(const char *path)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *path; path++)
        h = (h ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    return h;
}

static const char *eval_random(Cuda *c, const Node *n, const Index *i)
{
    const Index none = {0};
    const Affine flat = index_flatten(&c->space, &n->type.shape, i);
    const char *seed = cuda_eval(c, n->in[0], &none), *step = cuda_eval(c, n->in[1], &none);
    return arena_printf(c->arena, "hf_philox((u64)%s, (u64)%s, 0x%llxull, (u64)(%s))", seed,
                        step, (unsigned long long)path_hash(n->attrs.random.path),
                        cuda_affine(c, &flat));
}

Affine cuda_eval_as_index(Cuda *c, const Node *n, const Index *i, int64_t extent)
{
    const char *v = cuda_eval(c, n, i);
    CudaLevel *at = cuda_level_of(c, i);
    const char *clamped =
        cuda_value(c, at, DT_I64,
                   arena_printf(c->arena, "hf_max((i64)0, hf_min((i64)%s, (i64)%lld))", v,
                                (long long)extent - 1));
    return affine_var(cuda_var(c, INDEX_VAR_VALUE, clamped, extent, at, cuda_axes_of(c, i)));
}

static const char *eval_gather(Cuda *c, const Node *n, const Index *i)
{
    const int64_t dim = n->attrs.axis.dim;
    Index j = *i;
    j.at[dim] = cuda_eval_as_index(c, n->in[1], i, n->in[0]->type.shape.dim[dim]);
    return cuda_eval(c, n->in[0], &j);
}

/* ---- pad and unwindow ---- */

/* The operand's index along one axis: at, if 0 <= at < extent and rest == 0. */
typedef struct Guard {
    Affine at, rest;
    int64_t extent;
    bool always;
} Guard;

static Guard guard_of(Cuda *c, const Affine *i, int64_t step, int64_t extent)
{
    Guard g = {.at = *i, .extent = extent};
    int64_t lo, hi;
    if (step < 0) {
        g.at = affine_scale(i, -1);
        step = -step;
    }
    if (step > 1) {
        affine_range(&c->space, &g.at, &lo, &hi);
        const int64_t shift = lo < 0 ? (-lo + step - 1) / step : 0;
        const Affine up = affine_plus(&g.at, shift * step);
        affine_split(&c->space, &up, step, &g.at, &g.rest);
        g.at = affine_plus(&g.at, -shift);
    }
    affine_range(&c->space, &g.at, &lo, &hi);
    g.always = lo >= 0 && hi < extent && g.rest.n == 0 && g.rest.base == 0;
    return g;
}

static const char *guard_text(Cuda *c, const Guard *g)
{
    const char *at = cuda_affine(c, &g->at);
    const char *inside =
        arena_printf(c->arena, "%s >= 0 && %s < %lld", at, at, (long long)g->extent);
    if (g->rest.n == 0 && g->rest.base == 0)
        return inside;
    return arena_printf(c->arena, "%s && %s == 0", inside, cuda_affine(c, &g->rest));
}

/* The operand at j, whose axes from `first` on are replaced by what the guards say; elsewhere
 * `value`. */
static const char *eval_guarded(Cuda *c, const Node *n, Index j, const Guard *guard, int first,
                                double value, CudaLevel *at)
{
    const char *condition = NULL;
    for (int k = first; k < j.rank; k++)
        if (!guard[k].always)
            condition = condition ? arena_printf(c->arena, "%s && %s", condition,
                                                 guard_text(c, &guard[k]))
                                  : guard_text(c, &guard[k]);
        else
            j.at[k] = guard[k].at;
    if (!condition)
        return cuda_eval(c, n->in[0], &j);
    const char *name = arena_printf(c->arena, "p%d", c->n_values++);
    CudaLevel *back = c->level;
    c->level = at;
    cuda_line(c, at, "%s %s = %s;", cuda_type(n->type.dtype), name,
              cuda_number(c->arena, n->type.dtype, value));
    cuda_push(c, false, arena_printf(c->arena, "if (%s) {", condition));
    for (int k = first; k < j.rank; k++)
        if (!guard[k].always)
            j.at[k] = affine_var(cuda_bounded(c, &guard[k].at, guard[k].extent));
    const char *v = cuda_eval(c, n->in[0], &j);
    cuda_line(c, c->level, "%s = %s;", name, v);
    cuda_pop(c);
    c->level = back;
    return name;
}

static const char *eval_pad(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    Guard guard[MAX_RANK];
    for (int k = 0; k < i->rank; k++) {
        const Affine from = affine_plus(&i->at[k], -n->attrs.pad.start.v[k]);
        guard[k] = guard_of(c, &from, n->attrs.pad.step.v[k], n->in[0]->type.shape.dim[k]);
    }
    return eval_guarded(c, n, *i, guard, 0, n->attrs.pad.value, at);
}

/* In front the axes of taps, as they are; then i = (p - start - dilation * t) / step. */
static const char *eval_unwindow(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    const Attrs *a = &n->attrs;
    const int rank = a->window.size.n;
    Guard guard[MAX_RANK];
    int tap[MAX_RANK];
    const int taps = window_taps(a, rank, tap);
    for (int k = 0; k < rank; k++) {
        Affine from = affine_plus(&i->at[taps + k], -a->window.start.v[k]);
        if (tap[k] >= 0) {
            const Affine back = affine_scale(&i->at[tap[k]], -a->window.dilation.v[k]);
            from = affine_add(&from, &back);
        }
        guard[taps + k] =
            guard_of(c, &from, a->window.step.v[k], n->in[0]->type.shape.dim[taps + k]);
    }
    return eval_guarded(c, n, *i, guard, taps, 0, at);
}

static const char *eval_index(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    switch (op_info(n->op)->data) {
    case INDEX_IOTA:
        return cuda_value(c, at, DT_I64, cuda_affine(c, &i->at[n->attrs.iota.dim]));
    case INDEX_RANDOM:
        return cuda_value(c, at, DT_I64, eval_random(c, n, i));
    case INDEX_PAD:
        return eval_pad(c, n, i, at);
    case INDEX_UNWINDOW:
        return eval_unwindow(c, n, i, at);
    case INDEX_GATHER:
        return eval_gather(c, n, i);
    default:
        diag_internal(NULL, "%%%s has an unknown index map", n->name);
    }
}

/* ---- */

static const char *eval_expr(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    const char *x[3] = {0};
    for (int k = 0; k < n->n_in; k++) {
        const Index j = index_broadcast(&n->in[k]->type.shape, i);
        x[k] = cuda_eval(c, n->in[k], &j);
    }
    const char *v = cuda_scalar(c->arena, (ScalarFn)op_info(n->op)->data, n->type.dtype, x);
    return cuda_value(c, at, n->type.dtype, v);
}

static const char *load(Cuda *c, const Node *n, const Buffer *b, const Index *i, CudaLevel *at)
{
    CudaTrace *t = &c->trace;
    if (t->n_loads == t->cap_loads)
        t->loads = arena_grow(c->arena, t->loads, &t->cap_loads, sizeof *t->loads);
    t->loads[t->n_loads++] = b;
    return cuda_value(c, at, n->type.dtype,
                      cast_text(c, b->dtype, n->type.dtype, cuda_element(c, b, i)));
}

static const char *compute(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    const Buffer *b = readable(c, n);
    if (b)
        return load(c, n, b, i, at);
    if (is_immediate(n))
        return cuda_number(c->arena, n->type.dtype, n->attrs.value.data.v[0]);
    switch (op_info(n->op)->kind) {
    case KIND_EXPR:
        return eval_expr(c, n, i, at);
    case KIND_VIEW: {
        const Index j = index_view(&c->space, n, i);
        return cuda_eval(c, n->in[0], &j);
    }
    case KIND_INDEX:
        return eval_index(c, n, i, at);
    case KIND_REDUCE:
        return cuda_reduce(c, n, i, at);
    case KIND_SCATTER: /* before anything is added */
        return cuda_eval(c, n->in[0], i);
    default:
        diag_internal(NULL, "%%%s (%s) cannot be computed inside kernel %s of @%s", n->name,
                      op_info(n->op)->text, c->kernel->name, c->entry->graph->name);
    }
}

const char *cuda_eval(Cuda *c, const Node *n, const Index *i)
{
    const Index at = index_broadcast(&n->type.shape, i);
    const char *value = cuda_find(c, n, &at);
    if (value)
        return value;
    value = compute(c, n, &at, cuda_level_of(c, &at));
    cuda_remember(c, n, &at, value);
    return value;
}

void cuda_store(Cuda *c, const Buffer *to, const Index *i, DType from, const char *v)
{
    const Index at = index_broadcast(&to->shape, i);
    cuda_line(c, c->level, "%s = %s;", cuda_element(c, to, &at),
              cast_text(c, from, to->dtype, v));
}
