/* A strict reader of {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
 * "__metadata__": {"k": "v"}}.
 *
 * The form is fixed, so no tree of values is built: each value goes to its place, strings are
 * decoded where they lie in the text.  Memory is the text, one row for each tensor and one pair
 * for each metadatum, time is that of sorting the names: a header made to be expensive is not.
 * Nothing recurses. */
#include "runtime/files/st_header.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/plain.h"

typedef struct Parser {
    StFile *f;
    const char *path;
    char *text, *at, *end;
    size_t tensors_room, metadata_room;
} Parser;

enum {
    HAS_DTYPE = 1,
    HAS_SHAPE = 2,
    HAS_OFFSETS = 4,
    HAS_ALL = 7
};

static hftac_status wrong(const Parser *p, const char *what)
{
    return hft_fail(HFTAC_DATA, "%s: damaged safetensors file: header: %s at byte %zu", p->path,
                    what, (size_t)(p->at - p->text));
}

static hftac_status wrong_tensor(const Parser *p, const char *name, const char *what)
{
    return hft_fail(HFTAC_DATA, "%s: damaged safetensors file: tensor \"%.200s\": %s", p->path,
                    name, what);
}

/* The next character that is no blank; 0 at the end (a NUL in the text is no token either). */
static char peek(Parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
        p->at++;
    return p->at < p->end ? *p->at : 0;
}

static bool take(Parser *p, char c)
{
    const bool there = peek(p) == c;
    p->at += there;
    return there;
}

/* ---- Strings ---- */

static bool hex4(Parser *p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        const char c = p->at < p->end ? *p->at : 0;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (c & 0x3f));
    return to;
}

/* After a backslash.  What is written is never longer than what is read. */
static bool read_escape(Parser *p, char **to)
{
    static const char from[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    const char c = p->at < p->end ? *p->at++ : 0;
    const char *known = c ? strchr(from, c) : NULL;
    if (known) {
        *(*to)++ = meaning[known - from];
        return true;
    }
    uint32_t code, low;
    if (c != 'u' || !hex4(p, &code) || code == 0 || (code >= 0xdc00 && code <= 0xdfff))
        return false;
    if (code >= 0xd800 && code <= 0xdbff) {
        if (p->end - p->at < 2 || p->at[0] != '\\' || p->at[1] != 'u')
            return false;
        p->at += 2;
        if (!hex4(p, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to = put_utf8(*to, code);
    return true;
}

/* Decoded in place, ended by a NUL where the text has its quote. */
static hftac_status read_string(Parser *p, const char **out)
{
    if (!take(p, '"'))
        return wrong(p, "a string expected");
    char *to = p->at;
    *out = to;
    while (p->at < p->end && *p->at != '"') {
        if (*p->at == '\\') {
            p->at++;
            if (!read_escape(p, &to))
                return wrong(p, "an escape that stands for nothing");
            continue;
        }
        const int n =
            (unsigned char)*p->at < 0x20 ? 0 : hft_utf8_length(p->at, (size_t)(p->end - p->at));
        if (n == 0)
            return wrong(p, "unable to decode a string as UTF-8");
        memmove(to, p->at, (size_t)n);
        to += n;
        p->at += n;
    }
    if (p->at >= p->end)
        return wrong(p, "a string has no end");
    p->at++;
    *to = 0;
    return HFTAC_OK;
}

/* ---- Members ---- */

/* Steps over the comma between members, or the bracket that closes them: *more tells which. */
static hftac_status next_member(Parser *p, char close, bool *more)
{
    *more = take(p, ',');
    return *more || take(p, close)
               ? HFTAC_OK
               : wrong(p, close == '}' ? "',' or '}' expected" : "',' or ']' expected");
}

static hftac_status read_key(Parser *p, const char **key)
{
    const hftac_status s = read_string(p, key);
    return s || take(p, ':') ? s : wrong(p, "':' expected");
}

/* A whole number from 0 on that int64_t holds, in JSON's form. */
static bool read_count(Parser *p, int64_t *out)
{
    const char first = peek(p), *begin = p->at;
    *out = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, *p->at - '0', out))
            return false;
    const size_t digits = (size_t)(p->at - begin);
    const char next = p->at < p->end ? *p->at : 0;
    return digits > 0 && (first != '0' || digits == 1) && next != '.' && next != 'e' &&
           next != 'E';
}

/* ---- One tensor ---- */

static hftac_status read_shape(Parser *p, StTensor *t)
{
    bool more = true;
    t->elements = 1;
    if (!take(p, '['))
        return wrong_tensor(p, t->name, "it has no shape");
    if (take(p, ']'))
        return HFTAC_OK;
    while (more) {
        int64_t dim;
        if (!read_count(p, &dim))
            return wrong_tensor(p, t->name, "a dim is not a whole number from 0 on");
        if (t->elements == UINT64_MAX ||
            __builtin_mul_overflow(t->elements, (uint64_t)dim, &t->elements))
            t->elements = UINT64_MAX;
        if (t->rank < HFTAC_MAX_DIMS)
            t->dims[t->rank] = dim;
        t->rank++;
        const hftac_status s = next_member(p, ']', &more);
        if (s)
            return s;
    }
    return HFTAC_OK;
}

static hftac_status read_offsets(Parser *p, StTensor *t)
{
    int64_t begin, end;
    if (!take(p, '[') || !read_count(p, &begin) || !take(p, ',') || !read_count(p, &end) ||
        !take(p, ']'))
        return wrong_tensor(p, t->name, "data_offsets are not two whole numbers from 0 on");
    if (begin > end)
        return wrong_tensor(p, t->name, "its data end before they begin");
    t->begin = (uint64_t)begin;
    t->bytes = (uint64_t)(end - begin);
    return HFTAC_OK;
}

static hftac_status read_field(Parser *p, StTensor *t, unsigned *has)
{
    const char *key;
    const hftac_status s = read_key(p, &key);
    if (s)
        return s;
    const unsigned field = strcmp(key, "dtype") == 0          ? HAS_DTYPE
                           : strcmp(key, "shape") == 0        ? HAS_SHAPE
                           : strcmp(key, "data_offsets") == 0 ? HAS_OFFSETS
                                                              : 0;
    if (!field)
        return wrong_tensor(
            p, t->name, "its entry must have dtype, shape and data_offsets, and nothing else");
    if (*has & field)
        return wrong(p, "duplicate object key");
    *has |= field;
    if (field == HAS_SHAPE)
        return read_shape(p, t);
    if (field == HAS_OFFSETS)
        return read_offsets(p, t);
    return peek(p) == '"' ? read_string(p, &t->type_name)
                          : wrong_tensor(p, t->name, "it has no dtype");
}

static hftac_status read_tensor(Parser *p, StTensor *t)
{
    unsigned has = 0;
    hftac_status s = HFTAC_OK;
    if (!take(p, '{'))
        return wrong_tensor(p, t->name, "its entry is not an object");
    for (bool more = !take(p, '}'); more && !s;) {
        s = read_field(p, t, &has);
        if (!s)
            s = next_member(p, '}', &more);
    }
    if (!s && has != HAS_ALL)
        return wrong_tensor(
            p, t->name, "its entry must have dtype, shape and data_offsets, and nothing else");
    return s;
}

/* ---- All ---- */

/* Room for one more of `size` bytes in a table that grows by halves. */
static hftac_status grow(void *table, size_t n, size_t *room, size_t size)
{
    void *old, *new;
    if (n < *room)
        return HFTAC_OK;
    const size_t wanted = *room + *room / 2 + 16;
    memcpy(&old, table, sizeof old);
    new = realloc(old, wanted * size);
    if (!new)
        return hft_fail_memory("a file's header", wanted * size);
    memcpy(table, &new, sizeof new);
    *room = wanted;
    return HFTAC_OK;
}

static hftac_status read_metadatum(Parser *p)
{
    StFile *f = p->f;
    hftac_status s = grow(&f->metadata, f->n_metadata, &p->metadata_room, sizeof *f->metadata);
    if (s)
        return s;
    StPair *pair = &f->metadata[f->n_metadata];
    *pair = (StPair){0};
    s = read_key(p, &pair->key);
    if (!s && peek(p) != '"')
        return hft_fail(HFTAC_DATA,
                        "%s: damaged safetensors file: __metadata__ has a value that is not a "
                        "string",
                        p->path);
    if (!s)
        s = read_string(p, &pair->value);
    f->n_metadata += !s;
    return s;
}

static hftac_status read_metadata(Parser *p)
{
    hftac_status s = HFTAC_OK;
    if (!take(p, '{'))
        return hft_fail(HFTAC_DATA,
                        "%s: damaged safetensors file: __metadata__ is not an object", p->path);
    for (bool more = !take(p, '}'); more && !s;) {
        s = read_metadatum(p);
        if (!s)
            s = next_member(p, '}', &more);
    }
    return s;
}

static hftac_status read_entry(Parser *p, bool *metadata)
{
    StFile *f = p->f;
    const char *name;
    hftac_status s = read_key(p, &name);
    if (s)
        return s;
    if (strcmp(name, "__metadata__") == 0) {
        if (*metadata)
            return wrong(p, "duplicate object key");
        *metadata = true;
        return read_metadata(p);
    }
    s = grow(&f->tensors, (size_t)f->n_tensors, &p->tensors_room, sizeof *f->tensors);
    if (s)
        return s;
    StTensor *t = &f->tensors[f->n_tensors++];
    *t = (StTensor){.name = name};
    return read_tensor(p, t);
}

static int by_name(const void *a, const void *b)
{
    const StTensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int by_key(const void *a, const void *b)
{
    const StPair *x = a, *y = b;
    return strcmp(x->key, y->key);
}

/* Sorts names and keys, for lookups and to see those that are there twice. */
static hftac_status index_names(Parser *p)
{
    StFile *f = p->f;
    const size_t n = (size_t)f->n_tensors;
    bool twice = false;
    f->sorted = malloc((n ? n : 1) * sizeof *f->sorted);
    if (!f->sorted)
        return hft_fail_memory("a file's header", n * sizeof *f->sorted);
    for (size_t i = 0; i < n; i++)
        f->sorted[i] = &f->tensors[i];
    qsort(f->sorted, n, sizeof *f->sorted, by_name);
    for (size_t i = 1; i < n; i++)
        twice |= strcmp(f->sorted[i - 1]->name, f->sorted[i]->name) == 0;
    if (f->n_metadata)
        qsort(f->metadata, f->n_metadata, sizeof *f->metadata, by_key);
    for (size_t i = 1; i < f->n_metadata; i++)
        twice |= strcmp(f->metadata[i - 1].key, f->metadata[i].key) == 0;
    return twice ? wrong(p, "duplicate object key") : HFTAC_OK;
}

hftac_status hft_st_parse(StFile *f, const char *path, char *text, size_t n)
{
    Parser p = {.f = f, .path = path, .text = text, .at = text, .end = text + n};
    bool metadata = false;
    hftac_status s = HFTAC_OK;
    if (n < 2 || text[0] != '{')
        return hft_fail(HFTAC_DATA,
                        "%s: damaged safetensors file: its header is not a JSON object", path);
    p.at++;
    for (bool more = !take(&p, '}'); more && !s;) {
        s = read_entry(&p, &metadata);
        if (!s)
            s = next_member(&p, '}', &more);
    }
    if (s)
        return s;
    peek(&p);
    return p.at < p.end ? wrong(&p, "end of file expected") : index_names(&p);
}
