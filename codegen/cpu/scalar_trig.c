/* sin and cos, and the remainder.
 *
 * x = n pi/2 + r in f64, |r| <= pi/4, with pi/2 in three parts of 53 bits and fused
 * multiply-adds, then
 *     sin r = r + r^3 S(r^2),  cos r = 1 - r^2 / 2 + r^4 C(r^2)
 * with relative errors below 5e-12 and 1e-10 (f32, which computes in f64 and rounds once) and
 * 4e-18 and 5e-20 (f64).
 * Good for |x| < 2^44 in f32 and |x| < 2^30 in f64; beyond, results stay within [-1, 1] but lose
 * their phase. */
#include "codegen/cpu/scalar_math.h"

#include <math.h>

enum {
    N_S32 = 4,
    N_C32 = 3,
    N_64 = 6
};

static const double sin_32[N_S32] = {-0x1.5555554cb241fp-3, 0x1.11110890a1e0fp-7,
                                     -0x1.a00f9905b7f74p-13, 0x1.6cd73a0860923p-19};
static const double cos_32[N_C32] = {0x1.55554aac380a9p-5, -0x1.6c0c86b8ba314p-10,
                                     0x1.9a00dac44dedep-16};
static const double sin_64[N_64] = {-0x1.5555555555549p-3,  0x1.111111110f861p-7,
                                    -0x1.a01a019c0e479p-13, 0x1.71de3574b2e3dp-19,
                                    -0x1.ae5e63c6341b6p-26, 0x1.5d92446eadec7p-33};
static const double cos_64[N_64] = {0x1.555555555554cp-5,  -0x1.6c16c16c15162p-10,
                                    0x1.a01a019caef56p-16, -0x1.27e4f807d7341p-22,
                                    0x1.1ee9ea6d41c41p-29, -0x1.8fadd0962917bp-37};
static const double half_pi[3] = {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54,
                                  -0x1.f1976b7ed8fbcp-110};

/* r of x (f64), and n as an integer. */
static Val reduce(Fm f, Val x, Val *n)
{
    Val turns = fm_round(f, fm_mul(f, x, fm_const(f, 0x1.45f306dc9c883p-1)), n);
    Val r = x;
    for (int i = 0; i < 3; i++)
        r = fm_fma(f, turns, fm_const(f, -half_pi[i]), r);
    return fm_clamp(f, r, -0.9, 0.9);
}

static Val bit_set(Fm f, Val n, uint64_t bit)
{
    Val v = LLVMBuildAnd(f.b, n, fm_iconst(f, bit), "");
    return LLVMBuildICmp(f.b, LLVMIntNE, v, fm_iconst(f, 0), "");
}

/* sin(x + quarter pi/2) for x in f64; `precise`: to f64's accuracy. */
static Val sine(Fm f, Val x, uint64_t quarter, bool precise)
{
    Val n, r = reduce(f, x, &n), z = fm_mul(f, r, r);
    n = LLVMBuildAdd(f.b, n, fm_iconst(f, quarter), "");
    Val s = precise ? fm_poly(f, z, sin_64, N_64) : fm_poly(f, z, sin_32, N_S32);
    Val c = precise ? fm_poly(f, z, cos_64, N_64) : fm_poly(f, z, cos_32, N_C32);
    s = fm_fma(f, fm_mul(f, r, z), s, r);
    /* 1 - z / 2 is rounded; its error goes with the small terms. */
    Val half = fm_mul(f, z, fm_const(f, 0.5)), one = fm_const(f, 1.0);
    Val head = fm_sub(f, one, half);
    Val tail = fm_sub(f, fm_sub(f, one, head), half);
    c = fm_add(f, head, fm_fma(f, fm_mul(f, z, z), c, tail));
    Val v = fm_select(f, bit_set(f, n, 1), c, s);
    return fm_select(f, bit_set(f, n, 2), fm_neg(f, v), v);
}

static Val sine_of(Fm f, Val x, uint64_t quarter)
{
    if (f.wide)
        return sine(f, x, quarter, true);
    return fm_narrow(f, sine(fm_with(f, true), fm_widen(f, x), quarter, false));
}

Val math_sin(Fm f, Val x)
{
    /* -0 as it is */
    return fm_select(f, fm_cmpc(f, LLVMRealOEQ, x, 0.0), x, sine_of(f, x, 0));
}

Val math_cos(Fm f, Val x)
{
    return sine_of(f, x, 1);
}

/* x - trunc(x / y) y with the sign of x, exact while |x / y| < 2^53; a larger quotient leaves 0. */
static Val remainder_of(Fm f, Val x, Val y)
{
    Val q = fm_trunc(f, fm_div(f, x, y));
    Val r = fm_fma(f, fm_neg(f, q), y, x);
    /* The division may have been rounded up to the next integer: then r has the other sign. */
    Val ax = fm_abs(f, x), ay = fm_abs(f, y);
    Val over =
        fm_or(f, fm_and(f, fm_cmpc(f, LLVMRealOLT, r, 0.0), fm_cmpc(f, LLVMRealOGT, x, 0.0)),
              fm_and(f, fm_cmpc(f, LLVMRealOGT, r, 0.0), fm_cmpc(f, LLVMRealOLT, x, 0.0)));
    r = fm_select(f, over, fm_add(f, r, fm_copysign(f, ay, x)), r);
    Val huge = fm_cmpc(f, LLVMRealOGE, fm_abs(f, q), 0x1p53);
    huge = fm_and(
        f, huge,
        fm_and(f, fm_cmpc(f, LLVMRealOLT, ax, INFINITY), fm_cmpc(f, LLVMRealOGT, ay, 0.0)));
    r = fm_copysign(f, fm_select(f, huge, fm_const(f, 0.0), r), x);
    return fm_select(f, fm_cmp(f, LLVMRealOLT, ax, ay), x, r);
}

/* Is the remainder r on the wrong side of 0 for divisor y? */
static Val wrong_side(Fm f, Val r, Val y)
{
    Val a = fm_and(f, fm_cmpc(f, LLVMRealOLT, r, 0.0), fm_cmpc(f, LLVMRealOGT, y, 0.0));
    Val b = fm_and(f, fm_cmpc(f, LLVMRealOGT, r, 0.0), fm_cmpc(f, LLVMRealOLT, y, 0.0));
    return fm_or(f, a, b);
}

static Val mod64(Fm f, Val x, Val y)
{
    Val r = remainder_of(f, x, y);
    return fm_select(f, wrong_side(f, r, y), fm_add(f, r, y), r);
}

/* (x - r) / y is an integer up to rounding; by zero it is x / y. */
static Val floordiv64(Fm f, Val x, Val y)
{
    Val r = remainder_of(f, x, y), one = fm_const(f, 1.0);
    Val q = fm_div(f, fm_sub(f, x, r), y);
    q = fm_select(f, wrong_side(f, r, y), fm_sub(f, q, one), q);
    Val down = fm_floor(f, q);
    Val up = fm_cmpc(f, LLVMRealOGT, fm_sub(f, q, down), 0.5);
    down = fm_select(f, up, fm_add(f, down, one), down);
    Val plain = fm_div(f, x, y);
    down = fm_select(f, fm_cmpc(f, LLVMRealOEQ, q, 0.0),
                     fm_copysign(f, fm_const(f, 0.0), plain), down);
    return fm_select(f, fm_cmpc(f, LLVMRealOEQ, y, 0.0), plain, down);
}

typedef Val Binary(Fm f, Val x, Val y);

static Val through_f64(Fm f, Binary *fn, Val x, Val y)
{
    if (f.wide)
        return fn(f, x, y);
    return fm_narrow(f, fn(fm_with(f, true), fm_widen(f, x), fm_widen(f, y)));
}

Val math_mod(Fm f, Val x, Val y)
{
    return through_f64(f, mod64, x, y);
}

Val math_floordiv(Fm f, Val x, Val y)
{
    return through_f64(f, floordiv64, x, y);
}
