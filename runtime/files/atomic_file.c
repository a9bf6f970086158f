/* A file that appears under its name whole or not at all.
 *
 * It is written without a name (O_TMPFILE), synced, and then given its name: by a link if the
 * name is free, else by a link to a name beside it and a rename over the old file.  Without
 * O_TMPFILE or /proc the name beside it is there from the start.  While it has such a name it is
 * locked; what a killed process left is removed when the next file is created (left_over.c). */
#include "runtime/files/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/files/left_over.h"

enum {
    TRIES = 100,
    PROC_PATH_BYTES = 32
};

struct AtomicFile {
    char *path, *folder;
    char *temporary; /* folder/.hftac-...; names a file if `named` */
    bool named, plain;
    int fd;
};

void hft_temporary_name(char name[TEMPORARY_BYTES])
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        number = (uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec ^ (uint64_t)getpid() << 20;
    }
    snprintf(name, TEMPORARY_BYTES, HFT_TEMPORARY_PREFIX "%0*llx", RANDOM_DIGITS,
             (unsigned long long)number);
}

void hft_sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

char *hft_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

char *hft_join(const char *a, const char *b)
{
    const size_t bytes = strlen(a) + strlen(b) + 2;
    char *path = malloc(bytes);
    if (path)
        snprintf(path, bytes, "%s/%s", a, b);
    return path;
}

static void file_free(AtomicFile *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->folder);
    free(f->temporary);
    free(f);
}

static void new_temporary(AtomicFile *f)
{
    char name[TEMPORARY_BYTES];
    hft_temporary_name(name);
    sprintf(f->temporary, "%s/%s", f->folder, name);
}

/* How the kernel names an open file that has no name of its own. */
static const char *proc_path(const AtomicFile *f, char path[PROC_PATH_BYTES])
{
    snprintf(path, PROC_PATH_BYTES, "/proc/self/fd/%d", f->fd);
    return path;
}

static bool open_unnamed(AtomicFile *f)
{
    char path[PROC_PATH_BYTES];
    f->fd = open(f->folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (f->fd >= 0 && access(proc_path(f, path), F_OK) == 0) {
        flock(f->fd, LOCK_SH | LOCK_NB); /* for the name that it may get; see left_over.c */
        return true;
    }
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    return false;
}

/* O_EXCL with a fresh name, so that the mode follows the umask and nothing is overwritten. */
static bool open_named(AtomicFile *f)
{
    for (int i = 0; i < TRIES; i++) {
        new_temporary(f);
        f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno == EEXIST)
            continue;
        if (f->fd < 0 || hft_left_claim(f->temporary, f->fd))
            break;
        close(f->fd);
        f->fd = -1;
    }
    return f->named = f->fd >= 0;
}

/* The path, or where it leads to if it is a link. */
static char *target_of(const char *path)
{
    struct stat st;
    const bool is_link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    char *end = is_link ? realpath(path, NULL) : NULL;
    return end ? end : strdup(path);
}

static hftac_status file_new(char *path, AtomicFile **out)
{
    AtomicFile *f = path ? calloc(1, sizeof *f) : NULL;
    if (!f) {
        free(path);
        return hft_fail_memory("a file", sizeof *f);
    }
    f->fd = -1;
    f->path = path;
    f->folder = hft_folder_of(path);
    f->temporary = malloc(strlen(path) + TEMPORARY_BYTES + 2);
    if (f->folder && f->temporary) {
        *out = f;
        return HFTAC_OK;
    }
    file_free(f);
    return hft_fail_memory("a path", strlen(path));
}

hftac_status hft_file_create(const char *path, AtomicFile **out)
{
    *out = NULL;
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return hft_fail(HFTAC_FILE, "%s: cannot write: it exists and is not a regular file",
                        path);
    AtomicFile *f;
    hftac_status s = file_new(target_of(path), &f);
    if (s)
        return s;
    hft_left_remove(f->folder, NULL, NULL);
    if (!open_unnamed(f) && !open_named(f)) {
        s = hft_fail_file(path, "cannot write", errno);
        file_free(f);
        return s;
    }
    *out = f;
    return HFTAC_OK;
}

hftac_status hft_file_create_plain(const char *path, AtomicFile **out)
{
    *out = NULL;
    AtomicFile *f;
    hftac_status s = file_new(strdup(path), &f);
    if (s)
        return s;
    f->plain = true;
    f->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0) {
        s = hft_fail_file(path, "cannot write", errno);
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

/* Gives the unnamed file the name `to`; 0 or -1 with errno. */
static int link_as(const AtomicFile *f, const char *to)
{
    char path[PROC_PATH_BYTES];
    return linkat(AT_FDCWD, proc_path(f, path), AT_FDCWD, to, AT_SYMLINK_FOLLOW);
}

/* 0, or -1 with errno and no name left behind. */
static int put_in_place(AtomicFile *f)
{
    if (!f->named && link_as(f, f->path) == 0)
        return 0;
    for (int i = 0; !f->named && i < TRIES; i++) {
        new_temporary(f);
        f->named = link_as(f, f->temporary) == 0;
        if (!f->named && errno != EEXIST)
            return -1;
    }
    if (rename(f->temporary, f->path) == 0) {
        f->named = false;
        return 0;
    }
    return -1;
}

/* Some file systems tell only at close that there was no room.  A file with a temporary name stays
 * open, because it is to stay locked: closing a second descriptor tells as much. */
static int close_file(AtomicFile *f)
{
    const int fd = f->named ? fcntl(f->fd, F_DUPFD_CLOEXEC, 0) : f->fd;
    if (!f->named)
        f->fd = -1;
    return fd < 0 ? -1 : close(fd);
}

hftac_status hft_file_commit(AtomicFile *f)
{
    hftac_status s = HFTAC_OK;
    int synced;
    while ((synced = fsync(f->fd)) != 0 && errno == EINTR)
        ;
    if (synced != 0)
        s = hft_fail_file(f->path, "cannot sync", errno);
    if (!s && (f->named || f->plain) && close_file(f) != 0 && errno != EINTR)
        s = hft_fail_file(f->path, "cannot close", errno);
    if (!s && !f->plain && put_in_place(f) != 0)
        s = hft_fail_file(f->path, "cannot rename into place", errno);
    if (s) {
        hft_file_abort(f);
        return s;
    }
    if (!f->plain)
        hft_sync_folder(f->folder);
    file_free(f);
    return HFTAC_OK;
}

void hft_file_abort(AtomicFile *f)
{
    if (!f)
        return;
    if (f->named)
        unlink(f->temporary);
    if (f->plain)
        unlink(f->path);
    file_free(f);
}

hftac_status hft_file_put(AtomicFile *f, const void *bytes, size_t n)
{
    const hftac_status s = hft_file_write(f, 0, bytes, n);
    if (!s)
        return hft_file_commit(f);
    hft_file_abort(f);
    return s;
}
