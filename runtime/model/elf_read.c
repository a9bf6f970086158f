/* What libhftac takes from an ELF file: the segments to load, where the dynamic section lies, and
 * hftac's note.
 *
 * All of it is read from the bytes of the file, which are in private memory by then, and every
 * number is checked against them.  Sections, symbols, hash tables and everything else that a
 * dynamic loader would follow are not looked at: the loader (loader.c) maps segments and relocates
 * them, and nothing more. */
#include <elf.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/model/loader.h"

enum {
    /* What linkers leave between the segments, and put behind the last byte of a segment that comes
     * from the file: up to the largest page of an architecture. */
    MAX_PADDING = 1 << 21
};

/* The machine that this library was compiled for. */
#if defined(__x86_64__)
static const unsigned native_machine = EM_X86_64;
static const char native_name[] = "x86-64";
#elif defined(__aarch64__)
static const unsigned native_machine = EM_AARCH64;
static const char native_name[] = "aarch64";
#else
#error "libhftac knows x86-64 and aarch64"
#endif

hftac_status hft_elf_unusable(const ElfFile *f, const char *what)
{
    return hft_fail(HFTAC_MODEL, "%s: not a usable model.so: %s", f->path, what);
}

static bool within(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

static hftac_status check_header(const ElfFile *f, Elf64_Ehdr *h)
{
    if (f->bytes < sizeof *h)
        return hft_elf_unusable(f, "the file is too short");
    memcpy(h, f->file, sizeof *h);
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return hft_elf_unusable(f, "it is not an ELF file");
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_machine != native_machine)
        return hft_fail(HFTAC_MODEL, "%s: not a usable model.so: it is not for %s", f->path,
                        native_name);
    if (h->e_type != ET_DYN || h->e_ident[EI_VERSION] != EV_CURRENT)
        return hft_elf_unusable(f, "it is not a shared object");
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0 ||
        !within(h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr), f->bytes))
        return hft_elf_unusable(f, "its program headers lie outside the file (truncated?)");
    return HFTAC_OK;
}

static uint64_t end_of(const Segment *s)
{
    return s->address + s->bytes;
}

/* Segments lie in ascending order and do not overlap, so that an address means one byte of the
 * file whatever maps it. */
static hftac_status add_segment(ElfFile *f, const Elf64_Phdr *p)
{
    const Segment s = {p->p_vaddr, p->p_memsz, p->p_offset, p->p_filesz, p->p_flags};
    const uint64_t end = f->n_segments ? end_of(&f->segments[f->n_segments - 1]) : 0;
    if (f->n_segments == LOADER_MAX_SEGMENTS)
        return hft_elf_unusable(f, "it has too many segments");
    if (s.file_bytes > s.bytes || s.bytes - s.file_bytes > MAX_PADDING || s.address < end ||
        s.address - end > MAX_PADDING || !(s.flags & PF_R))
        return hft_elf_unusable(f, "a segment's addresses make no sense");
    if ((s.flags & PF_W) && (s.flags & PF_X))
        return hft_elf_unusable(f, "a segment is writable and executable");
    if (s.bytes)
        f->segments[f->n_segments++] = s;
    return HFTAC_OK;
}

static hftac_status read_segment(ElfFile *f, const Elf64_Phdr *p)
{
    if (p->p_type == PT_TLS || p->p_type == PT_INTERP)
        return hft_elf_unusable(f, "it has a segment of an unexpected kind");
    if (p->p_type != PT_LOAD && p->p_type != PT_DYNAMIC && p->p_type != PT_NOTE)
        return HFTAC_OK;
    if (!within(p->p_offset, p->p_filesz, f->bytes))
        return hft_elf_unusable(f, "a segment lies outside the file (truncated?)");
    if (p->p_type == PT_LOAD)
        return add_segment(f, p);
    if (p->p_type == PT_DYNAMIC) {
        f->dynamic = p->p_vaddr;
        f->dynamic_bytes = p->p_filesz;
    }
    return HFTAC_OK;
}

const unsigned char *hft_elf_at(const ElfFile *f, uint64_t address, uint64_t bytes)
{
    for (int i = 0; i < f->n_segments; i++) {
        const Segment *s = &f->segments[i];
        if (address >= s->address && within(address - s->address, bytes, s->file_bytes))
            return f->file + s->offset + (address - s->address);
    }
    return NULL;
}

bool hft_elf_has(const ElfFile *f, uint64_t address, uint64_t bytes, uint32_t flags)
{
    for (int i = 0; i < f->n_segments; i++) {
        const Segment *s = &f->segments[i];
        if (address >= s->address && within(address - s->address, bytes, s->bytes))
            return (s->flags & flags) == flags;
    }
    return false;
}

static uint64_t padded(uint64_t n)
{
    return (n + 3) & ~UINT64_C(3);
}

/* One note of a PT_NOTE segment; how many bytes it takes, or 0 at its end. */
static uint64_t read_note(ElfFile *f, uint64_t address, uint64_t left)
{
    Elf64_Nhdr h;
    const unsigned char *p = left >= sizeof h ? hft_elf_at(f, address, left) : NULL;
    if (!p)
        return 0;
    memcpy(&h, p, sizeof h);
    const uint64_t name = sizeof h, text = name + padded(h.n_namesz),
                   all = text + padded(h.n_descsz);
    if (all > left)
        return 0;
    if (h.n_namesz == sizeof HFTAC_NOTE_NAME && h.n_descsz >= sizeof(HftacNote) &&
        memcmp(p + name, HFTAC_NOTE_NAME, sizeof HFTAC_NOTE_NAME) == 0)
        f->note = address + text;
    return all;
}

static void read_notes(ElfFile *f, const Elf64_Phdr *p)
{
    uint64_t at = p->p_vaddr, left = p->p_filesz;
    for (uint64_t n; (n = read_note(f, at, left)) != 0; left -= n)
        at += n;
}

hftac_status hft_elf_read(ElfFile *f)
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    hftac_status s = check_header(f, &h);
    for (unsigned i = 0; !s && i < h.e_phnum; i++) {
        memcpy(&p, f->file + h.e_phoff + i * sizeof p, sizeof p);
        s = read_segment(f, &p);
    }
    if (s)
        return s;
    for (unsigned i = 0; i < h.e_phnum; i++) {
        memcpy(&p, f->file + h.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type == PT_NOTE)
            read_notes(f, &p);
    }
    if (!f->note)
        return hft_fail(
            HFTAC_MODEL,
            "%s: not a model.so: it lacks hftac's note (another library, or one made "
            "by an older hftac: compile it again)",
            f->path);
    return f->n_segments ? HFTAC_OK : hft_elf_unusable(f, "it has no segments");
}
