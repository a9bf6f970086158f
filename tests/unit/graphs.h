/* Small modules for the unit tests of passes, and how to evaluate them with the reference. */
#ifndef HFTAC_TESTS_UNIT_GRAPHS_H
#define HFTAC_TESTS_UNIT_GRAPHS_H

#include "ir/build.h"
#include "passes/passes.h"
#include "tests/unit/ref.h"

#define CHECK(ok, ...) check_that((ok), __FILE__, __LINE__, __VA_ARGS__)

/* Counts and prints a failure. */
void check_that(bool ok, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Prints the sum; the test's exit status. */
int check_status(void);

enum {
    MAX_VALUES = 24
};

/* A module under construction, with one graph and the values of what it reads. */
typedef struct Lab {
    Arena *arena;
    Diag *diag;
    char *messages; /* what the passes report */
    size_t messages_len;
    FILE *out;
    Module *module;
    Graph *graph;
    Builder b;
    RefBinding bindings[MAX_VALUES];
    int n_bindings;
} Lab;

void lab_open(Lab *l, EntryKind entry);
void lab_close(Lab *l);
/* A state and its value: pseudo-random within lo .. hi, no two equal; the node that reads it. */
Node *lab_state(Lab *l, const char *name, StateRole role, DType t, Shape shape, double lo,
                double hi);
/* An input and its value, which is copied. */
Node *lab_input(Lab *l, const char *name, DType t, Shape shape, const double *data);
void lab_bind(Lab *l, OpCode op, const char *name, const double *data, int64_t count);
double *lab_data(const Lab *l, const char *name);
void lab_output(Lab *l, OutputKind kind, const char *name, Node *value);
Node *lab_grad(Lab *l, Node *loss, Node *x);
/* Verifies, then evaluates. */
double **lab_evaluate(Lab *l, const char *after);
/* Largest difference of an output's values to `expected`, relative to 1 + |expected|; infinite if
 * NaNs disagree. */
double lab_error(const Lab *l, double *const *values, const char *output,
                 const double *expected, int64_t count);
int lab_count(const Lab *l, OpCode op);
Shape shape1(int64_t a);
Shape shape2(int64_t a, int64_t b);
Shape shape3(int64_t a, int64_t b, int64_t c);
Shape shape4(int64_t a, int64_t b, int64_t c, int64_t d);

#endif
