/* Linking with ld: objects in, one shared object out, nothing else, and no file of that on a
 * disk. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "ir/support/text.h"

extern char **environ;

static void print_command(char *const *args)
{
    for (int i = 0; args[i]; i++)
        fprintf(stderr, "%s%s", i ? " " : "", args[i]);
    fputc('\n', stderr);
}

/* Reads everything that the child writes. */
static void collect(int fd, Text *out)
{
    char buffer[4096];
    for (;;) {
        const ssize_t n = read(fd, buffer, sizeof buffer);
        if (n > 0)
            text_addn(out, buffer, (size_t)n);
        else if (n == 0 || errno != EINTR)
            return;
    }
}

/* Starts args[0] with what it says in a pipe, and its standard output there too or, if there is
 * one, in `to`; 0, or the error number. */
static int start(char *const *args, int to, pid_t *child, int *output)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return errno;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to < 0 ? ends[1] : to, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    if (to >= 0)
        posix_spawn_file_actions_addchdir_np(&actions, "/proc");
    const int failed = posix_spawnp(child, args[0], &actions, NULL, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed)
        close(ends[0]);
    else
        *output = ends[0];
    return failed;
}

/* Runs the command; true if it ended with 0. */
static bool run(Arena *a, char *const *args, int to, const char **error, bool *tool_missing)
{
    pid_t child;
    int output = -1;
    const int failed = start(args, to, &child, &output);
    if (failed) {
        *tool_missing = failed == ENOENT;
        *error = arena_printf(a, "cannot run %s: %s", args[0], strerror(failed));
        return false;
    }
    Text said;
    text_init(&said, a);
    collect(output, &said);
    close(output);
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) {
            *error = arena_printf(a, "lost %s: %s", args[0], strerror(errno));
            return false;
        }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    *error = arena_printf(a, "linking failed: %s", said.len ? said.s : "ld gave no reason");
    return false;
}

/* Without the newline that ends ld's message. */
static const char *trimmed(Arena *a, const char *s)
{
    size_t n = strlen(s);
    while (n > 0 && s[n - 1] == '\n')
        n--;
    return arena_strndup(a, s, n);
}

static const char *memory_path(Arena *a, int fd)
{
    return arena_printf(a, "/proc/self/fd/%d", fd);
}

static char *const *link_command(Arena *a, const char *linker, int n, const int *fds,
                                 const char *output)
{
    static const char *const fixed[] = {"-shared",
                                        "-z",
                                        "noexecstack",
                                        "-z",
                                        "defs",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "now",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "-o"};
    const int n_fixed = (int)(sizeof fixed / sizeof *fixed);
    char **args = arena_array(a, (size_t)(n_fixed + n + 3), sizeof *args);
    int k = 0;
    args[k++] = arena_strdup(a, linker);
    for (int i = 0; i < n_fixed; i++)
        args[k++] = arena_strdup(a, fixed[i]);
    args[k++] = arena_strdup(a, output);
    for (int i = 0; i < n; i++)
        args[k++] = arena_strdup(a, memory_path(a, fds[i]));
    return args;
}

/* ---- Files in memory ---- */

/* Open for the linker too, which finds it as /proc/self/fd/N; -1 with errno. */
static int memory_file(const Text *content)
{
    const int fd = memfd_create("hftac", 0);
    size_t at = 0;
    while (fd >= 0 && content && at < content->len) {
        const ssize_t n = write(fd, content->s + at, content->len - at);
        if (n > 0) {
            at += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            const int failed = n == 0 ? ENOSPC : errno;
            close(fd);
            errno = failed;
            return -1;
        }
    }
    return fd;
}

/* What the linker wrote, with its hash. */
static bool read_output(Arena *a, int fd, Text *out, const char **error)
{
    char *buffer = arena_array(a, 1 << 16, 1);
    off_t at = 0;
    for (ssize_t n; (n = pread(fd, buffer, 1 << 16, at)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            *error = arena_printf(a, "cannot read what ld wrote: %s", strerror(errno));
            return false;
        }
        text_addn(out, buffer, (size_t)n);
        at += n;
    }
    if (out->len && model_stamp(out))
        return true;
    *error = "ld linked no model.so with hftac's note";
    return false;
}

/* Links with one linker.  LLVM's cannot write into a file in memory that is named to it: it wants
 * to make a file beside it.  It, gold and mold write to standard output if the output is "-".
 * They work in /proc meanwhile, where no file can be called "-": LLVM's would remove it, and GNU ld
 * would write one. */
static bool link_with(Arena *a, const char *linker, int n, const int *fds, bool verbose,
                      const char **error, bool *tool_missing)
{
    char *const *args = link_command(a, linker, n, fds, memory_path(a, fds[n]));
    if (verbose)
        print_command(args);
    *tool_missing = false;
    if (run(a, args, -1, error, tool_missing))
        return true;
    const char *ignored; /* the first message is the one that tells */
    bool also_missing;
    if (*tool_missing || ftruncate(fds[n], 0))
        return false;
    args = link_command(a, linker, n, fds, "-");
    if (!run(a, args, fds[n], &ignored, &also_missing))
        return false;
    if (verbose)
        print_command(args);
    return true;
}

/* GNU ld by its own name first: others replace the file that they are to write. */
static bool link_files(Arena *a, int n, const int *fds, bool verbose, const char **error,
                       bool *tool_missing)
{
    static const char *const linkers[] = {"ld.bfd", "ld", "ld.lld", "ld.gold"};
    for (size_t i = 0; i < sizeof linkers / sizeof *linkers; i++) {
        if (link_with(a, linkers[i], n, fds, verbose, error, tool_missing))
            return true;
        if (!*tool_missing)
            break;
    }
    *error = *tool_missing ? "cannot run ld: No such file or directory (it is part of binutils)"
                           : trimmed(a, *error);
    return false;
}

bool link_objects(Arena *a, int n, const Text *objects, bool verbose, Text *out,
                  const char **error, bool *tool_missing)
{
    *tool_missing = false;
    int *fds = arena_array(a, (size_t)n + 1, sizeof *fds);
    int opened = 0;
    while (opened <= n &&
           (fds[opened] = memory_file(opened < n ? &objects[opened] : NULL)) >= 0)
        opened++;
    bool ok = opened > n;
    if (!ok)
        *error = arena_printf(a, "cannot keep the objects in memory: %s", strerror(errno));
    else
        ok = link_files(a, n, fds, verbose, error, tool_missing) &&
             read_output(a, fds[n], out, error);
    for (int i = 0; i < opened; i++)
        close(fds[i]);
    return ok;
}
