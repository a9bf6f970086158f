/* Reading .npy files: magic, version, a Python dict with descr, fortran_order and shape, the
 * values. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

enum {
    MAGIC_BYTES = 8
};

static hftac_status damaged(const char *path, const char *what)
{
    return hft_fail(HFTAC_DATA, "%s: damaged .npy file: %s", path, what);
}

/* The text after 'key': in the dict, or NULL. */
static const char *value_of(const char *dict, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *p = strstr(dict, quoted);
    return p ? p + strlen(quoted) + strspn(p + strlen(quoted), " ") : NULL;
}

static bool read_type(NpyFile *f, const char *descr)
{
    static const char *const names[] = {"|b1", "|u1", "<i4",
                                        "<i8", "<f4", "<f8"}; /* by hftac_type */
    if (!descr || *descr != '\'')
        return false;
    const size_t n = strcspn(descr + 1, "'");
    if (n == 0 || n >= sizeof f->type_name)
        return false;
    memcpy(f->type_name, descr + 1, n);
    f->source.type_name = f->type_name;
    f->source.type = -1;
    for (int32_t i = 0; i < (int32_t)(sizeof names / sizeof names[0]); i++)
        if (strcmp(names[i], f->type_name) == 0)
            f->source.type = i;
    return true;
}

static bool read_shape(Source *s, const char *p)
{
    if (!p || *p++ != '(')
        return false;
    for (;;) {
        p += strspn(p, ", ");
        if (*p == ')')
            return true;
        if (*p < '0' || *p > '9' || s->rank == HFTAC_MAX_DIMS)
            return false;
        char *end;
        errno = 0;
        s->dims[s->rank++] = strtoll(p, &end, 10);
        if (errno)
            return false;
        p = end;
    }
}

static hftac_status read_dict(const char *path, NpyFile *f, const char *dict, size_t data_begin)
{
    const char *order = value_of(dict, "fortran_order");
    if (!read_type(f, value_of(dict, "descr")) || !order)
        return damaged(path, "its header has no descr or no fortran_order");
    if (strncmp(order, "False", 5) != 0)
        return hft_fail(
            HFTAC_DATA,
            "%s: the array is in Fortran order; save it with numpy.ascontiguousarray", path);
    Source *s = &f->source;
    if (!read_shape(s, value_of(dict, "shape")))
        return damaged(path, "its shape cannot be read");
    s->file = &f->file;
    s->begin = data_begin;
    if (s->type < 0)
        return HFTAC_OK; /* the caller refuses it by name */
    uint64_t bytes = hftac_type_bytes((hftac_type)s->type);
    for (int32_t k = 0; k < s->rank; k++)
        if (__builtin_mul_overflow(bytes, (uint64_t)s->dims[k], &bytes))
            return damaged(path, "the product of its dims overflows");
    return bytes == f->file.bytes - data_begin
               ? HFTAC_OK
               : damaged(path, "its shape and its size disagree");
}

static hftac_status read_npy(const char *path, NpyFile *f)
{
    unsigned char p[MAGIC_BYTES + 4] = {0};
    if (f->file.bytes < sizeof p)
        return damaged(path, "it is too short for a header");
    hftac_status s = hft_read_at(&f->file, 0, p, sizeof p);
    if (s)
        return s;
    if (memcmp(p, "\x93NUMPY", 6) != 0)
        return damaged(path, "it has no header");
    const size_t width = p[6] == 1 ? 2 : 4; /* of the header's length */
    size_t length = p[8] | (size_t)p[9] << 8;
    if (width == 4)
        length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    const size_t begin = MAGIC_BYTES + width;
    if (p[6] < 1 || p[6] > 3 || length > f->file.bytes - begin || length > 65536)
        return damaged(path, "its header is longer than the file");
    char *dict = malloc(length + 1);
    if (!dict)
        return hft_fail_memory("a file's header", length);
    dict[length] = 0;
    s = hft_read_at(&f->file, begin, dict, length);
    if (!s)
        s = read_dict(path, f, dict, begin + length);
    free(dict);
    return s;
}

hftac_status hft_npy_open(const char *path, const char *name, NpyFile *f)
{
    f->source.name = name;
    hftac_status s = hft_read_open(path, &f->file);
    if (!s)
        s = read_npy(path, f);
    if (s)
        hft_read_close(&f->file);
    return s;
}
