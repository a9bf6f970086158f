/* Writing the descriptor of a model.so (runtime/model_abi.h): bytes that any target puts into its file.
 *
 * The only things that bytes cannot say are the addresses of functions: the section FUNCTIONS has one word for each,
 * and the target fills in "address of the function less that of the block", which the linker knows. */
#ifndef HFTAC_CODEGEN_MODEL_FILE_H
#define HFTAC_CODEGEN_MODEL_FILE_H

#include "codegen/codegen.h"

/* A kernel as a target compiled it. */
typedef struct KernelCode KernelCode;
struct KernelCode {
    int function; /* its number in the code that runs; not of a loop */
    double operations, bytes_read, bytes_written;
    const KernelCode *body; /* of a loop: by position in its body's kernels */
};

/* An entry as a target compiled it. */
typedef struct EntryCode {
    int shared,
        models; /* numbers of the functions of its two runs; -1: there is nothing to do */
    const KernelCode *kernels; /* by position in the entry's kernels */
} EntryCode;

/* What a target compiled. */
typedef struct CodeVersion {
    const char *march, *features; /* as in /proc/cpuinfo */
    int n_functions;
} CodeVersion;

typedef struct ModelFile {
    unsigned char *bytes; /* of the block, without the functions' words, which come last */
    size_t n;             /* a multiple of 8 */
    int n_functions; /* words to be appended: those of the first version, of the second, ... */
} ModelFile;

/* entries: by position in plan->entries; the same for all versions of the code. */
ModelFile model_file_write(Arena *a, const Plan *plan, const char *version,
                           const EntryCode *entries, int n_codes, const CodeVersion *codes);

#endif
