/* Opening what must be a regular file. */
#include "runtime/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int hft_open_regular(const char *path, struct stat *st)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    int error = fstat(fd, st) == 0 ? 0 : errno;
    if (!error && !S_ISREG(st->st_mode))
        error = S_ISDIR(st->st_mode) ? EISDIR : ESPIPE;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

bool hft_not_regular(int error)
{
    return error == EISDIR || error == ESPIPE;
}
