/* A file that appears under its name whole or not at all: temporary file, fsync, rename,
 * fsync of the folder. */
#include "runtime/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/safetensors.h"

enum {
    SUFFIX_BYTES = 48,
    TRIES = 100
};

struct AtomicFile {
    char *path, *temporary;
    int fd;
};

static void file_free(AtomicFile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->temporary);
    free(f);
}

/* O_EXCL with a fresh name, so that the mode follows the umask and nothing is overwritten. */
static bool open_temporary(AtomicFile *f, size_t bytes)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    for (int i = 0; i < TRIES; i++) {
        snprintf(f->temporary, bytes, "%s.tmp-%ld-%lx", f->path, (long)getpid(),
                 (unsigned long)t.tv_nsec + (unsigned long)i);
        f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd >= 0 || errno != EEXIST)
            break;
    }
    return f->fd >= 0;
}

hftac_status hft_file_create(const char *path, AtomicFile **out)
{
    *out = NULL;
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return hft_fail(HFTAC_FILE, "%s: cannot write: it exists and is not a regular file",
                        path);
    AtomicFile *f = calloc(1, sizeof *f);
    if (!f)
        return hft_fail_memory("a file", sizeof *f);
    const size_t bytes = strlen(path) + SUFFIX_BYTES;
    f->fd = -1;
    f->path = strdup(path);
    f->temporary = malloc(bytes);
    hftac_status s = HFTAC_OK;
    if (!f->path || !f->temporary)
        s = hft_fail_memory("a path", bytes);
    else if (!open_temporary(f, bytes))
        s = hft_fail_file(path, "cannot write", errno);
    if (s) {
        file_free(f);
        return s;
    }
    *out = f;
    return HFTAC_OK;
}

hftac_status hft_file_write(AtomicFile *f, uint64_t offset, const void *bytes, uint64_t n)
{
    const char *p = bytes;
    while (n) {
        const size_t chunk = n < (1u << 30) ? (size_t)n : 1u << 30;
        const ssize_t done = pwrite(f->fd, p, chunk, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return hft_fail_file(f->path, "cannot write", done < 0 ? errno : ENOSPC);
        p += done;
        offset += (uint64_t)done;
        n -= (uint64_t)done;
    }
    return HFTAC_OK;
}

/* Some file systems cannot sync a folder; the rename itself is atomic all the same. */
static void sync_folder(AtomicFile *f)
{
    char *slash = strrchr(f->temporary, '/');
    const char *folder = ".";
    if (slash) {
        slash[slash == f->temporary] = 0;
        folder = f->temporary;
    }
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

hftac_status hft_file_commit(AtomicFile *f)
{
    hftac_status s = HFTAC_OK;
    if (fsync(f->fd) != 0)
        s = hft_fail_file(f->path, "cannot sync", errno);
    if (close(f->fd) != 0 && !s)
        s = hft_fail_file(f->path, "cannot close", errno);
    f->fd = -1;
    if (!s && rename(f->temporary, f->path) != 0)
        s = hft_fail_file(f->path, "cannot rename into place", errno);
    if (s)
        unlink(f->temporary);
    else
        sync_folder(f);
    file_free(f);
    return s;
}

void hft_file_abort(AtomicFile *f)
{
    if (!f)
        return;
    unlink(f->temporary);
    file_free(f);
}

hftac_status hft_write_file(const char *path, const void *bytes, size_t n)
{
    AtomicFile *f;
    hftac_status s = hft_file_create(path, &f);
    if (s)
        return s;
    s = hft_file_write(f, 0, bytes, n);
    if (s) {
        hft_file_abort(f);
        return s;
    }
    return hft_file_commit(f);
}
