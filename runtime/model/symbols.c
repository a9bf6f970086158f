/* gdb's interface for code made at run time: a list of ELF files in memory whose addresses are
 * final, and a function that gdb sets a breakpoint on and that is called at each change (gdb's
 * manual, "JIT Compilation Interface").  Several makers of code may be in one process, each with
 * a list of its own, so the two names that the interface prescribes are weak.
 *
 * This is the one global of the library that changes, and the interface's own; a mutex guards it.
 */
#include "runtime/model/symbols.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/error.h"

enum {
    JIT_VERSION = 1,
    JIT_REGISTER = 1,
    JIT_UNREGISTER = 2
};

struct DebugEntry {
    DebugEntry *next, *prev;
    const unsigned char *file;
    uint64_t bytes;
};

typedef struct DebugList {
    uint32_t version, action;
    DebugEntry *relevant, *first;
} DebugList;

HFTAC_API extern DebugList __jit_debug_descriptor;
HFTAC_API void __jit_debug_register_code(void);

__attribute__((weak)) DebugList __jit_debug_descriptor = {.version = JIT_VERSION};
__attribute__((weak, noinline)) void __jit_debug_register_code(void)
{
    __asm__ volatile("" ::: "memory");
}

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

static void announce(DebugEntry *e, uint32_t action)
{
    __jit_debug_descriptor.relevant = e;
    __jit_debug_descriptor.action = action;
    __jit_debug_register_code();
}

/* ---- sections and symbols of the file's copy ---- */

typedef struct Sections {
    const ElfFile *file;
    uint64_t offset;
    unsigned n;
} Sections;

/* Nothing else of the library depends on sections: where they make no sense there are none. */
static Sections sections_of(const ElfFile *f)
{
    Elf64_Ehdr h;
    memcpy(&h, f->file, sizeof h);
    const bool sound = h.e_shentsize == sizeof(Elf64_Shdr) && h.e_shoff <= f->bytes &&
                       h.e_shnum * sizeof(Elf64_Shdr) <= f->bytes - h.e_shoff;
    return (Sections){f, h.e_shoff, sound ? h.e_shnum : 0};
}

static unsigned char *section_header(const Sections *s, unsigned i)
{
    return s->file->file + s->offset + i * sizeof(Elf64_Shdr);
}

/* A section whose contents lie in the file; false: it has none there. */
static bool read_section(const Sections *s, unsigned i, Elf64_Shdr *h)
{
    if (i >= s->n)
        return false;
    memcpy(h, section_header(s, i), sizeof *h);
    return h->sh_type != SHT_NOBITS && h->sh_offset <= s->file->bytes &&
           h->sh_size <= s->file->bytes - h->sh_offset;
}

static bool is_symbol_table(const Elf64_Shdr *h)
{
    return (h->sh_type == SHT_SYMTAB || h->sh_type == SHT_DYNSYM) &&
           h->sh_entsize == sizeof(Elf64_Sym);
}

static bool has_address(const Elf64_Sym *s)
{
    return s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS;
}

static void move_symbols(const Sections *s, const Elf64_Shdr *table, uint64_t base)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym y;
        unsigned char *p = s->file->file + table->sh_offset + at;
        memcpy(&y, p, sizeof y);
        if (!has_address(&y))
            continue;
        y.st_value += base;
        memcpy(p, &y, sizeof y);
    }
}

static void move_segments(const ElfFile *f, uint64_t base)
{
    Elf64_Ehdr h;
    memcpy(&h, f->file, sizeof h);
    for (unsigned i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        unsigned char *at = f->file + h.e_phoff + i * sizeof p;
        memcpy(&p, at, sizeof p);
        p.p_vaddr += base;
        memcpy(at, &p, sizeof p);
    }
}

/* Addresses become those in memory.  Returns how many tables of symbols there are. */
static int move_addresses(const ElfFile *f, uint64_t base)
{
    const Sections s = sections_of(f);
    int tables = 0;
    move_segments(f, base);
    for (unsigned i = 0; i < s.n; i++) {
        Elf64_Shdr h;
        const bool in_file = read_section(&s, i, &h);
        if (in_file && is_symbol_table(&h)) {
            move_symbols(&s, &h, base);
            tables++;
        }
        if (!(h.sh_flags & SHF_ALLOC))
            continue;
        h.sh_addr += base;
        memcpy(section_header(&s, i), &h, sizeof h);
    }
    return tables;
}

DebugEntry *hft_symbols_register(ElfFile *f, const Mapping *m)
{
    DebugEntry *e = malloc(sizeof *e);
    if (!e || !move_addresses(f, (uintptr_t)m->memory)) {
        free(e);
        return NULL;
    }
    pthread_mutex_lock(&list_lock);
    *e = (DebugEntry){.next = __jit_debug_descriptor.first, .file = f->file, .bytes = f->bytes};
    if (e->next)
        e->next->prev = e;
    __jit_debug_descriptor.first = e;
    announce(e, JIT_REGISTER);
    pthread_mutex_unlock(&list_lock);
    return e;
}

void hft_symbols_forget(DebugEntry *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&list_lock);
    if (e->prev)
        e->prev->next = e->next;
    else
        __jit_debug_descriptor.first = e->next;
    if (e->next)
        e->next->prev = e->prev;
    announce(e, JIT_UNREGISTER);
    pthread_mutex_unlock(&list_lock);
    free(e);
}

/* ---- perf ---- */

static void write_functions(FILE *out, const Sections *s, const Elf64_Shdr *table)
{
    Elf64_Shdr names;
    if (!read_section(s, table->sh_link, &names) || names.sh_size == 0 ||
        s->file->file[names.sh_offset + names.sh_size - 1] != 0)
        return;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym y;
        memcpy(&y, s->file->file + table->sh_offset + at, sizeof y);
        if (has_address(&y) && ELF64_ST_TYPE(y.st_info) == STT_FUNC &&
            y.st_name < names.sh_size)
            fprintf(out, "%" PRIx64 " %" PRIx64 " %s\n", y.st_value, y.st_size,
                    (const char *)s->file->file + names.sh_offset + y.st_name);
    }
}

hftac_status hft_symbols_write(const ElfFile *f, const char *path)
{
    FILE *out = fopen(path, "ae");
    if (!out)
        return hft_fail_file(path, "cannot open", errno);
    const Sections s = sections_of(f);
    for (unsigned i = 0; i < s.n; i++) {
        Elf64_Shdr h;
        if (read_section(&s, i, &h) && h.sh_type == SHT_SYMTAB && is_symbol_table(&h))
            write_functions(out, &s, &h);
    }
    errno = 0;
    const bool failed = ferror(out) != 0;
    return fclose(out) != 0 || failed ? hft_fail_file(path, "cannot write", errno) : HFTAC_OK;
}
