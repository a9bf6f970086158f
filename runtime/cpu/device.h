/* The CPU as a device: its memory is the process's, and worker threads run the entries. */
#ifndef HFTAC_RUNTIME_CPU_DEVICE_H
#define HFTAC_RUNTIME_CPU_DEVICE_H

#include "runtime/cpu/pool.h"
#include "runtime/device.h"

/* The runs of consecutive models that each worker computes: worker t has runs first[t] ..
 * first[t + 1] - 1. */
typedef struct Partition {
    unsigned char *wanted; /* [models] flags that it was made for */
    int32_t *lo, *hi;      /* [models] */
    int32_t *first;        /* [threads + 1] */
    int n_workers;         /* 0: no model is wanted */
    bool made;
} Partition;

/* What one kernel has taken. */
typedef struct KernelTime {
    int64_t calls;
    double seconds;
} KernelTime;

typedef struct CpuDevice {
    Device device;
    const Model *m;
    int32_t models;
    unsigned char *state, *shared, *scratch, *input_memory, *output_memory;
    size_t scratch_stride;
    const void **input_at;        /* [n_inputs] now in use */
    unsigned char **input_buffer; /* [n_inputs] in input_memory */
    void **output_at;             /* [n_outputs] in output_memory */
    double *results;              /* [models][n_results] */
    HftacFrame *frames;           /* [threads] */
    /* Of training, and of everything else: the same models keep the same worker. */
    Partition training, others;
    Pool *pool;
    /* NULL: runs are not cut into kernels.  Else for each kernel of the file what it has taken,
     * the table of pointers that its function gets, and in which round the loops around it are,
     * outermost first. */
    KernelTime *times;
    void **pointers;
    int64_t rounds[HFTAC_MAX_LOOPS];
} CpuDevice;

/* memory.c: zeroed, aligned to a line of the cache, or to huge pages where it is large; NULL: there
 * is not so much. */
void *hft_cpu_allocate(uint64_t bytes);
void hft_cpu_release(void *p);
/* run.c */
hftac_status hft_cpu_run(Device *d, uint32_t entry, const unsigned char *wanted);
/* feed.c */
hftac_status hft_cpu_feed(Device *d, uint32_t input, int32_t model, const Rows *rows);
hftac_status hft_cpu_feed_borrowed(Device *d, uint32_t input, const void *values);
hftac_status hft_cpu_feed_drawn(Device *d, uint32_t input);
/* kernels.c: does what the step does, one kernel of one model after the other, by the calling
 * thread, and adds up their times. */
void hft_cpu_run_kernels(CpuDevice *c, const HftacStep *s, const unsigned char *wanted);
hftac_status hft_cpu_profile(Device *d, bool on);
void hft_cpu_kernel_time(const Device *d, uint32_t kernel, int64_t *calls, double *seconds);

#endif
