/* LLVM has no way to tell that memory is out: its allocations throw, or end in abort().  Both
 * have a hook that is called before; neither is in the C API, so they are named as the C++ ABI
 * names them. */
#include <stdbool.h>

#include "codegen/codegen.h"

void cpp_set_new_handler(void (*handler)(void)) __asm__("_ZSt15set_new_handlerPFvvE");
void llvm_install_bad_alloc_error_handler(
    void (*handler)(void *data, const char *reason, bool crash),
    void *data) __asm__("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");

static void on_bad_alloc(void *data, const char *reason, bool crash)
{
    (void)data;
    (void)reason;
    (void)crash;
    heap_exhausted();
}

void cpu_watch_memory(void)
{
    cpp_set_new_handler(heap_exhausted);
    llvm_install_bad_alloc_error_handler(on_bad_alloc, NULL);
}
