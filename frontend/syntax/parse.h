/* What the grammar, the lexer and parse.c share; nobody else includes this.
 *
 * Three layers: lexer.l cuts the text into raw tokens; hdlyylex() in parse.c turns them into the
 * grammar's tokens (which newline ends a statement, which word is a keyword here); grammar.y
 * builds the tree. */
#ifndef HFTAC_FRONTEND_SYNTAX_PARSE_H
#define HFTAC_FRONTEND_SYNTAX_PARSE_H

#include "frontend/syntax/ast.h"

/* Brackets that may be open at once. */
enum {
    PARSE_MAX_OPEN = 256
};

typedef struct Token {
    int kind;
    SrcRange loc;
    /* It is the first token on its line. */
    bool newline;
    const char *name;
    double value;
    bool integer;
} Token;

/* A bracket that has been opened: '(', '[', '{' of a body, or 'S' for the { of a set. */
typedef struct Bracket {
    char kind;
    SrcRange loc;
} Bracket;

typedef struct AstList {
    Ast **v;
    int n, cap;
} AstList;

typedef struct Parser {
    Arena *a;
    Diag *d;
    int file;
    const char *src;
    Ast *root;

    void *scanner;
    /* The raw token that the lexer has read last: where it stands, whether a newline was skipped
     * before it, and what number it is. */
    uint32_t raw_lo, raw_hi;
    bool raw_newline;
    double raw_value;
    bool raw_integer;

    /* A token that has been read but not passed to the grammar yet. */
    Token ahead;
    bool have_ahead;
    /* The kind of the token passed last, 0 at the start; where it stood. */
    int last;
    SrcRange last_loc;
    bool last_newline;
    /* A statement may begin here. */
    bool at_start;
    /* After a syntax error: every newline ends the statement. */
    bool recovering;
    /* The parser has given up: the rest reads as the end of the file. */
    bool stop;
    Bracket open[PARSE_MAX_OPEN];
    int n_open;
    /* A bracket that the last token has left open. */
    SrcRange unclosed;
} Parser;

/* Of lexer.l: the next raw token's kind, 0 at the end. */
int hdlraw_next(Parser *p);
void hdlraw_open(Parser *p, const char *text, size_t len);
void hdlraw_close(Parser *p);

/* Tree building for the grammar. */
AstList *parse_list(Parser *p, Ast *first); /* first NULL: empty */
AstList *parse_list_add(Parser *p, AstList *l, Ast *t);
Ast *parse_node(Parser *p, AstKind k, SrcRange loc, int n, ...);
Ast *parse_named(Parser *p, AstKind k, SrcRange loc, const char *name, SrcRange name_loc, int n,
                 ...);
Ast *parse_node_list(Parser *p, AstKind k, SrcRange loc, const AstList *l);
Ast *parse_applied(Parser *p, AstKind k, SrcRange loc, Ast *base,
                   const AstList *l);                         /* CALL, INDEX */
Ast *parse_values(Parser *p, SrcRange loc, const AstList *l); /* one: itself; several: a LIST */
Ast *parse_type(Parser *p, SrcRange loc, const char *name, const AstList *dims);
Ast *parse_domain(Parser *p, SrcRange loc, const char *name, SrcRange name_loc, Ast *lo,
                  Ast *hi, const char *step_name, SrcRange step_loc, Ast *step);
Ast *parse_update(Parser *p, SrcRange loc, Ast *targets, Ast *loss, Ast *optimizer,
                  const AstList *more);
Ast *parse_repeat(Parser *p, SrcRange loc, const AstList *names, Ast *over, Ast *body);
void parse_version(Parser *p, SrcRange loc, double version);
/* Reports statements that stand in the wrong kind of body. */
void parse_check_places(Parser *p);
/* After a syntax error: notes on open brackets (if `broken`: the token shows that one is
 * missing), recovery. */
void parse_error_notes(Parser *p, bool broken);

#endif
