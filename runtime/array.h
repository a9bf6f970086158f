/* The inside of an hftac_array, for the files that implement it.
 *
 * All memory is allocated by hftac_open: the host's by array.c, what the models compute with by
 * the device; a step writes only into it. */
#ifndef HFTAC_RUNTIME_ARRAY_H
#define HFTAC_RUNTIME_ARRAY_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/hftac.h"
#include "runtime/model/image.h"

/* A result that becomes a metric's value. */
typedef struct ResultRef {
    /* In a model's results. */
    uint32_t index;
    int32_t metric;
} ResultRef;

/* An entry's results, sorted by what becomes of them. */
typedef struct EntryResults {
    /* NULL: not compiled. */
    const HftacEntry *entry;
    ResultRef *values;
    const HftacResult **faults, **causes, **kept;
    int n_values, n_faults, n_causes, n_kept;
    /* Of the result that says whether the states were written; -1: the entry has none. */
    int64_t ok_index;
} EntryResults;

typedef struct ModelStatus {
    hftac_model_state state;
    bool initialized;
    int64_t step, sample, value;
    const char *input;
    char text[192];
} ModelStatus;

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
    EntryResults entries[HFTAC_N_ENTRIES];

    /* What the models compute with lies there; the host's part of it is `control`. */
    Device *device;
    Control control;
    const double *results; /* [n][n_results] of the entry that ran last, in host memory */
    int64_t *fed;          /* [n_inputs] samples fed; 0: nothing yet */
    /* Room for a state in stored order, where that is not the plain one. */
    unsigned char *staging;

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
    int32_t n_running, n_uninitialized;
    /* That the device was told of last, of a loop that is still open; else NULL. */
    const int64_t *order;
    /* During a loop over a data set: the data set's number of row i of model b's batch is
     * sample_numbers[b * sample_numbers_stride + i]; else NULL. */
    const int64_t *sample_numbers;
    size_t sample_numbers_stride;
};

/* NULL checks and ranges at the door of every public call.  An array lives in the process that
 * opened it: after a fork its threads are missing in the child, where only hftac_close does
 * anything. */
hftac_status hft_check_array(const hftac_array *a);
hftac_status hft_check_slot(const hftac_array *a, int32_t model);
hftac_status hft_check_handle(const hftac_array *a, int32_t handle, int32_t count,
                              const char *what);
/* Slot, handle and the place for a value at once. */
hftac_status hft_check_access(const hftac_array *a, int32_t model, int32_t handle,
                              int32_t count, const char *what, const void *value);

/* Runs entry `which` for the models whose flag is set, and waits for its results. */
hftac_status hft_run_entry(hftac_array *a, int which, const unsigned char *wanted);
/* Gives initial values to every flagged model that has none.  `wanted` may be a->flags, which is
 * used up. */
hftac_status hft_initialize_models(hftac_array *a, const unsigned char *wanted);
hftac_status hft_initialize_model(hftac_array *a, int32_t model);
/* After a change of a->control. */
void hft_control_changed(hftac_array *a);
/* Fails if the entry takes whole batches only and `samples` end in a partial one. */
hftac_status hft_check_partial(const hftac_array *a, int which, int64_t samples);
/* Every input that the entry reads has been fed, with at least `samples` samples. */
hftac_status hft_check_fed(const hftac_array *a, int which, int64_t samples);
/* Optimizer steps per epoch, for models whose plan says none. */
void hft_default_plan(hftac_array *a, int64_t steps_per_epoch);
void hft_set_state(hftac_array *a, int32_t model, hftac_model_state state);

/* Samples of one model, or of all where they share the input, for the next steps. */
hftac_status hft_fill_input(hftac_array *a, int32_t input, int32_t model, const Rows *rows);
/* From now on the input counts as fed with so many samples. */
void hft_note_fed(hftac_array *a, int32_t input, int64_t samples);
/* A drawn input without data: NaN, in whose place the program draws. */
hftac_status hft_leave_drawn(hftac_array *a, int32_t input);
bool hft_entry_reads(const hftac_array *a, int which, int32_t input);

/* Is the stored order of a state the row-major one? */
bool hft_is_plain(const HftacState *s);
/* A model's state in row-major order, from and to the device. */
hftac_status hft_param_read(const hftac_array *a, int32_t param, int32_t model, void *values);
hftac_status hft_param_write(hftac_array *a, int32_t param, int32_t model, const void *values);

#endif
