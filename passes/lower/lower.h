/* Parts of lower and prepare, private to passes/: in which order values lie in memory. */
#ifndef HFTAC_PASSES_LOWER_LOWER_H
#define HFTAC_PASSES_LOWER_LOWER_H

#include "ir/contract.h"
#include "ir/strides.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* The axes in order, but `last` innermost. */
IntList order_ending_in(int rank, int last);
/* The same order with axes of one element outermost; n == 0 if it is row-major. */
IntList order_canonical(const Shape *s, const IntList *order);
/* The order of a value that lies with these strides: the largest outermost; where there is no
 * step, outermost of all. */
IntList order_of_strides(const Shape *s, const int64_t *stride);
/* Where n, or the value that it is a view of, lies. */
void lying_strides(const Graph *g, const Node *n, int64_t *stride);
/* Sets n->order from where its operands lie: an elementwise result lies like its operands.
 * Contractions have theirs. */
void order_inherit(const Graph *g, Node *n);
/* The axis of n that is contiguous, -1: none or n is row-major. */
int order_innermost(const Graph *g, const Node *n);
/* A reduction of a value that lies in that order goes along it: a permute before it, so that the
 * contiguous axis is the last one, and one behind it.  n itself where that changes nothing, or
 * what argmax counts. */
Node *reduce_in_order(Builder *b, Node *n, const IntList *order);

/* How a contraction's result is stored. */
typedef struct Choice {
    /* for that order */
    Contraction c;
    IntList order;
    /* the vector operand's, if it is to get `layout`; else NULL */
    State *state;
    IntList layout;
} Choice;

/* By estimated cost.  wish: the order of the state that the result ends in, or n == 0.  fixed:
 * by position in module->states, whether a state's layout is fixed.  False if no letter can be
 * the vector letter. */
bool choose_result(const Graph *g, const Node *einsum, const IntList *wish, const bool *fixed,
                   Choice *out);
/* The parameter or buffer whose stored order is free, that n is a view of; else NULL. */
State *free_state(const Graph *g, Node *n, const bool *fixed);
/* The layout of s in which n, a view of it, is contiguous along `axis`; false if there is none. */
bool layout_for(const Graph *g, const Node *n, const State *s, int axis, IntList *out);

#endif
