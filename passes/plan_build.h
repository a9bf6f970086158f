/* Vertical fusion and memory planning: module (after lower) to Plan. */
#ifndef HFTAC_PASSES_PLAN_BUILD_H
#define HFTAC_PASSES_PLAN_BUILD_H

#include "ir/plan.h"
#include "passes/passes.h"

/* Groups each graph's nodes into kernels (passes/vfuse.c), orders them, and gives every value a place
 * (passes/memory.c).  optimize == 0: every node is a kernel of its own and nothing shares memory. */
Plan *plan_build(Module *m, const Target *t);

#endif
