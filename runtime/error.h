/* The thread's last error, and the tables of statuses and types. */
#ifndef HFTAC_RUNTIME_ERROR_H
#define HFTAC_RUNTIME_ERROR_H

#include "runtime/hftac.h"

enum {
    ERROR_TEXT_BYTES = 8192
};

/* Sets this thread's sentence and returns the status.  What is not plain in it
 * (runtime/plain.h), as names in files may be, is escaped; a Report alone has several lines. */
hftac_status hft_fail(hftac_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
hftac_status hft_fail_memory(const char *what, uint64_t bytes);
/* As hft_fail(HFTAC_FILE), with the text of errno value `error` at the end: "PATH: cannot
 * read: No such file ..." */
hftac_status hft_fail_file(const char *path, const char *what, int error);

/* Text that grows in a fixed buffer: lists of several problems in one message.  What does not
 * fit is counted. */
typedef struct Report {
    char text[ERROR_TEXT_BYTES - 512];
    size_t length;
    int n_lines, n_dropped;
} Report;

void hft_report_add(Report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "HEAD:\n  line\n  line", or HFTAC_OK if nothing was added. */
hftac_status hft_report_fail(const Report *r, hftac_status status, const char *head);

/* "[32, 64]" into text; of more than HFTAC_MAX_DIMS dims the first ones, then "...". */
enum {
    SHAPE_TEXT_BYTES = 200
};
const char *hft_shape_text(char text[SHAPE_TEXT_BYTES], int32_t rank, const int64_t *dims);

#endif
