/* Reading a whole text file. */
#include "ir/support/input.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "runtime/open_file.h"

int input_open(const char *path, struct stat *st)
{
    return hft_open_regular(path, st);
}

char *input_read(Arena *a, int fd, size_t *len)
{
    size_t cap = 1 << 16, n = 0;
    char *text = arena_alloc(a, cap + 1);
    for (;;) {
        const ssize_t got = read(fd, text + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return NULL;
        if (got == 0)
            break;
        n += (size_t)got;
        if (n > INPUT_MAX_BYTES) {
            errno = EFBIG;
            return NULL;
        }
        if (n < cap)
            continue;
        char *bigger = arena_alloc(a, 2 * cap + 1);
        memcpy(bigger, text, n);
        text = bigger;
        cap *= 2;
    }
    text[n] = 0;
    *len = n;
    return text;
}

const char *input_error(int error)
{
    if (error == ESPIPE)
        return "it is not a regular file (`-` reads standard input)";
    if (error == EFBIG)
        return "it is larger than 64 MiB";
    return strerror(error);
}
