/* A file that appears under its name whole or not at all. */
#ifndef HFTAC_RUNTIME_FILES_ATOMIC_FILE_H
#define HFTAC_RUNTIME_FILES_ATOMIC_FILE_H

#include "runtime/hftac.h"

typedef struct AtomicFile AtomicFile;

/* Opens a file without a name in the folder of `path`, which must be new or a regular file (a
 * link's end is what is replaced).  A process that is killed leaves nothing; where the file
 * system has no files without a name, it has a name that nobody can guess.  One that is killed
 * in the moment of replacing an old file, or there, leaves such a name; the next call for the same
 * folder removes it. */
hftac_status hft_file_create(const char *path, AtomicFile **file);
/* Opens `path` itself, which must be new: for a folder that nobody looks into yet. */
hftac_status hft_file_create_plain(const char *path, AtomicFile **file);
hftac_status hft_file_write(AtomicFile *file, uint64_t offset, const void *bytes, uint64_t n);
/* Sync, name or rename, sync the folder (not for a plain file).  What stood at `path` stays if
 * that fails.  Both free `file`. */
hftac_status hft_file_commit(AtomicFile *file);
void hft_file_abort(AtomicFile *file); /* accepts NULL */
/* All of a small file, and commit. */
hftac_status hft_file_put(AtomicFile *file, const void *bytes, size_t n);

/* What is left of files and folders without a name: ".hftac-" and RANDOM_DIGITS digits. */
#define HFT_TEMPORARY_PREFIX ".hftac-"
enum {
    RANDOM_DIGITS = 16,
    TEMPORARY_BYTES = sizeof HFT_TEMPORARY_PREFIX + RANDOM_DIGITS
};
/* A fresh name that cannot be guessed. */
void hft_temporary_name(char name[TEMPORARY_BYTES]);
/* Syncs a folder; some file systems cannot, which is no error. */
void hft_sync_folder(const char *folder);
/* a/b; malloc'd, NULL without memory. */
char *hft_join(const char *a, const char *b);
/* The folder part of `path`, "." if it has none; malloc'd, NULL without memory. */
char *hft_folder_of(const char *path);

#endif
