/* Gradients of the rows that move elements: a view's adjoint is the reverse move. */
#include "passes/grad.h"

void grad_reshape(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, build_reshape(c->b, c->g, &c->in[0]->type.shape));
}

/* adjoint_add sums down to the operand's shape. */
void grad_expand(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, c->g);
}

void grad_permute(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    const IntList *dims = &c->y->attrs.perm.dims;
    int64_t back[MAX_RANK] = {0};
    for (int i = 0; i < dims->n; i++)
        back[dims->v[i]] = i;
    adjoint_add(c, 0, build_permute(c->b, c->g, back));
}

void grad_slice(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    const Shape *x = &c->in[0]->type.shape;
    Attrs a = c->y->attrs;
    a.slice.size = ints_of(x->rank, x->dim);
    adjoint_add(c, 0, build(c->b, OP_PAD, &a, 1, &c->g));
}

void grad_pad(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    const IntList *start = &c->y->attrs.slice.start, *step = &c->y->attrs.slice.step;
    adjoint_add(c, 0, build_slice(c->b, c->g, start->v, step->v, c->in[0]->type.shape.dim));
}

void grad_gather(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    Node *x = c->in[0];
    Node *zeros = build_full(c->b, x->type.dtype, &x->type.shape, 0);
    Node *in[] = {zeros, c->in[1], c->g};
    adjoint_add(c, 0, build(c->b, OP_SCATTER_ADD, &c->y->attrs, 3, in));
}
