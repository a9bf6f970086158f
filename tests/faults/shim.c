/* A library to be preloaded into a program under test: its k-th call into the system fails, is
 * cut short, or is the last thing that it does.
 *
 *   FAULT=CLASS:K:ACTION   CLASS   any, open, read, write, sync, rename or alloc
 *                          K       counted from 1; K+ : the k-th and all later ones
 *                          ACTION  the name of an errno: the call fails without being made
 *                                  short: half of it is written
 *                                  kill: SIGKILL before the call is made
 *                                  INT, INT2, TERM, ...: that signal is raised before the call,
 *                                  twice for INT2
 *                                  none: nothing happens
 *   FAULT_COUNT=FILE       how many calls of the class there were is written there at the end
 *   FAULT_NO_EXCHANGE=1    the file system cannot exchange: renameat2 gives EINVAL for it
 *   FAULT_NO_SYNC=1        syncing does nothing: for many runs, where processes die and machines
 *   do not
 *
 * A program that this one starts is left alone.  Counted are the calls that the program and its
 * libraries make to libc; every change of a file goes through one of them. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum Class {
    OPEN,
    READ,
    WRITE,
    SYNC,
    RENAME,
    ALLOC,
    ANY
} Class;

static const char *const class_names[] = {"open",   "read",  "write", "sync",
                                          "rename", "alloc", "any"};

static const struct {
    const char *name;
    int error, sig;
} actions[] = {
    {"ENOSPC", ENOSPC, 0}, {"EIO", EIO, 0},       {"EDQUOT", EDQUOT, 0}, {"ENOMEM", ENOMEM, 0},
    {"EINTR", EINTR, 0},   {"EACCES", EACCES, 0}, {"EMFILE", EMFILE, 0}, {"EROFS", EROFS, 0},
    {"kill", 0, SIGKILL},  {"INT", 0, SIGINT},    {"INT2", 0, SIGINT},   {"TERM", 0, SIGTERM},
    {"HUP", 0, SIGHUP},    {"PIPE", 0, SIGPIPE},  {"short", -1, 0},      {"none", 0, 0},
};

static Class watched = ANY;
static long first;
static bool later_ones, active, no_sync, no_exchange;
static int action = sizeof actions / sizeof actions[0] - 1;
static atomic_long calls;
static char count_path[4096];

__attribute__((constructor)) static void begin(void)
{
    const char *fault = getenv("FAULT"), *count = getenv("FAULT_COUNT");
    char class_name[16] = "", name[16] = "", plus[2] = "";
    if (!fault ||
        (sscanf(fault, "%15[a-z]:%ld%1[+]:%15s", class_name, &first, plus, name) != 4 &&
         sscanf(fault, "%15[a-z]:%ld:%15s", class_name, &first, name) != 3))
        return;
    int c = 0, n = 0;
    while (c < ANY && strcmp(class_names[c], class_name))
        c++;
    while (n < action && strcmp(actions[n].name, name))
        n++;
    watched = (Class)c;
    action = n;
    later_ones = plus[0];
    no_sync = getenv("FAULT_NO_SYNC");
    no_exchange = getenv("FAULT_NO_EXCHANGE");
    if (count)
        snprintf(count_path, sizeof count_path, "%s", count);
    unsetenv("LD_PRELOAD");
    unsetenv("FAULT");
    unsetenv("FAULT_COUNT");
    active = true;
}

__attribute__((destructor)) static void end(void)
{
    if (!active || !count_path[0])
        return;
    active = false;
    FILE *f = fopen(count_path, "w");
    if (f) {
        fprintf(f, "%ld\n", atomic_load(&calls));
        fclose(f);
    }
}

/* 0, an errno, or a negative special action for this call. */
static int strike(Class class)
{
    if (!active || (watched != ANY && watched != class) || (watched == ANY && class == ALLOC))
        return 0;
    const long k = atomic_fetch_add(&calls, 1) + 1;
    if (k != first && !(later_ones && k > first))
        return 0;
    if (actions[action].sig) {
        raise(actions[action].sig);
        if (!strcmp(actions[action].name, "INT2"))
            raise(actions[action].sig);
    }
    return actions[action].error;
}

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* NAME's own type; the address is looked up at each call, which needs no state. */
#define REAL(name) ((__typeof__(&name))(uintptr_t)real(#name))
#define STRIKE(class, failed)         \
    do {                              \
        const int e_ = strike(class); \
        if (e_ > 0) {                 \
            errno = e_;               \
            return failed;            \
        }                             \
    } while (0)

#pragma GCC visibility push(default)

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    STRIKE(OPEN, -1);
    return REAL(open)(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    STRIKE(OPEN, NULL);
    return REAL(fopen)(path, mode);
}

int mkdir(const char *path, mode_t mode)
{
    STRIKE(OPEN, -1);
    return REAL(mkdir)(path, mode);
}

int memfd_create(const char *name, unsigned flags)
{
    STRIKE(OPEN, -1);
    return REAL(memfd_create)(name, flags);
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    STRIKE(RENAME, -1);
    return REAL(linkat)(from_fd, from, to_fd, to, flags);
}

int rename(const char *from, const char *to)
{
    STRIKE(RENAME, -1);
    return REAL(rename)(from, to);
}

int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    if (active && flags & RENAME_EXCHANGE && no_exchange) {
        errno = EINVAL;
        return -1;
    }
    STRIKE(RENAME, -1);
    return REAL(renameat2)(from_fd, from, to_fd, to, flags);
}

int unlink(const char *path)
{
    STRIKE(RENAME, -1);
    return REAL(unlink)(path);
}

int rmdir(const char *path)
{
    STRIKE(RENAME, -1);
    return REAL(rmdir)(path);
}

int fchmod(int fd, mode_t mode)
{
    STRIKE(RENAME, -1);
    return REAL(fchmod)(fd, mode);
}

int ftruncate(int fd, off_t size)
{
    STRIKE(WRITE, -1);
    return REAL(ftruncate)(fd, size);
}

int fsync(int fd)
{
    STRIKE(SYNC, -1);
    return no_sync ? 0 : REAL(fsync)(fd);
}

ssize_t read(int fd, void *to, size_t n)
{
    STRIKE(READ, -1);
    return REAL(read)(fd, to, n);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    const int e = strike(READ);
    if (e > 0) {
        errno = e;
        return -1;
    }
    return REAL(pread)(fd, to, e == -1 ? (n + 1) / 2 : n, at);
}

ssize_t write(int fd, const void *from, size_t n)
{
    const int e = strike(WRITE);
    if (e > 0) {
        errno = e;
        return -1;
    }
    return REAL(write)(fd, from, e == -1 ? (n + 1) / 2 : n);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    const int e = strike(WRITE);
    if (e > 0) {
        errno = e;
        return -1;
    }
    return REAL(pwrite)(fd, from, e == -1 ? (n + 1) / 2 : n, at);
}

/* libc's streams write without any call that could be replaced: their flush stands for it. */
int fflush(FILE *f)
{
    STRIKE(WRITE, EOF);
    return REAL(fflush)(f);
}

int fclose(FILE *f)
{
    const int e = strike(WRITE);
    const int r = REAL(fclose)(f);
    if (e <= 0)
        return r;
    errno = e;
    return EOF;
}

/* glibc's own allocator, under the names that it keeps for replacements. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    STRIKE(ALLOC, NULL);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    STRIKE(ALLOC, NULL);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    STRIKE(ALLOC, NULL);
    return __libc_realloc(p, n);
}
#pragma GCC visibility pop
