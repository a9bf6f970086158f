/* Is this file a shared object that the loader can take without harm?
 *
 * The dynamic loader trusts what it reads, and runs constructors, so the headers, the
 * segments, the dynamic section and its relocations are checked first: a truncated or damaged
 * model.so becomes an error and not a crash. */
#include "runtime/elf_view.h"

#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/error.h"

/* The view, and the DYNAMIC segment once it is seen. */
typedef struct Elf {
    ElfView v;
    Segment dynamic;
    bool has_dynamic;
} Elf;

hftac_status hft_elf_damaged(const ElfView *e, const char *what)
{
    return hft_fail(HFTAC_MODEL, "%s: not a usable model.so: %s", e->path, what);
}

static bool within(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

const unsigned char *hft_elf_at(const ElfView *e, uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < e->layout->n_segments; i++) {
        const Segment *s = &e->layout->segments[i];
        if (address >= s->address && within(address - s->address, bytes, s->file_bytes))
            return e->file + s->offset + (address - s->address);
    }
    return NULL;
}

bool hft_elf_in_memory(const ElfView *e, uint64_t address, uint64_t bytes, uint32_t flags)
{
    for (int i = 0; i < e->layout->n_segments; i++) {
        const Segment *s = &e->layout->segments[i];
        if (address >= s->address && within(address - s->address, bytes, s->bytes))
            return (s->flags & flags) == flags;
    }
    return false;
}

static hftac_status check_header(const ElfView *e, Elf64_Ehdr *h)
{
    if (e->bytes < sizeof *h)
        return hft_elf_damaged(e, "the file is too short");
    memcpy(h, e->file, sizeof *h);
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return hft_elf_damaged(e, "it is not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_machine != EM_X86_64)
        return hft_elf_damaged(e, "it is not for x86-64");
    if (h->e_type != ET_DYN || h->e_ident[EI_VERSION] != EV_CURRENT)
        return hft_elf_damaged(e, "it is not a shared object");
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0 ||
        !within(h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr), e->bytes))
        return hft_elf_damaged(e, "its program headers lie outside the file (truncated?)");
    if (h->e_shnum && !within(h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize, e->bytes))
        return hft_elf_damaged(e, "its section headers lie outside the file (truncated?)");
    return HFTAC_OK;
}

static hftac_status check_segment(Elf *elf, const Elf64_Phdr *p)
{
    const ElfView *e = &elf->v;
    if (p->p_type == PT_TLS || p->p_type == PT_INTERP)
        return hft_elf_damaged(e, "it has a segment of an unexpected kind");
    if (!within(p->p_offset, p->p_filesz, e->bytes))
        return hft_elf_damaged(e, "a segment lies outside the file (truncated?)");
    if (p->p_type != PT_LOAD && p->p_type != PT_DYNAMIC)
        return HFTAC_OK;
    const Segment s = {.address = p->p_vaddr,
                       .bytes = p->p_memsz,
                       .offset = p->p_offset,
                       .file_bytes = p->p_filesz,
                       .flags = p->p_flags};
    if (p->p_type == PT_DYNAMIC) {
        elf->dynamic = s;
        elf->has_dynamic = true;
        return HFTAC_OK;
    }
    const ElfLayout *l = e->layout;
    if (l->n_segments == IMAGE_MAX_SEGMENTS)
        return hft_elf_damaged(e, "it has too many segments");
    const uint64_t end = l->n_segments ? l->segments[l->n_segments - 1].address +
                                             l->segments[l->n_segments - 1].bytes
                                       : 0;
    if (p->p_filesz > p->p_memsz || p->p_vaddr < end || !(p->p_flags & PF_R) ||
        p->p_memsz > UINT64_C(1) << 40 || p->p_vaddr > UINT64_C(1) << 40 ||
        (p->p_vaddr - p->p_offset) % 4096 != 0)
        return hft_elf_damaged(e, "a segment's addresses make no sense");
    e->layout->segments[e->layout->n_segments++] = s;
    return HFTAC_OK;
}

/* Parts of the image that the loader reads or protects by the headers' word alone. */
static hftac_status check_part(const ElfView *e, const Elf64_Phdr *p)
{
    const bool trusted =
        p->p_type == PT_GNU_RELRO || p->p_type == PT_NOTE || p->p_type == PT_GNU_PROPERTY;
    return trusted && !hft_elf_in_memory(e, p->p_vaddr, p->p_memsz, PF_R)
               ? hft_elf_damaged(e, "a part lies outside its segments")
               : HFTAC_OK;
}

static hftac_status check_relocations(const ElfView *e, uint64_t address, uint64_t bytes,
                                      uint64_t n_relative, uint64_t n_symbols)
{
    const unsigned char *p = hft_elf_at(e, address, bytes);
    if (!p || bytes % sizeof(Elf64_Rela) != 0)
        return hft_elf_damaged(e, "its relocations lie outside the file");
    for (uint64_t at = 0; at < bytes; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        memcpy(&r, p + at, sizeof r);
        const uint64_t type = ELF64_R_TYPE(r.r_info);
        if (type != R_X86_64_RELATIVE && type != R_X86_64_64 && type != R_X86_64_GLOB_DAT &&
            type != R_X86_64_JUMP_SLOT)
            return hft_elf_damaged(e, "it has a relocation of an unexpected kind");
        if (type != R_X86_64_RELATIVE && at / sizeof r < n_relative)
            return hft_elf_damaged(e, "its relocations are not in order");
        if (!hft_elf_in_memory(e, r.r_offset, 8, PF_W))
            return hft_elf_damaged(e, "a relocation points outside of it");
        if (type != R_X86_64_RELATIVE && ELF64_R_SYM(r.r_info) >= n_symbols &&
            ELF64_R_SYM(r.r_info) != 0)
            return hft_elf_damaged(e, "a relocation has no symbol");
    }
    return HFTAC_OK;
}

/* The tags that a model.so has: nothing that needs another library, runs code at load time, or
 * changes the text. */
static const struct {
    int64_t tag;
    size_t field;
} tags[] = {
    {DT_RELA, offsetof(ElfDynamic, rela)},
    {DT_RELASZ, offsetof(ElfDynamic, rela_bytes)},
    {DT_RELAENT, offsetof(ElfDynamic, rela_size)},
    {DT_RELACOUNT, offsetof(ElfDynamic, n_relative)},
    {DT_JMPREL, offsetof(ElfDynamic, jmprel)},
    {DT_PLTRELSZ, offsetof(ElfDynamic, jmprel_bytes)},
    {DT_PLTREL, offsetof(ElfDynamic, jmprel_kind)},
    {DT_PLTGOT, offsetof(ElfDynamic, got)},
    {DT_SYMTAB, offsetof(ElfDynamic, symtab)},
    {DT_SYMENT, offsetof(ElfDynamic, symbol_size)},
    {DT_STRTAB, offsetof(ElfDynamic, strtab)},
    {DT_STRSZ, offsetof(ElfDynamic, strtab_bytes)},
    {DT_SONAME, offsetof(ElfDynamic, soname)},
    {DT_HASH, offsetof(ElfDynamic, hash)},
    {DT_GNU_HASH, offsetof(ElfDynamic, gnu_hash)},
    {DT_FLAGS, offsetof(ElfDynamic, flags)},
    {DT_FLAGS_1, offsetof(ElfDynamic, flags_1)},
};

static hftac_status read_dynamic_entry(const ElfView *e, const Elf64_Dyn *entry, ElfDynamic *d)
{
    if (entry->d_tag == DT_NEEDED)
        return hft_elf_damaged(e, "it depends on other libraries");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (tags[i].tag == entry->d_tag) {
            memcpy((char *)d + tags[i].field, &entry->d_un.d_val, sizeof(uint64_t));
            return HFTAC_OK;
        }
    return hft_elf_damaged(e, "its dynamic section has an entry of an unexpected kind");
}

static bool dynamic_makes_sense(const ElfView *e, const ElfDynamic *d)
{
    const uint64_t rows = d->rela_bytes / sizeof(Elf64_Rela);
    return d->symtab && d->strtab && d->symbol_size == sizeof(Elf64_Sym) &&
           !d->rela == !d->rela_bytes && !d->jmprel == !d->jmprel_bytes &&
           (!d->rela || d->rela_size == sizeof(Elf64_Rela)) &&
           (!d->jmprel || (d->jmprel_kind == DT_RELA && d->got)) && d->n_relative <= rows &&
           (!d->got || hft_elf_in_memory(e, d->got, 24, PF_W)) && d->soname < d->strtab_bytes &&
           (d->flags & ~(uint64_t)(DF_BIND_NOW | DF_SYMBOLIC)) == 0 &&
           (d->flags_1 & ~(uint64_t)DF_1_NOW) == 0;
}

static hftac_status read_dynamic(const ElfView *e, const Segment *segment, ElfDynamic *d)
{
    const uint64_t bytes = segment->file_bytes;
    const unsigned char *p = hft_elf_at(e, segment->address, bytes);
    if (!p || bytes % sizeof(Elf64_Dyn) != 0)
        return hft_elf_damaged(e, "its dynamic section lies outside its segments");
    for (uint64_t at = 0; at < bytes; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, p + at, sizeof entry);
        if (entry.d_tag == DT_NULL)
            return dynamic_makes_sense(e, d)
                       ? HFTAC_OK
                       : hft_elf_damaged(e, "its dynamic section makes no sense");
        const hftac_status s = read_dynamic_entry(e, &entry, d);
        if (s)
            return s;
    }
    return hft_elf_damaged(e, "its dynamic section has no end");
}

static hftac_status check_dynamic(const Elf *elf)
{
    const ElfView *e = &elf->v;
    if (!elf->has_dynamic)
        return hft_elf_damaged(e, "it has no dynamic section");
    ElfDynamic d = {0};
    uint64_t n_symbols = 0;
    hftac_status s = read_dynamic(e, &elf->dynamic, &d);
    if (!s)
        s = hft_elf_check_symbols(e, &d, &n_symbols);
    if (!s && d.rela_bytes)
        s = check_relocations(e, d.rela, d.rela_bytes, d.n_relative, n_symbols);
    if (!s && d.jmprel_bytes)
        s = check_relocations(e, d.jmprel, d.jmprel_bytes, 0, n_symbols);
    return s;
}

hftac_status hft_elf_check(const char *path, const unsigned char *file, uint64_t bytes,
                           ElfLayout *layout)
{
    memset(layout, 0, sizeof *layout);
    Elf e = {.v = {.path = path, .file = file, .bytes = bytes, .layout = layout}};
    Elf64_Ehdr h;
    Elf64_Phdr p;
    hftac_status s = check_header(&e.v, &h);
    for (unsigned i = 0; !s && i < h.e_phnum; i++) {
        memcpy(&p, file + h.e_phoff + i * sizeof p, sizeof p);
        s = check_segment(&e, &p);
    }
    for (unsigned i = 0; !s && i < h.e_phnum; i++) {
        memcpy(&p, file + h.e_phoff + i * sizeof p, sizeof p);
        s = check_part(&e.v, &p);
    }
    if (!s && !layout->n_segments)
        s = hft_elf_damaged(&e.v, "it has no segments");
    return s ? s : check_dynamic(&e);
}
