/* The thread's last error, and the tables of statuses and types. */
#include "runtime/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[ERROR_TEXT_BYTES];

const char *hftac_last_error(void)
{
    return last_error;
}

hftac_status hft_fail(hftac_status status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(last_error, sizeof last_error, format, ap);
    va_end(ap);
    return status;
}

hftac_status hft_fail_memory(const char *what, uint64_t bytes)
{
    return hft_fail(HFTAC_MEMORY, "out of memory: %" PRIu64 " bytes for %s", bytes, what);
}

hftac_status hft_fail_file(const char *path, const char *what, int error)
{
    char text[128];
    return hft_fail(HFTAC_FILE, "%s: %s: %s", path, what, strerror_r(error, text, sizeof text));
}

void hft_report_add(Report *r, const char *format, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof line, format, ap);
    va_end(ap);
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
    if (r->n_lines == 0)
        return HFTAC_OK;
    if (r->n_dropped)
        return hft_fail(status, "%s:%s\n  ... and %d more", head, r->text, r->n_dropped);
    return hft_fail(status, "%s:%s", head, r->text);
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
