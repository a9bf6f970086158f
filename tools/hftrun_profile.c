/* --profile: which kernels took the time, on stderr, the dearest first. */
#include <stdlib.h>

#include "tools/hftrun.h"

static int by_time(const void *x, const void *y)
{
    const hftac_kernel_profile *a = x, *b = y;
    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

static void print_row(const hftac_kernel_profile *k, double total)
{
    const double calls = (double)k->calls;
    fprintf(stderr, "%10lld %10.3f %6.1f%% %9.2f %9.2f  %-8s %-32.32s %s\n",
            (long long)k->calls, 1e3 * k->seconds, 100 * k->seconds / total,
            k->operations * calls / k->seconds / 1e9, k->bytes * calls / k->seconds / 1e9,
            k->entry, k->name, k->source);
}

void profile_print(const hftac_array *a)
{
    const int n = hftac_kernel_count(a);
    hftac_kernel_profile *rows = allocate((size_t)n + 1, sizeof *rows);
    double total = 0;
    int used = 0;
    for (int i = 0; i < n; i++) {
        check(hftac_read_kernel(a, i, &rows[used]));
        total += rows[used].seconds;
        used += rows[used].calls > 0 && rows[used].seconds > 0;
    }
    qsort(rows, (size_t)used, sizeof *rows, by_time);
    fprintf(stderr, "%10s %10s %7s %9s %9s  %-8s %-32s %s\n", "calls", "ms", "share", "GFLOP/s",
            "GB/s", "entry", "kernel", "source");
    for (int i = 0; i < used; i++)
        print_row(&rows[i], total);
    fprintf(stderr, "%10s %10.3f        (kernels one by one, on one thread)\n", "",
            1e3 * total);
    free(rows);
}
