/* The list of steps of an entry point, for the planner and for plans that tests write by hand:
 * kernels in their order, cut into runs where they change between those of all models and those
 * of each. */
#include "ir/plan.h"

int kernel_run_end(const EntryPlan *e, int kernel)
{
    int end = kernel + 1;
    while (end < e->n_kernels && e->kernels[end].per_model == e->kernels[kernel].per_model)
        end++;
    return end;
}

bool step_is_run(const Step *s)
{
    return s->kind == STEP_SHARED || s->kind == STEP_MODELS;
}

/* One step for each kernel first <= k < end. */
static Step *list_kernels(const EntryPlan *e, Arena *a, int first, int end)
{
    Step *list = arena_array(a, (size_t)(end - first) + 1, sizeof *list);
    for (int k = first; k < end; k++) {
        const LoopPlan *loop = e->kernels[k].loop;
        list[k - first] = (Step){.kind = loop ? STEP_LOOP : STEP_KERNEL, .kernel = k};
        if (!loop)
            continue;
        list[k - first].list = loop->body->steps;
        list[k - first].n_list = loop->body->n_steps;
    }
    return list;
}

static void list_runs(EntryPlan *e, Arena *a)
{
    e->steps = arena_array(a, 2 * (size_t)e->n_kernels + 1, sizeof *e->steps);
    e->n_steps = 0;
    for (int first = 0, end; first < e->n_kernels; first = end) {
        end = kernel_run_end(e, first);
        if (first > 0)
            e->steps[e->n_steps++] = (Step){.kind = STEP_BARRIER, .kernel = -1};
        e->steps[e->n_steps++] =
            (Step){.kind = e->kernels[first].per_model ? STEP_MODELS : STEP_SHARED,
                   .kernel = -1,
                   .list = list_kernels(e, a, first, end),
                   .n_list = end - first};
    }
}

void plan_steps(EntryPlan *e, Arena *a)
{
    if (!e->graph->owner) {
        list_runs(e, a);
        return;
    }
    e->steps = list_kernels(e, a, 0, e->n_kernels);
    e->n_steps = e->n_kernels;
}
