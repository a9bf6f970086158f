/* Reading a whole text file: what it is made of is not trusted, nor is that it ends. */
#ifndef HFTAC_IR_SUPPORT_INPUT_H
#define HFTAC_IR_SUPPORT_INPUT_H

#include <stdbool.h>
#include <sys/stat.h>

#include "ir/support/arena.h"

enum {
    INPUT_MAX_BYTES = 64 << 20
};

/* An open descriptor of a regular file; -1 with errno set.  A directory is EISDIR; what is no
 * file at all - a pipe, a device - is ESPIPE, and waits for nobody. */
int input_open(const char *path, struct stat *st);
/* All of it, with a zero behind; NULL with errno set: EFBIG above INPUT_MAX_BYTES. */
char *input_read(Arena *a, int fd, size_t *len);
/* errno of the two as a sentence's end. */
const char *input_error(int error);

#endif
