/* The text is not NUL terminated and may hold any bytes: every look at it is bounded by len. */
#include "ir/read_text.h"

#include <stdlib.h>
#include <string.h>

#include "ir/names.h"

enum {
    LONGEST_NUMBER = 63
};

static char at(const Reader *r, size_t pos)
{
    return pos < r->len ? r->text[pos] : '\0';
}

static bool is_line_end(const Reader *r, size_t pos)
{
    return pos >= r->len || r->text[pos] == '\n';
}

bool reader_fail(Reader *r, const char *fmt, ...)
{
    if (r->failed)
        return false;
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(r->arena, fmt, ap);
    va_end(ap);
    const size_t end = r->pos > r->token ? r->pos : r->token + 1;
    diag_error(r->diag, (SrcRange){r->file, (uint32_t)r->token, (uint32_t)end}, "%s", s);
    r->failed = true;
    return false;
}

static void skip_blanks(Reader *r)
{
    while (at(r, r->pos) == ' ' || at(r, r->pos) == '\t' || at(r, r->pos) == '\r')
        r->pos++;
    r->token = r->pos;
}

bool reader_peek(Reader *r, char c)
{
    skip_blanks(r);
    return r->pos < r->len && r->text[r->pos] == c;
}

bool reader_peek_digit(Reader *r)
{
    skip_blanks(r);
    return at(r, r->pos) >= '0' && at(r, r->pos) <= '9';
}

bool reader_accept(Reader *r, const char *punctuation)
{
    const size_t n = strlen(punctuation);
    skip_blanks(r);
    if (r->len - r->pos < n || memcmp(r->text + r->pos, punctuation, n) != 0)
        return false;
    r->pos += n;
    return true;
}

bool reader_accept_word(Reader *r, const char *word)
{
    const size_t n = strlen(word);
    skip_blanks(r);
    if (r->len - r->pos < n || memcmp(r->text + r->pos, word, n) != 0 ||
        name_char(at(r, r->pos + n)))
        return false;
    r->pos += n;
    return true;
}

bool reader_expect(Reader *r, const char *what)
{
    const bool ok = name_char(what[0]) && what[0] != '.' ? reader_accept_word(r, what)
                                                         : reader_accept(r, what);
    return ok || reader_fail(r, "expected '%s'", what);
}

bool reader_word(Reader *r, const char *what, const char **out)
{
    skip_blanks(r);
    while (r->pos < r->len && name_char(r->text[r->pos]))
        r->pos++;
    if (r->pos == r->token)
        return reader_fail(r, "expected %s", what);
    *out = arena_intern(r->arena, r->text + r->token, r->pos - r->token);
    return true;
}

bool reader_int(Reader *r, int64_t *out)
{
    skip_blanks(r);
    const bool minus = at(r, r->pos) == '-';
    uint64_t v = 0;
    r->pos += minus;
    const size_t first = r->pos;
    for (; at(r, r->pos) >= '0' && at(r, r->pos) <= '9'; r->pos++) {
        const uint64_t digit = (uint64_t)(at(r, r->pos) - '0');
        if (v > ((uint64_t)INT64_MAX + minus - digit) / 10)
            return reader_fail(r, "the number is too large");
        v = v * 10 + digit;
    }
    if (r->pos == first)
        return reader_fail(r, "expected an integer");
    *out = (int64_t)(minus ? 0 - v : v);
    return true;
}

/* A '.' belongs to the number only if no second one follows: "0 .. 1", "0..1". */
static bool real_char(const Reader *r, size_t pos)
{
    const char c = at(r, pos);
    if (c == '.')
        return at(r, pos + 1) != '.' && (pos == 0 || at(r, pos - 1) != '.');
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || (c >= 'a' && c <= 'z');
}

bool reader_real(Reader *r, double *out)
{
    char s[LONGEST_NUMBER + 1], *end;
    size_t n = 0;
    skip_blanks(r);
    while (n < LONGEST_NUMBER && real_char(r, r->pos))
        s[n++] = at(r, r->pos++);
    s[n] = '\0';
    *out = strtod(s, &end);
    return (n > 0 && *end == '\0') || reader_fail(r, "expected a number");
}

bool reader_string(Reader *r, const char **out)
{
    skip_blanks(r);
    if (at(r, r->pos) != '"')
        return reader_fail(r, "expected a name in double quotes");
    Text s;
    text_init(&s, r->arena);
    for (r->pos++; !is_line_end(r, r->pos) && r->text[r->pos] != '"'; r->pos++) {
        char c = r->text[r->pos];
        if (c == '\\' && !is_line_end(r, r->pos + 1)) {
            c = r->text[++r->pos];
            c = c == 'n' ? '\n' : c;
        }
        if (c == '\0')
            return reader_fail(r, "a string may not hold a NUL byte");
        text_addn(&s, &c, 1);
    }
    if (is_line_end(r, r->pos))
        return reader_fail(r, "the string does not end");
    r->pos++;
    *out = arena_intern(r->arena, s.s, s.len);
    return true;
}

/* The end of a value that starts at `from`; len if it does not end on its line. */
static size_t value_end(const Reader *r, size_t from)
{
    size_t p = from;
    const char first = at(r, p), close = first == '[' ? ']' : '"';
    if (first != '[' && first != '"') {
        while (!is_line_end(r, p) && r->text[p] != ' ')
            p++;
        return p;
    }
    for (p++; !is_line_end(r, p); p++) {
        if (first == '"' && r->text[p] == '\\')
            p++;
        else if (r->text[p] == close)
            return p + 1;
        else if (first == '[' && (r->text[p] == ':' || r->text[p] == '['))
            break;
    }
    return r->len + 1;
}

bool reader_value(Reader *r, const char **out)
{
    skip_blanks(r);
    const size_t end = value_end(r, r->pos);
    if (end > r->len)
        return reader_fail(r, "the value does not end");
    if (end == r->pos)
        return reader_fail(r, "expected a value");
    if (memchr(r->text + r->pos, '\0', end - r->pos))
        return reader_fail(r, "a value may not hold a NUL byte");
    *out = arena_strndup(r->arena, r->text + r->pos, end - r->pos);
    r->pos = end;
    return true;
}

bool reader_at_line_end(Reader *r)
{
    skip_blanks(r);
    return is_line_end(r, r->pos);
}

bool reader_at_end(Reader *r)
{
    skip_blanks(r);
    return r->pos >= r->len;
}

bool reader_line_end(Reader *r)
{
    if (!reader_at_line_end(r))
        return reader_fail(r, "expected the end of the line");
    while (!reader_at_end(r) && reader_at_line_end(r))
        r->pos++;
    return true;
}

SrcRange reader_line_range(const Reader *r)
{
    size_t lo = r->pos, hi = r->pos;
    while (lo > 0 && r->text[lo - 1] != '\n')
        lo--;
    while (lo < r->len && (r->text[lo] == ' ' || r->text[lo] == '\t'))
        lo++;
    while (!is_line_end(r, hi))
        hi++;
    return (SrcRange){r->file, (uint32_t)lo, (uint32_t)hi};
}
