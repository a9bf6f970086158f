/* What must hold after every pass: definition before use, types as the rules infer them, names
 * unique, outputs complete and of their kinds' types, models joined as operands say, no META
 * operator after autodiff.  A violation is our mistake: prints the graph and ends with exit code
 * 70. */
#ifndef HFTAC_IR_VERIFY_H
#define HFTAC_IR_VERIFY_H

#include "ir/graph.h"

void module_verify(const Module *m, const char *pass);
/* The first violation as a sentence in the arena, or NULL (for the reader and the tests). */
const char *module_check(const Module *m);
/* The same; *where: the node it is about, or NULL. */
const char *module_check_at(const Module *m, const Node **where);

#endif
