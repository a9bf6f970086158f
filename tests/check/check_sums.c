/* check_sums: sums have the bits that docs/architecture.md promises ("Bits"), on every processor,
 * and are accurate.
 *
 * The order is written down here a second time, from that page alone.  Random shapes, axes,
 * element types and operands are compared with it bit for bit, for each -march that this
 * processor runs. */
#include "tests/check/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROGRAMS = 16,
    CASES = 24, /* of a program */
    MOST_ELEMENTS = 40000,
    LANES = 16
};

static int failures;

static void expect(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void expect(bool ok, const char *fmt, ...)
{
    if (ok)
        return;
    va_list ap;
    va_start(ap, fmt);
    printf("FAILED: ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    failures++;
}

static uint32_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static int below(int n)
{
    return (int)(random_bits() % (uint32_t)n);
}

/* --- the order, from the page
 * ------------------------------------------------------------------------------ */

/* 16 lanes, or 1 value in the first of them.  Values are kept as double and rounded to the type
 * after each addition (which for float gives the float sum: double has more than twice its
 * digits). */
typedef struct Item {
    double lane[LANES];
} Item;

typedef struct Sum {
    int rank;
    int64_t dim[4];
    bool reduced[4], single; /* single: float */
    bool product;            /* multiplies, from 1, where a sum adds, from 0 */
    const double *operand;   /* row-major */
    bool inner;
    int last;
    int n_levels, level[4];
    int64_t at[4];
} Sum;

static double rounded(const Sum *s, double v)
{
    volatile float f =
        (float)v; /* gcc 12.2 -O3 would leave the rounding out of some vector loops */
    return s->single ? (double)f : v;
}

static double joined(const Sum *s, double a, double b)
{
    return rounded(s, s->product ? a * b : a + b);
}

/* What changes nothing. */
static Item neutral(const Sum *s)
{
    Item item;
    for (int l = 0; l < LANES; l++)
        item.lane[l] = s->product ? 1 : 0;
    return item;
}

static Item plus(const Sum *s, Item a, const Item *b)
{
    for (int l = 0; l < LANES; l++)
        a.lane[l] = joined(s, a.lane[l], b->lane[l]);
    return a;
}

/* The item that starts at s->at: up to 16 elements along the last axis, or one. */
static Item item_at(const Sum *s)
{
    Item item = neutral(s);
    int64_t first = 0;
    for (int k = 0; k < s->rank; k++)
        first = first * s->dim[k] + s->at[k];
    const int64_t left = s->inner ? s->dim[s->last] - s->at[s->last] : 1;
    int64_t step = 1;
    for (int k = s->last + 1; k < s->rank; k++)
        step *= s->dim[k];
    for (int l = 0; l < left && l < LANES; l++)
        item.lane[l] = s->operand[first + l * step];
    return item;
}

static Item level_sum(Sum *s, int level);

static Item step_of(Sum *s, int level, int64_t k)
{
    const int axis = s->level[level];
    s->at[axis] = s->inner && axis == s->last ? LANES * k : k;
    return level == s->n_levels - 1 ? item_at(s) : level_sum(s, level + 1);
}

/* Recursively, as powers of two: the sum of blocks first .. first + n - 1, n a power of two. */
static Item tree_of(const Sum *s, const Item *block, int64_t n)
{
    if (n == 1)
        return block[0];
    const Item left = tree_of(s, block, n / 2), right = tree_of(s, block + n / 2, n / 2);
    return plus(s, left, &right);
}

static Item fold(const Sum *s, Item *partial, int n)
{
    for (int half = n / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; k++)
            partial[k] = plus(s, partial[k], &partial[k + half]);
    const Item sum = partial[0];
    for (int k = 0; k < 4; k++)
        partial[k] = neutral(s);
    return sum;
}

static Item level_sum(Sum *s, int level)
{
    const int axis = s->level[level];
    const bool lanes = s->inner && axis == s->last;
    const int64_t whole = lanes ? s->dim[axis] / LANES : s->dim[axis];
    const int64_t all = lanes ? (s->dim[axis] + LANES - 1) / LANES : whole;
    const bool many = level == s->n_levels - 1 && whole >= 24;
    const int P = many ? s->single ? 4 : 2 : 1;
    const int64_t rounds = whole / P, blocks = rounds > 16 ? rounds / 16 : 0;
    Item partial[4], *block = malloc((size_t)(blocks + 1) * sizeof *block);
    for (int p = 0; p < 4; p++)
        partial[p] = neutral(s);
    for (int64_t k = 0; k < all; k++) {
        const Item step = step_of(s, level, k);
        const int p = k < rounds * P ? (int)(k % P) : 0;
        partial[p] = plus(s, partial[p], &step);
        if (blocks && (k + 1) % (16 * P) == 0 && k < rounds * P)
            block[k / (16 * P)] = fold(s, partial, P);
    }
    Item sum = fold(s, partial, P);
    int64_t end = blocks;
    for (int64_t size = 1; size <= blocks; size *= 2)
        if (blocks & size) {
            const Item tree = tree_of(s, block + end - size, size);
            sum = plus(s, tree, &sum);
            end -= size;
        }
    free(block);
    return sum;
}

static double sum_at(Sum *s)
{
    Item item = s->n_levels ? level_sum(s, 0) : item_at(s);
    item = plus(s, neutral(s), &item);
    for (int half = s->inner ? LANES / 2 : 0; half >= 1; half /= 2)
        for (int l = 0; l < half; l++)
            item.lane[l] = joined(s, item.lane[l], item.lane[l + half]);
    return item.lane[0];
}

static void prepare(Sum *s)
{
    s->last = s->rank - 1;
    while (s->last >= 0 && s->dim[s->last] == 1)
        s->last--;
    s->inner = s->last >= 0 && s->reduced[s->last];
    s->n_levels = 0;
    for (int k = 0; k <= s->last; k++)
        if (s->reduced[k] && s->dim[k] > 1 && !(s->inner && k == s->last && s->dim[k] <= LANES))
            s->level[s->n_levels++] = k;
    memset(s->at, 0, sizeof s->at);
}

/* --- random sums
 * ------------------------------------------------------------------------------------------- */

typedef enum Kind {
    F32,
    F64,
    I64,
    N_KINDS
} Kind;

typedef struct Case {
    Sum sum;
    Kind kind;
    bool square; /* sums the squares */
    int64_t count, n_results;
    void *values;
    double *operand;
} Case;

static const char *const type_name[] = {[F32] = "f32", [F64] = "f64", [I64] = "i64"};
static const hftac_type type_of[] = {[F32] = HFTAC_F32, [F64] = HFTAC_F64, [I64] = HFTAC_I64};

static int64_t random_dim(void)
{
    static const int64_t near[] = {1, 2, 3, 7, 8, 10, 15, 16, 17, 31, 32, 33, 64, 65, 255, 256};
    if (below(2))
        return near[below((int)(sizeof near / sizeof *near))];
    return below(4) ? 1 + below(40) : 1 + below(4) ? 1 + below(700) : 1 + below(30000);
}

/* Of a product: near 1, so that it has a size that can be compared. */
static double value_of(Kind kind, bool product)
{
    const double u = (double)random_bits() / 4294967296.0;
    const double v = product ? 1 + (u - 0.5) / 8 : (u - 0.3) * (below(50) ? 1 : 1000);
    return kind == I64 ? floor(v * 1000) : kind == F32 ? (double)(float)v : v;
}

static void make_values(Case *c)
{
    c->values = malloc((size_t)c->count * 8);
    c->operand = malloc((size_t)c->count * sizeof *c->operand);
    for (int64_t i = 0; i < c->count; i++) {
        const double v = value_of(c->kind, c->sum.product);
        if (c->kind == F32)
            ((float *)c->values)[i] = (float)v;
        else if (c->kind == F64)
            ((double *)c->values)[i] = v;
        else
            ((int64_t *)c->values)[i] = (int64_t)v;
        c->operand[i] = c->square ? rounded(&c->sum, v * v) : v;
    }
    c->sum.operand = c->operand;
}

static Case random_case(void)
{
    Case c = {.square = below(3) == 0};
    do {
        c.sum.rank = 1 + below(4);
        c.count = 1;
        for (int k = 0; k < c.sum.rank; k++)
            c.count *= c.sum.dim[k] = random_dim();
    } while (c.count > MOST_ELEMENTS);
    for (int k = 0; k < c.sum.rank; k++)
        c.sum.reduced[k] = below(2);
    c.sum.reduced[below(c.sum.rank)] = true;
    c.kind = below(3) ? F32 : (Kind)below(N_KINDS);
    c.sum.single = c.kind == F32;
    c.n_results = 1;
    for (int k = 0; k < c.sum.rank; k++)
        c.n_results *= c.sum.reduced[k] ? 1 : c.sum.dim[k];
    c.sum.product = c.kind != I64 && !c.square && below(4) == 0;
    prepare(&c.sum);
    make_values(&c);
    return c;
}

static void declare(Source *s, const Case *c, int number)
{
    add(s, "  input x%d : %s[", number, type_name[c->kind]);
    for (int k = 0; k < c->sum.rank; k++)
        add(s, "%s%lld", k ? ", " : "", (long long)c->sum.dim[k]);
    add(s, "]\n  output s%d = %s(x%d%s, dim = [", number, c->sum.product ? "prod" : "sum",
        number, c->square ? " * x" : "");
    if (c->square) {
        s->len -= strlen(", dim = [");
        add(s, "%d, dim = [", number);
    }
    for (int k = 0, n = 0; k < c->sum.rank; k++)
        if (c->sum.reduced[k])
            add(s, "%s%d", n++ ? ", " : "", k);
    add(s, "], keepdim = true)\n");
}

static double result_of(const Case *c, const void *v, int64_t i)
{
    if (c->kind == F32)
        return ((const float *)v)[i];
    return c->kind == F64 ? ((const double *)v)[i] : (double)((const int64_t *)v)[i];
}

static void feed_case(hftac_array *a, const char *name, const Case *c)
{
    Tensor t = {
        .type = type_of[c->kind], .rank = c->sum.rank, .count = c->count, .values = c->values};
    memcpy(t.dims, c->sum.dim, sizeof c->sum.dim);
    feed(a, name, &t);
}

static const void *output(hftac_array *a, const char *name, int model)
{
    hftac_output o;
    const void *v;
    must(hftac_find_output(a, name, &o));
    must(hftac_read_output(a, o, model, &v));
    return v;
}

static void compare(hftac_array *a, const char *march, Case *c, int number)
{
    char name[16];
    snprintf(name, sizeof name, "s%d", number);
    const void *got = output(a, name, 0);
    for (int64_t i = 0; i < c->n_results; i++) {
        int64_t rest = i;
        for (int k = c->sum.rank - 1; k >= 0; k--) {
            c->sum.at[k] = c->sum.reduced[k] ? 0 : rest % c->sum.dim[k];
            rest /= c->sum.reduced[k] ? 1 : c->sum.dim[k];
        }
        const double want = sum_at(&c->sum), v = result_of(c, got, i);
        if (v == want && signbit(v) == signbit(want))
            continue;
        expect(false, "%s%s of [%lld %lld %lld %lld] over %d%d%d%d, %s: %.17g, not %.17g",
               c->sum.product ? "product "
               : c->square    ? "square "
                              : "",
               type_name[c->kind], (long long)c->sum.dim[0], (long long)c->sum.dim[1],
               (long long)c->sum.dim[2], (long long)c->sum.dim[3], c->sum.reduced[0],
               c->sum.reduced[1], c->sum.reduced[2], c->sum.reduced[3], march, v, want);
        return;
    }
}

static bool runs(const char *march)
{
    if (!strcmp(march, "x86-64-v4"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl");
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static const char *const marches[] = {"x86-64-v3", "x86-64-v4"};

enum {
    N_MARCHES = 2
};

static hftac_array *compile_for(const char *text, int march, const char *level)
{
    char option[32];
    snprintf(option, sizeof option, "-march=%s", marches[march]);
    const char *const options[] = {option, level, NULL};
    if (!runs(marches[march])) {
        printf("skipped: this processor does not run %s\n", marches[march]);
        return NULL;
    }
    hftac_array *a = compile_text_options(text, 1, options);
    if (!a)
        fatal("a case does not compile");
    return a;
}

static void check_program(int number)
{
    static Case c[CASES];
    static Source s;
    s.len = 0;
    add(&s, "hdl 1\nmodel Case {\n");
    for (int i = 0; i < CASES; i++) {
        c[i] = random_case();
        declare(&s, &c[i], i);
    }
    add(&s, "}\n");
    for (int m = 0; m < N_MARCHES; m++) {
        hftac_array *a = compile_for(s.text, m, number % 2 ? "-O2" : "-O1");
        if (!a)
            continue;
        for (int i = 0; i < CASES; i++) {
            char name[16];
            snprintf(name, sizeof name, "x%d", i);
            feed_case(a, name, &c[i]);
        }
        must(hftac_predict_step(a, 1));
        for (int i = 0; i < CASES; i++)
            compare(a, marches[m], &c[i], i);
        hftac_close(a);
    }
    for (int i = 0; i < CASES; i++) {
        free(c[i].values);
        free(c[i].operand);
    }
}

/* --- how good sums are
 * ------------------------------------------------------------------------------------- */

static const char long_sums[] =
    "hdl 1\nmodel Case {\n  input x : f32[10000000]\n  input y : f32[1000, 1000]\n"
    "  output all = sum(x)\n"
    "  output outer = sum(reshape(x, [10000000, 1]))\n"
    "  output both = sum(reshape(x, [1250000, 8]))\n"
    "  output columns = sum(reshape(x, [1250000, 8]), 0)\n"
    "  output fused = sum(relu(x))\n"
    "  output m = mean(y)\n  output v = var(y)\n}\n";

static void near(const char *what, int march, const void *got, int n, double want,
                 double relative)
{
    for (int i = 0; i < n; i++)
        expect(fabs(((const float *)got)[i] - want) <= relative * want,
               "%s with %s: %.9g, not %.9g", what, marches[march], ((const float *)got)[i],
               want);
}

/* 10^7 equal values, and a million of two that lie side by side. */
static void check_accuracy(void)
{
    static const float equal[] = {0.1f, 1.0f / 3, 9991.7f, 1.0000001f};
    const int n = 10000000, million = 1000000;
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)million * sizeof *y);
    for (int i = 0; i < million; i++)
        y[i] = (float)(9991 + i % 2);
    for (int m = 0; m < N_MARCHES; m++) {
        hftac_array *a = compile_for(long_sums, m, "-O2");
        for (int k = 0; a && k < 4; k++) {
            for (int i = 0; i < n; i++)
                x[i] = equal[k];
            const double sum = (double)equal[k] * n;
            feed(a, "x", &(Tensor){.type = HFTAC_F32, .rank = 1, .dims = {n}, .values = x});
            feed(a, "y", &(Tensor){.type = HFTAC_F32, .rank = 2, .values = y});
            must(hftac_predict_step(a, 1));
            near("sum", m, output(a, "all", 0), 1, sum, 1e-6);
            near("outer sum", m, output(a, "outer", 0), 1, sum, 1e-6);
            near("sum of rows of 8", m, output(a, "both", 0), 1, sum, 1e-6);
            near("sum of columns", m, output(a, "columns", 0), 8, sum / 8, 1e-6);
            near("fused sum", m, output(a, "fused", 0), 1, sum, 1e-6);
            near("mean", m, output(a, "m", 0), 1, 9991.5, 1e-7);
            near("variance", m, output(a, "v", 0), 1, 0.25 * million / (million - 1), 1e-6);
        }
        if (a)
            hftac_close(a);
    }
    free(x);
    free(y);
}

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    for (int i = 0; i < PROGRAMS; i++)
        check_program(i);
    check_accuracy();
    check_end();
    printf("%d random sums, %d failures\n", PROGRAMS * CASES, failures);
    return failures != 0;
}
