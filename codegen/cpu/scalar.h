/* Scalar functions as LLVM values: one row for each row of ir/scalars.def.
 *
 * A value is a scalar or a vector of any number of lanes; lane i of a result depends on lane i of
 * the operands alone and has the same bits whatever the number of lanes.  Element types in
 * registers: f32 float, f64 double, i32, i64 of their size, u8 i8 (unsigned), bool i1.  Memory is
 * the caller's (a bool is a byte, 0 or 1, there). Largest errors that tests/unit/test_math.c has
 * seen, in units of the last place, f32 and f64: exp .96 .97, log .81 .78, tanh 1.54 1.78, expm1
 * 1.40 1.75, log1p 1.52 1.51, sigmoid 1.37 1.41, erf 1.10 1.08, sin and cos .51 1.44, pow .50
 * 1.11. Nothing emitted here calls a library or needs more than x86-64-v3; there are no fast-math
 * flags. */
#ifndef HFTAC_CODEGEN_CPU_SCALAR_H
#define HFTAC_CODEGEN_CPU_SCALAR_H

#include <llvm-c/Core.h>

#include "ir/op.h"

/* The LLVM type of one element in a register. */
LLVMTypeRef scalar_llvm_type(LLVMContextRef c, DType t);

/* f(x[0], ...) at the builder's place.  `from`: the element type of the operands (WHERE: of x[1]
 * and x[2], x[0] is bool; CAST: of x[0]); `to`: that of the result.  All operands have the same
 * number of lanes. */
LLVMValueRef scalar_emit(LLVMBuilderRef b, ScalarFn f, DType from, DType to,
                         const LLVMValueRef *x);

#endif
