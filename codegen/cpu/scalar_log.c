/* log and pow.
 *
 * x = 2^e m with m in [sqrt(1/2), sqrt(2)); subnormal x are scaled up first.
 *   f32: with f = m - 1, log m = f - f^2 / 2 + f^3 q(f), relative error of the polynomial below
 *   7.3e-10
 *   f64: with s = f / (2 + f), log m = 2 s + s^3 R(s^2) = f - s (f^2 / 2 - ...), error below
 *   2.5e-18
 * pow is e^(y log x) with log x as a sum of two doubles (error below 1e-18 of it); f32 goes
 * through f64. */
#include "codegen/cpu/scalar_math.h"

#include <math.h>

enum {
    N_Q32 = 9,
    N_R64 = 7,
    N_P64 = 8
};

static const double log_q32[N_Q32] = {0x1.555546p-2,  -0x1.ffffeep-3, 0x1.99a546p-3,
                                      -0x1.5562e2p-3, 0x1.2332bap-3,  -0x1.fb434cp-4,
                                      0x1.e6511ap-4,  -0x1.e2e922p-4, 0x1.1b4120p-4};
static const double log_r64[N_R64] = {
    0x1.5555555555593p-1, 0x1.999999997fb35p-2, 0x1.24924942177a6p-2, 0x1.c71c51e80d016p-3,
    0x1.74664629f553ep-3, 0x1.39a0f51985883p-3, 0x1.2f0d8f3f87c0bp-3};
/* log m = 2 s + 2/3 s^3 + s^5 P(s^2). */
static const double log_p64[N_P64] = {
    0x1.9999999999996p-2, 0x1.2492492493049p-2, 0x1.c71c71c57e018p-3, 0x1.745d183379e52p-3,
    0x1.3b13626751464p-3, 0x1.1120c17819bbbp-3, 0x1.de318fd02d971p-4, 0x1.eb20c84f9eeb9p-4};

static const double ln2_hi32 = 0x1.62e4p-1, ln2_lo32 = 0x1.7f7d1cp-20;
static const double ln2_hi64 = 0x1.62e42fefa3800p-1, ln2_lo64 = 0x1.ef35793c76730p-45;

/* x > 0 as 2^e m; *m is in [sqrt(1/2), sqrt(2)) and e is returned as a real. */
static Val split(Fm f, Val x, Val *m)
{
    const unsigned mantissa = f.wide ? 52 : 23;
    const double up = f.wide ? 54.0 : 25.0;
    const uint64_t one = f.wide ? 0x3ff0000000000000u : 0x3f800000u;
    const uint64_t half_root = f.wide ? 0x3fe6a09e667f3bcdu : 0x3f3504f3u;
    Val tiny = fm_cmpc(f, LLVMRealOLT, x, f.wide ? 0x1p-1022 : 0x1p-126);
    Val bits = fm_bits(f, fm_select(f, tiny, fm_mul(f, x, fm_const(f, exp2(up))), x));
    Val shifted = LLVMBuildAdd(f.b, bits, fm_iconst(f, one - half_root), "");
    Val e = LLVMBuildLShr(f.b, shifted, fm_iconst(f, mantissa), "");
    Val low = LLVMBuildAnd(f.b, shifted, fm_iconst(f, ((uint64_t)1 << mantissa) - 1), "");
    *m = fm_from_bits(f, LLVMBuildAdd(f.b, low, fm_iconst(f, half_root), ""));
    /* e < 2^11: as a real by the bits of 2^mantissa + e, without a conversion of 64 bit integers.
     */
    Val base = fm_const(f, exp2(mantissa));
    Val real = fm_sub(f, fm_from_bits(f, LLVMBuildOr(f.b, e, fm_bits(f, base), "")), base);
    Val bias = fm_select(f, tiny, fm_const(f, (f.wide ? 1023.0 : 127.0) + up),
                         fm_const(f, f.wide ? 1023.0 : 127.0));
    return fm_sub(f, real, bias);
}

static Val log32(Fm f, Val m, Val e)
{
    Val r = fm_sub(f, m, fm_const(f, 1.0));
    Val tail = fm_fma(f, r, fm_poly(f, r, log_q32, N_Q32), fm_const(f, -0.5));
    Val low = fm_fma(f, e, fm_const(f, ln2_lo32), fm_mul(f, fm_mul(f, r, r), tail));
    return fm_fma(f, e, fm_const(f, ln2_hi32), fm_add(f, r, low));
}

static Val log64(Fm f, Val m, Val e)
{
    Val r = fm_sub(f, m, fm_const(f, 1.0));
    Val s = fm_div(f, r, fm_add(f, r, fm_const(f, 2.0)));
    Val z = fm_mul(f, s, s);
    Val half = fm_mul(f, fm_mul(f, r, r), fm_const(f, 0.5));
    Val tail = fm_fma(f, z, fm_poly(f, z, log_r64, N_R64), half);
    Val low = fm_fma(f, s, tail, fm_mul(f, e, fm_const(f, ln2_lo64)));
    Val sum = fm_sub(f, r, fm_sub(f, half, low));
    return fm_fma(f, e, fm_const(f, ln2_hi64), sum);
}

Val math_log(Fm f, Val x)
{
    Val m, e = split(f, x, &m);
    Val r = f.wide ? log64(f, m, e) : log32(f, m, e);
    r = fm_select(f, fm_cmpc(f, LLVMRealUGE, x, 0.0), r, fm_const(f, NAN));
    r = fm_select(f, fm_cmpc(f, LLVMRealOEQ, x, 0.0), fm_const(f, -INFINITY), r);
    /* +inf and NaN as they are */
    return fm_select(f, fm_cmpc(f, LLVMRealOLT, x, INFINITY), r, x);
}

/* log(u) for u = 1 + x rounded, plus what was lost: (x - (u - 1)) / u, exact where |x| < 1; for
 * larger x, what is lost of the 1 does not matter. */
Val math_log1p(Fm f, Val x)
{
    Val one = fm_const(f, 1.0), u = fm_add(f, one, x);
    Val lost = fm_div(f, fm_sub(f, x, fm_sub(f, u, one)), u);
    Val inside = fm_and(f, fm_cmpc(f, LLVMRealOGT, u, 0.0), fm_cmpc(f, LLVMRealOLT, x, 1.0));
    Val r = fm_add(f, math_log(f, u), fm_select(f, inside, lost, fm_const(f, 0.0)));
    /* -0 as it is */
    return fm_select(f, fm_cmpc(f, LLVMRealOEQ, x, 0.0), x, r);
}

/* log(2^e m) as hi + *lo, |lo| <= ulp(hi). */
static Val log_pair(Fm f, Val m, Val e, Val *lo)
{
    Val one = fm_const(f, 1.0);
    Val r = fm_sub(f, m, one), d = fm_add(f, m, one);
    Val d_lo = fm_sub(f, m, fm_sub(f, d, one));
    Val s = fm_div(f, r, d);
    Val rest = fm_fma(f, fm_neg(f, s), d_lo, fm_fma(f, fm_neg(f, s), d, r));
    Val s_lo = fm_div(f, rest, d);
    Val z = fm_mul(f, s, s);
    Val cube = fm_mul(f, fm_mul(f, s, z),
                      fm_fma(f, z, fm_poly(f, z, log_p64, N_P64), fm_const(f, 2.0 / 3.0)));
    Val main = fm_add(f, s, s);
    Val small = fm_add(f, cube, fm_add(f, s_lo, s_lo));
    /* e ln2_hi is exact and 0 or larger than the rest: both sums below keep their errors. */
    Val big = fm_mul(f, e, fm_const(f, ln2_hi64));
    Val sum = fm_add(f, big, main);
    Val sum_lo = fm_add(f, fm_sub(f, main, fm_sub(f, sum, big)),
                        fm_fma(f, e, fm_const(f, ln2_lo64), small));
    Val hi = fm_add(f, sum, sum_lo);
    *lo = fm_sub(f, sum_lo, fm_sub(f, hi, sum));
    return hi;
}

/* a^y for a > 0 finite. */
static Val pow_positive(Fm f, Val a, Val y)
{
    Val m, e = split(f, a, &m), lo;
    Val hi = log_pair(f, m, e, &lo);
    Val p = fm_mul(f, y, hi);
    Val tail = fm_fma(f, y, lo, fm_fma(f, y, hi, fm_neg(f, p)));
    Val inside = fm_cmpc(f, LLVMRealOLT, fm_abs(f, p), 750.0);
    return math_exp_sum(f, p, fm_select(f, inside, tail, fm_const(f, 0.0)));
}

static Val negative_bit(Fm f, Val x)
{
    return LLVMBuildICmp(f.b, LLVMIntSLT, fm_bits(f, x), fm_iconst(f, 0), "");
}

/* The cases of C's pow, which is PyTorch's. */
static Val pow64(Fm f, Val x, Val y)
{
    Val a = fm_abs(f, x), half = fm_mul(f, y, fm_const(f, 0.5));
    Val whole = fm_cmp(f, LLVMRealOEQ, fm_floor(f, y), y);
    Val odd = fm_and(f, whole, fm_cmp(f, LLVMRealONE, fm_floor(f, half), half));
    Val r = pow_positive(f, a, y);
    r = fm_select(f, fm_cmpc(f, LLVMRealOEQ, a, 1.0), fm_const(f, 1.0), r);
    Val zero = fm_cmpc(f, LLVMRealOEQ, a, 0.0);
    Val edge = fm_or(f, zero, fm_cmpc(f, LLVMRealOEQ, a, INFINITY));
    Val grows = LLVMBuildXor(f.b, zero, fm_cmpc(f, LLVMRealOGT, y, 0.0), "");
    r = fm_select(f, edge, fm_select(f, grows, fm_const(f, INFINITY), fm_const(f, 0.0)), r);
    r = fm_select(f, fm_and(f, negative_bit(f, x), odd), fm_neg(f, r), r);
    Val no_root = fm_and(f, fm_cmpc(f, LLVMRealOLT, x, 0.0), fm_not(f, whole));
    no_root = fm_and(f, no_root, fm_cmpc(f, LLVMRealONE, x, -INFINITY));
    r = fm_select(f, fm_or(f, no_root, fm_cmp(f, LLVMRealUNO, x, y)), fm_const(f, NAN), r);
    Val sure = fm_or(f, fm_cmpc(f, LLVMRealOEQ, y, 0.0), fm_cmpc(f, LLVMRealOEQ, x, 1.0));
    return fm_select(f, sure, fm_const(f, 1.0), r);
}

Val math_pow(Fm f, Val x, Val y)
{
    if (f.wide)
        return pow64(f, x, y);
    return fm_narrow(f, pow64(fm_with(f, true), fm_widen(f, x), fm_widen(f, y)));
}
