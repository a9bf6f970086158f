/* Loading a model.so: the file into private memory, its segments into a mapping of their own, and
 * nothing of it runs.
 *
 * The library does not use dlopen, which matches files by name (an array that was compiled again
 * would train the old program), expands variables in paths, runs constructors, searches other
 * libraries, and reads the file a second time after the checks.  Here what was checked is what
 * runs, and the file may be replaced or deleted while arrays made from it are open. */
#ifndef HFTAC_RUNTIME_MODEL_LOADER_H
#define HFTAC_RUNTIME_MODEL_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/hftac.h"
#include "runtime/model_abi.h"

enum {
    LOADER_MAX_SEGMENTS = 32
};

/* A part of the file that is loaded; addresses are relative to where the image lies. */
typedef struct Segment {
    uint64_t address, bytes, offset, file_bytes;
    uint32_t flags; /* PF_* */
} Segment;

/* A model.so's bytes and what its headers say. */
typedef struct ElfFile {
    const char *path;    /* for messages; the caller's */
    unsigned char *file; /* private copy, malloc'ed */
    uint64_t bytes;
    Segment segments[LOADER_MAX_SEGMENTS]; /* ascending, none overlaps another */
    int n_segments;
    uint64_t dynamic, dynamic_bytes; /* address of the dynamic section; 0: there is none */
    uint64_t note;                   /* address of the HftacNote */
} ElfFile;

/* A loaded file.  Nothing in the mapping is writable. */
typedef struct Mapping {
    unsigned char *memory; /* where the image's address 0 lies; NULL: nothing is loaded */
    size_t bytes;
} Mapping;

/* HFTAC_MODEL, "PATH: not a usable model.so: WHAT". */
hftac_status hft_elf_unusable(const ElfFile *f, const char *what);
/* Fills in everything but path, file and bytes. */
hftac_status hft_elf_read(ElfFile *f);
/* The bytes at an address if they come from the file, else NULL. */
const unsigned char *hft_elf_at(const ElfFile *f, uint64_t address, uint64_t bytes);
/* Do the bytes at an address lie in one segment that has these PF_* flags? */
bool hft_elf_has(const ElfFile *f, uint64_t address, uint64_t bytes, uint32_t flags);

/* Reads the file at `path` and checks its headers and its hash.  hft_file_forget frees the copy. */
hftac_status hft_file_load(const char *path, ElfFile *f);
void hft_file_forget(ElfFile *f);
/* Maps the segments, applies their relocations and takes the right to write away. */
hftac_status hft_map(const ElfFile *f, Mapping *m);
void hft_unmap(Mapping *m);

#endif
