/* The memory that kernels work on.  A file of its own, so that a test can bring memory that
 * nobody else can touch. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/cpu/device.h"

enum {
    LINE = 64,
    HUGE_PAGE = 2 << 20
};

void *hft_cpu_allocate(uint64_t bytes)
{
    const uint64_t alignment = bytes >= 4 * (uint64_t)HUGE_PAGE ? HUGE_PAGE : LINE;
    uint64_t rounded = bytes ? bytes : 1;
    if (__builtin_add_overflow(rounded, alignment - 1, &rounded) || rounded > INT64_MAX)
        return NULL;
    rounded -= rounded % alignment;
    void *p = aligned_alloc(alignment, rounded);
    if (p && alignment == HUGE_PAGE)
        madvise(p, rounded, MADV_HUGEPAGE);
    return p ? memset(p, 0, rounded) : NULL;
}

void hft_cpu_release(void *p)
{
    free(p);
}
