/* Reporting.  A report is one heading line and, if its place is known, the source line and a
 * caret under the range.  Notes follow the report before them, and are dropped with it.
 *
 * Of errors at the same place with the same text only the first is shown: the program is
 * elaborated once per entry point, and would say the same thing again. */
#include "ir/support/diag.h"

#include <stdlib.h>
#include <string.h>

#include "ir/support/plain.h"

/* Of a line, a path and a message only so much is shown; LINE_BEFORE: of a long line in front of
 * the place. */
enum {
    LINE_SHOWN = 240,
    LINE_BEFORE = 60,
    PATH_SHOWN = 1000,
    MESSAGE_SHOWN = 2000
};
enum {
    MAX_ERRORS = 20,
    EXIT_INTERNAL = 70
};

typedef struct Source {
    const char *path, *text;
    size_t len;
    bool library;
} Source;

typedef struct Call {
    SrcRange at;
    const char *callee;
} Call;

struct Diag {
    Arena *arena;
    DiagOptions options;
    FILE *out;
    Source *sources;
    int n_sources, cap_sources;
    Call *calls;
    int n_calls, cap_calls;
    const char **said; /* reports so far, interned */
    int n_said, cap_said;
    int errors;
    int hushed;   /* above 0: nothing is shown */
    bool dropped; /* the last report was not shown, nor are its notes */
    bool closed;  /* the line after the last error was printed */
};

Diag *diag_new(Arena *a, const DiagOptions *options)
{
    Diag *d = arena_alloc(a, sizeof *d);
    d->arena = a;
    if (options)
        d->options = *options;
    d->out = d->options.out ? d->options.out : stderr;
    return d;
}

int diag_add_source(Diag *d, const char *path, const char *text, size_t len, bool library)
{
    if (d->n_sources == d->cap_sources)
        d->sources = arena_grow(d->arena, d->sources, &d->cap_sources, sizeof *d->sources);
    d->sources[d->n_sources] =
        (Source){.path = path, .text = text, .len = len, .library = library};
    return d->n_sources++;
}

static const Source *source_of(const Diag *d, int file)
{
    return file >= 0 && file < d->n_sources ? &d->sources[file] : NULL;
}

bool diag_is_library(const Diag *d, int file)
{
    const Source *s = source_of(d, file);
    return s && s->library;
}

const char *diag_path(const Diag *d, int file)
{
    const Source *s = source_of(d, file);
    return s ? s->path : "?";
}

const char *diag_source(const Diag *d, int file, size_t *len)
{
    const Source *s = source_of(d, file);
    if (len)
        *len = s ? s->len : 0;
    return s ? s->text : "";
}

typedef struct SourceLine {
    const char *line;
    size_t line_len;
    unsigned line_no, col; /* from 1 */
} SourceLine;

static SourceLine line_of(const Source *s, uint32_t at)
{
    const size_t end = at < s->len ? at : s->len;
    SourceLine p = {.line = s->text, .line_no = 1};
    for (size_t i = 0; i < end; i++)
        if (s->text[i] == '\n') {
            p.line = s->text + i + 1;
            p.line_no++;
        }
    const size_t start = (size_t)(p.line - s->text);
    size_t stop = start;
    while (stop < s->len && s->text[stop] != '\n')
        stop++;
    if (stop > start && s->text[stop - 1] == '\r')
        stop--;
    p.line_len = stop - start;
    p.col = (unsigned)(end - start) + 1;
    return p;
}

void diag_line_col(const Diag *d, SrcRange at, unsigned *line, unsigned *col)
{
    const Source *s = source_of(d, at.file);
    const SourceLine p = s ? line_of(s, at.lo) : (SourceLine){.line_no = 0, .col = 0};
    *line = p.line_no;
    *col = p.col;
}

static void print_cut(FILE *out, const char *s, size_t most)
{
    const size_t n = strlen(s), shown = plain_cut(s, n, most);
    plain_print(out, s, shown, NULL);
    fputs(shown < n ? "..." : "", out);
}

/* The part of a long line round the place.  A control character takes one column, as the caret
 * counts it. */
static SourceLine print_line(FILE *out, const SourceLine *p)
{
    static const char dots[] = "...";
    SourceLine shown = *p;
    const size_t at = p->col - 1 < p->line_len ? p->col - 1 : p->line_len;
    size_t from = p->line_len > LINE_SHOWN && at > LINE_BEFORE ? at - LINE_BEFORE : 0;
    while (from > 0 && ((unsigned char)p->line[from] & 0xc0) == 0x80)
        from--;
    shown.line += from;
    shown.line_len = plain_cut(shown.line, p->line_len - from, LINE_SHOWN);
    shown.col -= (unsigned)from;
    fputs(from ? dots : "", out);
    plain_print(out, shown.line, shown.line_len, "?");
    fputs(from + shown.line_len < p->line_len ? dots : "", out);
    fprintf(out, "\n      | %s", from ? "   " : "");
    return shown;
}

/* Prints ^~~~ under the range.  Tabs are kept as tabs so that the caret lines up whatever the
 * terminal's tab width; a range that leaves the line is cut at the line's end.  A character takes
 * one column, whatever its bytes. */
static void print_caret(FILE *out, const SourceLine *p, size_t width)
{
    const size_t start = p->col - 1;
    size_t i = 0;
    while (i < start && i < p->line_len) {
        fputc(p->line[i] == '\t' ? '\t' : ' ', out);
        i += plain_column(p->line + i, p->line_len - i);
    }
    fprintf(out, "%*s^", i < start ? (int)(start - i) : 0, "");
    i += i < p->line_len ? plain_column(p->line + i, p->line_len - i) : 1;
    while (i < start + width && i < p->line_len) {
        fputc('~', out);
        i += plain_column(p->line + i, p->line_len - i);
    }
    fputc('\n', out);
}

static const char *level_color(const char *level)
{
    return level[0] == 'e' ? "\033[1;31m" : level[0] == 'w' ? "\033[1;35m" : "\033[1;36m";
}

static void print_report(const Diag *d, const char *level, SrcRange at, const char *text)
{
    const Source *s = source_of(d, at.file);
    const bool color = d->options.color;
    const SourceLine p = s ? line_of(s, at.lo) : (SourceLine){0};
    if (s) {
        fputs(color ? "\033[1m" : "", d->out);
        print_cut(d->out, s->path, PATH_SHOWN);
        fprintf(d->out, ":%u:%u:%s ", p.line_no, p.col, color ? "\033[0m" : "");
    } else {
        fputs("hftac: ", d->out);
    }
    fprintf(d->out, "%s%s:%s ", color ? level_color(level) : "", level, color ? "\033[0m" : "");
    print_cut(d->out, text, MESSAGE_SHOWN);
    fputc('\n', d->out);
    if (!s)
        return;
    fprintf(d->out, "%5u | ", p.line_no);
    const SourceLine shown = print_line(d->out, &p);
    if (color)
        fputs("\033[1;32m", d->out);
    print_caret(d->out, &shown, at.hi > at.lo ? at.hi - at.lo : 1);
    if (color)
        fputs("\033[0m", d->out);
}

static bool said_before(Diag *d, SrcRange at, const char *text)
{
    if (at.file < 0)
        return false;
    const char *key = arena_printf(d->arena, "%d:%u:%u:%s", at.file, at.lo, at.hi, text);
    for (int i = 0; i < d->n_said; i++)
        if (strcmp(d->said[i], key) == 0)
            return true;
    if (d->n_said == d->cap_said)
        d->said = arena_grow(d->arena, d->said, &d->cap_said, sizeof *d->said);
    d->said[d->n_said++] = key;
    return false;
}

/* The innermost place on the stack of calls that is the user's; NULL if there is none. */
static const Call *user_call(const Diag *d)
{
    for (int i = d->n_calls - 1; i >= 0; i--)
        if (d->calls[i].at.file >= 0 && !diag_is_library(d, d->calls[i].at.file))
            return &d->calls[i];
    return NULL;
}

SrcRange diag_user_place(const Diag *d, SrcRange at)
{
    const Call *call = at.file < 0 || diag_is_library(d, at.file) ? user_call(d) : NULL;
    return call ? call->at : at;
}

static void report(Diag *d, const char *level, SrcRange at, const char *text)
{
    if (d->hushed) {
        d->dropped = false;
        return;
    }
    const Call *call = diag_is_library(d, at.file) ? user_call(d) : NULL;
    const SrcRange shown = call ? call->at : at;
    d->dropped = diag_full(d) || said_before(d, shown, text);
    if (diag_full(d) && !d->closed) {
        fprintf(d->out, "hftac: too many errors, the rest is not shown\n");
        d->closed = true;
    }
    if (d->dropped)
        return;
    print_report(d, level, shown, text);
    if (call)
        print_report(d, "note", at, arena_printf(d->arena, "inside %s", call->callee));
}

void diag_error(Diag *d, SrcRange at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(d, "error", at, arena_vprintf(d->arena, fmt, ap));
    va_end(ap);
    if (!d->dropped)
        d->errors++;
}

void diag_warn(Diag *d, SrcRange at, const char *fmt, ...)
{
    if (d->options.no_warnings) {
        d->dropped = true;
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    report(d, d->options.werror ? "error" : "warning", at, arena_vprintf(d->arena, fmt, ap));
    va_end(ap);
    if (d->options.werror && !d->dropped)
        d->errors++;
}

void diag_note(Diag *d, SrcRange at, const char *fmt, ...)
{
    if (d->dropped || d->hushed)
        return;
    va_list ap;
    va_start(ap, fmt);
    print_report(d, "note", at, arena_vprintf(d->arena, fmt, ap));
    va_end(ap);
}

int diag_hush(Diag *d)
{
    d->hushed++;
    return d->errors;
}

void diag_unhush(Diag *d, int before)
{
    d->hushed--;
    d->errors = before;
}

int diag_errors(const Diag *d)
{
    return d->errors;
}

bool diag_full(const Diag *d)
{
    return d->errors >= MAX_ERRORS;
}

void diag_push_call(Diag *d, SrcRange call, const char *callee)
{
    if (d->n_calls == d->cap_calls)
        d->calls = arena_grow(d->arena, d->calls, &d->cap_calls, sizeof *d->calls);
    d->calls[d->n_calls++] = (Call){.at = call, .callee = callee};
}

void diag_pop_call(Diag *d)
{
    if (d->n_calls > 0)
        d->n_calls--;
}

/* Edit distance with swaps of neighbours counted as one; gives `limit` + 1 for anything above
 * limit. */
static size_t edit_distance(const char *a, const char *b, size_t limit)
{
    enum {
        LONGEST = 63
    };
    const size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST || (n > m ? n - m : m - n) > limit)
        return limit + 1;
    size_t row[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        const size_t *up = row[(i - 1) % 3], *up2 = row[(i + 1) % 3];
        size_t *now = row[i % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *diag_closest(const char *word, const char *const *candidates, int n)
{
    const size_t len = strlen(word);
    size_t best = (len + 2) / 3;
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        if (!candidates[i])
            continue;
        const size_t distance = edit_distance(word, candidates[i], best);
        if (distance < best || (distance == best && !found && distance <= len / 3)) {
            best = distance;
            found = candidates[i];
        }
    }
    return found;
}

void diag_internal(const char *dump, const char *fmt, ...)
{
    if (dump)
        fputs(dump, stderr);
    fputs("hftac: internal error: ", stderr);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("\nThis is a mistake of hftac, not of your program. Please report it with this "
          "output, the "
          ".hdl file\nand the command line.\n",
          stderr);
    exit(EXIT_INTERNAL);
}
