/* Scalar functions evaluated at compile time, in double for reals and int64 for integers. */
#ifndef HFTAC_IR_SCALAR_H
#define HFTAC_IR_SCALAR_H

#include "ir/op.h"

/* One element: operands and result carried as double (integers up to 2^53 exactly); `type` is the
 * operands' element type, which decides integer or real arithmetic; the result is not rounded to
 * f32. SC_CAST is not handled here: see scalar_cast. */
double scalar_eval(ScalarFn f, DType type, const double *x);
/* v as the element type holds it: rounded to float, truncated to integer (of which the low bits
 * are kept), != 0 for bool. */
double scalar_round(DType t, double v);
/* As a cast at run time: a real that no integer is becomes the nearest one, NaN 0; integers keep
 * their low bits. */
double scalar_cast(DType from, DType to, double v);

#endif
