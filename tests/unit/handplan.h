/* A plan without passes/: every output is a kernel of its own (or outputs of one shape share
 * one), every einsum and layout too.  So codegen is tested alone, on .hir text. */
#ifndef HFTAC_TESTS_UNIT_HANDPLAN_H
#define HFTAC_TESTS_UNIT_HANDPLAN_H

#include "ir/plan.h"

/* Of graph "predict".  share: neighbouring outputs of equal shape become one kernel. */
Plan *handplan(Arena *a, Module *m, bool share);

#endif
