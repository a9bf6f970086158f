/* exp, tanh, sigmoid, erf.
 *
 * One reduction serves the first three: x = n ln 2 + r with |r| <= ln 2 / 2 and
 *     e^r - 1 = r + r^2 q(r),
 * q minimax so that the right side's relative error is below 2.6e-10 (f32, degree 5) and 2.7e-19
 * (f64, degree 10)
 * on |r| <= 0.3501.  2^n is multiplied in two halves, so that results below the normal range are
 * rounded once
 * and not flushed.  The measured errors are printed by tests/unit/test_math.c. */
#include "codegen/cpu/scalar_math.h"

#include <stddef.h>

enum {
    N_Q32 = 6,
    N_Q64 = 11
};

static const double exp_q32[N_Q32] = {0x1p-1,        0x1.555556p-3,  0x1.5554a8p-5,
                                      0x1.11108ap-7, 0x1.6d7b7ep-10, 0x1.a1a95ap-13};
static const double exp_q64[N_Q64] = {0x1p-1,
                                      0x1.5555555555559p-3,
                                      0x1.555555555555ap-5,
                                      0x1.111111110f67ep-7,
                                      0x1.6c16c16c143f7p-10,
                                      0x1.a01a01affb063p-13,
                                      0x1.a01a01b0cfeb5p-16,
                                      0x1.71ddf816b0d39p-19,
                                      0x1.27e4c56f62ad3p-22,
                                      0x1.af5f329677e38p-26,
                                      0x1.1f95ac679bd7ap-29};

/* ln 2 in two parts: the first has enough zeros at its end that n times it is exact. */
static double ln2_hi(Fm f)
{
    return f.wide ? 0x1.62e42fefa3800p-1 : 0x1.62e400p-1;
}

static double ln2_lo(Fm f)
{
    return f.wide ? 0x1.ef35793c76730p-45 : 0x1.7f7d1cp-20;
}

/* r and n of x + tail (tail NULL: 0). */
static Val reduce(Fm f, Val x, Val tail, Val *n)
{
    Val real = fm_round(f, fm_mul(f, x, fm_const(f, 0x1.71547652b82fep0)), n);
    Val r = fm_fma(f, real, fm_const(f, -ln2_hi(f)), x);
    if (tail)
        r = fm_add(f, r, tail);
    return fm_fma(f, real, fm_const(f, -ln2_lo(f)), r);
}

/* e^r - 1 for the reduced r. */
static Val expm1_reduced(Fm f, Val r)
{
    Val q = f.wide ? fm_poly(f, r, exp_q64, N_Q64) : fm_poly(f, r, exp_q32, N_Q32);
    return fm_fma(f, fm_mul(f, r, r), q, r);
}

/* v 2^n for n in twice the normal range. */
static Val scale(Fm f, Val v, Val n)
{
    Val half = LLVMBuildAShr(f.b, n, fm_iconst(f, 1), "");
    Val rest = LLVMBuildSub(f.b, n, half, "");
    return fm_mul(f, fm_mul(f, v, fm_exp2i(f, half)), fm_exp2i(f, rest));
}

Val math_exp_sum(Fm f, Val x, Val tail)
{
    /* Below `least` the result rounds to 0; computing it would trap to microcode in every such
     * lane. */
    const double least = f.wide ? -745.14 : -103.98, most = f.wide ? 710.0 : 89.0;
    Val gone = fm_cmpc(f, LLVMRealOLT, x, least);
    x = fm_select(f, gone, fm_const(f, 0.0), x);
    x = fm_select(f, fm_cmpc(f, LLVMRealOGT, x, most), fm_const(f, most), x);
    Val n, r = reduce(f, x, tail, &n);
    Val v = scale(f, fm_add(f, expm1_reduced(f, r), fm_const(f, 1.0)), n);
    return fm_select(f, gone, fm_const(f, 0.0), v);
}

Val math_exp(Fm f, Val x)
{
    return math_exp_sum(f, x, NULL);
}

/* e^x - 1 for 0 <= x within the limits of tanh: 2^n p + (2^n - 1), where nothing cancels. */
static Val expm1_positive(Fm f, Val x)
{
    Val n, r = reduce(f, x, NULL, &n);
    Val two_n = fm_exp2i(f, n);
    return fm_fma(f, two_n, expm1_reduced(f, r), fm_sub(f, two_n, fm_const(f, 1.0)));
}

/* 2 (2^(n-1) p + (2^(n-1) - 1/2)) with p = e^r - 1: half of everything, so that 2^n may overflow
 * where e^x does not. Below -40 it rounds to -1. */
Val math_expm1(Fm f, Val x)
{
    const double most = f.wide ? 710.0 : 89.0;
    Val n, r = reduce(f, fm_clamp(f, x, -40.0, most), NULL, &n);
    Val half = fm_exp2i(f, LLVMBuildSub(f.b, n, fm_iconst(f, 1), ""));
    Val sum = fm_fma(f, half, expm1_reduced(f, r), fm_sub(f, half, fm_const(f, 0.5)));
    /* The smallest ones, whose half may round to 0, and -0 are as they are. */
    Val small = fm_cmpc(f, LLVMRealOLT, fm_abs(f, x), f.wide ? 0x1p-54 : 0x1p-25);
    return fm_select(f, small, x, fm_add(f, sum, sum));
}

/* The quotient of top by sum = x + y, |x| >= |y|, corrected for the sum's rounding error; inverse
 * is about 1 / sum. */
static Val divide_by_sum(Fm f, Val top, Val x, Val y, Val sum, Val quotient, Val inverse)
{
    Val lost = fm_sub(f, y, fm_sub(f, sum, x));
    Val rest = fm_fma(f, fm_neg(f, quotient), sum, top);
    rest = fm_fma(f, fm_neg(f, quotient), lost, rest);
    return fm_fma(f, rest, inverse, quotient);
}

/* q = e / (e + 2) for e = e^2|x| - 1; then 1 / (e + 2) = (1 - q) / 2.  From 10 (f32) and 20 (f64)
 * on it is 1. */
Val math_tanh(Fm f, Val x)
{
    Val a = fm_clamp(f, fm_abs(f, x), 0.0, f.wide ? 20.0 : 10.0);
    Val e = expm1_positive(f, fm_add(f, a, a)), two = fm_const(f, 2.0);
    Val sum = fm_add(f, e, two), q = fm_div(f, e, sum);
    Val inverse = fm_fma(f, q, fm_const(f, -0.5), fm_const(f, 0.5));
    /* From e = 2 on the sum's error no longer matters, and the inverse would be wrong. */
    inverse = fm_select(f, fm_cmp(f, LLVMRealOGT, e, two), fm_const(f, 0.0), inverse);
    return fm_copysign(f, divide_by_sum(f, e, two, e, sum, q, inverse), x);
}

/* With e = e^-|x|: 1 / (1 + e), or e / (1 + e) for negative x, so that small values keep their
 * accuracy. */
Val math_sigmoid(Fm f, Val x)
{
    Val one = fm_const(f, 1.0), e = math_exp(f, fm_neg(f, fm_abs(f, x)));
    Val negative = fm_cmpc(f, LLVMRealOLT, x, 0.0);
    Val top = fm_select(f, negative, e, one);
    Val sum = fm_add(f, one, e), q = fm_div(f, top, sum);
    Val inverse = fm_select(f, negative, fm_sub(f, one, q), q);
    return divide_by_sum(f, top, one, e, sum, q, inverse);
}

/* erf(x) = x + x small(x^2) for |x| < limit, small minimax on [0, limit^2] with absolute error
 * below 4.1e-10 (f32) and 1.3e-19 (f64); else 1 - e^(|x| large(|x|)), large(x) = log(erfc(x)) / x
 * on [limit, top] with an error in erfc below 2e-10 (f32) and 9e-20 (f64); from top on erf rounds
 * to 1. */
static const double erf_small32[] = {0x1.06eba8p-3,  -0x1.812744p-2, 0x1.ce2e30p-4,
                                     -0x1.b811c2p-6, 0x1.54e64ep-8,  -0x1.ab48c6p-11,
                                     0x1.603a66p-14};
static const double erf_large32[] = {-0x1.20e90ep+0, -0x1.456dfep-1, -0x1.af5248p-4,
                                     0x1.74336ap-6,  -0x1.839bc2p-9, 0x1.f3305cp-15,
                                     0x1.6dd510p-15, -0x1.406c38p-18};
static const double erf_small64[] = {
    0x1.06eba8214db69p-3,   -0x1.812746b0379e6p-2,  0x1.ce2f21a042b34p-4,
    -0x1.b82ce31284f38p-6,  0x1.565bcd0dbd939p-8,   -0x1.c02db3db49dc3p-11,
    0x1.f9a321e4c735fp-14,  -0x1.f4d1e43610b26p-17, 0x1.b9df30701769ep-20,
    -0x1.5f1f41b08e97bp-23, 0x1.f7b9a5ba9e68dp-27,  -0x1.38ac3da44fd28p-30,
    0x1.0627a6a8e5918p-34};
static const double erf_large64[] = {
    -0x1.20dd75df1a3f7p+0,  -0x1.45f2f35f77927p-1,  -0x1.a4f8287c2c95ep-4,
    0x1.3992a75064e5bp-6,   0x1.825ed26cce003p-13,  -0x1.b10a7930ec82bp-10,
    0x1.156e255b8c65fp-11,  0x1.55c047761c86ap-15,  -0x1.020045c7c3529p-13,
    0x1.2aeed5586a058p-14,  -0x1.c6b544bf18250p-16, 0x1.050ceadc5c298p-17,
    -0x1.d6d6b4a034015p-20, 0x1.5048a60adfb37p-22,  -0x1.796d4d82c8ae2p-25,
    0x1.45dae611c6006p-28,  -0x1.a10a0f9fb068cp-32, 0x1.7360c423e99dbp-36,
    -0x1.98caef0c3182cp-41, 0x1.9fd77f4ca3f46p-47};

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static Val erf_small(Fm f, Val x)
{
    Val z = fm_mul(f, x, x);
    Val p = f.wide ? fm_poly(f, z, erf_small64, COUNT(erf_small64))
                   : fm_poly(f, z, erf_small32, COUNT(erf_small32));
    return fm_fma(f, x, p, x);
}

static Val erf_large(Fm f, Val a)
{
    Val p = f.wide ? fm_poly(f, a, erf_large64, COUNT(erf_large64))
                   : fm_poly(f, a, erf_large32, COUNT(erf_large32));
    return fm_sub(f, fm_const(f, 1.0), math_exp(f, fm_mul(f, a, p)));
}

#undef COUNT

Val math_erf(Fm f, Val x)
{
    Val a = fm_abs(f, x);
    Val large = erf_large(f, fm_clamp(f, a, 0.0, f.wide ? 6.0 : 4.0));
    Val small = fm_cmpc(f, LLVMRealOLT, a, f.wide ? 1.0 : 0x1.d8p-1);
    return fm_select(f, small, erf_small(f, x), fm_copysign(f, large, x));
}
