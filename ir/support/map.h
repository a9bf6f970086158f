/* A hash table from texts, or from addresses, to numbers >= 0: positions in a list that somebody
 * else keeps.  The list may be cut and grown again: then what the map says is checked there
 * before it is believed. */
#ifndef HFTAC_IR_SUPPORT_MAP_H
#define HFTAC_IR_SUPPORT_MAP_H

#include "ir/support/arena.h"

typedef struct Map Map;

/* Lives in the arena.  Texts are kept, not copied. */
Map *map_of_texts(Arena *a);
Map *map_of_addresses(Arena *a);
/* -1: the key is new. */
int map_get(const Map *m, const void *key);
void map_set(Map *m, const void *key, int value);

#endif
