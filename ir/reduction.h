/* The table of reductions (reductions.def), and where the operand of a REDUCE operator is read: for
 * passes and back ends, which all take from here what a reduction is.
 *
 * Example: `%5 = sum %4 dims=[1] : f32[8]` of %4 : f32[8, 3].  Its row says that partial sums are
 * joined by SC_ADD, start from 0 and are rounded in the order of ir/sum_order.h; its walk at the
 * result's index [i] reads the operand at [i, 0], and `axis` says that the second component is the
 * one over which the loops of the back end go. */
#ifndef HFTAC_IR_REDUCTION_H
#define HFTAC_IR_REDUCTION_H

#include "ir/index.h"

typedef enum ReductionIdentity {
    IDENTITY_ZERO,
    IDENTITY_ONE,
    IDENTITY_LOWEST,
    IDENTITY_HIGHEST
} ReductionIdentity;

typedef struct ReductionInfo {
    ScalarFn step;
    ReductionIdentity identity;
    /* Steps round: their order shows in the bits. */
    bool rounded;
    /* The result is the number of an element and not a value. */
    bool position;
} ReductionInfo;

/* The row of a node of kind REDUCE. */
const ReductionInfo *reduction_info(const Node *n);
/* Infinite or the type's extreme value where the row says LOWEST or HIGHEST. */
double reduction_identity(const ReductionInfo *r, DType t);

/* Where a reduction reads its operand. */
typedef struct ReductionWalk {
    const ReductionInfo *info;
    /* Element type of what is joined. */
    DType dtype;
    /* Index of the operand (ir/reading.h); 0 along the reduced axes, to be replaced by the
     * loops'. */
    Index at;
    /* The reduced axes of the operand in ascending order, and their extents. */
    int axis[MAX_RANK];
    Shape along;
} ReductionWalk;

/* For the element at `result` of the node's result. */
ReductionWalk reduction_walk(IndexSpace *s, const Node *n, const Index *result);

#endif
