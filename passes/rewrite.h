/* Rewriting a graph in one walk from operands to results; private to passes/.
 *
 * The walk rebuilds the node list: for each node of the old list, whose operands are replaced by
 * what stands for them, `step` returns what stands for it from now on - the node itself, an older
 * one, or one that it builds with the builder, which places new nodes at this position of the
 * list.  So order is kept, every node is seen once, and the whole is linear.  A node built to
 * stand for n takes over n's name; after hfuse what is built gets its form. */
#ifndef HFTAC_PASSES_REWRITE_H
#define HFTAC_PASSES_REWRITE_H

#include "ir/build.h"

/* The builder's place is n's and its hint is n's name. */
typedef Node *RewriteStep(Builder *b, Node *n, void *context);

/* Afterwards dead nodes are gone. */
void rewrite_graph(Graph *g, RewriteStep *step, void *context);
/* Puts n itself into the new list now, so that what is built next can read it. */
void rewrite_keep(Builder *b, Node *n);

/* graph_find still answers with the first owner. */
void swap_names(Node *a, Node *b);

/* Parts of simplify: the constant that n is, or n; one algebraic step towards a simpler node, or
 * n. */
Node *fold_constant(Builder *b, Node *n);
Node *apply_identity(Builder *b, Node *n);
/* The value of a constant that is the same everywhere. */
bool const_uniform(const Node *n, double *v);

/* Parts of lower: an einsum as ir/contract.h wants it; the mul and sum that do the work of one
 * that is no contraction; n if there is nothing to do. */
Node *normalise_einsum(Builder *b, Node *n);
Node *multiply_out(Builder *b, Node *n);

/* simplify for one graph, leaving the module's stage. */
void simplify_graph(Graph *g);
/* How hfuse has the models of a node computed, from its operands' types. */
Form form_of(const Node *n);

#endif
