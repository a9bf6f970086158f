/* Text from outside - source lines, names, messages that quote them - in the compiler's messages;
 * which characters a terminal may be sent, runtime/plain.h says. */
#ifndef HFTAC_IR_SUPPORT_PLAIN_H
#define HFTAC_IR_SUPPORT_PLAIN_H

#include <stddef.h>
#include <stdio.h>

#include "ir/support/text.h"

/* Prints s; what is not plain as \x1b, or, `instead` not NULL, each character of it as that. */
void plain_print(FILE *out, const char *s, size_t n, const char *instead);
/* Adds s, with what is not plain as \x1b. */
void plain_add(Text *out, const char *s);
/* Bytes of s, of n > 0, that plain_print with an `instead` of one column shows in one column. */
size_t plain_column(const char *s, size_t n);
/* The longest beginning of s, of at most `most` bytes, that ends between characters. */
size_t plain_cut(const char *s, size_t n, size_t most);

#endif
