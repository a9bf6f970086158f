/* Headers of safetensors files that are made to cost memory or time, strings of every form, and
 * what messages show of them. */
#include <malloc.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/files/safetensors.h"
#include "tests/unit/runtime_test.h"

/* A header in the making. */
typedef struct Header {
    char *text;
    size_t n, room;
} Header;

static void put(Header *h, const char *format, long i)
{
    if (h->room - h->n < 256) {
        h->room += h->room / 2 + 4096;
        h->text = realloc(h->text, h->room);
        if (!h->text)
            exit(1);
    }
    h->n += (size_t)snprintf(h->text + h->n, 256, format, i, i);
}

/* What is repeated between a beginning and an end; whether all of it is a good file. */
static const struct {
    const char *begin, *unit, *end;
    bool good;
} bombs[] = {
    {"{", "\"%lx\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,0]},",
     "\"z\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,0]}}", true},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0", ",1", "],\"data_offsets\":[0,0]}}", true},
    {"{\"__metadata__\":{", "\"%lx\":\"\",", "\"z\":\"\"}}", true},
    {"{\"__metadata__\":{\"a\":\"", "\\u0041\\n", "\"}}", true},
    {"{", "\"%lx\":{},", "\"z\":{}}", false},
    {"{\"a\":", "[", "", false},
    {"{\"a\":", "{\"a\":", "", false},
    {"{\"__metadata__\":{", "\"a\":\"\",", "\"a\":\"\"}}", false},
    {"{", "\"a\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,0]},",
     "\"a\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[0,0]}}", false},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,", "0", "]}}", false},
};
enum {
    N_BOMBS = sizeof bombs / sizeof *bombs
};

static void write_bomb(int kind, size_t bytes, const char *path)
{
    Header h = {0};
    put(&h, bombs[kind].begin, 0);
    for (long i = 0; h.n < bytes; i++)
        put(&h, bombs[kind].unit, i);
    put(&h, bombs[kind].end, 0);
    write_st(path, h.text, 0);
    free(h.text);
}

#ifndef __SANITIZE_ADDRESS__

static size_t address_space(void)
{
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%zu", &pages) == 1);
    if (f)
        fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* In a process that may take `room` bytes more. */
static bool opens_within(size_t room, const char *path, bool good)
{
    const pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit limit = {address_space() + room, address_space() + room};
        StFile f;
        if (setrlimit(RLIMIT_AS, &limit) != 0)
            _exit(2);
        const hftac_status s = hft_st_open(path, &f);
        if (s != (good ? HFTAC_OK : HFTAC_DATA))
            fprintf(stderr, "%.200s\n", hftac_last_error());
        _exit(s != (good ? HFTAC_OK : HFTAC_DATA));
    }
    int status = -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A header of 4 MB in 28 MB: seven times its size, where it was 77 times. */
static void test_memory(void)
{
    enum {
        MEGA = 1 << 20
    };
    const char *path = in_folder("bomb.safetensors");
    const int before = failures;
    mallopt(M_MMAP_THRESHOLD, MEGA / 8); /* what was freed is no room */
    for (int k = 0; k < N_BOMBS; k++) {
        write_bomb(k, 4 * MEGA, path);
        CHECK(opens_within(28 * MEGA, path, bombs[k].good));
        if (failures != before)
            fprintf(stderr, "  (bomb %d)\n", k);
    }
    /* Too little memory says so, and nothing else. */
    write_bomb(0, 4 * MEGA, path);
    const pid_t pid = fork();
    if (pid == 0) {
        const size_t room = address_space() + MEGA;
        StFile f;
        setrlimit(RLIMIT_AS, &(struct rlimit){room, room});
        FAILS(hft_st_open(path, &f), HFTAC_MEMORY, "out of memory");
        _exit(failures > before);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    unlink(path);
}

#endif

static double seconds_to_open(const char *path)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        StFile f;
        const clock_t begin = clock();
        if (hft_st_open(path, &f) == HFTAC_OK)
            hft_st_close(&f);
        const double t = (double)(clock() - begin) / CLOCKS_PER_SEC;
        best = t < best ? t : best;
    }
    return best;
}

/* Eight times as much takes about eight times as long: quadratic would be 64. */
static void test_time(void)
{
    const char *path = in_folder("long.safetensors");
    for (int k = 0; k < N_BOMBS; k++) {
        write_bomb(k, 1 << 18, path);
        const double small = seconds_to_open(path);
        write_bomb(k, 1 << 21, path);
        const double large = seconds_to_open(path);
        CHECK(large < 30 * (small > 1e-3 ? small : 1e-3));
    }
    unlink(path);
}

/* ---- Strings ---- */

static const struct {
    const char *json, *name; /* NULL: refused */
} strings[] = {
    {"a\\u0062\\\"\\\\\\/\\b\\f\\n\\r\\t", "ab\"\\/\b\f\n\r\t"},
    {"\\u00e9\\u20ac\\ud83d\\ude00", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"", ""},
    {"\\ud83d", NULL},
    {"\\ude00", NULL},
    {"\\ud83d\\u0041", NULL},
    {"\\u00g0", NULL},
    {"\\x41", NULL},
    {"\\u0000", NULL},
    {"a\nb", NULL},
    {"\xc0\x80", NULL},         /* overlong */
    {"\xed\xa0\x80", NULL},     /* a surrogate */
    {"\xf4\x90\x80\x80", NULL}, /* beyond U+10FFFF */
    {"\xe2\x82", NULL},
    {"\x80", NULL},
};

static void test_strings(void)
{
    const char *path = in_folder("strings.safetensors");
    char header[256];
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        StFile f;
        snprintf(header, sizeof header,
                 " {\"%s\" : {\"shape\":[ 2 ],\"dtype\":\"U8\",\"data_offsets\":[0,2]} }  ",
                 strings[i].json);
        write_st(path, header + 1, 2);
        if (strings[i].name) {
            OK(hft_st_open(path, &f));
            CHECK(hft_st_find(&f, strings[i].name) == &f.tensors[0] && f.tensors[0].bytes == 2);
            hft_st_close(&f);
        } else {
            FAILS(hft_st_open(path, &f), HFTAC_DATA, "header: ");
        }
    }
}

/* ---- Messages ---- */

static bool is_plain(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    return true;
}

/* Names that would clear the screen, or pretend to be another line. */
static void test_messages(void)
{
    const char *path = in_folder("escape\x1b[2J.safetensors");
    StFile f;
    write_st(path,
             "{\"\\u001b[31m\\nhftac: all is well\\u009b\xc2\x9b\\u007f\xc3\xa9\":{\"dtype\":"
             "\"F32\",\"shape\":[2],\"data_offsets\":[0,9]}}",
             9);
    FAILS(hft_st_open(path, &f), HFTAC_DATA,
          "\"\\x1b[31m\\x0ahftac: all is well\\xc2\\x9b\\xc2\\x9b\\x7f\xc3\xa9\"");
    CHECK(strstr(hftac_last_error(), "escape\\x1b[2J.safetensors"));
    CHECK(is_plain(hftac_last_error()));
    hftac_array *a = open_fake(1);
    hftac_data *d = NULL;
    write_st(path,
             "{\"\\u001b[31m\\nline\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
             2);
    FAILS(hftac_data_open(a, path, NULL, &d), HFTAC_DATA, "there are: \\x1b[31m\\x0aline");
    CHECK(!strchr(hftac_last_error(), 0x1b) && !strstr(hftac_last_error(), "\nline"));
    FAILS(hftac_load(a, path, NULL), HFTAC_DATA, "\\x1b[31m\\x0aline");
    CHECK(!strchr(hftac_last_error(), 0x1b));
    FAILS(hftac_load(a, "/nowhere/\x1b[2J\n", NULL), HFTAC_FILE, "/nowhere/\\x1b[2J\\x0a");
    int32_t h;
    FAILS(hftac_find_hyper(a, "\x1b]0;title\a", &h), HFTAC_NOT_FOUND, "\\x1b]0;title\\x07");
    unlink(path);
    hftac_close(a);
}

/* Nobody will ever write to it. */
static void test_pipes(void)
{
    const char *path = in_folder("pipe.safetensors");
    hftac_array *a = open_fake(1), *other = NULL;
    hftac_data *d = NULL;
    CHECK(mkfifo(path, 0600) == 0);
    alarm(20);
    FAILS(hftac_data_open(a, path, NULL, &d), HFTAC_FILE, "not a regular file");
    FAILS(hftac_load(a, path, NULL), HFTAC_FILE, "not a regular file");
    FAILS(hftac_open(path, NULL, &other), HFTAC_MODEL, "not a file");
    alarm(0);
    unlink(path);
    hftac_close(a);
}

void test_headers(void)
{
#ifndef __SANITIZE_ADDRESS__ /* whose shadow needs an address space without limits */
    test_memory();
#endif
    test_strings();
    test_messages();
    test_pipes();
    test_time();
}
