/* The reading rule: which element of an operand does element i of a node read, under which
 * conditions, and what is it where they do not hold?
 *
 * For everything that follows values from the stores of a kernel down to memory: the back ends,
 * which compute what is read, the planner, which looks at what loops an index depends on, the
 * count of a plan's work, and whoever wants the strides of a value that is seen through views.
 *
 * An index is affine in variables (ir/index.h), and what a variable is, is the client's affair:
 * the counter of a loop, an axis, a set of loops.  One thing only a client can do: make a
 * variable of a value that is used as an index.  That is the Reader's callback.
 *
 * An example: three windows of three elements, two apart, over a row with a zero at each end.
 *
 *   %x = input                                                  : f32[5]
 *   %p = pad %x start=[1] step=[1] size=[7] value=0             : f32[7]
 *   %w = window %p start=[0] step=[2] size=[3] taps=[3] dilation=[1] : f32[3, 3]
 *
 * Element [t, o] of %w, 0 <= t, o <= 2, is element 2 * o + t of %p, without a condition: a window
 * does not leave its operand.  Element p of %p is element p - 1 of %x, guarded by
 * 0 <= p - 1 < 5, and `outside` is 0.  With p = 2 * o + t the index is 2 * o + t - 1 with the
 * range -1 .. 5, so that the guard stays; for a block of the loop with o = 1 the range would be
 * 1 .. 3, and there would be none.  %x is stored, with stride 1: %w lies in its memory with
 * stride 1 along t and 2 along o, from element -1 on. */
#ifndef HFTAC_IR_READING_H
#define HFTAC_IR_READING_H

#include "ir/index.h"

/* It holds where 0 <= at < extent and rest == 0.  The operand is at index `at` along that axis,
 * so that what is read is inside if the first holds; rest is not 0 where the result's elements
 * are sparser than the operand's. */
typedef struct ReadGuard ReadGuard;
struct ReadGuard {
    ReadGuard *next;
    Affine at, rest;
    int64_t extent;
    int axis; /* of the operand */
};

typedef struct Reading {
    Index at;          /* of the operand; it may lie outside where a guard fails */
    ReadGuard *guards; /* those that may fail, in the order of axes; in the space's arena */
    double outside;    /* what is read where one of them fails */
} Reading;

enum {
    /* Variables that one reading, or one view, at an index of a variable for each axis needs: the
     * lane, those, a value that is an index, quotients and remainders. */
    READ_MOST_VARS = 2 + 3 * MAX_RANK
};

typedef struct Reader {
    IndexSpace *space;
    /* The value of `index` at `at`, clamped to 0 .. extent-1. */
    Affine (*value_as_index)(void *client, Node *index, const Index *at, int64_t extent);
    void *client;
} Reader;

/* How many operands, from the first on, does node_read know of?  The others, and those of a
 * contraction, are read in an order of the kernel's own; a gather's index is read by the callback
 * when its operand 0 is. */
int node_n_read(const Node *n);
/* What element i of n reads of operand k.  Along the axes that a reduction reduces the index is
 * 0, to be replaced by the loops'. */
void node_read(const Reader *r, const Node *n, int k, const Index *i, Reading *out);
/* Guards that say the same of what is loaded have the same key. */
uint64_t read_guard_key(const ReadGuard *g);
/* The axes of its operand that a reduction reduces, as bits. */
unsigned reduced_axes(const Node *reduce);

/* A view's map: which element of its operand is its element i. */
Index index_view(IndexSpace *s, const Node *view, const Index *i);

/* A reshape's map: which element of a value of shape `from` is element i of shape `to`. */
Index index_reshape(IndexSpace *s, const Shape *to, const Shape *from, const Index *i);

typedef bool ReadFromMemory(const void *context, const Node *n);

/* Through views: the first value from n on that is no view, or that `in_memory` says is stored.
 * *i, an index of n, is made one of that value; it may be NULL, and then s too. */
Node *read_through_views(IndexSpace *s, const Node *n, ReadFromMemory *in_memory,
                         const void *context, Index *i);
/* A view that is stored: in an order of axes of its own. */
bool node_is_layout(const Node *n);
/* What n is a view of: through all views but those. */
Node *base_of_views(const Node *n);
/* An index that is one new variable along each axis longer than 1; var[k]: that of axis k. */
Index index_of_axes(IndexSpace *s, const Shape *shape, int *var);
/* at = offset + sum of stride[k] * var[k]; false if other variables occur. */
bool affine_strides(Affine at, int rank, const int *var, int64_t *stride, int64_t *offset);

#endif
