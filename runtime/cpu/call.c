/* The call of one kernel.  A file of its own, so that a test can bring a call that cuts the work
 * into parts. */
#include "runtime/cpu/call.h"

void hft_cpu_call(HftacKernelFn *kernel, void *const *places, int64_t n_work)
{
    kernel(places, 0, n_work);
}
