/* A device whose memory nobody else can touch, for tests that link it in place of the library's
 * list of devices: whatever runs on it and gives the bits of the CPU holds no pointer into device
 * memory and tells the device of every change.
 *
 * It is the CPU device behind a wall.  Its memory (hft_cpu_allocate is defined here and not taken
 * from the library) lies in pages that can be read and written during its own calls only. Results
 * and outputs are handed out as copies; entries see a copy of the control, which is made anew
 * only after control_changed.  Tensors that have a number are copied once, orders of samples when
 * they are set, and batches are taken from the copies.  The results of four runs can be had. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cpu/device.h"

enum {
    MAX_BLOCKS = 4096,
    MAX_TENSORS = 64,
    RUNS_KEPT = 4
};

typedef struct Block {
    void *at;
    size_t bytes;
} Block;

/* Arrays are opened and used by one thread at a time in the tests that link this. */
static Block blocks[MAX_BLOCKS];

void *hft_cpu_allocate(uint64_t bytes)
{
    for (int i = 0; i < MAX_BLOCKS; i++) {
        if (blocks[i].at)
            continue;
        void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
        blocks[i] = (Block){p, bytes ? bytes : 1};
        return p;
    }
    return NULL;
}

void hft_cpu_release(void *p)
{
    for (int i = 0; p && i < MAX_BLOCKS; i++) {
        if (blocks[i].at != p)
            continue;
        munmap(p, blocks[i].bytes);
        blocks[i] = (Block){0};
        return;
    }
}

typedef struct Copy {
    uint64_t number;
    unsigned char *values;
} Copy;

typedef struct ApartDevice {
    Device device;
    Device *cpu;
    const Model *m;
    const Control *host;
    Control copy;
    int32_t models;
    bool stale;
    double *results; /* [RUNS_KEPT][models][n_results], run r at r % RUNS_KEPT */
    int64_t runs;
    Copy tensors[MAX_TENSORS]; /* by number % MAX_TENSORS */
    const int64_t *host_order;
    int64_t *order;
    size_t n_order;
    unsigned char **outputs; /* by output */
} ApartDevice;

static void allow(int access)
{
    for (int i = 0; i < MAX_BLOCKS; i++)
        if (blocks[i].at)
            mprotect(blocks[i].at, blocks[i].bytes, access);
}

static ApartDevice *enter(Device *d)
{
    allow(PROT_READ | PROT_WRITE);
    return (ApartDevice *)d;
}

static hftac_status leave(hftac_status s)
{
    allow(PROT_NONE);
    return s;
}

static uint32_t rows(const ApartDevice *a, int section)
{
    return a->m->table[section].n;
}

static void copy_control(ApartDevice *a)
{
    const size_t n = (size_t)a->models;
    memcpy(a->copy.hypers, a->host->hypers, n * rows(a, HFTAC_SECTION_HYPERS) * sizeof(double));
    memcpy(a->copy.clocks, a->host->clocks, n * HFTAC_N_CLOCK * sizeof(double));
    memcpy(a->copy.scalars, a->host->scalars, HFTAC_N_SCALARS * sizeof(double));
    memcpy(a->copy.seeds, a->host->seeds, n * sizeof *a->copy.seeds);
    a->stale = false;
}

static void close_apart(Device *d)
{
    ApartDevice *a = enter(d);
    if (a->cpu)
        a->cpu->kind->close(a->cpu);
    for (uint32_t i = 0; a->outputs && i < rows(a, HFTAC_SECTION_OUTPUTS); i++)
        free(a->outputs[i]);
    for (int i = 0; i < MAX_TENSORS; i++)
        hft_cpu_release(a->tensors[i].values);
    hft_cpu_release(a->order);
    free(a->outputs);
    free(a->results);
    free(a->copy.hypers);
    free(a->copy.clocks);
    free(a->copy.scalars);
    free(a->copy.seeds);
    free(a);
    leave(HFTAC_OK);
}

static const DeviceKind apart;

static hftac_status open_apart(const DeviceSetup *setup, Device **out)
{
    ApartDevice *a = (ApartDevice *)calloc(1, sizeof *a);
    if (!a)
        return HFTAC_MEMORY;
    const size_t n = (size_t)setup->models;
    a->m = setup->model;
    a->host = setup->control;
    a->models = setup->models;
    a->copy.hypers = calloc(n * rows(a, HFTAC_SECTION_HYPERS) + 1, sizeof(double));
    a->copy.clocks = calloc(n * HFTAC_N_CLOCK, sizeof(double));
    a->copy.scalars = calloc(HFTAC_N_SCALARS, sizeof(double));
    a->copy.seeds = calloc(n, sizeof *a->copy.seeds);
    a->results = calloc(RUNS_KEPT * n * a->m->info->n_results + 1, sizeof *a->results);
    a->outputs = calloc(rows(a, HFTAC_SECTION_OUTPUTS) + 1, sizeof *a->outputs);
    DeviceSetup inner = *setup;
    inner.control = &a->copy;
    hftac_status s = HFTAC_MEMORY;
    if (a->copy.hypers && a->copy.clocks && a->copy.scalars && a->copy.seeds && a->results &&
        a->outputs)
        s = hft_cpu_device.open(&inner, &a->cpu);
    for (uint32_t i = 0; !s && i < rows(a, HFTAC_SECTION_OUTPUTS); i++)
        if (!(a->outputs[i] = malloc(n * hft_model_output(a->m, i)->bytes + 1)))
            s = HFTAC_MEMORY;
    a->device = (Device){.kind = &apart};
    if (s) {
        close_apart(&a->device);
        return s;
    }
    a->device.memory = a->cpu->memory;
    a->device.threads = a->cpu->threads;
    a->device.runs_kept = RUNS_KEPT;
    copy_control(a);
    *out = &a->device;
    return leave(HFTAC_OK);
}

static hftac_status upload(Device *d, uint32_t state, int32_t model, const void *stored)
{
    ApartDevice *a = enter(d);
    return leave(a->cpu->kind->upload(a->cpu, state, model, stored));
}

static hftac_status download(Device *d, uint32_t state, int32_t model, void *stored)
{
    ApartDevice *a = enter(d);
    return leave(a->cpu->kind->download(a->cpu, state, model, stored));
}

static hftac_status clear(Device *d, uint32_t state, int32_t model)
{
    ApartDevice *a = enter(d);
    return leave(a->cpu->kind->clear(a->cpu, state, model));
}

static hftac_status set_order(Device *d, const int64_t *order, size_t n)
{
    ApartDevice *a = enter(d);
    hft_cpu_release(a->order);
    a->order = hft_cpu_allocate(n * sizeof *order);
    if (!a->order)
        return leave(HFTAC_MEMORY);
    memcpy(a->order, order, n * sizeof *order);
    a->host_order = order;
    a->n_order = n;
    return leave(HFTAC_OK);
}

/* The device's copy of a tensor, made when its number is seen first. */
static const unsigned char *copy_of(ApartDevice *a, const Tensor *t)
{
    Copy *c = &a->tensors[t->number % MAX_TENSORS];
    if (c->number == t->number)
        return c->values;
    hft_cpu_release(c->values);
    *c = (Copy){.number = t->number, .values = hft_cpu_allocate(t->bytes)};
    if (c->values)
        memcpy(c->values, t->values, t->bytes);
    return c->values;
}

static hftac_status feed(Device *d, uint32_t input, int32_t model, const Rows *r)
{
    ApartDevice *a = enter(d);
    Rows mine = *r;
    if (r->rows) {
        const uintptr_t at = (uintptr_t)r->rows - (uintptr_t)a->host_order;
        if (at / sizeof *r->rows + (size_t)r->samples > a->n_order)
            abort(); /* rows that are in no order */
        mine.rows = a->order + at / sizeof *r->rows;
    }
    if (r->tensor.number) {
        const unsigned char *copy = copy_of(a, &r->tensor);
        if (!copy)
            return leave(HFTAC_MEMORY);
        mine.values = copy + (r->values - r->tensor.values);
    }
    return leave(a->cpu->kind->feed(a->cpu, input, model, &mine));
}

static hftac_status feed_borrowed(Device *d, uint32_t input, const void *values)
{
    ApartDevice *a = enter(d);
    return leave(a->cpu->kind->feed_borrowed(a->cpu, input, values));
}

static hftac_status feed_drawn(Device *d, uint32_t input)
{
    ApartDevice *a = enter(d);
    return leave(a->cpu->kind->feed_drawn(a->cpu, input));
}

static void control_changed(Device *d)
{
    ((ApartDevice *)d)->stale = true;
}

static size_t results_bytes(const ApartDevice *a)
{
    return (size_t)a->models * a->m->info->n_results * sizeof(double);
}

static double *results_of(const ApartDevice *a, int64_t number)
{
    return a->results + (size_t)(number % RUNS_KEPT) * results_bytes(a) / sizeof(double);
}

static hftac_status run(Device *d, uint32_t entry, const unsigned char *wanted)
{
    ApartDevice *a = enter(d);
    if (a->stale)
        copy_control(a);
    const hftac_status s = a->cpu->kind->run(a->cpu, entry, wanted);
    const double *inside = NULL;
    if (!s && !a->cpu->kind->results(a->cpu, 0, &inside))
        memcpy(results_of(a, a->runs++), inside, results_bytes(a));
    return leave(s);
}

static hftac_status results(Device *d, int32_t ago, const double **values)
{
    const ApartDevice *a = (const ApartDevice *)d;
    if (ago >= RUNS_KEPT || ago >= a->runs)
        abort();
    *values = results_of(a, a->runs - 1 - ago);
    return HFTAC_OK;
}

static hftac_status output(Device *d, uint32_t number, const void **values)
{
    ApartDevice *a = enter(d);
    const void *inside = NULL;
    const hftac_status s = a->cpu->kind->output(a->cpu, number, &inside);
    memcpy(a->outputs[number], inside,
           (size_t)a->models * hft_model_output(a->m, number)->bytes);
    *values = a->outputs[number];
    return leave(s);
}

static hftac_status synchronise(Device *d)
{
    ApartDevice *a = enter(d);
    return leave(a->cpu->kind->synchronise(a->cpu));
}

static hftac_status profile(Device *d, bool on)
{
    ApartDevice *a = enter(d);
    return leave(a->cpu->kind->profile(a->cpu, on));
}

static void kernel_time(const Device *d, uint32_t kernel, int64_t *calls, double *seconds)
{
    const ApartDevice *a = (const ApartDevice *)d;
    a->cpu->kind->kernel_time(a->cpu, kernel, calls, seconds);
}

static hftac_status open_host(const DeviceSetup *setup, Device **out)
{
    return hft_cpu_device.open(setup, out);
}

static const DeviceKind apart = {.name = "cpu",
                                 .open = open_apart,
                                 .close = close_apart,
                                 .upload = upload,
                                 .download = download,
                                 .clear = clear,
                                 .set_order = set_order,
                                 .feed = feed,
                                 .feed_borrowed = feed_borrowed,
                                 .feed_drawn = feed_drawn,
                                 .control_changed = control_changed,
                                 .run = run,
                                 .results = results,
                                 .output = output,
                                 .synchronise = synchronise,
                                 .profile = profile,
                                 .kernel_time = kernel_time};

/* The CPU device itself, to compare with: never open together with the other one, whose wall goes
 * round its memory too. */
static const DeviceKind host = {.name = "host", .open = open_host};

const DeviceKind *const hft_device_kinds[] = {&apart, &host, NULL};
