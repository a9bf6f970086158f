/* A last batch of n < N samples; private to passes/.  What is proven of a graph is that it gives
 * then what the same program compiled for N = n would give. */
#ifndef HFTAC_PASSES_BATCH_BATCH_H
#define HFTAC_PASSES_BATCH_BATCH_H

#include "ir/graph.h"

/* batch_use.c: sets g->whole where the graph is right for whole batches only. */
void batch_judge(Graph *g);

/* batch_index.c: of a value that is computed of indices and constants alone.  With the axes
 * marked as in `mark`, is each element that counts the same number for every N? */
bool index_exact(const Graph *g, const Node *n, const int64_t *mark);
/* Is each a position along an axis with that mark: the same element for every N? */
bool index_position(const Graph *g, const Node *n, const int64_t *mark, int64_t along);
/* How often all samples lie in an axis that has a mark. */
int64_t batch_times(const Graph *g, const Shape *s, int axis);

#endif
