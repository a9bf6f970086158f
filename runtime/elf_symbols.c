/* Symbols of a shared object: every index and offset that the loader follows when it looks up
 * a name lies within the file. */
#include <elf.h>
#include <string.h>

#include "runtime/elf_view.h"

enum {
    MAX_BUCKETS = 1 << 20,
    GNU_HEAD = 4,
    SYSV_HEAD = 2
};

static hftac_status bad_hash(const ElfView *e)
{
    return hft_elf_damaged(e, "its table of symbols is damaged");
}

/* Words of 32 bits at an address; false past the file's end. */
static bool word_at(const ElfView *e, uint64_t table, uint64_t i, uint32_t *out)
{
    const unsigned char *p = hft_elf_at(e, table + i * sizeof *out, sizeof *out);
    if (p)
        memcpy(out, p, sizeof *out);
    return p != NULL;
}

/* The GNU table: head, bloom filter (a power of two of 64-bit words), buckets, and chains
 * that end with an odd word. */
static hftac_status check_gnu_hash(const ElfView *e, uint64_t table, uint64_t *n_symbols)
{
    uint32_t head[GNU_HEAD]; /* buckets, first symbol, bloom words, shift */
    for (int i = 0; i < GNU_HEAD; i++)
        if (!word_at(e, table, (uint64_t)i, &head[i]))
            return bad_hash(e);
    const uint32_t n = head[0], first = head[1], bloom = head[2];
    if (n == 0 || n > MAX_BUCKETS || bloom == 0 || bloom > MAX_BUCKETS ||
        (bloom & (bloom - 1)) != 0 || head[3] > 31)
        return bad_hash(e);
    const uint64_t buckets = table + GNU_HEAD * 4 + (uint64_t)bloom * 8,
                   chains = buckets + (uint64_t)n * 4;
    if (!hft_elf_at(e, table, chains - table))
        return bad_hash(e);
    uint64_t end = first;
    for (uint32_t b = 0; b < n; b++) {
        uint32_t symbol, link = 0;
        if (!word_at(e, buckets, b, &symbol))
            return bad_hash(e);
        if (symbol == 0)
            continue;
        for (; !(link & 1); symbol++)
            if (symbol < first || !word_at(e, chains, symbol - first, &link))
                return bad_hash(e);
        end = symbol > end ? symbol : end;
    }
    *n_symbols = end;
    return HFTAC_OK;
}

/* The old table: as many chain words as symbols, each the next symbol of its chain. */
static hftac_status check_sysv_hash(const ElfView *e, uint64_t table, uint64_t *n_symbols)
{
    uint32_t n_buckets, n_chains;
    if (!word_at(e, table, 0, &n_buckets) || !word_at(e, table, 1, &n_chains) ||
        n_buckets == 0 || n_buckets > MAX_BUCKETS || n_chains > MAX_BUCKETS)
        return bad_hash(e);
    for (uint64_t i = 0; i < (uint64_t)n_buckets + n_chains; i++) {
        uint32_t symbol;
        if (!word_at(e, table, SYSV_HEAD + i, &symbol) || symbol >= n_chains)
            return bad_hash(e);
    }
    *n_symbols = n_chains;
    return HFTAC_OK;
}

static hftac_status check_symbol(const ElfView *e, const ElfDynamic *d, uint64_t i)
{
    const unsigned char *p =
        hft_elf_at(e, d->symtab + i * sizeof(Elf64_Sym), sizeof(Elf64_Sym));
    if (!p)
        return bad_hash(e);
    Elf64_Sym s;
    memcpy(&s, p, sizeof s);
    const unsigned type = ELF64_ST_TYPE(s.st_info);
    if (s.st_name >= d->strtab_bytes)
        return bad_hash(e);
    if (type == STT_GNU_IFUNC || type == STT_TLS)
        return hft_elf_damaged(e, "it has a symbol of an unexpected kind");
    if (s.st_shndx != SHN_UNDEF && !hft_elf_in_memory(e, s.st_value, 1, PF_R))
        return hft_elf_damaged(e, "a symbol points outside of it");
    return HFTAC_OK;
}

hftac_status hft_elf_check_symbols(const ElfView *e, const ElfDynamic *d, uint64_t *n_symbols)
{
    *n_symbols = 0;
    if (!d->strtab_bytes || !hft_elf_at(e, d->strtab, d->strtab_bytes) ||
        (!d->hash && !d->gnu_hash))
        return bad_hash(e);
    if (hft_elf_at(e, d->strtab, d->strtab_bytes)[d->strtab_bytes - 1] != 0)
        return hft_elf_damaged(e, "its symbols' names have no end");
    uint64_t by_sysv = 0, by_gnu = 0;
    hftac_status s = d->hash ? check_sysv_hash(e, d->hash, &by_sysv) : HFTAC_OK;
    if (!s && d->gnu_hash)
        s = check_gnu_hash(e, d->gnu_hash, &by_gnu);
    *n_symbols = by_sysv > by_gnu ? by_sysv : by_gnu;
    for (uint64_t i = 1; i < *n_symbols && !s; i++)
        s = check_symbol(e, d, i);
    return s;
}
