/* Shape rules, named by the rows of ops.def; each is in ir/shape_*.c. */
#ifndef HFTAC_IR_SHAPE_H
#define HFTAC_IR_SHAPE_H

#include "ir/graph.h"

/* Where a rule reports; diag NULL: silently (the verifier).  samples: N, or 0 where it is not
 * known. */
typedef struct ShapeContext {
    Arena *arena;
    Diag *diag;
    SrcRange loc;
    int64_t samples;
} ShapeContext;

/* Reports (unless silent) and returns false. */
bool shape_fail(const ShapeContext *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The letters of "mk,nk->mn".  Each letter is one axis; a letter of a must not repeat within an
 * operand. */
typedef struct EinsumSpec {
    int n_a, n_b, n_out;
    char a[MAX_RANK], b[MAX_RANK], out[MAX_RANK];
} EinsumSpec;

bool einsum_parse(const char *spec, EinsumSpec *out);
/* Extent of a letter, from the operands' shapes. */
int64_t einsum_extent(const EinsumSpec *s, const Shape *a, const Shape *b, char letter);
/* Products that one element of the result is the sum of. */
double einsum_depth(const Node *einsum);

/* Can an operator belong to a value that is made of indices and constants alone? */
bool op_index_only(OpCode op);

/* Of a window (or unwindow) over `rank` axes: how many of them have taps; tap[k]: the result's
 * axis of the taps of axis k, -1: none. */
int window_taps(const Attrs *a, int rank, int *tap);

#endif
