/* Writing the descriptor of a model.so (runtime/model_abi.h): bytes that any target puts into its
 * file.
 *
 * The only things that bytes cannot say are the addresses of functions and constants: the section
 * ADDRESSES has one word for each, and the target fills in "address less that of the block",
 * which the linker knows. */
#ifndef HFTAC_CODEGEN_MODEL_FILE_H
#define HFTAC_CODEGEN_MODEL_FILE_H

#include "codegen/codegen.h"

/* What a kernel's function gets a pointer to. */
typedef struct PlaceCode {
    const Buffer *buffer;
    /* of a constant, or of the one that it is a part of: its number in the code that runs */
    int address;
} PlaceCode;

/* A kernel as a target compiled it. */
typedef struct KernelCode KernelCode;
struct KernelCode {
    int function; /* its number in the code that runs; not of a loop */
    int64_t n_work;
    PlaceCode *places;
    int n_places;
    double operations, bytes_read, bytes_written;
    const KernelCode *body; /* of a loop: by position in its body's kernels */
};

/* An entry as a target compiled it. */
typedef struct EntryCode {
    const int *run; /* by position in its steps: a run's function, its number in the code */
    const KernelCode *kernels; /* by position in the entry's kernels */
} EntryCode;

/* What a target compiled. */
typedef struct CodeVersion {
    const char *march, *features; /* as in /proc/cpuinfo */
    int n_addresses;
} CodeVersion;

typedef struct ModelFile {
    unsigned char *bytes; /* of the block, without the words of addresses, which come last */
    size_t n;             /* a multiple of 8 */
    int n_addresses; /* words to be appended: those of the first version, of the second, ... */
} ModelFile;

/* entries: by position in plan->entries; the same for all versions of the code. */
ModelFile model_file_write(Arena *a, const Plan *plan, const char *version,
                           const EntryCode *entries, int n_codes, const CodeVersion *codes);

#endif
