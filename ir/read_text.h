/* The cursor of the .hir reader: words, numbers, strings, punctuation, line ends.
 *
 * Every reader_* that returns false has reported the mistake at its place (accept and peek only
 * look). Blanks before a token are skipped; line ends are tokens. */
#ifndef HFTAC_IR_READ_TEXT_H
#define HFTAC_IR_READ_TEXT_H

#include "ir/support/diag.h"
#include "ir/support/text.h"

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    int file;
    const char *text;
    size_t len, pos;
    size_t token; /* where the last token began, for messages */
    bool failed;
} Reader;

bool reader_fail(Reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool reader_peek(Reader *r, char c);
bool reader_peek_digit(Reader *r);
/* Steps over this punctuation, or over this whole word. */
bool reader_accept(Reader *r, const char *punctuation);
bool reader_accept_word(Reader *r, const char *word);
bool reader_expect(Reader *r, const char *what);
/* A name: letters, digits, _ . $ */
bool reader_word(Reader *r, const char *what, const char **out);
bool reader_int(Reader *r, int64_t *out);
bool reader_real(Reader *r, double *out);
bool reader_string(Reader *r, const char **out);
/* The text of an attribute's value: "...", [...] or up to the next blank. */
bool reader_value(Reader *r, const char **out);
/* At least one line end (or the end of the text), and empty lines after it. */
bool reader_line_end(Reader *r);
bool reader_at_line_end(Reader *r);
bool reader_at_end(Reader *r);
/* The line that the cursor is in, without indentation. */
SrcRange reader_line_range(const Reader *r);

#endif
