/* The CPU device's memory: one allocation each for state, shared values, scratch, inputs and
 * outputs, and small tables.  close takes a half-built device, so that open has one way out. */
#include "runtime/cpu/device.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"

enum {
    LINE = 64,
    SCRATCH_GAP = 128
};

static CpuDevice *cpu_of(Device *d)
{
    return (CpuDevice *)d;
}

/* n * size zeroed bytes; NULL and false when they do not fit or are not there. */
static bool table(void *pointer_to_table, uint64_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    memcpy(pointer_to_table, &p, sizeof p);
    if (!p)
        hft_fail_memory("tables", n * size);
    return p != NULL;
}

static bool round_up(uint64_t bytes, uint64_t unit, uint64_t *out)
{
    return !__builtin_add_overflow(bytes, unit - 1, out) && ((*out -= *out % unit), true);
}

static bool block(unsigned char **out, const char *what, uint64_t bytes)
{
    *out = hft_cpu_allocate(bytes);
    if (!*out)
        hft_fail_memory(what, bytes);
    return *out != NULL;
}

/* Cuts one block into an area per row, each aligned to a line. */
typedef struct Cut {
    uint64_t bytes;
    bool overflow;
} Cut;

static uint64_t cut_next(Cut *c, uint64_t bytes, uint64_t copies)
{
    const uint64_t at = c->bytes;
    uint64_t area;
    if (__builtin_mul_overflow(bytes, copies, &area) || !round_up(area, LINE, &area) ||
        __builtin_add_overflow(c->bytes, area, &c->bytes))
        c->overflow = true;
    return at;
}

static uint64_t copies_of(const CpuDevice *c, uint32_t input)
{
    return hft_model_input(c->m, input)->is_each ? (uint64_t)c->models : 1;
}

static bool allocate_inputs(CpuDevice *c)
{
    const uint32_t n = c->m->table[HFTAC_SECTION_INPUTS].n;
    if (!table(&c->input_at, n, sizeof *c->input_at) ||
        !table(&c->input_buffer, n, sizeof *c->input_buffer))
        return false;
    Cut all = {0}, next = {0};
    for (uint32_t i = 0; i < n; i++)
        cut_next(&all, hft_model_input(c->m, i)->bytes, copies_of(c, i));
    if (!block(&c->input_memory, "inputs", all.overflow ? UINT64_MAX : all.bytes))
        return false;
    c->device.memory.input = all.bytes;
    for (uint32_t i = 0; i < n; i++) {
        const HftacInput *in = hft_model_input(c->m, i);
        c->input_buffer[i] = c->input_memory + cut_next(&next, in->bytes, copies_of(c, i));
        c->input_at[i] = c->input_buffer[i];
        if (in->is_drawn)
            hft_cpu_feed_drawn(&c->device, i);
    }
    return true;
}

static bool allocate_outputs(CpuDevice *c)
{
    const uint32_t n = c->m->table[HFTAC_SECTION_OUTPUTS].n;
    const uint64_t models = (uint64_t)c->models;
    if (!table(&c->output_at, n, sizeof *c->output_at))
        return false;
    Cut all = {0}, next = {0};
    for (uint32_t i = 0; i < n; i++)
        cut_next(&all, hft_model_output(c->m, i)->bytes, models);
    if (!block(&c->output_memory, "outputs", all.overflow ? UINT64_MAX : all.bytes))
        return false;
    c->device.memory.output = all.bytes;
    for (uint32_t i = 0; i < n; i++)
        c->output_at[i] =
            c->output_memory + cut_next(&next, hft_model_output(c->m, i)->bytes, models);
    return true;
}

/* Of the models in use, which may be fewer than the file's; the file's are known to fit. */
static uint64_t state_bytes(const CpuDevice *c)
{
    const uint64_t n = (uint64_t)c->models;
    uint64_t bytes = n * c->m->variant->state_bytes;
    for (uint32_t i = 0; i < c->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(c->m, i);
        const uint64_t end = s->offset + (n - 1) * s->model_bytes + s->bytes;
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

static bool allocate_values(CpuDevice *c)
{
    DeviceMemory *size = &c->device.memory;
    uint64_t stride;
    size->state = state_bytes(c);
    size->shared = c->m->info->shared_bytes;
    if (!round_up(c->m->info->scratch_bytes, LINE, &stride) ||
        __builtin_add_overflow(stride, SCRATCH_GAP, &stride) ||
        __builtin_mul_overflow(stride, (uint64_t)c->device.threads, &size->scratch))
        size->scratch = UINT64_MAX;
    c->scratch_stride = stride;
    return block(&c->state, "the models' state", size->state) &&
           block(&c->shared, "shared values", size->shared) &&
           block(&c->scratch, "scratch", size->scratch);
}

static bool allocate_partition(const CpuDevice *c, Partition *p)
{
    const uint64_t n = (uint64_t)c->models;
    return table(&p->wanted, n, 1) && table(&p->lo, n, sizeof *p->lo) &&
           table(&p->hi, n, sizeof *p->hi) &&
           table(&p->first, (uint64_t)c->device.threads + 1, sizeof *p->first);
}

static bool allocate_tables(CpuDevice *c)
{
    return table(&c->results, (uint64_t)c->models * c->m->info->n_results, sizeof(double)) &&
           table(&c->frames, (uint64_t)c->device.threads, sizeof *c->frames) &&
           allocate_partition(c, &c->training) && allocate_partition(c, &c->others);
}

static void fill_frames(CpuDevice *c, const Control *control)
{
    for (int32_t t = 0; t < c->device.threads; t++)
        c->frames[t] = (HftacFrame){.size = sizeof(HftacFrame),
                                    .state = c->state,
                                    .shared = c->shared,
                                    .scratch = c->scratch + (size_t)t * c->scratch_stride,
                                    .inputs = c->input_at,
                                    .hypers = control->hypers,
                                    .clocks = control->clocks,
                                    .scalars = control->scalars,
                                    .seeds = control->seeds,
                                    .results = c->results,
                                    .outputs = c->output_at};
}

static void free_partition(Partition *p)
{
    free(p->wanted);
    free(p->lo);
    free(p->hi);
    free(p->first);
}

static void close_device(Device *d)
{
    CpuDevice *c = cpu_of(d);
    hft_pool_close(c->pool);
    free_partition(&c->training);
    free_partition(&c->others);
    void *const memory[] = {c->state, c->shared, c->scratch, c->input_memory, c->output_memory};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        hft_cpu_release(memory[i]);
    void *const tables[] = {c->input_at, c->input_buffer, c->output_at, c->results,
                            c->frames,   c->times,        c->pointers};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        free(tables[i]);
    free(c);
}

static hftac_status open_device(const DeviceSetup *setup, Device **out)
{
    if (setup->number != 0)
        return hft_fail(HFTAC_USAGE, "the device \"cpu\" has no number %d", setup->number);
    CpuDevice *c = calloc(1, sizeof *c);
    if (!c)
        return hft_fail_memory("a device", sizeof *c);
    c->device.kind = &hft_cpu_device;
    c->device.runs_kept = 1;
    const int32_t threads = setup->threads ? setup->threads : hft_cpu_count();
    c->device.threads = threads < setup->models ? threads : setup->models;
    c->m = setup->model;
    c->models = setup->models;
    hftac_status s = HFTAC_MEMORY;
    if (allocate_values(c) && allocate_inputs(c) && allocate_outputs(c) && allocate_tables(c)) {
        fill_frames(c, setup->control);
        s = hft_pool_open(c->device.threads, &c->pool);
    }
    if (s)
        close_device(&c->device);
    else
        *out = &c->device;
    return s;
}

/* ---- bytes from and to the host ---- */

static unsigned char *state_at(const CpuDevice *c, const HftacState *s, int32_t model)
{
    return c->state + s->offset + (size_t)model * s->model_bytes;
}

static hftac_status upload(Device *d, uint32_t state, int32_t model, const void *stored)
{
    const HftacState *s = hft_model_state(cpu_of(d)->m, state);
    memcpy(state_at(cpu_of(d), s, model), stored, s->bytes);
    return HFTAC_OK;
}

static hftac_status download(Device *d, uint32_t state, int32_t model, void *stored)
{
    const HftacState *s = hft_model_state(cpu_of(d)->m, state);
    memcpy(stored, state_at(cpu_of(d), s, model), s->bytes);
    return HFTAC_OK;
}

static hftac_status clear(Device *d, uint32_t state, int32_t model)
{
    const HftacState *s = hft_model_state(cpu_of(d)->m, state);
    memset(state_at(cpu_of(d), s, model), 0, s->bytes);
    return HFTAC_OK;
}

/* Frames point at the control itself. */
static void control_changed(Device *d)
{
    (void)d;
}

/* runs_kept is 1. */
static hftac_status results(Device *d, int32_t ago, const double **values)
{
    (void)ago;
    *values = cpu_of(d)->results;
    return HFTAC_OK;
}

static hftac_status output(Device *d, uint32_t output, const void **values)
{
    *values = cpu_of(d)->output_at[output];
    return HFTAC_OK;
}

/* Row numbers are read where they stand. */
static hftac_status set_order(Device *d, const int64_t *order, size_t n)
{
    (void)d;
    (void)order;
    (void)n;
    return HFTAC_OK;
}

/* run returns when all is done. */
static hftac_status synchronise(Device *d)
{
    (void)d;
    return HFTAC_OK;
}

const DeviceKind hft_cpu_device = {.name = "cpu",
                                   .open = open_device,
                                   .close = close_device,
                                   .upload = upload,
                                   .download = download,
                                   .clear = clear,
                                   .set_order = set_order,
                                   .feed = hft_cpu_feed,
                                   .feed_borrowed = hft_cpu_feed_borrowed,
                                   .feed_drawn = hft_cpu_feed_drawn,
                                   .control_changed = control_changed,
                                   .run = hft_cpu_run,
                                   .results = results,
                                   .output = output,
                                   .synchronise = synchronise,
                                   .profile = hft_cpu_profile,
                                   .kernel_time = hft_cpu_kernel_time};
