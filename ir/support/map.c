/* Open addressing, half full at most. */
#include "ir/support/map.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct Entry {
    const void *key; /* NULL: free */
    uint64_t hash;
    int value;
} Entry;

struct Map {
    Arena *arena;
    bool texts;
    Entry *entries;
    size_t n, cap; /* cap: 0 or a power of two */
};

static Map *map_new(Arena *a, bool texts)
{
    Map *m = arena_alloc(a, sizeof *m);
    *m = (Map){.arena = a, .texts = texts};
    return m;
}

Map *map_of_texts(Arena *a)
{
    return map_new(a, true);
}

Map *map_of_addresses(Arena *a)
{
    return map_new(a, false);
}

static uint64_t hash_of(const Map *m, const void *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    if (m->texts) {
        h = UINT64_C(14695981039346656037);
        for (const char *s = key; *s; s++)
            h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
    }
    return h ^ h >> 31;
}

/* Where the key is or would go. */
static Entry *slot_of(const Map *m, const void *key, uint64_t hash)
{
    size_t i = (size_t)hash & (m->cap - 1);
    for (;; i = (i + 1) & (m->cap - 1)) {
        Entry *e = &m->entries[i];
        if (!e->key || e->key == key ||
            (m->texts && e->hash == hash && strcmp(e->key, key) == 0))
            return e;
    }
}

static void grow(Map *m)
{
    const Entry *old = m->entries;
    const size_t n = m->cap;
    m->cap = n ? 2 * n : 64;
    m->entries = arena_array(m->arena, m->cap, sizeof *m->entries);
    for (size_t i = 0; i < n; i++)
        if (old[i].key)
            *slot_of(m, old[i].key, old[i].hash) = old[i];
}

int map_get(const Map *m, const void *key)
{
    const Entry *e = m->cap ? slot_of(m, key, hash_of(m, key)) : NULL;
    return e && e->key ? e->value : -1;
}

void map_set(Map *m, const void *key, int value)
{
    if (2 * (m->n + 1) > m->cap)
        grow(m);
    const uint64_t hash = hash_of(m, key);
    Entry *e = slot_of(m, key, hash);
    m->n += e->key == NULL;
    *e = (Entry){.key = key, .hash = hash, .value = value};
}
