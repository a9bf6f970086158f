/* The standard library's sources, embedded at build time (frontend/std/embed.cmake). */
#ifndef HFTAC_FRONTEND_STD_STD_FILES_H
#define HFTAC_FRONTEND_STD_STD_FILES_H

#include <stddef.h>

typedef struct StdFile {
    const char *name; /* "std/layers.hdl" */
    const char *text;
    size_t len;
} StdFile;

extern const StdFile std_files[]; /* ends with a NULL name */
extern const int std_file_count;

#endif
