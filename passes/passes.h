/* Graph to graph; each pass is one file.  All edit the module they are given; every one leaves it
 * verified (run_passes of tools/hftac.c verifies, dumps and times them). */
#ifndef HFTAC_PASSES_PASSES_H
#define HFTAC_PASSES_PASSES_H

#include "ir/graph.h"

/* What a pass may know of the target. */
typedef struct Target {
    bool cuda;    /* else the CPU */
    int optimize; /* -O0..-O3 */
} Target;

/* Replaces grad(loss, x) nodes by the adjoint graph (reverse mode).  One rule per row of ops.def,
 * passes/grad_*.c.  An operator whose rule is `missing` is an error at its source line. Returns
 * false after reporting.  Also removes detach. */
bool autodiff(Module *m);
/* In eval, eval_end and predict graphs: sums, maxima and contractions over an axis that comes
 * from N see only the first n_valid samples; count becomes n_valid * k.  In train and init count
 * becomes a constant. */
void mask_batch(Module *m);
/* Constant folding, algebraic identities that change no bit, common subexpressions, dead nodes;
 * to a fixed point. */
void simplify(Module *m);
/* One graph for B models: types get their interval, nodes their form. */
void hfuse(Module *m, int n_models, const Target *t);
/* What the target's kernels want: fixes chunk of each einsum, the stored layout of parameters and
 * inserts layout nodes where a contraction's vector operand is not contiguous. */
void lower(Module *m, const Target *t);

/* The last edits before the plan, which makes none: reductions keep their axes and go along
 * memory, outputs are stored in the shape that they are computed in. */
void prepare(Module *m);

typedef struct Pass {
    const char *name;
    ModuleStage stage; /* Module.stage after it */
    bool (*run)(Module *m, int n_models, const Target *t);
} Pass;

/* In order; the table that --dump-after and --time-report go by. */
extern const Pass pass_list[];
extern const int pass_count;

#endif
