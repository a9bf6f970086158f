/* The scalar functions as machine code: against libm in wider precision, over bit patterns of the
 * whole range and dense intervals; every width of vector against the scalar, bit for bit; special
 * values. `test_math -v` prints the measured errors and times. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cpu/scalar.h"
#include "tests/unit/native_loop.h"

enum {
    N = 1 << 18,
    N_WIDTHS = 3
};
static const unsigned widths[N_WIDTHS] = {0, 8, 16};
static int failures;
static bool verbose;

#define CHECK(ok, ...)                                    \
    do {                                                  \
        if (!(ok) && failures++ < 20) {                   \
            printf("FAILED %s:%d: ", __FILE__, __LINE__); \
            printf(__VA_ARGS__);                          \
            printf("\n");                                 \
        }                                                 \
    } while (0)

typedef long double Reference(long double x, long double y);

static void kernel_name(char *out, size_t size, ScalarFn f, DType from, DType to,
                        unsigned lanes)
{
    snprintf(out, size, "%s_%s_%s_%u", scalar_text(f), dtype_text(from), dtype_text(to), lanes);
}

static void add_kernels(Native *n, ScalarFn f, DType from, DType to)
{
    for (int w = 0; w < N_WIDTHS; w++) {
        char name[64];
        kernel_name(name, sizeof name, f, from, to, widths[w]);
        if (LLVMGetNamedFunction(n->module, name))
            continue;
        Loop l = native_loop_begin(n, name);
        LLVMValueRef x[3] = {NULL, NULL, NULL};
        for (unsigned i = 0; i < (unsigned)scalar_arity(f); i++)
            x[i] = native_load(n, &l, i, f == SC_WHERE && i == 0 ? DT_BOOL : from, widths[w]);
        native_store(n, &l, to, widths[w], scalar_emit(l.b, f, from, to, x));
        native_loop_end(n, &l);
    }
}

/* Runs all widths on n elements (a multiple of 16), demands equal bits, leaves the result in out.
 */
static void run(Native *n, ScalarFn f, DType from, DType to, const void *x, const void *y,
                const void *z, void *out, int64_t count)
{
    const size_t bytes = (size_t)count * (size_t)dtype_bytes(to);
    unsigned char *other = malloc(bytes);
    for (int w = 0; w < N_WIDTHS; w++) {
        char name[64];
        kernel_name(name, sizeof name, f, from, to, widths[w]);
        LoopFn *k;
        *(void **)&k = native_symbol(n, name);
        const int64_t lanes = widths[w] ? widths[w] : 1;
        memset(other, 0xee, bytes);
        k(x, y, z, w ? other : out, count / lanes);
        CHECK(w == 0 || !memcmp(other, out, bytes), "%s: lanes differ from the scalar", name);
    }
    free(other);
}

/* ---- reals against libm ---- */

static long double ref_exp(long double x, long double y)
{
    (void)y;
    return expl(x);
}
static long double ref_log(long double x, long double y)
{
    (void)y;
    return logl(x);
}
static long double ref_expm1(long double x, long double y)
{
    (void)y;
    return expm1l(x);
}
static long double ref_log1p(long double x, long double y)
{
    (void)y;
    return log1pl(x);
}
static long double ref_sin(long double x, long double y)
{
    (void)y;
    return sinl(x);
}
static long double ref_cos(long double x, long double y)
{
    (void)y;
    return cosl(x);
}
static long double ref_tanh(long double x, long double y)
{
    (void)y;
    return tanhl(x);
}
static long double ref_erf(long double x, long double y)
{
    (void)y;
    return erfl(x);
}
static long double ref_sqrt(long double x, long double y)
{
    (void)y;
    return sqrtl(x);
}
static long double ref_floor(long double x, long double y)
{
    (void)y;
    return floorl(x);
}
static long double ref_ceil(long double x, long double y)
{
    (void)y;
    return ceill(x);
}
static long double ref_pow(long double x, long double y)
{
    return powl(x, y);
}
static long double ref_sigmoid(long double x, long double y)
{
    (void)y;
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static long double ref_add(long double x, long double y)
{
    return x + y;
}
static long double ref_div(long double x, long double y)
{
    return x / y;
}
static long double ref_min(long double x, long double y)
{
    return isnan(x) ? x : isnan(y) ? y : x < y ? x : y;
}
static long double ref_max(long double x, long double y)
{
    return isnan(x) ? x : isnan(y) ? y : x > y ? x : y;
}
static long double ref_relu(long double x, long double y)
{
    (void)y;
    return x < 0 ? 0 : x;
}
static long double ref_sign(long double x, long double y)
{
    (void)y;
    return (x > 0) - (x < 0);
}
static long double ref_abs(long double x, long double y)
{
    (void)y;
    return fabsl(x);
}
static long double ref_neg(long double x, long double y)
{
    (void)y;
    return -x;
}

static long double ref_mod(long double x, long double y)
{
    const long double r = fmodl(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static long double ref_fdiv(long double x, long double y)
{
    const long double r = fmodl(x, y);
    const long double q = (x - r) / y - (r != 0 && (r < 0) != (y < 0));
    return y == 0 ? x / y : floorl(q + 0.25L);
}

typedef struct RealCase {
    ScalarFn f;
    Reference *ref;
    double ulp32, ulp64; /* allowed, in units of the last place of the result */
    double lo, hi;       /* the dense interval; outside it only bit patterns */
    double top32, top64; /* largest |x| of the contract */
    double lo2, hi2;     /* of the second operand */
} RealCase;

/* clang-format off */
static const RealCase real_cases[] = {
    {SC_EXP,     ref_exp,     1.0, 1.0, -110, 90,   INFINITY, INFINITY, 0, 0},
    {SC_LOG,     ref_log,     1.0, 1.0, 0, 4,       INFINITY, INFINITY, 0, 0},
    {SC_EXPM1,   ref_expm1,   2.0, 2.0, -50, 90,    INFINITY, INFINITY, 0, 0},
    {SC_LOG1P,   ref_log1p,   2.0, 2.0, -1, 4,      INFINITY, INFINITY, 0, 0},
    {SC_TANH,    ref_tanh,    2.0, 2.0, -10, 10,    INFINITY, INFINITY, 0, 0},
    {SC_SIGMOID, ref_sigmoid, 2.0, 2.0, -110, 40,   INFINITY, INFINITY, 0, 0},
    {SC_ERF,     ref_erf,     2.0, 2.0, -5, 5,      INFINITY, INFINITY, 0, 0},
    {SC_SIN,     ref_sin,     1.0, 2.0, -20, 20,    0x1p44,   0x1p30,   0, 0},
    {SC_COS,     ref_cos,     1.0, 2.0, -20, 20,    0x1p44,   0x1p30,   0, 0},
    {SC_POW,     ref_pow,     0.51, 4.0, 0, 10,      INFINITY, INFINITY, -20, 20},
    {SC_SQRT,    ref_sqrt,    0.51, 0.51, 0, 10,    INFINITY, INFINITY, 0, 0},
    {SC_FLOOR,   ref_floor,   0, 0, -9, 9,          INFINITY, INFINITY, 0, 0},
    {SC_CEIL,    ref_ceil,    0, 0, -9, 9,          INFINITY, INFINITY, 0, 0},
    {SC_ADD,     ref_add,     0.51, 0.51, -9, 9,    INFINITY, INFINITY, -9, 9},
    {SC_DIV,     ref_div,     0.51, 0.51, -9, 9,    INFINITY, INFINITY, -9, 9},
    {SC_MIN,     ref_min,     0, 0, -9, 9,          INFINITY, INFINITY, -9, 9},
    {SC_MAX,     ref_max,     0, 0, -9, 9,          INFINITY, INFINITY, -9, 9},
    {SC_MOD,     ref_mod,     1.0, 1.0, -99, 99,    1e6,      1e9,      -9, 9},
    {SC_FDIV,    ref_fdiv,    0.51, 0.51, -99, 99,  1e6,      1e9,      -9, 9},
    {SC_RELU,    ref_relu,    0, 0, -9, 9,          INFINITY, INFINITY, 0, 0},
    {SC_SIGN,    ref_sign,    0, 0, -9, 9,          INFINITY, INFINITY, 0, 0},
    {SC_ABS,     ref_abs,     0, 0, -9, 9,          INFINITY, INFINITY, 0, 0},
    {SC_NEG,     ref_neg,     0, 0, -9, 9,          INFINITY, INFINITY, 0, 0},
};
/* clang-format on */
enum {
    N_REAL = (int)(sizeof real_cases / sizeof *real_cases)
};

static uint64_t random_bits(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    uint64_t z = *s;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double between(uint64_t *s, double lo, double hi)
{
    return lo + (hi - lo) * 0x1p-53 * (double)(random_bits(s) >> 11);
}

static const double specials[] = {
    0.0,         -0.0,         1.0,      -1.0,     2.0,        -2.0,        3.0,
    -3.0,        0.5,          -0.5,     INFINITY, -INFINITY,  NAN,         FLT_MIN,
    FLT_MIN / 8, FLT_TRUE_MIN, FLT_MAX,  -FLT_MAX, DBL_MIN,    DBL_MIN / 8, DBL_TRUE_MIN,
    DBL_MAX,     -DBL_MAX,     88.72284, 88.72283, -103.97208, -103.97207,  709.78,
    709.79,      -745.13,      -745.14,  1e5,      1e9};
enum {
    N_SPECIAL = (int)(sizeof specials / sizeof *specials)
};

/* A quarter bit patterns, all pairs of special values, the rest dense. */
static double sample(const RealCase *c, bool wide, int which, int i, uint64_t *s)
{
    if (i < N_SPECIAL * N_SPECIAL)
        return specials[which ? i / N_SPECIAL : i % N_SPECIAL];
    if (i % 4 == 0 && !(which && c->f == SC_POW)) {
        const uint64_t bits = random_bits(s);
        double d;
        float f;
        memcpy(&d, &bits, sizeof d);
        const uint32_t low = (uint32_t)bits;
        memcpy(&f, &low, sizeof f);
        return wide ? d : (double)f;
    }
    if (i % 4 == 1)
        return (which ? 1 : between(s, -1, 1)) * exp2(between(s, -20, 3));
    if (which == 0 && (c->f == SC_SIN || c->f == SC_COS) && i % 4 == 2)
        return between(s, -1e5, 1e5);
    return which ? between(s, c->lo2, c->hi2) : between(s, c->lo, c->hi);
}

static double get(const void *p, bool wide, int64_t i)
{
    return wide ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void put(void *p, bool wide, int64_t i, double v)
{
    if (wide)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

/* Distance in units of the last place of the nearest value of the type. */
static double ulps(long double want, double got, bool wide)
{
    const double rounded = wide ? (double)want : (double)(float)want;
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (rounded == got)
        return isinf(got) ? 0 : (double)fminl(0.5L, fabsl(want - got));
    if (isinf(rounded) || isinf(got))
        return INFINITY;
    int e;
    frexpl(want, &e);
    const int least = wide ? -1073 + 52 : -148 + 23;
    if (want == 0 || e < least)
        e = least;
    return (double)(fabsl(want - (long double)got) / ldexpl(1.0L, e - (wide ? 53 : 24)));
}

/* Nanoseconds per element over values between -4 and 4 (0 and 4 for the first operand of log and
 * pow) in cache. */
static void print_speed(Native *n, ScalarFn f, DType t, void *const buffer[3])
{
    enum {
        SOME = 2048,
        TIMES = 200
    };
    uint64_t seed = 1;
    for (int i = 0; i < SOME; i++)
        for (int which = 0; which < 2; which++)
            put(buffer[which], t == DT_F64, i,
                between(&seed, which == 0 && (f == SC_LOG || f == SC_POW) ? 0 : -4, 4));
    printf("%-8s %s: ns per element", scalar_text(f), dtype_text(t));
    for (int w = 0; w < N_WIDTHS; w++) {
        char name[64];
        kernel_name(name, sizeof name, f, t, t, widths[w]);
        LoopFn *k;
        *(void **)&k = native_symbol(n, name);
        const double start = native_now();
        for (int r = 0; r < TIMES; r++)
            k(buffer[0], buffer[1], NULL, buffer[2], SOME / (widths[w] ? widths[w] : 1));
        printf(" %.3f", (native_now() - start) * 1e9 / SOME / TIMES);
    }
    printf("\n");
}

static void check_real(Native *n, const RealCase *c, bool wide, void *const buffer[3])
{
    const DType t = wide ? DT_F64 : DT_F32;
    uint64_t seed = 7;
    for (int i = 0; i < N; i++)
        for (int which = 0; which < 2; which++)
            put(buffer[which], wide, i, sample(c, wide, which, i, &seed));
    run(n, c->f, t, t, buffer[0], buffer[1], NULL, buffer[2], N);
    double worst = 0, at = 0, at2 = 0, worst_got = 0;
    for (int i = 0; i < N; i++) {
        const double x = get(buffer[0], wide, i), y = get(buffer[1], wide, i);
        const double got = get(buffer[2], wide, i);
        const bool phase = fabs(x) > (wide ? c->top64 : c->top32);
        if (phase) { /* outside the contract: NaN only where it must be, and bounded */
            if ((c->f == SC_SIN || c->f == SC_COS) && isfinite(x))
                CHECK(fabs(got) <= 1.0001, "%s(%.17g) = %g", scalar_text(c->f), x, got);
            continue;
        }
        if ((c->f == SC_MOD || c->f == SC_FDIV) && fabs(x / y) > 0x1p50)
            continue;
        const double u = ulps(c->ref(x, y), got, wide);
        if (u > worst)
            worst = u, at = x, at2 = y, worst_got = got;
    }
    const double allowed = wide ? c->ulp64 : c->ulp32;
    if (verbose)
        printf("%-8s %s: error %.3f ulp at %.9g, %.9g\n", scalar_text(c->f), dtype_text(t),
               worst, at, at2);
    CHECK(worst <= allowed, "%s %s: error %.3g ulp at (%.17g, %.17g): %.17g instead of %.17g",
          scalar_text(c->f), dtype_text(t), worst, at, at2, worst_got, (double)c->ref(at, at2));
    if (verbose)
        print_speed(n, c->f, t, buffer);
}

/* ---- compares, casts, integers ---- */

static const int64_t int_values[16] = {
    0, 1, -1, 2, -2, 7, -7, 8, 100, -100, 255, 256, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};

static int64_t floor_div(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (y == -1)
        return (int64_t)(0 - (uint64_t)x);
    return x / y - (x % y != 0 && (x % y < 0) != (y < 0));
}

static int64_t floor_mod(int64_t x, int64_t y)
{
    if (y == 0 || y == -1)
        return 0;
    const int64_t r = x % y;
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t int_reference(ScalarFn f, int64_t x, int64_t y)
{
    const uint64_t a = (uint64_t)x, b = (uint64_t)y;
    const int64_t value[SC_COUNT] = {
        [SC_ADD] = (int64_t)(a + b), [SC_SUB] = (int64_t)(a - b),
        [SC_MUL] = (int64_t)(a * b), [SC_DIV] = y == 0 ? 0 : y == -1 ? (int64_t)(0 - a) : x / y,
        [SC_FDIV] = floor_div(x, y), [SC_MOD] = floor_mod(x, y),
        [SC_MIN] = x < y ? x : y,    [SC_MAX] = x > y ? x : y};
    return value[f];
}

static const ScalarFn int_fns[] = {SC_ADD,  SC_SUB, SC_MUL, SC_DIV,
                                   SC_FDIV, SC_MOD, SC_MIN, SC_MAX};
enum {
    N_INT = (int)(sizeof int_fns / sizeof *int_fns)
};

static void check_int(Native *n, ScalarFn f)
{
    int64_t x[256], y[256], got[256];
    for (int i = 0; i < 256; i++)
        x[i] = int_values[i % 16], y[i] = int_values[i / 16];
    run(n, f, DT_I64, DT_I64, x, y, NULL, got, 256);
    for (int i = 0; i < 256; i++)
        CHECK(got[i] == int_reference(f, x[i], y[i]), "%s(%" PRId64 ", %" PRId64 ") = %" PRId64,
              scalar_text(f), x[i], y[i], got[i]);
}

static bool compare_reference(ScalarFn f, double x, double y)
{
    const bool value[SC_COUNT] = {[SC_EQ] = x == y,
                                  [SC_NE] = x != y,
                                  [SC_LT] = x<y, [SC_LE] = x <= y, [SC_GT] = x> y,
                                  [SC_GE] = x >= y,
                                  [SC_ISFINITE] = isfinite(x),
                                  [SC_AND] = x != 0 && y != 0,
                                  [SC_OR] = x != 0 || y != 0,
                                  [SC_NOT] = x == 0};
    return value[f];
}

static const ScalarFn truth_fns[] = {SC_EQ, SC_NE,       SC_LT,  SC_LE, SC_GT,
                                     SC_GE, SC_ISFINITE, SC_AND, SC_OR, SC_NOT};
enum {
    N_TRUTH = (int)(sizeof truth_fns / sizeof *truth_fns)
};

static void check_truth(Native *n, ScalarFn f)
{
    static const float v[8] = {0.0f,     -0.0f,     1.0f, -1.0f,
                               INFINITY, -INFINITY, NAN,  FLT_TRUE_MIN};
    float x[64], y[64];
    unsigned char got[64];
    for (int i = 0; i < 64; i++)
        x[i] = v[i % 8], y[i] = v[i / 8];
    run(n, f, DT_F32, DT_BOOL, x, y, NULL, got, 64);
    for (int i = 0; i < 64; i++)
        CHECK(got[i] == (compare_reference(f, x[i], y[i]) ? 1 : 0), "%s(%g, %g)",
              scalar_text(f), (double)x[i], (double)y[i]);
}

static void check_casts(Native *n)
{
    static const double v[16] = {0,   -0.9, 1.9,  -1.9, 255.9, 256,      -3,        1e9,
                                 3e9, -3e9, 1e18, 1e19, -1e19, INFINITY, -INFINITY, NAN};
    static const int64_t as_i64[16] = {0,
                                       0,
                                       1,
                                       -1,
                                       255,
                                       256,
                                       -3,
                                       1000000000,
                                       3000000000,
                                       -3000000000,
                                       1000000000000000000,
                                       INT64_MAX,
                                       INT64_MIN,
                                       INT64_MAX,
                                       INT64_MIN,
                                       0};
    static const int32_t as_i32[16] = {
        0,         0,         1,         -1,        255,       256,       -3,        1000000000,
        INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0};
    static const uint8_t as_u8[16] = {0,   0, 1,   0,   255, 255, 0, 255,
                                      255, 0, 255, 255, 0,   255, 0, 0};
    int64_t i64[16];
    int32_t i32[16];
    uint8_t u8[16], truth[16];
    run(n, SC_CAST, DT_F64, DT_I64, v, NULL, NULL, i64, 16);
    run(n, SC_CAST, DT_F64, DT_I32, v, NULL, NULL, i32, 16);
    run(n, SC_CAST, DT_F64, DT_U8, v, NULL, NULL, u8, 16);
    run(n, SC_CAST, DT_F64, DT_BOOL, v, NULL, NULL, truth, 16);
    for (int i = 0; i < 16; i++)
        CHECK(i64[i] == as_i64[i] && i32[i] == as_i32[i] && u8[i] == as_u8[i] &&
                  truth[i] == (v[i] != 0),
              "cast %g: %" PRId64 " %d %d %d", v[i], i64[i], i32[i], u8[i], truth[i]);
    float f32[16];
    double f64[16];
    run(n, SC_CAST, DT_I64, DT_F32, as_i64, NULL, NULL, f32, 16);
    run(n, SC_CAST, DT_U8, DT_F64, as_u8, NULL, NULL, f64, 16);
    for (int i = 0; i < 16; i++)
        CHECK(f32[i] == (float)as_i64[i] && f64[i] == as_u8[i], "cast of integer %d", i);
    run(n, SC_CAST, DT_BOOL, DT_F32, truth, NULL, NULL, f32, 16);
    run(n, SC_CAST, DT_BOOL, DT_I64, truth, NULL, NULL, i64, 16);
    for (int i = 0; i < 16; i++)
        CHECK(f32[i] == truth[i] && i64[i] == truth[i], "cast of bool %d", i);
}

static void check_select(Native *n)
{
    uint8_t c[16];
    float x[16], y[16], z[16], got[16];
    for (int i = 0; i < 16; i++)
        c[i] = (uint8_t)(i % 3 == 0), x[i] = (float)i + 0.1f, y[i] = (float)(-i), z[i] = 1e8f;
    run(n, SC_WHERE, DT_F32, DT_F32, c, x, y, got, 16);
    for (int i = 0; i < 16; i++)
        CHECK(got[i] == (c[i] ? x[i] : y[i]), "where %d", i);
    run(n, SC_FMA, DT_F32, DT_F32, x, y, z, got, 16);
    for (int i = 0; i < 16; i++)
        CHECK(got[i] == fmaf(x[i], y[i], z[i]), "fma %d", i);
}

/* ---- all ---- */

static void add_all(Native *n)
{
    for (int i = 0; i < N_REAL; i++) {
        add_kernels(n, real_cases[i].f, DT_F32, DT_F32);
        add_kernels(n, real_cases[i].f, DT_F64, DT_F64);
    }
    for (int i = 0; i < N_INT; i++)
        add_kernels(n, int_fns[i], DT_I64, DT_I64);
    for (int i = 0; i < N_TRUTH; i++)
        add_kernels(n, truth_fns[i], DT_F32, DT_BOOL);
    static const DType casts[][2] = {{DT_F64, DT_I64},  {DT_F64, DT_I32}, {DT_F64, DT_U8},
                                     {DT_F64, DT_BOOL}, {DT_I64, DT_F32}, {DT_U8, DT_F64},
                                     {DT_BOOL, DT_F32}, {DT_BOOL, DT_I64}};
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
        add_kernels(n, SC_CAST, casts[i][0], casts[i][1]);
    add_kernels(n, SC_WHERE, DT_F32, DT_F32);
    add_kernels(n, SC_FMA, DT_F32, DT_F32);
}

static void check_all(const char *march)
{
    Native n = native_new(march);
    add_all(&n);
    native_link(&n);
    if (verbose)
        printf("-march=%s\n", march);
    void *buffer[3];
    for (int i = 0; i < 3; i++)
        buffer[i] = malloc(N * sizeof(double));
    for (int i = 0; i < N_REAL; i++) {
        check_real(&n, &real_cases[i], false, buffer);
        check_real(&n, &real_cases[i], true, buffer);
    }
    for (int i = 0; i < N_INT; i++)
        check_int(&n, int_fns[i]);
    for (int i = 0; i < N_TRUTH; i++)
        check_truth(&n, truth_fns[i]);
    check_casts(&n);
    check_select(&n);
    for (int i = 0; i < 3; i++)
        free(buffer[i]);
    native_free(&n);
}

int main(int argc, char **argv)
{
    verbose = argc > 1 && !strcmp(argv[1], "-v");
    if (!native_can_run()) {
        printf("skipped: this processor has no AVX2\n");
        return 77;
    }
    check_all("x86-64-v3");
    check_all("native");
    printf("test_math: %s\n", failures ? "FAILED" : "passed");
    return failures ? 1 : 0;
}
