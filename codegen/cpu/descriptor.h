/* The descriptor (codegen/model_file.h) and the ELF note that says where it lies, as constants of
 * an LLVM module. */
#ifndef HFTAC_CODEGEN_CPU_DESCRIPTOR_H
#define HFTAC_CODEGEN_CPU_DESCRIPTOR_H

#include <llvm-c/Core.h>

#include "codegen/model_file.h"

/* addresses: functions and constants, file->n_addresses of them in the order of their numbers;
 * used up. */
void descriptor_emit(LLVMModuleRef module, const ModelFile *file, LLVMValueRef *addresses);

#endif
