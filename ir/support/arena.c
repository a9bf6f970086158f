/* Bump allocation in chunks that double up to a limit; a big request gets a chunk of its own size.
 * Interned texts are in an open-addressing table that lives in the arena too.
 *
 * Invariant: bytes of a chunk behind `used` are zero, so that arena_alloc need not clear. */
#include "ir/support/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ALIGN = 16,
    FIRST_CHUNK = 64 << 10,
    LAST_CHUNK = 8 << 20,
    EXIT_MEMORY = 3
};

typedef struct Chunk {
    struct Chunk *before;
    size_t size, used; /* of the bytes behind this header */
} Chunk;

struct Arena {
    Chunk *chunk;
    size_t next_size, handed_out;
    const char **interned;
    size_t n_interned, cap_interned; /* capacity: 0 or a power of two */
};

static const size_t header_size = (sizeof(Chunk) + ALIGN - 1) / ALIGN * ALIGN;

_Noreturn void heap_exhausted(void)
{
    fputs("hftac: error: out of memory\n", stderr);
    _exit(EXIT_MEMORY); /* other threads may be at work: nothing is taken down under them */
}

void *heap_resize(void *old, size_t size)
{
    void *p = realloc(old, size ? size : 1);
    if (!p)
        heap_exhausted();
    return p;
}

Arena *arena_new(void)
{
    Arena *a = calloc(1, sizeof *a);
    if (!a)
        heap_exhausted();
    a->next_size = FIRST_CHUNK;
    return a;
}

void arena_free(Arena *a)
{
    if (!a)
        return;
    for (Chunk *c = a->chunk; c;) {
        Chunk *before = c->before;
        free(c);
        c = before;
    }
    free(a);
}

/* A chunk with room for `size` bytes.  A big request goes behind the current chunk, whose rest
 * stays in use. */
static Chunk *add_chunk(Arena *a, size_t size)
{
    const bool big = size > a->next_size / 2;
    const size_t room = big ? size : a->next_size;
    if (room > SIZE_MAX - header_size)
        heap_exhausted();
    Chunk *c = calloc(1, header_size + room);
    if (!c)
        heap_exhausted();
    c->size = room;
    if (big && a->chunk) {
        c->before = a->chunk->before;
        a->chunk->before = c;
    } else {
        c->before = a->chunk;
        a->chunk = c;
    }
    if (!big && a->next_size < LAST_CHUNK)
        a->next_size *= 2;
    return c;
}

void *arena_alloc(Arena *a, size_t size)
{
    if (size > SIZE_MAX - ALIGN)
        heap_exhausted();
    const size_t rounded = size ? (size + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    Chunk *c = a->chunk;
    if (!c || c->size - c->used < rounded)
        c = add_chunk(a, rounded);
    void *p = (char *)c + header_size + c->used;
    c->used += rounded;
    a->handed_out += rounded;
    return p;
}

void *arena_array(Arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        heap_exhausted();
    return arena_alloc(a, count * size);
}

void *arena_grow(Arena *a, void *old, int *cap, size_t size)
{
    if (*cap > INT32_MAX / 2)
        heap_exhausted();
    const int grown = *cap > 0 ? *cap * 2 : 8;
    void *p = arena_array(a, (size_t)grown, size);
    if (*cap > 0)
        memcpy(p, old, (size_t)*cap * size);
    *cap = grown;
    return p;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    if (n == SIZE_MAX)
        heap_exhausted();
    char *p = arena_alloc(a, n + 1);
    if (n)
        memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    /* Said aloud, so that gcc's sanitizer build does not warn of it. */
    if (!fmt)
        return arena_strdup(a, "");
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *p = arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
    if (n > 0)
        vsnprintf(p, (size_t)n + 1, fmt, ap);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

static size_t hash_bytes(const char *s, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * UINT64_C(1099511628211);
    return (size_t)(h ^ h >> 32);
}

/* Where the text is or would go. */
static size_t intern_slot(const Arena *a, const char *s, size_t n)
{
    size_t i = hash_bytes(s, n) & (a->cap_interned - 1);
    while (a->interned[i] && (strncmp(a->interned[i], s, n) != 0 || a->interned[i][n] != '\0'))
        i = (i + 1) & (a->cap_interned - 1);
    return i;
}

static void intern_grow(Arena *a)
{
    const char **old = a->interned;
    const size_t n = a->cap_interned;
    a->cap_interned = n ? n * 2 : 256;
    a->interned = arena_array(a, a->cap_interned, sizeof *a->interned);
    for (size_t i = 0; i < n; i++)
        if (old[i])
            a->interned[intern_slot(a, old[i], strlen(old[i]))] = old[i];
}

const char *arena_intern(Arena *a, const char *s, size_t n)
{
    if (a->n_interned * 2 >= a->cap_interned)
        intern_grow(a);
    const size_t i = intern_slot(a, s, n);
    if (!a->interned[i]) {
        a->interned[i] = arena_strndup(a, s, n);
        a->n_interned++;
    }
    return a->interned[i];
}

size_t arena_used(const Arena *a)
{
    return a->handed_out;
}
