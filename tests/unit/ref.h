/* The reference: evaluates any graph node by node with plain loops, in double.
 *
 * Real values are not rounded to f32 (a gradient check needs the digits); integers are exact up
 * to 2^53.  Shares no code with ir/scalar.c or a back end.  grad nodes are not evaluated: run
 * autodiff first. */
#ifndef HFTAC_TESTS_UNIT_REF_H
#define HFTAC_TESTS_UNIT_REF_H

#include "ir/graph.h"

/* A value given from outside: row-major, logical order of the axes. */
typedef struct RefBinding {
    OpCode op; /* OP_INPUT, OP_STATE, OP_HYPER, OP_SCALAR */
    const char *name;
    const double *data;
} RefBinding;

typedef struct RefWorld {
    const RefBinding *bindings;
    int n_bindings;
    uint64_t seed;
    /* Not 0: each real value computed that is no whole number is off by up to this part of it, at
     * random by `noise_seed`: how far results move tells how far rounding may move them. */
    double noise;
    uint64_t noise_seed;
} RefWorld;

/* The values of all nodes, by id, each row-major.  A leaf without a binding, or an operator that
 * the reference does not know, ends the program with status 1 and a sentence. */
double **ref_evaluate(Arena *a, const Graph *g, const RefWorld *w);
/* The value of an output by name (the first such of any kind) in what ref_evaluate gave; NULL:
 * none. */
const double *ref_output(const Graph *g, double *const *values, const char *name,
                         int64_t *count);
/* 32 random bits of element `element`: Philox 4x32-10 as ops.def says. */
uint32_t ref_random(uint64_t seed, uint64_t step, const char *path, uint64_t element);

#endif
