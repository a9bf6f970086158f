/* The functions behind the rows of builtins.def, and what they use of each other. */
#ifndef HFTAC_FRONTEND_BUILTINS_BUILTINS_H
#define HFTAC_FRONTEND_BUILTINS_BUILTINS_H

#include "frontend/elaborate/elab.h"

#define BUILTIN(name, params, handler, op) Value builtin_##handler(const Call *c);
#include "frontend/builtins/builtins.def"

/* builtin_rearrange.c: a permutation and a sum. */
Value einsum_of_one(const Call *c, const char *spec);

#endif
