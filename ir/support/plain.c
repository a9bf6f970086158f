/* UTF-8 by its bytes: what continues a character is 10xxxxxx. */
#include "ir/support/plain.h"

#include <stdbool.h>

static bool between(char c, int lo, int hi)
{
    return (unsigned char)c >= lo && (unsigned char)c <= hi;
}

/* How many bytes at s[0 .. n) are a control character (C0 but tab, DEL, C1, the marks that turn
 * the direction); 0: none is. */
static size_t plain_control(const char *s, size_t n)
{
    if (n == 0)
        return 0;
    if ((between(s[0], 0, 0x1f) && s[0] != '\t') || s[0] == 0x7f)
        return 1;
    if (n >= 2 && between(s[0], 0xc2, 0xc2) && between(s[1], 0x80, 0x9f))
        return 2;
    /* U+200E, U+200F, U+202A .. U+202E, U+2066 .. U+2069 */
    if (n >= 3 && between(s[0], 0xe2, 0xe2) &&
        ((between(s[1], 0x80, 0x80) &&
          (between(s[2], 0x8e, 0x8f) || between(s[2], 0xaa, 0xae))) ||
         (between(s[1], 0x81, 0x81) && between(s[2], 0xa6, 0xa9))))
        return 3;
    return 0;
}

void plain_print(FILE *out, const char *s, size_t n, const char *instead)
{
    for (size_t i = 0; i < n;) {
        const size_t control = plain_control(s + i, n - i);
        if (control == 0)
            fputc(s[i++], out);
        else if (instead)
            fputs(instead, out);
        for (size_t k = 0; k < control; k++, i++)
            if (!instead)
                fprintf(out, "\\x%02x", (unsigned)(unsigned char)s[i]);
    }
}

size_t plain_cut(const char *s, size_t n, size_t most)
{
    if (n <= most)
        return n;
    while (most > 0 && ((unsigned char)s[most] & 0xc0) == 0x80)
        most--;
    return most;
}
