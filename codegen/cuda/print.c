/* A planned program as CUDA C: for each entry, in order of execution, the functions of its
 * kernels and the cuBLAS calls as comments; then the same order as host code. */
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cuda/cuda.h"

static void print_list(Cuda *c, const Step *list, int n);

/* The body's kernels are run in order, in rounds; each knows the numbers of the rounds around it.
 */
static void print_loop(Cuda *c, const Kernel *k, const Step *step, const char *name)
{
    const EntryPlan *outer = c->entry;
    const char *prefix = c->prefix;
    const int depth = k->loop->body->graph->depth;
    text_printf(c->out, "/* %s: %lld rounds of { */\n\n", name, (long long)k->loop->count);
    cuda_step(c, "for (i64 s%d = 0; s%d < %lld; s%d++) {", depth, depth,
              (long long)k->loop->count, depth);
    c->entry = k->loop->body;
    c->prefix = name;
    c->indent++;
    print_list(c, step->list, step->n_list);
    c->indent--;
    c->entry = outer;
    c->prefix = prefix;
    cuda_step(c, "}");
    text_printf(c->out, "/* } of %s */\n\n", name);
}

static void print_kernel(Cuda *c, const Step *step)
{
    const Kernel *k = &c->entry->kernels[step->kernel];
    const char *name = arena_printf(c->arena, "%s_k%d_%s", c->prefix, step->kernel,
                                    cuda_name(c->arena, k->name));
    switch (k->kind) {
    case KERNEL_EXPR:
        cuda_print_function(c, k, NULL, name);
        break;
    case KERNEL_CONTRACT:
        cuda_print_contract(c, k, name);
        break;
    case KERNEL_SCATTER:
        cuda_print_scatter(c, k, name);
        break;
    case KERNEL_LOOP:
        print_loop(c, k, step, arena_printf(c->arena, "%s_k%d", c->prefix, step->kernel));
        break;
    }
}

/* A stream does what it is given in order, so a barrier between runs asks for nothing. */
static void print_list(Cuda *c, const Step *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (step_is_run(&list[i]))
            print_list(c, list[i].list, list[i].n_list);
        else if (list[i].kind != STEP_BARRIER)
            print_kernel(c, &list[i]);
    }
}

/* The flags of guarded stores are set by whoever meets a value that is not finite, so first they
 * are cleared. */
static void clear_flags(Cuda *c, const EntryPlan *e)
{
    const int models = c->plan->module->n_models;
    Text lines;
    text_init(&lines, c->arena);
    for (int k = 0; k < e->n_kernels; k++)
        for (int s = 0; s < e->kernels[k].n_stores; s++)
            if (e->kernels[k].stores[s].flag)
                text_printf(&lines, "    *%s = 0;\n",
                            cuda_buffer(c, e->kernels[k].stores[s].flag));
    if (!lines.len)
        return;
    text_printf(c->out,
                "extern \"C\" __global__ void %s_flags(Frame f, int models)\n{\n"
                "    const i64 b = blockIdx.y;\n"
                "    if (threadIdx.x > 0 || b >= models)\n        return;\n%s}\n\n",
                c->prefix, lines.s);
    cuda_step(c, "HF_LAUNCH(%s_flags, 1, 1, %d, 0, f, %d);", c->prefix, models, models);
}

static void print_entry(Cuda *c, const EntryPlan *e)
{
    c->entry = e;
    c->prefix = cuda_name(c->arena, e->graph->name);
    text_printf(c->out, "/* ---- %s: %d kernels ---- */\n\n", e->graph->name, e->n_kernels);
    text_printf(c->steps, "HF_ENTRY(%s)\n{\n    const i64 b = 0;\n    (void)b;\n", c->prefix);
    clear_flags(c, e);
    print_list(c, e->steps, e->n_steps);
    text_add(c->steps, "}\n\n");
}

/* Initial values are computed on the host. */
static bool is_printed(const EntryPlan *e)
{
    return e->graph->entry != ENTRY_INIT;
}

static void print_model(const Cuda *c, Text *out)
{
    const Plan *p = c->plan;
    text_add(out, "HF_ENTRIES {\n");
    for (int i = 0; i < p->n_entries; i++)
        if (is_printed(&p->entries[i]))
            text_printf(out, "    HF_HAS(%s),\n",
                        cuda_name(c->arena, p->entries[i].graph->name));
    text_add(out, "};\n\nHF_STATES {\n");
    for (int i = 0; i < p->module->n_states; i++)
        text_printf(out, "    {\"%s\", %lld, %lld},\n", p->module->states[i].name,
                    (long long)p->states[i].offset, (long long)p->states[i].bytes);
    text_printf(out, "};\n\nHF_MODEL(%d, %d, %d, %lld)\n", p->module->n_models,
                p->module->n_hypers, p->n_results, (long long)p->state_bytes);
}

static long long total(int64_t planned, int64_t temporary)
{
    return (long long)(((planned + 63) & ~(int64_t)63) + temporary);
}

void cuda_print(Arena *a, const Plan *p, Text *out)
{
    Text functions, tables, steps;
    text_init(&functions, a);
    text_init(&tables, a);
    text_init(&steps, a);
    Cuda c = {.arena = a, .out = &functions, .tables = &tables, .steps = &steps, .plan = p};
    text_add(&tables, "");
    for (int i = 0; i < p->n_entries; i++)
        if (is_printed(&p->entries[i]))
            print_entry(&c, &p->entries[i]);
    print_model(&c, &steps);
    text_printf(out,
                "/* %s for %d models: written by hftac.  Order of execution is order in this "
                "file. */\n",
                p->module->name, p->module->n_models);
    cuda_print_preamble(out);
    text_printf(out, "\n/* Bytes of shared memory, and of each model's scratch. */\n");
    text_printf(out, "enum : i64 { HF_SHARED = %lld, HF_SCRATCH = %lld };\n\n",
                total(p->shared_bytes, c.temporary[0]),
                total(p->scratch_bytes, c.temporary[1]));
    text_add(out, tables.s);
    text_addn(out, functions.s, functions.len);
    cuda_print_steps_head(out);
    text_addn(out, steps.s, steps.len);
    text_add(out, "#endif\n");
}
