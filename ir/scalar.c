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

static int64_t eval_int(ScalarFn f, int64_t a, int64_t b, int64_t c)
{
    const uint64_t ua = (uint64_t)a, ub = (uint64_t)b, uc = (uint64_t)c;
    switch (f) {
    case SC_ADD:
        return (int64_t)(ua + ub);
    case SC_SUB:
        return (int64_t)(ua - ub);
    case SC_MUL:
        return (int64_t)(ua * ub);
    case SC_DIV:
        return trunc_div(a, b);
    case SC_FDIV:
        return floor_div(a, b);
    case SC_MOD:
        return floor_mod(a, b);
    case SC_POW:
        return int_pow(a, b);
    case SC_MIN:
        return a < b ? a : b;
    case SC_MAX:
        return a > b ? a : b;
    case SC_FMA:
        return (int64_t)(ua * ub + uc);
    case SC_NEG:
        return (int64_t)(0 - ua);
    case SC_ABS:
        return a < 0 ? (int64_t)(0 - ua) : a;
    case SC_SIGN:
        return (a > 0) - (a < 0);
    case SC_RELU:
        return a > 0 ? a : 0;
    default: /* floor, ceil, identity */
        return a;
    }
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

static double eval_real(ScalarFn f, double a, double b, double c)
{
    switch (f) {
    case SC_ADD:
        return a + b;
    case SC_SUB:
        return a - b;
    case SC_MUL:
        return a * b;
    case SC_DIV:
        return a / b;
    case SC_FDIV:
        return real_floor_div(a, b);
    case SC_MOD:
        return real_mod(a, b);
    case SC_POW:
        return pow(a, b);
    case SC_MIN:
        return either_nan(a, b, a < b ? a : b);
    case SC_MAX:
        return either_nan(a, b, a > b ? a : b);
    case SC_FMA:
        return fma(a, b, c);
    case SC_NEG:
        return -a;
    case SC_ABS:
        return fabs(a);
    case SC_SIGN:
        return (a > 0) - (a < 0);
    case SC_FLOOR:
        return floor(a);
    case SC_CEIL:
        return ceil(a);
    case SC_SQRT:
        return sqrt(a);
    case SC_EXP:
        return exp(a);
    case SC_LOG:
        return log(a);
    case SC_EXPM1:
        return expm1(a);
    case SC_LOG1P:
        return log1p(a);
    case SC_SIN:
        return sin(a);
    case SC_COS:
        return cos(a);
    case SC_TANH:
        return tanh(a);
    case SC_ERF:
        return erf(a);
    case SC_SIGMOID:
        return 1 / (1 + exp(-a));
    case SC_RELU:
        return a < 0 ? 0 : a; /* keeps NaN */
    default:                  /* identity */
        return a;
    }
}

/* What gives bool, or picks an operand: the same for every element type. */
static bool eval_any(ScalarFn f, const double *x, double *result)
{
    switch (f) {
    case SC_EQ:
        *result = x[0] == x[1];
        return true;
    case SC_NE:
        *result = x[0] != x[1];
        return true;
    case SC_LT:
        *result = x[0] < x[1];
        return true;
    case SC_LE:
        *result = x[0] <= x[1];
        return true;
    case SC_GT:
        *result = x[0] > x[1];
        return true;
    case SC_GE:
        *result = x[0] >= x[1];
        return true;
    case SC_AND:
        *result = x[0] != 0 && x[1] != 0;
        return true;
    case SC_OR:
        *result = x[0] != 0 || x[1] != 0;
        return true;
    case SC_NOT:
        *result = x[0] == 0;
        return true;
    case SC_WHERE:
        *result = x[0] != 0 ? x[1] : x[2];
        return true;
    case SC_ISFINITE:
        *result = isfinite(x[0]);
        return true;
    default:
        return false;
    }
}

double scalar_eval(ScalarFn f, DType type, const double *x)
{
    double v[3] = {0}, result;
    if (eval_any(f, x, &result))
        return result;
    for (int i = 0; i < scalar_arity(f); i++)
        v[i] = x[i];
    if (dtype_class(type) == DTC_REAL)
        return eval_real(f, v[0], v[1], v[2]);
    return (double)eval_int(f, to_int(v[0]), to_int(v[1]), to_int(v[2]));
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
    default:
        return v;
    }
}
