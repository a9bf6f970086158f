/* Loading a model.so: what changed is seen, what is loaded is what was checked, and nothing of it
 * runs before. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/model_abi.h"
#include "tests/unit/restamp.h"
#include "tests/unit/runtime_test.h"

typedef struct Bytes {
    unsigned char *at;
    size_t n;
} Bytes;

static Bytes read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    Bytes b = {0};
    if (f && fseek(f, 0, SEEK_END) == 0 && (b.n = (size_t)ftell(f)) > 0 &&
        (b.at = malloc(b.n))) {
        rewind(f);
        CHECK(fread(b.at, 1, b.n, f) == b.n);
    }
    if (f)
        fclose(f);
    if (!b.at)
        exit(1);
    return b;
}

/* A file in memory, for tests that open it thousands of times; opened by the path in `path`. */
typedef struct Scratch {
    int fd;
    char path[64];
} Scratch;

static Scratch scratch_file(void)
{
    Scratch s = {.fd = memfd_create("model.so", MFD_CLOEXEC)};
    snprintf(s.path, sizeof s.path, "/proc/self/fd/%d", s.fd);
    CHECK(s.fd >= 0);
    return s;
}

static void rewrite(const Scratch *s, const Bytes *b, size_t n)
{
    CHECK(ftruncate(s->fd, 0) == 0 && pwrite(s->fd, b->at, n, 0) == (ssize_t)n);
}

/* Whatever byte is another one, and wherever the file ends too early or goes on. */
static void test_every_byte(void)
{
    Bytes b = read_file(model_path);
    const Scratch file = scratch_file();
    hftac_array *a;
    for (size_t at = 0; at < b.n; at++) {
        b.at[at] ^= (unsigned char)(1u << at % 8);
        rewrite(&file, &b, b.n);
        CHECK(hftac_open(file.path, NULL, &a) == HFTAC_MODEL && !a);
        b.at[at] ^= (unsigned char)(1u << at % 8);
    }
    for (size_t n = 1; n < b.n; n += 1 + n / 16) {
        rewrite(&file, &b, n);
        CHECK(hftac_open(file.path, NULL, &a) == HFTAC_MODEL && !a);
    }
    b.at = realloc(b.at, b.n + 1);
    b.at[b.n] = 0;
    rewrite(&file, &b, b.n + 1);
    FAILS(hftac_open(file.path, NULL, &a), HFTAC_MODEL, "hash");
    close(file.fd);
    free(b.at);
}

/* Where the child is in its work, for the parent that finds it dead. */
typedef struct Progress {
    size_t at;
    uint64_t word;
    int refused;
} Progress;

static void open_with_word(Bytes *b, const Bytes *good, const Scratch *file, Progress *p)
{
    hftac_array *a;
    memcpy(b->at, good->at, b->n);
    memcpy(b->at + p->at, &p->word, sizeof p->word);
    if (!restamp(b->at, b->n))
        return;
    rewrite(file, b, b->n);
    p->refused += hftac_open(file->path, &(hftac_options){.threads = 1}, &a) != HFTAC_OK;
    hftac_close(a);
}

static void open_with_words(const Bytes *good, Progress *p)
{
    static const uint64_t words[] = {0, 1, 7, 0x1000, INT64_MAX, UINT64_MAX};
    const Scratch file = scratch_file();
    Bytes b = {malloc(good->n), good->n};
    for (p->at = 0; b.at && p->at + 8 <= b.n; p->at += 8) {
        uint64_t old;
        memcpy(&old, good->at + p->at, sizeof old);
        if (old == 0 && p->at % 64)
            continue;
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
            p->word = words[k];
            open_with_word(&b, good, &file, p);
        }
    }
    free(b.at);
}

/* The checks behind the hash: every word of the headers, of the note, of the dynamic section, of
 * the relocations and of the descriptor wrong in turn, with the hash that belongs to it.  Nothing
 * may crash.  In a child, so that a crash is a failed check and not the end of the test. */
static void test_structures(void)
{
    const Bytes good = read_file(model_path);
    Progress *p =
        mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    const pid_t child = fork();
    if (child == 0) {
        open_with_words(&good, p);
        _exit(0);
    }
    int result = 0;
    const bool survived = child > 0 && waitpid(child, &result, 0) == child && WIFEXITED(result);
    if (!survived)
        fprintf(stderr, "word at %zu = %#llx: crash\n", p->at, (unsigned long long)p->word);
    CHECK(survived && p->refused > 100);
    munmap(p, sizeof *p);
    free(good.at);
}

/* ---- other versions ---- */

/* The descriptor in the bytes of a file. */
static unsigned char *descriptor_in(const Bytes *b)
{
    static const char magic[8] = HFTAC_ABI_MAGIC;
    for (size_t at = 0; at + sizeof(HftacModel) <= b->n; at += 8)
        if (!memcmp(b->at + at, magic, sizeof magic))
            return b->at + at;
    exit(1);
}

static void open_changed(const Bytes *b, const char *refusal)
{
    const Scratch file = scratch_file();
    hftac_array *a = NULL;
    CHECK(restamp(b->at, b->n));
    rewrite(&file, b, b->n);
    if (refusal)
        FAILS(hftac_open(file.path, NULL, &a), HFTAC_MODEL, refusal);
    else
        OK(hftac_open(file.path, NULL, &a));
    CHECK(!a == (refusal != NULL));
    hftac_close(a);
    close(file.fd);
}

/* The tag of the fake's last but one section, which no reader knows. */
static void set_later_tag(unsigned char *descriptor, uint32_t tag)
{
    HftacModel head;
    HftacSection s;
    memcpy(&head, descriptor, sizeof head);
    unsigned char *at = descriptor + sizeof head + (head.n_sections - 2) * sizeof s;
    memcpy(&s, at, sizeof s);
    CHECK(s.tag >= HFTAC_N_SECTIONS);
    s.tag = tag;
    memcpy(at, &s, sizeof s);
}

/* Sections that a reader does not know are skipped, whatever is in them, but for those that say
 * that they are needed; a later minor version opens, another major one does not. */
static void test_versions(void)
{
    const uint32_t skipped[] = {HFTAC_SECTION_HYPER_CHECKS, HFTAC_SECTION_DIRECTIONS,
                                HFTAC_SECTION_GPU_CODE, ~HFTAC_SECTION_NEEDED};
    const uint32_t needed[] = {HFTAC_SECTION_SHARED_STATES, HFTAC_SECTION_NEEDED, UINT32_MAX};
    const Bytes b = read_file(model_path);
    unsigned char *descriptor = descriptor_in(&b);
    for (size_t i = 0; i < sizeof skipped / sizeof skipped[0]; i++) {
        set_later_tag(descriptor, skipped[i]);
        open_changed(&b, NULL);
    }
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        set_later_tag(descriptor, needed[i]);
        open_changed(&b, "newer libhftac");
        set_later_tag(descriptor, HFTAC_N_SECTIONS);
    }
    HftacModel head;
    memcpy(&head, descriptor, sizeof head);
    head.abi_minor++;
    memcpy(descriptor, &head, sizeof head);
    open_changed(&b, NULL);
    head.abi_major++;
    memcpy(descriptor, &head, sizeof head);
    open_changed(&b, "another version");
    free(b.at);
}

/* A file that takes the place of an open one is another program, and the open one stays. */
static void test_replaced_file(const char *other)
{
    const char *path = in_folder("model.so");
    Bytes first = read_file(model_path), second = read_file(other);
    hftac_array *a = NULL, *b = NULL;
    write_bytes(path, first.at, first.n);
    OK(hftac_open(path, NULL, &a));
    write_bytes(path, second.at, second.n); /* over the same inode: worse than a rename */
    OK(hftac_open(path, NULL, &b));
    CHECK(a && b && strcmp(hftac_describe(a)->name, "Fake") == 0 &&
          strcmp(hftac_describe(b)->name, "Other") == 0);
    CHECK(truncate(path, 0) == 0);
    if (a && b) {
        feed_fake(a);
        feed_fake(b);
        OK(hftac_train_step(a));
        OK(hftac_train_step(b));
    }
    hftac_close(a);
    hftac_close(b);
    free(first.at);
    free(second.at);
}

/* A path is a path: nothing in it is expanded. */
static void test_odd_names(void)
{
    static const char *const names[] = {"$LIB.so", "$ORIGIN", "${PLATFORM}", "a b;c.so", "-x"};
    const Bytes b = read_file(model_path);
    char here[512];
    CHECK(getcwd(here, sizeof here) && chdir(folder) == 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hftac_array *a = NULL;
        write_bytes(names[i], b.at, b.n);
        OK(hftac_open(names[i], NULL, &a));
        hftac_close(a);
    }
    CHECK(chdir(here) == 0);
    free(b.at);
}

/* What gdb reads: its manual, "JIT Compilation Interface". */
typedef struct GdbEntry GdbEntry;
struct GdbEntry {
    GdbEntry *next, *prev;
    const char *file;
    uint64_t bytes;
};
extern struct {
    uint32_t version, action;
    GdbEntry *relevant, *first;
} __jit_debug_descriptor;

/* Addresses and names of the functions go to perf's file, and to gdb as an ELF file. */
static void test_symbols(void)
{
    const char *path = in_folder("perf.map");
    hftac_array *a = open_fake(1);
    OK(hftac_write_map(a, path));
    Bytes text = read_file(path);
    unsigned long long address = 0;
    unsigned size = 0;
    text.at[text.n - 1] = 0;
    const char *line = strstr((const char *)text.at, " train_models");
    while (line && line > (const char *)text.at && line[-1] != '\n')
        line--;
    CHECK(line && sscanf(line, "%llx %x", &address, &size) == 2 && size > 16);
    FAILS(hftac_write_map(a, folder), HFTAC_FILE, "directory");
    const GdbEntry *e = __jit_debug_descriptor.first;
    CHECK(__jit_debug_descriptor.version == 1 && e && e == __jit_debug_descriptor.relevant &&
          memcmp(e->file, ELFMAG, SELFMAG) == 0 && memmem(e->file, e->bytes, &address, 8));
    hftac_close(a);
    CHECK(!__jit_debug_descriptor.first && __jit_debug_descriptor.action == 2);
    free(text.at);
}

/* Libraries that are made otherwise, and what is said of them. */
static void test_other_files(char **others)
{
    hftac_array *a;
    for (; others[0] && others[1]; others += 2) {
        if (strcmp(others[1], "opens") != 0)
            FAILS(hftac_open(others[0], NULL, &a), HFTAC_MODEL, others[1]);
        else {
            OK(hftac_open(others[0], NULL, &a));
            feed_fake(a);
            OK(hftac_train_step(a));
            hftac_close(a);
        }
    }
}

void test_loader(const char *other, char **others)
{
    test_every_byte();
    test_structures();
    test_versions();
    test_replaced_file(other);
    test_odd_names();
    test_symbols();
    test_other_files(others);
}
