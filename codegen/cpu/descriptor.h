/* The descriptor (codegen/model_file.h) and the ELF note that says where it lies, as constants of an LLVM module. */
#ifndef HFTAC_CODEGEN_CPU_DESCRIPTOR_H
#define HFTAC_CODEGEN_CPU_DESCRIPTOR_H

#include <llvm-c/Core.h>

#include "codegen/model_file.h"

/* functions: file->n_functions of them, in the order of their numbers. */
void descriptor_emit(LLVMModuleRef module, const ModelFile *file, LLVMValueRef *functions);

#endif
