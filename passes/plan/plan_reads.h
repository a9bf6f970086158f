/* What a kernel of a finished plan computes and reads, and at which index: for plan_check, which
 * must not take the planner's word for it.
 *
 * The index of a store is one variable for each axis of the kernel's space; from there each
 * operand's index follows by the reading rule (ir/reading.h), as forms in those variables.  Every
 * distinct (node, index) is one Access. */
#ifndef HFTAC_PASSES_PLAN_PLAN_READS_H
#define HFTAC_PASSES_PLAN_PLAN_READS_H

#include "ir/plan.h"
#include "ir/reading.h"

enum {
    ACCESS_REDUCED = 1 << MAX_RANK /* among axes: depends on the loop of a reduction */
};

typedef struct Access {
    Node *node;
    Index at; /* rank 0 where the order is the kernel's own affair: a contraction's operands */
    unsigned axes; /* of the kernel's space, that the index depends on, and ACCESS_REDUCED */
    bool read;     /* from memory; else computed */
    bool exact;    /* at just the index of the space that is being stored */
    int next;      /* of the same node, -1: none */
} Access;

typedef struct AccessList {
    Access *v;
    int n, cap;
    int *first; /* by node id, -1: none */
} AccessList;

/* Those of all stores of kernel k, or of one of them; the list's memory is used again. */
void plan_accesses(AccessList *out, Arena *a, const EntryPlan *e, const Kernel *k,
                   const Store *only);

#endif
