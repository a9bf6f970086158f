/* Kernels as functions: which axes are threads, which are loops, and the order of reading and
 * writing.
 *
 * A first evaluation, whose text is thrown away, tells what the kernel reads and which axes its
 * reductions run over. Axes on which a reduction's result, or a store in place, does not depend
 * are loops; the points of all others are threads.  Where loops or reductions are long a block
 * works on one point: it goes through the innermost loop, and through reductions, in strides.  At
 * each depth all values are computed first, then the inner loops run, then what stands there is
 * stored. */
#include <stdarg.h>

#include "codegen/cuda/cuda.h"

enum {
    LONG = 64,  /* elements for which a block pays */
    BLOCK = 256 /* threads; HF_BLOCK of the preamble */
};

typedef struct Nest {
    Cuda *c;
    const Kernel *k;
    bool loop[MAX_RANK];
    int n_loops, axis[MAX_RANK]; /* in order */
    bool flat;                   /* one loop over all of them */
    int64_t longest;
    Index at;
    const char **value; /* by store */
} Nest;

static int64_t extent(const Kernel *k, int axis)
{
    return k->space.dim[axis];
}

static unsigned long_axes(const Shape *s)
{
    unsigned axes = 0;
    for (int d = 0; d < s->rank; d++)
        axes |= s->dim[d] > 1 ? 1u << d : 0;
    return axes;
}

/* Axes that the value depends on. */
static unsigned store_axes(const Kernel *k, const Store *s)
{
    const Shape *shape = &s->value->type.shape;
    return shape->rank == k->space.rank ? long_axes(shape) : 0;
}

CudaLevel *cuda_begin_points(Cuda *c, int n_axes, const int *axis, const Shape *shape, Index *i,
                             int64_t *points)
{
    cuda_push(c, c->threads > 0, NULL);
    *points = 1;
    for (int o = n_axes; o-- > 0;) {
        const int d = axis[o];
        const int64_t count = shape->dim[d];
        i->at[d] = affine_const(0);
        if (count == 1)
            continue;
        const char *name = arena_printf(c->arena, "i%d", d);
        const char *number =
            *points > 1 ? arena_printf(c->arena, "t / %lld", (long long)*points) : "t";
        cuda_line(c, c->level, "const i64 %s = %s %% %lld;", name, number, (long long)count);
        i->at[d] = affine_var(cuda_var(c, AFFINE_VAR_LOOP, name, count, c->level, 1u << d));
        *points *= count;
    }
    return c->level;
}

void cuda_step(Cuda *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_printf(c->steps, "%*s%s\n", 4 * (c->indent + 1), "", arena_vprintf(c->arena, fmt, ap));
    va_end(ap);
}

void cuda_end_function(Cuda *c, const char *name, CudaLevel *root, int64_t points,
                       bool per_model)
{
    Text rounds, arguments;
    text_init(&rounds, c->arena);
    text_init(&arguments, c->arena);
    text_add(&rounds, "");
    text_add(&arguments, "");
    for (int d = 1; d <= c->entry->graph->depth; d++) {
        text_printf(&rounds, ", i64 s%d", d);
        text_printf(&arguments, ", s%d", d);
    }
    text_printf(c->out, "extern \"C\" __global__ void %s(Frame f, int models%s)\n{\n", name,
                rounds.s);
    if (c->threads)
        text_add(c->out, "    const i64 t = blockIdx.x, b = blockIdx.y;\n");
    else
        text_add(
            c->out,
            "    const i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;\n");
    text_printf(c->out, "    if (t >= %lld || b >= models)\n        return;\n",
                (long long)points);
    text_addn(c->out, root->text.s ? root->text.s : "", root->text.len);
    text_add(c->out, "}\n\n");
    c->level = NULL;
    const int threads = c->threads ? c->threads : BLOCK;
    const int64_t grid = c->threads ? points : (points + BLOCK - 1) / BLOCK;
    const int models = per_model ? c->plan->module->n_models : 1;
    cuda_step(c, "HF_LAUNCH(%s, %lld, %d, %d, %d, f, %d%s);", name, (long long)grid, threads,
              models, c->threads > 0, models, arguments.s);
}

/* ---- the plan of a function ---- */

static void trace(Nest *n, const Buffer *product)
{
    Cuda *c = n->c;
    cuda_begin(c, n->k);
    c->product = product;
    Index at = {.rank = n->k->space.rank};
    int64_t points;
    cuda_begin_points(c, at.rank, n->k->order, &n->k->space, &at, &points);
    for (int s = 0; s < n->k->n_stores; s++) {
        const Index i = index_broadcast(&n->k->stores[s].value->type.shape, &at);
        cuda_eval(c, n->k->stores[s].value, &i);
    }
    c->level = NULL;
}

static bool in_place(const Cuda *c, const Store *s)
{
    for (int i = 0; i < c->trace.n_loads; i++)
        if (cuda_overlap(c->trace.loads[i], s->to))
            return true;
    return false;
}

static bool is_partial(unsigned axes, unsigned loops)
{
    return (axes & loops) && (axes & loops) != loops;
}

static void choose_loops(Nest *n)
{
    const CudaTrace *t = &n->c->trace;
    const unsigned all = long_axes(&n->k->space);
    unsigned loops = 0;
    for (int r = 0; r < t->n_reductions; r++)
        if (!(t->reductions[r].axes & CUDA_NESTED))
            loops |= all & ~t->reductions[r].axes;
    for (int s = 0; s < n->k->n_stores; s++)
        if (in_place(n->c, &n->k->stores[s]))
            loops |= all & ~store_axes(n->k, &n->k->stores[s]);
    int64_t row = 1;
    n->flat = true;
    n->longest = 1;
    for (int o = 0; o < n->k->space.rank; o++) {
        const int d = n->k->order[o];
        n->loop[d] = loops >> d & 1;
        if (!n->loop[d])
            continue;
        n->axis[n->n_loops++] = d;
        row *= extent(n->k, d);
    }
    for (int r = 0; r < t->n_reductions; r++) {
        const unsigned axes = t->reductions[r].axes;
        n->flat &= !is_partial(axes & ~(unsigned)CUDA_NESTED, loops);
        if (!(axes & (loops | CUDA_NESTED)) && t->reductions[r].count > n->longest)
            n->longest = t->reductions[r].count;
    }
    for (int s = 0; s < n->k->n_stores; s++)
        n->flat &= !is_partial(store_axes(n->k, &n->k->stores[s]), loops);
    n->flat &= n->n_loops > 0;
    const int64_t inner =
        n->flat || n->n_loops == 0 ? row : extent(n->k, n->axis[n->n_loops - 1]);
    if (inner > n->longest)
        n->longest = inner;
}

/* ---- its text ---- */

static int depths(const Nest *n)
{
    return n->flat ? 1 : n->n_loops;
}

static int store_depth(const Nest *n, const Store *s)
{
    const unsigned axes = store_axes(n->k, s);
    int depth = 0;
    for (int l = 0; l < n->n_loops; l++)
        if (axes >> n->axis[l] & 1)
            depth = n->flat ? 1 : l + 1;
    return depth;
}

static const char *loop_head(const Nest *n, const char *name, int64_t count, bool shared_out)
{
    Cuda *c = n->c;
    if (shared_out)
        return arena_printf(c->arena, "for (i64 %s = threadIdx.x; %s < %lld; %s += %d) {", name,
                            name, (long long)count, name, c->threads);
    return arena_printf(c->arena, "for (i64 %s = 0; %s < %lld; %s++) {", name, name,
                        (long long)count, name);
}

static void open_flat(Nest *n)
{
    Cuda *c = n->c;
    Shape row = {.rank = n->n_loops};
    unsigned axes = 0;
    for (int l = 0; l < n->n_loops; l++) {
        row.dim[l] = extent(n->k, n->axis[l]);
        axes |= 1u << n->axis[l];
    }
    const int64_t count = shape_count(&row);
    cuda_push(c, false, loop_head(n, "e", count, c->threads > 0));
    const Affine e = affine_var(cuda_var(c, AFFINE_VAR_LOOP, "e", count, c->level, axes));
    const Index at = index_unflatten(&c->space, &row, NULL, e);
    for (int l = 0; l < n->n_loops; l++)
        n->at.at[n->axis[l]] = at.at[l];
}

static void open_loop(Nest *n, int depth)
{
    Cuda *c = n->c;
    if (n->flat) {
        open_flat(n);
        return;
    }
    const int d = n->axis[depth];
    const bool inner = depth == n->n_loops - 1;
    const char *name = arena_printf(c->arena, "i%d", d);
    cuda_push(c, c->threads && !inner,
              loop_head(n, name, extent(n->k, d), c->threads && inner));
    n->at.at[d] =
        affine_var(cuda_var(c, AFFINE_VAR_LOOP, name, extent(n->k, d), c->level, 1u << d));
}

/* Thread axes that the store does not depend on: the first point of them stores. */
static const char *first_point(const Nest *n, const Store *s)
{
    const unsigned axes = long_axes(&n->k->space) & ~store_axes(n->k, s);
    const char *text = n->c->level->uniform ? "threadIdx.x == 0" : NULL;
    for (int d = 0; d < n->k->space.rank; d++)
        if (axes >> d & 1 && !n->loop[d])
            text = text ? arena_printf(n->c->arena, "%s && i%d == 0", text, d)
                        : arena_printf(n->c->arena, "i%d == 0", d);
    return text;
}

static const char *guarded(Nest *n, const Store *s, const char *v)
{
    const Index at = index_broadcast(&s->to->shape, &n->at);
    if (!s->flag)
        return v;
    return arena_printf(n->c->arena, "hf_guard<%s>(%s, %s, %s)", cuda_type(s->to->dtype), v,
                        cuda_element(n->c, s->to, &at), cuda_buffer(n->c, s->flag));
}

static void write_stores(Nest *n, int depth)
{
    Cuda *c = n->c;
    bool any = false;
    for (int i = 0; i < n->k->n_stores; i++) {
        const Store *s = &n->k->stores[i];
        if (store_depth(n, s) != depth)
            continue;
        if (!any && c->level->uniform)
            cuda_line(c, c->level, "__syncthreads();");
        any = true;
        const char *only = first_point(n, s);
        if (only)
            cuda_push(c, false, arena_printf(c->arena, "if (%s) {", only));
        cuda_store(c, s->to, &n->at, s->value->type.dtype, guarded(n, s, n->value[i]));
        if (only)
            cuda_pop(c);
    }
}

static void print_depth(Nest *n, int depth)
{
    bool deeper = false;
    for (int i = 0; i < n->k->n_stores; i++) {
        const Store *s = &n->k->stores[i];
        const int at = store_depth(n, s);
        const Index index = index_broadcast(&s->value->type.shape, &n->at);
        deeper |= at > depth;
        if (at == depth)
            n->value[i] = cuda_eval(n->c, s->value, &index);
    }
    if (deeper && depth < depths(n)) {
        open_loop(n, depth);
        print_depth(n, depth + 1);
        cuda_pop(n->c);
    }
    write_stores(n, depth);
}

static int block_for(int64_t longest)
{
    int threads = 32;
    if (longest < LONG)
        return 0;
    while (threads < BLOCK && 2 * threads <= longest)
        threads *= 2;
    return threads;
}

void cuda_print_function(Cuda *c, const Kernel *k, const Buffer *product, const char *name)
{
    Nest n = {.c = c, .k = k, .at = {.rank = k->space.rank}};
    n.value = arena_array(c->arena, (size_t)k->n_stores, sizeof *n.value);
    trace(&n, product);
    choose_loops(&n);
    cuda_begin(c, k);
    c->product = product;
    c->threads = block_for(n.longest);
    int axis[MAX_RANK], n_axes = 0;
    for (int o = 0; o < k->space.rank; o++)
        if (!n.loop[k->order[o]])
            axis[n_axes++] = k->order[o];
    int64_t points;
    CudaLevel *root = cuda_begin_points(c, n_axes, axis, &k->space, &n.at, &points);
    print_depth(&n, 0);
    cuda_end_function(c, name, root, points, k->per_model);
}

/* ---- scatter and scan: one thread for each chain ---- */

static void add_update(Cuda *c, const Kernel *k, Index *i, int64_t dim)
{
    const Node *n = k->contract;
    Index to = *i;
    const Index index = index_broadcast(&n->in[1]->type.shape, i);
    to.at[dim] = cuda_eval_as_index(c, n->in[1], &index, n->type.shape.dim[dim]);
    const char *update = cuda_eval(c, n->in[2], i);
    for (int s = 0; s < k->n_stores; s++) {
        const Buffer *b = k->stores[s].to;
        const char *x[2] = {cuda_element(c, b, &to), update};
        if (b->dtype != n->type.dtype)
            x[0] = cuda_scalar(c->arena, SC_CAST, n->type.dtype, x);
        cuda_store(c, b, &to, n->type.dtype,
                   arena_printf(c->arena, "(%s)(%s)", cuda_type(n->type.dtype),
                                cuda_scalar(c->arena, SC_ADD, n->type.dtype, x)));
    }
}

static void add_element(Cuda *c, const Kernel *k, Index *i)
{
    const Node *n = k->contract;
    const char *v = cuda_eval(c, n->in[0], i);
    cuda_line(c, c->level, "sum += %s;", v);
    for (int s = 0; s < k->n_stores; s++)
        cuda_store(c, k->stores[s].to, i, n->type.dtype, "sum");
}

/* The loop along `dim` for each point of the other axes of `space`. */
static void print_chains(Cuda *c, const Kernel *k, const Shape *space, int64_t dim, bool scan,
                         const char *name)
{
    int axis[MAX_RANK], n_axes = 0;
    Index i = {.rank = space->rank};
    for (int d = 0; d < space->rank; d++)
        if (d != dim)
            axis[n_axes++] = d;
    cuda_begin(c, k);
    int64_t points;
    CudaLevel *root = cuda_begin_points(c, n_axes, axis, space, &i, &points);
    if (scan)
        cuda_line(c, root, "%s sum = 0;", cuda_type(k->contract->type.dtype));
    cuda_push(
        c, false,
        arena_printf(c->arena, "for (i64 k = 0; k < %lld; k++) {", (long long)space->dim[dim]));
    Affine at =
        affine_var(cuda_var(c, AFFINE_VAR_LOOP, "k", space->dim[dim], c->level, 1u << dim));
    if (scan && k->contract->attrs.scan.reverse) {
        const Affine back = affine_scale(&at, -1);
        at = affine_plus(&back, space->dim[dim] - 1);
    }
    i.at[dim] = at;
    if (scan)
        add_element(c, k, &i);
    else
        add_update(c, k, &i, dim);
    cuda_pop(c);
    cuda_end_function(c, name, root, points, k->per_model);
}

void cuda_print_scatter(Cuda *c, const Kernel *k, const char *name)
{
    const Node *n = k->contract;
    if (op_info(n->op)->data == SCATTER_SCAN) {
        print_chains(c, k, &n->type.shape, n->attrs.scan.dim, true, name);
        return;
    }
    cuda_print_function(c, k, NULL, name); /* the first value of the result */
    print_chains(c, k, &n->in[1]->type.shape, n->attrs.axis.dim, false,
                 arena_printf(c->arena, "%s_add", name));
}
