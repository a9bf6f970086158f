/* libhftac: train the B models inside a model.so that hftac compiled.
 *
 *     open; set hypers and seeds; epochs of { feed, train_step }; evaluate; read metrics;
 *     save; close
 *
 * The compiled file is an *array* of B models of one network; a *slot* 0 <= b <
 * hftac_model_count() is one of them.  Inputs, hypers, parameters, metrics and outputs are looked
 * up once by name and used by handle; handles are the positions 0, 1, ... of the thing, so that
 * counting up to hftac_describe()->n_... discovers them all.
 *
 * A call that can fail returns hftac_status and gives its results through its last parameters,
 * which are set to NULL or zero on failure; hftac_last_error() then has one sentence.  Nothing
 * prints, exits or keeps global state. One array or data set may be used by one thread at a time,
 * different ones at once; an array brings worker threads of its own. Options may be NULL or all
 * zero.  Close calls accept NULL.
 *
 * What the library computes does not depend on the caller's floating-point mode (rounding, traps,
 * flushing to zero): it is set aside in every call that computes, and in callbacks and on return
 * it is the caller's again, exception flags included.
 *
 * An array belongs to the process that opened it.  In a child after fork its threads are missing:
 * descriptions can be read and it can be closed there, every other call fails with a sentence;
 * opened again, it works.  The parent notices nothing. */
#ifndef HFTAC_H
#define HFTAC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HFTAC_API __attribute__((visibility("default")))
#define HFTAC_TRY __attribute__((visibility("default"), warn_unused_result)) hftac_status
#else
#define HFTAC_API
#define HFTAC_TRY hftac_status
#endif

/* ---- Statuses and element types ---- */

/* clang-format off */
#define HFTAC_STATUS_TABLE(X)                                                                          \
    X(OK,          0, "success")                                                                       \
    X(USAGE,       1, "wrong use of the library: a NULL, a handle or slot out of range, a wrong order") \
    X(NOT_FOUND,   2, "no input, hyper, parameter, metric or output of that name")                     \
    X(DATA,        3, "the data is at fault: a damaged file, a wrong type, shape, label or value")     \
    X(FILE,        4, "the operating system refused to open, read or write a file")                    \
    X(MODEL,       5, "not a model.so, a damaged one, or one of another version")                      \
    X(CPU,         6, "the model.so needs a CPU feature that this machine lacks")                      \
    X(MEMORY,      7, "out of memory")                                                                 \
    X(THREADS,     8, "worker threads could not be started")                                           \
    X(INTERRUPTED, 9, "a callback asked to stop")                                                      \
    X(DEVICE,      10, "the device is not there, or failed")
/* name, number, text.  Types: name, number, text, bytes, name in safetensors files */
#define HFTAC_TYPE_TABLE(X)         \
    X(BOOL, 0, "bool", 1, "BOOL")   \
    X(U8,   1, "u8",   1, "U8")     \
    X(I32,  2, "i32",  4, "I32")    \
    X(I64,  3, "i64",  8, "I64")    \
    X(F32,  4, "f32",  4, "F32")    \
    X(F64,  5, "f64",  8, "F64")
/* clang-format on */

typedef enum hftac_status {
#define HFTAC_ROW(name, number, text) HFTAC_##name = number,
    HFTAC_STATUS_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
} hftac_status;

typedef enum hftac_type {
#define HFTAC_ROW(name, number, text, bytes, file_name) HFTAC_##name = number,
    HFTAC_TYPE_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
} hftac_type;

/* "0.1.0" */
HFTAC_API const char *hftac_version(void);
/* What a status means in general, and one sentence on this thread's last failure ("" if none;
 * valid until the thread's next call that fails). */
HFTAC_API const char *hftac_status_text(hftac_status status);
HFTAC_API const char *hftac_last_error(void);
/* "f32"; bytes of one element.  NULL and 0 if there is no such type. */
HFTAC_API const char *hftac_type_text(hftac_type type);
HFTAC_API size_t hftac_type_bytes(hftac_type type);

/* ---- Arrays ---- */

typedef struct hftac_array hftac_array;
typedef struct hftac_data hftac_data;

typedef struct hftac_options {
    int32_t threads; /* 0: as many as this process may use CPUs; never more than models */
    int32_t models;  /* use only slots 0 .. models - 1; 0: all that were compiled in */
    uint64_t seed;   /* slot b's seed is seed + b until set */
    /* Where the models train: "cpu", "cuda" or "cuda:N", the N-th GPU; NULL: "cpu".  HFTAC_DEVICE
     * if there is none, or the model.so has no code for it. */
    const char *device;
} hftac_options;

/* Opens a model.so.  The file is checked (form, version, CPU features) before any of its code
 * runs.  All memory that training needs is allocated here.  Hypers have their defaults;
 * parameters get their initial values at first use. */
HFTAC_TRY hftac_open(const char *path, const hftac_options *options, hftac_array **array);
HFTAC_API void hftac_close(hftac_array *array);

enum {
    HFTAC_MAX_DIMS = 8
};

/* What the array is.  Pointers in this and the following descriptions live until hftac_close. */
typedef struct hftac_description {
    const char *path, *name, *version, *march, *cpu_features;
    int32_t models, capacity; /* slots in use; slots compiled in (B) */
    int32_t threads;
    const char *device; /* "cpu" */
    int64_t batch;      /* N, samples a step */
    int64_t epochs;     /* of the train section; 0: none given */
    int32_t n_inputs, n_hypers, n_params, n_metrics, n_outputs;
    int32_t can_train, can_evaluate, can_predict; /* flags: entry points that were compiled */
    /* Bytes: state and results grow with the models in use, scratch with threads. */
    uint64_t state_bytes, shared_bytes, scratch_bytes, input_bytes, output_bytes, total_bytes;
    uint64_t state_bytes_per_model, scratch_bytes_per_thread;
    /* Why evaluation, or prediction, takes whole batches of N samples only, with the place in the
     * source; NULL: n_valid may be less. */
    const char *evaluate_whole, *predict_whole;
} hftac_description;

/* NULL for NULL, as all descriptions below: they return NULL for what does not exist. */
HFTAC_API const hftac_description *hftac_describe(const hftac_array *array);
/* Slots in use. */
HFTAC_API int32_t hftac_model_count(const hftac_array *array);

/* ---- Inputs ---- */

typedef int32_t hftac_input;

typedef struct hftac_input_description {
    const char *name;
    hftac_type type;
    int32_t rank;
    int64_t dims[HFTAC_MAX_DIMS]; /* one batch, of one model if `each` */
    int32_t batch_axis;           /* the axis that is N, or -1 */
    int32_t is_target;            /* predict does not need it, as a rule: see used_by_predict */
    int32_t is_each;              /* every model has its own */
    int32_t is_drawn;             /* the program draws it if the data has none */
    int32_t used_by_train, used_by_evaluate, used_by_predict;
    uint64_t bytes; /* of dims */
} hftac_input_description;

HFTAC_TRY hftac_find_input(const hftac_array *array, const char *name, hftac_input *input);
HFTAC_API const hftac_input_description *hftac_describe_input(const hftac_array *array,
                                                              hftac_input input);

/* Copies `samples` samples, of the input's type, in row-major order, with `samples` at the
 * batch axis; an `each` input takes one block per slot in use, one after the other.  For
 * evaluation and prediction samples may be fewer than N: the rest repeats sample 0.  An input
 * without a batch axis is copied whole, whatever `samples` says. */
HFTAC_TRY hftac_feed(hftac_array *array, hftac_input input, const void *values,
                     int64_t samples);
/* The same for one slot of an `each` input. */
HFTAC_TRY hftac_feed_model(hftac_array *array, hftac_input input, int32_t model,
                           const void *values, int64_t samples);
/* Uses the caller's memory, a whole batch of N samples (aligned as its type), without a copy,
 * until the input is fed again; the memory must stay until then and must not change during a
 * step. */
HFTAC_TRY hftac_feed_borrowed(hftac_array *array, hftac_input input, const void *values);

/* ---- Hyper-parameters ---- */

typedef int32_t hftac_hyper;

typedef enum hftac_domain {
    HFTAC_DOMAIN_NONE,
    HFTAC_DOMAIN_RANGE, /* lo .. hi */
    HFTAC_DOMAIN_LOG,   /* lo .. hi, to be searched by magnitude */
    HFTAC_DOMAIN_INT,   /* lo, lo + step, ... hi */
    HFTAC_DOMAIN_SET    /* set[0 .. n_set - 1] */
} hftac_domain;

typedef struct hftac_hyper_description {
    const char *name;
    double value; /* the default */
    int32_t is_integer;
    hftac_domain domain;
    double lo, hi, step; /* both ends belong */
    int64_t n_set;
    const double *set;
} hftac_hyper_description;

HFTAC_TRY hftac_find_hyper(const hftac_array *array, const char *name, hftac_hyper *hyper);
HFTAC_API const hftac_hyper_description *hftac_describe_hyper(const hftac_array *array,
                                                              hftac_hyper hyper);
/* Takes effect with the next step.  NaN, and a fraction for an integer hyper, are refused; a
 * value outside the domain is not: hftac_hyper_in_domain tells (1 inside or no domain, else
 * 0). */
HFTAC_TRY hftac_set_hyper(hftac_array *array, hftac_hyper hyper, int32_t model, double value);
HFTAC_TRY hftac_get_hyper(const hftac_array *array, hftac_hyper hyper, int32_t model,
                          double *value);
HFTAC_API int hftac_hyper_in_domain(const hftac_array *array, hftac_hyper hyper, double value);

/* ---- Seeds and initial values ---- */

/* Initial values and dropout of a model depend on its seed and nothing else. */
HFTAC_TRY hftac_set_seed(hftac_array *array, int32_t model, uint64_t seed);
HFTAC_TRY hftac_get_seed(const hftac_array *array, int32_t model, uint64_t *seed);
/* Forgets what the model learned: its state gets initial values again at next use (with the
 * seed and the hypers of then), its step count is 0, it runs. */
HFTAC_TRY hftac_reset_model(hftac_array *array, int32_t model);

/* ---- Parameters and other state, in PyTorch's layout ---- */

typedef int32_t hftac_param;

typedef enum hftac_role {
    HFTAC_PARAMETER,  /* trained; saved under its name */
    HFTAC_BUFFER,     /* e.g. running_mean; saved under its name */
    HFTAC_OPTIMIZER,  /* what else training keeps: moments, averaged gradients, a schedule's */
    HFTAC_COUNTER,    /* "$step": updates done */
    HFTAC_ACCUMULATOR /* of an evaluation */
} hftac_role;

typedef struct hftac_param_description {
    const char *name; /* "fc1.weight" */
    hftac_role role;
    hftac_type type;
    int32_t rank;
    int64_t dims[HFTAC_MAX_DIMS];
    uint64_t bytes;
} hftac_param_description;

HFTAC_TRY hftac_find_param(const hftac_array *array, const char *name, hftac_param *param);
HFTAC_API const hftac_param_description *hftac_describe_param(const hftac_array *array,
                                                              hftac_param param);
/* Row-major, `bytes` must be the description's. */
HFTAC_TRY hftac_get_param(hftac_array *array, hftac_param param, int32_t model, void *values,
                          size_t bytes);
HFTAC_TRY hftac_set_param(hftac_array *array, hftac_param param, int32_t model,
                          const void *values, size_t bytes);

/* ---- Training ---- */

/* What schedules know: planned epochs (default: the train section's) and optimizer steps per
 * epoch (default: what hftac_train_epoch finds; 0 until then).  At most 2^53 each, as the number of
 * the current epoch. */
HFTAC_TRY hftac_set_plan(hftac_array *array, int64_t epochs, int64_t steps_per_epoch);
/* The number of the current epoch, from 0.  Setting it sets that of every model. */
HFTAC_API int64_t hftac_epoch(const hftac_array *array);
HFTAC_TRY hftac_set_epoch(hftac_array *array, int64_t epoch);
/* Each model has a clock of its own, so that models which began at different times train in one
 * array, each just as it would alone: its plan and the number of its epoch, which schedules
 * follow, and the steps that it has done (hftac_read_step).  The order of samples is the array's
 * (hftac_epoch).  Errors: HFTAC_USAGE (no such model, a number out of range). */
HFTAC_TRY hftac_set_model_plan(hftac_array *array, int32_t model, int64_t epochs,
                               int64_t steps_per_epoch);
HFTAC_TRY hftac_read_model_epoch(const hftac_array *array, int32_t model, int64_t *epoch);
HFTAC_TRY hftac_set_model_epoch(hftac_array *array, int32_t model, int64_t epoch);
/* Ends the epoch: its number goes up, for every model too, hftac_read_epoch_metric starts anew.
 * A schedule that follows a metric takes each model's own value of it: that of an evaluation
 * since the last training step, else the mean over the epoch's steps; HFTAC_NO_METRIC: nothing
 * new to follow. */
enum {
    HFTAC_NO_METRIC = -1
};
HFTAC_TRY hftac_epoch_end(hftac_array *array, int32_t metric);

/* One step of all running models on what was fed.  OK also if models diverge or meet a bad
 * label: see their state; a model to which that happens stops and keeps the state it had
 * before the step.  Only where the update itself makes single values that are not finite, of
 * finite loss, gradients and rates, those alone keep what they were.  Allocates nothing. */
HFTAC_TRY hftac_train_step(hftac_array *array);
/* Updates that this model has done. */
HFTAC_TRY hftac_read_step(hftac_array *array, int32_t model, int64_t *step);

typedef enum hftac_model_state {
    HFTAC_MODEL_RUNNING,
    HFTAC_MODEL_STOPPED,  /* by hftac_stop_model */
    HFTAC_MODEL_DIVERGED, /* loss, gradient, a rate or a new value was not finite */
    HFTAC_MODEL_FAULT     /* a label or index was out of range */
} hftac_model_state;

typedef struct hftac_model_status {
    hftac_model_state state;
    const char *text;  /* "model 3 diverged in step 17: loss is nan"; until the state changes */
    int64_t step;      /* at which it diverged or met the fault, else 0 */
    const char *input; /* FAULT: the input that held the bad value (or NULL) */
    int64_t sample;    /* FAULT: its number in the data set (hftac_train_epoch) or the batch */
    int64_t value;     /* FAULT: the bad value */
} hftac_model_status;

HFTAC_TRY hftac_read_model(const hftac_array *array, int32_t model, hftac_model_status *status);
/* How many run. */
HFTAC_API int32_t hftac_running_count(const hftac_array *array);
/* A stopped model costs nothing in training and keeps its state.  Resuming makes any model
 * run again. */
HFTAC_TRY hftac_stop_model(hftac_array *array, int32_t model);
HFTAC_TRY hftac_resume_model(hftac_array *array, int32_t model);

/* ---- Losses and metrics ---- */

typedef int32_t hftac_metric;

typedef struct hftac_metric_description {
    const char *name;   /* "loss", "acc", "schedule" */
    int32_t from_train; /* a training step gives it */
    int32_t from_evaluation;
    /* The schedule's factor of the learning rate, not a measure of quality. */
    int32_t is_factor;
    int32_t is_loss; /* training minimizes it */
} hftac_metric_description;

HFTAC_TRY hftac_find_metric(const hftac_array *array, const char *name, hftac_metric *metric);
HFTAC_API const hftac_metric_description *hftac_describe_metric(const hftac_array *array,
                                                                hftac_metric metric);
/* What the last training step or the last complete evaluation gave, whichever was later; NaN
 * if there was none.  A model that stopped keeps the value of its last step. */
HFTAC_TRY hftac_read_metric(const hftac_array *array, hftac_metric metric, int32_t model,
                            double *value);
/* Mean over this epoch's training steps that the model wrote (NaN: none). */
HFTAC_TRY hftac_read_epoch_metric(const hftac_array *array, hftac_metric metric, int32_t model,
                                  double *value);

/* ---- Evaluation and prediction, batch by batch ---- */

/* begin clears the accumulators, each step adds the first n_valid of the N samples fed
 * (HFTAC_DATA if the program takes whole batches only and n_valid is less: evaluate_whole), end
 * computes the metrics. running_only: leave out models that do not run (their metrics keep their
 * values).  A bad label or index is an error, HFTAC_DATA, that names model, sample and value. */
HFTAC_TRY hftac_evaluate_begin(hftac_array *array, int running_only);
HFTAC_TRY hftac_evaluate_step(hftac_array *array, int64_t n_valid);
HFTAC_TRY hftac_evaluate_end(hftac_array *array);

typedef int32_t hftac_output;

typedef struct hftac_output_description {
    const char *name;
    hftac_type type;
    int32_t rank;
    int64_t dims[HFTAC_MAX_DIMS]; /* one batch of one model */
    int32_t batch_axis;           /* the axis that comes from N, or -1 */
    int64_t per_sample; /* its extent per sample: dims[batch_axis] == N * per_sample */
    uint64_t bytes;
} hftac_output_description;

HFTAC_TRY hftac_find_output(const hftac_array *array, const char *name, hftac_output *output);
HFTAC_API const hftac_output_description *hftac_describe_output(const hftac_array *array,
                                                                hftac_output output);
/* All models, running or not, on what was fed. */
HFTAC_TRY hftac_predict_step(hftac_array *array, int64_t n_valid);
/* One model's output of the last hftac_predict_step, valid until the next. */
HFTAC_TRY hftac_read_output(const hftac_array *array, hftac_output output, int32_t model,
                            const void **values);

/* ---- Data sets ---- */

typedef enum hftac_purpose {
    HFTAC_FOR_TRAINING, /* and evaluation, where that needs no other inputs */
    HFTAC_FOR_EVALUATION,
    HFTAC_FOR_PREDICTION /* targets may be missing and are not looked at */
} hftac_purpose;

typedef struct hftac_data_options {
    hftac_purpose purpose;
} hftac_data_options;

/* A tensor in the caller's memory, row-major.  Name: of the input.  Dims: the first axis
 * counts samples ([models, samples, ...] for `each` inputs, where models is 1, the slots in
 * use or all compiled in), the others are those of one sample. */
typedef struct hftac_tensor {
    const char *name;
    hftac_type type;
    int32_t rank;
    int64_t dims[HFTAC_MAX_DIMS];
    const void *values;
} hftac_tensor;

/* Opens a .safetensors file, or a directory of NAME.npy files, with tensors named as the
 * inputs, and checks all of it: missing tensors, shapes, types, labels and indices out of
 * range.  Integers are converted where no value is lost.  Other tensors in the file are left
 * alone, whatever their type.  The tensors are read into memory once and the file is closed:
 * it may then change or go.  The data set may be used with this array only, and closed before
 * or after it. */
HFTAC_TRY hftac_data_open(const hftac_array *array, const char *path,
                          const hftac_data_options *options, hftac_data **data);
/* The same from memory, which must stay until hftac_data_close. */
HFTAC_TRY hftac_data_from_memory(const hftac_array *array, const hftac_tensor *tensors,
                                 int32_t n_tensors, const hftac_data_options *options,
                                 hftac_data **data);
/* Whether the data set can be trained on, evaluated or predicted with, as far as its size tells:
 * a program that takes whole batches only (see hftac_description) refuses others before anything
 * has run. */
HFTAC_TRY hftac_data_check(const hftac_array *array, const hftac_data *data,
                           hftac_purpose purpose);
/* Samples first .. first + count - 1 of `whole` as a data set of its own; `whole` must stay
 * open meanwhile. */
HFTAC_TRY hftac_data_slice(const hftac_data *whole, int64_t first, int64_t count,
                           hftac_data **part);
HFTAC_API void hftac_data_close(hftac_data *data);
HFTAC_API int64_t hftac_data_samples(const hftac_data *data);

/* Where a loop over a data set stands, for a callback. */
typedef struct hftac_progress {
    int64_t epoch;          /* hftac_epoch */
    int64_t batch, batches; /* batches done, and to do in all, in this call */
    int64_t samples;        /* samples done in this call */
} hftac_progress;

/* Called after each batch; other than 0 ends the loop there with HFTAC_INTERRUPTED. */
typedef int hftac_callback(void *context, const hftac_progress *progress);

typedef enum hftac_shuffle {
    HFTAC_SHUFFLE_SAME, /* one order for all models */
    HFTAC_SHUFFLE_NONE,
    HFTAC_SHUFFLE_EACH /* every model its own; all batch inputs must be `each` */
} hftac_shuffle;

typedef struct hftac_train_options {
    hftac_shuffle shuffle;
    uint64_t seed; /* the order depends on seed and epoch (and slot, for EACH) only */
    hftac_callback *callback;
    void *context;
} hftac_train_options;

/* What a pass over the data did. */
typedef struct hftac_pass {
    int64_t steps, samples;
    int64_t dropped; /* samples of the last partial batch, which training leaves out */
} hftac_pass;

/* Trains once over the data.  Sets the plan's steps per epoch if it was 0; the caller ends
 * the epoch with hftac_epoch_end.  Ends early, with HFTAC_OK, when no model runs any more.
 * Fewer samples than N is an error.  `pass` may be NULL. */
HFTAC_TRY hftac_train_epoch(hftac_array *array, hftac_data *data,
                            const hftac_train_options *options, hftac_pass *pass);

typedef struct hftac_evaluate_options {
    int32_t running_only; /* as in hftac_evaluate_begin */
    hftac_callback *callback;
    void *context;
} hftac_evaluate_options;

/* Every sample once, whatever N; the metrics are then read by hftac_read_metric. */
HFTAC_TRY hftac_evaluate(hftac_array *array, hftac_data *data,
                         const hftac_evaluate_options *options, hftac_pass *pass);

/* Receives a batch: samples first .. first + n_valid - 1 are in the outputs
 * (hftac_read_output).  As hftac_callback. */
typedef int hftac_sink(void *context, int64_t first, int64_t n_valid);

HFTAC_TRY hftac_predict(hftac_array *array, hftac_data *data, hftac_sink *sink, void *context);
/* All outputs as tensors [models, samples, ...] in one safetensors file, written whole or not
 * at all.  An output without an axis of samples is [models, ...]; HFTAC_DATA if its value differs
 * from batch to batch. */
HFTAC_TRY hftac_predict_to_file(hftac_array *array, hftac_data *data, const char *path);

/* ---- Files ---- */

/* The library leaves signals to the program.  Where a file grows beyond the process's size limit
 * (RLIMIT_FSIZE) the kernel sends SIGXFSZ, which ends a program that has not ignored it, without
 * harm to what stood there; one that ignores it gets HFTAC_FILE. */

/* Parameters and buffers in PyTorch's key names and layouts.  The file is written without a
 * name, synced, and then takes the place of what stood there, which survives any failure.  A
 * process killed in the moment of replacing an old file leaves a file called .hftac-...
 * beside it, which the next write into that folder removes. */
HFTAC_TRY hftac_save_model(hftac_array *array, int32_t model, const char *path);
/* Every model in use as DIR/model-000.safetensors, ..., and hyper-parameters and seeds as
 * DIR/hypers.json.  Makes DIR if need be.
 *
 * These files are one set: the new one is written and synced out of sight, then takes the old
 * one's place in one step, and older files of these names are gone with it.  Whenever the
 * process is killed, hftac_load finds all of the old set or all of the new one.  The step
 * exchanges DIR for a new folder of that name.  DIR itself stays, and the files in it are
 * replaced, where DIR holds files of other names (which are left alone), is the current
 * directory, a mount point or another user's, its parent cannot be written, or the file system
 * cannot exchange.  A process killed in the middle of that leaves DIR/.hftac-new, which
 * hftac_load reads and the next save into DIR clears up; until then other programs may see
 * files of both sets. */
HFTAC_TRY hftac_save(hftac_array *array, const char *directory);
/* The same for some models: the set holds these and no others. */
HFTAC_TRY hftac_save_models(hftac_array *array, const int32_t *models, int32_t n_models,
                            const char *directory);
/* Whether a set, a file, could be written there now; found out by writing a little beside what
 * stands there, which stays as it is. */
HFTAC_TRY hftac_try_save(const char *directory);
HFTAC_TRY hftac_try_file(const char *path);

typedef struct hftac_load_options {
    int32_t allow_missing;    /* keys that the file lacks keep their values */
    int32_t allow_unexpected; /* keys that the model lacks are left alone */
} hftac_load_options;

/* Checks all of the file before it changes anything; the error lists every missing and
 * unexpected key and every difference in shape and type. A tensor of shape [1] may stand for
 * a scalar. */
HFTAC_TRY hftac_load_model(hftac_array *array, int32_t model, const char *path,
                           const hftac_load_options *options);
/* A file: into every model in use.  A directory: model-NNN.safetensors into slot NNN, all of
 * them must be there, whoever wrote them. */
HFTAC_TRY hftac_load(hftac_array *array, const char *path, const hftac_load_options *options);
/* The same for some models, from a directory. */
HFTAC_TRY hftac_load_models(hftac_array *array, const int32_t *models, int32_t n_models,
                            const char *directory, const hftac_load_options *options);

/* ---- Looking inside ---- */

/* Appends address, size and name of each function of the open model.so to the file at `path`, as
 * Linux' perf reads them (NULL: /tmp/perf-PID.map, where it looks).  gdb is told by itself. */
HFTAC_TRY hftac_write_map(const hftac_array *array, const char *path);

/* 1: from now on every kernel - what the compiler made one loop nest of - is called by itself,
 * for one model after the other, by the calling thread alone, and is timed, counting from zero;
 * the numbers do not change.  0: no more. */
HFTAC_TRY hftac_profile(hftac_array *array, int32_t on);

typedef struct hftac_kernel_profile {
    const char *name;   /* of the first value that it stores */
    const char *source; /* "model.hdl:12"; "" if it comes from no line */
    const char *entry;  /* "init", "train", "eval", "eval_end", "predict" */
    int64_t calls;
    double seconds; /* of all calls */
    /* Of one call: floating-point operations, a multiply-add being two; bytes of the values that
     * it reads and writes, each counted once. */
    double operations, bytes;
} hftac_kernel_profile;

/* Kernels of the file, in the order in which they run, and what is known of one. */
HFTAC_API int32_t hftac_kernel_count(const hftac_array *array);
HFTAC_TRY hftac_read_kernel(const hftac_array *array, int32_t kernel,
                            hftac_kernel_profile *profile);

#ifdef __cplusplus
}
#endif

#endif
