/* Linking with ld: objects in, one shared object out, nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
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

/* Starts args[0] with its output in a pipe; 0, or the error number. */
static int start(char *const *args, pid_t *child, int *output)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return errno;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
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
static bool run(Arena *a, char *const *args, const char **error, bool *tool_missing)
{
    pid_t child;
    int output = -1;
    const int failed = start(args, &child, &output);
    if (failed) {
        *tool_missing = failed == ENOENT;
        *error = arena_printf(a, "cannot run %s: %s%s", args[0], strerror(failed),
                              *tool_missing ? " (it is part of binutils)" : "");
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

static char *const *link_command(Arena *a, int n, const char *const *objects,
                                 const char *output)
{
    static const char *const fixed[] = {"ld",
                                        "-shared",
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
    char **args = arena_array(a, (size_t)(n_fixed + n + 2), sizeof *args);
    for (int i = 0; i < n_fixed; i++)
        args[i] = arena_strdup(a, fixed[i]);
    args[n_fixed] = arena_strdup(a, output);
    for (int i = 0; i < n; i++)
        args[n_fixed + 1 + i] = arena_strdup(a, objects[i]);
    return args;
}

bool link_objects(Arena *a, int n, const char *const *objects, const char *path, bool verbose,
                  const char **error, bool *tool_missing)
{
    const char *temporary = arena_printf(a, "%s.tmp%ld", path, (long)getpid());
    char *const *args = link_command(a, n, objects, temporary);
    *tool_missing = false;
    if (verbose)
        print_command(args);
    if (!run(a, args, error, tool_missing)) {
        unlink(temporary);
        *error = trimmed(a, *error);
        return false;
    }
    if (!model_stamp(a, temporary, error)) {
        unlink(temporary);
        return false;
    }
    if (rename(temporary, path)) {
        *error = arena_printf(a, "cannot write %s: %s", path, strerror(errno));
        unlink(temporary);
        return false;
    }
    return true;
}

bool link_shared(Arena *a, const char *object, const char *path, bool verbose,
                 const char **error, bool *tool_missing)
{
    return link_objects(a, 1, &object, path, verbose, error, tool_missing);
}
