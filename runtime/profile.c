/* hftac_profile: which kernels take the time.
 *
 * A run's fast function is replaced by its list: kernels, each called for one model, and loops of
 * them.  Only the calling thread works, so that the times are those of one core, and they add up.
 */
#include "runtime/profile.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const HftacKernel *kernel_row(const hftac_array *a, uint32_t i)
{
    return hft_model_row(a->m, HFTAC_SECTION_KERNELS, i);
}

static unsigned char *memory_of(const hftac_array *a, const HftacPlace *p)
{
    const HftacFrame *f = &a->frames[0];
    const void *const memory[HFTAC_PLACE_PART] = {
        [HFTAC_PLACE_STATE] = f->state,     [HFTAC_PLACE_HYPER] = f->hypers,
        [HFTAC_PLACE_CLOCK] = f->clocks,    [HFTAC_PLACE_SCALAR] = f->scalars,
        [HFTAC_PLACE_SEED] = f->seeds,      [HFTAC_PLACE_SHARED] = f->shared,
        [HFTAC_PLACE_SCRATCH] = f->scratch, [HFTAC_PLACE_RESULT] = f->results,
    };
    const void *at = p->space == HFTAC_PLACE_INPUT    ? f->inputs[p->index]
                     : p->space == HFTAC_PLACE_OUTPUT ? f->outputs[p->index]
                     : p->space == HFTAC_PLACE_CONST  ? hft_model_address(a->m, p->index)
                                                      : memory[p->space];
    return (unsigned char *)(uintptr_t)at;
}

static unsigned char *pointer_of(const hftac_array *a, uint32_t place, int64_t model)
{
    const HftacPlace *p = hft_model_row(a->m, HFTAC_SECTION_PLACES, place);
    int64_t inside = 0;
    while (p->space == HFTAC_PLACE_PART) {
        const int64_t round = p->depth ? a->rounds[p->depth - 1] : 0;
        inside += p->offset + round * p->step;
        p = hft_model_row(a->m, HFTAC_SECTION_PLACES, round & 1 ? p->turn : p->base);
    }
    return memory_of(a, p) + p->offset + model * p->model_bytes + inside;
}

static void run_kernel(hftac_array *a, uint32_t number, int64_t model)
{
    const HftacKernel *k = kernel_row(a, number);
    HftacKernelFn *f = hft_model_kernel(a->m, k->function);
    for (uint32_t i = 0; i < k->n_places; i++) {
        const uint32_t *place = hft_model_row(a->m, HFTAC_SECTION_LISTS, k->first_place + i);
        a->pointers[i] = pointer_of(a, *place, model);
    }
    const double before = seconds_now();
    f(a->pointers, 0, k->n_work);
    a->profile[number].seconds += seconds_now() - before;
    a->profile[number].calls++;
}

/* `depth` loops are around the list. */
static void run_list(hftac_array *a, const HftacStep *list, int64_t model, int depth)
{
    for (uint32_t i = 0; i < list->n_steps; i++) {
        const HftacStep *s = hft_model_row(a->m, HFTAC_SECTION_STEPS, list->first_step + i);
        if (s->kind == HFTAC_STEP_KERNEL) {
            run_kernel(a, s->kernel, model);
            continue;
        }
        for (a->rounds[depth] = 0; a->rounds[depth] < s->count; a->rounds[depth]++)
            run_list(a, s, model, depth + 1);
    }
}

void hft_profile_step(hftac_array *a, const HftacStep *s, const unsigned char *wanted)
{
    if (s->kind == HFTAC_STEP_SHARED)
        run_list(a, s, 0, 0);
    for (int32_t b = 0; s->kind == HFTAC_STEP_MODELS && b < a->n; b++)
        if (wanted[b])
            run_list(a, s, b, 0);
}

/* ---- public ---- */

static size_t most_places(const hftac_array *a)
{
    size_t most = 0;
    for (uint32_t i = 0; i < a->m->table[HFTAC_SECTION_KERNELS].n; i++)
        most = kernel_row(a, i)->n_places > most ? kernel_row(a, i)->n_places : most;
    return most;
}

hftac_status hftac_profile(hftac_array *a, int32_t on)
{
    if (hft_check_array(a))
        return HFTAC_USAGE;
    free(a->profile);
    free(a->pointers);
    a->profile = NULL;
    a->pointers = NULL;
    const size_t n = a->m->table[HFTAC_SECTION_KERNELS].n;
    if (!on)
        return HFTAC_OK;
    if (!n)
        return hft_fail(HFTAC_USAGE, "%s says nothing of its kernels", a->path);
    void **pointers = calloc(most_places(a) + 1, sizeof *pointers);
    KernelTime *profile = pointers ? calloc(n, sizeof *profile) : NULL;
    if (!profile) {
        free(pointers);
        return hft_fail_memory("a profile", n * sizeof *profile);
    }
    a->pointers = pointers;
    a->profile = profile;
    return HFTAC_OK;
}

int32_t hftac_kernel_count(const hftac_array *a)
{
    return a ? (int32_t)a->m->table[HFTAC_SECTION_KERNELS].n : 0;
}

/* The entry whose lists name the kernel: its number, or -1. */
static bool list_has(const hftac_array *a, const HftacStep *list, uint32_t kernel)
{
    for (uint32_t i = 0; i < list->n_steps; i++) {
        const HftacStep *s = hft_model_row(a->m, HFTAC_SECTION_STEPS, list->first_step + i);
        if (s->kind == HFTAC_STEP_KERNEL ? s->kernel == kernel : list_has(a, s, kernel))
            return true;
    }
    return false;
}

static const char *entry_of(const hftac_array *a, uint32_t kernel)
{
    static const char *const names[HFTAC_N_ENTRIES] = {"init", "train", "eval", "eval_end",
                                                       "predict"};
    for (uint32_t which = 0; which < HFTAC_N_ENTRIES; which++) {
        const HftacEntry *e = hft_model_entry(a->m, which);
        for (uint32_t i = 0; e && i < e->n_steps; i++) {
            const HftacStep *s = hft_entry_step(a->m, e, i);
            if (s->kind != HFTAC_STEP_BARRIER && list_has(a, s, kernel))
                return names[which];
        }
    }
    return "";
}

hftac_status hftac_read_kernel(const hftac_array *a, int32_t kernel, hftac_kernel_profile *out)
{
    if (out)
        *out = (hftac_kernel_profile){0};
    if (!a || !out)
        return hft_fail(HFTAC_USAGE, "%s is NULL", a ? "out" : "array");
    const hftac_status s = hft_check_handle(a, kernel, hftac_kernel_count(a), "kernel");
    if (s)
        return s;
    const HftacKernel *k = kernel_row(a, (uint32_t)kernel);
    *out = (hftac_kernel_profile){.name = hft_model_text(a->m, k->name),
                                  .source = hft_model_text(a->m, k->source),
                                  .entry = entry_of(a, (uint32_t)kernel),
                                  .operations = k->operations,
                                  .bytes = k->bytes_read + k->bytes_written};
    if (a->profile) {
        out->calls = a->profile[kernel].calls;
        out->seconds = a->profile[kernel].seconds;
    }
    return HFTAC_OK;
}
