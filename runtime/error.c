/* The thread's last error, and the tables of statuses and types. */
#include "runtime/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/plain.h"

static _Thread_local char last_error[ERROR_TEXT_BYTES];

const char *hftac_last_error(void)
{
    return last_error;
}

/* Names and texts come from files: what a terminal would obey is shown, not sent. */
static void escape(char *to, size_t room, const char *from)
{
    size_t left = strlen(from), at = 0;
    while (left) {
        const PlainPiece piece = hft_plain_piece(from, left);
        const size_t n = strlen(piece.shown);
        if (at + n >= room)
            break;
        memcpy(to + at, piece.shown, n);
        at += n;
        from += piece.bytes;
        left -= piece.bytes;
    }
    to[at] = 0;
}

hftac_status hft_fail(hftac_status status, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    escape(last_error, sizeof last_error, text);
    return status;
}

hftac_status hft_fail_memory(const char *what, uint64_t bytes)
{
    return hft_fail(HFTAC_MEMORY, "out of memory: %" PRIu64 " bytes for %s", bytes, what);
}

hftac_status hft_fail_file(const char *path, const char *what, int error)
{
    char text[128];
    return hft_fail(error == ENOMEM ? HFTAC_MEMORY : HFTAC_FILE, "%s: %s: %s", path, what,
                    strerror_r(error, text, sizeof text));
}

void hft_report_add(Report *r, const char *format, ...)
{
    char raw[1024], line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    escape(line, sizeof line, raw);
    const size_t n = strlen(line), need = n + 3;
    r->n_lines++;
    if (r->n_dropped || need >= sizeof r->text - r->length) {
        r->n_dropped++;
        return;
    }
    memcpy(r->text + r->length, "\n  ", 3);
    memcpy(r->text + r->length + 3, line, n + 1);
    r->length += need;
}

hftac_status hft_report_fail(const Report *r, hftac_status status, const char *head)
{
    char first[432], more[64] = "";
    if (r->n_lines == 0)
        return HFTAC_OK;
    if (r->n_dropped)
        snprintf(more, sizeof more, "\n  ... and %d more", r->n_dropped);
    escape(first, sizeof first, head);
    snprintf(last_error, sizeof last_error, "%s:%s%s", first, r->text, more);
    return status;
}

const char *hft_shape_text(char text[SHAPE_TEXT_BYTES], int32_t rank, const int64_t *dims)
{
    size_t n = (size_t)snprintf(text, SHAPE_TEXT_BYTES, "[");
    for (int32_t i = 0; i < rank && i < HFTAC_MAX_DIMS && n < SHAPE_TEXT_BYTES - 24; i++)
        n += (size_t)snprintf(text + n, SHAPE_TEXT_BYTES - n, "%s%" PRId64, i ? ", " : "",
                              dims[i]);
    snprintf(text + n, SHAPE_TEXT_BYTES - n, rank > HFTAC_MAX_DIMS ? ", ...]" : "]");
    return text;
}

const char *hftac_status_text(hftac_status status)
{
    switch (status) {
#define HFTAC_ROW(name, number, text) \
    case HFTAC_##name:                \
        return text;
        HFTAC_STATUS_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
    }
    return "unknown status";
}

const char *hftac_type_text(hftac_type type)
{
    switch (type) {
#define HFTAC_ROW(name, number, text, bytes, file_name) \
    case HFTAC_##name:                                  \
        return text;
        HFTAC_TYPE_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
    }
    return NULL;
}

size_t hftac_type_bytes(hftac_type type)
{
    switch (type) {
#define HFTAC_ROW(name, number, text, bytes, file_name) \
    case HFTAC_##name:                                  \
        return bytes;
        HFTAC_TYPE_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
    }
    return 0;
}

const char *hftac_version(void)
{
    return HFTAC_VERSION;
}
