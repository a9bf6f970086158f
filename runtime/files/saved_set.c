/* Sets of files that are exchanged as one: the folder beside, its exchange, and the choice between
 * exchange and in place (saved_place.c).
 *
 * The folder that a set is written into is locked (flock) as long as its process lives.  One
 * that nobody locks was left by a killed process; the next save removes it (left_over.c). */
#include "runtime/files/saved_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/files/left_over.h"
#include "runtime/files/saved_place.h"

enum {
    TRIES = 100
};

struct SavedSet {
    SetMember *is_member;
    char *folder; /* without links in it */
    char *staged; /* the new set's */
    bool exists, beside;
    int lock;
};

/* ---- Which way ---- */

static bool is_own(void *context, const char *folder, const char *name)
{
    SetMember *const *is_member = context;
    char *path = hft_join(folder, name);
    struct stat st;
    const bool own = (*is_member)(name) && path && lstat(path, &st) == 0 && S_ISREG(st.st_mode);
    free(path);
    return own;
}

static bool is_mount_point(const char *folder, dev_t dev, dev_t parent_dev)
{
    struct statx x;
    if (dev != parent_dev)
        return true;
    return statx(AT_FDCWD, folder, 0, 0, &x) == 0 &&
           (x.stx_attributes_mask & x.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* A new folder could take the place of this one and nobody would miss anything. */
static bool can_exchange(const char *folder, const char *parent, SetMember *is_member)
{
    struct stat st, up, here;
    return stat(folder, &st) == 0 && stat(parent, &up) == 0 && st.st_uid == geteuid() &&
           !is_mount_point(folder, st.st_dev, up.st_dev) &&
           (stat(".", &here) != 0 || here.st_dev != st.st_dev || here.st_ino != st.st_ino) &&
           getxattr(folder, "system.posix_acl_access", NULL, 0) < 0 &&
           getxattr(folder, "system.posix_acl_default", NULL, 0) < 0 &&
           hft_each_entry(folder, is_own, &is_member);
}

/* ---- The new set's folder ---- */

/* A locked folder of a fresh name in `where`; errno on failure.  Between mkdir and flock another
 * process may take it for a left one: then the next name is tried. */
static bool stage(SavedSet *s, const char *where)
{
    for (int i = 0; i < TRIES; i++) {
        char name[TEMPORARY_BYTES];
        hft_temporary_name(name);
        free(s->staged);
        s->staged = hft_join(where, name);
        if (!s->staged || mkdir(s->staged, 0777) != 0) {
            if (s->staged && errno == EEXIST)
                continue;
            break;
        }
        s->lock = open(s->staged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->lock >= 0 && hft_left_claim(s->staged, s->lock))
            return true;
        if (s->lock < 0 && errno != ENOENT) {
            const int error = errno;
            rmdir(s->staged);
            errno = error;
            break;
        }
        if (s->lock >= 0)
            close(s->lock);
    }
    const int error = errno;
    free(s->staged);
    s->staged = NULL;
    s->lock = -1;
    errno = error;
    return false;
}

static void remove_left(void *context, const char *path)
{
    SetMember *const *is_member = context;
    hft_set_remove(path, *is_member);
}

/* ---- Beginning ---- */

static hftac_status no_folder(const char *folder, int error)
{
    return hft_fail_file(folder, "cannot make the folder", error);
}

/* The folder's path without links, and whether it is there. */
static hftac_status resolve(const char *folder, SavedSet *s)
{
    struct stat st;
    s->folder = realpath(folder, NULL);
    if (s->folder) {
        s->exists = true;
        return stat(s->folder, &st) == 0 && S_ISDIR(st.st_mode) ? HFTAC_OK
                                                                : no_folder(folder, ENOTDIR);
    }
    if (errno != ENOENT || lstat(folder, &st) == 0)
        return no_folder(folder, errno == ENOENT ? ENOENT : errno);
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    char *path = strndup(folder, n), *parent = path ? hft_folder_of(path) : NULL;
    char *real = parent ? realpath(parent, NULL) : NULL;
    const int error = parent ? errno : ENOMEM;
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (real)
        s->folder = hft_join(real, slash ? slash + 1 : path);
    const bool ok = s->folder != NULL;
    free(real);
    free(parent);
    free(path);
    return ok ? HFTAC_OK : no_folder(folder, real ? ENOMEM : error);
}

/* Beside the folder if an exchange can follow, else inside of it. */
static hftac_status stage_somewhere(SavedSet *s, const char *folder)
{
    char *parent = hft_folder_of(s->folder);
    if (!parent)
        return hft_fail_memory("a path", strlen(folder));
    hft_left_remove(parent, remove_left, &s->is_member);
    if (s->exists)
        hft_left_remove(s->folder, remove_left, &s->is_member);
    if (!s->exists || can_exchange(s->folder, parent, s->is_member))
        s->beside = stage(s, parent);
    int error = errno;
    free(parent);
    if (!s->beside && s->exists) {
        const bool staged = stage(s, s->folder);
        error = errno;
        if (!staged)
            return hft_fail_file(folder, "cannot write into the folder", error);
    }
    return s->staged ? HFTAC_OK : no_folder(folder, error);
}

hftac_status hft_set_begin(const char *folder, SetMember *is_member, SavedSet **set)
{
    *set = NULL;
    SavedSet *s = calloc(1, sizeof *s);
    if (!s)
        return hft_fail_memory("a saved set", sizeof *s);
    s->is_member = is_member;
    s->lock = -1;
    hftac_status status = resolve(folder, s);
    if (!status && s->exists)
        status = hft_place_finish(s->folder, is_member);
    if (!status)
        status = stage_somewhere(s, folder);
    if (status)
        hft_set_abort(s);
    else
        *set = s;
    return status;
}

hftac_status hft_set_create(const SavedSet *s, const char *name, AtomicFile **file)
{
    *file = NULL;
    struct stat st;
    char *path = hft_join(s->staged, name), *old = hft_join(s->folder, name);
    hftac_status status = HFTAC_OK;
    if (!path || !old)
        status = hft_fail_memory("a path", strlen(name));
    else if (lstat(old, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        status =
            hft_fail(HFTAC_FILE, "%s: cannot write: it exists and is not a regular file", old);
    else
        status = hft_file_create_plain(path, file);
    free(path);
    free(old);
    return status;
}

/* ---- The step ---- */

/* The new folder has the old one's rights. */
static bool same_mode(const SavedSet *s)
{
    struct stat st;
    return stat(s->folder, &st) == 0 && fchmod(s->lock, st.st_mode & 07777) == 0;
}

/* What was put into the old folder since it was looked at. */
static bool keep_others(void *context, const char *folder, const char *name)
{
    const SavedSet *s = context;
    char *from = hft_join(folder, name), *to = hft_join(s->folder, name);
    if (from && to && !s->is_member(name))
        renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    free(from);
    free(to);
    return true;
}

static bool exchange(SavedSet *s)
{
    if (!s->exists &&
        renameat2(AT_FDCWD, s->staged, AT_FDCWD, s->folder, RENAME_NOREPLACE) == 0)
        return true;
    if (!s->exists && errno == EINVAL && rename(s->staged, s->folder) == 0)
        return true;
    if (!s->exists && errno != EEXIST && errno != ENOTEMPTY)
        return false;
    if (!same_mode(s) ||
        renameat2(AT_FDCWD, s->staged, AT_FDCWD, s->folder, RENAME_EXCHANGE) != 0)
        return false;
    s->exists = true;
    return true;
}

static hftac_status commit_beside(SavedSet *s)
{
    const bool existed = s->exists;
    if (!exchange(s)) {
        const int error = errno;
        struct stat st;
        if (stat(s->folder, &st) == 0 && S_ISDIR(st.st_mode))
            return hft_place(s->folder, s->staged, s->is_member);
        return hft_fail_file(s->folder, "cannot put the saved files in place", error);
    }
    char *parent = hft_folder_of(s->folder);
    if (parent)
        hft_sync_folder(parent);
    free(parent);
    if (existed || s->exists) { /* the old set's name is now the staged one's */
        hft_each_entry(s->staged, keep_others, s);
        hft_set_remove(s->staged, s->is_member);
    }
    free(s->staged);
    s->staged = NULL;
    return HFTAC_OK;
}

static void set_free(SavedSet *s)
{
    if (s->lock >= 0)
        close(s->lock);
    free(s->folder);
    free(s->staged);
    free(s);
}

hftac_status hft_set_commit(SavedSet *s)
{
    hft_sync_folder(s->staged);
    const hftac_status status =
        s->beside ? commit_beside(s) : hft_place(s->folder, s->staged, s->is_member);
    if (status)
        hft_set_abort(s);
    else
        set_free(s);
    return status;
}

void hft_set_abort(SavedSet *s)
{
    if (!s)
        return;
    if (s->staged)
        hft_set_remove(s->staged, s->is_member);
    set_free(s);
}
