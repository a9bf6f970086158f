/* The last batch of a data set is not full: evaluation sees only its first n_valid samples.  Only
 * graphs for which that is proven (batch_use.c) see such batches.
 *
 * Whatever reduces over an axis that comes from N gets, in place of the padding rows, the element
 * that changes nothing: the reduction's identity (ir/reductions.def), and 0 for contractions and
 * scatters.  A where, not a product, so that a NaN in a padding row does not matter. */
#include "passes/passes.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/reduction.h"
#include "ir/shape.h"
#include "passes/batch/batch.h"
#include "passes/rewrite.h"

typedef struct Masking {
    /* Every sample counts: in train, in init and in what batch_judge finds to be for whole
     * batches only. */
    bool whole;
    Node *n_valid; /* f64[]; made on first use */
} Masking;

static Node *n_valid_of(Builder *b, Masking *m)
{
    if (!m->n_valid)
        m->n_valid = build_scalar(b, RUN_N_VALID);
    return m->n_valid;
}

/* bool [1, .., extent, .., 1]: the first n_valid * mark elements of the axis; of each N * mark
 * where the samples lie in it several times over. */
static Node *valid_along(Builder *b, Masking *m, const Shape *s, int axis)
{
    Shape line = {.rank = s->rank};
    for (int i = 0; i < s->rank; i++)
        line.dim[i] = i == axis ? s->dim[i] : 1;
    line.batch[axis] = s->batch[axis];
    Node *count = build_cast(b, n_valid_of(b, m), DT_I64);
    if (s->batch[axis] > 1)
        count = build2(b, OP_MUL, count, build_const(b, DT_I64, (double)s->batch[axis]));
    Node *i = build_iota(b, &line, axis);
    if (batch_times(b->graph, s, axis) > 1) {
        const int64_t block = s->batch[axis] * b->graph->module->batch;
        i = build2(b, OP_MOD, i, build_const(b, DT_I64, (double)block));
    }
    return build2(b, OP_LT, i, count);
}

/* x, with `fill` in the padding of each axis named by the bit set `axes`. */
static Node *mask_axes(Builder *b, Masking *m, Node *x, unsigned axes, double fill)
{
    const Shape *s = &x->type.shape;
    const char *hint = b->hint;
    Node *valid = NULL;
    b->hint = arena_printf(b->graph->module->arena, "%s.valid", x->name);
    for (int i = 0; i < s->rank; i++)
        if (axes >> i & 1 && s->batch[i] > 0) {
            Node *here = valid_along(b, m, s, i);
            valid = valid ? build2(b, OP_AND, valid, here) : here;
        }
    if (valid)
        x = build3(b, OP_WHERE, valid, x, build_const(b, x->type.dtype, fill));
    b->hint = hint;
    return x;
}

static unsigned axis_bits(const IntList *dims)
{
    unsigned bits = 0;
    for (int i = 0; i < dims->n; i++)
        bits |= 1u << dims->v[i];
    return bits;
}

static void mask_reduce(Builder *b, Masking *m, Node *n)
{
    const double fill = reduction_identity(reduction_info(n), n->in[0]->type.dtype);
    n->in[0] = mask_axes(b, m, n->in[0], axis_bits(&n->attrs.axes.dims), fill);
}

/* The axes of operand i whose letter is summed. */
static unsigned summed_axes(const EinsumSpec *s, int i)
{
    const char *letters = i == 0 ? s->a : s->b;
    const int n = i == 0 ? s->n_a : s->n_b;
    unsigned bits = 0;
    for (int k = 0; k < n; k++)
        if (!memchr(s->out, letters[k], (size_t)s->n_out))
            bits |= 1u << k;
    return bits;
}

/* In both operands: what stands in the padding of the other one may be no number, and 0 times
 * that is none. */
static void mask_einsum(Builder *b, Masking *m, Node *n)
{
    EinsumSpec s;
    if (!einsum_parse(n->attrs.einsum.spec, &s))
        return;
    for (int i = 0; i < 2; i++)
        n->in[i] = mask_axes(b, m, n->in[i], summed_axes(&s, i), 0);
}

static void mask_scatter(Builder *b, Masking *m, Node *n)
{
    const bool scan = op_info(n->op)->data == SCATTER_SCAN;
    const int operand = scan ? 0 : 2;
    const int64_t dim = scan ? n->attrs.scan.dim : n->attrs.axis.dim;
    n->in[operand] = mask_axes(b, m, n->in[operand], 1u << dim, 0);
}

static Node *count_of(Builder *b, Masking *m, const Node *n)
{
    const Graph *g = b->graph;
    const Shape *s = &n->in[0]->type.shape;
    const IntList *dims = &n->attrs.axes.dims;
    double k = 1;
    Node *valid = NULL;
    for (int i = 0; i < dims->n; i++) {
        const int64_t d = dims->v[i];
        if (m->whole || s->batch[d] <= 0) {
            k *= (double)s->dim[d];
            continue;
        }
        k *= (double)(s->batch[d] * batch_times(g, s, (int)d));
        Node *v = n_valid_of(b, m);
        valid = valid ? build2(b, OP_MUL, valid, v) : v;
    }
    Node *factor = build_const(b, DT_F64, k);
    return valid ? build2(b, OP_MUL, valid, factor) : factor;
}

static Node *mask_step(Builder *b, Node *n, void *context)
{
    Masking *m = context;
    if (node_is_loop(n)) {
        Masking inside = {.whole = m->whole};
        rewrite_graph(n->body, mask_step, &inside);
    }
    if (n->op == OP_COUNT)
        return count_of(b, m, n);
    if (n->op == OP_CONST) {
        /* Judged: from here on it is a number like any other. */
        n->attrs.value.of_n = 0;
        n->attrs.value.by_n = false;
    }
    if (m->whole)
        return n;
    switch (op_info(n->op)->kind) {
    case KIND_REDUCE:
        mask_reduce(b, m, n);
        break;
    case KIND_CONTRACT:
        mask_einsum(b, m, n);
        break;
    case KIND_SCATTER:
        mask_scatter(b, m, n);
        break;
    case KIND_LEAF:
    case KIND_EXPR:
    case KIND_VIEW:
    case KIND_INDEX:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return n;
}

void mask_batch(Module *m)
{
    for (int i = 0; i < m->n_graphs; i++) {
        const EntryKind entry = m->graphs[i]->entry;
        const bool always = entry == ENTRY_TRAIN || entry == ENTRY_INIT;
        if (!always && m->batch != 1)
            batch_judge(m->graphs[i]);
        Masking masking = {.whole = always || m->graphs[i]->whole};
        rewrite_graph(m->graphs[i], mask_step, &masking);
    }
    m->stage = MODULE_MASKED;
}
