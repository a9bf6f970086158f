/* The two functions of an entry point, HftacRegionFn of runtime/model_abi.h: which call its kernels in order. */
#ifndef HFTAC_CODEGEN_CPU_REGION_H
#define HFTAC_CODEGEN_CPU_REGION_H

#include <llvm-c/Core.h>

#include "codegen/cpu/places.h"

/* A kernel's function and the places that this call gives to it, or the calls of a loop's body. */
typedef struct KernelCall KernelCall;
struct KernelCall {
    LLVMValueRef function;
    const Places *places;
    const LoopPlan *loop;
    const KernelCall *body;
};

typedef struct RegionInput {
    Arena *arena;
    LLVMModuleRef module;
    const Plan *plan;
    const EntryPlan *entry;
    const KernelCall *calls;
    int n;
} RegionInput;

/* void (frame, 0, 0): once. */
LLVMValueRef region_shared(const RegionInput *in, const char *name);
/* void (frame, lo, hi): for each model. */
LLVMValueRef region_models(const RegionInput *in, const char *name);

#endif
