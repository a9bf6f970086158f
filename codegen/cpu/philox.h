/* Philox 4x32-10 as LLVM values: the bits of `random` nodes.
 *
 * key = the seed (low word, high word); counter = (element / 4, step, hash of the path: low word,
 * high word), all modulo 2^32; element e takes word e % 4.  So the bits depend on nothing but
 * seed, step, path and element. */
#ifndef HFTAC_CODEGEN_CPU_PHILOX_H
#define HFTAC_CODEGEN_CPU_PHILOX_H

#include <llvm-c/Core.h>
#include <stdint.h>

#include "codegen/cpu/emit.h"

typedef struct PhiloxKey {
    LLVMValueRef seed, step; /* i64 scalars */
    LLVMValueRef path;       /* philox_path_hash of the node's path, likewise */
} PhiloxKey;

/* 64-bit FNV-1a of the text. */
uint64_t philox_path_hash(const char *path);

/* For any element numbers (i64, scalar or vector): the bits of each as i64, 0 <= r < 2^32, as
 * many lanes. */
LLVMValueRef philox_emit(LLVMBuilderRef b, const PhiloxKey *k, LLVMValueRef element);
/* For elements first .. first + lanes - 1, where first (i64 scalar) is a multiple of 4 and lanes
 * a multiple of 4: the same bits as philox_emit at a quarter to half the cost.  i64 x lanes. */
LLVMValueRef philox_emit_run(LLVMBuilderRef b, const PhiloxKey *k, LLVMValueRef first,
                             unsigned lanes);
/* For counters `block` (i64, scalar or vector): word[w] holds the bits of elements 4 * block + w,
 * as i64. */
void philox_emit_block(LLVMBuilderRef b, const PhiloxKey *k, LLVMValueRef block,
                       LLVMValueRef word[4]);

/* The bits of element number `element` of the current index: philox_emit_run where lanes are
 * consecutive elements from a multiple of 4 on, else philox_emit. */
LLVMValueRef emit_philox_at(Emit *e, const PhiloxKey *key, const Affine *element);

#endif
