/* From a file to a mapping: read once, checked against its hash, copied segment by segment,
 * relocated, and made read-only or executable.
 *
 * The only relocations that a model.so may have say "add the load address to this word"; whatever
 * needs a symbol needs another file, and is refused. */
#include "runtime/model/loader.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/error.h"
#include "runtime/open_file.h"

enum {
    MAX_FILE_BYTES = 1 << 30
};

#if defined(__x86_64__)
static const uint64_t relative = R_X86_64_RELATIVE, nothing = R_X86_64_NONE;
#elif defined(__aarch64__)
static const uint64_t relative = R_AARCH64_RELATIVE, nothing = R_AARCH64_NONE;
#endif
#ifndef DT_RELR
#define DT_RELR 36
#endif

/* ---- the file ---- */

/* All bytes of an open file, as many as `size` says. */
static hftac_status read_all(int fd, ElfFile *f)
{
    for (uint64_t at = 0; at < f->bytes;) {
        const ssize_t n = read(fd, f->file + at, f->bytes - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hft_fail_file(f->path, "cannot read", errno);
        if (n == 0)
            return hft_elf_unusable(f, "it became shorter while it was read");
        at += (uint64_t)n;
    }
    return HFTAC_OK;
}

static hftac_status read_open_file(int fd, off_t bytes, ElfFile *f)
{
    if (bytes <= 0)
        return hft_fail(HFTAC_MODEL, "%s: not a model.so: it is empty", f->path);
    if (bytes > MAX_FILE_BYTES)
        return hft_elf_unusable(f, "it is larger than 1 GiB");
    f->bytes = (uint64_t)bytes;
    f->file = malloc(f->bytes);
    return f->file ? read_all(fd, f) : hft_fail_memory("a model.so", f->bytes);
}

/* The hash of the file stands in its note and is taken as if those bytes were zero. */
static hftac_status check_hash(const ElfFile *f)
{
    const unsigned char *at = hft_elf_at(f, f->note, sizeof(HftacNote));
    HftacNote note;
    if (!at)
        return hft_elf_unusable(f, "its note lies outside its segments");
    memcpy(&note, at, sizeof note);
    if (note.abi_major != HFTAC_ABI_MAJOR)
        return hft_fail(
            HFTAC_MODEL,
            "%s: made for version %u of the format, this libhftac reads version %u; "
            "compile it again",
            f->path, note.abi_major, HFTAC_ABI_MAJOR);
    static const unsigned char zero[sizeof note.hash];
    const size_t before = (size_t)(at - f->file) + offsetof(HftacNote, hash);
    const size_t after = before + sizeof note.hash;
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, f->file, before);
    XXH3_128bits_update(&state, zero, sizeof zero);
    XXH3_128bits_update(&state, f->file + after, f->bytes - after);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(&state));
    return memcmp(hash.digest, note.hash, sizeof note.hash) == 0
               ? HFTAC_OK
               : hft_elf_unusable(f, "it is damaged, or was changed after hftac wrote it: its "
                                     "contents do not have the hash that it states");
}

hftac_status hft_file_load(const char *path, ElfFile *f)
{
    *f = (ElfFile){.path = path};
    struct stat st;
    const int fd = hft_open_regular(path, &st);
    if (fd < 0 && hft_not_regular(errno))
        return hft_fail(HFTAC_MODEL, "%s: not a model.so: not a file", path);
    if (fd < 0)
        return hft_fail_file(path, "cannot open", errno);
    hftac_status s = read_open_file(fd, st.st_size, f);
    close(fd);
    if (!s)
        s = hft_elf_read(f);
    if (!s)
        s = check_hash(f);
    if (s)
        hft_file_forget(f);
    return s;
}

void hft_file_forget(ElfFile *f)
{
    free(f->file);
    f->file = NULL;
}

/* ---- the mapping ---- */

static uint64_t page_down(uint64_t address, uint64_t page)
{
    return address & ~(page - 1);
}

static uint64_t page_up(uint64_t address, uint64_t page)
{
    return page_down(address + page - 1, page);
}

/* A page has one protection, so two segments that want different ones may not share it. */
static hftac_status check_pages(const ElfFile *f, uint64_t page)
{
    for (int i = 1; i < f->n_segments; i++) {
        const Segment *a = &f->segments[i - 1], *b = &f->segments[i];
        if (page_up(a->address + a->bytes, page) > page_down(b->address, page) &&
            (a->flags & PF_X) != (b->flags & PF_X))
            return hft_elf_unusable(f, "code and data share a page");
    }
    return HFTAC_OK;
}

static hftac_status copy_segments(const ElfFile *f, const Mapping *m, uint64_t page)
{
    for (int i = 0; i < f->n_segments; i++) {
        const Segment *s = &f->segments[i];
        const uint64_t lo = page_down(s->address, page),
                       hi = page_up(s->address + s->bytes, page);
        if (mprotect(m->memory + lo, hi - lo, PROT_READ | PROT_WRITE) != 0)
            return hft_fail_memory("a model.so", hi - lo);
        memcpy(m->memory + s->address, f->file + s->offset, s->file_bytes);
    }
    return HFTAC_OK;
}

static hftac_status relocate(const ElfFile *f, const Mapping *m, const Elf64_Rela *r)
{
    if (r->r_info == nothing)
        return HFTAC_OK;
    if (r->r_info != relative)
        return hft_elf_unusable(f, "it needs symbols of other files");
    const uint64_t value = (uintptr_t)m->memory + (uint64_t)r->r_addend;
    if (!hft_elf_has(f, r->r_offset, sizeof value, PF_W))
        return hft_elf_unusable(f, "a relocation points outside of it");
    memcpy(m->memory + r->r_offset, &value, sizeof value);
    return HFTAC_OK;
}

/* What the dynamic section must not have, and the relocations that it has. */
static hftac_status read_tag(const ElfFile *f, const Elf64_Dyn *d, uint64_t *rela,
                             uint64_t *rela_bytes)
{
    switch (d->d_tag) {
    case DT_NEEDED:
        return hft_elf_unusable(f, "it depends on other libraries");
    case DT_INIT:
    case DT_INIT_ARRAY:
    case DT_PREINIT_ARRAY:
        return hft_elf_unusable(f, "it has code that wants to run when it is loaded");
    case DT_JMPREL:
    case DT_REL:
    case DT_TEXTREL:
        return hft_elf_unusable(f, "it has relocations of an unexpected kind");
    case DT_RELA:
        *rela = d->d_un.d_ptr;
        return HFTAC_OK;
    case DT_RELASZ:
        *rela_bytes = d->d_un.d_val;
        return HFTAC_OK;
    case DT_RELR:
        return hft_elf_unusable(f, "its relocations are packed (-z pack-relative-relocs)");
    default:
        return HFTAC_OK;
    }
}

/* Everything is read from the file's copy and not from the mapping, which relocations change. */
static hftac_status apply_relocations(const ElfFile *f, const Mapping *m)
{
    uint64_t rela = 0, rela_bytes = 0;
    const unsigned char *p = hft_elf_at(f, f->dynamic, f->dynamic_bytes);
    if (f->dynamic_bytes && !p)
        return hft_elf_unusable(f, "its dynamic section lies outside its segments");
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= f->dynamic_bytes; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn d;
        memcpy(&d, p + at, sizeof d);
        if (d.d_tag == DT_NULL)
            break;
        const hftac_status s = read_tag(f, &d, &rela, &rela_bytes);
        if (s)
            return s;
    }
    p = hft_elf_at(f, rela, rela_bytes);
    if (rela_bytes && (!p || rela_bytes % sizeof(Elf64_Rela) != 0))
        return hft_elf_unusable(f, "its relocations lie outside its segments");
    for (uint64_t at = 0; at < rela_bytes; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        memcpy(&r, p + at, sizeof r);
        const hftac_status s = relocate(f, m, &r);
        if (s)
            return s;
    }
    return HFTAC_OK;
}

/* Executable is what the file calls so; nothing stays writable. */
static hftac_status protect(const ElfFile *f, const Mapping *m, uint64_t page)
{
    for (int i = 0; i < f->n_segments; i++) {
        const Segment *s = &f->segments[i];
        const uint64_t lo = page_down(s->address, page),
                       hi = page_up(s->address + s->bytes, page);
        const int rights = PROT_READ | (s->flags & PF_X ? PROT_EXEC : 0);
        __builtin___clear_cache((char *)m->memory + lo, (char *)m->memory + hi);
        if (mprotect(m->memory + lo, hi - lo, rights) != 0)
            return hft_fail_file(f->path, "cannot protect its memory", errno);
    }
    return HFTAC_OK;
}

hftac_status hft_map(const ElfFile *f, Mapping *m)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const Segment *last = &f->segments[f->n_segments - 1];
    *m = (Mapping){0};
    hftac_status s = check_pages(f, page);
    if (s)
        return s;
    m->bytes = page_up(last->address + last->bytes, page);
    void *memory =
        mmap(NULL, m->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return hft_fail_memory("a model.so", m->bytes);
    m->memory = memory;
    s = copy_segments(f, m, page);
    if (!s)
        s = apply_relocations(f, m);
    if (!s)
        s = protect(f, m, page);
    if (s)
        hft_unmap(m);
    return s;
}

void hft_unmap(Mapping *m)
{
    if (m->memory)
        munmap(m->memory, m->bytes);
    *m = (Mapping){0};
}
