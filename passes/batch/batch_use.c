/* Is a graph right for a last batch of n < N samples?
 *
 * The marks of shapes say where samples lie, and mask_batch takes the rest out of whatever
 * reduces over them.  What is left to prove, node by node: that no value has lost its marks
 * (BATCH_MIXED), that the batch size stands in no value as a number, and that operators which
 * pair, number or move elements do with N samples what they would do with n.  The first node in
 * the graph's order for which that fails is the culprit that the user is told; the graph is one
 * for whole batches then.  Faults are left out: they are messages, and a padding row repeats a
 * real one. */
#include <string.h>

#include "ir/loop.h"
#include "ir/reduction.h"
#include "ir/shape.h"
#include "passes/batch/batch.h"

typedef struct Judging {
    Graph *graph;
    bool *needed;     /* by id: for something that is no fault */
    bool *index_only; /* by id: computed of indices and constants alone */
    const char *why;  /* a sentence in the arena about the culprit */
} Judging;

__attribute__((format(printf, 2, 3))) static bool fail(Judging *j, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    j->why = arena_vprintf(j->graph->module->arena, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- marks that are lost ---- */

static const char *const lost_in_view[] = {
    [VIEW_RESHAPE] = "does not keep the samples along one axis of N",
    [VIEW_EXPAND] = "does not keep the samples along one axis of N",
    [VIEW_PERMUTE] = "moves the samples",
    [VIEW_SLICE] = "takes some of the samples, or turns them round",
    [VIEW_WINDOW] = "goes over the samples",
    [VIEW_LAYOUT] = "moves the samples",
};

static bool judge_marks(Judging *j, const Node *n)
{
    const OpInfo *info = op_info(n->op);
    if (!shape_has_mixed(&n->type.shape))
        return true;
    if (info->attrs == ATTR_leaf)
        return fail(j, "the size of '%s' depends on the batch size", n->attrs.leaf.name);
    if (info->kind == KIND_VIEW)
        return fail(j, "`%s` %s", info->text, lost_in_view[info->data]);
    if (n->op == OP_PAD)
        return fail(j, "`pad` puts other elements beside the samples");
    if (n->n_in == 0 || info->attrs == ATTR_random)
        return fail(j, "a size depends on the batch size and is no multiple of it");
    return fail(j, "`%s` pairs the samples with an axis that is not known to be one of samples",
                info->text);
}

/* ---- values of indices ---- */

static bool is_index(const Judging *j, const Node *n)
{
    return j->index_only[n->id];
}

static bool judge_index(Judging *j, const Node *n, const int64_t *mark)
{
    return !is_index(j, n) || index_exact(j->graph, n, mark) ||
           fail(j, "a number here depends on the batch size");
}

/* Operands of an elementwise operator are read with the marks of the result. */
static bool judge_expr(Judging *j, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Shape *s = &n->in[i]->type.shape;
        const int lead = n->type.shape.rank - s->rank;
        int64_t mark[MAX_RANK];
        for (int k = 0; k < s->rank; k++)
            mark[k] =
                s->dim[k] == n->type.shape.dim[lead + k] ? n->type.shape.batch[lead + k] : 0;
        if (!judge_index(j, n->in[i], mark))
            return false;
    }
    return true;
}

static bool judge_operands(Judging *j, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!judge_index(j, n->in[i], n->in[i]->type.shape.batch))
            return false;
    return true;
}

/* An index into axis `dim` of x: a position where that axis is one of samples. */
static bool judge_positions(Judging *j, const Node *n, const Node *x, const Node *index,
                            int64_t dim)
{
    const int64_t mark = x->type.shape.batch[dim];
    if (mark == 0)
        return judge_index(j, index, index->type.shape.batch);
    if (is_index(j, index) && index_position(j->graph, index, index->type.shape.batch, mark))
        return true;
    return fail(j, "`%s` takes samples by an index", op_info(n->op)->text);
}

static bool judge_gather(Judging *j, const Node *n)
{
    return judge_index(j, n->in[0], n->in[0]->type.shape.batch) &&
           judge_positions(j, n, n->in[0], n->in[1], n->attrs.axis.dim);
}

static bool judge_scatter(Judging *j, const Node *n)
{
    const int64_t d = n->attrs.axis.dim;
    const Shape *index = &n->in[1]->type.shape, *updates = &n->in[2]->type.shape;
    if (index->batch[d] != updates->batch[d] ||
        (index->batch[d] && index->dim[d] != updates->dim[d]))
        return fail(j, "`%s` uses some of the samples", op_info(n->op)->text);
    return judge_index(j, n->in[0], n->in[0]->type.shape.batch) &&
           judge_index(j, n->in[2], updates->batch) &&
           judge_positions(j, n, n->in[0], n->in[1], d);
}

/* ---- operators ---- */

static bool judge_einsum(Judging *j, const Node *n)
{
    EinsumSpec s;
    const Shape *a = &n->in[0]->type.shape, *b = &n->in[1]->type.shape;
    if (!einsum_parse(n->attrs.einsum.spec, &s))
        return true;
    for (int i = 0; i < s.n_a; i++) {
        const char *at = memchr(s.b, s.a[i], (size_t)s.n_b);
        if (at && a->batch[i] != b->batch[at - s.b])
            return fail(j, "a product sums over the samples and an axis that is not known to "
                           "be one of samples");
    }
    return judge_operands(j, n);
}

/* The result is a number of an element: the same for n samples where they come first, and once. */
static bool judge_position(Judging *j, const Node *n)
{
    const Shape *x = &n->in[0]->type.shape;
    const IntList *dims = &n->attrs.axes.dims;
    int64_t before = 1;
    for (int i = 0; i < dims->n; i++) {
        const int64_t d = dims->v[i];
        if (x->batch[d] && (before > 1 || batch_times(j->graph, x, (int)d) > 1))
            return fail(j, "`%s` gives the number of an element among those of all samples",
                        op_info(n->op)->text);
        before *= x->dim[d];
    }
    return judge_operands(j, n);
}

/* Element k of the row-major order draws the same number for every N if samples are outermost. */
static bool judge_random(Judging *j, const Node *n)
{
    const Shape *s = &n->type.shape;
    int64_t before = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->batch[i] && before > 1)
            return fail(j,
                        "random values are drawn with the samples along axis %d, not the "
                        "first",
                        i);
        before *= s->dim[i];
    }
    return true;
}

static bool same_marks(const Shape *a, const Shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->batch, b->batch, (size_t)a->rank * sizeof a->batch[0]) == 0;
}

static bool judge_loop(Judging *j, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Node *arg = loop_arg(n, i);
        const LoopRole role = loop_role(n, i);
        const Shape *x = &n->in[i]->type.shape;
        if (role == LOOP_SCANNED && x->batch[0])
            return fail(j, "a loop goes through the samples");
        if (arg && role == LOOP_CARRIED &&
            (!same_marks(&arg->type.shape, x) ||
             !same_marks(&arg->type.shape, &n->body->outputs[i].value->type.shape)))
            return fail(j, "'%s' has samples in some rounds of a loop only", arg->name);
    }
    batch_judge(n->body);
    if (!n->body->whole)
        return judge_operands(j, n);
    j->graph->whole = n->body->whole;
    return false;
}

static bool judge_use(Judging *j, const Node *n)
{
    if (is_index(j, n) || n->op == OP_COUNT)
        return true; /* what needs its value is judged; a count needs none */
    switch (op_info(n->op)->kind) {
    case KIND_EXPR:
        return judge_expr(j, n);
    case KIND_CONTRACT:
        return judge_einsum(j, n);
    case KIND_REDUCE:
        return reduction_info(n)->position ? judge_position(j, n) : judge_operands(j, n);
    case KIND_LOOP:
        return node_is_loop(n) ? judge_loop(j, n) : true;
    case KIND_LEAF:
    case KIND_VIEW:
    case KIND_INDEX:
    case KIND_SCATTER:
    case KIND_META:
        break;
    }
    if (n->op == OP_GATHER)
        return judge_gather(j, n);
    if (n->op == OP_SCATTER_ADD)
        return judge_scatter(j, n);
    return n->op == OP_RANDOM ? judge_random(j, n) : judge_operands(j, n);
}

/* An output is samples along one axis, once, or has none. */
static bool judge_output(Judging *j, const Output *o)
{
    const Shape *s = &o->value->type.shape;
    int axes = 0;
    for (int i = 0; o->kind == OUT_TENSOR && i < s->rank; i++) {
        axes += s->batch[i] > 0;
        if (s->batch[i] > 0 && batch_times(j->graph, s, i) > 1)
            return fail(j, "the output '%s' has all samples several times", o->name);
    }
    if (axes > 1)
        return fail(j, "the output '%s' has samples along %d axes", o->name, axes);
    return judge_index(j, o->value, s->batch);
}

/* ---- the graph ---- */

static void find_needed(Judging *j)
{
    const Graph *g = j->graph;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].kind != OUT_FAULT)
            j->needed[g->outputs[i].value->id] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--)
        for (int k = 0; j->needed[i] && k < g->nodes[i]->n_in; k++)
            j->needed[g->nodes[i]->in[k]->id] = true;
}

static void find_index_only(Judging *j)
{
    graph_foreach (j->graph, n) {
        bool only = op_index_only(n->op);
        for (int i = 0; only && i < n->n_in; i++)
            only = j->index_only[n->in[i]->id];
        j->index_only[n->id] = only;
    }
}

void batch_judge(Graph *g)
{
    Arena *a = g->module->arena;
    const size_t count = (size_t)g->n_nodes + 1;
    Judging j = {.graph = g,
                 .needed = arena_array(a, count, sizeof *j.needed),
                 .index_only = arena_array(a, count, sizeof *j.index_only)};
    find_needed(&j);
    find_index_only(&j);
    for (int i = 0; i < g->n_nodes && !g->whole; i++) {
        const Node *n = g->nodes[i];
        if (j.needed[i] && !(judge_marks(&j, n) && judge_use(&j, n)) && !g->whole)
            graph_set_whole(g, n->loc, j.why);
    }
    for (int i = 0; i < g->n_outputs && !g->whole; i++) {
        const Output *o = &g->outputs[i];
        if (o->kind != OUT_FAULT && !judge_output(&j, o))
            graph_set_whole(g, o->loc.file >= 0 ? o->loc : o->value->loc, j.why);
    }
}
