/* A shared object's file as its headers describe it, while it is being checked. */
#ifndef HFTAC_RUNTIME_ELF_VIEW_H
#define HFTAC_RUNTIME_ELF_VIEW_H

#include "runtime/image.h"

typedef struct ElfView {
    const char *path;
    const unsigned char *file;
    uint64_t bytes;
    ElfLayout *layout;
} ElfView;

/* Where the dynamic section says things are; 0: nothing said. */
typedef struct ElfDynamic {
    uint64_t rela, rela_bytes, jmprel, jmprel_bytes, symtab, strtab, strtab_bytes, hash,
        gnu_hash;
} ElfDynamic;

/* HFTAC_MODEL, "PATH: not a usable model.so: WHAT". */
hftac_status hft_elf_damaged(const ElfView *e, const char *what);
/* Bytes at an address, if they come from the file. */
const unsigned char *hft_elf_at(const ElfView *e, uint64_t address, uint64_t bytes);
/* Bytes at an address, in a segment that has these PF_* flags. */
bool hft_elf_in_memory(const ElfView *e, uint64_t address, uint64_t bytes, uint32_t flags);
/* Names, symbols and hash tables, as far as the loader follows them; *n_symbols: how many
 * there are. */
hftac_status hft_elf_check_symbols(const ElfView *e, const ElfDynamic *d, uint64_t *n_symbols);

#endif
