/* Classifies the letters of an einsum for its result's storage order, and finds the contiguous
 * axis of a value by walking through its views. */
#include "ir/contract.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/reading.h"
#include "ir/shape.h"
#include "ir/strides.h"

static int axis_of(const char *letters, int n, char letter)
{
    for (int i = 0; i < n; i++)
        if (letters[i] == letter)
            return i;
    return -1;
}

static ContractLetter letter_of(const EinsumSpec *s, const Node *e, char letter)
{
    return (ContractLetter){
        .letter = letter,
        .extent = einsum_extent(s, &e->in[0]->type.shape, &e->in[1]->type.shape, letter),
        .in = {axis_of(s->a, s->n_a, letter), axis_of(s->b, s->n_b, letter)},
        .out = axis_of(s->out, s->n_out, letter),
    };
}

static LetterClass class_of(const ContractLetter *l, int vector_operand)
{
    if (l->out < 0)
        return LETTER_SUM;
    if (l->in[0] >= 0 && l->in[1] >= 0)
        return LETTER_BATCH;
    return l->in[vector_operand] >= 0 ? LETTER_VECTOR : LETTER_BROADCAST;
}

static void multiply_in(Contraction *c, const ContractLetter *l)
{
    int64_t *product[] = {[LETTER_BATCH] = &c->batch,
                          [LETTER_BROADCAST] = &c->m,
                          [LETTER_VECTOR] = &c->n,
                          [LETTER_SUM] = &c->k};
    *product[l->cls] *= l->extent;
}

static bool add_summed(Contraction *c, const EinsumSpec *s)
{
    for (int i = 0; i < s->n_a; i++)
        if (axis_of(s->out, s->n_out, s->a[i]) < 0) {
            if (axis_of(s->b, s->n_b, s->a[i]) < 0)
                return false;
            c->letter[c->n_out + c->n_sum++] = letter_of(s, c->node, s->a[i]);
        }
    for (int i = 0; i < s->n_b; i++)
        if (axis_of(s->out, s->n_out, s->b[i]) < 0 && axis_of(s->a, s->n_a, s->b[i]) < 0)
            return false;
    return true;
}

static void find_cut(Contraction *c)
{
    int64_t inner = 1;
    const int last = c->n_out + c->n_sum - 1;
    c->cut = c->n_out;
    c->cut_steps = c->n_sum ? c->letter[c->cut].extent : 1;
    c->n_chunks = 1;
    if (c->chunk == 0 || c->n_sum == 0)
        return;
    for (c->cut = last; c->cut > c->n_out && c->letter[c->cut].extent * inner < c->chunk;
         c->cut--)
        inner *= c->letter[c->cut].extent;
    const int64_t extent = c->letter[c->cut].extent, steps = c->chunk / inner;
    c->cut_steps = steps < 1 ? 1 : steps < extent ? steps : extent;
    c->n_chunks = (extent + c->cut_steps - 1) / c->cut_steps;
    for (int l = c->n_out; l < c->cut; l++)
        c->n_chunks *= c->letter[l].extent;
}

bool contraction_of(const Node *einsum, const IntList *order, Contraction *out)
{
    EinsumSpec s;
    if (!einsum_parse(einsum->attrs.einsum.spec, &s) || s.n_out == 0)
        return false;
    Contraction c = {.node = einsum,
                     .n_out = s.n_out,
                     .batch = 1,
                     .m = 1,
                     .n = 1,
                     .k = 1,
                     .chunk = einsum->attrs.einsum.chunk};
    for (int i = 0; i < s.n_out; i++)
        c.letter[i] = letter_of(&s, einsum, s.out[order && order->n ? order->v[i] : i]);
    const ContractLetter *v = &c.letter[c.n_out - 1];
    if ((v->in[0] >= 0) == (v->in[1] >= 0) || !add_summed(&c, &s))
        return false;
    c.vector_operand = v->in[0] >= 0 ? 0 : 1;
    for (int i = 0; i < c.n_out + c.n_sum; i++) {
        c.letter[i].cls = class_of(&c.letter[i], c.vector_operand);
        multiply_in(&c, &c.letter[i]);
    }
    find_cut(&c);
    *out = c;
    return true;
}

/* Where a stored value, an argument or a view of one lies. */
static void strides_of(const Graph *g, const Node *value, const LayoutTrial *trial,
                       int64_t *stride);

/* An argument lies where its operand does; a scanned one without the operand's first axis, a
 * carried one in a place of its own. */
static void argument_strides(const Graph *g, const Node *arg, const LayoutTrial *trial,
                             int64_t *stride)
{
    const Node *loop = g->owner;
    const LoopRole role = loop_role(loop, arg->attrs.slot.index);
    int64_t all[MAX_RANK] = {0};
    if (role == LOOP_CARRIED) {
        shape_strides(&arg->type.shape, stride);
        return;
    }
    strides_of(g->outer, loop->in[arg->attrs.slot.index], trial, all);
    for (int i = 0; i < arg->type.shape.rank; i++)
        stride[i] = all[i + (role == LOOP_SCANNED)];
}

static bool is_tried(const Graph *g, const Node *value, const LayoutTrial *trial)
{
    return trial && value->op == OP_STATE &&
           module_state(g->module, value->attrs.leaf.name) == trial->state;
}

typedef struct WhereStored {
    const Graph *graph;
    const LayoutTrial *trial;
} WhereStored;

static bool is_stored(void *where_stored, const Node *n, bool must, int64_t *stride)
{
    const WhereStored *w = where_stored;
    if (!must && base_of_views(n) != n)
        return false;
    if (node_is_arg(n))
        argument_strides(w->graph, n, w->trial, stride);
    else if (is_tried(w->graph, n, w->trial))
        ordered_strides(&n->type.shape, &w->trial->layout, stride);
    else
        natural_strides(w->graph->module, n, stride);
    return true;
}

static void strides_of(const Graph *g, const Node *value, const LayoutTrial *trial,
                       int64_t *stride)
{
    WhereStored where = {g, trial};
    int64_t offset;
    strides_through_views(value, is_stored, &where, stride, &offset);
}

int stored_innermost(const Graph *g, const Node *value)
{
    return stored_innermost_in(g, value, NULL);
}

int stored_innermost_in(const Graph *g, const Node *value, const LayoutTrial *trial)
{
    const Shape *shape = &value->type.shape;
    int64_t stride[MAX_RANK] = {0};
    strides_of(g, value, trial, stride);
    for (int i = shape->rank - 1; i >= 0; i--)
        if (shape->dim[i] > 1 && stride[i] == 1)
            return i;
    return shape_count(shape) == 1 ? shape->rank - 1 : -1;
}
