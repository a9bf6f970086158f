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

/* What the dynamic section says, by tag; 0: nothing. */
typedef struct ElfDynamic {
    uint64_t rela, rela_bytes, rela_size, n_relative;
    uint64_t jmprel, jmprel_bytes, jmprel_kind, got;
    uint64_t symtab, symbol_size, strtab, strtab_bytes, soname, hash, gnu_hash;
    uint64_t flags, flags_1;
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
