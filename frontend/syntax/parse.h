/* What the grammar, the lexer and parse.c share; nobody else includes this.
 *
 * Three layers: lexer.l cuts the text into raw tokens; hdlyylex() in parse.c turns them into the
 * grammar's tokens (which newline ends a statement, which word is a keyword here); grammar.y
 * builds the tree. */
#ifndef HFTAC_FRONTEND_SYNTAX_PARSE_H
#define HFTAC_FRONTEND_SYNTAX_PARSE_H

#include "frontend/syntax/ast.h"

enum {
    PARSE_MAX_OPEN = 256
}; /* brackets open at once */

typedef struct Token {
    int kind;
    SrcRange loc;
    bool newline; /* the first on its line */
    const char *name;
    double value;
    bool integer;
} Token;

typedef struct Bracket {
    char kind; /* '(', '[', '{' of a body, 'S' for the { of a set */
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
    uint32_t raw_lo, raw_hi; /* of the raw token */
    bool raw_newline;        /* a newline was skipped before it */
    double raw_value;
    bool raw_integer;

    Token ahead; /* read but not given to the grammar */
    bool have_ahead;
    int last; /* kind given last; 0 at the start */
    SrcRange last_loc;
    bool last_newline;
    bool at_start;   /* a statement may begin here */
    bool recovering; /* after a syntax error: every newline ends the statement */
    bool stop;       /* give up: the rest reads as the end of the file */
    Bracket open[PARSE_MAX_OPEN];
    int n_open;
    SrcRange unclosed; /* a bracket that the last token left open */
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
