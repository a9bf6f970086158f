/* Reading safetensors.
 *
 * Order of trust: the file's size bounds the header's length; the header is read by its one known
 * form (st_header.c); then each tensor is checked by itself, then all against each other.  What
 * is allocated is never more than a small multiple of the header's size. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/files/st_header.h"

enum {
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
    f->text = malloc(length ? length : 1);
    if (!f->text)
        return hft_fail_memory("a file's header", length);
    s = hft_read_at(&f->file, LENGTH_BYTES, f->text, length);
    f->data_begin = LENGTH_BYTES + length;
    return s ? s : hft_st_parse(f, path, f->text, length);
}

/* ---- Tensors ---- */

/* A type that is not in the table has 0 bits: the offsets alone say how large the tensor is. */
static uint32_t find_type(StTensor *t)
{
    t->type = -1;
    for (size_t i = 0; i < sizeof st_types / sizeof st_types[0]; i++)
        if (strcmp(st_types[i].name, t->type_name) == 0) {
            t->type = st_types[i].type;
            return st_types[i].bits;
        }
    return 0;
}

static hftac_status check_tensor(const char *path, StTensor *t, uint64_t data_bytes)
{
    const uint32_t bits = find_type(t);
    uint64_t need;
    if (t->begin > data_bytes || t->bytes > data_bytes - t->begin)
        return damaged_tensor(path, t->name, "its data lie past the end of the file");
    if (!bits)
        return HFTAC_OK;
    if (t->elements == UINT64_MAX || __builtin_mul_overflow(t->elements, bits / 8, &need) ||
        need > INT64_MAX)
        return damaged_tensor(path, t->name, "the product of its dims overflows");
    if (need == t->bytes)
        return HFTAC_OK;
    char text[SHAPE_TEXT_BYTES];
    return hft_fail(HFTAC_DATA,
                    "%s: damaged safetensors file: tensor \"%.200s\": %s%s needs %" PRIu64
                    " bytes, its offsets span %" PRIu64,
                    path, t->name, t->type_name, hft_shape_text(text, t->rank, t->dims), need,
                    t->bytes);
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

static hftac_status check_tensors(const char *path, StFile *f)
{
    const uint64_t data_bytes = f->file.bytes - f->data_begin;
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; i < f->n_tensors && !s; i++)
        s = check_tensor(path, &f->tensors[i], data_bytes);
    return s ? s : check_places(path, f, data_bytes);
}

hftac_status hft_st_open(const char *path, StFile *f)
{
    memset(f, 0, sizeof *f);
    hftac_status s = hft_read_open(path, &f->file);
    if (!s)
        s = read_header(path, f);
    if (!s)
        s = check_tensors(path, f);
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
    free(f->text);
    free(f->tensors);
    free(f->sorted);
    free(f->metadata);
    memset(f, 0, sizeof *f);
}

static int name_order(const void *name, const void *row)
{
    return strcmp(name, (*(const StTensor *const *)row)->name);
}

const StTensor *hft_st_find(const StFile *f, const char *name)
{
    const StTensor *const *found = f->n_tensors ? bsearch(name, f->sorted, (size_t)f->n_tensors,
                                                          sizeof *f->sorted, name_order)
                                                : NULL;
    return found ? *found : NULL;
}

static int key_order(const void *key, const void *pair)
{
    return strcmp(key, ((const StPair *)pair)->key);
}

const char *hft_st_metadata(const StFile *f, const char *key)
{
    const StPair *found =
        f->n_metadata ? bsearch(key, f->metadata, f->n_metadata, sizeof *f->metadata, key_order)
                      : NULL;
    return found ? found->value : NULL;
}
