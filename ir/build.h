/* Making nodes: infers the type by the row's shape rule, inherits place and models, names the
 * result.
 *
 * A builder stands at a graph's end, with the source place and the name hint for what it makes
 * next.  A failed shape rule has reported; the build call then returns NULL, and every build call
 * given a NULL operand returns NULL quietly, so that one mistake gives one message. */
#ifndef HFTAC_IR_BUILD_H
#define HFTAC_IR_BUILD_H

#include "ir/graph.h"
#include "ir/run_value.h"

typedef struct Builder {
    Graph *graph;
    SrcRange loc;
    const char *hint; /* names the next node(s); NULL: the operator's text */
} Builder;

/* The general one.  attrs NULL: the record's defaults. */
Node *build(Builder *b, OpCode op, const Attrs *attrs, int n_in, Node *const *in);

Node *build1(Builder *b, OpCode op, Node *x);
Node *build2(Builder *b, OpCode op, Node *x, Node *y);
Node *build3(Builder *b, OpCode op, Node *x, Node *y, Node *z);

/* Leaves: the type is given. */
Node *build_input(Builder *b, const char *name); /* declared in the module */
Node *build_state(Builder *b,
                  const char *name); /* declared in the module; one node per graph and state */
Node *build_hyper(Builder *b, const char *name); /* f64[]; one node per graph and hyper */
Node *build_scalar(Builder *b, RunValue v);      /* f64[]; one node per graph and value */
Node *build_seed(Builder *b);                    /* i64[] */
/* A leaf of another graph of the module, n, in this one. */
Node *build_same_leaf(Builder *b, const Node *n);
Node *build_const(Builder *b, DType dtype, double value);                    /* rank 0 */
Node *build_full(Builder *b, DType dtype, const Shape *shape, double value); /* every element */
Node *build_table(Builder *b, DType dtype, const Shape *shape, const double *data); /* copied */

/* n with the marks of `shape` where the shape rule found none: no rule can infer those of an axis
 * that is new. */
Node *build_mark(Node *n, const Shape *shape);

/* x itself where nothing changes.  expand and iota (and full) keep the shape's batch marks. */
Node *build_cast(Builder *b, Node *x, DType to);
Node *build_reshape(Builder *b, Node *x, const Shape *shape);
Node *build_expand(Builder *b, Node *x, const Shape *shape);
Node *build_permute(Builder *b, Node *x, const int64_t *dims);
Node *build_slice(Builder *b, Node *x, const int64_t *start, const int64_t *step,
                  const int64_t *size);
/* x at start + step * i along each axis of extent `size`, `value` elsewhere. */
Node *build_pad(Builder *b, Node *x, const int64_t *start, const int64_t *step,
                const int64_t *size, double value);
/* op: OP_WINDOW or OP_UNWINDOW; attrs.window is given. */
Node *build_window(Builder *b, OpCode op, Node *x, const Attrs *attrs);
/* op: OP_SUM, OP_REDMAX, OP_REDMIN, OP_ARGMAX; dims non-negative, distinct. */
Node *build_reduce(Builder *b, OpCode op, Node *x, int n, const int64_t *dims, bool keepdim);
Node *build_einsum(Builder *b, Node *x, Node *y, const char *spec);
Node *build_iota(Builder *b, const Shape *shape, int64_t dim);
/* x summed down to `shape`, the reverse of broadcasting shape to x's. */
Node *build_sum_to(Builder *b, Node *x, const Shape *shape);

#endif
