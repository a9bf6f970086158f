/* Values made of indices and constants alone, seen by a program for another batch size.
 *
 * Let an axis be marked m, so [k, N, m] in one, and compare the program for N with the same for n
 * < N.  The element (o, s, i) with s < n stands at o * N * m + s * m + i in the one and at o * n
 * * m + s * m + i in the other. So of a number computed from indices this can be known:
 *
 *   EXACT      it is the same number for both N: arange(N), where k is 1
 *   POSITION   it is o * N * m + r with 0 <= r < n * m in the one and o * n * m + r in the other:
 *   arange(2 * N), N itself
 *   LAST       it is c * N - 1, the largest position
 *   NATURAL    it is not negative for any N; NEGATIVE: it is the same number for both, and is
 *
 * Positions stand in the same order for both, and equal ones are equal; so what compares
 * positions is exact: the diagonal of a matrix, a causal mask, a label against the number of its
 * class. */
#include "ir/shape.h"
#include "passes/batch/batch.h"

enum {
    EXACT = 1,
    POSITION = 2,
    LAST = 4,
    NEGATIVE = 8,
    NATURAL = 16,
    MAX_VISITS = 1024
};

typedef struct Judge {
    int64_t samples;
    int64_t m; /* of the positions meant */
    int left;  /* visits */
} Judge;

static unsigned kinds(Judge *j, const Node *n, const int64_t *mark);

int64_t batch_times(const Graph *g, const Shape *s, int axis)
{
    const int64_t samples = g->module->batch;
    return samples > 0 ? s->dim[axis] / (samples * s->batch[axis]) : 1;
}

/* An axis of fixed extent cannot be one of samples, and the other way round. */
static bool marks_possible(const Node *n, const int64_t *mark)
{
    for (int i = 0; i < n->type.shape.rank; i++)
        if ((n->type.shape.batch[i] > 0) != (mark[i] > 0))
            return false;
    return true;
}

static bool marks_own(const Node *n, const int64_t *mark)
{
    for (int i = 0; i < n->type.shape.rank; i++)
        if (n->type.shape.batch[i] != mark[i])
            return false;
    return true;
}

static unsigned kinds_const(const Judge *j, const Node *n, const int64_t *mark)
{
    const int64_t k = n->attrs.value.of_n;
    if (n->attrs.value.by_n || !marks_possible(n, mark))
        return 0;
    if (n->attrs.value.data.n != 1)
        return k == 0 && marks_own(n, mark) ? EXACT : 0;
    const double v = n->attrs.value.data.v[0], rest = v - (double)(k * j->samples);
    const bool multiple = k >= 0 && k % j->m == 0;
    return (k == 0 ? EXACT : 0u) | (rest == 0 && multiple ? POSITION : 0u) |
           (rest == -1 && k > 0 && multiple ? LAST : 0u) | (k == 0 && v < 0 ? NEGATIVE : 0u) |
           (k >= 0 && rest >= 0 ? NATURAL : 0u);
}

static unsigned kinds_iota(const Judge *j, const Node *n, const int64_t *mark)
{
    const int64_t d = n->attrs.iota.dim;
    if (!marks_possible(n, mark))
        return 0;
    if (mark[d] == 0)
        return EXACT | NATURAL;
    const bool once = n->type.shape.dim[d] == j->samples * mark[d];
    return NATURAL | (once ? EXACT : 0u) | (mark[d] == j->m ? POSITION : 0u);
}

/* The only axis along which p is padded, and where its elements lie there; false: none or
 * several. */
static bool support(const Node *p, int depth, int *axis, int64_t *lo, int64_t *hi)
{
    int other;
    int64_t from, to;
    if ((p->op == OP_ADD || p->op == OP_OR) && depth < 64) {
        if (!support(p->in[0], depth + 1, axis, lo, hi) ||
            !support(p->in[1], depth + 1, &other, &from, &to) || *axis != other ||
            (from < *hi && *lo < to))
            return false;
        *lo = from < *lo ? from : *lo;
        *hi = to > *hi ? to : *hi;
        return true;
    }
    if (p->op != OP_PAD || p->attrs.pad.value != 0)
        return false;
    *axis = -1;
    for (int i = 0; i < p->type.shape.rank; i++) {
        const int64_t extent = p->in[0]->type.shape.dim[i];
        if (extent == p->type.shape.dim[i])
            continue;
        if (*axis >= 0 || p->attrs.pad.step.v[i] != 1)
            return false;
        *axis = i;
        *lo = p->attrs.pad.start.v[i];
        *hi = *lo + extent;
    }
    return *axis >= 0;
}

/* The sum of padded values that do not overlap is one behind the other. */
static bool is_joined(const Node *n)
{
    int axis;
    int64_t lo, hi;
    return support(n, 0, &axis, &lo, &hi);
}

/* A constant that is k * N with k > 0. */
static bool whole_multiple(const Judge *j, const Node *n, int64_t *k)
{
    while (n->op == OP_CAST)
        n = n->in[0];
    if (n->op != OP_CONST || n->attrs.value.by_n || n->attrs.value.data.n != 1)
        return false;
    *k = n->attrs.value.of_n;
    return *k > 0 && n->attrs.value.data.v[0] == (double)(*k * j->samples);
}

/* Is it decided by the signs how the operands compare? */
static bool signs_differ(const unsigned *in)
{
    return (in[0] & NATURAL && in[1] & NEGATIVE) || (in[1] & NATURAL && in[0] & NEGATIVE);
}

/* Of n, given those of its operands and those that all of them have. */
static unsigned kinds_scalar(const Judge *j, const Node *n, const unsigned *in, unsigned all)
{
    const unsigned natural = all & NATURAL, exact = all & EXACT;
    int64_t k = 0;
    const bool by_multiple =
        n->n_in == 2 && whole_multiple(j, n->in[1], &k) && in[0] & POSITION && k % j->m == 0;
    switch (op_info(n->op)->data) {
    case SC_EQ:
    case SC_NE:
    case SC_LT:
    case SC_LE:
    case SC_GT:
    case SC_GE:
        return NATURAL | (all & (EXACT | POSITION | LAST) || signs_differ(in) ? EXACT : 0u);
    case SC_AND:
    case SC_OR:
    case SC_NOT:
        return NATURAL | exact | (is_joined(n) ? all : 0u);
    case SC_WHERE:
        return in[0] & EXACT ? in[1] & in[2] : in[1] & in[2] & NATURAL;
    case SC_CAST:
        if (n->type.dtype == DT_BOOL)
            return NATURAL | (in[0] & (EXACT | POSITION) ? EXACT : 0u);
        return n->type.dtype == DT_U8 ? in[0] & (EXACT | NATURAL) : in[0];
    case SC_ADD:
        if (is_joined(n))
            return all & (EXACT | POSITION | NATURAL);
        if (by_multiple)
            return POSITION | natural;
        if (whole_multiple(j, n->in[0], &k) && in[1] & POSITION && k % j->m == 0)
            return POSITION | natural;
        return exact | natural;
    case SC_MUL:
        return exact | natural;
    case SC_MOD:
        return exact | natural |
               (by_multiple ? POSITION | NATURAL | (k == j->m ? EXACT : 0u) : 0u);
    case SC_FDIV:
        return exact | natural | (by_multiple ? EXACT : 0u);
    case SC_MIN:
        if ((in[0] & POSITION && in[1] & LAST) || (in[1] & POSITION && in[0] & LAST))
            return POSITION | exact | natural;
        return all & (EXACT | POSITION | NATURAL);
    case SC_MAX:
        return (all & (EXACT | POSITION)) | ((in[0] | in[1]) & NATURAL);
    }
    return exact; /* whatever else is computed of exact values is exact */
}

static unsigned kinds_expr(Judge *j, const Node *n, const int64_t *mark)
{
    unsigned in[3] = {0}, all = ~0u;
    for (int i = 0; i < n->n_in; i++) {
        const Shape *s = &n->in[i]->type.shape;
        const int lead = n->type.shape.rank - s->rank;
        int64_t own[MAX_RANK];
        for (int k = 0; k < s->rank; k++)
            own[k] = s->dim[k] == n->type.shape.dim[lead + k] ? mark[lead + k] : 0;
        in[i] = kinds(j, n->in[i], own);
        all &= in[i];
    }
    return kinds_scalar(j, n, in, all);
}

/* Axes of one element come and go; another reshape is known by its own marks only. */
static unsigned kinds_reshape(Judge *j, const Node *n, const int64_t *mark)
{
    const Shape *x = &n->in[0]->type.shape, *y = &n->type.shape;
    int64_t own[MAX_RANK] = {0};
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < x->rank && x->dim[i] == 1)
            i++;
        while (k < y->rank && y->dim[k] == 1)
            k++;
        if (i == x->rank || k == y->rank || x->dim[i] != y->dim[k])
            break;
        own[i] = mark[k];
    }
    if (i == x->rank && k == y->rank)
        return kinds(j, n->in[0], own);
    return marks_own(n, mark) ? kinds(j, n->in[0], x->batch) & (EXACT | NATURAL) : 0;
}

static unsigned kinds_view(Judge *j, const Node *n, const int64_t *mark)
{
    const Shape *x = &n->in[0]->type.shape;
    const int lead = n->type.shape.rank - x->rank;
    int64_t own[MAX_RANK] = {0};
    for (int i = 0; i < x->rank; i++)
        if (n->op == OP_PERMUTE)
            own[n->attrs.perm.dims.v[i]] = mark[i];
        else
            own[i] = x->dim[i] == n->type.shape.dim[lead + i] ? mark[lead + i] : 0;
    if (n->op == OP_EXPAND && !marks_possible(n, mark))
        return 0;
    return kinds(j, n->in[0], own);
}

/* What is cut or padded is known by the marks that its maker has proven. */
static unsigned kinds_cut(Judge *j, const Node *n, const int64_t *mark)
{
    const Shape *x = &n->in[0]->type.shape;
    int64_t own[MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        const bool cut =
            x->dim[i] != n->type.shape.dim[i] || x->batch[i] != n->type.shape.batch[i];
        if (cut && mark[i] != n->type.shape.batch[i])
            return 0;
        own[i] = cut ? x->batch[i] : mark[i];
    }
    const unsigned k = kinds(j, n->in[0], own);
    if (n->op == OP_PAD && n->attrs.pad.value != 0)
        return k & EXACT;
    return k & (EXACT | POSITION | NATURAL);
}

static unsigned kinds(Judge *j, const Node *n, const int64_t *mark)
{
    if (--j->left < 0 || !op_index_only(n->op))
        return 0;
    if (n->op == OP_CONST)
        return kinds_const(j, n, mark);
    if (n->op == OP_IOTA)
        return kinds_iota(j, n, mark);
    if (n->op == OP_RESHAPE)
        return kinds_reshape(j, n, mark);
    if (n->op == OP_SLICE || n->op == OP_PAD)
        return kinds_cut(j, n, mark);
    if (op_info(n->op)->kind == KIND_EXPR)
        return kinds_expr(j, n, mark);
    return kinds_view(j, n, mark);
}

bool index_exact(const Graph *g, const Node *n, const int64_t *mark)
{
    /* Positions of one kind may have been compared inside. */
    for (int i = -1; i < n->type.shape.rank; i++) {
        if (i >= 0 && mark[i] <= 0)
            continue;
        Judge j = {.samples = g->module->batch, .m = i < 0 ? 1 : mark[i], .left = MAX_VISITS};
        if (kinds(&j, n, mark) & EXACT)
            return true;
    }
    return false;
}

bool index_position(const Graph *g, const Node *n, const int64_t *mark, int64_t along)
{
    Judge j = {.samples = g->module->batch, .m = along, .left = MAX_VISITS};
    return kinds(&j, n, mark) & POSITION;
}
