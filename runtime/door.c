/* Results must not depend on who calls: rounding upwards, flushing to zero (which -ffast-math
 * sets in whole programs) and traps (feenableexcept, which would end the process at the first
 * infinity) are set aside while the library computes. Workers take the mode over with each job
 * (pool.c).  Both units of x86-64: kernels use SSE, libc's printf and strtod ask the x87 how to
 * round. */
#include "runtime/door.h"

#include <xmmintrin.h>

enum {
    SSE_DEFAULT = 0x1f80, /* all exceptions masked, none raised, to nearest, denormals kept */
    X87_DEFAULT = 0x037f  /* the same, with 64 bits of mantissa */
};

static void set_x87(unsigned short mode)
{
    __asm__ volatile("fldcw %0" : : "m"(mode));
}

FloatMode hft_float_enter(void)
{
    FloatMode caller;
    caller.sse = _mm_getcsr();
    __asm__ volatile("fnstcw %0" : "=m"(caller.x87));
    _mm_setcsr(SSE_DEFAULT);
    set_x87(X87_DEFAULT);
    return caller;
}

void hft_float_leave(const FloatMode *caller)
{
    _mm_setcsr(caller->sse);
    set_x87(caller->x87);
}
