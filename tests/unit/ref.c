/* The reference for values of the IR; see ref.h.  One function per kind of operator, each a loop
 * over the result's elements. */
#include "tests/unit/ref.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/loop.h"
#include "ir/shape.h"

typedef struct Eval {
    Arena *arena;
    const Graph *graph;
    const RefWorld *world;
    double **value;           /* by node id */
    double ***result;         /* by node id, of loops: the values of their results */
    const double *const *arg; /* in a loop's body: what each argument is in this round */
} Eval;

_Noreturn static void fail(const Node *n, const char *what)
{
    fprintf(stderr, "ref: %%%s = %s: %s\n", n->name, op_info(n->op)->text, what);
    exit(1);
}

static const double *operand(const Eval *e, const Node *n, int i)
{
    return e->value[n->in[i]->id];
}

/* Index vector of row-major element i. */
static void unravel(const Shape *s, int64_t i, int64_t *index)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        index[d] = i % s->dim[d];
        i /= s->dim[d];
    }
}

static int64_t ravel(const Shape *s, const int64_t *index)
{
    int64_t at = 0;
    for (int d = 0; d < s->rank; d++)
        at = at * s->dim[d] + index[d];
    return at;
}

/* Position of a result's index in an operand that broadcasts to it. */
static int64_t broadcast(const Shape *x, int rank, const int64_t *index)
{
    int64_t own[MAX_RANK];
    for (int d = 0; d < x->rank; d++)
        own[d] = x->dim[d] == 1 ? 0 : index[d + rank - x->rank];
    return ravel(x, own);
}

/* --- leaves
 * ---------------------------------------------------------------------------------------------- */

static void eval_const(const Node *n, double *out)
{
    const RealList *data = &n->attrs.value.data;
    const int64_t count = shape_count(&n->type.shape);
    for (int64_t i = 0; i < count; i++)
        out[i] = data->v[data->n == 1 ? 0 : i];
}

static void eval_leaf(const Eval *e, const Node *n, double *out)
{
    if (n->op == OP_CONST) {
        eval_const(n, out);
        return;
    }
    if (n->op == OP_ARG) {
        memcpy(out, e->arg[n->attrs.slot.index],
               (size_t)shape_count(&n->type.shape) * sizeof *out);
        return;
    }
    if (n->op == OP_SEED) {
        out[0] = (double)e->world->seed;
        return;
    }
    for (int i = 0; i < e->world->n_bindings; i++) {
        const RefBinding *b = &e->world->bindings[i];
        if (b->op == n->op && !strcmp(b->name, n->attrs.leaf.name)) {
            memcpy(out, b->data, (size_t)shape_count(&n->type.shape) * sizeof *out);
            return;
        }
    }
    fail(n, "no value is bound to it");
}

/* --- expressions
 * ----------------------------------------------------------------------------------------- */

static double sign_of(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static double extreme(double x, double y, bool largest)
{
    if (isnan(x) || isnan(y))
        return NAN;
    return (x < y) == largest ? y : x;
}

static double quotient(double x, double y, bool integer)
{
    if (integer)
        return y == 0 ? 0 : trunc(x / y);
    return x / y;
}

static double floored(double x, double y, bool integer)
{
    return integer && y == 0 ? 0 : floor(x / y);
}

static double remainder_of(double x, double y, bool integer)
{
    if (integer && y == 0)
        return 0;
    const double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static double to_type(DType t, double x)
{
    switch (dtype_class(t)) {
    case DTC_BOOL:
        return x != 0;
    case DTC_INT:
        return trunc(x);
    case DTC_REAL:
        break;
    }
    return x;
}

/* x: one element of each operand, which are of type `t`. */
static double scalar(const Node *n, DType t, const double *x)
{
    const bool integer = dtype_class(t) != DTC_REAL;
    switch ((ScalarFn)op_info(n->op)->data) {
    case SC_ADD:
        return x[0] + x[1];
    case SC_SUB:
        return x[0] - x[1];
    case SC_MUL:
        return x[0] * x[1];
    case SC_DIV:
        return quotient(x[0], x[1], integer);
    case SC_FDIV:
        return floored(x[0], x[1], integer);
    case SC_MOD:
        return remainder_of(x[0], x[1], integer);
    case SC_POW:
        return pow(x[0], x[1]);
    case SC_MIN:
        return extreme(x[0], x[1], false);
    case SC_MAX:
        return extreme(x[0], x[1], true);
    case SC_EQ:
        return x[0] == x[1];
    case SC_NE:
        return x[0] != x[1];
    case SC_LT:
        return x[0] < x[1];
    case SC_LE:
        return x[0] <= x[1];
    case SC_GT:
        return x[0] > x[1];
    case SC_GE:
        return x[0] >= x[1];
    case SC_AND:
        return x[0] != 0 && x[1] != 0;
    case SC_OR:
        return x[0] != 0 || x[1] != 0;
    case SC_NOT:
        return x[0] == 0;
    case SC_WHERE:
        return x[0] != 0 ? x[1] : x[2];
    case SC_FMA:
        return fma(x[0], x[1], x[2]);
    case SC_NEG:
        return -x[0];
    case SC_ABS:
        return fabs(x[0]);
    case SC_SIGN:
        return sign_of(x[0]);
    case SC_FLOOR:
        return floor(x[0]);
    case SC_CEIL:
        return ceil(x[0]);
    case SC_SQRT:
        return sqrt(x[0]);
    case SC_EXP:
        return exp(x[0]);
    case SC_LOG:
        return log(x[0]);
    case SC_EXPM1:
        return expm1(x[0]);
    case SC_LOG1P:
        return log1p(x[0]);
    case SC_SIN:
        return sin(x[0]);
    case SC_COS:
        return cos(x[0]);
    case SC_TANH:
        return tanh(x[0]);
    case SC_ERF:
        return erf(x[0]);
    case SC_SIGMOID:
        return 1 / (1 + exp(-x[0]));
    case SC_RELU:
        return x[0] < 0 ? 0 : x[0];
    case SC_ISFINITE:
        return isfinite(x[0]) != 0;
    case SC_CAST:
        return to_type(n->type.dtype, x[0]);
    case SC_COUNT:
        break;
    }
    fail(n, "an unknown scalar function");
}

static void eval_expr(const Eval *e, const Node *n, double *out)
{
    const Shape *s = &n->type.shape;
    const int64_t count = shape_count(s);
    const DType t = n->in[n->n_in - 1]->type.dtype;
    for (int64_t i = 0; i < count; i++) {
        int64_t index[MAX_RANK];
        double x[3] = {0};
        unravel(s, i, index);
        for (int k = 0; k < n->n_in; k++)
            x[k] = operand(e, n, k)[broadcast(&n->in[k]->type.shape, s->rank, index)];
        out[i] = scalar(n, t, x);
    }
}

/* --- index maps
 * ------------------------------------------------------------------------------------------ */

static int64_t viewed(const Node *n, int64_t i, const int64_t *index)
{
    const Shape *x = &n->in[0]->type.shape;
    int64_t at[MAX_RANK] = {0};
    switch ((ViewKind)op_info(n->op)->data) {
    case VIEW_EXPAND:
        return broadcast(x, n->type.shape.rank, index);
    case VIEW_PERMUTE:
        for (int d = 0; d < x->rank; d++)
            at[n->attrs.perm.dims.v[d]] = index[d];
        return ravel(x, at);
    case VIEW_SLICE:
        for (int d = 0; d < x->rank; d++)
            at[d] = n->attrs.slice.start.v[d] + n->attrs.slice.step.v[d] * index[d];
        return ravel(x, at);
    case VIEW_WINDOW:
        for (int d = 0, tap = 0, taps = n->type.shape.rank - x->rank; d < x->rank; d++) {
            at[d] = n->attrs.window.start.v[d] + n->attrs.window.step.v[d] * index[taps + d];
            if (n->attrs.window.taps.v[d] > 0)
                at[d] += n->attrs.window.dilation.v[d] * index[tap++];
        }
        return ravel(x, at);
    case VIEW_RESHAPE:
    case VIEW_LAYOUT: /* the same value */
        break;
    }
    return i;
}

static void eval_view(const Eval *e, const Node *n, double *out)
{
    const int64_t count = shape_count(&n->type.shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t index[MAX_RANK];
        unravel(&n->type.shape, i, index);
        out[i] = operand(e, n, 0)[viewed(n, i, index)];
    }
}

static void eval_pad(const Eval *e, const Node *n, double *out)
{
    const Shape *x = &n->in[0]->type.shape;
    const int64_t count = shape_count(&n->type.shape), n_x = shape_count(x);
    for (int64_t i = 0; i < count; i++)
        out[i] = n->attrs.pad.value;
    for (int64_t i = 0; i < n_x; i++) {
        int64_t index[MAX_RANK];
        unravel(x, i, index);
        for (int d = 0; d < x->rank; d++)
            index[d] = n->attrs.pad.start.v[d] + n->attrs.pad.step.v[d] * index[d];
        out[ravel(&n->type.shape, index)] = operand(e, n, 0)[i];
    }
}

static void eval_unwindow(const Eval *e, const Node *n, double *out)
{
    const Shape *x = &n->in[0]->type.shape;
    const int64_t count = shape_count(&n->type.shape), n_x = shape_count(x);
    const int rank = n->attrs.window.size.n, taps = x->rank - rank;
    for (int64_t i = 0; i < count; i++)
        out[i] = 0;
    for (int64_t i = 0; i < n_x; i++) {
        int64_t index[MAX_RANK];
        unravel(x, i, index);
        for (int d = 0, tap = 0; d < rank; d++) {
            int64_t *at = &index[taps + d];
            *at = n->attrs.window.start.v[d] + n->attrs.window.step.v[d] * *at;
            if (n->attrs.window.taps.v[d] > 0)
                *at += n->attrs.window.dilation.v[d] * index[tap++];
        }
        out[ravel(&n->type.shape, index)] = operand(e, n, 0)[i];
    }
}

/* index, with what stands in the index tensor (clamped) along dim. */
static int64_t indirect(const Node *n, const Shape *x, double chosen, int64_t *index)
{
    const int64_t dim = n->attrs.axis.dim, last = x->dim[dim] - 1;
    index[dim] = chosen < 0 ? 0 : chosen > (double)last ? last : (int64_t)chosen;
    return ravel(x, index);
}

static void eval_gather(const Eval *e, const Node *n, double *out)
{
    const int64_t count = shape_count(&n->type.shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t index[MAX_RANK];
        unravel(&n->type.shape, i, index);
        out[i] =
            operand(e, n, 0)[indirect(n, &n->in[0]->type.shape, operand(e, n, 1)[i], index)];
    }
}

static void eval_scatter(const Eval *e, const Node *n, double *out)
{
    const Shape *s = &n->in[1]->type.shape, *u = &n->in[2]->type.shape;
    const int64_t count = shape_count(s);
    memcpy(out, operand(e, n, 0), (size_t)shape_count(&n->type.shape) * sizeof *out);
    for (int64_t i = 0; i < count; i++) {
        int64_t index[MAX_RANK];
        unravel(s, i, index);
        const double update = operand(e, n, 2)[ravel(u, index)];
        out[indirect(n, &n->type.shape, operand(e, n, 1)[i], index)] += update;
    }
}

static void eval_scan(const Eval *e, const Node *n, double *out)
{
    const Shape *s = &n->type.shape;
    const int64_t dim = n->attrs.scan.dim, extent = s->dim[dim], count = shape_count(s);
    for (int64_t i = 0; i < count; i++) {
        int64_t index[MAX_RANK];
        unravel(s, i, index);
        const int64_t own = index[dim];
        double sum = 0;
        for (int64_t k = n->attrs.scan.reverse ? own : 0;
             k <= (n->attrs.scan.reverse ? extent - 1 : own); k++) {
            index[dim] = k;
            sum += operand(e, n, 0)[ravel(s, index)];
        }
        out[i] = sum;
    }
}

static void eval_accumulation(const Eval *e, const Node *n, double *out)
{
    if (op_info(n->op)->data == SCATTER_SCAN)
        eval_scan(e, n, out);
    else
        eval_scatter(e, n, out);
}

static void philox_round(uint32_t *c, const uint32_t *key)
{
    const uint64_t p = (uint64_t)0xD2511F53 * c[0], q = (uint64_t)0xCD9E8D57 * c[2];
    const uint32_t next[] = {(uint32_t)(q >> 32) ^ c[1] ^ key[0], (uint32_t)q,
                             (uint32_t)(p >> 32) ^ c[3] ^ key[1], (uint32_t)p};
    memcpy(c, next, sizeof next);
}

uint32_t ref_random(uint64_t seed, uint64_t step, const char *path, uint64_t element)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *p = path; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    uint32_t key[] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t counter[] = {(uint32_t)(element / 4), (uint32_t)step, (uint32_t)hash,
                          (uint32_t)(hash >> 32)};
    for (int i = 0; i < 10; i++) {
        philox_round(counter, key);
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter[element % 4];
}

static void eval_index(const Eval *e, const Node *n, double *out)
{
    const int64_t count = shape_count(&n->type.shape);
    switch ((IndexKind)op_info(n->op)->data) {
    case INDEX_IOTA:
        for (int64_t i = 0; i < count; i++) {
            int64_t index[MAX_RANK];
            unravel(&n->type.shape, i, index);
            out[i] = (double)index[n->attrs.iota.dim];
        }
        return;
    case INDEX_RANDOM:
        for (int64_t i = 0; i < count; i++)
            out[i] = ref_random((uint64_t)operand(e, n, 0)[0], (uint64_t)operand(e, n, 1)[0],
                                n->attrs.random.path, (uint64_t)i);
        return;
    case INDEX_PAD:
        eval_pad(e, n, out);
        return;
    case INDEX_UNWINDOW:
        eval_unwindow(e, n, out);
        return;
    case INDEX_GATHER:
        eval_gather(e, n, out);
        return;
    }
    fail(n, "an unknown index operator");
}

/* --- reductions and contractions
 * ------------------------------------------------------------------------- */

static bool beats(double x, double best)
{
    return !isnan(best) && (isnan(x) || x > best);
}

/* Row-major number among the reduced axes. */
static int64_t number_along(const Node *n, const Shape *x, const int64_t *index)
{
    int64_t number = 0;
    for (int d = 0; d < x->rank; d++)
        for (int i = 0; i < n->attrs.axes.dims.n; i++)
            if (n->attrs.axes.dims.v[i] == d)
                number = number * x->dim[d] + index[d];
    return number;
}

/* With noise a sum of f32 is rounded at every step, as the partial sums may be large where the
 * sum is not. */
static double partial_sum(const Eval *e, const Node *n, double x)
{
    return e->world->noise > 0 && n->type.dtype == DT_F32 ? (double)(float)x : x;
}

static void eval_reduce(const Eval *e, const Node *n, double *out)
{
    const Shape *x = &n->in[0]->type.shape;
    const int reduction = op_info(n->op)->data;
    const int64_t n_x = shape_count(x), n_out = shape_count(&n->type.shape);
    double *best = arena_array(e->arena, (size_t)n_out, sizeof *best);
    for (int64_t i = 0; i < n_out; i++) {
        out[i] = reduction == RED_MAX    ? -INFINITY
                 : reduction == RED_MIN  ? INFINITY
                 : reduction == RED_PROD ? 1
                                         : 0;
        best[i] = -INFINITY;
    }
    Shape kept = *x;
    for (int i = 0; i < n->attrs.axes.dims.n; i++)
        kept.dim[n->attrs.axes.dims.v[i]] = 1;
    for (int64_t i = 0; i < n_x; i++) {
        int64_t index[MAX_RANK];
        unravel(x, i, index);
        const double v = operand(e, n, 0)[i];
        const int64_t at = broadcast(&kept, x->rank, index);
        if (reduction == RED_SUM) {
            out[at] = partial_sum(e, n, out[at] + v);
        } else if (reduction == RED_PROD) {
            out[at] = partial_sum(e, n, out[at] * v);
        } else if (reduction != RED_ARGMAX) {
            out[at] = extreme(out[at], v, reduction == RED_MAX);
        } else if (beats(v, best[at])) {
            best[at] = v;
            out[at] = (double)number_along(n, x, index);
        }
    }
}

/* All letters of an einsum, each once, as the axes of one space. */
typedef struct Letters {
    char letter[2 * MAX_RANK];
    int64_t extent[2 * MAX_RANK], count;
    int n;
} Letters;

static void add_letters(Letters *l, const char *letters, int n, const Shape *s)
{
    for (int i = 0; i < n; i++)
        if (!memchr(l->letter, letters[i], (size_t)l->n)) {
            l->letter[l->n] = letters[i];
            l->extent[l->n++] = s->dim[i];
            l->count *= s->dim[i];
        }
}

static int64_t letter_position(const Letters *l, const int64_t *index, const char *letters,
                               const Shape *s)
{
    int64_t own[MAX_RANK];
    for (int i = 0; i < s->rank; i++)
        own[i] = index[(const char *)memchr(l->letter, letters[i], (size_t)l->n) - l->letter];
    return ravel(s, own);
}

static void eval_einsum(const Eval *e, const Node *n, double *out)
{
    EinsumSpec s;
    const Shape *a = &n->in[0]->type.shape, *b = &n->in[1]->type.shape;
    if (!einsum_parse(n->attrs.einsum.spec, &s))
        fail(n, "a bad spec");
    Letters l = {.count = 1};
    add_letters(&l, s.a, s.n_a, a);
    add_letters(&l, s.b, s.n_b, b);
    const int64_t n_out = shape_count(&n->type.shape);
    for (int64_t i = 0; i < n_out; i++)
        out[i] = 0;
    for (int64_t i = 0; i < l.count; i++) {
        int64_t index[2 * MAX_RANK], rest = i;
        for (int k = l.n - 1; k >= 0; k--) {
            index[k] = rest % l.extent[k];
            rest /= l.extent[k];
        }
        const double x = operand(e, n, 0)[letter_position(&l, index, s.a, a)];
        const double y = operand(e, n, 1)[letter_position(&l, index, s.b, b)];
        double *to = &out[letter_position(&l, index, s.out, &n->type.shape)];
        *to = partial_sum(e, n, *to + x * y);
    }
}

static void eval_meta(const Eval *e, const Node *n, double *out)
{
    const Shape *x = &n->in[0]->type.shape;
    if (n->op == OP_DETACH || n->op == OP_SLOPE) {
        memcpy(out, operand(e, n, 0), (size_t)shape_count(x) * sizeof *out);
        return;
    }
    if (n->op != OP_COUNT)
        fail(n, "is not evaluated");
    out[0] = 1;
    for (int i = 0; i < n->attrs.axes.dims.n; i++)
        out[0] *= (double)x->dim[n->attrs.axes.dims.v[i]];
}

/* --- loops
 * -----------------------------------------------------------------------------------------------
 */

static double **evaluate_graph(Eval *e);

/* What round t leaves: next values go where the arguments are read, stacked ones to their place. */
static void end_round(const Node *n, double *const *value, int64_t t, double **result)
{
    for (int i = 0; i < n->body->n_outputs; i++) {
        const Node *v = n->body->outputs[i].value;
        const int64_t count = shape_count(&v->type.shape);
        const bool carried = i < n->attrs.loop.carried;
        memcpy(result[i] + (carried ? 0 : t * count), value[v->id],
               (size_t)count * sizeof **value);
    }
}

static void run_loop(const Eval *e, const Node *n)
{
    double **result = arena_array(e->arena, (size_t)n->body->n_outputs + 1, sizeof *result);
    const double **arg = arena_array(e->arena, (size_t)n->n_in + 1, sizeof *arg);
    const int64_t rounds = n->attrs.loop.count;
    for (int i = 0; i < n->body->n_outputs; i++) {
        Type t;
        if (!loop_result_type(n, i, &t))
            fail(n, "a result without a type");
        result[i] = arena_array(e->arena, (size_t)shape_count(&t.shape), sizeof **result);
        if (i < n->attrs.loop.carried)
            memcpy(result[i], operand(e, n, i),
                   (size_t)shape_count(&t.shape) * sizeof **result);
    }
    for (int64_t round = 0; round < rounds; round++) {
        const int64_t t = n->attrs.loop.reverse ? rounds - 1 - round : round;
        for (int i = 0; i < n->n_in; i++) {
            const int64_t count = shape_count(&n->in[i]->type.shape);
            const LoopRole role = loop_role(n, i);
            arg[i] = role == LOOP_CARRIED ? result[i] : operand(e, n, i);
            arg[i] += role == LOOP_SCANNED ? t * (count / rounds) : 0;
        }
        Eval inside = {.arena = e->arena, .graph = n->body, .world = e->world, .arg = arg};
        end_round(n, evaluate_graph(&inside), t, result);
    }
    e->result[n->id] = result;
}

static void eval_loop(const Eval *e, const Node *n, double *out)
{
    if (node_is_result(n))
        memcpy(out, e->result[n->in[0]->id][n->attrs.slot.index],
               (size_t)shape_count(&n->type.shape) * sizeof *out);
    else
        run_loop(e, n);
}

static void eval_node(const Eval *e, const Node *n, double *out)
{
    typedef void Evaluator(const Eval *, const Node *, double *);
    static Evaluator *const by_kind[] = {
        [KIND_LEAF] = eval_leaf,
        [KIND_EXPR] = eval_expr,
        [KIND_VIEW] = eval_view,
        [KIND_INDEX] = eval_index,
        [KIND_REDUCE] = eval_reduce,
        [KIND_CONTRACT] = eval_einsum,
        [KIND_SCATTER] = eval_accumulation,
        [KIND_LOOP] = eval_loop,
        [KIND_META] = eval_meta,
    };
    Evaluator *f = by_kind[op_info(n->op)->kind];
    if (!f)
        fail(n, "a kind that the reference does not have");
    f(e, n, out);
}

/* Views only move what was rounded already. */
static void add_noise(const RefWorld *w, const Node *n, double *v)
{
    const OpKind k = op_info(n->op)->kind;
    if (w->noise == 0 || k == KIND_VIEW || k == KIND_LEAF ||
        dtype_class(n->type.dtype) != DTC_REAL)
        return;
    const int64_t count = shape_count(&n->type.shape);
    for (int64_t i = 0; i < count; i++)
        if (v[i] != floor(v[i])) {
            const uint32_t r = ref_random(w->noise_seed, (uint64_t)n->id, "noise", (uint64_t)i);
            v[i] *= 1 + w->noise * (r * 0x1p-31 - 1);
        }
}

static double **evaluate_graph(Eval *e)
{
    const Graph *g = e->graph;
    e->value = arena_array(e->arena, (size_t)g->n_nodes, sizeof *e->value);
    e->result = arena_array(e->arena, (size_t)g->n_nodes, sizeof *e->result);
    for (int i = 0; i < g->n_nodes; i++) {
        const Node *n = g->nodes[i];
        e->value[i] =
            arena_array(e->arena, (size_t)shape_count(&n->type.shape), sizeof **e->value);
        eval_node(e, n, e->value[i]);
        add_noise(e->world, n, e->value[i]);
    }
    return e->value;
}

double **ref_evaluate(Arena *a, const Graph *g, const RefWorld *w)
{
    Eval e = {.arena = a, .graph = g, .world = w};
    return evaluate_graph(&e);
}

const double *ref_output(const Graph *g, double *const *values, const char *name,
                         int64_t *count)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].name && !strcmp(g->outputs[i].name, name)) {
            *count = shape_count(&g->outputs[i].value->type.shape);
            return values[g->outputs[i].value->id];
        }
    return NULL;
}
