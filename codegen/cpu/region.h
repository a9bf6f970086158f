/* The functions that model.so has for the runs of an entry point: HftacRegionFn
 * (runtime/model_abi.h), which call the kernels of a run in order.  Many calls are put into
 * functions of their own. */
#ifndef HFTAC_CODEGEN_CPU_REGION_H
#define HFTAC_CODEGEN_CPU_REGION_H

#include <llvm-c/Core.h>

#include "codegen/cpu/places.h"

/* HftacKernelFn and HftacKernel.n_work of runtime/model_abi.h. */
typedef struct KernelFunction {
    LLVMValueRef value;
    int64_t n_work;
} KernelFunction;

/* A kernel's function and the places that this call gives to it, or the calls of a loop's body. */
typedef struct KernelCall KernelCall;
struct KernelCall {
    KernelFunction function;
    const Places *places;
    const LoopPlan *loop;
    const KernelCall *body;
};

typedef struct RegionInput {
    Arena *arena;
    LLVMModuleRef module;
    const Plan *plan;
    /* that has the kernels: of an entry point, or of a loop's body */
    const EntryPlan *entry;
    /* by position among its kernels */
    const KernelCall *calls;
    /* SHARED: once; MODELS: for each model lo <= b < hi */
    const Step *run;
    /* of any of the kernels */
    int max_places;
    /* of entry names, innermost last: "train.h.loop" */
    const char *path;
    void (*set_attributes)(void *context,
                           /* of what is made besides the result */
                           LLVMValueRef function);
    void *context;
} RegionInput;

/* The path of a loop's body. */
const char *region_loop_path(Arena *a, const char *path, const LoopPlan *loop);
/* void (frame, lo, hi) */
LLVMValueRef region_run(const RegionInput *in, const char *name);
/* The table of a constant, as data of the module. */
LLVMValueRef region_constant(const RegionInput *in, const Buffer *b);

#endif
