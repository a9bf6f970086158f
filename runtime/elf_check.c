/* Is this file a shared object that the loader can take without harm?
 *
 * The dynamic loader trusts what it reads, and runs constructors, so the headers, the segments, the dynamic section and
 * its relocations are checked first: a truncated or damaged model.so becomes an error and not a crash. */
#include "runtime/image.h"

#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/error.h"

typedef struct Elf {
    const char *path;
    const unsigned char *file;
    uint64_t bytes;
    ElfLayout *layout;
    const Segment *dynamic; /* within a LOAD segment; NULL: none seen */
    Segment dynamic_segment;
} Elf;

static hftac_status damaged(const Elf *e, const char *what)
{
    return hft_fail(HFTAC_MODEL, "%s: not a usable model.so: %s", e->path, what);
}

static bool within(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

/* Bytes at an address, if they come from the file. */
static const unsigned char *at_address(const Elf *e, uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < e->layout->n_segments; i++) {
        const Segment *s = &e->layout->segments[i];
        if (address >= s->address && within(address - s->address, bytes, s->file_bytes))
            return e->file + s->offset + (address - s->address);
    }
    return NULL;
}

static bool in_memory(const Elf *e, uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < e->layout->n_segments; i++) {
        const Segment *s = &e->layout->segments[i];
        if (address >= s->address && within(address - s->address, bytes, s->bytes))
            return true;
    }
    return false;
}

static hftac_status check_header(const Elf *e, Elf64_Ehdr *h)
{
    if (e->bytes < sizeof *h)
        return damaged(e, "the file is too short");
    memcpy(h, e->file, sizeof *h);
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return damaged(e, "it is not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != EM_X86_64)
        return damaged(e, "it is not for x86-64");
    if (h->e_type != ET_DYN || h->e_ident[EI_VERSION] != EV_CURRENT)
        return damaged(e, "it is not a shared object");
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0 ||
        !within(h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr), e->bytes))
        return damaged(e, "its program headers lie outside the file (truncated?)");
    if (h->e_shnum && !within(h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize, e->bytes))
        return damaged(e, "its section headers lie outside the file (truncated?)");
    return HFTAC_OK;
}

static hftac_status check_segment(Elf *e, const Elf64_Phdr *p)
{
    if (p->p_type != PT_LOAD && p->p_type != PT_DYNAMIC)
        return HFTAC_OK;
    if (!within(p->p_offset, p->p_filesz, e->bytes))
        return damaged(e, "a segment lies outside the file (truncated?)");
    const Segment s = {.address = p->p_vaddr,
                       .bytes = p->p_memsz,
                       .offset = p->p_offset,
                       .file_bytes = p->p_filesz,
                       .flags = p->p_flags};
    if (p->p_type == PT_DYNAMIC) {
        e->dynamic_segment = s;
        e->dynamic = &e->dynamic_segment;
        return HFTAC_OK;
    }
    const ElfLayout *l = e->layout;
    if (l->n_segments == IMAGE_MAX_SEGMENTS)
        return damaged(e, "it has too many segments");
    const uint64_t end = l->n_segments ? l->segments[l->n_segments - 1].address + l->segments[l->n_segments - 1].bytes : 0;
    if (p->p_filesz > p->p_memsz || p->p_vaddr < end || p->p_memsz > UINT64_C(1) << 40 || p->p_vaddr > UINT64_C(1) << 40 ||
        (p->p_vaddr - p->p_offset) % 4096 != 0)
        return damaged(e, "a segment's addresses make no sense");
    e->layout->segments[e->layout->n_segments++] = s;
    return HFTAC_OK;
}

static hftac_status check_relocations(const Elf *e, uint64_t address, uint64_t bytes)
{
    const unsigned char *p = at_address(e, address, bytes);
    if (!p || bytes % sizeof(Elf64_Rela) != 0)
        return damaged(e, "its relocations lie outside the file");
    for (uint64_t at = 0; at < bytes; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        memcpy(&r, p + at, sizeof r);
        const uint64_t type = ELF64_R_TYPE(r.r_info);
        if (type != R_X86_64_RELATIVE && type != R_X86_64_64 && type != R_X86_64_GLOB_DAT && type != R_X86_64_JUMP_SLOT)
            return damaged(e, "it has a relocation of an unexpected kind");
        if (!in_memory(e, r.r_offset, 8))
            return damaged(e, "a relocation points outside of it");
    }
    return HFTAC_OK;
}

/* Entries of the dynamic section that are looked at together. */
typedef struct Dynamic {
    uint64_t rela, rela_bytes, jmprel, jmprel_bytes, symtab, strtab, strtab_bytes, hash, gnu_hash;
} Dynamic;

static hftac_status read_dynamic_entry(const Elf *e, const Elf64_Dyn *d, Dynamic *out)
{
    switch (d->d_tag) {
    case DT_NEEDED:
        return damaged(e, "it depends on other libraries");
    case DT_INIT:
    case DT_INIT_ARRAY:
    case DT_PREINIT_ARRAY:
    case DT_FINI:
    case DT_FINI_ARRAY:
        return damaged(e, "it has code that runs when it is loaded");
    case DT_TEXTREL:
    case DT_REL:
        return damaged(e, "it has relocations of an unexpected kind");
    case DT_RELA:
        out->rela = d->d_un.d_ptr;
        break;
    case DT_RELASZ:
        out->rela_bytes = d->d_un.d_val;
        break;
    case DT_JMPREL:
        out->jmprel = d->d_un.d_ptr;
        break;
    case DT_PLTRELSZ:
        out->jmprel_bytes = d->d_un.d_val;
        break;
    case DT_SYMTAB:
        out->symtab = d->d_un.d_ptr;
        break;
    case DT_STRTAB:
        out->strtab = d->d_un.d_ptr;
        break;
    case DT_STRSZ:
        out->strtab_bytes = d->d_un.d_val;
        break;
    case DT_HASH:
        out->hash = d->d_un.d_ptr;
        break;
    case DT_GNU_HASH:
        out->gnu_hash = d->d_un.d_ptr;
        break;
    default:
        break;
    }
    return HFTAC_OK;
}

static hftac_status check_dynamic(const Elf *e)
{
    if (!e->dynamic)
        return damaged(e, "it has no dynamic section");
    const uint64_t bytes = e->dynamic->file_bytes;
    const unsigned char *p = at_address(e, e->dynamic->address, bytes);
    if (!p || bytes % sizeof(Elf64_Dyn) != 0)
        return damaged(e, "its dynamic section lies outside its segments");
    Dynamic d = {0};
    bool ended = false;
    for (uint64_t at = 0; at < bytes && !ended; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, p + at, sizeof entry);
        ended = entry.d_tag == DT_NULL;
        const hftac_status s = read_dynamic_entry(e, &entry, &d);
        if (s)
            return s;
    }
    if (!ended)
        return damaged(e, "its dynamic section has no end");
    if (!d.strtab_bytes || !at_address(e, d.strtab, d.strtab_bytes) || !at_address(e, d.symtab, sizeof(Elf64_Sym)) ||
        (!d.hash && !d.gnu_hash) || (d.hash && !at_address(e, d.hash, 8)) || (d.gnu_hash && !at_address(e, d.gnu_hash, 16)))
        return damaged(e, "its symbol table lies outside the file");
    if (at_address(e, d.strtab, d.strtab_bytes)[d.strtab_bytes - 1] != 0)
        return damaged(e, "its symbol names have no end");
    hftac_status s = HFTAC_OK;
    if (d.rela_bytes)
        s = check_relocations(e, d.rela, d.rela_bytes);
    if (!s && d.jmprel_bytes)
        s = check_relocations(e, d.jmprel, d.jmprel_bytes);
    return s;
}

hftac_status hft_elf_check(const char *path, const unsigned char *file, uint64_t bytes, ElfLayout *layout)
{
    memset(layout, 0, sizeof *layout);
    Elf e = {.path = path, .file = file, .bytes = bytes, .layout = layout};
    Elf64_Ehdr h;
    hftac_status s = check_header(&e, &h);
    for (unsigned i = 0; !s && i < h.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, file + h.e_phoff + i * sizeof p, sizeof p);
        s = check_segment(&e, &p);
    }
    if (!s && !layout->n_segments)
        s = damaged(&e, "it has no segments");
    return s ? s : check_dynamic(&e);
}
