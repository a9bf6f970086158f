/* A planned program: which nodes are computed together (kernels), in what order, and where values
 * live.
 *
 * Fusion does not rewrite the graph.  A node is *materialised* if some kernel stores it; every
 * other node is computed inside the kernels that read it.  A kernel is a list of stores over one
 * iteration space; what a store computes is found by walking from its value to operands until a
 * materialised node of another kernel or a leaf is met.  So a back end needs one thing per kind:
 * how to evaluate a node at an index.
 *
 * All bits are decided here, for one model: a kernel is code for one model, and the models are a
 * loop round it. */
#ifndef HFTAC_IR_PLAN_H
#define HFTAC_IR_PLAN_H

#include "ir/graph.h"
#include "ir/index.h"

typedef enum BufferSpace {
    BUF_STATE,   /* in the model's block of state; offset within it */
    BUF_INPUT,   /* frame->inputs[index] */
    BUF_HYPER,   /* frame->hypers, index */
    BUF_CLOCK,   /* frame->clocks, index: run_values.def */
    BUF_SCALAR,  /* frame->scalars, index: run_values.def less RUN_CLOCK_COUNT */
    BUF_SEED,    /* frame->seeds */
    BUF_CONST,   /* data in model.so: node->attrs.value */
    BUF_SHARED,  /* one for all models, offset in frame->shared */
    BUF_SCRATCH, /* of the thread that runs the model, offset in frame->scratch */
    BUF_RESULT,  /* frame->results, f64, index */
    BUF_OUTPUT   /* frame->outputs[index] */
} BufferSpace;

/* Where a value is.  stride: in elements, per logical axis (0 occurs for an extent above 1 only
 * where a loop's argument is an expanded value).
 *
 * base: not a place of its own but a part of that one, which an entry further out has: in round s
 * of the loop that is `depth` loops deep it begins at base + shift + s * step, or, in odd rounds
 * and if there is one, at odd_base + shift + s * step. */
typedef struct Buffer Buffer;
struct Buffer {
    const char *name;
    BufferSpace space;
    DType dtype;
    /* Does each model have its own?  So it is with STATE, HYPER, CLOCK, SEED, RESULT, OUTPUT and
     * `each` INPUTs: that of model b is at offset + b * model_bytes. */
    bool per_model;
    /* Which input, output, hyper, result or scalar of the run. */
    int index;
    /* In bytes; `bytes` is the size of one model's. */
    int64_t offset, bytes;
    /* The distance between models, this buffer's own; 0 if it is shared or scratch. */
    int64_t model_bytes;
    Shape shape;
    int64_t stride[MAX_RANK];
    /* Kernels, by position in the entry, that write it first and read it last; of SCRATCH and
     * SHARED only. */
    int first, last;
    /* CONST: the node that has the values. */
    const Node *constant;
    Buffer *base, *odd_base;
    /* In bytes. */
    int64_t shift, step;
    int depth;
    /* Is it memory of an entry further out than the one whose kernels read or write it? */
    bool outside;
};

typedef enum KernelKind {
    KERNEL_EXPR,     /* kinds 1 and 2: expressions and reductions over a space */
    KERNEL_CONTRACT, /* kind 3: one einsum with an epilogue */
    KERNEL_SCATTER,
    KERNEL_LOOP
} KernelKind;

/* Is the value computed by the kernel or read?  Computed, unless EntryPlan.buffer has a place for
 * it that this kernel does not store it to: then the store copies from there.  One value may have
 * several stores in one kernel. */
typedef struct Store {
    Node *value;
    /* Value's axes and to->shape agree; element types may differ: the store converts (result:
     * f64). */
    Buffer *to;
    /* NULL, or a result: elements that are not finite are not stored, and it becomes 1 if there
     * were some, else 0.  `to` is then a state of the value's type, and the kernel no scatter. */
    Buffer *flag;
} Store;

/* space: the iteration space.  A store's value has the same rank and on each axis the space's
 * extent or 1 (KERNEL_EXPR): it is stored at the depth of its innermost axis that is not 1; or
 * rank 0. In KERNEL_CONTRACT space is the einsum's result, all stores have it, and they depend on
 * `contract` elementwise. At each index the values of all stores at that depth are computed
 * before any of them is stored: a kernel may write a state, or memory of a dying value, that it
 * reads at the same index.  What it stores it does not load again: it computes it where it needs
 * it at another index. A reduction whose operand's last axis (longer than 1) is reduced is never
 * inside the loop over `vector`, every other one always is: so its bits do not depend on the
 * plan. vector: the axis of space that is innermost and vectorised; -1: none (rank 0: a reduction
 * inside vectorises its own innermost axis).  order: loop order of the axes, outermost first,
 * vector last. */
typedef struct EntryPlan EntryPlan;

/* A loop's body as an entry of its own: its kernels are run in order in each of `count` rounds. */
typedef struct LoopPlan {
    EntryPlan *body;
    int64_t count;
    int n_carried;
    /* Of each carried value: read in even rounds and written in odd ones, and the other way
     * round. */
    Buffer *(*place)[2];
    /* of the entry around: memory that is in use as long as the loop runs */
    Buffer **held;
    int n_held, cap_held;
} LoopPlan;

typedef struct Kernel {
    KernelKind kind;
    /* of the first store's value */
    const char *name;
    bool per_model;
    Shape space;
    int order[MAX_RANK];
    int vector;
    Store *stores;
    int n_stores;
    /* KERNEL_CONTRACT: the einsum; KERNEL_SCATTER: the scatter_add; KERNEL_LOOP: the loop. */
    Node *contract;
    /* KERNEL_LOOP: its stores are the loop's results, which its body writes */
    LoopPlan *loop;
    /* KERNEL_EXPR without index, views and reductions whose values all have the space's shape
     * (or rank 0) and lie in memory in one order without gaps: one loop over all elements does
     * it. */
    bool flat;
} Kernel;

/* What an entry does, in order.  Kinds:
 *   SHARED   a run of kernels of all models: once, by one thread
 *   MODELS   a run of kernels of each model: one model after the other, by any thread
 *   BARRIER  what stands before is done before what stands behind begins
 *   KERNEL   one kernel
 *   LOOP     a kernel that is a loop: its list in each of its rounds
 * The steps of an entry point are runs with barriers between them, the list of a run and of a
 * loop are KERNELs and LOOPs.  What a target does in another way than by its own kernels - a
 * launch, a call of a library, a message to another machine - is one more kind. */
typedef enum StepKind {
    STEP_SHARED,
    STEP_MODELS,
    STEP_BARRIER,
    STEP_KERNEL,
    STEP_LOOP
} StepKind;

typedef struct Step Step;
struct Step {
    StepKind kind;
    /* KERNEL, LOOP: position among the kernels of the entry, or of the loop's body, that has the
     * list; else -1. */
    int kernel;
    /* of a run or a loop */
    Step *list;
    int n_list;
};

/* One entry point, or a loop's body. */
struct EntryPlan {
    Graph *graph;
    /* in the order in which the steps name them */
    Kernel *kernels;
    int n_kernels;
    /* plan_steps */
    Step *steps;
    int n_steps;
    /* By node id: where the node's value can be read; NULL: computed where it is read. */
    Buffer **buffer;
    int64_t scratch_bytes, shared_bytes;
    /* names of the entry's results, in order of BUF_RESULT index */
    const char **results;
    int n_results;
};

typedef struct Plan {
    Module *module;
    /* in the order of module->graphs */
    EntryPlan *entries;
    int n_entries;
    /* by position in module->states */
    Buffer *states;
    /* one model's block, a multiple of 64 */
    int64_t state_bytes;
    /* the largest entry's */
    int64_t scratch_bytes;
    int64_t shared_bytes;
    /* the largest entry's */
    int n_results;
} Plan;

/* Lists the steps of an entry whose kernels, and those of the loops among them, are known. */
void plan_steps(EntryPlan *e, Arena *a);
/* SHARED or MODELS. */
bool step_is_run(const Step *s);
/* Behind the last kernel of the run that the kernel is in. */
int kernel_run_end(const EntryPlan *e, int kernel);
/* Scratch or shared memory that this entry's plan gives a place to. */
bool buffer_is_planned(const Buffer *b);
/* --emit=lowered: kernels and the nodes inside them; --emit=plan: with places. */
void plan_print(Text *out, const Plan *p, bool places);
/* --mem-report: bytes per space, the largest buffers, the formula state + shared + threads *
 * scratch. */
void plan_print_memory(Text *out, const Plan *p);
/* Stored here or read?  The place that kernel k reads n's value from; NULL: it computes the value
 * where it needs it, as n has no place or as it is k that stores it there.  A leaf other than a
 * constant is read whoever writes its place. */
const Buffer *kernel_read(const EntryPlan *e, const Kernel *k, const Node *n);
/* The same as a ReadFromMemory. */
typedef struct KernelOfEntry {
    const EntryPlan *entry;
    const Kernel *kernel;
} KernelOfEntry;
bool kernel_reads(const void *kernel_of_entry, const Node *n);
/* The place that kernel k reads n from, itself or through views: per axis of n the stride in
 * elements (0 on axes of extent 1 and on broadcast ones), and the offset of element 0.  NULL: the
 * kernel computes it, or its elements are at no strides. */
const Buffer *kernel_operand(IndexSpace *s, const EntryPlan *e, const Kernel *k, const Node *n,
                             int64_t *stride, int64_t *offset);
/* The nodes that kernel k computes, in definition order (arena array); *n: how many. */
Node **kernel_body(const EntryPlan *e, const Kernel *k, Arena *a, int *n);

#endif
