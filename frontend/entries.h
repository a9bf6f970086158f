/* What the driver of the frontend (elaborate.c) calls to build the entry points of a module
 * (entries.c). */
#ifndef HFTAC_FRONTEND_ENTRIES_H
#define HFTAC_FRONTEND_ENTRIES_H

#include "frontend/elaborate/elab.h"

/* Builds the graphs of all entry points that the program has; false after reporting. */
bool entries_build(Elab *e);

#endif
