/* Opening data sets: files or memory as tensors with names, which data_bind.c binds to the model's
 * inputs.
 *
 * A file's tensors are read into memory once, those that the model has, in the model's types;
 * the file is closed and may then change or go. */
#include "runtime/data/data.h"
#include "runtime/door.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static hftac_status data_new(const hftac_array *a, hftac_data **out)
{
    hftac_data *d = calloc(1, sizeof *d);
    if (!d)
        return hft_fail_memory("a data set", sizeof *d);
    d->m = a->m;
    d->n_models = a->n;
    d->n_inputs = a->about.n_inputs;
    d->inputs = calloc((size_t)d->n_inputs + 1, sizeof *d->inputs);
    *out = d;
    return d->inputs ? HFTAC_OK
                     : hft_fail_memory("a data set", (uint64_t)d->n_inputs * sizeof *d->inputs);
}

static hftac_status open_safetensors(const hftac_array *a, hftac_data *d, const char *path,
                                     const hftac_data_options *o)
{
    StFile file;
    hftac_status s = hft_st_open(path, &file);
    if (s)
        return s;
    const int32_t n = file.n_tensors;
    Source *sources = calloc((size_t)n + 1, sizeof *sources);
    for (int32_t i = 0; i < n && sources; i++) {
        const StTensor *t = &file.tensors[i];
        sources[i] = (Source){.name = t->name,
                              .type_name = t->type_name,
                              .type = t->type,
                              .rank = t->rank,
                              .file = &file.file,
                              .begin = file.data_begin + t->begin};
        memcpy(sources[i].dims, t->dims, sizeof t->dims);
    }
    s = sources ? hft_data_bind(a, d, path, o, sources, n)
                : hft_fail_memory("a data set", (uint64_t)n * sizeof *sources);
    if (!s)
        s = hft_read_unchanged(&file.file);
    free(sources);
    hft_st_close(&file);
    return s;
}

/* Files that are not there are missing tensors, as in a single file. */
static hftac_status open_npy_files(const hftac_array *a, NpyFile *npy, const char *folder,
                                   Source *sources, int32_t *n)
{
    for (int32_t i = 0; i < a->about.n_inputs; i++) {
        char *path = npy[i].path;
        const int length =
            snprintf(path, sizeof npy[i].path, "%s/%s.npy", folder, a->inputs[i].name);
        struct stat st;
        if (length < 0 || length >= (int)sizeof npy[i].path ||
            (stat(path, &st) != 0 && errno == ENOENT))
            continue;
        const hftac_status s = hft_npy_open(path, a->inputs[i].name, &npy[i]);
        if (s)
            return s;
        sources[(*n)++] = npy[i].source;
        sources[*n - 1].type_name = npy[i].type_name;
    }
    return HFTAC_OK;
}

static hftac_status open_npy(const hftac_array *a, hftac_data *d, const char *folder,
                             const hftac_data_options *o)
{
    Source *sources = calloc((size_t)d->n_inputs + 1, sizeof *sources);
    NpyFile *npy = calloc((size_t)d->n_inputs + 1, sizeof *npy);
    int32_t n = 0;
    hftac_status s =
        sources && npy ? HFTAC_OK
                       : hft_fail_memory("a data set", (uint64_t)d->n_inputs * sizeof *sources);
    if (!s)
        s = open_npy_files(a, npy, folder, sources, &n);
    if (!s)
        s = hft_data_bind(a, d, folder, o, sources, n);
    for (int32_t i = 0; i < n && !s; i++)
        s = hft_read_unchanged(sources[i].file);
    for (int32_t i = 0; i < d->n_inputs && npy; i++)
        hft_read_close(&npy[i].file);
    free(npy);
    free(sources);
    return s;
}

static hftac_status hand_over(hftac_status s, hftac_data *d, hftac_data **data)
{
    if (s)
        hftac_data_close(d);
    else
        *data = d;
    return s;
}

hftac_status hftac_data_open(const hftac_array *a, const char *path,
                             const hftac_data_options *options, hftac_data **data)
{
    HFT_STANDARD_FLOAT_MODE;
    if (!data)
        return hft_fail(HFTAC_USAGE, "data is NULL");
    *data = NULL;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    hftac_data *d = NULL;
    hftac_status s = data_new(a, &d);
    struct stat st;
    if (!s)
        s = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? open_npy(a, d, path, options)
                                                        : open_safetensors(a, d, path, options);
    return hand_over(s, d, data);
}

static hftac_status check_tensors(const hftac_tensor *tensors, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const hftac_tensor *t = &tensors[i];
        bool ok = t->name && t->values && t->rank >= 0 && t->rank <= HFTAC_MAX_DIMS &&
                  hftac_type_bytes(t->type);
        uint64_t bytes = ok ? hftac_type_bytes(t->type) : 0;
        for (int32_t k = 0; ok && k < t->rank; k++)
            ok = t->dims[k] >= 0 &&
                 !__builtin_mul_overflow(bytes, (uint64_t)t->dims[k], &bytes) &&
                 bytes <= INT64_MAX;
        if (!ok)
            return hft_fail(HFTAC_USAGE,
                            "tensor number %d has no name or values, or a wrong type, rank or "
                            "dims, or more elements than memory can hold",
                            i);
    }
    return HFTAC_OK;
}

hftac_status hftac_data_from_memory(const hftac_array *a, const hftac_tensor *tensors,
                                    int32_t n_tensors, const hftac_data_options *options,
                                    hftac_data **data)
{
    HFT_STANDARD_FLOAT_MODE;
    if (!data)
        return hft_fail(HFTAC_USAGE, "data is NULL");
    *data = NULL;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (n_tensors < 0 || (n_tensors && !tensors))
        return hft_fail(HFTAC_USAGE, "tensors is NULL, or their number negative");
    hftac_status s = check_tensors(tensors, n_tensors);
    if (s)
        return s;
    Source *sources = calloc((size_t)n_tensors + 1, sizeof *sources);
    if (!sources)
        return hft_fail_memory("a data set", (uint64_t)n_tensors * sizeof *sources);
    for (int32_t i = 0; i < n_tensors; i++) {
        const hftac_tensor *t = &tensors[i];
        sources[i] = (Source){.name = t->name,
                              .type_name = hftac_type_text(t->type),
                              .type = (int32_t)t->type,
                              .rank = t->rank,
                              .values = t->values};
        memcpy(sources[i].dims, t->dims, sizeof t->dims);
    }
    hftac_data *d = NULL;
    s = data_new(a, &d);
    if (!s)
        s = hft_data_bind(a, d, "the data", options, sources, n_tensors);
    free(sources);
    return hand_over(s, d, data);
}

hftac_status hftac_data_slice(const hftac_data *whole, int64_t first, int64_t count,
                              hftac_data **part)
{
    if (!part)
        return hft_fail(HFTAC_USAGE, "part is NULL");
    *part = NULL;
    if (!whole)
        return hft_fail(HFTAC_USAGE, "data is NULL");
    if (first < 0 || count < 1 || count > whole->samples || first > whole->samples - count)
        return hft_fail(HFTAC_USAGE,
                        "%" PRId64 " samples from number %" PRId64
                        " on are not in a data set of %" PRId64,
                        count, first, whole->samples);
    hftac_data *d = calloc(1, sizeof *d);
    DataInput *inputs = calloc((size_t)whole->n_inputs + 1, sizeof *inputs);
    if (!d || !inputs) {
        free(d);
        free(inputs);
        return hft_fail_memory("a data set", sizeof *d);
    }
    *d = (hftac_data){.m = whole->m,
                      .n_models = whole->n_models,
                      .n_inputs = whole->n_inputs,
                      .first = whole->first + first,
                      .samples = count,
                      .inputs = inputs};
    for (int32_t i = 0; i < d->n_inputs; i++) {
        inputs[i] = whole->inputs[i];
        inputs[i].owned = NULL;
    }
    *part = d;
    return HFTAC_OK;
}

void hftac_data_close(hftac_data *d)
{
    if (!d)
        return;
    for (int32_t i = 0; i < d->n_inputs && d->inputs; i++)
        free(d->inputs[i].owned);
    free(d->inputs);
    free(d);
}

int64_t hftac_data_samples(const hftac_data *d)
{
    return d ? d->samples : 0;
}
