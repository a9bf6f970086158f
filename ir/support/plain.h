/* Text from outside - source lines, names, messages that quote them - as a terminal may see it:
 * no byte of it moves the cursor, changes colours or turns the direction of writing. */
#ifndef HFTAC_IR_SUPPORT_PLAIN_H
#define HFTAC_IR_SUPPORT_PLAIN_H

#include <stddef.h>
#include <stdio.h>

/* Prints s; control characters (C0 but tab, DEL, C1, the marks that turn the direction) as \x1b,
 * or, `instead` not NULL, each as that. */
void plain_print(FILE *out, const char *s, size_t n, const char *instead);
/* The longest beginning of s, of at most `most` bytes, that ends between characters. */
size_t plain_cut(const char *s, size_t n, size_t most);

#endif
