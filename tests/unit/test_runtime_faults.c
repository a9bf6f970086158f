/* Allocation failure at call 1, 2, 3 ..., leaks, a step that allocates nothing.
 *
 * malloc and its kin are replaced here by ones that count and can fail; under the address
 * sanitizer, which has its own, only the parts that need no counting run. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/runtime_test.h"

#if defined(__SANITIZE_ADDRESS__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COUNTING 0
#endif
#endif
#ifndef COUNTING
#define COUNTING 1
#endif

static atomic_long n_calls, n_live;

#if COUNTING
static _Thread_local long fail_at; /* this thread's call that fails, counted down; 0: none */

/* glibc's own, under the names that it keeps for replacements, which libraries must see. */
#pragma GCC visibility push(default)
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

static bool refuse(void)
{
    atomic_fetch_add(&n_calls, 1);
    if (fail_at && --fail_at == 0) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

static void *counted(void *p)
{
    if (p)
        atomic_fetch_add(&n_live, 1);
    return p;
}

void *malloc(size_t n)
{
    return refuse() ? NULL : counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    return refuse() ? NULL : counted(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    if (refuse())
        return NULL;
    void *q = __libc_realloc(p, n);
    return p ? q : counted(q);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return refuse() ? NULL : counted(__libc_memalign(alignment, n));
}

void free(void *p)
{
    if (p)
        atomic_fetch_sub(&n_live, 1);
    __libc_free(p);
}
#pragma GCC visibility pop
#endif

#if COUNTING
/* What a test does under failing allocations; true if it came to its end. */
typedef bool Scenario(void);

/* The k-th allocation fails, for k = 1, 2, ... until the scenario runs through; nothing may
 * stay allocated. */
static void fail_each(const char *name, Scenario *scenario)
{
    CHECK(scenario()); /* what libc allocates once and keeps */
    bool done = false;
    int k = 0;
    while (!done && k < 5000) {
        const long live = atomic_load(&n_live);
        fail_at = ++k;
        done = scenario();
        const bool failed = fail_at == 0;
        fail_at = 0;
        CHECK(done || failed);
        const long kept = atomic_load(&n_live) - live;
        if (kept > 0) {
            fprintf(stderr, "%s, allocation %d failing: %ld blocks leak\n", name, k, kept);
            CHECK(scenario());
            CHECK(atomic_load(&n_live) <= live);
        }
        done = done && !failed;
    }
    CHECK(k > 1 && k < 5000);
    printf("%s: %d allocations failed one by one\n", name, k - 1);
}

static bool opens(void)
{
    hftac_array *a;
    const hftac_status s = hftac_open(model_path, &(hftac_options){.threads = 2}, &a);
    CHECK((s == HFTAC_OK) == (a != NULL) && (s == HFTAC_OK || hftac_last_error()[0]));
    hftac_close(a);
    return s == HFTAC_OK;
}

static hftac_array *shared_array;

static bool saves(void)
{
    return hftac_save(shared_array, in_folder("oom")) == HFTAC_OK;
}

static bool loads(void)
{
    return hftac_load(shared_array, in_folder("oom"), NULL) == HFTAC_OK;
}

static bool predicts(void)
{
    const float x[6] = {0};
    const double bias[2] = {0};
    const hftac_tensor t[] = {{"x", HFTAC_F32, 2, {2, 3}, x},
                              {"bias", HFTAC_F64, 1, {2}, bias}};
    hftac_data *d = NULL;
    hftac_status s = hftac_data_from_memory(
        shared_array, t, 2, &(hftac_data_options){.purpose = HFTAC_FOR_PREDICTION}, &d);
    if (s == HFTAC_OK)
        s = hftac_predict_to_file(shared_array, d, in_folder("oom.safetensors"));
    hftac_data_close(d);
    return s == HFTAC_OK;
}

static bool trains_from_file(void)
{
    hftac_data *d = NULL;
    hftac_status s = hftac_data_open(shared_array, in_folder("train.safetensors"), NULL, &d);
    if (s == HFTAC_OK)
        s = hftac_train_epoch(shared_array, d, NULL, NULL);
    hftac_data_close(d);
    return s == HFTAC_OK;
}

static void test_allocation_failures(void)
{
    write_st(in_folder("train.safetensors"),
             "{\"x\":{\"dtype\":\"U8\",\"shape\":[4,3],\"data_offsets\":[5,17]},\"label\":{"
             "\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
             "\"noise\":{\"dtype\":\"U8\",\"shape\":[1,4,2],\"data_offsets\":[17,25]},\"pad\":{"
             "\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
             25);
    /* One model: each save syncs its files. */
    OK(hftac_open(model_path, &(hftac_options){.models = 1}, &shared_array));
    fail_each("open", opens);
    fail_each("save", saves);
    fail_each("load", loads);
    fail_each("predict", predicts);
    fail_each("train", trains_from_file);
    hftac_close(shared_array);
}
#endif

static void test_step_allocates_nothing(void)
{
    hftac_array *a = open_fake(3);
    feed_fake(a);
    OK(hftac_train_step(a));
    const long before = atomic_load(&n_calls);
    for (int i = 0; i < 200; i++) {
        feed_fake(a);
        OK(hftac_set_hyper(a, 0, 1,
                           i == 100 ? 1e308 * 10 : 0.5)); /* one model diverges on the way */
        OK(hftac_train_step(a));
    }
    CHECK(hftac_running_count(a) == 3);
    CHECK(atomic_load(&n_calls) == before);
    hftac_close(a);
}

static long count_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    long n = 0;
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &size, &resident) != 2)
        resident = -1;
    if (f)
        fclose(f);
    return resident;
}

static void test_open_close_is_flat(void)
{
    enum {
        WARM = 50,
        CYCLES = 1000
    };
    long live = 0, mappings = 0, pages = 0;
    for (int i = 0; i < CYCLES; i++) {
        hftac_array *a = open_fake(2);
        feed_fake(a);
        OK(hftac_train_step(a));
        hftac_close(a);
        if (i == WARM) {
            live = atomic_load(&n_live);
            mappings = count_mappings();
            pages = resident_pages();
        }
    }
    CHECK(atomic_load(&n_live) == live);
#if COUNTING
    CHECK(count_mappings() <= mappings);
    CHECK(resident_pages() <= pages + 64);
#else
    (void)pages, (void)mappings;
#endif
}

void test_faults(void)
{
#if COUNTING
    test_allocation_failures();
#endif
    test_step_allocates_nothing();
    test_open_close_is_flat();
}
