/* Where hftac writes. */
#ifndef HFTAC_TOOLS_OUTPUT_H
#define HFTAC_TOOLS_OUTPUT_H

#include "ir/support/text.h"

/* The files that were read: no output may be one of them. */
typedef struct Inputs {
    const char *const *paths;
    int n;
} Inputs;

/* What a rename must not replace: a device, a pipe, a directory. */
bool is_special(const char *path);
/* Ends the program with exit code 2 if `path` is an input. */
void output_check(const Inputs *inputs, const char *path);
/* To stdout ("-"), into a device or pipe, or to a file that is there whole or not at all; ends the
 * program with exit code 3 if that fails. */
void output_write(const Inputs *inputs, const char *path, const Text *content);
/* Before anything is opened: closed standard files get their numbers back, files over the size
 * limit are errors and no signals. */
void output_begin(void);

#endif
