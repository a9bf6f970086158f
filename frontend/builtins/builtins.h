/* The functions behind the rows of builtins.def, each declared by its row, and the few functions
 * that the files of this folder share. */
#ifndef HFTAC_FRONTEND_BUILTINS_BUILTINS_H
#define HFTAC_FRONTEND_BUILTINS_BUILTINS_H

#include "frontend/elaborate/elab.h"

#define BUILTIN(name, params, handler, op) Value builtin_##handler(const Call *c);
#include "frontend/builtins/builtins.def"

/* builtin_shape.c: the shape s with `mid` in place of its axes lo <= i < hi; false after a report
 * if that has too many axes. */
bool replace_axes(const Call *c, const Shape *s, int lo, int hi, const Shape *mid, Shape *out);
/* builtin_rearrange.c: einsum of one operand, which is a permutation and a sum. */
Value einsum_of_one(const Call *c, const char *spec);

#endif
