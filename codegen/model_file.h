/* Writing the descriptor of a model.so (runtime/model_abi.h): bytes that any target puts into its file.
 *
 * The only things that bytes cannot say are the addresses of functions: the section FUNCTIONS has one word for each,
 * and the target fills in "address of the function less that of the block", which the linker knows. */
#ifndef HFTAC_CODEGEN_MODEL_FILE_H
#define HFTAC_CODEGEN_MODEL_FILE_H

#include "codegen/codegen.h"

/* The functions of an entry's steps, by number in the code that runs; -1: none. */
typedef struct EntryFunctions {
    int shared, models;
} EntryFunctions;

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

/* functions: by position in plan->entries. */
ModelFile model_file_write(Arena *a, const Plan *plan, const char *version,
                           const EntryFunctions *functions, int n_codes,
                           const CodeVersion *codes);

#endif
