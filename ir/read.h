/* Reads what module_print writes; mistakes are reported with their place in the .hir text. */
#ifndef HFTAC_IR_READ_H
#define HFTAC_IR_READ_H

#include "ir/graph.h"

/* NULL after reporting.  `file` is the number of the text in the Diag. */
Module *module_read(Arena *a, Diag *d, int file);

#endif
