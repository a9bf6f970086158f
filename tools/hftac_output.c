/* Where hftac writes: every output goes through output_write.
 *
 * A regular file is written without a name and takes its place at the end
 * (runtime/files/atomic_file.h).  Signals that end the program wait for that short while, so that
 * it leaves either nothing or all of it. */
#include "tools/hftac_output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/files/atomic_file.h"
#include "tools/program.h"

void output_begin(void)
{
    standard_files_open();
    signal(SIGXFSZ, SIG_IGN);
}

bool is_special(const char *path)
{
    struct stat st;
    return !stat(path, &st) && !S_ISREG(st.st_mode);
}

void output_check(const Inputs *inputs, const char *path)
{
    struct stat out, in;
    if (!strcmp(path, "-") || stat(path, &out) || !S_ISREG(out.st_mode))
        return;
    for (int i = 0; i < inputs->n; i++)
        if (!stat(inputs->paths[i], &in) && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
            die(EXIT_USAGE, "the output would overwrite '%s', which is read", path);
}

static void write_special(const char *path, const Text *content)
{
    FILE *f = fopen(path, "we");
    const bool wrote = f && fwrite(content->s, 1, content->len, f) == content->len;
    if (!f || (fclose(f) | !wrote))
        die(EXIT_FILE, "cannot write '%s': %s", path, strerror(errno));
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

void output_write(const Inputs *inputs, const char *path, const Text *content)
{
    if (!strcmp(path, "-")) {
        fwrite(content->s, 1, content->len, stdout);
        stdout_flush();
        return;
    }
    output_check(inputs, path);
    if (is_special(path)) {
        write_special(path, content);
        return;
    }
    AtomicFile *file;
    hold_signals(SIG_BLOCK);
    hftac_status s = hft_file_create(path, &file);
    if (!s)
        s = hft_file_put(file, content->s, content->len);
    hold_signals(SIG_UNBLOCK);
    if (s)
        die(EXIT_FILE, "%s", hftac_last_error());
}
