/* A thin layer over the LLVM builder for writing formulas over reals of one width, f32 or f64,
 * scalar or vector. Internal to codegen/cpu/scalar*.c and philox.c. */
#ifndef HFTAC_CODEGEN_CPU_SCALAR_BUILD_H
#define HFTAC_CODEGEN_CPU_SCALAR_BUILD_H

#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stdint.h>

typedef LLVMValueRef Val;

/* What formulas are written for: a width and a number of lanes. */
typedef struct Fm {
    LLVMBuilderRef b;
    LLVMContextRef ctx;
    unsigned lanes; /* 0: scalar */
    bool wide;      /* f64, else f32 */
} Fm;

/* The form of a value: its lanes, and wide if its elements have 64 bits. */
Fm fm_of(LLVMBuilderRef b, Val v);
Fm fm_with(Fm f, bool wide);
unsigned fm_lanes(Val v); /* 0: scalar */
LLVMTypeRef fm_spread(LLVMTypeRef element, unsigned lanes);
LLVMTypeRef fm_real(Fm f);
LLVMTypeRef fm_int(Fm f); /* of the reals' width */

Val fm_const(Fm f, double v);
Val fm_iconst(Fm f, uint64_t bits);
/* A constant of integer type `type`, scalar or vector. */
Val fm_splat_int(LLVMTypeRef type, uint64_t bits);
Val fm_splat_real(LLVMTypeRef type, double v);
/* An overloaded intrinsic whose type parameters are `types`. */
Val fm_intrinsic(LLVMBuilderRef b, const char *name, int n_types, LLVMTypeRef *types, int n,
                 Val *x);

Val fm_add(Fm f, Val x, Val y);
Val fm_sub(Fm f, Val x, Val y);
Val fm_mul(Fm f, Val x, Val y);
Val fm_div(Fm f, Val x, Val y);
Val fm_fma(Fm f, Val x, Val y, Val z); /* x * y + z */
Val fm_neg(Fm f, Val x);
Val fm_abs(Fm f, Val x);
Val fm_floor(Fm f, Val x);
Val fm_trunc(Fm f, Val x);
Val fm_sqrt(Fm f, Val x);
Val fm_copysign(Fm f, Val magnitude, Val sign);
Val fm_cmp(Fm f, LLVMRealPredicate p, Val x, Val y);
Val fm_cmpc(Fm f, LLVMRealPredicate p, Val x, double y);
Val fm_select(Fm f, Val c, Val x, Val y);
Val fm_and(Fm f, Val x, Val y); /* of i1 */
Val fm_or(Fm f, Val x, Val y);
Val fm_not(Fm f, Val x);
/* x limited to [lo, hi]; NaN stays. */
Val fm_clamp(Fm f, Val x, double lo, double hi);
/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1), by fused multiply-adds from the highest. */
Val fm_poly(Fm f, Val x, const double *c, int n);
Val fm_bits(Fm f, Val x);      /* real to integer of its width */
Val fm_from_bits(Fm f, Val x); /* and back */
Val fm_widen(Fm f, Val x);     /* f32 to f64 */
Val fm_narrow(Fm f, Val x);    /* f64 to f32 */
/* x rounded to the nearest integer by adding 1.5 * 2^(mantissa bits): valid for |x| below a
 * quarter of that, and harmless for any x.  *n: the integer as bits of the real's width. */
Val fm_round(Fm f, Val x, Val *n);
/* 2^n as a real, for the integer n (bits of the real's width) in the exponent's normal range. */
Val fm_exp2i(Fm f, Val n);

#endif
