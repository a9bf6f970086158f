/* The call of one kernel, for runtime/cpu/kernels.c. */
#ifndef HFTAC_RUNTIME_CPU_CALL_H
#define HFTAC_RUNTIME_CPU_CALL_H

#include "runtime/model_abi.h"

/* All of its work: HftacKernel.n_work parts. */
void hft_cpu_call(HftacKernelFn *kernel, void *const *places, int64_t n_work);

#endif
