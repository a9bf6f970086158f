/* Sets of small numbers - nodes, groups - as ascending lists: what a group reads and is read by
 * are a few of very many, so that bits for all of them would make planning quadratic in memory
 * alone. */
#ifndef HFTAC_IR_SUPPORT_IDSET_H
#define HFTAC_IR_SUPPORT_IDSET_H

#include "ir/support/arena.h"

#include <stdbool.h>

/* Zero-initialised: empty.  v[0 .. n) ascends. */
typedef struct IdSet {
    int *v;
    int n, cap;
} IdSet;

bool idset_has(const IdSet *s, int id);
/* Position of the first member that is at least id; n if there is none. */
int idset_from(const IdSet *s, int id);
void idset_add(Arena *a, IdSet *s, int id);
void idset_remove(IdSet *s, int id);
/* Adds the members of `other`, which may lose its own list. */
void idset_take(Arena *a, IdSet *s, IdSet *other);
/* Puts the members, added with idset_push in any order and perhaps twice, in order. */
void idset_push(Arena *a, IdSet *s, int id);
void idset_sort(IdSet *s);

#endif
