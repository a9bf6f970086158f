/* Where hftac writes: every output goes through output_write.
 *
 * A regular file is written without a name and takes its place at the end (runtime/atomic_file.h).
 * Signals that end the program wait for that short while, so that it leaves either nothing or all
 * of it. */
#include "tools/hftac_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/atomic_file.h"

_Noreturn void file_error(const char *text)
{
    fprintf(stderr, "hftac: error: %s\n", text);
    exit(EXIT_FILE);
}

void output_begin(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    signal(SIGXFSZ, SIG_IGN);
}

void output_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    fprintf(stderr, "hftac: error: cannot write to standard output: %s\n", strerror(errno));
    exit(EXIT_FILE);
}

bool is_special(const char *path)
{
    struct stat st;
    return !stat(path, &st) && !S_ISREG(st.st_mode);
}

void output_check(Arena *a, const Inputs *inputs, const char *path)
{
    struct stat out, in;
    if (!strcmp(path, "-") || stat(path, &out) || !S_ISREG(out.st_mode))
        return;
    for (int i = 0; i < inputs->n; i++)
        if (!stat(inputs->paths[i], &in) && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino) {
            fprintf(stderr, "hftac: error: %s\nTry 'hftac --help'.\n",
                    arena_printf(a, "the output would overwrite '%s', which is read", path));
            exit(EXIT_USAGE);
        }
}

static void write_special(Arena *a, const char *path, const Text *content)
{
    FILE *f = fopen(path, "we");
    const bool wrote = f && fwrite(content->s, 1, content->len, f) == content->len;
    if (!f || (fclose(f) | !wrote))
        file_error(arena_printf(a, "cannot write '%s': %s", path, strerror(errno)));
}

static void hold_signals(int how)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(how, &ends, NULL);
}

void output_write(Arena *a, const Inputs *inputs, const char *path, const Text *content)
{
    if (!strcmp(path, "-")) {
        fwrite(content->s, 1, content->len, stdout);
        output_flush();
        return;
    }
    output_check(a, inputs, path);
    if (is_special(path)) {
        write_special(a, path, content);
        return;
    }
    AtomicFile *file;
    hold_signals(SIG_BLOCK);
    hftac_status s = hft_file_create(path, &file);
    if (!s)
        s = hft_file_put(file, content->s, content->len);
    hold_signals(SIG_UNBLOCK);
    if (s)
        file_error(hftac_last_error());
}
