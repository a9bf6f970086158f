/* Saved sets: which way they take, what stays and what goes, and what a killed process leaves. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/runtime_test.h"

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static ino_t inode(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

/* The folder's names in order, each with a blank behind it. */
static const char *names(const char *path)
{
    static char text[4096];
    struct dirent **list = NULL;
    const int n = scandir(path, &list, NULL, alphasort);
    text[0] = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i]->d_name, ".") && strcmp(list[i]->d_name, ".."))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return text;
}

/* The set in `path` is that of all models of `a`, or of one. */
static void check_set(hftac_array *a, const char *path, int only)
{
    hftac_array *b = open_fake(1);
    const int32_t slot = only;
    if (only < 0)
        OK(hftac_load(b, path, NULL));
    else
        OK(hftac_load_models(b, &slot, 1, path, NULL));
    for (int m = 0; m < 4; m++) {
        float x[6], y[6];
        OK(hftac_get_param(a, 0, m, x, sizeof x));
        OK(hftac_get_param(b, 0, m, y, sizeof y));
        CHECK((only >= 0 && m != only) || !memcmp(x, y, sizeof x));
    }
    hftac_close(b);
}

static const char all_names[] = "hypers.json model-000.safetensors model-001.safetensors "
                                "model-002.safetensors model-003.safetensors ";

/* One training step, so that every set differs from the one before. */
static void step(hftac_array *a)
{
    feed_fake(a);
    OK(hftac_train_step(a));
}

/* A folder that holds nothing else is exchanged; no old member stays. */
static void test_exchange(hftac_array *a)
{
    const char *set = in_folder("set");
    OK(hftac_save(a, in_folder("set///")));
    const ino_t first = inode(set);
    CHECK(chmod(set, 0750) == 0);
    step(a);
    OK(hftac_save(a, set));
    struct stat st;
    CHECK(stat(set, &st) == 0 && st.st_ino != first && (st.st_mode & 07777) == 0750);
    CHECK(!strcmp(names(set), all_names));
    check_set(a, set, -1);
    step(a);
    const int32_t slot = 2, wrong[] = {2, 4};
    OK(hftac_save_models(a, &slot, 1, set));
    CHECK(!strcmp(names(set), "hypers.json model-002.safetensors "));
    check_set(a, set, 2);
    FAILS(hftac_load(a, set, NULL), HFTAC_FILE, "model-000.safetensors");
    FAILS(hftac_save_models(a, wrong, 2, set), HFTAC_USAGE, "4");
    FAILS(hftac_save_models(a, wrong, 0, set), HFTAC_USAGE, "0 models");
    check_set(a, set, 2);
    OK(hftac_try_save(set));
    OK(hftac_try_save(in_folder("new")));
    CHECK(!exists(in_folder("new")) &&
          !strcmp(names(set), "hypers.json model-002.safetensors "));
    FAILS(hftac_try_save(in_folder("no/such")), HFTAC_FILE, "No such file");
    FAILS(hftac_try_save(model_path), HFTAC_FILE, "Not a directory");
    OK(hftac_try_file(in_folder("new")));
    CHECK(!exists(in_folder("new")));
    FAILS(hftac_try_file(in_folder("no/such")), HFTAC_FILE, "No such file");
}

/* A link to the folder stays a link; files of the user's own stay, and with them the folder. */
static void test_in_place(hftac_array *a)
{
    const char *set = in_folder("mine"), *link = in_folder("link");
    CHECK(symlink("mine", link) == 0);
    FAILS(hftac_save(a, link), HFTAC_FILE, "No such file");
    CHECK(mkdir(set, 0777) == 0 && mkdir(in_folder("mine/notes"), 0777) == 0);
    write_bytes(in_folder("mine/notes/a"), "a", 1);
    write_bytes(in_folder("mine/model-best.safetensors"), "b", 1);
    write_bytes(in_folder("mine/model-017.safetensors"), "stale", 5);
    const ino_t before = inode(set);
    step(a);
    OK(hftac_save(a, link));
    struct stat st;
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode) && inode(set) == before);
    CHECK(
        !strcmp(names(set),
                "hypers.json model-000.safetensors model-001.safetensors model-002.safetensors "
                "model-003.safetensors model-best.safetensors notes "));
    CHECK(!strcmp(names(in_folder("mine/notes")), "a "));
    check_set(a, link, -1);
    const int32_t slot = 1;
    OK(hftac_save_models(a, &slot, 1, link));
    CHECK(
        !strcmp(names(set), "hypers.json model-001.safetensors model-best.safetensors notes "));
    CHECK(mkdir(in_folder("mine/model-000.safetensors"), 0777) == 0);
    FAILS(hftac_save(a, set), HFTAC_FILE, "not a regular file");
    CHECK(!strcmp(names(set), "hypers.json model-000.safetensors model-001.safetensors "
                              "model-best.safetensors notes "));
}

/* Nobody's current directory goes away under him. */
static void test_here(hftac_array *a)
{
    const char *set = in_folder("here");
    CHECK(mkdir(set, 0777) == 0);
    const int back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(back >= 0 && chdir(set) == 0);
    const ino_t before = inode(".");
    for (int i = 0; i < 2; i++) {
        step(a);
        OK(hftac_save(a, i ? "../here" : "."));
        CHECK(inode(".") == before && inode(set) == before && !strcmp(names("."), all_names));
    }
    CHECK(fchdir(back) == 0);
    close(back);
    check_set(a, set, -1);
}

/* A parent that cannot be written, as a user for whom that counts. */
static void test_closed_parent(hftac_array *a)
{
    const char *up = in_folder("up"), *set = in_folder("up/set");
    CHECK(mkdir(up, 0755) == 0 && mkdir(set, 0777) == 0 && chmod(folder, 0711) == 0);
    OK(hftac_save(a, set));
    step(a);
    const pid_t child = fork();
    if (child == 0) {
        const bool ok = geteuid() == 0 ? chown(set, 65534, 65534) == 0 && seteuid(65534) == 0
                                       : chmod(up, 0555) == 0;
        hftac_array *b = NULL;
        if (!ok || hftac_open(model_path, &(hftac_options){.threads = 1}, &b))
            _exit(2);
        const hftac_status there = hftac_save(b, set), new = hftac_save(b, in_folder("up/new"));
        _exit(there == HFTAC_OK && new == HFTAC_FILE && !strcmp(names(set), all_names) ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(chmod(up, 0755) == 0);
}

/* What killed processes left goes with the next save; what belongs to a living one stays. */
static void test_left_behind(hftac_array *a)
{
    const char *dead = in_folder(".hftac-0123456789abcdef"),
               *alive = in_folder(".hftac-fedcba9876543210"), *other = in_folder(".hftac-mine");
    CHECK(mkdir(dead, 0777) == 0 && mkdir(alive, 0777) == 0 && mkdir(other, 0777) == 0);
    write_bytes(in_folder(".hftac-0123456789abcdef/model-000.safetensors"), "x", 1);
    const int lock = open(alive, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(lock >= 0 && flock(lock, LOCK_SH) == 0);
    OK(hftac_save(a, in_folder("swept")));
    CHECK(!exists(dead) && exists(alive) && exists(other));
    close(lock);
    OK(hftac_save(a, in_folder("swept")));
    CHECK(!exists(alive) && exists(other));
}

/* The same for single files: only regular ones of this user's with one name that nobody locks. */
static void test_left_files(hftac_array *a)
{
    const char *dead = in_folder(".hftac-00000000000000d1"),
               *alive = in_folder(".hftac-00000000000000a1"),
               *pipe = in_folder(".hftac-00000000000000f1"),
               *twin = in_folder(".hftac-00000000000000b1"),
               *link = in_folder(".hftac-00000000000000c1"),
               *other = in_folder(".hftac-00000000000000G1");
    write_bytes(dead, "x", 1);
    write_bytes(alive, "x", 1);
    write_bytes(other, "x", 1);
    write_bytes(in_folder("twin"), "x", 1);
    CHECK(linkat(AT_FDCWD, in_folder("twin"), AT_FDCWD, twin, 0) == 0);
    CHECK(symlink(other, link) == 0 && mkfifo(pipe, 0600) == 0);
    const int lock = open(alive, O_RDONLY | O_CLOEXEC);
    CHECK(lock >= 0 && flock(lock, LOCK_SH) == 0);
    OK(hftac_save_model(a, 0, in_folder("one.safetensors")));
    CHECK(!exists(dead) && exists(alive) && exists(pipe) && exists(twin) && exists(other) &&
          exists(link));
    close(lock);
    OK(hftac_save_model(a, 0, in_folder("one.safetensors")));
    CHECK(!exists(alive) && exists(pipe) && exists(twin) && exists(other) && exists(link));
    write_bytes(dead, "x", 1);
    OK(hftac_save(a, in_folder("swept")));
    CHECK(!exists(dead));
    unlink(pipe);
    unlink(twin);
    unlink(link);
    unlink(other);
}

/* Saving where a file may have at most 64 bytes, with SIGXFSZ left alone or ignored; the status. */
static int save_limited(const char *set, void (*how)(int))
{
    const pid_t child = fork();
    if (child == 0) {
        hftac_array *b = NULL;
        signal(SIGXFSZ, how);
        if (hftac_open(model_path, &(hftac_options){.threads = 1}, &b) ||
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){64, 64}))
            _exit(100);
        _exit((int)hftac_save(b, set));
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* The library leaves signals to the program, as hftac.h says; the old set stays either way. */
static void test_size_limit(hftac_array *a)
{
    const char *set = in_folder("limited");
    OK(hftac_save(a, set));
    const int ignored = save_limited(set, SIG_IGN), left = save_limited(set, SIG_DFL);
    CHECK(WIFEXITED(ignored) && WEXITSTATUS(ignored) == HFTAC_FILE);
    CHECK(WIFSIGNALED(left) && WTERMSIG(left) == SIGXFSZ);
    check_set(a, set, 0);
    OK(hftac_save(a, set));
    check_set(a, set, 0);
}

/* Killed between the step and the last move: half of the members have moved, an old one that the
 * new set lacks is still there.  Loading sees the new set, saving clears up. */
static void test_half_moved(hftac_array *a)
{
    const char *set = in_folder("half");
    OK(hftac_save(a, set));
    step(a);
    const int32_t two[] = {0, 1};
    OK(hftac_save_models(a, two, 2, in_folder("half2")));
    CHECK(rename(in_folder("half2"), in_folder("half/.hftac-new")) == 0);
    static const char list[] = "model-000.safetensors\nmodel-001.safetensors\nhypers.json\n";
    write_bytes(in_folder("half/.hftac-new/members"), list, sizeof list - 1);
    CHECK(rename(in_folder("half/.hftac-new/model-000.safetensors"),
                 in_folder("half/model-000.safetensors")) == 0);
    check_set(a, set, 0);
    check_set(a, set, 1);
    const int32_t third = 2;
    FAILS(hftac_load_models(a, &third, 1, set, NULL), HFTAC_FILE, "model-002");
    FAILS(hftac_load(a, set, NULL), HFTAC_FILE, "model-002");
    OK(hftac_try_save(set));
    CHECK(!strcmp(names(set), "hypers.json model-000.safetensors model-001.safetensors "));
    check_set(a, set, 1);
    FAILS(hftac_load_models(a, &third, 1, set, NULL), HFTAC_FILE, "model-002");
}

void test_sets(void)
{
    void (*const tests[])(hftac_array *) = {
        test_exchange,   test_in_place,      test_here,       test_left_behind,
        test_half_moved, test_closed_parent, test_left_files, test_size_limit};
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        hftac_array *a = open_fake(1);
        tests[i](a);
        hftac_close(a);
    }
}
