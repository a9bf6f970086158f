/* check_grad [SEED [ROUNDS [FILTER]]]: gradients in float64 against central differences, through
 * the whole compiler: a row of the op table at a time as IR text, functions and layers of the
 * standard library as .hdl; in each round with other shapes and attributes (the library's in
 * every third round), with one model and with two. */
#include "tests/check/check_grad.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

uint64_t random_bits(Random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t random_below(Random *r, int64_t n)
{
    return (int64_t)(random_bits(r) % (uint64_t)n);
}

int64_t random_between(Random *r, int64_t lo, int64_t hi)
{
    return lo + random_below(r, hi - lo + 1);
}

double random_unit(Random *r)
{
    return (double)(random_bits(r) >> 11) * 0x1p-53;
}

bool random_chance(Random *r, int percent)
{
    return random_below(r, 100) < percent;
}

void random_shuffle(Random *r, int64_t *v, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = random_below(r, i + 1), t = v[i];
        v[i] = v[j];
        v[j] = t;
    }
}

typedef struct Score {
    int passed, failed;
} Score;

static void measure(GradProgram *p, uint64_t seed, Score *score)
{
    for (int models = 1; models <= 2; models++) {
        const int failed = grad_measure(p, models, seed + (uint64_t)models);
        score->failed += failed;
        score->passed += p->n_cases - failed;
    }
    free(p->text);
}

typedef GradProgram MakeProgram(const int *which, int n, uint64_t seed);

static bool covered[OP_COUNT_];

static GradProgram make_rows(const int *which, int n, uint64_t seed)
{
    return grad_rows_program(which, n, seed, covered);
}

/* All cases of that name (NULL: all; "-name": all others), several to a program. */
static void run_cases(MakeProgram *make, int count, const char *(*name)(int i),
                      const char *filter, uint64_t seed, Score *score)
{
    int which[GRAD_CASES], n = 0;
    const int programs = (count + GRAD_CASES - 1) / GRAD_CASES,
              most = (count + programs - 1) / programs;
    for (int i = 0; i < count; i++) {
        if (!filter ||
            (filter[0] == '-' ? strcmp(filter + 1, name(i)) : !strcmp(filter, name(i))))
            which[n++] = i;
        if (n == most || (n && i == count - 1)) {
            const uint64_t s = seed * 1000003 + (uint64_t)i;
            GradProgram p = make(which, n, s);
            measure(&p, s, score);
            n = 0;
        }
    }
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    const int rounds = argc > 2 ? atoi(argv[2]) : 3;
    const char *filter = argc > 3 ? argv[3] : NULL;
    Score score = {0, 0};
    check_begin(argv[0]);
    for (int round = 0; round < rounds; round++) {
        const uint64_t s = seed * 1009 + (uint64_t)round;
        run_cases(make_rows, grad_rows_count(), grad_rows_name, filter, s, &score);
        if (round % 3 == 0) /* takes long to compile */
            run_cases(grad_library_program, grad_library_count(), grad_library_name, filter, s,
                      &score);
    }
    score.failed += !filter && !grad_rows_covered(covered);
    check_end();
    printf("%d passed, %d failed\n", score.passed, score.failed);
    return score.failed || !score.passed;
}
