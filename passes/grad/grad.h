/* What the gradient rules see of reverse-mode differentiation; private to passes/grad/autodiff.c
 * and passes/grad_*.c.
 *
 * A rule is named by the `grad` column of ops.def.  For one node y it adds, to the adjoint of
 * each operand that wants one, what flows there from y's adjoint g (same type as y):
 *
 *     if (adjoint_wanted(c, 0))
 *         adjoint_add(c, 0, build2(c->b, OP_MUL, c->g, c->in[1]));
 *
 * Rules reuse y where that is cheaper or more exact than computing it again. */
#ifndef HFTAC_PASSES_GRAD_GRAD_H
#define HFTAC_PASSES_GRAD_GRAD_H

#include "ir/build.h"
#include "ir/shape.h"

/* One reverse sweep: the adjoints of one loss. */
typedef struct Sweep {
    Graph *graph;
    /* nodes before the sweep */
    int n;
    /* by id; of a loop: not NULL if any of its results has one */
    Node **adjoint;
    /* on an x; by id */
    bool *depends;
} Sweep;

typedef struct Adjoint {
    Builder *b;
    Node *y, *g;
    /* y's operands */
    Node **in;
    Sweep *sweep;
    /* first node built for the operand at hand */
    int first_built;
} Adjoint;

typedef void GradRule(Adjoint *c);

/* Does the loss depend on what stands behind operand i?  If so, names what is built next after
 * that operand. */
bool adjoint_wanted(Adjoint *c, int i);
/* Adds v to operand i's adjoint; v may have the larger shape that the operand was broadcast to. */
void adjoint_add(Adjoint *c, int i, Node *v);
/* The same for a node that stands further away than an operand. */
bool adjoint_wanted_by(Adjoint *c, const Node *x);
void adjoint_add_to(Adjoint *c, Node *x, Node *v);
/* Visits the nodes that have an adjoint from `from` backwards; false after a report. */
bool sweep_back(Sweep *s, Builder *b, int from);
/* Marks by id what depends on what is marked already, up to node `last`. */
void sweep_mark(Sweep *s, int last);
/* Does a gradient flow through values of this type (and loops)? */
bool sweep_real(const Node *n);
/* A rank-0 constant of y's element type. */
Node *adjoint_const(Adjoint *c, double v);

/* passes/grad/grad_window.c: the adjoint of an einsum's operand i that is a window, without one
 * of the window's size; false: there is no such short cut, nothing has been added. */
bool grad_through_window(Adjoint *c, const EinsumSpec *s, int i);

/* Markers: no gradient flows; asking for one is an error. */
GradRule grad_none, grad_missing;

#define OP(NAME, text, in, attrs, shape, grad, kind, data) extern GradRule grad_##grad;
#include "ir/ops.def"

#endif
