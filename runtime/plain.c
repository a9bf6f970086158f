/* Which characters a terminal may be sent: those of well-formed UTF-8 but for a few ranges. */
#include "runtime/plain.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int hft_utf8_length(const char *text, size_t left)
{
    const unsigned char *s = (const unsigned char *)text;
    const int n = s[0] < 0x80                    ? 1
                  : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
                  : (s[0] & 0xf0) == 0xe0        ? 3
                  : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                 : 0;
    if ((size_t)n > left)
        return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if (n < 3)
        return n;
    /* Overlong forms, surrogates, beyond U+10FFFF. */
    const bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
                     (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : n;
}

/* The number of a well-formed character of n bytes: of the first byte, 7, 5, 4 or 3 bits count. */
static uint32_t code_point(const unsigned char *s, int n)
{
    uint32_t code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++)
        code = code << 6 | (s[i] & 0x3fu);
    return code;
}

static bool is_command(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } commands[] = {
        {0x0000, 0x0008}, {0x000a, 0x001f}, {0x007f, 0x009f}, /* all controls but tab */
        {0x061c, 0x061c}, {0x200e, 0x200f}, {0x202a, 0x202e}, {0x2066, 0x2069}, /* directions */
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (code >= commands[i].first && code <= commands[i].last)
            return true;
    return false;
}

PlainPiece hft_plain_piece(const char *text, size_t left)
{
    const unsigned char *s = (const unsigned char *)text;
    const int n = hft_utf8_length(text, left);
    PlainPiece piece = {.bytes = n ? (size_t)n : 1};
    piece.plain = n && !is_command(code_point(s, n));
    if (piece.plain)
        memcpy(piece.shown, text, piece.bytes);
    for (size_t i = 0; i < piece.bytes && !piece.plain; i++)
        snprintf(piece.shown + 4 * i, sizeof "\\x1b", "\\x%02x", s[i]);
    return piece;
}
