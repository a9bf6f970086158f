/* What the files of check_grad share: cases are put together into programs, and a program's
 * gradients are compared with central differences of the losses that the compiled model itself
 * computes. */
#ifndef HFTAC_TESTS_CHECK_GRAD_H
#define HFTAC_TESTS_CHECK_GRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/op.h"

/* A seeded generator (splitmix64): the same cases from the same seed everywhere. */
typedef struct Random {
    uint64_t state;
} Random;

uint64_t random_bits(Random *r);
int64_t random_below(Random *r, int64_t n);                /* 0 .. n - 1 */
int64_t random_between(Random *r, int64_t lo, int64_t hi); /* both ends belong */
double random_unit(Random *r);                             /* [0, 1) */
bool random_chance(Random *r, int percent);
void random_shuffle(Random *r, int64_t *v, int64_t n);

enum {
    GRAD_CASES = 32
};

/* Case number k owns the parameters whose names begin with "c<k>_"; its loss is left in the state
 * "c<k>_kept.value", the gradients of the sum of all losses in the states
 * "optimizer.grad.<parameter>".  Different cases share nothing. */
typedef struct GradCase {
    char name[192]; /* for messages: what it is and with which attributes */
    double lo, hi;  /* of its parameters' values; no two are equal */
    /* 0; else values are multiples of it, differences are taken that far away, and are exact. */
    double exact_by;
} GradCase;

typedef struct GradProgram {
    const char *suffix; /* ".hdl", ".hir" */
    char *text;         /* malloced */
    GradCase cases[GRAD_CASES];
    int n_cases;
} GradProgram;

/* ---- check_grad_rows.c, check_grad_index.c: one case for each row of the op table, as IR text
 * ---- */

int grad_rows_count(void);
/* The operator that case i is about. */
const char *grad_rows_name(int i);
/* Those n cases as one program, with shapes and attributes from seed; marks the rows they are
 * about in covered. */
GradProgram grad_rows_program(const int *which, int n, uint64_t seed, bool covered[OP_COUNT_]);
/* Fails (returns false, prints) if a differentiable row is in no case. */
bool grad_rows_covered(const bool covered[OP_COUNT_]);

/* ---- check_grad_library.c: the standard library's functions and layers, as .hdl ---- */

int grad_library_count(void);
const char *grad_library_name(int i);
GradProgram grad_library_program(const int *which, int n, uint64_t seed);

/* ---- check_grad_measure.c ---- */

/* Compiles the program for n_models models (one: without optimisation, which is faster), each
 * with its own parameters; prints and counts the cases whose gradients differ from the
 * differences.  If it does not compile or diverges, all its cases fail. */
int grad_measure(const GradProgram *p, int n_models, uint64_t seed);

#endif
