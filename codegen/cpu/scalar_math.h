/* Formulas behind the scalar functions; operands and results are of the form's width.  Errors are
 * given in the .c files beside the polynomials.  Internal to codegen/cpu/scalar*.c. */
#ifndef HFTAC_CODEGEN_CPU_SCALAR_MATH_H
#define HFTAC_CODEGEN_CPU_SCALAR_MATH_H

#include "codegen/cpu/scalar_build.h"

Val math_exp(Fm f, Val x);
Val math_expm1(Fm f, Val x);
Val math_tanh(Fm f, Val x);
Val math_sigmoid(Fm f, Val x);
Val math_erf(Fm f, Val x);
Val math_log(Fm f, Val x);
Val math_log1p(Fm f, Val x);
Val math_pow(Fm f, Val x, Val y);
Val math_sin(Fm f, Val x);
Val math_cos(Fm f, Val x);
/* Remainder with the sign of y and the quotient rounded down, as PyTorch's remainder and
 * floor_divide. */
Val math_mod(Fm f, Val x, Val y);
Val math_floordiv(Fm f, Val x, Val y);
/* e^(x + tail) for a tail far below x in size (NULL: 0); exp and pow. */
Val math_exp_sum(Fm f, Val x, Val tail);

#endif
