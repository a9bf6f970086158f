/* Evaluating a node at an index, as C text: reads the operands as ir/reading.h says, and applies
 * the kind.  The same walk as the CPU back end's, one element at a time: guards become a
 * condition, inside which the operand is evaluated. */
#include <math.h>

#include "codegen/cuda/cuda.h"
#include "ir/reading.h"

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

Affine cuda_eval_as_index(Cuda *c, const Node *n, const Index *i, int64_t extent)
{
    const char *v = cuda_eval(c, n, i);
    CudaLevel *at = cuda_level_of(c, i);
    const char *clamped =
        cuda_value(c, at, DT_I64,
                   arena_printf(c->arena, "hf_max((i64)0, hf_min((i64)%s, (i64)%lld))", v,
                                (long long)extent - 1));
    return affine_var(cuda_var(c, AFFINE_VAR_VALUE, clamped, extent, at, cuda_axes_of(c, i)));
}

/* ---- operands ---- */

static Affine value_as_index(void *cuda, Node *index, const Index *at, int64_t extent)
{
    return cuda_eval_as_index(cuda, index, at, extent);
}

static const char *guard_text(Cuda *c, const ReadGuard *g)
{
    const char *at = cuda_affine(c, &g->at);
    const char *inside =
        arena_printf(c->arena, "%s >= 0 && %s < %lld", at, at, (long long)g->extent);
    if (g->rest.n == 0 && g->rest.base == 0)
        return inside;
    return arena_printf(c->arena, "%s && %s == 0", inside, cuda_affine(c, &g->rest));
}

/* The operand where all guards hold, elsewhere what is outside. */
static const char *eval_guarded(Cuda *c, const Node *n, const Node *operand, Reading *r,
                                CudaLevel *at)
{
    const char *condition = guard_text(c, r->guards);
    for (const ReadGuard *g = r->guards->next; g; g = g->next)
        condition = arena_printf(c->arena, "%s && %s", condition, guard_text(c, g));
    const char *name = arena_printf(c->arena, "p%d", c->n_values++);
    CudaLevel *back = c->level;
    c->level = at;
    cuda_line(c, at, "%s %s = %s;", cuda_type(n->type.dtype), name,
              cuda_number(c->arena, n->type.dtype, r->outside));
    cuda_push(c, false, arena_printf(c->arena, "if (%s) {", condition));
    for (const ReadGuard *g = r->guards; g; g = g->next)
        r->at.at[g->axis] = affine_var(cuda_bounded(c, &g->at, g->extent));
    const char *v = cuda_eval(c, operand, &r->at);
    cuda_line(c, c->level, "%s = %s;", name, v);
    cuda_pop(c);
    c->level = back;
    return name;
}

/* What element i of n reads of operand k. */
static const char *eval_operand(Cuda *c, const Node *n, int k, const Index *i, CudaLevel *at)
{
    const Reader reader = {&c->space, value_as_index, c};
    Reading r;
    node_read(&reader, n, k, i, &r);
    return r.guards ? eval_guarded(c, n, n->in[k], &r, at) : cuda_eval(c, n->in[k], &r.at);
}

/* ---- kinds ---- */

static const char *eval_random(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    const Affine flat = index_flatten(&c->space, &n->type.shape, i);
    const char *seed = eval_operand(c, n, 0, i, at), *step = eval_operand(c, n, 1, i, at);
    return arena_printf(c->arena, "hf_philox((u64)%s, (u64)%s, 0x%llxull, (u64)(%s))", seed,
                        step, (unsigned long long)path_hash(n->attrs.random.path),
                        cuda_affine(c, &flat));
}

static const char *eval_index(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    switch ((IndexKind)op_info(n->op)->data) {
    case INDEX_IOTA:
        return cuda_value(c, at, DT_I64, cuda_affine(c, &i->at[n->attrs.iota.dim]));
    case INDEX_RANDOM:
        return cuda_value(c, at, DT_I64, eval_random(c, n, i, at));
    case INDEX_PAD:
    case INDEX_UNWINDOW:
    case INDEX_GATHER:
        break;
    }
    return eval_operand(c, n, 0, i, at);
}

static const char *eval_expr(Cuda *c, const Node *n, const Index *i, CudaLevel *at)
{
    const char *x[3] = {0};
    for (int k = 0; k < n->n_in; k++)
        x[k] = eval_operand(c, n, k, i, at);
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
    case KIND_VIEW:
    case KIND_SCATTER:
        return eval_operand(c, n, 0, i, at);
    case KIND_INDEX:
        return eval_index(c, n, i, at);
    case KIND_REDUCE:
        return cuda_reduce(c, n, i, at);
    case KIND_LEAF:
    case KIND_CONTRACT:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    diag_internal(NULL, "%%%s (%s) cannot be computed inside kernel %s of @%s", n->name,
                  op_info(n->op)->text, c->kernel->name, c->entry->graph->name);
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
