/* hftac_profile: which kernels take the time.
 *
 * A run's fast function is replaced by its list: kernels, each called for one model, and loops of them.  Only the
 * calling thread works, so that the times are those of one core, and they add up. */
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

static void run_kernel(hftac_array *a, uint32_t number, int64_t lo, int64_t hi)
{
    const HftacKernel *k = kernel_row(a, number);
    HftacKernelFn *f = hft_model_kernel(a->m, k->function);
    const double before = seconds_now();
    f(&a->frames[0], lo, hi, 0, k->n_work);
    a->profile[number].seconds += seconds_now() - before;
    a->profile[number].calls++;
}

/* `depth` loops are around the list. */
static void run_list(hftac_array *a, const HftacStep *list, int64_t lo, int64_t hi, int depth)
{
    for (uint32_t i = 0; i < list->n_steps; i++) {
        const HftacStep *s = hft_model_row(a->m, HFTAC_SECTION_STEPS, list->first_step + i);
        if (s->kind == HFTAC_STEP_KERNEL) {
            run_kernel(a, s->kernel, lo, hi);
            continue;
        }
        for (a->rounds[depth] = 0; a->rounds[depth] < s->count; a->rounds[depth]++)
            run_list(a, s, lo, hi, depth + 1);
    }
}

void hft_profile_step(hftac_array *a, const HftacStep *s, const unsigned char *wanted)
{
    if (s->kind == HFTAC_STEP_SHARED)
        run_list(a, s, 0, 0, 0);
    for (int32_t b = 0; s->kind == HFTAC_STEP_MODELS && b < a->n; b++)
        if (wanted[b])
            run_list(a, s, b, b + 1, 0);
}

/* ---- public ---- */

hftac_status hftac_profile(hftac_array *a, int32_t on)
{
    if (hft_check_array(a))
        return HFTAC_USAGE;
    free(a->profile);
    a->profile = NULL;
    if (!on)
        return HFTAC_OK;
    const size_t n = a->m->table[HFTAC_SECTION_KERNELS].n;
    a->profile = calloc(n ? n : 1, sizeof *a->profile);
    return a->profile ? HFTAC_OK : hft_fail_memory("a profile", n * sizeof *a->profile);
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
