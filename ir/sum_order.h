/* In which order a reduction adds, from the operand's shape and element type alone: what every
 * back end that promises the same bits follows, whatever its registers, layouts and loops are.
 * docs/architecture.md, "Bits", has the rule in words.
 *
 * Items: where the last axis longer than 1 is reduced, an item is SUM_LANES elements side by side
 * along it, added lane by lane (the last item is filled up with +0); otherwise an item is one
 * element.  The reduced axes are a nest of levels, ascending, a level for each with more than one
 * item: a level adds up what the next one inside gives for each of its steps, the innermost one
 * items. */
#ifndef HFTAC_IR_SUM_ORDER_H
#define HFTAC_IR_SUM_ORDER_H

#include "ir/graph.h"

enum {
    SUM_LANES = 16,
    SUM_ROUNDS = 16,     /* of a block */
    SUM_FEW = 24,        /* fewer items: one partial */
    SUM_MAX_PARTIALS = 4 /* items side by side: one to a partial in each round */
};

/* One level.  Item k < rounds * partials belongs to partial k % partials, the others to partial
 * 0; each partial is an ascending chain that starts from +0.  Of more than SUM_ROUNDS rounds each
 * SUM_ROUNDS are a block: after it the partials are folded in halves, put into a tree of blocks
 * and start anew; what is left after the last block comes last. */
typedef struct SumLevel {
    int axis;      /* of the operand */
    bool lanes;    /* its items are SUM_LANES elements */
    int64_t whole; /* items, without one that is not full */
    int tail;      /* elements of that one, 0: there is none */
    int partials;
    int64_t rounds, rest, blocks;
} SumLevel;

typedef struct SumOrder {
    bool inner;     /* items of SUM_LANES elements */
    int lane_axis;  /* the axis along which these lie */
    int item_lanes; /* how many elements the item has if there is no level along that axis */
    int n;
    SumLevel level[MAX_RANK];
} SumOrder;

SumOrder sum_order(const Node *reduce);

#endif
