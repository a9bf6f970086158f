/* Scalar functions in CUDA C: one row each of ir/scalars.def. */
#include "codegen/cuda/cuda.h"

/* $0 $1 $2 are the operands, $t the result's type. */
#define ROW(NAME, form) static const char form_##NAME[] = form;
/* clang-format off */
ROW(ADD, "$0 + $1")
ROW(SUB, "$0 - $1")
ROW(MUL, "$0 * $1")
ROW(DIV, "hf_div($0, $1)")
ROW(FDIV, "hf_fdiv($0, $1)")
ROW(MOD, "hf_mod($0, $1)")
ROW(POW, "hf_pow($0, $1)")
ROW(MIN, "hf_min($0, $1)")
ROW(MAX, "hf_max($0, $1)")
ROW(EQ, "$0 == $1")
ROW(NE, "$0 != $1")
ROW(LT, "$0 < $1")
ROW(LE, "$0 <= $1")
ROW(GT, "$0 > $1")
ROW(GE, "$0 >= $1")
ROW(AND, "$0 && $1")
ROW(OR, "$0 || $1")
ROW(NOT, "!$0")
ROW(WHERE, "$0 ? $1 : $2")
ROW(FMA, "hf_fma($0, $1, $2)")
ROW(NEG, "-$0")
ROW(ABS, "hf_abs($0)")
ROW(SIGN, "hf_sign($0)")
ROW(FLOOR, "hf_floor($0)")
ROW(CEIL, "hf_ceil($0)")
ROW(SQRT, "sqrt($0)")
ROW(EXP, "exp($0)")
ROW(LOG, "log($0)")
ROW(SIN, "sin($0)")
ROW(COS, "cos($0)")
ROW(TANH, "tanh($0)")
ROW(ERF, "erf($0)")
ROW(SIGMOID, "hf_sigmoid($0)")
ROW(EXPM1, "expm1($0)")
ROW(LOG1P, "log1p($0)")
ROW(RELU, "hf_relu($0)")
ROW(ISFINITE, "hf_finite($0)")
ROW(CAST, "hf_cast<$t>($0)")
/* clang-format on */
#undef ROW

static const char *const forms[] = {
#define SCALAR(NAME, text, in, attrs, shape, grad, cost) [SC_##NAME] = form_##NAME,
#include "ir/scalars.def"
};

const char *cuda_scalar(Arena *a, ScalarFn f, DType result, const char *const *x)
{
    Text t;
    text_init(&t, a);
    for (const char *p = forms[f]; *p; p++) {
        if (*p != '$')
            text_addn(&t, p, 1);
        else if (*++p == 't')
            text_add(&t, cuda_type(result));
        else
            text_add(&t, x[*p - '0']);
    }
    return t.s;
}
