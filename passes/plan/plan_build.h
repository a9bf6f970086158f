/* Vertical fusion and memory planning: module (after prepare) to Plan. */
#ifndef HFTAC_PASSES_PLAN_PLAN_BUILD_H
#define HFTAC_PASSES_PLAN_PLAN_BUILD_H

#include "ir/plan.h"
#include "passes/passes.h"

/* Groups each graph's nodes into kernels (passes/vfuse*.c), orders them, and gives every value a
 * place (passes/fuse/memory.c).  optimize == 0: every node is a kernel of its own and nothing
 * shares memory.  The graphs stay as they are.  The plan is checked. */
Plan *plan_build(Module *m, const Target *t);

/* What must hold of a plan: every value read was written by an earlier kernel or comes from
 * outside, loop nests compute nothing again and again, state is read before it is written,
 * buffers that are alive together do not overlap but where a store may write over what it reads.
 * The first violation as a sentence, or NULL. */
const char *plan_check(const Plan *p, Arena *a);
/* --work-report: a line for each entry: kernels; evaluations that code is written for; rounds of
 * all loops; scalar operations against the least; how often per element the most repeated values
 * are computed.  All of one model. */
void plan_print_work(Text *out, const Plan *p);

#endif
