/* The inside of an hftac_array, for the files that implement it.
 *
 * All memory is allocated by hftac_open (array.c); a step writes only into it. */
#ifndef HFTAC_RUNTIME_ARRAY_H
#define HFTAC_RUNTIME_ARRAY_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/error.h"
#include "runtime/hftac.h"
#include "runtime/image.h"
#include "runtime/pool.h"

/* The runs of consecutive models that each worker computes: worker t has runs first[t] ..
 * first[t + 1] - 1. */
typedef struct Partition {
    unsigned char *wanted; /* [models] flags that it was made for */
    int32_t *lo, *hi;      /* [models] */
    int32_t *first;        /* [threads + 1] */
    int n_workers;         /* 0: no model is wanted */
    bool made;
} Partition;

/* Where an entry's results go. */
typedef struct ResultRef {
    uint32_t index; /* in a model's results */
    int32_t metric;
} ResultRef;

typedef struct EntryPlan {
    const HftacEntry *entry; /* NULL: not compiled */
    ResultRef *values;
    const HftacResult **faults, **causes, **kept;
    int n_values, n_faults, n_causes, n_kept;
    int64_t ok_index; /* -1: the entry has no such result */
} EntryPlan;

typedef struct ModelStatus {
    hftac_model_state state;
    bool initialized;
    int64_t step, sample, value;
    const char *input;
    char text[192];
} ModelStatus;

/* What one kernel has taken. */
typedef struct KernelTime {
    int64_t calls;
    double seconds;
} KernelTime;

struct hftac_array {
    Image image;
    const Model *m;
    pid_t process; /* that opened it */
    int32_t n;     /* slots in use */
    char *path;
    hftac_description about;
    hftac_input_description *inputs;
    hftac_hyper_description *hypers;
    hftac_param_description *params;
    hftac_metric_description *metrics;
    hftac_output_description *outputs;
    /* The states that the library reads or writes itself, by their roles; -1: there is none. */
    int32_t step_param, batch_param, epoch_metric_param;
    EntryPlan plans[HFTAC_N_ENTRIES];

    /* What the kernels see. */
    unsigned char *state, *shared, *scratch, *input_memory, *output_memory;
    size_t scratch_stride;
    const void **input_at;        /* [n_inputs] now in use */
    unsigned char **input_buffer; /* [n_inputs] in input_memory */
    void **output_at;             /* [n_outputs] */
    int64_t *fed;                 /* [n_inputs] samples fed; 0: nothing yet */
    double *hyper_values;         /* [n][n_hypers] */
    double *results;              /* [n][n_results] */
    double *clocks;               /* [n][HFTAC_N_CLOCK] */
    double scalars[HFTAC_N_SCALARS];
    uint64_t *seeds;
    HftacFrame *frames; /* [threads] */
    /* NULL: runs are not cut into kernels.  Else for each kernel of the file what it has taken,
     * the table of pointers that its function gets, and in which round the loops around it are,
     * outermost first. */
    KernelTime *profile;
    void **pointers;
    int64_t rounds[HFTAC_MAX_LOOPS];

    /* What the host keeps. */
    int64_t epoch; /* of the data: the order of samples depends on it */
    ModelStatus *models;
    double *metric_values;    /* [n_metrics][n] */
    double *epoch_sum;        /* [n_metrics][n] */
    int64_t *epoch_count;     /* [n] steps written in this epoch */
    unsigned char *alive;     /* [n] runs in training */
    unsigned char *flags;     /* [n] scratch: the models that an entry shall run for */
    unsigned char *evaluated; /* [n] models of the evaluation under way */
    bool evaluating;
    bool trained_last; /* the metrics are those of a training step, not of an evaluation */
    bool predicted;
    Partition running, others; /* of training; of everything else */
    int32_t n_running, n_uninitialized;
    /* During a loop over a data set: the data set's number of row i of model b's batch is
     * sample_numbers[b * sample_numbers_stride + i]; else NULL. */
    const int64_t *sample_numbers;
    size_t sample_numbers_stride;
    Pool *pool;
};

/* NULL checks and ranges at the door of every public call.  An array lives in the process that
 * opened it: after a fork its threads are missing in the child, where only hftac_close does
 * anything. */
hftac_status hft_check_array(const hftac_array *a);
hftac_status hft_check_slot(const hftac_array *a, int32_t model);
hftac_status hft_check_handle(const hftac_array *a, int32_t handle, int32_t count,
                              const char *what);

/* Runs entry `which` for the models whose flag is set, shared part first; `p` remembers how
 * they were divided. */
void hft_run_entry(hftac_array *a, int which, Partition *p, const unsigned char *wanted);
/* Gives initial values to every flagged model that has none. */
void hft_initialize_models(hftac_array *a, const unsigned char *wanted);
void hft_initialize_model(hftac_array *a, int32_t model);
/* Fails if the entry takes whole batches only and `samples` end in a partial one. */
hftac_status hft_check_partial(const hftac_array *a, int which, int64_t samples);
/* Every input that the entry reads has been fed, with at least `samples` samples. */
hftac_status hft_check_fed(const hftac_array *a, int which, int64_t samples);
/* Optimizer steps per epoch, for models whose plan says none. */
void hft_default_plan(hftac_array *a, int64_t steps_per_epoch);
void hft_set_state(hftac_array *a, int32_t model, hftac_model_state state);

/* Copies samples into an input's own buffer and uses it.  Row i of the batch is row rows[i]
 * of `values` (rows == NULL: i), whose rows are those of one model and stand one after the
 * other as `sample_major` says, or else have the input's own axis order with `samples` at the
 * batch axis.  Rows from `samples` on repeat row 0. */
typedef struct Rows {
    const unsigned char *values;
    const int64_t *rows;
    int64_t samples;
    bool sample_major;
} Rows;
void hft_fill_input(hftac_array *a, int32_t input, int32_t model, const Rows *rows);
/* Marks an input as fed from its own buffer. */
void hft_use_buffer(hftac_array *a, int32_t input, int64_t samples);
/* A drawn input without data: NaN, in whose place the program draws. */
void hft_leave_drawn(hftac_array *a, int32_t input);
bool hft_entry_reads(const hftac_array *a, int which, int32_t input);

/* Row-major to stored order of one state and back. */
/* Where a model has a state. */
unsigned char *hft_state_of(const hftac_array *a, const HftacState *s, int32_t model);
void hft_param_read(const hftac_array *a, int32_t param, int32_t model, void *values);
void hft_param_write(hftac_array *a, int32_t param, int32_t model, const void *values);

#endif
