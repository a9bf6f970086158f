/* Inside the CUDA back end: a planned program as CUDA C.
 *
 * Every kernel of kinds 1, 2, 4 and 5 becomes one or two __global__ functions over (element,
 * model); a contraction becomes a cuBLAS call - printed as a comment in its place - with
 * functions that pack operands which cuBLAS cannot read as they lie, and one for its epilogue,
 * which reads what the call wrote.  What is to be done in which order, calls and rounds of loops
 * included, stands at the end of the text as host code in macros (HF_STEPS).
 *
 * Values are the names of C variables; each level (a loop, a condition) collects its own text, so
 * that whatever depends on outer variables only stands outside the inner loop, as in the CPU back
 * end.
 *
 * Memory: as in the CPU's frame, but every model has a scratch of its own, HF_SCRATCH bytes;
 * behind what the plan places there, and behind shared memory, is room for packed operands and
 * products of one contraction. */
#ifndef HFTAC_CODEGEN_CUDA_CUDA_H
#define HFTAC_CODEGEN_CUDA_CUDA_H

#include "ir/contract.h"
#include "ir/index.h"
#include "ir/plan.h"

typedef struct CudaLevel CudaLevel;
struct CudaLevel {
    CudaLevel *up;
    Text text;
    /* "for (...) {", "if (...) {"; NULL for the function's body */
    const char *head;
    int depth;
    /* all threads of a block go through it together */
    bool uniform;
};

typedef struct CudaMemo CudaMemo;
typedef struct CudaVar CudaVar;
typedef struct CudaTable CudaTable;

enum {
    CUDA_NESTED = 1 << MAX_RANK /* among axes: depends on the variable of a reduction */
};

/* What a function's evaluation met. */
typedef struct CudaTrace {
    struct CudaReduction {
        /* of the space, that its index depends on, and CUDA_NESTED */
        unsigned axes;
        /* elements reduced to one */
        int64_t count;
    } * reductions;
    int n_reductions, cap_reductions;
    const Buffer **loads;
    int n_loads, cap_loads;
} CudaTrace;

typedef struct Cuda {
    Arena *arena;
    /* functions */
    Text *out;
    /* constants */
    Text *tables;
    /* host code */
    Text *steps;
    const Plan *plan;
    const EntryPlan *entry;
    /* of names: the entry's, with the numbers of loops around */
    const char *prefix;
    const Kernel *kernel;
    /* Of a contraction's epilogue: where the call put the einsum's value. */
    const Buffer *product;
    /* of a block that works on one point together; 0: every thread for itself */
    int threads;
    IndexSpace space;
    /* by variable */
    CudaVar *var;
    int var_cap;
    CudaLevel *level;
    CudaMemo *memo;
    CudaTrace trace;
    int n_values, indent;
    CudaTable *known_tables;
    /* bytes behind the plan's shared memory and behind its scratch */
    int64_t temporary[2];
} Cuda;

/* level.c: variables, index text, levels. */
void cuda_begin(Cuda *c, const Kernel *k);
/* A variable 0 <= v < count known at that level; axes: of the space, that it depends on. */
int cuda_var(Cuda *c, AffineVarKind kind, const char *text, int64_t count, CudaLevel *level,
             unsigned axes);
/* The form as a variable of the current level, where 0 <= it < count is known. */
int cuda_bounded(Cuda *c, const Affine *a, int64_t count);
unsigned cuda_axes_of(Cuda *c, const Index *i);
void cuda_push(Cuda *c, bool uniform, const char *head);
void cuda_pop(Cuda *c);
void cuda_line(Cuda *c, CudaLevel *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
const char *cuda_affine(Cuda *c, const Affine *a);
CudaLevel *cuda_level_of(Cuda *c, const Index *i);
const char *cuda_name(Arena *a, const char *name); /* a C identifier */
const char *cuda_find(const Cuda *c, const Node *n, const Index *i);
void cuda_remember(Cuda *c, const Node *n, const Index *i, const char *value);

/* place.c: memory. */
const char *cuda_type(DType t);        /* of values */
const char *cuda_memory_type(DType t); /* the same, but bool is u8 */
/* Element 0 of model b's, as an expression of the element's pointer type. */
const char *cuda_buffer(Cuda *c, const Buffer *b);
/* The element at i as an lvalue. */
const char *cuda_element(Cuda *c, const Buffer *b, const Index *i);
/* Elements from model to model, as text; "0" if shared. */
const char *cuda_model_stride(Cuda *c, const Buffer *b);
/* May a write to one change the other? */
bool cuda_overlap(const Buffer *a, const Buffer *b);
/* Room for a dense value behind the plan's memory, after `*bytes` bytes that are taken; grows
 * them. */
Buffer *cuda_temporary(Cuda *c, bool per_model, DType t, const Shape *shape, int64_t bytes[2]);

/* eval.c: the value of n at i, as text without side effects. */
const char *cuda_eval(Cuda *c, const Node *n, const Index *i);
const char *cuda_number(Arena *a, DType t, double v);
const char *cuda_value(Cuda *c, CudaLevel *at, DType t, const char *expression);
/* n at i clamped to 0 .. extent-1, as an index. */
Affine cuda_eval_as_index(Cuda *c, const Node *n, const Index *i, int64_t extent);
/* Writes v, of type `from`, at the current level. */
void cuda_store(Cuda *c, const Buffer *to, const Index *i, DType from, const char *v);

/* reduce.c */
const char *cuda_reduce(Cuda *c, const Node *n, const Index *i, CudaLevel *at);

/* function.c: the functions of a kernel and how they are launched. */
/* All stores of the kernel as one function; `product`: see Cuda. */
void cuda_print_function(Cuda *c, const Kernel *k, const Buffer *product, const char *name);
/* Everything of c->out's function but its head: prints both, and the launch. */
void cuda_end_function(Cuda *c, const char *name, CudaLevel *root, int64_t points,
                       bool per_model);
/* Starts a function whose threads are the points of these axes (in that order, the last one
 * fastest); returns its body. */
CudaLevel *cuda_begin_points(Cuda *c, int n_axes, const int *axis, const Shape *shape, Index *i,
                             int64_t *points);
void cuda_print_scatter(Cuda *c, const Kernel *k, const char *name);
void cuda_step(Cuda *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* gemm.c: the call, packing and epilogue of a contraction. */
void cuda_print_contract(Cuda *c, const Kernel *k, const char *name);

/* preamble.c: what the text, and its host code, begin with. */
void cuda_print_preamble(Text *out);
void cuda_print_steps_head(Text *out);

/* scalar.c */
/* The C expression of a scalar function; x are C expressions without side effects. */
const char *cuda_scalar(Arena *a, ScalarFn f, DType result, const char *const *x);

#endif
