/* Running entry points: initial values, training, evaluation, prediction, and what becomes of
 * their results.  How an entry is run is the device's affair. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/array.h"
#include "runtime/door.h"

/* ---- Initial values ---- */

void hft_control_changed(hftac_array *a)
{
    a->device->kind->control_changed(a->device);
}

static void set_n_valid(hftac_array *a, int64_t n)
{
    if (a->control.scalars[HFTAC_SCALAR_N_VALID] == (double)n)
        return;
    a->control.scalars[HFTAC_SCALAR_N_VALID] = (double)n;
    hft_control_changed(a);
}

hftac_status hft_run_entry(hftac_array *a, int which, const unsigned char *wanted)
{
    const hftac_status s = a->device->kind->run(a->device, (uint32_t)which, wanted);
    return s ? s : a->device->kind->results(a->device, 0, &a->results);
}

static hftac_status clear_states(hftac_array *a, int32_t model, bool only_accumulators)
{
    hftac_status s = HFTAC_OK;
    for (uint32_t i = 0; !s && i < a->m->variant->n_states; i++)
        if (!only_accumulators || hft_model_state(a->m, i)->role == HFTAC_ROLE_METRIC)
            s = a->device->kind->clear(a->device, i, model);
    return s;
}

hftac_status hft_initialize_models(hftac_array *a, const unsigned char *wanted)
{
    if (!a->n_uninitialized)
        return HFTAC_OK;
    unsigned char *flags = a->flags;
    bool any = false;
    hftac_status s = HFTAC_OK;
    for (int32_t b = 0; !s && b < a->n; b++) {
        flags[b] = wanted[b] && !a->models[b].initialized;
        any |= flags[b];
        if (flags[b])
            s = clear_states(a, b, false);
    }
    if (!s && any && a->entries[HFTAC_ENTRY_INIT].entry)
        s = hft_run_entry(a, HFTAC_ENTRY_INIT, flags);
    for (int32_t b = 0; !s && b < a->n; b++) {
        a->models[b].initialized |= flags[b];
        a->n_uninitialized -= flags[b];
    }
    return s;
}

hftac_status hft_initialize_model(hftac_array *a, int32_t model)
{
    if (a->models[model].initialized)
        return HFTAC_OK;
    memset(a->flags, 0, (size_t)a->n);
    a->flags[model] = 1;
    return hft_initialize_models(a, a->flags);
}

/* ---- States of models ---- */

void hft_set_state(hftac_array *a, int32_t model, hftac_model_state state)
{
    ModelStatus *m = &a->models[model];
    a->n_running += (state == HFTAC_MODEL_RUNNING) - (m->state == HFTAC_MODEL_RUNNING);
    m->state = state;
    m->step = m->sample = m->value = 0;
    m->input = NULL;
    a->alive[model] = state == HFTAC_MODEL_RUNNING;
    snprintf(m->text, sizeof m->text, "%s",
             state == HFTAC_MODEL_RUNNING ? "running" : "stopped");
}

static hftac_status read_counter(const hftac_array *a, int32_t param, int32_t model,
                                 int64_t *out)
{
    *out = 0;
    return param >= 0 && a->models[model].initialized ? hft_param_read(a, param, model, out)
                                                      : HFTAC_OK;
}

/* For a model's record, where a device that fails can tell nothing. */
static int64_t steps_done(const hftac_array *a, int32_t model)
{
    int64_t step;
    return read_counter(a, a->step_param, model, &step) ? 0 : step;
}

/* The row of the batch that element `position` of the input belongs to, as the data set
 * numbers it. */
static int64_t sample_of(const hftac_array *a, int32_t input, int32_t model, int64_t position)
{
    const hftac_input_description *in = &a->inputs[input];
    if (in->batch_axis < 0)
        return position;
    int64_t inner = 1;
    for (int32_t k = in->batch_axis + 1; k < in->rank; k++)
        inner *= in->dims[k];
    const int64_t extent = in->dims[in->batch_axis];
    const int64_t row = inner && extent ? position / inner % extent : 0;
    return a->sample_numbers
               ? a->sample_numbers[(size_t)model * a->sample_numbers_stride + (size_t)row]
               : row;
}

/* Writes what is wrong into the model's record and text; its state is the caller's business. */
static void describe_fault(const hftac_array *a, int32_t model, const HftacResult *r,
                           const double *results, ModelStatus *out)
{
    const int64_t position = (int64_t)results[r->index];
    out->value = (int64_t)results[r->index + 1];
    out->sample = position;
    out->input = NULL;
    if (r->input >= 0) {
        out->input = a->inputs[r->input].name;
        out->sample = sample_of(a, r->input, model, position);
    }
    snprintf(out->text, sizeof out->text,
             "model %d: %s%s is %" PRId64 " in sample %" PRId64 ", allowed are %" PRId64
             " to %" PRId64,
             model, out->input ? "input " : "an index", out->input ? out->input : "",
             out->value, out->sample, r->lo, r->hi - 1);
}

/* ---- Results ---- */

static void store_metrics(hftac_array *a, const EntryResults *p, int32_t model)
{
    const double *results = a->results + (size_t)model * a->m->info->n_results;
    for (int i = 0; i < p->n_values; i++)
        a->metric_values[(size_t)p->values[i].metric * (size_t)a->n + (size_t)model] =
            results[p->values[i].index];
}

static void add_to_epoch(hftac_array *a, const EntryResults *p, int32_t model)
{
    const double *results = a->results + (size_t)model * a->m->info->n_results;
    for (int i = 0; i < p->n_values; i++)
        a->epoch_sum[(size_t)p->values[i].metric * (size_t)a->n + (size_t)model] +=
            results[p->values[i].index];
    a->epoch_count[model]++;
}

static const HftacResult *find_fault(const hftac_array *a, const EntryResults *p, int32_t model)
{
    const double *results = a->results + (size_t)model * a->m->info->n_results;
    for (int i = 0; i < p->n_faults; i++)
        if (results[p->faults[i]->index] >= 0)
            return p->faults[i];
    return NULL;
}

static void record_fault(hftac_array *a, int32_t model, const HftacResult *r)
{
    hft_set_state(a, model, HFTAC_MODEL_FAULT);
    ModelStatus *m = &a->models[model];
    m->step = steps_done(a, model) + 1;
    describe_fault(a, model, r, a->results + (size_t)model * a->m->info->n_results, m);
}

static const char *text_of(double not_finite)
{
    return isnan(not_finite) ? "nan" : not_finite > 0 ? "inf" : "-inf";
}

/* Why nothing was written: a loss, a scalar of the update, else a gradient. */
static void record_divergence(hftac_array *a, const EntryResults *p, int32_t model)
{
    hft_set_state(a, model, HFTAC_MODEL_DIVERGED);
    ModelStatus *m = &a->models[model];
    m->step = steps_done(a, model) + 1;
    const double *results = a->results + (size_t)model * a->m->info->n_results;
    const char *what = NULL;
    double v = 0;
    for (int i = 0; i < p->n_values && !what; i++)
        if (!isfinite(v = results[p->values[i].index]))
            what = a->metrics[p->values[i].metric].name;
    for (int i = 0; i < p->n_causes && !what; i++)
        if (!isfinite(v = results[p->causes[i]->index]))
            what = hft_model_text(a->m, p->causes[i]->name);
    snprintf(m->text, sizeof m->text, "model %d diverged in step %" PRId64 ": %.96s%s%s", model,
             m->step, what ? what : "its gradient is not finite", what ? " is " : "",
             what ? text_of(v) : "");
}

/* A state of which elements stayed as they were because their new value was not finite. */
static const HftacResult *find_kept(const hftac_array *a, const EntryResults *p, int32_t model)
{
    const double *results = a->results + (size_t)model * a->m->info->n_results;
    for (int i = 0; i < p->n_kept; i++)
        if (results[p->kept[i]->index] != 0)
            return p->kept[i];
    return NULL;
}

/* Of the batches that make a step some are still to come. */
static bool within_step(const hftac_array *a, int32_t model)
{
    int64_t n;
    return !read_counter(a, a->batch_param, model, &n) && n != 0;
}

static void record_kept(hftac_array *a, int32_t model, const HftacResult *r)
{
    hft_set_state(a, model, HFTAC_MODEL_DIVERGED);
    ModelStatus *m = &a->models[model];
    m->step = steps_done(a, model) + within_step(a, model);
    snprintf(m->text, sizeof m->text,
             "model %d diverged in step %" PRId64 ": %.96s is not finite after the update",
             model, m->step, hft_model_text(a->m, r->name));
}

static void take_train_results(hftac_array *a, int32_t model)
{
    const EntryResults *p = &a->entries[HFTAC_ENTRY_TRAIN];
    store_metrics(a, p, model);
    const HftacResult *fault = find_fault(a, p, model), *kept;
    if (fault)
        record_fault(a, model, fault);
    else if (p->ok_index >= 0 &&
             a->results[(size_t)model * a->m->info->n_results + (size_t)p->ok_index] == 0)
        record_divergence(a, p, model);
    else if ((kept = find_kept(a, p, model)))
        record_kept(a, model, kept);
    else
        add_to_epoch(a, p, model);
}

/* ---- Public: training ---- */

hftac_status hft_check_partial(const hftac_array *a, int which, int64_t samples)
{
    const char *whole =
        which == HFTAC_ENTRY_PREDICT ? a->about.predict_whole : a->about.evaluate_whole;
    const int64_t batch = a->m->info->batch;
    if (!whole || which == HFTAC_ENTRY_TRAIN || samples % batch == 0)
        return HFTAC_OK;
    return hft_fail(HFTAC_DATA,
                    "%s, so %s takes whole batches only: %" PRId64
                    " samples are no multiple of N = %" PRId64
                    "; give a multiple, or compile for a batch size that divides them",
                    whole, which == HFTAC_ENTRY_PREDICT ? "prediction" : "evaluation", samples,
                    batch);
}

static hftac_status check_entry(const hftac_array *a, int which, int64_t n_valid)
{
    static const char *const names[HFTAC_N_ENTRIES] = {
        "initial values", "training", "evaluation", "evaluation", "prediction"};
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!a->entries[which].entry)
        return hft_fail(HFTAC_USAGE, "%s was compiled without %s", a->path, names[which]);
    if (n_valid < 1 || n_valid > a->m->info->batch)
        return hft_fail(HFTAC_USAGE,
                        "n_valid is %" PRId64 ", a batch has 1 to %" PRId64 " samples", n_valid,
                        a->m->info->batch);
    const hftac_status s = hft_check_partial(a, which, n_valid);
    return s ? s : hft_check_fed(a, which, n_valid);
}

hftac_status hftac_train_step(hftac_array *a)
{
    HFT_STANDARD_FLOAT_MODE;
    hftac_status s = check_entry(a, HFTAC_ENTRY_TRAIN, a ? a->m->info->batch : 0);
    if (!s)
        s = hft_initialize_models(a, a->alive);
    if (s)
        return s;
    set_n_valid(a, a->m->info->batch);
    s = hft_run_entry(a, HFTAC_ENTRY_TRAIN, a->alive);
    if (s)
        return s;
    /* Taking a model's results may stop that model, and no other one. */
    for (int32_t b = 0; b < a->n; b++)
        if (a->alive[b])
            take_train_results(a, b);
    a->trained_last = true;
    return HFTAC_OK;
}

/* ---- Public: evaluation and prediction ---- */

/* A fault in an evaluation is the caller's to mend: nothing is recorded in the model. */
static hftac_status first_fault(const hftac_array *a, int which, const unsigned char *wanted)
{
    const EntryResults *p = &a->entries[which];
    for (int32_t b = 0; p->n_faults && b < a->n; b++) {
        const HftacResult *fault = wanted[b] ? find_fault(a, p, b) : NULL;
        if (fault) {
            ModelStatus m = {0};
            describe_fault(a, b, fault, a->results + (size_t)b * a->m->info->n_results, &m);
            return hft_fail(HFTAC_DATA, "%s", m.text);
        }
    }
    return HFTAC_OK;
}

hftac_status hftac_evaluate_begin(hftac_array *a, int running_only)
{
    HFT_STANDARD_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!a->entries[HFTAC_ENTRY_EVAL].entry)
        return hft_fail(HFTAC_USAGE,
                        "%s was compiled without evaluation: it has no loss and no metric",
                        a->path);
    for (int32_t b = 0; b < a->n; b++)
        a->evaluated[b] = running_only ? a->alive[b] : 1;
    hftac_status s = hft_initialize_models(a, a->evaluated);
    for (int32_t b = 0; !s && b < a->n; b++)
        if (a->evaluated[b])
            s = clear_states(a, b, true);
    a->evaluating = !s;
    return s;
}

hftac_status hftac_evaluate_step(hftac_array *a, int64_t n_valid)
{
    HFT_STANDARD_FLOAT_MODE;
    hftac_status s = check_entry(a, HFTAC_ENTRY_EVAL, n_valid);
    if (s)
        return s;
    if (!a->evaluating)
        return hft_fail(HFTAC_USAGE, "hftac_evaluate_step without hftac_evaluate_begin");
    set_n_valid(a, n_valid);
    s = hft_run_entry(a, HFTAC_ENTRY_EVAL, a->evaluated);
    if (!s)
        s = first_fault(a, HFTAC_ENTRY_EVAL, a->evaluated);
    if (s)
        a->evaluating = false;
    return s;
}

hftac_status hftac_evaluate_end(hftac_array *a)
{
    HFT_STANDARD_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!a->evaluating)
        return hft_fail(HFTAC_USAGE, "hftac_evaluate_end without hftac_evaluate_begin");
    a->evaluating = false;
    const hftac_status s = hft_run_entry(a, HFTAC_ENTRY_EVAL_END, a->evaluated);
    if (s)
        return s;
    for (int32_t b = 0; b < a->n; b++)
        if (a->evaluated[b])
            store_metrics(a, &a->entries[HFTAC_ENTRY_EVAL_END], b);
    a->trained_last = false;
    return HFTAC_OK;
}

hftac_status hftac_predict_step(hftac_array *a, int64_t n_valid)
{
    HFT_STANDARD_FLOAT_MODE;
    hftac_status s = check_entry(a, HFTAC_ENTRY_PREDICT, n_valid);
    if (s)
        return s;
    memset(a->flags, 1, (size_t)a->n);
    s = hft_initialize_models(a, a->flags);
    if (s)
        return s;
    memset(a->flags, 1, (size_t)a->n);
    set_n_valid(a, n_valid);
    s = hft_run_entry(a, HFTAC_ENTRY_PREDICT, a->flags);
    if (!s)
        s = first_fault(a, HFTAC_ENTRY_PREDICT, a->flags);
    a->predicted = s == HFTAC_OK;
    return s;
}

hftac_status hftac_read_output(const hftac_array *a, hftac_output output, int32_t model,
                               const void **values)
{
    if (!values)
        return hft_fail(HFTAC_USAGE, "values is NULL");
    *values = NULL;
    hftac_status s = hft_check_slot(a, model);
    if (!s)
        s = hft_check_handle(a, output, a->about.n_outputs, "output");
    if (s)
        return s;
    if (!a->predicted)
        return hft_fail(HFTAC_USAGE,
                        "there is no prediction yet: call hftac_predict_step first");
    const void *all = NULL;
    s = a->device->kind->output(a->device, (uint32_t)output, &all);
    if (!s)
        *values = (const unsigned char *)all +
                  (size_t)model * hft_model_output(a->m, (uint32_t)output)->bytes;
    return s;
}

hftac_status hftac_read_step(hftac_array *a, int32_t model, int64_t *step)
{
    if (!step)
        return hft_fail(HFTAC_USAGE, "step is NULL");
    *step = 0;
    const hftac_status s = hft_check_slot(a, model);
    return s ? s : read_counter(a, a->step_param, model, step);
}
