/* bench_steps MODEL.so [THREADS]: a worker for bench/compare.py.  For each line "N" on standard
 * input it does N training steps and prints the seconds they took.  The data are 64 random
 * batches in turn: on a single one the model would soon fit it, and its moments would sink into
 * denormal numbers, which no real training does. */
#include "runtime/hftac.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void must(hftac_status s)
{
    if (s) {
        fprintf(stderr, "bench_steps: %s\n", hftac_last_error());
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum {
    BATCHES = 64
};

/* Reals in (-1.7, 1.7), integers 0 .. 9: labels of every workload. */
static void fill(void *v, size_t n, hftac_type type, uint64_t s)
{
    for (size_t i = 0; i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        const uint32_t r = (uint32_t)(s >> 33);
        switch (type) {
        case HFTAC_F32:
            ((float *)v)[i] = (float)r / 2147483648.0f * 3.4f - 1.7f;
            break;
        case HFTAC_F64:
            ((double *)v)[i] = (double)r / 2147483648.0 * 3.4 - 1.7;
            break;
        case HFTAC_I64:
            ((int64_t *)v)[i] = r % 10;
            break;
        case HFTAC_I32:
            ((int32_t *)v)[i] = (int32_t)(r % 10);
            break;
        case HFTAC_BOOL:
        case HFTAC_U8:
            ((uint8_t *)v)[i] = (uint8_t)(r % 10);
            break;
        }
    }
}

/* [input][batch] */
static char *make_data(hftac_array *a, hftac_input in)
{
    const hftac_input_description *d = hftac_describe_input(a, in);
    char *v = calloc(BATCHES, d->bytes);
    for (int k = 0; v && k < BATCHES; k++)
        fill(v + (size_t)k * d->bytes, d->bytes / hftac_type_bytes(d->type), d->type,
             (uint64_t)(in * BATCHES + k + 1));
    return v;
}

static void step(hftac_array *a, char *const *data, long i)
{
    for (int in = 0; in < hftac_describe(a)->n_inputs; in++)
        must(hftac_feed_borrowed(
            a, in, data[in] + (size_t)(i % BATCHES) * hftac_describe_input(a, in)->bytes));
    must(hftac_train_step(a));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const hftac_options o = {.threads = argc > 2 ? atoi(argv[2]) : 0};
    hftac_array *a;
    must(hftac_open(argv[1], &o, &a));
    char *data[16];
    const int n_inputs = hftac_describe(a)->n_inputs;
    if (n_inputs > 16)
        return 2;
    for (int i = 0; i < n_inputs; i++)
        data[i] = make_data(a, i);
    long done = 0;
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        const long n = atol(line);
        const double start = now();
        for (long i = 0; i < n; i++)
            step(a, data, done++);
        printf("%.9f %d\n", now() - start, hftac_running_count(a));
        fflush(stdout);
    }
    hftac_close(a);
    for (int i = 0; i < n_inputs; i++)
        free(data[i]);
    return 0;
}
