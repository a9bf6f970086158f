/* Inside the CUDA back end: a planned program as CUDA C.
 *
 * Every expression kernel (kinds 1 and 2) becomes one __global__ function over (element, model); a contraction becomes a
 * cuBLAS call - printed as a comment in its place - and a function for its epilogue, which reads what the
 * call wrote.  Values are the names of C variables; each loop level collects its own text, so that whatever depends
 * on outer variables only stands outside the inner loop, as in the CPU back end. */
#ifndef HFTAC_CODEGEN_CUDA_CUDA_H
#define HFTAC_CODEGEN_CUDA_CUDA_H

#include "codegen/index.h"
#include "ir/contract.h"
#include "ir/plan.h"

typedef struct CudaLevel CudaLevel;
struct CudaLevel {
    CudaLevel *up;
    Text text;
    const char *head; /* "for (...) {"; NULL for the function's body */
    int depth;
};

typedef struct CudaMemo CudaMemo;
struct CudaMemo {
    CudaMemo *next;
    const Node *node;
    Index index;
    const char *value;
    CudaLevel *level;
};

typedef struct Cuda {
    Arena *arena;
    Text *out;
    const Plan *plan;
    const EntryPlan *top;   /* of the module's graph */
    const EntryPlan *entry; /* the same or a loop's body in it */
    const Kernel *kernel;
    const Buffer *product; /* of a contraction's epilogue: where the call put the einsum's value */
    IndexSpace space;
    const char **var_text;  /* by variable */
    CudaLevel **var_level;
    int var_cap;
    CudaLevel *level;
    CudaMemo *memo;
    int n_values;
} Cuda;

/* eval.c */
void cuda_begin(Cuda *c, const Kernel *k);
int cuda_var(Cuda *c, const char *text, int64_t count, CudaLevel *level);
void cuda_push(Cuda *c, const char *head);
void cuda_pop(Cuda *c);
void cuda_line(Cuda *c, CudaLevel *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *cuda_eval(Cuda *c, const Node *n, const Index *i);
void cuda_store(Cuda *c, const Store *s, const Index *i);
const char *cuda_type(DType t);
/* Of the array that holds a constant. */
const char *cuda_table_name(const Cuda *c, const Buffer *b);

/* scalar.c */
extern const char cuda_preamble[];
/* The C expression of a scalar function; x are C expressions without side effects. */
const char *cuda_scalar(Arena *a, ScalarFn f, DType result, const char *const *x);

/* gemm.c: the call that computes k's einsum into `product`, as a comment. */
void cuda_print_gemm(Cuda *c, const Kernel *k, const Buffer *product);

#endif
