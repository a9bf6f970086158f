/* Between hdl_print.c (declarations, statements) and hdl_print_expr.c (expressions). */
#ifndef HFTAC_FRONTEND_SYNTAX_HDL_PRINT_H
#define HFTAC_FRONTEND_SYNTAX_HDL_PRINT_H

#include "frontend/frontend.h"

/* Precedences, weakest first; what an operand needs to go without parentheses. */
typedef enum Level {
    LEVEL_RANGE,
    LEVEL_COND,
    LEVEL_PIPE,
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_ADD,
    LEVEL_MUL,
    LEVEL_UNARY,
    LEVEL_POWER,
    LEVEL_POSTFIX
} Level;

typedef struct Printer {
    Text *out;
    const Module *m; /* NULL: no types are filled in */
    int depth;
    bool in_model;
} Printer;

/* t with parentheses if it binds weaker than `need`. */
void print_expr(Printer *p, const Ast *t, Level need);
/* The kids from `from` on, with commas. */
void print_exprs(Printer *p, const Ast *t, int from, Level need);
/* Two kids with a sign between them. */
void print_two(Printer *p, const Ast *t, Level left, const char *sign, Level right);

#endif
