/* Looking things up, and reading and writing what belongs to one model. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "runtime/array.h"
#include "runtime/door.h"

/* ---- Doors ---- */

hftac_status hft_check_array(const hftac_array *a)
{
    if (!a)
        return hft_fail(HFTAC_USAGE, "array is NULL");
    if (a->process != getpid())
        return hft_fail(HFTAC_USAGE,
                        "%s was opened by process %ld: its threads are not in this one, which "
                        "can only close the array and open it again",
                        a->path, (long)a->process);
    return HFTAC_OK;
}

hftac_status hft_check_slot(const hftac_array *a, int32_t model)
{
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (model < 0 || model >= a->n)
        return hft_fail(HFTAC_USAGE, "there is no model %d: models are 0 to %d", model,
                        a->n - 1);
    return HFTAC_OK;
}

hftac_status hft_check_handle(const hftac_array *a, int32_t handle, int32_t count,
                              const char *what)
{
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (handle < 0 || handle >= count)
        return hft_fail(HFTAC_USAGE, "%s has no %s number %d: it has %d", a->path, what, handle,
                        count);
    return HFTAC_OK;
}

/* Slot, handle and out parameter at once. */
static hftac_status check_access(const hftac_array *a, int32_t model, int32_t handle,
                                 int32_t count, const char *what, const void *value)
{
    hftac_status s = hft_check_slot(a, model);
    if (!s)
        s = hft_check_handle(a, handle, count, what);
    if (!s && !value)
        s = hft_fail(HFTAC_USAGE, "the place for the %s's value is NULL", what);
    return s;
}

/* ---- Lookup: a table of rows that begin with their name ---- */

static hftac_status find(const hftac_array *a, const char *what, const void *rows, size_t size,
                         int32_t n, const char *name, int32_t *out)
{
    if (!out || !name)
        return hft_fail(HFTAC_USAGE, "looking for a %s: a pointer is NULL", what);
    char known[1024] = "";
    size_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        const char *candidate;
        memcpy(&candidate, (const char *)rows + (size_t)i * size, sizeof candidate);
        if (strcmp(candidate, name) == 0) {
            *out = i;
            return HFTAC_OK;
        }
        const size_t length = strlen(candidate);
        if (used + length + 3 < sizeof known) {
            memcpy(known + used, used ? ", " : "", used ? 2 : 0);
            used += used ? 2 : 0;
            memcpy(known + used, candidate, length + 1);
            used += length;
        }
    }
    return hft_fail(HFTAC_NOT_FOUND, "%s has no %s \"%s\"; it has: %s", a->path, what, name,
                    n ? known : "none");
}

/* clang-format off */
#define LOOKUP(thing, text, table)                                                                           \
    hftac_status hftac_find_##thing(const hftac_array *a, const char *name, hftac_##thing *out)              \
    {                                                                                                        \
        if (out)                                                                                             \
            *out = -1;                                                                                       \
        if (hft_check_array(a))                                                                              \
            return HFTAC_USAGE;                                                                              \
        return find(a, text, a->table, sizeof *a->table, a->about.n_##table, name, out);                     \
    }                                                                                                        \
    const hftac_##thing##_description *hftac_describe_##thing(const hftac_array *a, hftac_##thing handle)    \
    {                                                                                                        \
        return a && handle >= 0 && handle < a->about.n_##table ? &a->table[handle] : NULL;                   \
    }
LOOKUP(input, "input", inputs)
LOOKUP(hyper, "hyper", hypers)
LOOKUP(param, "parameter", params)
LOOKUP(metric, "metric", metrics)
LOOKUP(output, "output", outputs)
#undef LOOKUP
/* clang-format on */

const hftac_description *hftac_describe(const hftac_array *a)
{
    return a ? &a->about : NULL;
}

int32_t hftac_model_count(const hftac_array *a)
{
    return a ? a->n : 0;
}

int32_t hftac_running_count(const hftac_array *a)
{
    return a ? a->n_running : 0;
}

/* ---- Hypers ---- */

hftac_status hftac_set_hyper(hftac_array *a, hftac_hyper hyper, int32_t model, double value)
{
    HFT_OWN_FLOAT_MODE;
    const hftac_status s =
        check_access(a, model, hyper, a ? a->about.n_hypers : 0, "hyper", &value);
    if (s)
        return s;
    const hftac_hyper_description *h = &a->hypers[hyper];
    if (isnan(value))
        return hft_fail(HFTAC_DATA, "hyper %s of model %d cannot be nan", h->name, model);
    if (h->is_integer && (value != floor(value) || fabs(value) > 9007199254740992.0))
        return hft_fail(HFTAC_DATA, "hyper %s of model %d must be an integer, not %.17g",
                        h->name, model, value);
    a->control.hypers[(size_t)model * (size_t)a->about.n_hypers + (size_t)hyper] = value;
    hft_control_changed(a);
    return HFTAC_OK;
}

hftac_status hftac_get_hyper(const hftac_array *a, hftac_hyper hyper, int32_t model,
                             double *value)
{
    if (value)
        *value = 0;
    const hftac_status s =
        check_access(a, model, hyper, a ? a->about.n_hypers : 0, "hyper", value);
    if (!s)
        *value = a->control.hypers[(size_t)model * (size_t)a->about.n_hypers + (size_t)hyper];
    return s;
}

static bool on_grid(const hftac_hyper_description *h, double value)
{
    const double step = h->step > 0 ? h->step : 1, k = (value - h->lo) / step;
    return fabs(k - round(k)) < 1e-9;
}

static bool in_set(const hftac_hyper_description *h, double value)
{
    for (int64_t i = 0; i < h->n_set; i++)
        if (h->set[i] == value)
            return true;
    return false;
}

int hftac_hyper_in_domain(const hftac_array *a, hftac_hyper hyper, double value)
{
    HFT_OWN_FLOAT_MODE;
    const hftac_hyper_description *h = hftac_describe_hyper(a, hyper);
    if (!h)
        return 0;
    const bool between = value >= h->lo && value <= h->hi;
    switch (h->domain) {
    case HFTAC_DOMAIN_NONE:
        return 1;
    case HFTAC_DOMAIN_RANGE:
    case HFTAC_DOMAIN_LOG:
        return between;
    case HFTAC_DOMAIN_INT:
        return between && on_grid(h, value);
    case HFTAC_DOMAIN_SET:
        return in_set(h, value);
    }
    return 0;
}

/* ---- Seeds ---- */

hftac_status hftac_set_seed(hftac_array *a, int32_t model, uint64_t seed)
{
    const hftac_status s = hft_check_slot(a, model);
    if (s)
        return s;
    a->control.seeds[model] = seed;
    hft_control_changed(a);
    return HFTAC_OK;
}

hftac_status hftac_get_seed(const hftac_array *a, int32_t model, uint64_t *seed)
{
    if (!seed)
        return hft_fail(HFTAC_USAGE, "seed is NULL");
    *seed = 0;
    const hftac_status s = hft_check_slot(a, model);
    if (!s)
        *seed = a->control.seeds[model];
    return s;
}

hftac_status hftac_reset_model(hftac_array *a, int32_t model)
{
    const hftac_status s = hft_check_slot(a, model);
    if (s)
        return s;
    if (a->models[model].initialized) {
        a->models[model].initialized = false;
        a->n_uninitialized++;
    }
    for (int32_t i = 0; i < a->about.n_metrics; i++) {
        a->metric_values[(size_t)i * (size_t)a->n + (size_t)model] = NAN;
        a->epoch_sum[(size_t)i * (size_t)a->n + (size_t)model] = 0;
    }
    a->epoch_count[model] = 0;
    hft_set_state(a, model, HFTAC_MODEL_RUNNING);
    return HFTAC_OK;
}

/* ---- Parameters ---- */

/* Walks the elements of a state in row-major order of its logical shape, one row of the last
 * axis at a time, and copies between there and the stored order. */
typedef struct Walk {
    unsigned char *stored, *plain;
    size_t element;
    bool to_plain;
} Walk;

static void copy_row(const Walk *w, uint64_t stored, uint64_t plain, int64_t n, uint64_t stride)
{
    unsigned char *s = w->stored + stored * w->element, *p = w->plain + plain * w->element;
    if (stride == 1) {
        memcpy(w->to_plain ? p : s, w->to_plain ? s : p, (size_t)n * w->element);
        return;
    }
    for (int64_t i = 0; i < n; i++, s += stride * w->element, p += w->element)
        memcpy(w->to_plain ? p : s, w->to_plain ? s : p, w->element);
}

static void walk_state(const HftacState *state, const Walk *w)
{
    const uint32_t rank = state->shape.rank;
    uint64_t stride[HFTAC_MAX_RANK] = {0}, next = 1;
    for (uint32_t k = rank; k-- > 0;) {
        stride[state->layout[k]] = next;
        next *= (uint64_t)state->shape.dim[state->layout[k]];
    }
    if (rank == 0) {
        copy_row(w, 0, 0, 1, 1);
        return;
    }
    if (next == 0)
        return;
    const int64_t n = state->shape.dim[rank - 1];
    int64_t at[HFTAC_MAX_RANK] = {0};
    for (uint64_t plain = 0, stored = 0; plain < next; plain += (uint64_t)n) {
        copy_row(w, stored, plain, n, stride[rank - 1]);
        for (uint32_t k = rank - 1; k-- > 0;) {
            stored += stride[k];
            if (++at[k] < state->shape.dim[k])
                break;
            stored -= stride[k] * (uint64_t)at[k];
            at[k] = 0;
        }
    }
}

bool hft_is_plain(const HftacState *s)
{
    for (uint32_t k = 0; k < s->shape.rank; k++)
        if (s->layout[k] != k)
            return false;
    return true;
}

hftac_status hft_param_read(const hftac_array *a, int32_t param, int32_t model, void *values)
{
    const HftacState *state = hft_model_state(a->m, (uint32_t)param);
    const bool plain = hft_is_plain(state);
    const hftac_status s = a->device->kind->download(a->device, (uint32_t)param, model,
                                                     plain ? values : a->staging);
    if (!s && !plain)
        walk_state(state, &(Walk){.stored = a->staging,
                                  .plain = values,
                                  .element = hftac_type_bytes((hftac_type)state->shape.dtype),
                                  .to_plain = true});
    return s;
}

hftac_status hft_param_write(hftac_array *a, int32_t param, int32_t model, const void *values)
{
    const HftacState *state = hft_model_state(a->m, (uint32_t)param);
    const bool plain = hft_is_plain(state);
    Walk w = {.stored = a->staging,
              .element = hftac_type_bytes((hftac_type)state->shape.dtype)};
    memcpy(&w.plain, &values, sizeof values); /* only read: to_plain is false */
    if (!plain)
        walk_state(state, &w);
    return a->device->kind->upload(a->device, (uint32_t)param, model,
                                   plain ? values : a->staging);
}

static hftac_status check_param(const hftac_array *a, hftac_param param, int32_t model,
                                const void *values, size_t bytes)
{
    const hftac_status s =
        check_access(a, model, param, a ? a->about.n_params : 0, "parameter", values);
    if (s)
        return s;
    const hftac_param_description *d = &a->params[param];
    char shape[SHAPE_TEXT_BYTES];
    if (bytes != d->bytes)
        return hft_fail(HFTAC_USAGE, "parameter %s, %s%s, has %" PRIu64 " bytes, not %zu",
                        d->name, hftac_type_text(d->type),
                        hft_shape_text(shape, d->rank, d->dims), d->bytes, bytes);
    return HFTAC_OK;
}

hftac_status hftac_get_param(hftac_array *a, hftac_param param, int32_t model, void *values,
                             size_t bytes)
{
    HFT_OWN_FLOAT_MODE;
    hftac_status s = check_param(a, param, model, values, bytes);
    if (!s)
        s = hft_initialize_model(a, model);
    return s ? s : hft_param_read(a, param, model, values);
}

hftac_status hftac_set_param(hftac_array *a, hftac_param param, int32_t model,
                             const void *values, size_t bytes)
{
    HFT_OWN_FLOAT_MODE;
    hftac_status s = check_param(a, param, model, values, bytes);
    if (!s)
        s = hft_initialize_model(a, model);
    return s ? s : hft_param_write(a, param, model, values);
}

/* ---- States and metrics of models ---- */

hftac_status hftac_read_model(const hftac_array *a, int32_t model, hftac_model_status *status)
{
    if (!status)
        return hft_fail(HFTAC_USAGE, "status is NULL");
    *status = (hftac_model_status){.text = ""};
    const hftac_status s = hft_check_slot(a, model);
    if (s)
        return s;
    const ModelStatus *m = &a->models[model];
    *status = (hftac_model_status){.state = m->state,
                                   .text = m->text,
                                   .step = m->step,
                                   .input = m->input,
                                   .sample = m->sample,
                                   .value = m->value};
    return HFTAC_OK;
}

hftac_status hftac_stop_model(hftac_array *a, int32_t model)
{
    const hftac_status s = hft_check_slot(a, model);
    if (!s && a->models[model].state == HFTAC_MODEL_RUNNING)
        hft_set_state(a, model, HFTAC_MODEL_STOPPED);
    return s;
}

hftac_status hftac_resume_model(hftac_array *a, int32_t model)
{
    const hftac_status s = hft_check_slot(a, model);
    if (!s)
        hft_set_state(a, model, HFTAC_MODEL_RUNNING);
    return s;
}

hftac_status hftac_read_metric(const hftac_array *a, hftac_metric metric, int32_t model,
                               double *value)
{
    if (value)
        *value = NAN;
    const hftac_status s =
        check_access(a, model, metric, a ? a->about.n_metrics : 0, "metric", value);
    if (!s)
        *value = a->metric_values[(size_t)metric * (size_t)a->n + (size_t)model];
    return s;
}

hftac_status hftac_read_epoch_metric(const hftac_array *a, hftac_metric metric, int32_t model,
                                     double *value)
{
    HFT_OWN_FLOAT_MODE;
    if (value)
        *value = NAN;
    const hftac_status s =
        check_access(a, model, metric, a ? a->about.n_metrics : 0, "metric", value);
    if (!s && a->metrics[metric].from_train && a->epoch_count[model])
        *value = a->epoch_sum[(size_t)metric * (size_t)a->n + (size_t)model] /
                 (double)a->epoch_count[model];
    return s;
}

/* ---- Epochs ---- */

/* Programs see epochs and steps as doubles, which hold whole numbers up to here. */
static const int64_t MOST_EPOCHS = INT64_C(1) << 53;

static double *clock_of(const hftac_array *a, int32_t model)
{
    return a->control.clocks + (size_t)model * HFTAC_N_CLOCK;
}

static hftac_status check_plan(int64_t epochs, int64_t steps_per_epoch)
{
    if (epochs >= 0 && steps_per_epoch >= 0 && epochs <= MOST_EPOCHS &&
        steps_per_epoch <= MOST_EPOCHS)
        return HFTAC_OK;
    return hft_fail(HFTAC_USAGE,
                    "a plan of %" PRId64 " epochs of %" PRId64 " steps makes no sense", epochs,
                    steps_per_epoch);
}

static hftac_status check_epoch(int64_t epoch)
{
    if (epoch < 0)
        return hft_fail(HFTAC_USAGE, "epoch %" PRId64 " is negative", epoch);
    if (epoch > MOST_EPOCHS)
        return hft_fail(HFTAC_USAGE, "epoch %" PRId64 " is above 2^53", epoch);
    return HFTAC_OK;
}

static void plan_model(hftac_array *a, int32_t model, int64_t epochs, int64_t steps_per_epoch)
{
    clock_of(a, model)[HFTAC_CLOCK_EPOCHS] = (double)epochs;
    clock_of(a, model)[HFTAC_CLOCK_STEPS_PER_EPOCH] = (double)steps_per_epoch;
    hft_control_changed(a);
}

/* What the model has summed up in the epoch before is forgotten. */
static void begin_epoch(hftac_array *a, int32_t model, int64_t epoch)
{
    clock_of(a, model)[HFTAC_CLOCK_EPOCH] = (double)epoch;
    hft_control_changed(a);
    a->epoch_count[model] = 0;
    for (int32_t i = 0; i < a->about.n_metrics; i++)
        a->epoch_sum[(size_t)i * (size_t)a->n + (size_t)model] = 0;
}

hftac_status hftac_set_plan(hftac_array *a, int64_t epochs, int64_t steps_per_epoch)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    const hftac_status s = check_plan(epochs, steps_per_epoch);
    for (int32_t b = 0; !s && b < a->n; b++)
        plan_model(a, b, epochs, steps_per_epoch);
    return s;
}

hftac_status hftac_set_model_plan(hftac_array *a, int32_t model, int64_t epochs,
                                  int64_t steps_per_epoch)
{
    HFT_OWN_FLOAT_MODE;
    hftac_status s = hft_check_slot(a, model);
    if (!s)
        s = check_plan(epochs, steps_per_epoch);
    if (!s)
        plan_model(a, model, epochs, steps_per_epoch);
    return s;
}

void hft_default_plan(hftac_array *a, int64_t steps_per_epoch)
{
    for (int32_t b = 0; b < a->n; b++)
        if (clock_of(a, b)[HFTAC_CLOCK_STEPS_PER_EPOCH] == 0)
            clock_of(a, b)[HFTAC_CLOCK_STEPS_PER_EPOCH] = (double)steps_per_epoch;
    hft_control_changed(a);
}

int64_t hftac_epoch(const hftac_array *a)
{
    return a ? a->epoch : 0;
}

hftac_status hftac_read_model_epoch(const hftac_array *a, int32_t model, int64_t *epoch)
{
    if (!epoch)
        return hft_fail(HFTAC_USAGE, "epoch is NULL");
    *epoch = 0;
    const hftac_status s = hft_check_slot(a, model);
    if (!s)
        *epoch = (int64_t)clock_of(a, model)[HFTAC_CLOCK_EPOCH];
    return s;
}

hftac_status hftac_set_epoch(hftac_array *a, int64_t epoch)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    const hftac_status s = check_epoch(epoch);
    if (s)
        return s;
    a->epoch = epoch;
    for (int32_t b = 0; b < a->n; b++)
        begin_epoch(a, b, epoch);
    return HFTAC_OK;
}

hftac_status hftac_set_model_epoch(hftac_array *a, int32_t model, int64_t epoch)
{
    HFT_OWN_FLOAT_MODE;
    hftac_status s = hft_check_slot(a, model);
    if (!s)
        s = check_epoch(epoch);
    if (!s)
        begin_epoch(a, model, epoch);
    return s;
}

/* A model that is evaluated after its last step is judged by that, else by the epoch's mean. */
static hftac_status take_metric(hftac_array *a, int32_t metric)
{
    const int32_t state = a->epoch_metric_param;
    hftac_status s = HFTAC_OK;
    for (int32_t b = 0; state >= 0 && !s && b < a->n; b++) {
        double v = NAN;
        if (!a->trained_last || hftac_read_epoch_metric(a, metric, b, &v) || isnan(v))
            v = a->metric_values[(size_t)metric * (size_t)a->n + (size_t)b];
        s = hft_initialize_model(a, b);
        if (!s)
            s = hft_param_write(a, state, b, &v);
    }
    return s;
}

hftac_status hftac_epoch_end(hftac_array *a, int32_t metric)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    hftac_status s = HFTAC_OK;
    if (metric != HFTAC_NO_METRIC)
        s = hft_check_handle(a, metric, a->about.n_metrics, "metric");
    if (!s && metric != HFTAC_NO_METRIC)
        s = take_metric(a, metric);
    if (!s)
        s = check_epoch(a->epoch + 1);
    for (int32_t b = 0; !s && b < a->n; b++)
        s = check_epoch((int64_t)clock_of(a, b)[HFTAC_CLOCK_EPOCH] + 1);
    if (s)
        return s;
    a->epoch++;
    for (int32_t b = 0; b < a->n; b++)
        begin_epoch(a, b, (int64_t)clock_of(a, b)[HFTAC_CLOCK_EPOCH] + 1);
    return HFTAC_OK;
}
