/* The parts of LLVM's C API that make, check, optimise and write out code: for tests, which see
 * LLVM only through this folder. */
#ifndef HFTAC_CODEGEN_CPU_LLVM_H
#define HFTAC_CODEGEN_CPU_LLVM_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#endif
