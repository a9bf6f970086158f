/* Names in use in one graph: makes new ones unique and finds nodes by name. */
#ifndef HFTAC_IR_NAMES_H
#define HFTAC_IR_NAMES_H

#include "ir/graph.h"

typedef struct NameTable NameTable;

NameTable *names_new(Arena *a);
/* The name itself if it is free, else name.1, name.2, ...; characters that a .hir name cannot
 * have become '_'. The result is taken by `owner` from now on. */
const char *names_take(NameTable *t, const char *name, Node *owner);
/* NULL if nobody has it. */
Node *names_owner(const NameTable *t, const char *name);
/* What a name in .hir text is made of. */
bool name_char(char c);

#endif
