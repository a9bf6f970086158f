/* Running entry points: initial values, training, evaluation, prediction, and what becomes of
 * their results.
 *
 * What an entry does is a list of steps in model.so, walked here.  The models that it runs for are
 * cut into one contiguous block per worker, the same one as long as the same models run, so that a
 * model's state stays in one core's cache.  A region's function is called once per maximal row of
 * neighbours. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/array.h"
#include "runtime/door.h"
#include "runtime/profile.h"

/* ---- Dividing models among workers ---- */

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
    hftac_array *a;
    const Partition *p;
    HftacRegionFn *function;
} StepJob;

static void run_worker(void *context, int worker)
{
    const StepJob *job = context;
    const Partition *p = job->p;
    for (int32_t r = p->first[worker]; r < p->first[worker + 1]; r++)
        job->function(&job->a->frames[worker], p->lo[r], p->hi[r]);
}

/* Every step is done before the next one begins, so a barrier is nothing that is left to do. */
static void run_step(hftac_array *a, const Partition *p, const HftacStep *s)
{
    StepJob job = {.a = a, .p = p};
    switch (s->kind) {
    case HFTAC_STEP_SHARED:
        hft_model_run(a->m, s->function)(&a->frames[0], 0, 0);
        break;
    case HFTAC_STEP_MODELS:
        job.function = hft_model_run(a->m, s->function);
        hft_pool_run(a->pool, p->n_workers, run_worker, &job);
        break;
    }
}

void hft_run_entry(hftac_array *a, int which, Partition *p, const unsigned char *wanted)
{
    const HftacEntry *e = a->plans[which].entry;
    if (!p->made || memcmp(p->wanted, wanted, (size_t)a->n) != 0)
        partition_make(p, a->n, a->about.threads, wanted);
    for (uint32_t i = 0; p->n_workers && i < e->n_steps; i++) {
        const HftacStep *s = hft_entry_step(a->m, e, i);
        if (a->profile)
            hft_profile_step(a, s, wanted);
        else
            run_step(a, p, s);
    }
}

/* ---- Initial values ---- */

static void clear_states(hftac_array *a, int32_t model, bool only_accumulators)
{
    for (uint32_t i = 0; i < a->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(a->m, i);
        if (!only_accumulators || s->role == HFTAC_ROLE_METRIC)
            memset(hft_state_of(a, s, model), 0, s->bytes);
    }
}

/* `wanted` may be a->flags, which is used up. */
void hft_initialize_models(hftac_array *a, const unsigned char *wanted)
{
    if (!a->n_uninitialized)
        return;
    unsigned char *flags = a->flags;
    bool any = false;
    for (int32_t b = 0; b < a->n; b++) {
        flags[b] = wanted[b] && !a->models[b].initialized;
        if (!flags[b])
            continue;
        any = true;
        clear_states(a, b, false);
        a->models[b].initialized = true;
        a->n_uninitialized--;
    }
    if (any && a->plans[HFTAC_ENTRY_INIT].entry)
        hft_run_entry(a, HFTAC_ENTRY_INIT, &a->others, flags);
}

void hft_initialize_model(hftac_array *a, int32_t model)
{
    if (a->models[model].initialized)
        return;
    memset(a->flags, 0, (size_t)a->n);
    a->flags[model] = 1;
    hft_initialize_models(a, a->flags);
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

static int64_t steps_done(const hftac_array *a, int32_t model)
{
    int64_t step = 0;
    if (a->step_param >= 0 && a->models[model].initialized)
        hft_param_read(a, a->step_param, model, &step);
    return step;
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

static void store_metrics(hftac_array *a, const EntryPlan *p, int32_t model)
{
    const double *results = a->results + (size_t)model * a->m->info->n_results;
    for (int i = 0; i < p->n_values; i++)
        a->metric_values[(size_t)p->values[i].metric * (size_t)a->n + (size_t)model] =
            results[p->values[i].index];
}

static void add_to_epoch(hftac_array *a, const EntryPlan *p, int32_t model)
{
    const double *results = a->results + (size_t)model * a->m->info->n_results;
    for (int i = 0; i < p->n_values; i++)
        a->epoch_sum[(size_t)p->values[i].metric * (size_t)a->n + (size_t)model] +=
            results[p->values[i].index];
    a->epoch_count[model]++;
}

static const HftacResult *find_fault(const hftac_array *a, const EntryPlan *p, int32_t model)
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
static void record_divergence(hftac_array *a, const EntryPlan *p, int32_t model)
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
static const HftacResult *find_kept(const hftac_array *a, const EntryPlan *p, int32_t model)
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
    int64_t n = 0;
    if (a->batch_param >= 0)
        hft_param_read(a, a->batch_param, model, &n);
    return n != 0;
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
    const EntryPlan *p = &a->plans[HFTAC_ENTRY_TRAIN];
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
    if (!a->plans[which].entry)
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
    HFT_OWN_FLOAT_MODE;
    const hftac_status s = check_entry(a, HFTAC_ENTRY_TRAIN, a ? a->m->info->batch : 0);
    if (s)
        return s;
    hft_initialize_models(a, a->alive);
    a->scalars[HFTAC_SCALAR_N_VALID] = (double)a->m->info->batch;
    hft_run_entry(a, HFTAC_ENTRY_TRAIN, &a->running, a->alive);
    for (int32_t b = 0; b < a->n; b++)
        if (a->running.wanted[b])
            take_train_results(a, b);
    a->trained_last = true;
    return HFTAC_OK;
}

/* ---- Public: evaluation and prediction ---- */

/* A fault in an evaluation is the caller's to mend: nothing is recorded in the model. */
static hftac_status first_fault(const hftac_array *a, int which, const unsigned char *wanted)
{
    const EntryPlan *p = &a->plans[which];
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
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!a->plans[HFTAC_ENTRY_EVAL].entry)
        return hft_fail(HFTAC_USAGE,
                        "%s was compiled without evaluation: it has no loss and no metric",
                        a->path);
    for (int32_t b = 0; b < a->n; b++)
        a->evaluated[b] = running_only ? a->alive[b] : 1;
    hft_initialize_models(a, a->evaluated);
    for (int32_t b = 0; b < a->n; b++)
        if (a->evaluated[b])
            clear_states(a, b, true);
    a->evaluating = true;
    return HFTAC_OK;
}

hftac_status hftac_evaluate_step(hftac_array *a, int64_t n_valid)
{
    HFT_OWN_FLOAT_MODE;
    hftac_status s = check_entry(a, HFTAC_ENTRY_EVAL, n_valid);
    if (s)
        return s;
    if (!a->evaluating)
        return hft_fail(HFTAC_USAGE, "hftac_evaluate_step without hftac_evaluate_begin");
    a->scalars[HFTAC_SCALAR_N_VALID] = (double)n_valid;
    hft_run_entry(a, HFTAC_ENTRY_EVAL, &a->others, a->evaluated);
    s = first_fault(a, HFTAC_ENTRY_EVAL, a->evaluated);
    if (s)
        a->evaluating = false;
    return s;
}

hftac_status hftac_evaluate_end(hftac_array *a)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!a->evaluating)
        return hft_fail(HFTAC_USAGE, "hftac_evaluate_end without hftac_evaluate_begin");
    a->evaluating = false;
    hft_run_entry(a, HFTAC_ENTRY_EVAL_END, &a->others, a->evaluated);
    for (int32_t b = 0; b < a->n; b++)
        if (a->evaluated[b])
            store_metrics(a, &a->plans[HFTAC_ENTRY_EVAL_END], b);
    a->trained_last = false;
    return HFTAC_OK;
}

hftac_status hftac_predict_step(hftac_array *a, int64_t n_valid)
{
    HFT_OWN_FLOAT_MODE;
    hftac_status s = check_entry(a, HFTAC_ENTRY_PREDICT, n_valid);
    if (s)
        return s;
    memset(a->flags, 1, (size_t)a->n);
    hft_initialize_models(a, a->flags);
    memset(a->flags, 1, (size_t)a->n);
    a->scalars[HFTAC_SCALAR_N_VALID] = (double)n_valid;
    hft_run_entry(a, HFTAC_ENTRY_PREDICT, &a->others, a->flags);
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
    *values = (const unsigned char *)a->output_at[output] +
              (size_t)model * hft_model_output(a->m, (uint32_t)output)->bytes;
    return HFTAC_OK;
}

hftac_status hftac_read_step(hftac_array *a, int32_t model, int64_t *step)
{
    if (!step)
        return hft_fail(HFTAC_USAGE, "step is NULL");
    *step = 0;
    const hftac_status s = hft_check_slot(a, model);
    if (!s)
        *step = steps_done(a, model);
    return s;
}
