/* The one symbol that model.so exports: `hftac_model` (runtime/model_abi.h) as constants. */
#ifndef HFTAC_CODEGEN_CPU_DESCRIPTOR_H
#define HFTAC_CODEGEN_CPU_DESCRIPTOR_H

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>

#include "codegen/codegen.h"

/* The region functions of one entry; shared NULL: nothing to do. */
typedef struct Regions {
    LLVMValueRef shared, models;
} Regions;

typedef struct DescriptorInput {
    const Plan *plan;
    const CodegenOptions *options;
    const char *features;   /* as in /proc/cpuinfo */
    const Regions *regions; /* by position in plan->entries */
    LLVMTargetDataRef layout;
} DescriptorInput;

void descriptor_emit(Arena *a, LLVMModuleRef module, const DescriptorInput *in);

#endif
