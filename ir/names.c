/* An open-addressing table by text.  Every entry also knows the last suffix that was given out
 * for it, so that a thousand nodes with one hint do not search a thousand times. */
#include "ir/names.h"

#include <string.h>

typedef struct Entry {
    const char *name; /* NULL: free */
    uint64_t hash;
    int last_suffix;
    Node *owner;
} Entry;

struct NameTable {
    Arena *arena;
    Entry *entries;
    size_t n, cap; /* cap is a power of two */
};

enum {
    FIRST_CAPACITY = 256
};

bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '.' || c == '$';
}

static uint64_t hash_text(const char *s)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    return h ^ h >> 31;
}

NameTable *names_new(Arena *a)
{
    NameTable *t = arena_alloc(a, sizeof *t);
    *t = (NameTable){.arena = a, .cap = FIRST_CAPACITY};
    t->entries = arena_array(a, t->cap, sizeof *t->entries);
    return t;
}

static Entry *slot_of(const NameTable *t, const char *name, uint64_t hash)
{
    size_t i = (size_t)hash & (t->cap - 1);
    while (t->entries[i].name &&
           (t->entries[i].hash != hash || strcmp(t->entries[i].name, name) != 0))
        i = (i + 1) & (t->cap - 1);
    return &t->entries[i];
}

static void grow(NameTable *t)
{
    const Entry *old = t->entries;
    const size_t n = t->cap;
    t->cap *= 2;
    t->entries = arena_array(t->arena, t->cap, sizeof *t->entries);
    for (size_t i = 0; i < n; i++)
        if (old[i].name)
            *slot_of(t, old[i].name, old[i].hash) = old[i];
}

static const char *clean(Arena *a, const char *name)
{
    char *s = arena_strdup(a, *name ? name : "_");
    for (char *c = s; *c; c++)
        if (!name_char(*c))
            *c = '_';
    return s;
}

static const char *claim(NameTable *t, Entry *e, const char *name, uint64_t hash, Node *owner)
{
    *e = (Entry){.name = name, .hash = hash, .owner = owner};
    t->n++;
    return name;
}

const char *names_take(NameTable *t, const char *name, Node *owner)
{
    if (t->n * 2 >= t->cap)
        grow(t);
    const char *base = clean(t->arena, name);
    const uint64_t hash = hash_text(base);
    Entry *e = slot_of(t, base, hash);
    if (!e->name)
        return claim(t, e, base, hash, owner);
    for (;;) {
        const char *next = arena_printf(t->arena, "%s.%d", base, ++e->last_suffix);
        const uint64_t next_hash = hash_text(next);
        Entry *f = slot_of(t, next, next_hash);
        if (!f->name)
            return claim(t, f, next, next_hash, owner);
    }
}

Node *names_owner(const NameTable *t, const char *name)
{
    return slot_of(t, name, hash_text(name))->owner;
}
