/* Putting a set in place inside of its folder, so that a process killed at any moment leaves the
 * old set or the new one for hft_set_find.
 *
 * The list of members is the word that counts: while folder/.hftac-new/members is there, the set
 * is what it lists, each file to be found in .hftac-new or, if it has moved already, in the
 * folder.  The list goes last. */
#include "runtime/files/saved_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/error.h"

static const char new_name[] = HFT_TEMPORARY_PREFIX "new", list_name[] = "members";

bool hft_each_entry(const char *folder, SetVisit *visit, void *context)
{
    DIR *d = opendir(folder);
    if (!d)
        return false;
    bool went = true;
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        went = e || errno == 0;
        if (!e)
            break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (!(went = visit(context, folder, e->d_name)))
            break;
    }
    const int error = errno;
    closedir(d);
    errno = error;
    return went;
}

static bool remove_member(void *context, const char *folder, const char *name)
{
    SetMember *const *is_member = context;
    char *path =
        (*is_member)(name) || strcmp(name, list_name) == 0 ? hft_join(folder, name) : NULL;
    if (path)
        unlink(path);
    free(path);
    return true;
}

void hft_set_remove(const char *folder, SetMember *is_member)
{
    hft_each_entry(folder, remove_member, &is_member);
    rmdir(folder);
}

/* ---- The list ---- */

/* The names, one a line, each ended by a newline; NULL with *error 0 if there is no list. */
static char *read_list(const char *folder, int *error)
{
    char *inside = hft_join(folder, new_name),
         *path = inside ? hft_join(inside, list_name) : NULL;
    FILE *f = path ? fopen(path, "re") : NULL;
    *error = path && (f || errno == ENOENT) ? 0 : path ? errno : ENOMEM;
    char *text = NULL;
    size_t n = 0;
    if (f && getdelim(&text, &n, 0, f) < 0) {
        *error = feof(f) ? 0 : ENOMEM;
        free(text);
        text = *error ? NULL : strdup("");
    }
    if (f)
        fclose(f);
    free(path);
    free(inside);
    return text;
}

static bool is_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *line = list; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, n) == 0 && line[n] == '\n')
            return true;
        if (!strchr(line, '\n'))
            break;
    }
    return false;
}

char *hft_set_find(const char *folder, const char *name)
{
    int error;
    char *list = read_list(folder, &error);
    if (!list)
        return error == ENOMEM ? NULL : hft_join(folder, name);
    char *inside = hft_join(folder, new_name), *staged = inside ? hft_join(inside, name) : NULL;
    const bool moved = is_listed(list, name) && staged && access(staged, F_OK) != 0;
    free(list);
    free(inside);
    if (!moved)
        return staged; /* not listed: there is none there, and an old one does not count */
    free(staged);
    return hft_join(folder, name);
}

typedef struct Listing {
    SetMember *is_member;
    char *text;
    size_t length;
} Listing;

static bool add_name(void *context, const char *folder, const char *name)
{
    (void)folder;
    Listing *l = context;
    const size_t n = strlen(name);
    char *longer = realloc(l->text, l->length + n + 2);
    if (!longer)
        return false;
    l->text = longer;
    memcpy(l->text + l->length, name, n);
    memcpy(l->text + l->length + n, "\n", 2);
    l->length += n + 1;
    return true;
}

static hftac_status write_list(const char *staged)
{
    Listing l = {.text = strdup("")};
    if (!l.text || !hft_each_entry(staged, add_name, &l)) {
        free(l.text);
        return hft_fail_memory("the list of a saved set", l.length);
    }
    AtomicFile *file;
    char *path = hft_join(staged, list_name);
    hftac_status s =
        path ? hft_file_create_plain(path, &file) : hft_fail_memory("a path", strlen(staged));
    if (!s)
        s = hft_file_put(file, l.text, l.length);
    if (!s)
        hft_sync_folder(staged);
    free(path);
    free(l.text);
    return s;
}

/* ---- The moves ---- */

typedef struct Moves {
    const char *to, *list;
    SetMember *is_member;
} Moves;

/* An old member that the new set lacks. */
static bool remove_stale(void *context, const char *folder, const char *name)
{
    const Moves *m = context;
    if (!m->is_member(name) || is_listed(m->list, name))
        return true;
    char *path = hft_join(folder, name);
    const bool ok = path && (unlink(path) == 0 || errno == ENOENT);
    free(path);
    return ok;
}

static bool move_member(void *context, const char *folder, const char *name)
{
    const Moves *m = context;
    if (strcmp(name, list_name) == 0)
        return true;
    char *from = hft_join(folder, name), *to = hft_join(m->to, name);
    const bool ok = from && to && rename(from, to) == 0;
    free(from);
    free(to);
    return ok;
}

static hftac_status move_all(const char *folder, SetMember *is_member)
{
    int error;
    char *list = read_list(folder, &error);
    char *inside = hft_join(folder, new_name);
    hftac_status s = !inside ? hft_fail_memory("a path", strlen(folder))
                     : error ? hft_fail_file(inside, "cannot read the list of members", error)
                             : HFTAC_OK;
    Moves m = {.to = folder, .list = list, .is_member = is_member};
    if (!s && list &&
        (!hft_each_entry(folder, remove_stale, &m) || !hft_each_entry(inside, move_member, &m)))
        s = hft_fail_file(folder, "cannot move the saved files into place", errno);
    if (!s && list)
        hft_sync_folder(folder);
    if (!s && inside)
        hft_set_remove(inside, is_member);
    free(inside);
    free(list);
    return s;
}

/* One process at a time, where the file system has locks. */
static int lock_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0 && errno == EINTR)
        ;
    return fd;
}

static void unlock_folder(int fd)
{
    if (fd >= 0)
        close(fd);
}

hftac_status hft_place_finish(const char *folder, SetMember *is_member)
{
    char *inside = hft_join(folder, new_name);
    if (!inside)
        return hft_fail_memory("a path", strlen(folder));
    hftac_status s = HFTAC_OK;
    if (access(inside, F_OK) == 0) {
        const int lock = lock_folder(folder);
        s = move_all(folder, is_member);
        unlock_folder(lock);
    }
    free(inside);
    return s;
}

hftac_status hft_place(const char *folder, const char *staged, SetMember *is_member)
{
    hftac_status s = write_list(staged);
    if (s)
        return s;
    char *inside = hft_join(folder, new_name);
    if (!inside)
        return hft_fail_memory("a path", strlen(folder));
    const int lock = lock_folder(folder);
    s = move_all(folder, is_member);
    if (!s && rename(staged, inside) != 0)
        s = hft_fail_file(folder, "cannot put the saved files in place", errno);
    if (!s) {
        hft_sync_folder(folder);
        s = move_all(folder, is_member);
    }
    unlock_folder(lock);
    free(inside);
    return s;
}
