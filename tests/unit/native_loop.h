/* Functions over arrays for the unit tests: void f(const void *x, const void *y, const void *z,
 * void *out, int64_t blocks), where each turn handles one scalar or one vector. */
#ifndef HFTAC_TESTS_UNIT_NATIVE_LOOP_H
#define HFTAC_TESTS_UNIT_NATIVE_LOOP_H

#include <stdint.h>

#include "ir/type.h"
#include "tests/unit/native.h"

typedef void LoopFn(const void *x, const void *y, const void *z, void *out, int64_t blocks);

typedef struct Loop {
    LLVMBuilderRef b; /* stands in the body */
    LLVMValueRef fn, i;
    LLVMBasicBlockRef entry, body;
} Loop;

Loop native_loop_begin(Native *n, const char *name);
void native_loop_end(Native *n, Loop *l);
/* Block i of parameter 0 to 2 (lanes 0: one scalar), and a store to block i of the result. */
LLVMValueRef native_load(Native *n, Loop *l, unsigned param, DType t, unsigned lanes);
void native_store(Native *n, Loop *l, DType t, unsigned lanes, LLVMValueRef v);

#endif
