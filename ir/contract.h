/* A contraction as plans and back ends see it: which letter is what, and along which one to
 * vectorise.
 *
 * One convention, kept by passes/lower/lower.c, relied on by plan_build and by the CPU back end:
 *
 *   - The *vector letter* is the innermost stored axis of the einsum's result: the last entry of
 *     the node's `order` (its
 *     last axis if it has none), or, in the body of a loop, where the einsum's reader is a LAYOUT
 *     node, the last entry
 *     of that node's perm.dims (the plan folds the LAYOUT into the contraction's store, so that
 *     the kernel's `vector` is
 *     that axis).
 *   - The vector letter is in exactly one operand, the *vector operand*; the other one, the
 *     *broadcast operand*,
 *     is read one element at a time, whatever its strides, and has a result letter of its own
 *     ("m").
 *   - The vector operand is stored with stride 1 along the vector letter.  Where the value is not
 *     so by itself
 *     the operand is a LAYOUT node, a copy which is materialised in the order of its perm.dims
 *     (storage order,
 *     outermost first); a parameter state instead has `layout` set (same meaning).
 *   - "By itself" supposes what ir/strides.h says: a state is stored by its `layout`, a LAYOUT by
 *     its perm.dims, every other
 *     value that an operand is computed from is materialised in its node's `order`; a view of
 *     such a value is read
 *     through its map.  So the plan materialises an einsum operand that is not a leaf or a view
 *     of one.
 *   - Every summed letter is in both operands.  They are summed in the order of first appearance
 *     in operand 0,
 *     the last one innermost.  chunk counts steps; 0: one chain over all of them.  Else the
 *     innermost letter along which
 *     so many steps fit is cut into chunks of as many whole steps of its own (and the letters
 *     outside it at each step): each chunk is a
 *     chain of its own that starts from zero, and the chains are added in order.
 *   - What has no letter m, no n or no summed letter is no einsum any more after lower (mul, sum).
 *
 * For cuda lower sets no layouts and chunk 0; the classes hold there too. */
#ifndef HFTAC_IR_CONTRACT_H
#define HFTAC_IR_CONTRACT_H

#include "ir/graph.h"

typedef enum LetterClass {
    LETTER_BATCH,     /* in both operands and the result */
    LETTER_BROADCAST, /* "m": in the broadcast operand and the result */
    LETTER_VECTOR, /* "n": in the vector operand and the result; the vector letter is one of them */
    LETTER_SUM     /* "k": in both operands, not in the result */
} LetterClass;

typedef struct ContractLetter {
    char letter;
    LetterClass cls;
    int64_t extent;
    int in[2]; /* axis in operand 0 and 1, -1: not there */
    int out;   /* axis in the result, -1: summed */
} ContractLetter;

typedef struct Contraction {
    const Node *node;
    int vector_operand; /* 0 or 1; the other is the broadcast operand */
    int n_out, n_sum;
    /* First the n_out result letters in storage order, outermost first, so that letter[n_out - 1]
     * is the vector letter; then the n_sum summed letters in summation order, outermost first. */
    ContractLetter letter[2 * MAX_RANK];
    int64_t batch, m, n, k; /* products of extents of each class */
    int64_t chunk;
    /* The letter that chunks cut, `cut_steps` of it at a time, n_chunks in all.  Without chunks:
     * the first summed letter, all of it, 1. */
    int cut;
    int64_t cut_steps, n_chunks;
} Contraction;

/* order: storage order of the result's axes, outermost first; NULL or n == 0: row-major.  False
 * if the innermost axis is not in exactly one operand, or a summed letter is in one operand only
 * (never after lower). */
bool contraction_of(const Node *einsum, const IntList *order, Contraction *out);
/* The operand's axis along which the value is contiguous in memory by the rules above, looking
 * through views; -1: none (opaque reshape, stepped slice, expanded innermost axis, rank 0). */
int stored_innermost(const Graph *g, const Node *value);

/* A layout that a state might get, to be judged before it has it. */
typedef struct LayoutTrial {
    const State *state;
    IntList layout;
} LayoutTrial;

/* The same if the state lay so. */
int stored_innermost_in(const Graph *g, const Node *value, const LayoutTrial *trial);

#endif
