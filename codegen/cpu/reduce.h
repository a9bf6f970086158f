/* Inside the CPU emitter's reductions: what is joined (reduce.c) and in which loops
 * (reduce_levels.c). */
#ifndef HFTAC_CODEGEN_CPU_REDUCE_H
#define HFTAC_CODEGEN_CPU_REDUCE_H

#include "codegen/cpu/emit.h"
#include "ir/reduction.h"
#include "ir/sum_order.h"

enum {
    MAX_WIDTH = 4 /* vectors of an item: SUM_LANES over the fewest lanes */
};

/* What is accumulated: a value and, for argmax, the position that it came from (NULL otherwise). */
typedef struct Partial {
    LLVMValueRef value, position;
} Partial;

/* An item, or a sum of items: `width` vectors, or one value. */
typedef struct Group {
    Partial part[MAX_WIDTH];
} Group;

/* Room for groups: arrays on the stack, which become registers where every index is a constant. */
typedef struct Bank {
    LLVMValueRef value, position;
} Bank;

typedef struct Reduction {
    const Node *node, *operand;
    const ReductionInfo *info;
    DType dtype; /* of the accumulator */
    SumOrder order;
    Index at;         /* of the operand; reduced axes are filled in by the loops */
    Affine lane_base; /* where the item starts along order.lane_axis */
    bool inner;       /* lanes are elements of one result */
    bool vector;      /* values are vectors */
    bool narrow;      /* positions fit 32 bits */
    bool looped;      /* the operand is long: one loop has it once for all whole items */
    int width;
} Reduction;

Partial partial_identity(Emit *e, const Reduction *r);
/* b joined to a; associative and, but for rounding, commutative.  (Positions without
 * lanes of one result: b comes after a, as there is one partial.) */
Partial partial_join(Emit *e, const Reduction *r, Partial a, Partial b);
Bank bank_new(Emit *e, const Reduction *r, int groups, const char *name);
Group group_load(Emit *e, const Reduction *r, const Bank *b, LLVMValueRef number);
void group_store(Emit *e, const Reduction *r, const Bank *b, LLVMValueRef number,
                 const Group *g);
Group group_identity(Emit *e, const Reduction *r);
Group group_join(Emit *e, const Reduction *r, const Group *a, const Group *b);
/* Adds the item of `lanes` elements at r->at to a group of the bank. */
void item_add(Emit *e, Reduction *r, const Bank *b, LLVMValueRef number, int lanes);
/* All lanes of an inner reduction's group folded in halves, or the only value; as the result has
 * it. */
LLVMValueRef group_result(Emit *e, const Reduction *r, Group g);
/* Emits all loops; the sum of everything. */
Group reduce_levels(Emit *e, Reduction *r);

#endif
