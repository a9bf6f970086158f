/* What -march means: which instructions may be used, how wide a vector is, what model.so says it
 * needs. */
#ifndef HFTAC_CODEGEN_CPU_TARGET_H
#define HFTAC_CODEGEN_CPU_TARGET_H

#include <llvm-c/TargetMachine.h>

#include "ir/support/arena.h"

enum {
    /* Of a vector register: AVX2's and AVX-512's. */
    VECTOR_BYTES_256 = 32,
    VECTOR_BYTES_512 = 64,
    /* A vector has as many lanes as a register has of these, whatever the element type. */
    LANE_BYTES = 4,
    MAX_LANES = VECTOR_BYTES_512 / LANE_BYTES
};

typedef struct CpuTarget {
    const char *cpu;      /* LLVM's name of the instruction set: "x86-64-v3" or "x86-64-v4" */
    const char *tune;     /* LLVM's name of the processor to schedule for, or "" */
    const char *features; /* names as in /proc/cpuinfo, separated by spaces */
    int vector_bytes;     /* VECTOR_BYTES_* */
} CpuTarget;

/* false and a sentence in *error for an unknown or too old processor. */
int cpu_target_find(Arena *a, const char *march, CpuTarget *out, const char **error);
/* Position independent code for Linux on that processor; optimize as -O0 to -O3. */
LLVMTargetMachineRef cpu_target_machine(Arena *a, const CpuTarget *t, int optimize,
                                        const char **error);

#endif
