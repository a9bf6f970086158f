/* What processes that were killed leave in a folder: files and folders called .hftac- and 16
 * digits.  The next process that writes a file or a set there removes them.
 *
 * Who makes such a file or folder locks it (flock) and keeps it open as long as the name is there;
 * a lock ends with its process.  Removed is only what has such a name, belongs to this user, has
 * no second name, and is locked by nobody.  Where the file system knows no locks nothing is
 * removed. */
#include "runtime/files/left_over.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/atomic_file.h"

static bool names_file(const char *path, int fd)
{
    struct stat a, b;
    return lstat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

bool hft_left_claim(const char *path, int fd)
{
    if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return names_file(path, fd);
}

static bool is_temporary(const char *name)
{
    const size_t n = sizeof HFT_TEMPORARY_PREFIX - 1;
    return strncmp(name, HFT_TEMPORARY_PREFIX, n) == 0 && strlen(name + n) == RANDOM_DIGITS &&
           strspn(name + n, "0123456789abcdef") == RANDOM_DIGITS;
}

/* Of a kind that this program makes: nothing else is even opened. */
static bool may_be_ours(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && st.st_uid == geteuid() &&
           (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 1));
}

static void remove_left(const char *path, LeftFolder *remove_folder, void *context)
{
    struct stat st;
    const int fd =
        may_be_ours(path) ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    const bool dead =
        flock(fd, LOCK_EX | LOCK_NB) == 0 && names_file(path, fd) && fstat(fd, &st) == 0;
    if (dead && S_ISREG(st.st_mode))
        unlink(path);
    else if (dead && S_ISDIR(st.st_mode) && remove_folder)
        remove_folder(context, path);
    close(fd);
}

void hft_left_remove(const char *folder, LeftFolder *remove_folder, void *context)
{
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        char *path = is_temporary(e->d_name) ? hft_join(folder, e->d_name) : NULL;
        if (path)
            remove_left(path, remove_folder, context);
        free(path);
    }
    if (d)
        closedir(d);
}
