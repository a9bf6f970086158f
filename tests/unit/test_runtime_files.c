/* Files: damaged and hostile safetensors and .npy, saving and loading, data sets. */
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/safetensors.h"
#include "tests/unit/runtime_test.h"

void write_st(const char *path, const char *header, size_t n)
{
    const uint64_t length = strlen(header);
    unsigned char *file = malloc(8 + length + n + 1);
    if (!file)
        exit(1);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < n; i++)
        file[8 + length + i] = (unsigned char)i;
    write_bytes(path, file, 8 + length + n);
    free(file);
}

#define T(name, type, shape, begin, end)                                                 \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin \
    "," #end "]}"

/* What is refused, and the words that say why. */
static const struct {
    const char *header;
    size_t bytes;
    const char *words;
} hostile[] = {
    {"[]", 0, "not a JSON object"},
    {"{", 0, "header"},
    {"{}x", 0, "header: end of file expected"},
    {"{}", 5, "5 trailing bytes"},
    {"{" T("a", "F32", "[2]", 0, 8) "}", 7, "\"a\": its data lie past the end"},
    {"{" T("a", "F32", "[2]", 0, 8) "}", 9, "1 trailing bytes"},
    {"{" T("a", "F32", "[3]", 0, 8) "}", 8, "\"a\": F32[3] needs 12 bytes, its offsets span 8"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 4, 12) "}", 12,
     "\"b\": its data overlap"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 0, 8) "}", 8, "overlap"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[2]", 12, 20) "}", 20,
     "\"b\": there is a gap"},
    {"{" T("a", "F32", "[2]", 8, 0) "}", 8, "end before they begin"},
    {"{" T("a", "F32", "[2]", -8, 0) "}", 8, "data_offsets"},
    {"{" T("a", "F32", "[2]", 0.0, 8.0) "}", 8, "data_offsets"},
    {"{" T("a", "F32", "[2]", 0, 1e400) "}", 8, "data_offsets"},
    {"{" T("a", "F32", "[2]", 0, 99999999999999999999) "}", 8, "data_offsets"},
    {"{" T("a", "F32", "[2]", 0, 9223372036854775807) "}", 8, "past the end"},
    {"{" T("a", "F32", "[4294967296, 4294967296, 4294967296]", 0, 0) "}", 0,
     "\"a\": the product of its dims overflows"},
    {"{" T("a", "F32", "[9223372036854775807, 2]", 0, 8) "}", 8, "overflows"},
    {"{" T("a", "F32", "[-2]", 0, 8) "}", 8, "whole number"},
    {"{" T("a", "F32", "[2.0]", 0, 8) "}", 8, "whole number"},
    {"{" T("a", "F32", "2", 0, 8) "}", 8, "no shape"},
    {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,3]", 0, 8) "}", 8,
     "F32[1, 1, 1, 1, 1, 1, 1, 1, ...] needs 12 bytes, its offsets span 8"},
    {"{" T("a", "F33", "[-2]", 0, 8) "}", 8, "whole number"},
    {"{" T("a", "F33", "[2]", 0, 8) "}", 7, "\"a\": its data lie past the end"},
    {"{" T("a", "F33", "[2]", 0, 4) "," T("b", "F32", "[1]", 2, 6) "}", 6,
     "\"b\": its data overlap"},
    {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "no dtype"},
    {"{" T("a", "F32", "[2]", 0, 8) "," T("a", "F32", "[2]", 0, 8) "}", 8,
     "duplicate object key"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "duplicate"},
    {"{\"a\":[1,2]}", 8, "not an object"},
    {"{\"a\":null}", 8, "not an object"},
    {"{\"a\":{}}", 8, "nothing else"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", 8,
     "nothing else"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", 8, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8, "whole number"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "not a string"},
    {"{\"\xff\xfe\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
     "unable to decode"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "header"},
    {"{\"a\":NaN}", 8, "not an object"},
};

static void refuse(const char *path, const char *words)
{
    StFile f;
    FAILS(hft_st_open(path, &f), HFTAC_DATA, words);
    CHECK(strstr(hftac_last_error(), path)); /* the message names the file */
    CHECK(!f.file.fd_plus_1 && !f.text && !f.sorted && !f.tensors);
}

static void test_hostile(void)
{
    const char *path = in_folder("hostile.safetensors");
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        write_st(path, hostile[i].header, hostile[i].bytes);
        const int before = failures;
        refuse(path, hostile[i].words);
        if (failures != before)
            fprintf(stderr, "  (case %zu: %s)\n", i, hostile[i].header);
    }
    const uint64_t lengths[] = {UINT64_MAX, INT64_MAX, 1u << 31, 3};
    for (int i = 0; i < 4; i++) {
        unsigned char file[10] = {0};
        memcpy(file, &lengths[i], 8);
        memcpy(file + 8, "{}", 2);
        write_bytes(path, file, sizeof file);
        refuse(path, "longer than the file");
    }
    for (size_t n = 0; n < 10; n++) {
        write_bytes(path, "\2\0\0\0\0\0\0\0{}", n);
        refuse(path, "too short");
    }
    enum {
        DEEP = 100000
    };
    char *deep = malloc(DEEP + 16);
    if (!deep)
        exit(1);
    strcpy(deep, "{\"a\":");
    memset(deep + 5, '[', DEEP);
    deep[5 + DEEP] = 0;
    write_st(path, deep, 0);
    refuse(path, "not an object");
    free(deep);
    StFile f;
    FAILS(hft_st_open("/nowhere", &f), HFTAC_FILE, "No such file");
    FAILS(hft_st_open(folder, &f), HFTAC_FILE, "not a regular file");
    FAILS(hft_st_open("/dev/zero", &f), HFTAC_FILE, "not a regular file");
}

/* Any byte of a good header changed: refused or read, never a crash, and never a tensor
 * outside the file. */
static void test_mutations(void)
{
    const char *good = "{\"__metadata__\":{\"k\":\"v\"}," T("a", "F32", "[2]", 0, 8) "," T(
        "b", "I64", "[]", 8, 16) "}";
    const char *path = in_folder("mutated.safetensors");
    char text[256];
    int read = 0;
    for (size_t i = 0; i < strlen(good); i++)
        for (const char *p = "\"{}[]:,019-e \\\x01"; *p; p++) {
            strcpy(text, good);
            text[i] = *p;
            write_st(path, text, 16);
            StFile f;
            if (hft_st_open(path, &f) == HFTAC_OK) {
                read++;
                for (int t = 0; t < f.n_tensors; t++)
                    CHECK(f.tensors[t].begin + f.tensors[t].bytes <= 16);
                hft_st_close(&f);
            }
        }
    CHECK(read > 0);
    write_st(path, good, 16);
    StFile f;
    OK(hft_st_open(path, &f));
    const StTensor *b = hft_st_find(&f, "b");
    unsigned char *values = NULL;
    CHECK(b && b->rank == 0 && b->type == HFTAC_I64 && !hft_st_find(&f, "c"));
    OK(hft_st_read(&f, b, &values));
    CHECK(values && values[0] == 8);
    free(values);
    CHECK(!strcmp(hft_st_metadata(&f, "k"), "v") && !hft_st_metadata(&f, "x"));
    hft_st_close(&f);
}

static int count_files(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n - 2;
}

static void test_save_load(void)
{
    hftac_array *a = open_fake(2), *b = open_fake(1);
    feed_fake(a);
    for (int i = 0; i < 5; i++)
        OK(hftac_train_step(a));
    char saved[256];
    snprintf(saved, sizeof saved, "%s/saved", folder);
    OK(hftac_save(a, saved));
    OK(hftac_save(a, saved)); /* over itself */
    CHECK(count_files(saved) == 5);
    OK(hftac_load(b, saved, NULL));
    for (int m = 0; m < 4; m++)
        for (int p = 0; p < 3; p++) {
            unsigned char x[64] = {0}, y[64] = {0};
            const size_t n = hftac_describe_param(a, p)->bytes;
            OK(hftac_get_param(a, p, m, x, n));
            OK(hftac_get_param(b, p, m, y, n));
            CHECK(!memcmp(x, y, n));
        }
    StFile f;
    OK(hft_st_open(in_folder("saved/model-003.safetensors"), &f));
    CHECK(f.n_tensors == 3 && !strcmp(hft_st_metadata(&f, "format"), "pt") &&
          hft_st_find(&f, "fc.weight")->dims[1] == 3);
    CHECK((f.data_begin + hft_st_find(&f, "seen")->begin) % 8 == 0);
    hft_st_close(&f);
    OK(hftac_load(b, in_folder("saved/model-002.safetensors"), NULL)); /* one file into all */
    float w[6], v[6];
    OK(hftac_get_param(a, 0, 2, w, sizeof w));
    OK(hftac_get_param(b, 0, 0, v, sizeof v));
    CHECK(!memcmp(w, v, sizeof w));
    FAILS(hftac_save_model(a, 0, in_folder("no/such/folder")), HFTAC_FILE, "No such file");
    FAILS(hftac_save_model(a, 0, folder), HFTAC_FILE, "not a regular file");
    FAILS(hftac_save_model(a, 0, "/dev/full"), HFTAC_FILE, "not a regular file");
    FAILS(hftac_save(a, "/proc/nothing/here"), HFTAC_FILE, "folder");
    FAILS(hftac_load(b, in_folder("nothing"), NULL), HFTAC_FILE, "No such file");
    CHECK(unlink(in_folder("saved/model-003.safetensors")) == 0);
    FAILS(hftac_load(b, saved, NULL), HFTAC_FILE, "model-003.safetensors");
    CHECK(count_files(saved) == 4);
    hftac_close(a);
    hftac_close(b);
}

static void test_load_differences(void)
{
    hftac_array *a = open_fake(1);
    const char *path = in_folder("other.safetensors");
    float before[6], after[6];
    OK(hftac_get_param(a, 0, 0, before, sizeof before));
    write_st(path,
             "{" T("fc.weight", "F32", "[3,2]", 0, 24) "," T("seen", "F32", "[]", 24, 28) "," T(
                 "extra", "F16", "[2]", 28, 32) "}",
             32);
    FAILS(hftac_load(a, path, NULL), HFTAC_DATA,
          "fc.weight has shape [3, 2], the model's is [2, 3]");
    const char *text = hftac_last_error();
    CHECK(strstr(text, "missing scale f32[]") &&
          strstr(text, "seen is of type F32, the model's is i64") &&
          strstr(text, "unexpected extra F16[2]"));
    OK(hftac_get_param(a, 0, 0, after, sizeof after));
    CHECK(!memcmp(before, after, sizeof before));
    write_st(path, "{" T("scale", "F32", "[1]", 0, 4) "," T("more", "F32", "[]", 4, 8) "}", 8);
    FAILS(hftac_load_model(a, 0, path, NULL), HFTAC_DATA, "missing");
    OK(hftac_load_model(a, 0, path,
                        &(hftac_load_options){.allow_missing = 1, .allow_unexpected = 1}));
    float scale, want;
    memcpy(&want, (const unsigned char[]){0, 1, 2, 3}, 4);
    OK(hftac_get_param(a, 1, 0, &scale, sizeof scale));
    CHECK(scale == want);
    OK(hftac_get_param(a, 0, 0, after, sizeof after));
    CHECK(!memcmp(before, after, sizeof before));
    hftac_close(a);
}

void test_files(void)
{
    test_hostile();
    test_mutations();
    test_save_load();
    test_load_differences();
}
