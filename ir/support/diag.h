/* What the compiler tells its user: errors, warnings and notes that point into the source.
 *
 *     file:line:col: error: text
 *         6 |     x = matmul(h, w2)
 *           |         ^~~~~~~~~~~~~
 *
 * Errors do not stop a phase: report, go on, and stop at the end of the phase if diag_errors() > 0.
 * At 20 errors diag_full() turns true and the rest is dropped with one closing line. */
#ifndef HFTAC_IR_SUPPORT_DIAG_H
#define HFTAC_IR_SUPPORT_DIAG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ir/support/arena.h"

/* Bytes [lo, hi) of source file `file` (0-based number from diag_add_source).  file < 0: no
 * place. */
typedef struct SrcRange {
    int32_t file;
    uint32_t lo, hi;
} SrcRange;

#define SRC_NONE ((SrcRange){-1, 0, 0})

typedef struct Diag Diag;

typedef struct DiagOptions {
    FILE *out;        /* NULL: stderr */
    bool color;       /* escape codes */
    bool werror;      /* warnings count as errors */
    bool no_warnings; /* -w */
} DiagOptions;

Diag *diag_new(Arena *a, const DiagOptions *options);
/* Takes a copy of nothing: path and text must outlive the Diag (they are in the arena).
 * `library` marks a file of the standard library: errors inside it are shown at the user's call,
 * with a note inside. */
int diag_add_source(Diag *d, const char *path, const char *text, size_t len, bool library);
bool diag_is_library(const Diag *d, int file);
const char *diag_path(const Diag *d, int file);
const char *diag_source(const Diag *d, int file, size_t *len);
/* 1-based line and column of a range's start. */
void diag_line_col(const Diag *d, SrcRange at, unsigned *line, unsigned *col);

void diag_error(Diag *d, SrcRange at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void diag_warn(Diag *d, SrcRange at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Belongs to the error or warning before it, and is dropped with it. */
void diag_note(Diag *d, SrcRange at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int diag_errors(const Diag *d);
bool diag_full(const Diag *d);

/* Until diag_unhush with what it returned, reports are counted but not shown; then the count is
 * as before. */
int diag_hush(Diag *d);
void diag_unhush(Diag *d, int before);

/* The stack of calls being expanded.  While it is not empty, an error whose place is in the
 * standard library is reported at the innermost user place on the stack, followed by a note at
 * the place itself. */
void diag_push_call(Diag *d, SrcRange call, const char *callee);
void diag_pop_call(Diag *d);
/* `at`, or the innermost user place on the stack if `at` is in the library. */
SrcRange diag_user_place(const Diag *d, SrcRange at);

/* "did you mean": the candidate closest to `word` (edit distance at most a third of its length),
 * or NULL. */
const char *diag_closest(const char *word, const char *const *candidates, int n);

/* Our mistake, not the user's: prints the text (and `dump` if not NULL) with a sentence how to
 * report it and ends the program with exit code 70. */
_Noreturn void diag_internal(const char *dump, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
