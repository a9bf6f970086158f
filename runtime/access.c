/* For the array's user: names to handles and descriptions, and what the host keeps of one model -
 * hypers, seed, state, metrics.  The checks at the door of every public call stand here too. */
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

hftac_status hft_check_access(const hftac_array *a, int32_t model, int32_t handle,
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
    HFT_STANDARD_FLOAT_MODE;
    const hftac_status s =
        hft_check_access(a, model, hyper, a ? a->about.n_hypers : 0, "hyper", &value);
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
        hft_check_access(a, model, hyper, a ? a->about.n_hypers : 0, "hyper", value);
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
    HFT_STANDARD_FLOAT_MODE;
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
        hft_check_access(a, model, metric, a ? a->about.n_metrics : 0, "metric", value);
    if (!s)
        *value = a->metric_values[(size_t)metric * (size_t)a->n + (size_t)model];
    return s;
}

hftac_status hftac_read_epoch_metric(const hftac_array *a, hftac_metric metric, int32_t model,
                                     double *value)
{
    HFT_STANDARD_FLOAT_MODE;
    if (value)
        *value = NAN;
    const hftac_status s =
        hft_check_access(a, model, metric, a ? a->about.n_metrics : 0, "metric", value);
    if (!s && a->metrics[metric].from_train && a->epoch_count[model])
        *value = a->epoch_sum[(size_t)metric * (size_t)a->n + (size_t)model] /
                 (double)a->epoch_count[model];
    return s;
}
