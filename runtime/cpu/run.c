/* Running an entry's list of steps on worker threads.
 *
 * The models that it runs for are cut into one contiguous block per worker, the same one as long
 * as the same models run, so that a model's state stays in one core's cache.  The function of a
 * run is called once per maximal row of neighbours. */
#include <string.h>

#include "runtime/cpu/device.h"

static void partition_make(Partition *p, int32_t n, int threads, const unsigned char *wanted)
{
    memcpy(p->wanted, wanted, (size_t)n);
    p->made = true;
    int32_t total = 0;
    for (int32_t b = 0; b < n; b++)
        total += wanted[b] != 0;
    p->n_workers = total < threads ? total : threads;
    int32_t run = 0, seen = 0, b = 0;
    for (int t = 0; t < p->n_workers; t++) {
        p->first[t] = run;
        const int32_t end = (int32_t)((int64_t)total * (t + 1) / p->n_workers);
        while (seen < end) {
            while (!wanted[b])
                b++;
            p->lo[run] = b;
            while (b < n && wanted[b] && seen < end) {
                b++;
                seen++;
            }
            p->hi[run++] = b;
        }
    }
    p->first[p->n_workers] = run;
}

typedef struct StepJob {
    const CpuDevice *c;
    const Partition *p;
    HftacRegionFn *function;
} StepJob;

static void run_worker(void *context, int worker)
{
    const StepJob *job = context;
    const Partition *p = job->p;
    for (int32_t r = p->first[worker]; r < p->first[worker + 1]; r++)
        job->function(&job->c->frames[worker], p->lo[r], p->hi[r]);
}

/* Every step is done before the next one begins, so a barrier is nothing that is left to do. */
static void run_step(CpuDevice *c, const Partition *p, const HftacStep *s)
{
    StepJob job = {.c = c, .p = p};
    switch (s->kind) {
    case HFTAC_STEP_SHARED:
        hft_model_run(c->m, s->function)(&c->frames[0], 0, 0);
        break;
    case HFTAC_STEP_MODELS:
        job.function = hft_model_run(c->m, s->function);
        hft_pool_run(c->pool, p->n_workers, run_worker, &job);
        break;
    }
}

hftac_status hft_cpu_run(Device *d, uint32_t entry, const unsigned char *wanted)
{
    CpuDevice *c = (CpuDevice *)d;
    const HftacEntry *e = hft_model_entry(c->m, entry);
    Partition *p = entry == HFTAC_ENTRY_TRAIN ? &c->training : &c->others;
    if (!p->made || memcmp(p->wanted, wanted, (size_t)c->models) != 0)
        partition_make(p, c->models, d->threads, wanted);
    for (uint32_t i = 0; p->n_workers && i < e->n_steps; i++) {
        const HftacStep *s = hft_entry_step(c->m, e, i);
        if (c->times)
            hft_cpu_run_kernels(c, s, wanted);
        else
            run_step(c, p, s);
    }
    return HFTAC_OK;
}
