/* Scalar functions in CUDA C: one row each of ir/scalars.def. */
#include "codegen/cuda/cuda.h"

/* $0 $1 $2 are the operands, $t the result's type. */
static const char *const forms[SC_COUNT] = {
    [SC_ADD] = "$0 + $1",
    [SC_SUB] = "$0 - $1",
    [SC_MUL] = "$0 * $1",
    [SC_DIV] = "hf_div($0, $1)",
    [SC_FDIV] = "hf_fdiv($0, $1)",
    [SC_MOD] = "hf_mod($0, $1)",
    [SC_POW] = "hf_pow($0, $1)",
    [SC_MIN] = "hf_min($0, $1)",
    [SC_MAX] = "hf_max($0, $1)",
    [SC_EQ] = "$0 == $1",
    [SC_NE] = "$0 != $1",
    [SC_LT] = "$0 < $1",
    [SC_LE] = "$0 <= $1",
    [SC_GT] = "$0 > $1",
    [SC_GE] = "$0 >= $1",
    [SC_AND] = "$0 && $1",
    [SC_OR] = "$0 || $1",
    [SC_NOT] = "!$0",
    [SC_WHERE] = "$0 ? $1 : $2",
    [SC_FMA] = "hf_fma($0, $1, $2)",
    [SC_NEG] = "-$0",
    [SC_ABS] = "hf_abs($0)",
    [SC_SIGN] = "hf_sign($0)",
    [SC_FLOOR] = "hf_floor($0)",
    [SC_CEIL] = "hf_ceil($0)",
    [SC_SQRT] = "sqrt($0)",
    [SC_EXP] = "exp($0)",
    [SC_LOG] = "log($0)",
    [SC_SIN] = "sin($0)",
    [SC_COS] = "cos($0)",
    [SC_TANH] = "tanh($0)",
    [SC_ERF] = "erf($0)",
    [SC_SIGMOID] = "hf_sigmoid($0)",
    [SC_EXPM1] = "expm1($0)",
    [SC_LOG1P] = "log1p($0)",
    [SC_RELU] = "hf_relu($0)",
    [SC_ISFINITE] = "hf_finite($0)",
    [SC_CAST] = "hf_cast<$t>($0)",
};

const char *cuda_scalar(Arena *a, ScalarFn f, DType result, const char *const *x)
{
    Text t;
    text_init(&t, a);
    if (!forms[f])
        diag_internal(NULL, "the CUDA back end has no row for %s", scalar_text(f));
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
