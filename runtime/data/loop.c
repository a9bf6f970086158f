/* Loops over data sets: training epochs, evaluation, prediction.
 *
 * The order of samples in an epoch is a Fisher-Yates permutation drawn from splitmix64 with a
 * start value made of seed and epoch alone, so that it does not depend on the number of
 * models, and any epoch's order can be had without the ones before. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/loop.h"

/* ---- Order ---- */

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

__extension__ typedef unsigned __int128 Product;

/* 0 <= result < n; the bias of n / 2^64 is of no account. */
static uint64_t below(uint64_t *state, uint64_t n)
{
    return (uint64_t)(((Product)splitmix(state) * n) >> 64);
}

static void fill_order(int64_t *order, int64_t first, int64_t n, bool shuffled, uint64_t seed,
                       int64_t epoch)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = first + i;
    if (!shuffled)
        return;
    uint64_t state = seed;
    state = splitmix(&state) ^ (uint64_t)epoch;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = (int64_t)below(&state, (uint64_t)i + 1), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
}

/* ---- Batches ---- */

static hftac_status feed_input(const Loop *l, int32_t i, int64_t n)
{
    const DataInput *d = &l->data->inputs[i];
    const int32_t slots = l->a->inputs[i].is_each ? l->a->n : 1;
    hftac_status s = HFTAC_OK;
    for (int32_t b = 0; !s && b < slots; b++) {
        const size_t copy = d->copies == 1 ? 0 : (size_t)b;
        s = hft_fill_input(l->a, i, b,
                           &(Rows){.values = d->values + copy * d->copy_bytes,
                                   .rows = l->order + (size_t)b * l->stride + l->at,
                                   .samples = n,
                                   .sample_major = true,
                                   .tensor = {.number = d->number,
                                              .values = d->values,
                                              .bytes = (uint64_t)d->copies * d->copy_bytes}});
    }
    hft_note_fed(l->a, i, n);
    return s;
}

/* A loop may be within another one's callback, so that the device has the other one's order. */
static hftac_status set_order(const Loop *l)
{
    Device *d = l->a->device;
    if (l->a->order == l->order)
        return HFTAC_OK;
    l->a->order = l->order;
    return d->kind->set_order(d, l->order, l->n_order);
}

hftac_status hft_loop_feed(Loop *l, int64_t n)
{
    hftac_status s = set_order(l);
    for (int32_t i = 0; !s && i < l->data->n_inputs; i++)
        if (l->data->inputs[i].values && hft_entry_reads(l->a, l->entry, i))
            s = feed_input(l, i, n);
        else if (l->a->inputs[i].is_drawn)
            s = hft_leave_drawn(l->a, i);
    l->a->sample_numbers = l->order + l->at;
    l->a->sample_numbers_stride = l->stride;
    return s;
}

static void order_epoch(Loop *l, const hftac_train_options *o)
{
    const int64_t n = l->data->samples, epoch = hftac_epoch(l->a);
    const bool shuffled = o && o->shuffle != HFTAC_SHUFFLE_NONE;
    for (int32_t b = 0; b < (l->stride ? l->a->n : 1); b++)
        fill_order(l->order + (size_t)b * l->stride, l->data->first, n, shuffled,
                   (o ? o->seed : 0) + (uint64_t)b, epoch);
}

hftac_status hft_loop_open(Loop *l, hftac_array *a, const hftac_data *data, int entry,
                           const hftac_train_options *o)
{
    const bool each = o && o->shuffle == HFTAC_SHUFFLE_EACH;
    *l = (Loop){
        .a = a, .data = data, .entry = entry, .stride = each ? (size_t)data->samples : 0};
    for (int32_t i = 0; i < data->n_inputs; i++)
        if (hft_entry_reads(a, entry, i) && !data->inputs[i].values && !a->inputs[i].is_drawn)
            return hft_fail(HFTAC_DATA, "the data set has no tensor \"%s\"", a->inputs[i].name);
    uint64_t n;
    const bool fits =
        !__builtin_mul_overflow((uint64_t)data->samples, each ? (uint64_t)a->n : 1, &n) &&
        !__builtin_mul_overflow(n, sizeof *l->order, &n) && n <= PTRDIFF_MAX;
    l->order = fits ? malloc(n) : NULL;
    if (!l->order)
        return hft_fail_memory("the order of samples", n);
    order_epoch(l, o);
    l->n_order = (size_t)n / sizeof *l->order;
    return HFTAC_OK;
}

void hft_loop_close(Loop *l)
{
    l->a->sample_numbers = l->a->order = NULL;
    free(l->order);
}

hftac_status hft_loop_check(const hftac_array *a, const hftac_data *data, int entry,
                            const char *what)
{
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!data)
        return hft_fail(HFTAC_USAGE, "data is NULL");
    if (data->m != a->m || data->n_models != a->n)
        return hft_fail(HFTAC_USAGE, "the data set was opened for another array");
    if (!a->entries[entry].entry)
        return hft_fail(HFTAC_USAGE, "%s was compiled without %s", a->path, what);
    return entry == HFTAC_ENTRY_TRAIN ? HFTAC_OK : hft_check_partial(a, entry, data->samples);
}

hftac_status hftac_data_check(const hftac_array *a, const hftac_data *data,
                              hftac_purpose purpose)
{
    switch (purpose) {
    case HFTAC_FOR_TRAINING:
        return hft_loop_check(a, data, HFTAC_ENTRY_TRAIN, "training");
    case HFTAC_FOR_EVALUATION:
        return hft_loop_check(a, data, HFTAC_ENTRY_EVAL, "evaluation");
    case HFTAC_FOR_PREDICTION:
        return hft_loop_check(a, data, HFTAC_ENTRY_PREDICT, "prediction");
    }
    return hft_fail(HFTAC_USAGE, "%d is no purpose", (int)purpose);
}

static hftac_status report_progress(const Loop *l, hftac_callback *callback, void *context,
                                    int64_t batch, int64_t batches)
{
    if (!callback)
        return HFTAC_OK;
    const hftac_progress p = {
        .epoch = hftac_epoch(l->a), .batch = batch, .batches = batches, .samples = l->at};
    return callback(context, &p)
               ? hft_fail(HFTAC_INTERRUPTED, "interrupted after batch %" PRId64 " of %" PRId64,
                          batch, batches)
               : HFTAC_OK;
}

/* ---- Training ---- */

static hftac_status check_each(const hftac_array *a)
{
    for (int32_t i = 0; i < a->about.n_inputs; i++)
        if (hft_entry_reads(a, HFTAC_ENTRY_TRAIN, i) && a->inputs[i].batch_axis >= 0 &&
            !a->inputs[i].is_each)
            return hft_fail(HFTAC_USAGE,
                            "an order for each model needs inputs for each model, but %s is "
                            "shared by all (declare it `each`)",
                            a->inputs[i].name);
    return HFTAC_OK;
}

static hftac_status train_batches(Loop *l, const hftac_train_options *o, hftac_pass *pass)
{
    hftac_array *a = l->a;
    const int64_t batches = l->data->samples / a->m->info->batch;
    hftac_status s = HFTAC_OK;
    for (int64_t i = 0; i < batches && !s && a->n_running; i++) {
        s = hft_loop_feed(l, a->m->info->batch);
        if (!s)
            s = hftac_train_step(a);
        if (s)
            break;
        l->at += a->m->info->batch;
        pass->steps++;
        pass->samples = l->at;
        s = report_progress(l, o->callback, o->context, i + 1, batches);
    }
    pass->dropped = l->data->samples % a->m->info->batch;
    return s;
}

hftac_status hftac_train_epoch(hftac_array *a, hftac_data *data,
                               const hftac_train_options *options, hftac_pass *pass)
{
    const hftac_train_options defaults = {0}, *o = options ? options : &defaults;
    hftac_pass ignored;
    pass = pass ? pass : &ignored;
    *pass = (hftac_pass){0};
    hftac_status s = hft_loop_check(a, data, HFTAC_ENTRY_TRAIN, "training");
    if (!s && o->shuffle == HFTAC_SHUFFLE_EACH)
        s = check_each(a);
    if (s)
        return s;
    if (data->samples < a->m->info->batch)
        return hft_fail(HFTAC_DATA,
                        "the data set has %" PRId64 " samples, a batch needs %" PRId64,
                        data->samples, a->m->info->batch);
    hft_default_plan(a, data->samples / a->m->info->batch);
    Loop l;
    s = hft_loop_open(&l, a, data, HFTAC_ENTRY_TRAIN, o);
    if (!s)
        s = train_batches(&l, o, pass);
    hft_loop_close(&l);
    return s;
}

/* ---- Evaluation ---- */

static int64_t batches_of(const hftac_data *data)
{
    const int64_t n = data->m->info->batch;
    return data->samples / n + (data->samples % n != 0);
}

int64_t hft_loop_next(const Loop *l)
{
    const int64_t left = l->data->samples - l->at;
    return left < l->a->m->info->batch ? left : l->a->m->info->batch;
}

static hftac_status evaluate_batches(Loop *l, const hftac_evaluate_options *o, hftac_pass *pass)
{
    const int64_t batches = batches_of(l->data);
    hftac_status s = hftac_evaluate_begin(l->a, o->running_only);
    for (int64_t i = 0; i < batches && !s; i++) {
        const int64_t n = hft_loop_next(l);
        s = hft_loop_feed(l, n);
        if (!s)
            s = hftac_evaluate_step(l->a, n);
        if (s)
            break;
        l->at += n;
        pass->steps++;
        pass->samples = l->at;
        s = report_progress(l, o->callback, o->context, i + 1, batches);
    }
    return s ? s : hftac_evaluate_end(l->a);
}

hftac_status hftac_evaluate(hftac_array *a, hftac_data *data,
                            const hftac_evaluate_options *options, hftac_pass *pass)
{
    const hftac_evaluate_options defaults = {0};
    hftac_pass ignored;
    pass = pass ? pass : &ignored;
    *pass = (hftac_pass){0};
    hftac_status s = hft_loop_check(a, data, HFTAC_ENTRY_EVAL, "evaluation");
    if (s)
        return s;
    Loop l;
    s = hft_loop_open(&l, a, data, HFTAC_ENTRY_EVAL, NULL);
    if (!s)
        s = evaluate_batches(&l, options ? options : &defaults, pass);
    a->evaluating = false;
    hft_loop_close(&l);
    return s;
}
