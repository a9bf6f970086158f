/* Scalar functions for constant folding: real arithmetic in double, integer arithmetic in int64
 * with wrap-around.  What the run time computes with its own polynomials (exp, log, ...) is
 * libm's here: a constant is a constant, but it may differ in the last bit from the same
 * expression at run time. */
#include "ir/scalar.h"

#include <math.h>

static int64_t to_int(double v)
{
    if (isnan(v))
        return 0;
    if (v >= 9223372036854775807.0)
        return INT64_MAX;
    if (v <= -9223372036854775808.0)
        return INT64_MIN;
    return (int64_t)v;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (b == -1)
        return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Negative exponents round toward zero, as the quotient would. */
static int64_t int_pow(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    uint64_t result = 1, square = (uint64_t)base;
    for (; exponent; exponent >>= 1, square *= square)
        if (exponent & 1)
            result *= square;
    return (int64_t)result;
}

static int64_t trunc_div(int64_t a, int64_t b)
{
    return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

/* PyTorch's remainder: the sign of the divisor. */
static double real_mod(double a, double b)
{
    const double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* PyTorch's (and Python's) floor division: exact where x / y would round up to the next integer. */
static double real_floor_div(double a, double b)
{
    if (b == 0)
        return a / b;
    const double r = fmod(a, b);
    double q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, a / b);
    const double down = floor(q);
    return q - down > 0.5 ? down + 1 : down;
}

static double either_nan(double a, double b, double otherwise)
{
    return isnan(a) ? a : isnan(b) ? b : otherwise;
}

/* ---- one row for each function ---- */

typedef double RealEval(double a, double b, double c);
typedef int64_t IntEval(int64_t a, int64_t b, int64_t c);

#define REAL(NAME, value)                                   \
    static double real_##NAME(double a, double b, double c) \
    {                                                       \
        (void)a, (void)b, (void)c;                          \
        return value;                                       \
    }
#define INT(NAME, value)                                       \
    static int64_t int_##NAME(int64_t a, int64_t b, int64_t c) \
    {                                                          \
        (void)a, (void)b, (void)c;                             \
        return value;                                          \
    }

/* clang-format off */
REAL(ADD, a + b)
REAL(SUB, a - b)
REAL(MUL, a * b)
REAL(DIV, a / b)
REAL(FDIV, real_floor_div(a, b))
REAL(MOD, real_mod(a, b))
REAL(POW, pow(a, b))
REAL(MIN, either_nan(a, b, a < b ? a : b))
REAL(MAX, either_nan(a, b, a > b ? a : b))
REAL(EQ, a == b)
REAL(NE, a != b)
REAL(LT, a < b)
REAL(LE, a <= b)
REAL(GT, a > b)
REAL(GE, a >= b)
REAL(AND, a != 0 && b != 0)
REAL(OR, a != 0 || b != 0)
REAL(NOT, a == 0)
REAL(WHERE, a != 0 ? b : c)
REAL(FMA, fma(a, b, c))
REAL(NEG, -a)
REAL(ABS, fabs(a))
REAL(SIGN, (a > 0) - (a < 0))
REAL(FLOOR, floor(a))
REAL(CEIL, ceil(a))
REAL(SQRT, sqrt(a))
REAL(EXP, exp(a))
REAL(LOG, log(a))
REAL(EXPM1, expm1(a))
REAL(LOG1P, log1p(a))
REAL(SIN, sin(a))
REAL(COS, cos(a))
REAL(TANH, tanh(a))
REAL(ERF, erf(a))
REAL(SIGMOID, 1 / (1 + exp(-a)))
REAL(RELU, a < 0 ? 0 : a) /* keeps NaN */
REAL(ISFINITE, isfinite(a))
REAL(CAST, a) /* scalar_cast does it */

INT(ADD, (int64_t)((uint64_t)a + (uint64_t)b))
INT(SUB, (int64_t)((uint64_t)a - (uint64_t)b))
INT(MUL, (int64_t)((uint64_t)a * (uint64_t)b))
INT(DIV, trunc_div(a, b))
INT(FDIV, floor_div(a, b))
INT(MOD, floor_mod(a, b))
INT(POW, int_pow(a, b))
INT(FMA, (int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c))
INT(NEG, (int64_t)(0 - (uint64_t)a))
INT(ABS, a < 0 ? (int64_t)(0 - (uint64_t)a) : a)
/* clang-format on */
#undef REAL
#undef INT

/* Of reals; of any element type where `of_integers` has nothing. */
static RealEval *const of_reals[] = {
#define SCALAR(NAME, text, in, attrs, shape, grad, cost) [SC_##NAME] = real_##NAME,
#include "ir/scalars.def"
};

/* What wraps or divides as integers do. */
static IntEval *const of_integers[SC_COUNT] = {
    [SC_ADD] = int_ADD,   [SC_SUB] = int_SUB, [SC_MUL] = int_MUL, [SC_DIV] = int_DIV,
    [SC_FDIV] = int_FDIV, [SC_MOD] = int_MOD, [SC_POW] = int_POW, [SC_FMA] = int_FMA,
    [SC_NEG] = int_NEG,   [SC_ABS] = int_ABS,
};

double scalar_eval(ScalarFn f, DType type, const double *x)
{
    double v[3] = {0};
    for (int i = 0; i < scalar_arity(f); i++)
        v[i] = x[i];
    if (dtype_class(type) == DTC_REAL || !of_integers[f])
        return of_reals[f](v[0], v[1], v[2]);
    return (double)of_integers[f](to_int(v[0]), to_int(v[1]), to_int(v[2]));
}

static double clamped(double v, double least, double most)
{
    return isnan(v) ? 0 : v < least ? least : v > most ? most : trunc(v);
}

double scalar_cast(DType from, DType to, double v)
{
    if (dtype_class(from) == DTC_REAL && to == DT_U8)
        return clamped(v, 0, UINT8_MAX);
    if (dtype_class(from) == DTC_REAL && to == DT_I32)
        return clamped(v, INT32_MIN, INT32_MAX);
    return scalar_round(to, v);
}

double scalar_round(DType t, double v)
{
    switch (t) {
    case DT_BOOL:
        return v != 0;
    case DT_U8:
        return (double)(uint8_t)to_int(v);
    case DT_I32:
        return (double)(int32_t)(uint32_t)(uint64_t)to_int(v);
    case DT_I64:
        return (double)to_int(v);
    case DT_F32:
        return (double)(float)v;
    case DT_F64:
    case DT_COUNT:
        break;
    }
    return v;
}
