/* Parsing: the token filter between the lexer and the grammar.
 *
 * The filter knows where a statement ends (a newline after a token that can end one, outside
 * brackets, unless the next line begins with |>) and which words are keywords: reserved ones
 * always, statement words only at a statement's start and not before  = , : [ .  - so that a
 * layer may be called `output`.
 *
 * Nothing is trusted: brackets nest at most PARSE_MAX_OPEN deep, trees AST_MAX_HEIGHT, text is
 * UTF-8. */
#include "frontend/syntax/parse.h"

#include <string.h>

#include "hdl_parser.h"

int hdlyylex(HDLYYSTYPE *value, SrcRange *loc, Parser *p);

/* ---- words ---- */

typedef enum WordUse {
    WORD_RESERVED, /* everywhere */
    WORD_START,    /* where a statement begins */
    WORD_MIDDLE    /* elsewhere; the grammar lets it be a name */
} WordUse;

typedef struct Word {
    const char *text;
    int kind;
    WordUse use;
} Word;

static const Word words[] = {
    {"if", IF, WORD_RESERVED},
    {"else", ELSE, WORD_RESERVED},
    {"in", IN, WORD_RESERVED},
    {"return", RETURN, WORD_RESERVED},
    {"and", AND, WORD_RESERVED},
    {"or", OR, WORD_RESERVED},
    {"not", NOT, WORD_RESERVED},
    {"true", TRUE_, WORD_RESERVED},
    {"false", FALSE_, WORD_RESERVED},
    {"none", NONE, WORD_RESERVED},
    {"self", SELF, WORD_RESERVED},
    {"_", WILD, WORD_RESERVED},
    {"hdl", HDL, WORD_START},
    {"const", CONST, WORD_START},
    {"arch", ARCH, WORD_START},
    {"hyper", HYPER, WORD_START},
    {"fn", FN, WORD_START},
    {"block", BLOCK, WORD_START},
    {"model", MODEL, WORD_START},
    {"train", TRAIN, WORD_START},
    {"include", INCLUDE, WORD_START},
    {"input", INPUT, WORD_START},
    {"target", TARGET, WORD_START},
    {"loss", LOSS, WORD_START},
    {"metric", METRIC, WORD_START},
    {"output", OUTPUT, WORD_START},
    {"state", STATE, WORD_START},
    {"repeat", REPEAT, WORD_START},
    {"batch", BATCH, WORD_START},
    {"epochs", EPOCHS, WORD_START},
    {"optimizer", OPTIMIZER, WORD_START},
    {"schedule", SCHEDULE, WORD_START},
    {"clip", CLIP, WORD_START},
    {"accumulate", ACCUMULATE, WORD_START},
    {"freeze", FREEZE, WORD_START},
    {"no_decay", NO_DECAY, WORD_START},
    {"update", UPDATE, WORD_START},
    {"init", INIT, WORD_START},
    {"on", ON, WORD_MIDDLE},
    {"each", EACH, WORD_MIDDLE},
    {"minimize", MINIMIZE, WORD_MIDDLE},
    {"with", WITH, WORD_MIDDLE},
    {"then", THEN, WORD_MIDDLE},
    {"per", PER, WORD_MIDDLE},
    {"step", STEP, WORD_MIDDLE},
    {"schedule", OWN_SCHEDULE, WORD_MIDDLE},
    {"clip", OWN_CLIP, WORD_MIDDLE},
};

static const Token *peek(Parser *p)
{
    if (!p->have_ahead) {
        Token *t = &p->ahead;
        p->raw_newline = false;
        t->kind = p->stop || diag_full(p->d) ? 0 : hdlraw_next(p);
        t->loc = (SrcRange){p->file, t->kind ? p->raw_lo : p->raw_hi, p->raw_hi};
        t->newline = p->raw_newline;
        t->value = p->raw_value;
        t->integer = p->raw_integer;
        const char *text = p->src + t->loc.lo;
        if (t->kind == NAME)
            t->name = arena_intern(p->a, text, t->loc.hi - t->loc.lo);
        else if (t->kind == STR)
            t->name = arena_intern(p->a, text + 1, t->loc.hi - t->loc.lo - 2);
        p->have_ahead = true;
    }
    return &p->ahead;
}

/* Whether the token after a statement word shows that the word is a name here. */
static bool makes_name(const Token *next)
{
    return next->kind == ASSIGN || next->kind == COMMA || next->kind == COLON ||
           next->kind == LBRACKET || next->kind == DOT || next->kind == BECOMES;
}

static int classify_word(Parser *p, const Token *t)
{
    const int start = p->at_start;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const Word *w = &words[i];
        if (strcmp(w->text, t->name) != 0)
            continue;
        if (w->use == WORD_RESERVED || (w->use == WORD_MIDDLE && !start))
            return w->kind;
        if (w->use == WORD_START && start)
            return makes_name(peek(p)) ? NAME : w->kind;
    }
    return NAME;
}

/* ---- brackets ---- */

static char closing(int kind)
{
    return kind == RPAREN ? '(' : kind == RBRACKET ? '[' : '{';
}

static bool in_brackets(const Parser *p)
{
    return p->n_open > 0 && p->open[p->n_open - 1].kind != '{';
}

static void drop_to_body(Parser *p)
{
    while (in_brackets(p))
        p->n_open--;
}

static bool open_bracket(Parser *p, const Token *t)
{
    if (p->n_open == PARSE_MAX_OPEN) {
        diag_error(p->d, t->loc, "more than %d brackets are open here", PARSE_MAX_OPEN);
        p->stop = true;
        return false;
    }
    const char kind = t->kind == LPAREN     ? '('
                      : t->kind == LBRACKET ? '['
                      : p->last == IN       ? 'S'
                                            : '{';
    if (kind == '{') {
        p->recovering = false;
        if (in_brackets(p))
            p->unclosed = p->open[p->n_open - 1].loc;
        drop_to_body(p);
    }
    p->open[p->n_open++] = (Bracket){kind, t->loc};
    return true;
}

static void close_bracket(Parser *p, const Token *t)
{
    if (p->n_open == 0)
        return;
    const Bracket *top = &p->open[p->n_open - 1];
    const char want = closing(t->kind);
    if (top->kind == want || (want == '{' && top->kind == 'S')) {
        p->n_open--;
        return;
    }
    if (top->kind != '{')
        p->unclosed = top->loc;
    if (want == '{') {
        drop_to_body(p);
        if (p->n_open > 0)
            p->n_open--;
    }
}

void parse_error_notes(Parser *p, bool broken)
{
    SrcRange at = p->unclosed;
    if (at.file < 0 && broken && p->n_open > 0 && (in_brackets(p) || p->last == 0))
        at = p->open[p->n_open - 1].loc;
    if (at.file >= 0)
        diag_note(p->d, at, "'%c' is not closed", p->src[at.lo]);
    p->unclosed = SRC_NONE;
    drop_to_body(p);
    p->recovering = true;
}

/* ---- the filter ---- */

static bool can_end(int kind)
{
    switch (kind) {
    case 0:
    case NL:
    case LPAREN:
    case LBRACKET:
    case LBRACE:
    case COMMA:
    case COLON:
    case ASSIGN:
    case PLUS:
    case MINUS:
    case STAR:
    case SLASH:
    case PERCENT:
    case AT:
    case LT:
    case GT:
    case DOT:
    case PIPE:
    case ARROW:
    case DOTS:
    case POW:
    case FDIV:
    case EQ:
    case NE:
    case LE:
    case GE:
    case BECOMES:
    case IF:
    case ELSE:
    case IN:
    case AND:
    case OR:
    case NOT:
        return false;
    default:
        return true;
    }
}

static int give(Parser *p, int kind, SrcRange loc)
{
    if (kind == NL)
        p->recovering = false;
    p->last = kind;
    p->last_loc = loc;
    return kind;
}

static bool newline_ends(const Parser *p, const Token *t)
{
    if (p->last == 0 || p->last == NL || !(t->newline || t->kind == 0))
        return false;
    if (p->recovering)
        return true;
    return can_end(p->last) && (t->kind == 0 || (!in_brackets(p) && t->kind != PIPE));
}

int hdlyylex(HDLYYSTYPE *value, SrcRange *loc, Parser *p)
{
    const Token t = *peek(p);
    if (newline_ends(p, &t)) {
        *loc = (SrcRange){p->file, p->last_loc.hi, p->last_loc.hi};
        p->at_start = true;
        p->last_newline = false;
        return give(p, NL, *loc);
    }
    p->have_ahead = false;
    *loc = t.loc;
    p->last_newline = t.newline;
    int kind = t.kind;
    if (kind == NAME)
        kind = classify_word(p, &t);
    if (kind == NUM) {
        value->n.v = t.value;
        value->n.integer = t.integer;
    } else {
        value->s = t.name;
    }
    p->at_start = kind == NL;
    if (kind == LPAREN || kind == LBRACKET || kind == LBRACE) {
        if (!open_bracket(p, &t))
            return give(p, HDLYYerror, *loc);
        p->at_start = kind == LBRACE && !in_brackets(p);
    } else if (kind == RPAREN || kind == RBRACKET || kind == RBRACE) {
        close_bracket(p, &t);
        p->at_start = kind == RBRACE && !in_brackets(p);
    }
    return give(p, kind, *loc);
}

/* ---- the whole ---- */

/* Length of the UTF-8 sequence at s, 0 if it is none. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    static const struct {
        unsigned char mask, lead;
        unsigned least;
    } form[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 1; n <= 4; n++) {
        if ((s[0] & form[n - 1].mask) != form[n - 1].lead)
            continue;
        if (n > left)
            return 0;
        unsigned c = s[0] & (unsigned char)~form[n - 1].mask;
        for (size_t i = 1; i < n; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            c = c << 6 | (s[i] & 0x3f);
        }
        return c >= form[n - 1].least && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? n : 0;
    }
    return 0;
}

static bool check_text(Parser *p, size_t len)
{
    const unsigned char *s = (const unsigned char *)p->src;
    for (size_t i = 0; i < len;) {
        const SrcRange at = {p->file, (uint32_t)i, (uint32_t)i + 1};
        const size_t n = utf8_length(s + i, len - i);
        if (s[i] == 0 || n == 0) {
            diag_error(p->d, at,
                       s[i] == 0 ? "a NUL byte; is this a text file?" : "not valid UTF-8");
            return false;
        }
        i += n;
    }
    return true;
}

Ast *hdl_parse(Arena *a, Diag *d, int file)
{
    size_t len;
    const char *src = diag_source(d, file, &len);
    const int errors = diag_errors(d);
    Parser *p = arena_alloc(a, sizeof *p);
    *p = (Parser){.a = a, .d = d, .file = file, .src = src, .at_start = true};
    p->last_loc = p->unclosed = SRC_NONE;
    if (len > INT32_MAX / 2) {
        diag_error(d, (SrcRange){file, 0, 0}, "the file is larger than 1 GiB");
        return NULL;
    }
    if (!check_text(p, len))
        return NULL;
    hdlraw_open(p, src, len);
    const bool parsed = hdlyyparse(p) == 0 && p->root;
    hdlraw_close(p);
    if (!parsed || p->stop)
        return NULL;
    p->root->name = diag_path(d, file);
    parse_check_places(p);
    return diag_errors(d) == errors ? p->root : NULL;
}
