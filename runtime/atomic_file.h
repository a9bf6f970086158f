/* A file that appears under its name whole or not at all. */
#ifndef HFTAC_RUNTIME_ATOMIC_FILE_H
#define HFTAC_RUNTIME_ATOMIC_FILE_H

#include "runtime/hftac.h"

typedef struct AtomicFile AtomicFile;

/* Opens a temporary file beside `path`, which must be new or a regular file. */
hftac_status hft_file_create(const char *path, AtomicFile **file);
hftac_status hft_file_write(AtomicFile *file, uint64_t offset, const void *bytes, uint64_t n);
/* Sync, rename over `path`, sync the folder; the temporary file goes if that fails.  Both
 * free `file`. */
hftac_status hft_file_commit(AtomicFile *file);
void hft_file_abort(AtomicFile *file);

#endif
