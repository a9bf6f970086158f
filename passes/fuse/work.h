/* How often a kernel computes each of its values, private to passes/: what the planner decides by
 * and plan_check checks.
 *
 * The count follows what a back end does (docs/architecture.md, "Evaluating a node at an index"):
 * a value is computed once for each distinct (index, guards) that it is asked for at, and each
 * time in all rounds of the loops that stand round the innermost one which the index depends on. */
#ifndef HFTAC_PASSES_FUSE_WORK_H
#define HFTAC_PASSES_FUSE_WORK_H

#include "passes/fuse/vfuse.h"

/* In one kernel, and over all kernels of an entry.  WORK_TIMES: of a value per element; softmax
 * and normalisations read their operand in two or three loops.  WORK_SPREAD: what costs no more
 * to compute from memory may instead be computed WORK_ROUND_TIMES in each round of its kernel's
 * loops, however few elements it has, as a load costs about as much.  WORK_CHEAP: what costs no
 * more has no bound over all kernels, each may compute its own. */
enum {
    WORK_TIMES = 4,
    WORK_SPREAD = 8,
    WORK_CHEAP = 12,
    WORK_ROUND_TIMES = 4
};

/* Bounds of one kernel's code, so that a program's code, and the time that LLVM takes, grows as
 * its graph does.
 *
 * CODE_EVALUATIONS: of all values together; a back end writes code for each, in the blocks and in
 * the tail.  CODE_DEPTH: values that are computed one inside the other; the back ends nest as
 * deep, on the stack.  A reduction counts for CODE_REDUCE_DEPTH, as it has loops and partials of
 * its own.  CODE_CHOSEN_DEPTH: where the planner stores a value on that ground. */
enum {
    CODE_EVALUATIONS = 1024,
    CODE_DEPTH = 256,
    CODE_CHOSEN_DEPTH = 192,
    CODE_REDUCE_DEPTH = 8
};

/* Kernel or group: stores of `roots` over a nest of loops. */
typedef struct WorkNest {
    const Graph *graph;
    KernelKind kind;
    int n_roots;
    Node *const *roots;
    const Shape *space;
    const int *order;
    int vector;
    ReadFromMemory *external;
    const void *context;
} WorkNest;

typedef struct Work {
    Arena *arena;  /* of the tables */
    double *times; /* by node id: evaluations of one element, in all loops; 0: not computed */
    double *cost;  /* by node id, of what is computed: one element from what the nest reads */
    Node **node;   /* what is computed, readers before what they read */
    int n;
    double rounds;   /* of all loops together */
    int evaluations; /* of all values: what a back end writes code for */
    int *depth;      /* by node id: of values that are computed, this one the innermost */
    int deepest;     /* of all */
    double again;    /* scalar operations above once per element */
    /* Asked for at more indices than any plan needs, or deeper, or when there was too much: the
     * count ended there; or NULL. */
    const Node *endless;
    struct Evaluation **asked; /* by node id, during a count */
    /* A heap of node ids, the highest first: asked for, and not yet gone through. */
    int *waiting;
    int n_waiting;
} Work;

/* For graphs of n nodes; good for any number of counts. */
Work *work_new(Arena *a, int n);
void work_count(Work *w, const WorkNest *nest);
/* The first value, readers first, that a nest computes too often (passes/fuse/work.c says what
 * that is); NULL: none. */
const Node *work_excess(Work *w, const WorkNest *nest);

/* Of what was counted last. */
bool work_is_cheap(const Work *w, const Node *n);

/* Over all kernels of an entry. */
typedef struct WorkTotals {
    double *times; /* by node id: evaluations */
    bool *cheap;   /* in one of the kernels that compute it at least */
} WorkTotals;

WorkTotals work_totals(Arena *a, int n);
/* Adds what was counted last. */
void work_totals_add(WorkTotals *t, const Work *w);
/* Is n computed too often, over all kernels? */
bool work_totals_exceed(const WorkTotals *t, const Node *n);
double work_per_element(const WorkTotals *t, const Node *n);

/* plan_work.c: of a kernel of a finished plan; what it computes too often, or NULL. */
const Node *work_count_kernel(Work *w, const EntryPlan *e, const Kernel *k);
/* The property that plan_check demands of an entry; the first violation as a sentence, or NULL. */
const char *plan_work_check(const EntryPlan *e, Arena *a);

/* What the value adds to the depth of what it is computed from. */
int node_code_depth(const Node *n);
/* In units of scalars.def: one element of n from elements of its operands. */
double node_own_cost(const Node *n);

#endif
