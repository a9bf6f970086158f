/* bench_steps MODEL.so [THREADS]: a worker for bench/compare.py.  For each line "N" on standard input it does N training
 * steps on fixed random data and prints the seconds they took. */
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

/* Reals in (-1.7, 1.7), integers 0 .. 9: labels of every workload. */
static void fill(hftac_array *a, hftac_input in)
{
    const hftac_input_description *d = hftac_describe_input(a, in);
    const size_t n = d->bytes / hftac_type_bytes(d->type);
    void *v = calloc(n, hftac_type_bytes(d->type));
    uint64_t s = 1;
    for (size_t i = 0; v && i < n; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        const uint32_t r = (uint32_t)(s >> 33);
        switch (d->type) {
        case HFTAC_F32: ((float *)v)[i] = (float)r / 2147483648.0f * 3.4f - 1.7f; break;
        case HFTAC_F64: ((double *)v)[i] = (double)r / 2147483648.0 * 3.4 - 1.7; break;
        case HFTAC_I64: ((int64_t *)v)[i] = r % 10; break;
        case HFTAC_I32: ((int32_t *)v)[i] = (int32_t)(r % 10); break;
        default: ((uint8_t *)v)[i] = (uint8_t)(r % 10); break;
        }
    }
    must(hftac_feed(a, in, v, hftac_describe(a)->batch));
    free(v);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    const hftac_options o = {.threads = argc > 2 ? atoi(argv[2]) : 0};
    hftac_array *a;
    must(hftac_open(argv[1], &o, &a));
    for (int i = 0; i < hftac_describe(a)->n_inputs; i++)
        fill(a, i);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        const long n = atol(line);
        const double start = now();
        for (long i = 0; i < n; i++)
            must(hftac_train_step(a));
        printf("%.9f %d\n", now() - start, hftac_running_count(a));
        fflush(stdout);
    }
    hftac_close(a);
    return 0;
}
