/* Scalar functions in CUDA C: one row each of ir/scalars.def. */
#include "codegen/cuda/cuda.h"

#include <string.h>

const char cuda_preamble[] =
    "typedef signed int i32;\n"
    "typedef long long i64;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"
    "typedef unsigned char u8;\n"
    "\n"
    "struct Frame {\n"
    "    u64 size;\n"
    "    u8 *state, *shared, *scratch;\n"
    "    const void *const *inputs;\n"
    "    const double *hypers, *scalars;\n"
    "    const u64 *seeds;\n"
    "    double *results;\n"
    "    void *const *outputs;\n"
    "};\n"
    "\n"
    "template <class T> __device__ inline T hf_min(T a, T b) { return a < b || a != a ? a : b; }\n"
    "template <class T> __device__ inline T hf_max(T a, T b) { return a > b || a != a ? a : b; }\n"
    "template <class T> __device__ inline T hf_relu(T a) { return a > T(0) || a != a ? a : T(0); }\n"
    "template <class T> __device__ inline T hf_sign(T a) { return a > T(0) ? T(1) : a < T(0) ? T(-1) : a; }\n"
    "template <class T> __device__ inline T hf_abs(T a) { return a < T(0) ? -a : a; }\n"
    "__device__ inline float hf_abs(float a) { return fabsf(a); }\n"
    "__device__ inline double hf_abs(double a) { return fabs(a); }\n"
    "template <class T> __device__ inline bool hf_finite(T a) { return a - a == T(0); }\n"
    "__device__ inline float hf_fdiv(float a, float b) { return floorf(a / b); }\n"
    "__device__ inline double hf_fdiv(double a, double b) { return floor(a / b); }\n"
    "template <class T> __device__ inline T hf_fdiv(T a, T b)\n"
    "{ if (b == 0) return 0; T q = a / b; return q - (a % b != 0 && (a < 0) != (b < 0)); }\n"
    "__device__ inline float hf_mod(float a, float b) { float r = fmodf(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }\n"
    "__device__ inline double hf_mod(double a, double b) { double r = fmod(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }\n"
    "template <class T> __device__ inline T hf_mod(T a, T b) { return b == 0 ? 0 : a - hf_fdiv(a, b) * b; }\n"
    "template <class T> __device__ inline T hf_div(T a, T b) { return b == 0 ? 0 : a / b; }\n"
    "__device__ inline float hf_div(float a, float b) { return a / b; }\n"
    "__device__ inline double hf_div(double a, double b) { return a / b; }\n"
    "template <class T> __device__ inline T hf_sigmoid(T a) { return T(1) / (T(1) + exp(-a)); }\n"
    "\n"
    "/* Philox 4x32-10 (Salmon et al. 2011): key = seed, counter = (element / 4, step, path), word element % 4. */\n"
    "__device__ inline i64 hf_philox(u64 seed, u64 step, u64 path, u64 element)\n"
    "{\n"
    "    u32 c0 = (u32)(element / 4), c1 = (u32)step, c2 = (u32)path, c3 = (u32)(path >> 32);\n"
    "    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);\n"
    "    for (int i = 0; i < 10; i++) {\n"
    "        const u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;\n"
    "        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;\n"
    "        c1 = (u32)p1;\n"
    "        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;\n"
    "        c3 = (u32)p0;\n"
    "        k0 += 0x9E3779B9u;\n"
    "        k1 += 0xBB67AE85u;\n"
    "    }\n"
    "    const u32 word[4] = {c0, c1, c2, c3};\n"
    "    return word[element % 4];\n"
    "}\n";

/* $0 $1 $2 are the operands, $t the result's type. */
static const char *const forms[SC_COUNT] = {
    [SC_ADD] = "$0 + $1",         [SC_SUB] = "$0 - $1",         [SC_MUL] = "$0 * $1",
    [SC_DIV] = "hf_div($0, $1)",  [SC_FDIV] = "hf_fdiv($0, $1)", [SC_MOD] = "hf_mod($0, $1)",
    [SC_POW] = "pow($0, $1)",     [SC_MIN] = "hf_min($0, $1)",  [SC_MAX] = "hf_max($0, $1)",
    [SC_EQ] = "$0 == $1",         [SC_NE] = "$0 != $1",         [SC_LT] = "$0 < $1",
    [SC_LE] = "$0 <= $1",         [SC_GT] = "$0 > $1",          [SC_GE] = "$0 >= $1",
    [SC_AND] = "$0 && $1",        [SC_OR] = "$0 || $1",         [SC_NOT] = "!$0",
    [SC_WHERE] = "$0 ? $1 : $2",  [SC_FMA] = "fma($0, $1, $2)", [SC_NEG] = "-$0",
    [SC_ABS] = "hf_abs($0)",      [SC_SIGN] = "hf_sign($0)",    [SC_FLOOR] = "floor($0)",
    [SC_CEIL] = "ceil($0)",       [SC_SQRT] = "sqrt($0)",       [SC_EXP] = "exp($0)",
    [SC_LOG] = "log($0)",         [SC_SIN] = "sin($0)",         [SC_COS] = "cos($0)",
    [SC_TANH] = "tanh($0)",       [SC_ERF] = "erf($0)",         [SC_SIGMOID] = "hf_sigmoid($0)",
    [SC_EXPM1] = "expm1($0)",     [SC_LOG1P] = "log1p($0)",
    [SC_RELU] = "hf_relu($0)",    [SC_ISFINITE] = "hf_finite($0)", [SC_CAST] = "($t)$0",
    [SC_IDENTITY] = "$0",
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
