/* The builder layer of the scalar functions: constants take the form's width and lanes, so that
 * one formula serves f32 and f64, scalars and vectors. */
#include "codegen/cpu/scalar_build.h"

#include <string.h>

#include "codegen/cpu/target.h"
#include "ir/support/diag.h"

unsigned fm_lanes(Val v)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 0;
}

LLVMTypeRef fm_spread(LLVMTypeRef element, unsigned lanes)
{
    return lanes ? LLVMVectorType(element, lanes) : element;
}

static LLVMTypeRef element_of(LLVMTypeRef t)
{
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

Fm fm_of(LLVMBuilderRef b, Val v)
{
    LLVMTypeRef e = element_of(LLVMTypeOf(v));
    const bool wide =
        LLVMGetTypeKind(e) == LLVMDoubleTypeKind ||
        (LLVMGetTypeKind(e) == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(e) == 64);
    return (Fm){b, LLVMGetTypeContext(e), fm_lanes(v), wide};
}

Fm fm_with(Fm f, bool wide)
{
    f.wide = wide;
    return f;
}

LLVMTypeRef fm_real(Fm f)
{
    return fm_spread(f.wide ? LLVMDoubleTypeInContext(f.ctx) : LLVMFloatTypeInContext(f.ctx),
                     f.lanes);
}

LLVMTypeRef fm_int(Fm f)
{
    return fm_spread(LLVMIntTypeInContext(f.ctx, f.wide ? 64 : 32), f.lanes);
}

static Val splat(LLVMTypeRef type, Val element)
{
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return element;
    const unsigned lanes = LLVMGetVectorSize(type);
    Val all[MAX_LANES];
    if (lanes > MAX_LANES)
        diag_internal(NULL, "a vector of %u lanes", lanes);
    for (unsigned i = 0; i < lanes; i++)
        all[i] = element;
    return LLVMConstVector(all, lanes);
}

Val fm_splat_int(LLVMTypeRef type, uint64_t bits)
{
    return splat(type, LLVMConstInt(element_of(type), bits, false));
}

Val fm_splat_real(LLVMTypeRef type, double v)
{
    return splat(type, LLVMConstReal(element_of(type), v));
}

Val fm_const(Fm f, double v)
{
    return fm_splat_real(fm_real(f), v);
}

Val fm_iconst(Fm f, uint64_t bits)
{
    return fm_splat_int(fm_int(f), bits);
}

Val fm_intrinsic(LLVMBuilderRef b, const char *name, int n_types, LLVMTypeRef *types, int n,
                 Val *x)
{
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id)
        diag_internal(NULL, "LLVM has no intrinsic %s", name);
    LLVMModuleRef m = LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInsertBlock(b)));
    Val fn = LLVMGetIntrinsicDeclaration(m, id, types, (size_t)n_types);
    LLVMTypeRef type =
        LLVMIntrinsicGetType(LLVMGetModuleContext(m), id, types, (size_t)n_types);
    return LLVMBuildCall2(b, type, fn, x, (unsigned)n, "");
}

static Val same_type(Fm f, const char *name, int n, Val *x)
{
    LLVMTypeRef t = fm_real(f);
    return fm_intrinsic(f.b, name, 1, &t, n, x);
}

Val fm_add(Fm f, Val x, Val y)
{
    return LLVMBuildFAdd(f.b, x, y, "");
}

Val fm_sub(Fm f, Val x, Val y)
{
    return LLVMBuildFSub(f.b, x, y, "");
}

Val fm_mul(Fm f, Val x, Val y)
{
    return LLVMBuildFMul(f.b, x, y, "");
}

Val fm_div(Fm f, Val x, Val y)
{
    return LLVMBuildFDiv(f.b, x, y, "");
}

Val fm_fma(Fm f, Val x, Val y, Val z)
{
    return same_type(f, "llvm.fma", 3, (Val[]){x, y, z});
}

Val fm_neg(Fm f, Val x)
{
    return LLVMBuildFNeg(f.b, x, "");
}

Val fm_abs(Fm f, Val x)
{
    return same_type(f, "llvm.fabs", 1, &x);
}

Val fm_floor(Fm f, Val x)
{
    return same_type(f, "llvm.floor", 1, &x);
}

Val fm_trunc(Fm f, Val x)
{
    return same_type(f, "llvm.trunc", 1, &x);
}

Val fm_sqrt(Fm f, Val x)
{
    return same_type(f, "llvm.sqrt", 1, &x);
}

Val fm_copysign(Fm f, Val magnitude, Val sign)
{
    return same_type(f, "llvm.copysign", 2, (Val[]){magnitude, sign});
}

Val fm_cmp(Fm f, LLVMRealPredicate p, Val x, Val y)
{
    return LLVMBuildFCmp(f.b, p, x, y, "");
}

Val fm_cmpc(Fm f, LLVMRealPredicate p, Val x, double y)
{
    return LLVMBuildFCmp(f.b, p, x, fm_const(f, y), "");
}

Val fm_select(Fm f, Val c, Val x, Val y)
{
    return LLVMBuildSelect(f.b, c, x, y, "");
}

Val fm_and(Fm f, Val x, Val y)
{
    return LLVMBuildAnd(f.b, x, y, "");
}

Val fm_or(Fm f, Val x, Val y)
{
    return LLVMBuildOr(f.b, x, y, "");
}

Val fm_not(Fm f, Val x)
{
    return LLVMBuildNot(f.b, x, "");
}

Val fm_clamp(Fm f, Val x, double lo, double hi)
{
    x = fm_select(f, fm_cmpc(f, LLVMRealOGT, x, hi), fm_const(f, hi), x);
    return fm_select(f, fm_cmpc(f, LLVMRealOLT, x, lo), fm_const(f, lo), x);
}

Val fm_poly(Fm f, Val x, const double *c, int n)
{
    Val p = fm_const(f, c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        p = fm_fma(f, p, x, fm_const(f, c[i]));
    return p;
}

Val fm_bits(Fm f, Val x)
{
    return LLVMBuildBitCast(f.b, x, fm_int(f), "");
}

Val fm_from_bits(Fm f, Val x)
{
    return LLVMBuildBitCast(f.b, x, fm_real(f), "");
}

Val fm_widen(Fm f, Val x)
{
    return LLVMBuildFPExt(f.b, x, fm_real(fm_with(f, true)), "");
}

Val fm_narrow(Fm f, Val x)
{
    return LLVMBuildFPTrunc(f.b, x, fm_real(fm_with(f, false)), "");
}

Val fm_round(Fm f, Val x, Val *n)
{
    Val magic = fm_const(f, f.wide ? 0x1.8p52 : 0x1.8p23);
    Val t = fm_add(f, x, magic);
    *n = LLVMBuildSub(f.b, fm_bits(f, t), fm_bits(f, magic), "");
    return fm_sub(f, t, magic);
}

Val fm_exp2i(Fm f, Val n)
{
    const unsigned mantissa = f.wide ? 52 : 23;
    const uint64_t bias = f.wide ? 1023 : 127;
    Val e = LLVMBuildAdd(f.b, n, fm_iconst(f, bias), "");
    return fm_from_bits(f, LLVMBuildShl(f.b, e, fm_iconst(f, mantissa), ""));
}
