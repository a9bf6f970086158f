/* The scalar functions, one row for each of ir/scalars.def: a function for real operands and one
 * for integers (bool and u8 are unsigned).  Integers wrap; division by zero gives 0; nothing here
 * is undefined for any operand. */
#include "codegen/cpu/scalar.h"

#include <math.h>

#include "codegen/cpu/emit.h"
#include "codegen/cpu/scalar_math.h"
#include "ir/support/diag.h"

/* One call: the form is that of the operands' element type where that is real. */
typedef struct Call {
    LLVMBuilderRef b;
    DType from, to;
    Fm f;
} Call;

typedef Val Emitter(const Call *c, const Val *x);

static bool is_real(DType t)
{
    return dtype_class(t) == DTC_REAL;
}

static bool is_signed(DType t)
{
    return t == DT_I32 || t == DT_I64;
}

LLVMTypeRef scalar_llvm_type(LLVMContextRef c, DType t)
{
    if (t == DT_F32)
        return LLVMFloatTypeInContext(c);
    if (t == DT_F64)
        return LLVMDoubleTypeInContext(c);
    return LLVMIntTypeInContext(c, t == DT_BOOL ? 1 : (unsigned)dtype_bytes(t) * 8);
}

static LLVMTypeRef type_of(const Call *c, DType t)
{
    return fm_spread(scalar_llvm_type(c->f.ctx, t), c->f.lanes);
}

static Val int_const(Val like, uint64_t v)
{
    return fm_splat_int(LLVMTypeOf(like), v);
}

/* ---- reals ---- */

#define REAL1(name, call)                        \
    static Val name(const Call *c, const Val *x) \
    {                                            \
        return call(c->f, x[0]);                 \
    }
#define REAL2(name, call)                        \
    static Val name(const Call *c, const Val *x) \
    {                                            \
        return call(c->f, x[0], x[1]);           \
    }
#define COMPARE(name, predicate)                    \
    static Val name(const Call *c, const Val *x)    \
    {                                               \
        return fm_cmp(c->f, predicate, x[0], x[1]); \
    }

REAL2(real_add, fm_add)
REAL2(real_sub, fm_sub)
REAL2(real_mul, fm_mul)
REAL2(real_div, fm_div)
REAL2(real_fdiv, math_floordiv)
REAL2(real_mod, math_mod)
REAL2(real_pow, math_pow)
REAL1(real_neg, fm_neg)
REAL1(real_abs, fm_abs)
REAL1(real_floor, fm_floor)
REAL1(real_sqrt, fm_sqrt)
REAL1(real_exp, math_exp)
REAL1(real_log, math_log)
REAL1(real_expm1, math_expm1)
REAL1(real_log1p, math_log1p)
REAL1(real_sin, math_sin)
REAL1(real_cos, math_cos)
REAL1(real_tanh, math_tanh)
REAL1(real_erf, math_erf)
REAL1(real_sigmoid, math_sigmoid)
COMPARE(real_eq, LLVMRealOEQ)
COMPARE(real_ne, LLVMRealUNE)
COMPARE(real_lt, LLVMRealOLT)
COMPARE(real_le, LLVMRealOLE)
COMPARE(real_gt, LLVMRealOGT)
COMPARE(real_ge, LLVMRealOGE)

#undef REAL1
#undef REAL2
#undef COMPARE

/* The comparison picks x[1] if either is NaN; a NaN in x[0] is put back. */
static Val extreme(const Call *c, LLVMRealPredicate p, const Val *x)
{
    Val r = fm_select(c->f, fm_cmp(c->f, p, x[0], x[1]), x[0], x[1]);
    return fm_select(c->f, fm_cmp(c->f, LLVMRealUNO, x[0], x[0]), x[0], r);
}

static Val real_min(const Call *c, const Val *x)
{
    return extreme(c, LLVMRealOLT, x);
}

static Val real_max(const Call *c, const Val *x)
{
    return extreme(c, LLVMRealOGT, x);
}

static Val real_fma(const Call *c, const Val *x)
{
    return fm_fma(c->f, x[0], x[1], x[2]);
}

/* As PyTorch: 0 for NaN. */
static Val real_sign(const Call *c, const Val *x)
{
    Val zero = fm_const(c->f, 0.0);
    Val up = fm_select(c->f, fm_cmp(c->f, LLVMRealOGT, x[0], zero), fm_const(c->f, 1.0), zero);
    return fm_select(c->f, fm_cmp(c->f, LLVMRealOLT, x[0], zero), fm_const(c->f, -1.0), up);
}

static Val real_ceil(const Call *c, const Val *x)
{
    LLVMTypeRef t = fm_real(c->f);
    Val args[] = {x[0]};
    return fm_intrinsic(c->b, "llvm.ceil", 1, &t, 1, args);
}

static Val real_relu(const Call *c, const Val *x)
{
    Val zero = fm_const(c->f, 0.0);
    return fm_select(c->f, fm_cmp(c->f, LLVMRealOLT, x[0], zero), zero, x[0]);
}

static Val real_isfinite(const Call *c, const Val *x)
{
    return fm_cmpc(c->f, LLVMRealOLT, fm_abs(c->f, x[0]), INFINITY);
}

/* ---- integers ---- */

static Val int_compare(const Call *c, LLVMIntPredicate s, LLVMIntPredicate u, const Val *x)
{
    return LLVMBuildICmp(c->b, is_signed(c->from) ? s : u, x[0], x[1], "");
}

#define INT2(name, build)                        \
    static Val name(const Call *c, const Val *x) \
    {                                            \
        return build(c->b, x[0], x[1], "");      \
    }
#define COMPARE(name, s, u)                      \
    static Val name(const Call *c, const Val *x) \
    {                                            \
        return int_compare(c, s, u, x);          \
    }

INT2(int_add, LLVMBuildAdd)
INT2(int_sub, LLVMBuildSub)
INT2(int_mul, LLVMBuildMul)
COMPARE(int_eq, LLVMIntEQ, LLVMIntEQ)
COMPARE(int_ne, LLVMIntNE, LLVMIntNE)
COMPARE(int_lt, LLVMIntSLT, LLVMIntULT)
COMPARE(int_le, LLVMIntSLE, LLVMIntULE)
COMPARE(int_gt, LLVMIntSGT, LLVMIntUGT)
COMPARE(int_ge, LLVMIntSGE, LLVMIntUGE)

#undef INT2
#undef COMPARE

static Val int_min(const Call *c, const Val *x)
{
    return LLVMBuildSelect(c->b, int_lt(c, x), x[0], x[1], "");
}

static Val int_max(const Call *c, const Val *x)
{
    return LLVMBuildSelect(c->b, int_gt(c, x), x[0], x[1], "");
}

static Val is_const(const Call *c, Val x, uint64_t v)
{
    return LLVMBuildICmp(c->b, LLVMIntEQ, x, int_const(x, v), "");
}

/* Quotient towards zero and its remainder; by zero both are 0, by -1 without the overflow trap. */
static Val int_divide(const Call *c, const Val *x, Val *rest)
{
    Val zero = int_const(x[1], 0), none = is_const(c, x[1], 0);
    if (!is_signed(c->from)) {
        Val by = LLVMBuildSelect(c->b, none, int_const(x[1], 1), x[1], "");
        *rest = LLVMBuildSelect(c->b, none, zero, LLVMBuildURem(c->b, x[0], by, ""), "");
        return LLVMBuildSelect(c->b, none, zero, LLVMBuildUDiv(c->b, x[0], by, ""), "");
    }
    Val minus = is_const(c, x[1], UINT64_MAX);
    Val by =
        LLVMBuildSelect(c->b, LLVMBuildOr(c->b, none, minus, ""), int_const(x[1], 1), x[1], "");
    Val q = LLVMBuildSDiv(c->b, x[0], by, "");
    *rest = LLVMBuildSelect(c->b, none, zero, LLVMBuildSRem(c->b, x[0], by, ""), "");
    q = LLVMBuildSelect(c->b, minus, LLVMBuildNeg(c->b, x[0], ""), q, "");
    return LLVMBuildSelect(c->b, none, zero, q, "");
}

static Val int_div(const Call *c, const Val *x)
{
    Val rest;
    return int_divide(c, x, &rest);
}

/* Remainder not 0 and of the other sign than the divisor. */
static Val rounds_down(const Call *c, Val rest, Val by)
{
    Val sign = LLVMBuildXor(c->b, rest, by, "");
    Val differs = LLVMBuildICmp(c->b, LLVMIntSLT, sign, int_const(sign, 0), "");
    return LLVMBuildAnd(c->b, differs, LLVMBuildNot(c->b, is_const(c, rest, 0), ""), "");
}

static Val int_fdiv(const Call *c, const Val *x)
{
    Val rest, q = int_divide(c, x, &rest);
    if (!is_signed(c->from))
        return q;
    Val less = LLVMBuildSub(c->b, q, int_const(q, 1), "");
    return LLVMBuildSelect(c->b, rounds_down(c, rest, x[1]), less, q, "");
}

static Val int_mod(const Call *c, const Val *x)
{
    Val rest;
    int_divide(c, x, &rest);
    if (!is_signed(c->from))
        return rest;
    Val more = LLVMBuildAdd(c->b, rest, x[1], "");
    return LLVMBuildSelect(c->b, rounds_down(c, rest, x[1]), more, rest, "");
}

/* By squaring, all bits of the exponent, wrapping; a negative exponent gives the truncated real
 * result: 1 or -1 for a base of 1 or -1, else 0. */
static Val int_pow(const Call *c, const Val *x)
{
    const unsigned width = c->from == DT_BOOL ? 1 : (unsigned)dtype_bytes(c->from) * 8;
    Val r = int_const(x[0], 1), base = x[0];
    for (unsigned i = 0; i < width; i++) {
        Val bit = LLVMBuildAnd(c->b, x[1], int_const(x[1], (uint64_t)1 << i), "");
        r = LLVMBuildSelect(c->b, is_const(c, bit, 0), r, LLVMBuildMul(c->b, r, base, ""), "");
        base = LLVMBuildMul(c->b, base, base, "");
    }
    if (!is_signed(c->from))
        return r;
    Val unit = LLVMBuildOr(c->b, is_const(c, x[0], 1), is_const(c, x[0], UINT64_MAX), "");
    Val negative = LLVMBuildICmp(c->b, LLVMIntSLT, x[1], int_const(x[1], 0), "");
    Val gone = LLVMBuildAnd(c->b, negative, LLVMBuildNot(c->b, unit, ""), "");
    return LLVMBuildSelect(c->b, gone, int_const(r, 0), r, "");
}

static Val int_fma(const Call *c, const Val *x)
{
    return LLVMBuildAdd(c->b, LLVMBuildMul(c->b, x[0], x[1], ""), x[2], "");
}

static Val int_neg(const Call *c, const Val *x)
{
    return LLVMBuildNeg(c->b, x[0], "");
}

static Val is_negative(const Call *c, Val x)
{
    return LLVMBuildICmp(c->b, LLVMIntSLT, x, int_const(x, 0), "");
}

static Val int_abs(const Call *c, const Val *x)
{
    if (!is_signed(c->from))
        return x[0];
    return LLVMBuildSelect(c->b, is_negative(c, x[0]), LLVMBuildNeg(c->b, x[0], ""), x[0], "");
}

static Val int_sign(const Call *c, const Val *x)
{
    Val zero = int_const(x[0], 0), one = int_const(x[0], 1);
    Val r = LLVMBuildSelect(c->b, is_const(c, x[0], 0), zero, one, "");
    if (!is_signed(c->from))
        return r;
    return LLVMBuildSelect(c->b, is_negative(c, x[0]), int_const(x[0], UINT64_MAX), r, "");
}

static Val int_relu(const Call *c, const Val *x)
{
    if (!is_signed(c->from))
        return x[0];
    return LLVMBuildSelect(c->b, is_negative(c, x[0]), int_const(x[0], 0), x[0], "");
}

static Val int_isfinite(const Call *c, const Val *x)
{
    (void)x;
    return fm_splat_int(type_of(c, DT_BOOL), 1);
}

/* ---- of any type ---- */

static Val is_true(const Call *c, Val x)
{
    if (is_real(c->from))
        return fm_cmpc(c->f, LLVMRealUNE, x, 0.0);
    if (c->from == DT_BOOL)
        return x;
    return LLVMBuildICmp(c->b, LLVMIntNE, x, int_const(x, 0), "");
}

static Val any_and(const Call *c, const Val *x)
{
    return LLVMBuildAnd(c->b, is_true(c, x[0]), is_true(c, x[1]), "");
}

static Val any_or(const Call *c, const Val *x)
{
    return LLVMBuildOr(c->b, is_true(c, x[0]), is_true(c, x[1]), "");
}

static Val any_not(const Call *c, const Val *x)
{
    return LLVMBuildNot(c->b, is_true(c, x[0]), "");
}

static Val any_where(const Call *c, const Val *x)
{
    return LLVMBuildSelect(c->b, x[0], x[1], x[2], "");
}

static Val any_identity(const Call *c, const Val *x)
{
    (void)c;
    return x[0];
}

/* Truncates; what does not fit becomes the nearest integer that does, NaN 0. */
static Val real_to_int(const Call *c, Val x)
{
    LLVMTypeRef types[] = {type_of(c, c->to), LLVMTypeOf(x)};
    return fm_intrinsic(c->b, is_signed(c->to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 2,
                        types, 1, &x);
}

static Val int_to_int(const Call *c, Val x)
{
    LLVMTypeRef to = type_of(c, c->to);
    const int from_bytes = c->from == DT_BOOL ? 0 : dtype_bytes(c->from);
    if (from_bytes >= dtype_bytes(c->to))
        return from_bytes == dtype_bytes(c->to) ? x : LLVMBuildTrunc(c->b, x, to, "");
    return is_signed(c->from) ? LLVMBuildSExt(c->b, x, to, "") : LLVMBuildZExt(c->b, x, to, "");
}

static Val any_cast(const Call *c, const Val *x)
{
    LLVMTypeRef to = type_of(c, c->to);
    if (c->from == c->to)
        return x[0];
    if (c->to == DT_BOOL)
        return is_true(c, x[0]);
    if (is_real(c->from) && is_real(c->to))
        return c->to == DT_F64 ? LLVMBuildFPExt(c->b, x[0], to, "")
                               : LLVMBuildFPTrunc(c->b, x[0], to, "");
    if (is_real(c->from))
        return real_to_int(c, x[0]);
    if (is_real(c->to))
        return is_signed(c->from) ? LLVMBuildSIToFP(c->b, x[0], to, "")
                                  : LLVMBuildUIToFP(c->b, x[0], to, "");
    return int_to_int(c, x[0]);
}

/* ---- the table ---- */

typedef struct ScalarRow {
    Emitter *real, *integer; /* NULL: no such operand (the shape rules see to it) */
} ScalarRow;

#define ROW(NAME, real, integer) static const ScalarRow row_##NAME = {real, integer};
/* clang-format off */
ROW(ADD, real_add, int_add)
ROW(SUB, real_sub, int_sub)
ROW(MUL, real_mul, int_mul)
ROW(DIV, real_div, int_div)
ROW(FDIV, real_fdiv, int_fdiv)
ROW(MOD, real_mod, int_mod)
ROW(POW, real_pow, int_pow)
ROW(MIN, real_min, int_min)
ROW(MAX, real_max, int_max)
ROW(EQ, real_eq, int_eq)
ROW(NE, real_ne, int_ne)
ROW(LT, real_lt, int_lt)
ROW(LE, real_le, int_le)
ROW(GT, real_gt, int_gt)
ROW(GE, real_ge, int_ge)
ROW(AND, any_and, any_and)
ROW(OR, any_or, any_or)
ROW(NOT, any_not, any_not)
ROW(WHERE, any_where, any_where)
ROW(FMA, real_fma, int_fma)
ROW(NEG, real_neg, int_neg)
ROW(ABS, real_abs, int_abs)
ROW(SIGN, real_sign, int_sign)
ROW(FLOOR, real_floor, any_identity)
ROW(CEIL, real_ceil, any_identity)
ROW(SQRT, real_sqrt, NULL)
ROW(EXP, real_exp, NULL)
ROW(LOG, real_log, NULL)
ROW(EXPM1, real_expm1, NULL)
ROW(LOG1P, real_log1p, NULL)
ROW(SIN, real_sin, NULL)
ROW(COS, real_cos, NULL)
ROW(TANH, real_tanh, NULL)
ROW(ERF, real_erf, NULL)
ROW(SIGMOID, real_sigmoid, NULL)
ROW(RELU, real_relu, int_relu)
ROW(ISFINITE, real_isfinite, int_isfinite)
ROW(CAST, any_cast, any_cast)
/* clang-format on */
#undef ROW

static const ScalarRow *const rows[] = {
#define SCALAR(NAME, text, in, attrs, shape, grad, cost) [SC_##NAME] = &row_##NAME,
#include "ir/scalars.def"
};

LLVMValueRef scalar_emit(LLVMBuilderRef b, ScalarFn fn, DType from, DType to,
                         const LLVMValueRef *x)
{
    const int leading = fn == SC_WHERE ? 1 : 0;
    Call c = {b, from, to, fm_of(b, x[leading])};
    c.f.wide = from == DT_F64;
    Emitter *emit = is_real(from) ? rows[fn]->real : rows[fn]->integer;
    if (!emit)
        diag_internal(NULL, "scalar function %s of %s", scalar_text(fn), dtype_text(from));
    return emit(&c, x);
}

LLVMValueRef emit_scalar_fn(Emit *e, ScalarFn fn, DType operand, DType result, int n,
                            LLVMValueRef *x)
{
    LLVMValueRef args[3];
    bool vector = false;
    for (int i = 0; i < n; i++)
        vector |= emit_is_vector(x[i]);
    for (int i = 0; i < n; i++)
        args[i] = vector ? emit_splat(e, x[i]) : x[i];
    return scalar_emit(e->builder, fn, operand, result, args);
}
