/* The last step of writing a model.so: the hash of the whole file goes into its ELF note, so that
 * libhftac sees every later change of the file, by whatever damaged it. */
#include <elf.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/codegen.h"
#include "runtime/model_abi.h"

typedef struct File {
    unsigned char *bytes;
    size_t n;
} File;

/* Where the note's HftacNote lies in the file; 0: there is none.  The linker wrote the file a
 * moment ago, so its headers are believed as far as they stay inside of it. */
static size_t find_note(const File *f)
{
    Elf64_Ehdr h;
    if (f->n < sizeof h)
        return 0;
    memcpy(&h, f->bytes, sizeof h);
    for (unsigned i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        const size_t at = h.e_phoff + i * sizeof p;
        if (at + sizeof p > f->n)
            return 0;
        memcpy(&p, f->bytes + at, sizeof p);
        if (p.p_type != PT_NOTE || p.p_offset + p.p_filesz > f->n)
            continue;
        const unsigned char *name =
            memmem(f->bytes + p.p_offset, p.p_filesz, HFTAC_NOTE_NAME, sizeof HFTAC_NOTE_NAME);
        const size_t note = name ? (size_t)(name - f->bytes) + 8 : 0;
        if (note && note + sizeof(HftacNote) <= f->n)
            return note;
    }
    return 0;
}

static bool stamp(const File *f)
{
    const size_t note = find_note(f);
    if (!note)
        return false;
    unsigned char *at = f->bytes + note + offsetof(HftacNote, hash);
    memset(at, 0, HFTAC_HASH_BYTES);
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(f->bytes, f->n));
    memcpy(at, hash.digest, HFTAC_HASH_BYTES);
    return true;
}

bool model_stamp(Text *model)
{
    const File f = {.bytes = (unsigned char *)model->s, .n = model->len};
    return stamp(&f);
}
