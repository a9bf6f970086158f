/* What a terminal may be sent: every character and every byte, and that the library's errors, the
 * compiler's messages and the programs' own escape the same ones in the same way. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ir/support/plain.h"
#include "runtime/error.h"
#include "runtime/plain.h"
#include "tools/program.h"

static int failures;

static void check(bool ok, const char *what, uint32_t code)
{
    if (ok)
        return;
    failures++;
    printf("FAILED: %s: U+%04X\n", what, code);
}

/* The characters that command a terminal or a reader, by their names in Unicode. */
static bool commands(uint32_t code)
{
    enum {
        TAB = 0x09,
        SPACE = 0x20,
        DELETE = 0x7f,
        NO_BREAK_SPACE = 0xa0, /* the first after the C1 controls */
        ARABIC_LETTER_MARK = 0x61c,
        LEFT_TO_RIGHT_MARK = 0x200e,
        RIGHT_TO_LEFT_MARK = 0x200f,
        LEFT_TO_RIGHT_EMBEDDING = 0x202a, /* RLE, PDF, LRO, RLO follow */
        RIGHT_TO_LEFT_OVERRIDE = 0x202e,
        LEFT_TO_RIGHT_ISOLATE = 0x2066, /* RLI, FSI, PDI follow */
        POP_DIRECTIONAL_ISOLATE = 0x2069
    };
    return (code < SPACE && code != TAB) || (code >= DELETE && code < NO_BREAK_SPACE) ||
           code == ARABIC_LETTER_MARK || code == LEFT_TO_RIGHT_MARK ||
           code == RIGHT_TO_LEFT_MARK ||
           (code >= LEFT_TO_RIGHT_EMBEDDING && code <= RIGHT_TO_LEFT_OVERRIDE) ||
           (code >= LEFT_TO_RIGHT_ISOLATE && code <= POP_DIRECTIONAL_ISOLATE);
}

static size_t encode(uint32_t code, char s[5])
{
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    memset(s, 0, 5);
    for (int i = n - 1; i > 0; i--, code >>= 6)
        s[i] = (char)(0x80 | (code & 0x3f));
    s[0] = (char)(lead[n] | code);
    return (size_t)n;
}

/* What `text` becomes in each of the three places; the programs keep a newline. */
static void check_users(const char *text, const char *want, uint32_t code)
{
    char *printed;
    size_t n;
    hft_fail(HFTAC_DATA, "%s", text);
    check(strcmp(hftac_last_error(), want) == 0, "the library's error", code);
    FILE *f = open_memstream(&printed, &n);
    plain_print(f, text, strlen(text), NULL);
    fputc('\n', f);
    print_escaped(text, f);
    fclose(f);
    char both[256];
    snprintf(both, sizeof both, "%s\n%s", want, code == '\n' ? text : want);
    check(strcmp(printed, both) == 0, "the compiler's and the programs' messages", code);
    free(printed);
}

static void test_characters(void)
{
    int refused = 0;
    for (uint32_t code = 1; code <= 0x10ffff; code++) {
        char s[5], text[16], want[64], escaped[20] = "";
        if (code >= 0xd800 && code <= 0xdfff)
            continue; /* surrogates are no characters */
        const size_t n = encode(code, s);
        const PlainPiece piece = hft_plain_piece(s, n);
        check(piece.bytes == n && piece.plain == !commands(code), "plain", code);
        for (size_t i = 0; i < n; i++)
            snprintf(escaped + 4 * i, 5, "\\x%02x", (unsigned char)s[i]);
        check(strcmp(piece.shown, piece.plain ? s : escaped) == 0, "shown", code);
        refused += !piece.plain;
        if (piece.plain && code % 997 != 0)
            continue;
        snprintf(text, sizeof text, "a%sb", s);
        snprintf(want, sizeof want, "a%sb", piece.shown);
        check_users(text, want, code);
    }
    check(refused == 75, "how many are refused", (uint32_t)refused);
}

static void test_bytes(void)
{
    static const char *const no_characters[] = {
        "\x80",         "\x9b",         "\xbf",     "\xc0\x80",         "\xc3",
        "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf5\x80", "\xf4\x90\x80\x80", "\xff",
        "\xe2\x80",     "\xf0\x9f\x98", "\xc2\x41", "\xf0\x8f\xbf\xbf", "\xfe"};
    for (size_t i = 0; i < sizeof no_characters / sizeof *no_characters; i++) {
        const char *s = no_characters[i];
        const PlainPiece piece = hft_plain_piece(s, strlen(s));
        char want[20];
        snprintf(want, sizeof want, "\\x%02x", (unsigned char)*s);
        check(piece.bytes == 1 && !piece.plain && strcmp(piece.shown, want) == 0, "no UTF-8",
              (unsigned char)*s);
    }
    check_users("\x9b"
                "2J\xff\xe2\x80",
                "\\x9b2J\\xff\\xe2\\x80", 0);
    check(hft_plain_piece("\xe2\x80\xae", 2).bytes == 1, "a character that is cut off", 0x202e);
}

static void test_cut(void)
{
    check(plain_cut("abc", 3, 2) == 2, "a cut", 2);
    check(plain_cut("a\xc3\xa9z", 4, 2) == 1, "no half character", 1);
    check(plain_cut("a\xc3\xa9z", 4, 3) == 3, "a whole character", 3);
    check(plain_cut("\x80\x80\x80", 3, 2) == 2, "bytes that are no characters", 2);
    char *printed;
    size_t n;
    FILE *f = open_memstream(&printed, &n);
    plain_print(f, "a\x1b\xe2\x80\xae\x80\tb", 8, "?");
    fclose(f);
    check(strcmp(printed, "a???\tb") == 0, "one column each", 0);
    free(printed);
}

int main(void)
{
    test_characters();
    test_bytes();
    test_cut();
    if (!failures)
        printf("plain: passed\n");
    return failures != 0;
}
