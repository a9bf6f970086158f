/* Text from outside - names in files, arguments, source lines - as a terminal may see it: no byte
 * of it moves the cursor, changes colours or turns the direction of writing.  What that means is
 * said here alone, for the library, the compiler (ir/support) and both programs.
 *
 * "a\x1b[2Jb" comes in the pieces "a", "\x1b" - shown as the four characters \x1b -, "[", "2", ...
 *
 * This file needs nothing else of the library, so that the compiler can have it too. */
#ifndef HFTAC_RUNTIME_PLAIN_H
#define HFTAC_RUNTIME_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

/* A character, or what is shown in its place. */
typedef struct PlainPiece {
    size_t bytes;   /* that it takes of the text; not 0 */
    bool plain;     /* it is shown as it is */
    char shown[20]; /* the character, or \x and two digits for each of its bytes */
} PlainPiece;

/* The piece that the `left` bytes at `text` begin with (left > 0).  Not plain are: control
 * characters (below U+0020 but tab, U+007F .. U+009F), the marks that turn the direction of
 * writing, and bytes that are no UTF-8. */
PlainPiece hft_plain_piece(const char *text, size_t left);

/* Bytes of the well-formed UTF-8 character that the `left` bytes at `text` begin with (left > 0);
 * 0: they begin with none. */
int hft_utf8_length(const char *text, size_t left);

#endif
