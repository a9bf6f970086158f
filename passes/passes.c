/* The passes in their order. */
#include "passes/passes.h"

static bool run_autodiff(Module *m, int n_models, const Target *t)
{
    (void)n_models;
    (void)t;
    return autodiff(m);
}

static bool run_mask_batch(Module *m, int n_models, const Target *t)
{
    (void)n_models;
    (void)t;
    mask_batch(m);
    return true;
}

static bool run_simplify(Module *m, int n_models, const Target *t)
{
    (void)n_models;
    (void)t;
    simplify(m);
    return true;
}

static bool run_hfuse(Module *m, int n_models, const Target *t)
{
    hfuse(m, n_models, t);
    return true;
}

static bool run_lower(Module *m, int n_models, const Target *t)
{
    (void)n_models;
    lower(m, t);
    return true;
}

static bool run_prepare(Module *m, int n_models, const Target *t)
{
    (void)n_models;
    (void)t;
    prepare(m);
    return true;
}

const Pass pass_list[] = {
    {"autodiff", MODULE_GRAD, run_autodiff},   {"mask_batch", MODULE_MASKED, run_mask_batch},
    {"simplify", MODULE_SIMPLE, run_simplify}, {"hfuse", MODULE_FUSED, run_hfuse},
    {"lower", MODULE_LOWERED, run_lower},      {"prepare", MODULE_PREPARED, run_prepare},
};
const int pass_count = sizeof pass_list / sizeof *pass_list;
