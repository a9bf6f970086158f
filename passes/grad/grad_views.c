/* Gradients of the rows that move elements: a view's adjoint is the reverse move. */
#include "passes/grad/grad.h"

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
    const Attrs *a = &c->y->attrs;
    adjoint_add(
        c, 0,
        build_pad(c->b, c->g, a->slice.start.v, a->slice.step.v, c->in[0]->type.shape.dim, 0));
}

void grad_pad(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    const IntList *start = &c->y->attrs.pad.start, *step = &c->y->attrs.pad.step;
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

/* Of the sums up to each element: the sums of g from each on. */
void grad_cumsum(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    Attrs a = c->y->attrs;
    a.scan.reverse = !a.scan.reverse;
    adjoint_add(c, 0, build(c->b, OP_CUMSUM, &a, 1, &c->g));
}

/* result[.., index[.., i, ..], ..] += updates[.., i, ..]: the result's adjoint passes to x, and
 * is gathered for the updates. */
void grad_scatter(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0, c->g);
    if (!adjoint_wanted(c, 2))
        return;
    Node *in[] = {c->g, c->in[1]};
    Node *v = build(c->b, OP_GATHER, &c->y->attrs, 2, in);
    const Shape *updates = &c->in[2]->type.shape;
    const IntList start = ints_all(updates->rank, 0), step = ints_all(updates->rank, 1);
    if (v && !shape_equal(&v->type.shape, updates))
        v = build_pad(c->b, v, start.v, step.v, updates->dim,
                      0); /* what the index leaves out */
    adjoint_add(c, 2, v);
}
