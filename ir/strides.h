/* How values lie in memory: the distance between neighbours along each axis, in elements.  For
 * lower, which chooses orders, and for the planner, which gives values their places.
 *
 * A state is stored in the order of its `layout`, a LAYOUT in that of its perm.dims, every other
 * value that is stored in its node's `order`.  A view of a stored value is read where that lies,
 * if strides say where its elements are. */
#ifndef HFTAC_IR_STRIDES_H
#define HFTAC_IR_STRIDES_H

#include "ir/graph.h"

/* The order in which n is stored if it is; n == 0: row-major. */
IntList stored_order(const Module *m, const Node *n);
/* Without gaps in that order. */
void ordered_strides(const Shape *s, const IntList *order, int64_t *stride);
void natural_strides(const Module *m, const Node *n, int64_t *stride);
/* The same elements in another shape; false if no strides do that. */
bool reshape_strides(const Shape *from, const int64_t *old, const Shape *to, int64_t *stride);
/* Strides of a view's result from its operand's (0 on broadcast axes), and how far its element 0
 * lies behind the operand's; false if there are none. */
bool view_strides(const Node *view, const int64_t *operand, int64_t *stride, int64_t *offset);

/* The strides of n if it is in memory by itself; else false, and the view that n may be is looked
 * through.  must: that has led nowhere; the answer counts as true. */
typedef bool StridesInMemory(void *context, const Node *n, bool must, int64_t *stride);
/* Strides of a value that is in memory, by itself or as a view, and what element 0 is behind that
 * of what is in memory. */
void strides_through_views(const Node *n, StridesInMemory *in_memory, void *context,
                           int64_t *stride, int64_t *offset);

#endif
