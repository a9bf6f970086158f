/* How a case of one row of the op table is made: with the builder, from random shapes and
 * attributes. Between check_grad_rows.c and the files with the cases. */
#ifndef HFTAC_TESTS_CHECK_GRAD_ROWS_H
#define HFTAC_TESTS_CHECK_GRAD_ROWS_H

#include "ir/build.h"
#include "ir/shape.h"
#include "tests/check/check_grad.h"

typedef struct Maker {
    Random random;
    Builder b; /* at the end of the training graph */
    OpCode op; /* the row that the case is about */
    int number, n_params;
} Maker;

/* The value that the case's loss is made of; the row's operator is in it. */
typedef Node *MakeCase(Maker *m);

/* A new f64 parameter of the case. */
Node *make_param(Maker *m, const Shape *s);
/* Up to `limit` elements; extents of 1, odd ones and powers of two. */
Shape make_shape(Maker *m, int min_rank, int max_rank, int64_t limit);
/* What broadcasts to s: leading axes may be missing, others may be 1. */
Shape make_narrower(Maker *m, const Shape *s);
/* x itself or something that depends on it without a kink. */
Node *make_bent(Maker *m, Node *x);
/* Some of the axes 0 .. rank - 1, in any order; how many. */
int make_axes(Maker *m, int rank, int least, int64_t *dims);
/* Numbers for gather and scatter: i64 of that shape, each in lo .. hi. */
Node *make_indices(Maker *m, const Shape *s, int64_t lo, int64_t hi);

/* check_grad_rows.c: elementwise */
MakeCase make_binary, make_pow_number, make_mod, make_where, make_fma, make_unary, make_cast,
    make_slope;
/* check_grad_index.c: views, indices, reductions, contractions, scans */
MakeCase make_reshape, make_expand, make_permute, make_slice, make_window, make_pad,
    make_gather, make_reduce, make_einsum, make_scatter, make_cumsum, make_convolution,
    make_padded_rows;
/* check_grad_loop.c */
MakeCase make_loop;

#endif
