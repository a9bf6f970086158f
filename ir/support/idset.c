/* Ascending lists: found by halving, changed by moving what stands behind. */
#include "ir/support/idset.h"

#include <stdlib.h>
#include <string.h>

int idset_from(const IdSet *s, int id)
{
    int lo = 0, hi = s->n;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (s->v[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool idset_has(const IdSet *s, int id)
{
    const int at = idset_from(s, id);
    return at < s->n && s->v[at] == id;
}

void idset_push(Arena *a, IdSet *s, int id)
{
    if (s->n == s->cap)
        s->v = arena_grow(a, s->v, &s->cap, sizeof *s->v);
    s->v[s->n++] = id;
}

void idset_add(Arena *a, IdSet *s, int id)
{
    const int at = idset_from(s, id);
    if (at < s->n && s->v[at] == id)
        return;
    idset_push(a, s, id);
    memmove(s->v + at + 1, s->v + at, (size_t)(s->n - 1 - at) * sizeof *s->v);
    s->v[at] = id;
}

void idset_remove(IdSet *s, int id)
{
    const int at = idset_from(s, id);
    if (at == s->n || s->v[at] != id)
        return;
    s->n--;
    memmove(s->v + at, s->v + at + 1, (size_t)(s->n - at) * sizeof *s->v);
}

void idset_take(Arena *a, IdSet *s, IdSet *other)
{
    if (other->n > s->n) {
        const IdSet own = *s;
        *s = *other;
        *other = own;
    }
    for (int i = 0; i < other->n; i++)
        idset_add(a, s, other->v[i]);
}

static int ascending(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

void idset_sort(IdSet *s)
{
    if (s->n == 0)
        return;
    qsort(s->v, (size_t)s->n, sizeof *s->v, ascending);
    int n = 1;
    for (int i = 1; i < s->n; i++)
        if (s->v[i] != s->v[n - 1])
            s->v[n++] = s->v[i];
    s->n = n;
}
