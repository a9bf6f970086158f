/* For the unit tests of codegen/cpu: an LLVM module that becomes machine code in this process, by
 * way of an object file and `ld -shared --no-undefined`, so that a call into any library would
 * not link. */
#ifndef HFTAC_TESTS_UNIT_NATIVE_H
#define HFTAC_TESTS_UNIT_NATIVE_H

#include "codegen/cpu/llvm.h"

typedef struct Native {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    void *library;
    int vector_bytes; /* of march */
} Native;

/* march: "x86-64-v3" or "native".  Every failure below prints a sentence and ends the test with
 * status 1. */
Native native_new(const char *march);
/* Optimises (-O2), links and loads; no more code can be added. */
void native_link(Native *n);
void *native_symbol(const Native *n, const char *name);
void native_free(Native *n);
/* May this process run code for march? (x86-64-v3 without AVX2: the test is skipped.) */
int native_can_run(void);
/* Seconds since some moment. */
double native_now(void);

#endif
