/* Planned program to model.so and to text. */
#ifndef HFTAC_CODEGEN_CODEGEN_H
#define HFTAC_CODEGEN_CODEGEN_H

#include "ir/plan.h"

typedef struct CodegenOptions {
    const char *march; /* "x86-64-v3", "native", ... */
    int optimize;      /* -O0..-O3 */
    bool verbose;      /* print the link command */
    const char *version;
    bool split; /* into parts that can be compiled at once; for cpu_emit_objects only */
    /* NULL or, for tests, told of each value that a kernel's code computes: of how many elements
     * in one run. */
    void (*computed)(void *context, const Kernel *k, const Node *n, double elements);
    void *context;
} CodegenOptions;

/* From here on LLVM's allocations end the program as arena.h's do when memory is out
 * (process-wide; once). */
void cpu_watch_memory(void);

/* codegen/cpu: LLVM.  An opaque module, built once, written out in several forms. */
typedef struct CpuModule CpuModule;

/* Vector register size for a -march: 32 or 64; 0 and a sentence in *error if LLVM does not know
 * it. */
int cpu_vector_bytes(Arena *a, const char *march, const char **error);
CpuModule *cpu_generate(Arena *a, const Plan *p, const CodegenOptions *o, const char **error);
void cpu_print_llvm(const CpuModule *m,
                    Text *out); /* before LLVM's passes at -O0, after them else */
/* Appended to `out`, whose arena gives the memory. */
bool cpu_emit_asm(CpuModule *m, Text *out, const char **error);
bool cpu_emit_object(CpuModule *m, Text *out, const char **error);
/* What was split: how many parts - which depends on the program alone -, and an object of each,
 * by up to n_threads threads (0: as many as there are processors). */
int cpu_part_count(const CpuModule *m);
bool cpu_emit_objects(CpuModule *m, Text *out, int n_threads, const char **error);
void cpu_free(CpuModule *m);

/* Links objects into a shared object with GNU ld, from memory to memory: no disk can be full, and
 * nothing is left when a process is killed.  *error is a sentence, *tool_missing tells exit code
 * 4 from 3. */
bool link_objects(Arena *a, int n, const Text *objects, bool verbose, Text *out,
                  const char **error, bool *tool_missing);

/* Writes the hash of a linked model.so into its note (runtime/model_abi.h); false if it has none.
 */
bool model_stamp(Text *model);

/* codegen/cuda: CUDA C for the expression kernels of each entry, and as comments in place the
 * cuBLAS calls for its contractions.  Needs no toolkit. */
void cuda_print(Arena *a, const Plan *p, Text *out);
/* Compiles that text with NVRTC for e.g. "sm_90"; -1 and a message if the toolkit was not there
 * at build time. */
int cuda_check(Arena *a, const char *source, const char *arch, const char **log);

#endif
