/* Loads a program: the root file and all files that it includes, each of them once.
 *
 * An include is looked for beside the file that names it first, then in the -I directories.  Two
 * paths that lead to one file (the same device and inode) are one file, so includes in a circle
 * end. */
#include "frontend/frontend.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/support/input.h"

enum {
    MAX_DEPTH = 64
};

/* What two paths to one file have in common. */
typedef struct FileId {
    dev_t dev;
    ino_t ino;
} FileId;

typedef struct Loader {
    Arena *a;
    Diag *d;
    const FrontendOptions *o;
    Program *out;
    int cap_files;
    FileId *loaded;
    int n_loaded, cap_loaded;
    int depth;
    bool not_found;
} Loader;

static bool loaded_before(Loader *l, const struct stat *st)
{
    for (int i = 0; i < l->n_loaded; i++)
        if (l->loaded[i].dev == st->st_dev && l->loaded[i].ino == st->st_ino)
            return true;
    if (l->n_loaded == l->cap_loaded)
        l->loaded = arena_grow(l->a, l->loaded, &l->cap_loaded, sizeof *l->loaded);
    l->loaded[l->n_loaded++] = (FileId){st->st_dev, st->st_ino};
    return false;
}

static void cannot_read(Loader *l, SrcRange at, const char *path, int error)
{
    diag_error(l->d, at, "cannot read %s: %s", path, input_error(error));
    l->not_found = true;
}

static void load_includes(Loader *l, const Ast *t);

static void load_fd(Loader *l, int fd, const char *path, SrcRange at)
{
    size_t len = 0;
    const char *text = input_read(l->a, fd, &len);
    if (!text) {
        cannot_read(l, at, path, errno);
        return;
    }
    const int file = diag_add_source(l->d, arena_strdup(l->a, path), text, len, false);
    Ast *t = hdl_parse(l->a, l->d, file);
    if (!t)
        return;
    if (l->out->n_files == l->cap_files)
        l->out->files = arena_grow(l->a, l->out->files, &l->cap_files, sizeof *l->out->files);
    l->out->files[l->out->n_files++] = t;
    load_includes(l, t);
}

/* The directory part of a path with its last slash, or "". */
static const char *directory(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, (size_t)(slash - path) + 1) : "";
}

/* -1 if there is no such file anywhere; *path: what was opened. */
static int open_include(const Loader *l, const char *from, const char *name, const char **path,
                        struct stat *st)
{
    *path = name;
    if (name[0] == '/')
        return input_open(name, st);
    *path = arena_printf(l->a, "%s%s", directory(l->a, from), name);
    int fd = input_open(*path, st);
    const int error = errno;
    for (int i = 0; fd < 0 && i < l->o->n_include_dirs; i++) {
        const char *other = arena_printf(l->a, "%s/%s", l->o->include_dirs[i], name);
        if ((fd = input_open(other, st)) >= 0)
            *path = other;
    }
    errno = error;
    return fd;
}

static void load_include(Loader *l, const char *from, const Ast *include)
{
    const char *path;
    struct stat st;
    const int fd = open_include(l, from, include->name, &path, &st);
    if (fd < 0) {
        cannot_read(l, include->loc, path, errno);
        return;
    }
    if (!loaded_before(l, &st))
        load_fd(l, fd, path, include->loc);
    close(fd);
}

static void load_includes(Loader *l, const Ast *t)
{
    if (++l->depth > MAX_DEPTH) {
        diag_error(l->d, t->loc, "includes nest more than %d deep", MAX_DEPTH);
    } else {
        for (int i = 0; i < t->n && !diag_full(l->d); i++)
            if (t->kid[i]->kind == AST_INCLUDE)
                load_include(l, t->name, t->kid[i]);
    }
    l->depth--;
}

bool program_load(Arena *a, Diag *d, const char *path, const FrontendOptions *o, Program *out,
                  bool *not_found)
{
    const int errors = diag_errors(d);
    *out = (Program){0};
    Loader l = {.a = a, .d = d, .o = o, .out = out};
    struct stat st;
    const bool is_stdin = !strcmp(path, "-");
    const int fd = is_stdin ? STDIN_FILENO : input_open(path, &st);
    if (fd < 0 || (is_stdin && fstat(fd, &st) != 0)) {
        cannot_read(&l, SRC_NONE, path, errno);
    } else {
        loaded_before(&l, &st);
        load_fd(&l, fd, is_stdin ? "<stdin>" : path, SRC_NONE);
    }
    if (fd >= 0 && !is_stdin)
        close(fd);
    *not_found = l.not_found;
    return diag_errors(d) == errors;
}
