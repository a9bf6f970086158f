/* Nearness is the edit distance; what is further away than a third of the word and one is no
 * slip. */
#include "tools/nearest.h"

#include <string.h>

enum {
    WORD_BYTES = 64 /* longer words are no slip of any name */
};

static int least_of(int a, int b, int c)
{
    const int d = a < b ? a : b;
    return d < c ? d : c;
}

/* Insertions, deletions, replacements, and exchanges of two neighbours (optimal string alignment)
 * that lead from a to b; both are shorter than WORD_BYTES. */
static int edit_distance(const char *a, int n, const char *b, int m)
{
    int d[3][WORD_BYTES]; /* rows i - 2, i - 1, i */
    for (int j = 0; j <= m; j++)
        d[1][j] = d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        d[2][0] = i;
        for (int j = 1; j <= m; j++) {
            d[2][j] =
                least_of(d[1][j] + 1, d[2][j - 1] + 1, d[1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[0][j - 2] + 1 < d[2][j])
                d[2][j] = d[0][j - 2] + 1;
        }
        memcpy(d[0], d[1], sizeof d[0]);
        memcpy(d[1], d[2], sizeof d[1]);
    }
    return d[1][m];
}

Nearest nearest_to(const char *text, size_t length)
{
    return (Nearest){text, length, .distance = (int)length / 3 + 2, .best = -1};
}

void nearest_try(Nearest *n, const char *candidate, size_t length, int i)
{
    if (n->length >= WORD_BYTES || length >= WORD_BYTES)
        return;
    const int d = edit_distance(n->text, (int)n->length, candidate, (int)length);
    if (d >= n->distance)
        return;
    n->distance = d;
    n->best = i;
}
