/* Classifies the letters of an einsum for its result's storage order, and finds the contiguous axis of a
 * value by walking through its views. */
#include "ir/contract.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/shape.h"

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
    *out = c;
    return true;
}

/* The result axis of a reshape that steps through memory like axis `axis` of the operand: the axes with the
 * same product of extents to their right. */
static int reshaped_axis(const Shape *from, const Shape *to, int axis)
{
    int64_t right = 1, seen = 1;
    for (int i = axis + 1; i < from->rank; i++)
        right *= from->dim[i];
    for (int i = to->rank - 1; i >= 0; i--) {
        if (seen == right && to->dim[i] > 1)
            return i;
        seen *= to->dim[i];
    }
    return -1;
}

static int viewed_axis(const Node *view, int axis)
{
    const int shift = view->type.shape.rank - view->in[0]->type.shape.rank;
    switch (op_info(view->op)->data) {
    case VIEW_PERMUTE:
        for (int i = 0; i < view->attrs.perm.dims.n; i++)
            if (view->attrs.perm.dims.v[i] == axis)
                return i;
        return -1;
    case VIEW_SLICE:
        return view->attrs.slice.step.v[axis] == 1 ? axis : -1;
    case VIEW_WINDOW:
        return view->attrs.window.step.v[axis] == 1 ? axis + shift : -1;
    case VIEW_EXPAND:
        return view->in[0]->type.shape.dim[axis] == view->type.shape.dim[axis + shift]
                   ? axis + shift
                   : -1;
    case VIEW_RESHAPE:
        return reshaped_axis(&view->in[0]->type.shape, &view->type.shape, axis);
    default:
        return -1;
    }
}

/* Axes of extent 1 take no step: the innermost one that does. */
static int last_of(const Shape *shape, const IntList *order)
{
    for (int i = shape->rank - 1; i >= 0; i--) {
        const int axis = order && order->n ? (int)order->v[i] : i;
        if (shape->dim[axis] > 1)
            return axis;
    }
    return shape->rank - 1;
}

/* An argument lies where its operand does; a scanned one without the operand's first axis, a carried one in a place of
 * its own. */
static int argument_innermost(const Graph *g, const Node *arg)
{
    const Node *loop = g->owner;
    const LoopRole role = loop_role(loop, arg->attrs.slot.index);
    if (role == LOOP_CARRIED)
        return last_of(&arg->type.shape, NULL);
    const int axis = stored_innermost(g->outer, loop->in[arg->attrs.slot.index]);
    return role == LOOP_SCANNED ? axis - 1 : axis;
}

int stored_innermost(const Graph *g, const Node *value)
{
    const OpInfo *info = op_info(value->op);
    const Shape *shape = &value->type.shape;
    if (info->kind == KIND_VIEW && info->data == VIEW_LAYOUT)
        return last_of(shape, &value->attrs.perm.dims);
    if (info->kind == KIND_VIEW) {
        const int axis = stored_innermost(g, value->in[0]);
        return axis < 0 ? -1 : viewed_axis(value, axis);
    }
    if (info->kind == KIND_LEAF && info->data == LEAF_STATE) {
        const State *s = module_state(g->module, value->attrs.leaf.name);
        return last_of(shape, s ? &s->layout : NULL);
    }
    return node_is_arg(value) ? argument_innermost(g, value) : last_of(shape, NULL);
}
