/* Writing safetensors.  Tensors with large elements stand first, so that all of them are
 * aligned. */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/files/json_text.h"
#include "runtime/files/safetensors.h"

enum {
    LENGTH_BYTES = 8
};

struct StWriter {
    AtomicFile *file;
    uint64_t data_begin;
};

static const char *file_type_name(int32_t type)
{
    static const char *const names[] = {
#define HFTAC_ROW(name, number, text, bytes, file_name) [number] = file_name,
        HFTAC_TYPE_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
    };
    return names[type];
}

/* Sets begin, bytes and type_name. */
static hftac_status place(StTensor *tensors, int32_t n)
{
    uint64_t next = 0;
    for (size_t size = 8; size; size /= 2)
        for (int32_t i = 0; i < n; i++) {
            StTensor *t = &tensors[i];
            if (hftac_type_bytes((hftac_type)t->type) != size)
                continue;
            uint64_t bytes = size;
            bool overflow = false;
            for (int32_t k = 0; k < t->rank; k++)
                overflow |= __builtin_mul_overflow(bytes, (uint64_t)t->dims[k], &bytes);
            t->begin = next;
            t->bytes = bytes;
            t->type_name = file_type_name(t->type);
            if (overflow || __builtin_add_overflow(next, bytes, &next) || next > INT64_MAX)
                return hft_fail(HFTAC_DATA, "tensor \"%s\" is too large for a file", t->name);
        }
    return HFTAC_OK;
}

static json_t *tensor_json(const StTensor *t)
{
    json_t *shape = json_array();
    for (int32_t k = 0; shape && k < t->rank; k++)
        if (json_array_append_new(shape, json_integer(t->dims[k])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->type_name, "shape", shape,
                     "data_offsets", (json_int_t)t->begin, (json_int_t)(t->begin + t->bytes));
}

static json_t *header_json(const StTensor *tensors, int32_t n, const char *const (*metadata)[2],
                           int n_metadata)
{
    json_t *header = json_object(), *meta = json_object();
    bool ok = header && meta;
    for (int i = 0; ok && i < n_metadata; i++)
        ok = json_object_set_new(meta, metadata[i][0], json_string(metadata[i][1])) == 0;
    if (ok && n_metadata)
        ok = json_object_set(header, "__metadata__", meta) == 0;
    for (int32_t i = 0; ok && i < n; i++)
        ok = json_object_set_new(header, tensors[i].name, tensor_json(&tensors[i])) == 0;
    json_decref(meta);
    if (ok)
        return header;
    json_decref(header);
    return NULL;
}

/* Length, header, blanks up to a multiple of 8. */
static hftac_status write_header(StWriter *w, json_t *header)
{
    size_t n;
    char *text = hft_json_text(header, JSON_COMPACT, &n);
    const size_t padded = (n + 7) / 8 * 8;
    char *bytes = text ? malloc(LENGTH_BYTES + padded) : NULL;
    hftac_status s = HFTAC_OK;
    if (bytes) {
        const uint64_t length = padded;
        memcpy(bytes, &length, sizeof length);
        memcpy(bytes + LENGTH_BYTES, text, n);
        memset(bytes + LENGTH_BYTES + n, ' ', padded - n);
        s = hft_file_write(w->file, 0, bytes, LENGTH_BYTES + padded);
    } else {
        s = hft_fail_memory("a file's header", padded);
    }
    w->data_begin = LENGTH_BYTES + padded;
    free(bytes);
    free(text);
    return s;
}

hftac_status hft_st_create(AtomicFile *file, StTensor *tensors, int32_t n_tensors,
                           const char *const (*metadata)[2], int n_metadata, StWriter **out)
{
    *out = NULL;
    StWriter *w = calloc(1, sizeof *w);
    if (!w) {
        hft_file_abort(file);
        return hft_fail_memory("a file's header", sizeof *w);
    }
    w->file = file;
    hftac_status s = place(tensors, n_tensors);
    json_t *header = s ? NULL : header_json(tensors, n_tensors, metadata, n_metadata);
    if (!s)
        s = header ? write_header(w, header) : hft_fail_memory("a file's header", sizeof *w);
    json_decref(header);
    if (s) {
        hft_st_abort(w);
        return s;
    }
    *out = w;
    return HFTAC_OK;
}

hftac_status hft_st_write(StWriter *w, const StTensor *t, uint64_t offset, const void *values,
                          uint64_t bytes)
{
    return hft_file_write(w->file, w->data_begin + t->begin + offset, values, bytes);
}

hftac_status hft_st_commit(StWriter *w)
{
    const hftac_status s = hft_file_commit(w->file);
    free(w);
    return s;
}

void hft_st_abort(StWriter *w)
{
    if (!w)
        return;
    hft_file_abort(w->file);
    free(w);
}
