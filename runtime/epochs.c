/* Clocks: plans and the numbers of epochs, those of the array and those of its models. */
#include <inttypes.h>
#include <math.h>

#include "runtime/array.h"
#include "runtime/door.h"

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
    HFT_STANDARD_FLOAT_MODE;
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
    HFT_STANDARD_FLOAT_MODE;
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
    HFT_STANDARD_FLOAT_MODE;
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
    HFT_STANDARD_FLOAT_MODE;
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
    HFT_STANDARD_FLOAT_MODE;
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
