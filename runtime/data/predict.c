/* Prediction over a data set, to the caller or into a file. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/loop.h"
#include "runtime/door.h"

/* HFTAC_INTERRUPTED, without a text, if the sink says so. */
static hftac_status predict_batches(hftac_array *a, const hftac_data *data, hftac_sink *sink,
                                    void *context)
{
    Loop l;
    hftac_status s = hft_loop_open(&l, a, data, HFTAC_ENTRY_PREDICT, NULL);
    while (!s && l.at < data->samples) {
        const int64_t n = hft_loop_next(&l);
        s = hft_loop_feed(&l, n);
        if (!s)
            s = hftac_predict_step(a, n);
        if (!s && sink(context, l.at, n))
            s = HFTAC_INTERRUPTED;
        l.at += n;
    }
    hft_loop_close(&l);
    return s;
}

hftac_status hftac_predict(hftac_array *a, hftac_data *data, hftac_sink *sink, void *context)
{
    hftac_status s = hft_loop_check(a, data, HFTAC_ENTRY_PREDICT, "prediction");
    if (s)
        return s;
    if (!sink)
        return hft_fail(HFTAC_USAGE, "sink is NULL");
    s = predict_batches(a, data, sink, context);
    return s == HFTAC_INTERRUPTED ? hft_fail(s, "interrupted in prediction") : s;
}

/* Batches of predictions on their way into a file: tensor i is output i, [models, ...] with
 * the data set's samples. */
typedef struct FileSink {
    hftac_array *a;
    StWriter *writer;
    StTensor *tensors;
    unsigned char **once; /* of each output without samples, what the first batch gave */
    int64_t samples;
    hftac_status status;
} FileSink;

/* Without an axis of samples there is one value for the data set, which the batches must agree
 * on: a sum over a batch would stand in the file as if it were the whole set's. */
static hftac_status write_once(const FileSink *f, int32_t output, int32_t model, int64_t first,
                               const void *values)
{
    const StTensor *t = &f->tensors[output];
    const uint64_t block = t->bytes / (uint64_t)f->a->n, at = (uint64_t)model * block;
    unsigned char *seen = f->once[output] + at;
    if (!first) {
        memcpy(seen, values, block);
        return hft_st_write(f->writer, t, at, values, block);
    }
    if (memcmp(seen, values, block) == 0)
        return HFTAC_OK;
    return hft_fail(HFTAC_DATA,
                    "output %s has no axis of samples, but a value for each batch: the data "
                    "set has %" PRId64 " samples, more than a batch of %" PRId64,
                    t->name, f->samples, f->a->m->info->batch);
}

/* An output is [outer..., N * per_sample, inner...]. */
static hftac_status write_output(const FileSink *f, int32_t output, int32_t model,
                                 int64_t first, int64_t n)
{
    const hftac_output_description *o = &f->a->outputs[output];
    const StTensor *t = &f->tensors[output];
    const void *p = NULL;
    const hftac_status s = hftac_read_output(f->a, output, model, &p);
    if (s)
        return s;
    const unsigned char *values = p;
    const uint64_t block = t->bytes / (uint64_t)f->a->n;
    if (o->batch_axis < 0)
        return write_once(f, output, model, first, values);
    uint64_t outer = 1, row = hftac_type_bytes(o->type) * (uint64_t)o->per_sample;
    for (int32_t k = 0; k < o->batch_axis; k++)
        outer *= (uint64_t)o->dims[k];
    for (int32_t k = o->batch_axis + 1; k < o->rank; k++)
        row *= (uint64_t)o->dims[k];
    for (uint64_t i = 0; i < outer; i++) {
        const uint64_t to =
            (uint64_t)model * block + (i * (uint64_t)f->samples + (uint64_t)first) * row;
        const hftac_status w =
            hft_st_write(f->writer, t, to, values + i * (uint64_t)f->a->m->info->batch * row,
                         (uint64_t)n * row);
        if (w)
            return w;
    }
    return HFTAC_OK;
}

static int write_batch(void *context, int64_t first, int64_t n)
{
    FileSink *f = context;
    for (int32_t i = 0; i < f->a->about.n_outputs && !f->status; i++)
        for (int32_t b = 0; b < f->a->n && !f->status; b++)
            f->status = write_output(f, i, b, first, n);
    return f->status != HFTAC_OK;
}

static hftac_status list_outputs(const FileSink *f)
{
    for (int32_t i = 0; i < f->a->about.n_outputs; i++) {
        const hftac_output_description *o = &f->a->outputs[i];
        StTensor *t = &f->tensors[i];
        if (o->rank == HFTAC_MAX_DIMS)
            return hft_fail(HFTAC_DATA, "output %s has too many dims for a file", o->name);
        t->name = o->name;
        t->type = (int32_t)o->type;
        t->rank = o->rank + 1;
        t->dims[0] = f->a->n;
        for (int32_t k = 0; k < o->rank; k++)
            t->dims[k + 1] = o->dims[k];
        if (o->batch_axis >= 0 &&
            __builtin_mul_overflow(f->samples, o->per_sample, &t->dims[o->batch_axis + 1]))
            return hft_fail(HFTAC_DATA, "output %s has too many elements for a file", o->name);
    }
    return HFTAC_OK;
}

/* After the header: the tensors' sizes are known. */
static hftac_status open_once(FileSink *f)
{
    const int32_t n = f->a->about.n_outputs;
    f->once = calloc((size_t)n + 1, sizeof *f->once);
    if (!f->once)
        return hft_fail_memory("the outputs", 0);
    for (int32_t i = 0; i < n; i++) {
        if (f->a->outputs[i].batch_axis >= 0)
            continue;
        f->once[i] = malloc(f->tensors[i].bytes + 1);
        if (!f->once[i])
            return hft_fail_memory("an output", f->tensors[i].bytes);
    }
    return HFTAC_OK;
}

static void close_once(FileSink *f)
{
    for (int32_t i = 0; f->once && i < f->a->about.n_outputs; i++)
        free(f->once[i]);
    free(f->once);
}

hftac_status hftac_predict_to_file(hftac_array *a, hftac_data *data, const char *path)
{
    HFT_STANDARD_FLOAT_MODE;
    hftac_status s = hft_loop_check(a, data, HFTAC_ENTRY_PREDICT, "prediction");
    if (s)
        return s;
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    FileSink f = {.a = a,
                  .samples = data->samples,
                  .tensors = calloc((size_t)a->about.n_outputs + 1, sizeof *f.tensors)};
    s = f.tensors ? list_outputs(&f) : hft_fail_memory("a file's header", 0);
    const char *const metadata[][2] = {{"format", "pt"}, {"model", a->about.name}};
    AtomicFile *file = NULL;
    if (!s)
        s = hft_file_create(path, &file);
    if (!s)
        s = hft_st_create(file, f.tensors, a->about.n_outputs, metadata, 2, &f.writer);
    if (!s)
        s = open_once(&f);
    if (!s)
        s = predict_batches(a, data, write_batch, &f);
    if (f.status)
        s = f.status;
    if (s)
        hft_st_abort(f.writer);
    else
        s = hft_st_commit(f.writer);
    close_once(&f);
    free(f.tensors);
    return s;
}
