/* hftac_profile: which kernels take the time.  The device measures it; here stands what a kernel
 * is. */
#include "runtime/array.h"

static const HftacKernel *kernel_row(const hftac_array *a, uint32_t i)
{
    return hft_model_row(a->m, HFTAC_SECTION_KERNELS, i);
}

hftac_status hftac_profile(hftac_array *a, int32_t on)
{
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (on && !a->m->table[HFTAC_SECTION_KERNELS].n)
        return hft_fail(HFTAC_USAGE, "%s says nothing of its kernels", a->path);
    return a->device->kind->profile(a->device, on != 0);
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
    a->device->kind->kernel_time(a->device, (uint32_t)kernel, &out->calls, &out->seconds);
    return HFTAC_OK;
}
