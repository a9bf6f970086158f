/* Reading safetensors: a strict reader round the JSON library.
 *
 * Order of trust: the file's size bounds the header's length; a scan of the header bounds its
 * nesting; then the JSON library reads it (refusing duplicate keys and what is not UTF-8);
 * then each tensor is checked by itself, then all against each other.  What is allocated is
 * never more than a small multiple of the file's size. */
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/safetensors.h"

enum {
    MAX_NESTING = 3,
    LENGTH_BYTES = 8,
    MAX_HEADER = 100000000
};

/* Element types of the format, hftac's own or not.  The format grows: one that is missing
 * here is left alone until somebody wants it. */
static const struct {
    const char *name;
    uint32_t bits;
    int32_t type;
} st_types[] = {
#define HFTAC_ROW(name, number, text, bytes, file_name) {file_name, 8 * bytes, number},
    HFTAC_TYPE_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
        {"I8", 8, -1},
    {"I16", 16, -1},
    {"U16", 16, -1},
    {"U32", 32, -1},
    {"U64", 64, -1},
    {"F16", 16, -1},
    {"BF16", 16, -1},
    {"F8_E4M3", 8, -1},
    {"F8_E5M2", 8, -1},
};

static hftac_status damaged(const char *path, const char *what)
{
    return hft_fail(HFTAC_DATA, "%s: damaged safetensors file: %s", path, what);
}

static hftac_status damaged_tensor(const char *path, const char *name, const char *what)
{
    return hft_fail(HFTAC_DATA, "%s: damaged safetensors file: tensor \"%.200s\": %s", path,
                    name, what);
}

/* ---- The header ---- */

/* Depth of objects and lists outside strings. */
static bool nests_too_deep(const char *text, size_t n)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                in_string = false;
        } else if (text[i] == '"') {
            in_string = true;
        } else if (text[i] == '{' || text[i] == '[') {
            if (++depth > MAX_NESTING)
                return true;
        } else if (text[i] == '}' || text[i] == ']') {
            depth--;
        }
    }
    return false;
}

static hftac_status parse_header(const char *path, StFile *f, const char *text, size_t length)
{
    if (length < 2 || text[0] != '{')
        return damaged(path, "its header is not a JSON object");
    if (nests_too_deep(text, length))
        return damaged(path, "its header nests too deep");
    json_error_t error;
    f->json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!f->json) {
        if (json_error_code(&error) == json_error_out_of_memory)
            return hft_fail_memory("a file's header", length);
        return hft_fail(HFTAC_DATA, "%s: damaged safetensors file: header: %s at byte %d", path,
                        error.text, error.position);
    }
    return json_is_object((json_t *)f->json) ? HFTAC_OK
                                             : damaged(path, "its header is not a JSON object");
}

static hftac_status read_header(const char *path, StFile *f)
{
    uint64_t length;
    if (f->file.bytes < LENGTH_BYTES + 2)
        return damaged(path, "it is too short for a header");
    hftac_status s = hft_read_at(&f->file, 0, &length, sizeof length);
    if (s)
        return s;
    if (length > f->file.bytes - LENGTH_BYTES)
        return damaged(path, "its header is said to be longer than the file");
    if (length > MAX_HEADER)
        return damaged(path, "its header is longer than 100 MB");
    char *text = malloc(length ? length : 1);
    if (!text)
        return hft_fail_memory("a file's header", length);
    s = hft_read_at(&f->file, LENGTH_BYTES, text, length);
    if (!s)
        s = parse_header(path, f, text, length);
    free(text);
    f->data_begin = LENGTH_BYTES + length;
    return s;
}

/* ---- Tensors ---- */

static bool read_count(const json_t *j, int64_t *out)
{
    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return false;
    *out = json_integer_value(j);
    return true;
}

static hftac_status read_shape(const char *path, StTensor *t, const json_t *shape,
                               uint32_t bits)
{
    if (!json_is_array(shape))
        return damaged_tensor(path, t->name, "it has no shape");
    t->rank = (int32_t)json_array_size(shape);
    uint64_t n = bits / 8;
    bool overflow = false;
    for (int32_t i = 0; i < t->rank; i++) {
        int64_t dim;
        if (!read_count(json_array_get(shape, (size_t)i), &dim))
            return damaged_tensor(path, t->name, "a dim is not a whole number from 0 on");
        overflow |= __builtin_mul_overflow(n, (uint64_t)dim, &n) || n > INT64_MAX;
        if (i < HFTAC_MAX_DIMS)
            t->dims[i] = dim;
    }
    if (!bits)
        return HFTAC_OK; /* the offsets alone say how large it is */
    if (overflow)
        return damaged_tensor(path, t->name, "the product of its dims overflows");
    if (n != t->bytes) {
        char text[SHAPE_TEXT_BYTES];
        return hft_fail(HFTAC_DATA,
                        "%s: damaged safetensors file: tensor \"%.200s\": %s%s needs %" PRIu64
                        " bytes, its offsets span %" PRIu64,
                        path, t->name, t->type_name, hft_shape_text(text, t->rank, t->dims), n,
                        t->bytes);
    }
    return HFTAC_OK;
}

static hftac_status read_offsets(const char *path, StTensor *t, const json_t *offsets,
                                 uint64_t data_bytes)
{
    int64_t begin, end;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_count(json_array_get(offsets, 0), &begin) ||
        !read_count(json_array_get(offsets, 1), &end))
        return damaged_tensor(path, t->name,
                              "data_offsets are not two whole numbers from 0 on");
    if (begin > end)
        return damaged_tensor(path, t->name, "its data end before they begin");
    if ((uint64_t)end > data_bytes)
        return damaged_tensor(path, t->name, "its data lie past the end of the file");
    t->begin = (uint64_t)begin;
    t->bytes = (uint64_t)(end - begin);
    return HFTAC_OK;
}

/* A type that is not in the table has 0 bits. */
static hftac_status read_type(const char *path, StTensor *t, const json_t *type, uint32_t *bits)
{
    t->type_name = json_string_value(type);
    t->type = -1;
    if (!t->type_name)
        return damaged_tensor(path, t->name, "it has no dtype");
    for (size_t i = 0; i < sizeof st_types / sizeof st_types[0]; i++)
        if (strcmp(st_types[i].name, t->type_name) == 0) {
            t->type = st_types[i].type;
            *bits = st_types[i].bits;
        }
    return HFTAC_OK;
}

static hftac_status read_tensor(const char *path, StTensor *t, const json_t *row,
                                uint64_t data_bytes)
{
    if (!json_is_object(row))
        return damaged_tensor(path, t->name, "its entry is not an object");
    if (json_object_size(row) != 3)
        return damaged_tensor(
            path, t->name,
            "its entry must have dtype, shape and data_offsets, and nothing else");
    uint32_t bits = 0;
    hftac_status s = read_type(path, t, json_object_get(row, "dtype"), &bits);
    if (!s)
        s = read_offsets(path, t, json_object_get(row, "data_offsets"), data_bytes);
    return s ? s : read_shape(path, t, json_object_get(row, "shape"), bits);
}

static hftac_status check_metadata(const char *path, const json_t *metadata)
{
    if (!json_is_object(metadata))
        return damaged(path, "__metadata__ is not an object");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value) if (
        !json_is_string(value)) return damaged(path,
                                               "__metadata__ has a value that is not a string");
    return HFTAC_OK;
}

static int by_begin(const void *a, const void *b)
{
    const StTensor *const *x = a, *const *y = b;
    if ((*x)->begin != (*y)->begin)
        return (*x)->begin < (*y)->begin ? -1 : 1;
    return ((*x)->bytes > (*y)->bytes) - ((*x)->bytes < (*y)->bytes);
}

/* Sorted by place, every tensor begins where the one before ends, and the last one ends with
 * the file. */
static hftac_status check_places(const char *path, const StFile *f, uint64_t data_bytes)
{
    const size_t n = (size_t)f->n_tensors;
    const StTensor **sorted = malloc((n ? n : 1) * sizeof(*sorted));
    if (!sorted)
        return hft_fail_memory("a file's header", n * sizeof(*sorted));
    for (size_t i = 0; i < n; i++)
        sorted[i] = &f->tensors[i];
    qsort(sorted, n, sizeof(*sorted), by_begin);
    hftac_status s = HFTAC_OK;
    uint64_t end = 0;
    for (size_t i = 0; i < n && !s; i++) {
        if (sorted[i]->begin < end)
            s = damaged_tensor(path, sorted[i]->name, "its data overlap another tensor's");
        else if (sorted[i]->begin > end)
            s = damaged_tensor(path, sorted[i]->name, "there is a gap before its data");
        end = sorted[i]->begin + sorted[i]->bytes;
    }
    if (!s && end != data_bytes)
        s = hft_fail(HFTAC_DATA,
                     "%s: damaged safetensors file: %" PRIu64
                     " trailing bytes after the last tensor",
                     path, data_bytes - end);
    free(sorted);
    return s;
}

static hftac_status read_tensors(const char *path, StFile *f)
{
    const uint64_t data_bytes = f->file.bytes - f->data_begin;
    const size_t rows = json_object_size(f->json);
    f->tensors = calloc(rows ? rows : 1, sizeof *f->tensors);
    if (!f->tensors)
        return hft_fail_memory("a file's header", rows * sizeof *f->tensors);
    const char *key;
    json_t *row;
    json_object_foreach((json_t *)f->json, key, row)
    {
        hftac_status s;
        if (strcmp(key, "__metadata__") == 0) {
            s = check_metadata(path, row);
        } else {
            StTensor *t = &f->tensors[f->n_tensors];
            t->name = key;
            s = read_tensor(path, t, row, data_bytes);
            f->n_tensors++;
        }
        if (s)
            return s;
    }
    return check_places(path, f, data_bytes);
}

hftac_status hft_st_open(const char *path, StFile *f)
{
    memset(f, 0, sizeof *f);
    hftac_status s = hft_read_open(path, &f->file);
    if (!s)
        s = read_header(path, f);
    if (!s)
        s = read_tensors(path, f);
    if (s)
        hft_st_close(f);
    return s;
}

hftac_status hft_st_read(const StFile *f, const StTensor *t, unsigned char **values)
{
    *values = malloc(t->bytes ? t->bytes : 1);
    if (!*values)
        return hft_fail_memory("a tensor", t->bytes);
    const hftac_status s = hft_read_at(&f->file, f->data_begin + t->begin, *values, t->bytes);
    if (s) {
        free(*values);
        *values = NULL;
    }
    return s;
}

void hft_st_close(StFile *f)
{
    hft_read_close(&f->file);
    json_decref(f->json);
    free(f->tensors);
    memset(f, 0, sizeof *f);
}

const StTensor *hft_st_find(const StFile *f, const char *name)
{
    for (int32_t i = 0; i < f->n_tensors; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

const char *hft_st_metadata(const StFile *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->json, "__metadata__"), key));
}
