/* Where an array's models live and its entry points run.
 *
 * A device owns all memory that the code of a model.so works on: the models' states, inputs,
 * outputs, results and what lies between.  The rest of libhftac never sees an address of it; it
 * names what it wants - state 3 of model 5 - and gets or gives bytes in host memory.  What the
 * host decides from step to step (hypers, clocks, seeds ...) is the Control, host memory that
 * the device reads.
 *
 * A device may work while the host goes on: run returns when the work is queued; download,
 * results, output and synchronise wait for what was queued before.  Failures of queued work are
 * told by the next call that waits.
 *
 * A kind of device is a row of functions (DeviceKind), found by name (hft_device_open); its name
 * is what hftac_options.device and hftrun --device say.  The CPU is runtime/cpu/device.c; the
 * interface is that of the CUDA device to come, whose stream, captured graphs and ring of
 * results lie behind the same calls. */
#ifndef HFTAC_RUNTIME_DEVICE_H
#define HFTAC_RUNTIME_DEVICE_H

#include <stdbool.h>

#include "runtime/hftac.h"
#include "runtime/model.h"

typedef struct DeviceKind DeviceKind;

/* What the host decides; one block for all models, allocated by the array. */
typedef struct Control {
    double *hypers;  /* [models][n_hypers] */
    double *clocks;  /* [models][HFTAC_N_CLOCK] */
    double *scalars; /* [HFTAC_N_SCALARS] */
    uint64_t *seeds; /* [models] */
} Control;

/* Bytes that a device has allocated. */
typedef struct DeviceMemory {
    uint64_t state, shared, scratch, input, output;
} DeviceMemory;

/* What every kind's struct begins with. */
typedef struct Device {
    const DeviceKind *kind;
    DeviceMemory memory;
    int32_t threads; /* that the device uses of the host's CPUs */
} Device;

typedef struct DeviceSetup {
    const Model *model; /* lives longer than the device, as the control does */
    const char *path;   /* of the model.so, for messages */
    const Control *control;
    int32_t models;  /* slots in use */
    int32_t threads; /* at most so many of the host's CPUs */
    int32_t number;  /* of several devices of the kind: the N of "cuda:N"; 0 if not said */
} DeviceSetup;

/* Samples in host memory.  Row i of the batch is row rows[i] of `values` (rows == NULL: i), whose
 * rows are those of one model and stand one after the other as `sample_major` says, or else have
 * the input's own axis order with `samples` at the batch axis.  Rows from `samples` on repeat
 * row 0. */
typedef struct Rows {
    const unsigned char *values;
    const int64_t *rows;
    int64_t samples;
    bool sample_major;
} Rows;

struct DeviceKind {
    const char *name;
    /* Allocates everything; nothing later does.  Inputs that are drawn hold NaN. */
    hftac_status (*open)(const DeviceSetup *setup, Device **out);
    void (*close)(Device *d);
    /* A state of a model, in stored order, HftacState.bytes of it; clear: all bytes 0. */
    hftac_status (*upload)(Device *d, uint32_t state, int32_t model, const void *stored);
    hftac_status (*download)(Device *d, uint32_t state, int32_t model, void *stored);
    hftac_status (*clear)(Device *d, uint32_t state, int32_t model);
    /* A batch, copied before it returns; model: whose, of an `each` input. */
    hftac_status (*feed)(Device *d, uint32_t input, int32_t model, const Rows *rows);
    /* A whole batch that stays where it is until the next feed of the input. */
    hftac_status (*feed_borrowed)(Device *d, uint32_t input, const void *values);
    /* A drawn input without data: NaN, in whose place the program draws. */
    hftac_status (*feed_drawn)(Device *d, uint32_t input);
    /* The control is not what it was when an entry ran last. */
    void (*control_changed)(Device *d);
    /* Does an entry's steps for the models b with wanted[b] != 0. */
    hftac_status (*run)(Device *d, uint32_t entry, const unsigned char *wanted);
    /* Of the entry that ran last: [models][n_results], in host memory until the next run. */
    hftac_status (*results)(Device *d, const double **results);
    /* Of the last prediction: [models] blocks, in host memory until the next run. */
    hftac_status (*output)(Device *d, uint32_t output, const void **values);
    hftac_status (*synchronise)(Device *d);
    /* Entries run kernel by kernel, with a clock, or as ever; starts at 0. */
    hftac_status (*profile)(Device *d, bool on);
    void (*kernel_time)(const Device *d, uint32_t kernel, int64_t *calls, double *seconds);
};

/* The kinds that there are, NULL behind the last one. */
extern const DeviceKind *const hft_device_kinds[];
extern const DeviceKind hft_cpu_device;

/* Opens the device called "cpu", "cuda" or "cuda:N" (NULL: "cpu"); HFTAC_USAGE for another name,
 * HFTAC_DEVICE if there is none of that kind. */
hftac_status hft_device_open(const char *name, const DeviceSetup *setup, Device **out);
/* NULL is nothing to close. */
void hft_device_close(Device *d);

#endif
