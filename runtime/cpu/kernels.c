/* Entries kernel by kernel, with a clock: which kernels take the time.
 *
 * A run's fast function is replaced by its list: kernels, each called for one model, and loops of
 * them.  Only the calling thread works, so that the times are those of one core, and they add up.
 */
#include <stdlib.h>
#include <time.h>

#include "runtime/cpu/call.h"
#include "runtime/cpu/device.h"
#include "runtime/error.h"

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const HftacKernel *kernel_row(const CpuDevice *c, uint32_t i)
{
    return hft_model_row(c->m, HFTAC_SECTION_KERNELS, i);
}

static unsigned char *memory_of(const CpuDevice *c, const HftacPlace *p)
{
    const HftacFrame *f = &c->frames[0];
    const void *const memory[HFTAC_PLACE_PART] = {
        [HFTAC_PLACE_STATE] = f->state,     [HFTAC_PLACE_HYPER] = f->hypers,
        [HFTAC_PLACE_CLOCK] = f->clocks,    [HFTAC_PLACE_SCALAR] = f->scalars,
        [HFTAC_PLACE_SEED] = f->seeds,      [HFTAC_PLACE_SHARED] = f->shared,
        [HFTAC_PLACE_SCRATCH] = f->scratch, [HFTAC_PLACE_RESULT] = f->results,
    };
    const void *at = p->space == HFTAC_PLACE_INPUT    ? f->inputs[p->index]
                     : p->space == HFTAC_PLACE_OUTPUT ? f->outputs[p->index]
                     : p->space == HFTAC_PLACE_CONST  ? hft_model_address(c->m, p->index)
                                                      : memory[p->space];
    return (unsigned char *)(uintptr_t)at;
}

static unsigned char *pointer_of(const CpuDevice *c, uint32_t place, int64_t model)
{
    const HftacPlace *p = hft_model_row(c->m, HFTAC_SECTION_PLACES, place);
    int64_t inside = 0;
    while (p->space == HFTAC_PLACE_PART) {
        const int64_t round = p->depth ? c->rounds[p->depth - 1] : 0;
        inside += p->offset + round * p->step;
        p = hft_model_row(c->m, HFTAC_SECTION_PLACES, round & 1 ? p->odd_base : p->base);
    }
    return memory_of(c, p) + p->offset + model * p->model_bytes + inside;
}

static void run_kernel(CpuDevice *c, uint32_t number, int64_t model)
{
    const HftacKernel *k = kernel_row(c, number);
    HftacKernelFn *f = hft_model_kernel(c->m, k->function);
    for (uint32_t i = 0; i < k->n_places; i++) {
        const uint32_t *place = hft_model_row(c->m, HFTAC_SECTION_LISTS, k->first_place + i);
        c->pointers[i] = pointer_of(c, *place, model);
    }
    const double before = seconds_now();
    hft_cpu_call(f, c->pointers, k->n_work);
    c->times[number].seconds += seconds_now() - before;
    c->times[number].calls++;
}

/* `depth` loops are around the list. */
static void run_list(CpuDevice *c, const HftacStep *list, int64_t model, int depth)
{
    for (uint32_t i = 0; i < list->n_steps; i++) {
        const HftacStep *s = hft_model_row(c->m, HFTAC_SECTION_STEPS, list->first_step + i);
        if (s->kind == HFTAC_STEP_KERNEL) {
            run_kernel(c, s->kernel, model);
            continue;
        }
        for (c->rounds[depth] = 0; c->rounds[depth] < s->count; c->rounds[depth]++)
            run_list(c, s, model, depth + 1);
    }
}

void hft_cpu_run_kernels(CpuDevice *c, const HftacStep *s, const unsigned char *wanted)
{
    if (s->kind == HFTAC_STEP_SHARED)
        run_list(c, s, 0, 0);
    for (int32_t b = 0; s->kind == HFTAC_STEP_MODELS && b < c->models; b++)
        if (wanted[b])
            run_list(c, s, b, 0);
}

static size_t most_places(const CpuDevice *c)
{
    size_t most = 0;
    for (uint32_t i = 0; i < c->m->table[HFTAC_SECTION_KERNELS].n; i++)
        most = kernel_row(c, i)->n_places > most ? kernel_row(c, i)->n_places : most;
    return most;
}

hftac_status hft_cpu_profile(Device *d, bool on)
{
    CpuDevice *c = (CpuDevice *)d;
    free(c->times);
    free(c->pointers);
    c->times = NULL;
    c->pointers = NULL;
    if (!on)
        return HFTAC_OK;
    const size_t n = c->m->table[HFTAC_SECTION_KERNELS].n;
    void **pointers = calloc(most_places(c) + 1, sizeof *pointers);
    KernelTime *times = pointers ? calloc(n + 1, sizeof *times) : NULL;
    if (!times) {
        free(pointers);
        return hft_fail_memory("a profile", n * sizeof *times);
    }
    c->pointers = pointers;
    c->times = times;
    return HFTAC_OK;
}

void hft_cpu_kernel_time(const Device *d, uint32_t kernel, int64_t *calls, double *seconds)
{
    const CpuDevice *c = (const CpuDevice *)d;
    *calls = c->times ? c->times[kernel].calls : 0;
    *seconds = c->times ? c->times[kernel].seconds : 0;
}
