/* Opening what must be a regular file, for the library, the compiler and both programs.
 *
 * A pipe would block for ever where nobody writes to it, a terminal or a device never ends: the
 * path is opened without waiting, looked at, and refused.  This file needs nothing else of the
 * library, so that the compiler can have it too. */
#ifndef HFTAC_RUNTIME_OPEN_FILE_H
#define HFTAC_RUNTIME_OPEN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/* A descriptor to read from, and what fstat says; -1 with errno set: EISDIR for a folder, ESPIPE
 * for what else is no regular file. */
int hft_open_regular(const char *path, struct stat *st);
/* Whether that errno says that it is no regular file. */
bool hft_not_regular(int error);

#endif
