/* A regular file that is read, not mapped: what happens to it later does not matter.
 *
 * A mapping of a file that is cut short or rewritten while a run goes on ends the process with
 * SIGBUS, or changes what the run sees.  So bytes are copied into the process's own memory
 * once, those that are wanted alone. */
#ifndef HFTAC_RUNTIME_FILES_READ_FILE_H
#define HFTAC_RUNTIME_FILES_READ_FILE_H

#include <time.h>

#include "runtime/hftac.h"

typedef struct ReadFile {
    const char *path; /* for messages; the caller's */
    int fd_plus_1;    /* 0: not open */
    uint64_t bytes;
    struct timespec changed; /* when it was last written, as it was opened */
} ReadFile;

/* A device, pipe or folder is refused without waiting for it. */
hftac_status hft_read_open(const char *path, ReadFile *file);
/* n bytes from `offset` on; HFTAC_DATA if the file has become shorter. */
hftac_status hft_read_at(const ReadFile *file, uint64_t offset, void *to, uint64_t n);
/* HFTAC_DATA if the file was written since it was opened. */
hftac_status hft_read_unchanged(const ReadFile *file);
void hft_read_close(ReadFile *file); /* also of one that is all zero */

#endif
