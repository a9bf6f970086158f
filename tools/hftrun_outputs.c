/* Where results go: whether that can be written, and is nothing that is read, before any time is
 * spent on training. */
#include "tools/hftrun.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_BYTES = 8192 /* longer ones do not open */
};

/* ---- Nothing that is read is overwritten ---- */

static bool same_file(const struct stat *a, const char *path)
{
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

/* The file is `path`, or one of those in the folder `path`. */
static bool is_read_at(const struct stat *file, const char *path)
{
    if (same_file(file, path))
        return true;
    DIR *d = opendir(path);
    bool found = false;
    char inside[PATH_BYTES];
    for (const struct dirent *e; d && !found && (e = readdir(d));) {
        snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        found = same_file(file, inside);
    }
    if (d)
        closedir(d);
    return found;
}

/* What `output` (given by `option`) names is none of the inputs.  A set may take the place of the
 * one that was loaded. */
static void check_output(const Options *o, const char *option, const char *output, bool is_set)
{
    const struct {
        const char *option, *path;
    } inputs[] = {{"the model", o->model}, {"--train", o->train},         {"--valid", o->valid},
                  {"--test", o->test},     {"--hypers", o->hypers_table}, {"--load", o->load}};
    const size_t n = sizeof inputs / sizeof inputs[0] - (is_set ? 1 : 0);
    struct stat st;
    if (stat(output, &st) != 0 || S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode))
        return;
    for (size_t i = 0; i < n; i++)
        if (inputs[i].path && is_read_at(&st, inputs[i].path))
            die(EXIT_USAGE, "%s would overwrite %s, which is read (%s)", option, output,
                inputs[i].option);
}

static bool is_set_member(const char *name)
{
    return strncmp(name, "model-", 6) == 0 || strcmp(name, "hypers.json") == 0;
}

static void check_set(const Options *o)
{
    DIR *d = opendir(o->save);
    char path[PATH_BYTES];
    for (const struct dirent *e; d && (e = readdir(d));)
        if (is_set_member(e->d_name)) {
            snprintf(path, sizeof path, "%s/%s", o->save, e->d_name);
            check_output(o, "--save", path, true);
        }
    if (d)
        closedir(d);
}

static void check_different(const char *a, const char *b, const char *options)
{
    struct stat st;
    if (a && b &&
        (strcmp(a, b) == 0 || (stat(a, &st) == 0 && S_ISREG(st.st_mode) && same_file(&st, b))))
        die(EXIT_USAGE, "%s write to the same file, %s", options, a);
}

/* ---- What is written can be written ---- */

/* A log is written where it stands; what stands there now is not touched yet. */
static void try_log(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        check(hftac_try_file(path));
        return;
    }
    if (S_ISDIR(st.st_mode))
        errno = EISDIR;
    if (S_ISDIR(st.st_mode) || faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        die(EXIT_FILE, "cannot write '%s': %s", path, strerror(errno));
}

void outputs_try(const Options *o)
{
    const struct {
        const char *option, *path;
    } files[] = {{"--log", o->log}, {"--csv", o->csv}, {"--predict", o->predict}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (files[i].path)
            check_output(o, files[i].option, files[i].path, false);
    check_different(o->log, o->csv, "--log and --csv");
    check_different(o->log, o->predict, "--log and --predict");
    check_different(o->csv, o->predict, "--csv and --predict");
    if (o->save)
        check_set(o);
    if (o->log)
        try_log(o->log);
    if (o->csv)
        try_log(o->csv);
    if (o->predict)
        check(hftac_try_file(o->predict));
    if (o->save)
        check(hftac_try_save(o->save));
}
