/* Reading with pread, which leaves no position behind and no mapping. */
#include "runtime/files/read_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/open_file.h"

hftac_status hft_read_open(const char *path, ReadFile *f)
{
    memset(f, 0, sizeof *f);
    struct stat st;
    const int fd = hft_open_regular(path, &st);
    if (fd < 0 && hft_not_regular(errno))
        return hft_fail(HFTAC_FILE, "%s: cannot read: it is not a regular file", path);
    if (fd < 0)
        return hft_fail_file(path, "cannot open", errno);
    *f = (ReadFile){.path = path,
                    .fd_plus_1 = fd + 1,
                    .bytes = (uint64_t)st.st_size,
                    .changed = st.st_mtim};
    return HFTAC_OK;
}

hftac_status hft_read_at(const ReadFile *f, uint64_t offset, void *to, uint64_t n)
{
    char *p = to;
    while (n) {
        const size_t chunk = n < (1u << 30) ? (size_t)n : 1u << 30;
        const ssize_t got = pread(f->fd_plus_1 - 1, p, chunk, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hft_fail_file(f->path, "cannot read", errno);
        if (got == 0)
            return hft_fail(HFTAC_DATA, "%s: it was cut short while it was read", f->path);
        p += got;
        offset += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return HFTAC_OK;
}

hftac_status hft_read_unchanged(const ReadFile *f)
{
    struct stat st;
    if (fstat(f->fd_plus_1 - 1, &st) != 0)
        return hft_fail_file(f->path, "cannot read", errno);
    if ((uint64_t)st.st_size == f->bytes && st.st_mtim.tv_sec == f->changed.tv_sec &&
        st.st_mtim.tv_nsec == f->changed.tv_nsec)
        return HFTAC_OK;
    return hft_fail(HFTAC_DATA, "%s: it was changed while it was read", f->path);
}

void hft_read_close(ReadFile *f)
{
    if (f->fd_plus_1)
        close(f->fd_plus_1 - 1);
    f->fd_plus_1 = 0;
}
