/* Printing by pieces. */
#include "ir/support/plain.h"

#include <string.h>

#include "runtime/plain.h"

void plain_print(FILE *out, const char *s, size_t n, const char *instead)
{
    for (size_t i = 0; i < n;) {
        const PlainPiece piece = hft_plain_piece(s + i, n - i);
        fputs(piece.plain || !instead ? piece.shown : instead, out);
        i += piece.bytes;
    }
}

void plain_add(Text *out, const char *s)
{
    for (size_t left = strlen(s); left;) {
        const PlainPiece piece = hft_plain_piece(s, left);
        text_add(out, piece.shown);
        s += piece.bytes;
        left -= piece.bytes;
    }
}

size_t plain_column(const char *s, size_t n)
{
    return hft_plain_piece(s, n).bytes;
}

size_t plain_cut(const char *s, size_t n, size_t most)
{
    size_t cut = 0;
    while (cut < n) {
        const size_t bytes = plain_column(s + cut, n - cut);
        if (cut + bytes > most)
            break;
        cut += bytes;
    }
    return cut;
}
