/* Where an array's models live and its entry points run.
 *
 * A device owns all memory that the code of a model.so works on: the models' states, inputs,
 * outputs, results and what lies between.  The rest of libhftac never sees an address of it; it
 * names what it wants - state 3 of model 5 - and gets or gives bytes in host memory.  What the
 * host decides from step to step (hypers, clocks, seeds ...) is the Control, host memory that
 * the device reads.
 *
 * A device may work while the host goes on.  Calls take effect in the order in which they are
 * made, as on one stream; run returns when the work is queued, and what a call is given it has
 * copied before it returns.  download, results, output and synchronise wait for what was queued
 * before; failures of queued work are told by the next call that waits.
 *
 * Nothing that changes from step to step is an argument of run but the models it is wanted for,
 * so a device can record an entry's work once and repeat it (a captured graph): hypers, clocks,
 * seeds and valid samples are in the control, of which it copies what it needs when
 * control_changed was called; a batch of a data set is row numbers of an order and of a tensor
 * that it was told of before, and may have copied.  A model that a training step stops (its
 * result ok is 0, or a fault is told) does no steps until the results of that run were asked for,
 * for until then the host cannot know: `wanted` counts again after that.
 *
 * A kind of device is a row of functions (DeviceKind), found by name (hft_device_open); its name
 * is what hftac_options.device and hftrun --device say.  The CPU is runtime/cpu/device.c; the
 * interface is that of the CUDA device to come, whose stream, captured graphs and ring of
 * results lie behind the same calls. */
#ifndef HFTAC_RUNTIME_DEVICE_H
#define HFTAC_RUNTIME_DEVICE_H

#include <stdbool.h>

#include "runtime/hftac.h"
#include "runtime/model/model.h"

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
    /* That the device uses of the host's CPUs. */
    int32_t threads;
    /* The results of so many runs, the last ones, can be had; 1 or more. */
    int32_t runs_kept;
    /* Of tensors that were told to this device; see hft_device_number_tensor. */
    uint64_t n_tensors;
} Device;

typedef struct DeviceSetup {
    /* Lives longer than the device, as the control does. */
    const Model *model;
    /* Of the model.so, for messages. */
    const char *path;
    const Control *control;
    /* Slots in use. */
    int32_t models;
    /* At most so many threads of the host; 0: as many as this process may use CPUs. */
    int32_t threads;
    /* Of several devices of the kind: the N of "cuda:N"; 0 if not said. */
    int32_t number;
} DeviceSetup;

/* Host memory that has the same bytes whenever it is given under the same number, so that a
 * device may work from a copy of its own; 0: it may change between calls. */
typedef struct Tensor {
    uint64_t number;
    const unsigned char *values;
    uint64_t bytes;
} Tensor;

/* Samples in host memory.  Row i of the batch is row rows[i] of `values` (rows == NULL: i), whose
 * rows are those of one model and stand one after the other as `sample_major` says, or else have
 * the input's own axis order with `samples` at the batch axis.  Rows from `samples` on repeat
 * row 0. */
typedef struct Rows {
    const unsigned char *values;
    const int64_t *rows; /* NULL, or in the order that was set last */
    int64_t samples;
    bool sample_major;
    Tensor tensor; /* in which `values` are */
} Rows;

struct DeviceKind {
    const char *name;
    /* Allocates everything; later there may only be copies of tensors and orders.  Inputs that
     * are drawn hold NaN. */
    hftac_status (*open)(const DeviceSetup *setup, Device **out);
    void (*close)(Device *d);
    /* A state of a model, in stored order, HftacState.bytes of it; clear: all bytes 0. */
    hftac_status (*upload)(Device *d, uint32_t state, int32_t model, const void *stored);
    hftac_status (*download)(Device *d, uint32_t state, int32_t model, void *stored);
    hftac_status (*clear)(Device *d, uint32_t state, int32_t model);
    /* The order of a loop over a data set, n row numbers that stay and do not change until the
     * next one is set; rows of feed point into it. */
    hftac_status (*set_order)(Device *d, const int64_t *order, size_t n);
    /* A batch; model: whose, of an `each` input. */
    hftac_status (*feed)(Device *d, uint32_t input, int32_t model, const Rows *rows);
    /* A whole batch that stays where it is until the next feed of the input.  Its values may change
     * between runs: each run takes those of the moment when it is asked for. */
    hftac_status (*feed_borrowed)(Device *d, uint32_t input, const void *values);
    /* A drawn input without data: NaN, in whose place the program draws. */
    hftac_status (*feed_drawn)(Device *d, uint32_t input);
    /* The control is not what it was when an entry ran last. */
    void (*control_changed)(Device *d);
    /* Does an entry's steps for the models b with wanted[b] != 0. */
    hftac_status (*run)(Device *d, uint32_t entry, const unsigned char *wanted);
    /* Of the run before the last `ago` ones, ago < runs_kept: [models][n_results], in host memory
     * until the next run. */
    hftac_status (*results)(Device *d, int32_t ago, const double **results);
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
/* A number for a tensor that will not change, which no other one has. */
uint64_t hft_device_number_tensor(Device *d);
/* NULL is nothing to close. */
void hft_device_close(Device *d);

#endif
