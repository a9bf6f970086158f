/* "did you mean": the candidate that a word is most likely a slip of. */
#ifndef HFTAC_TOOLS_NEAREST_H
#define HFTAC_TOOLS_NEAREST_H

#include <stddef.h>

/* nearest_to, then nearest_try with each candidate; `best` is then the i of the nearest, or -1. */
typedef struct Nearest {
    const char *text;
    size_t length;
    int distance, best;
} Nearest;

Nearest nearest_to(const char *text, size_t length);
void nearest_try(Nearest *n, const char *candidate, size_t length, int i);

#endif
