/* What hdl_print.c (declarations and statements) and hdl_print_expr.c (expressions) share. */
#ifndef HFTAC_FRONTEND_SYNTAX_HDL_PRINT_H
#define HFTAC_FRONTEND_SYNTAX_HDL_PRINT_H

#include "frontend/frontend.h"

/* Precedences, weakest first; what an operand needs to go without parentheses. */
typedef enum Precedence {
    PREC_RANGE,
    PREC_COND,
    PREC_PIPE,
    PREC_OR,
    PREC_AND,
    PREC_NOT,
    PREC_COMPARE,
    PREC_ADD,
    PREC_MUL,
    PREC_UNARY,
    PREC_POWER,
    PREC_POSTFIX
} Precedence;

typedef struct Printer {
    Text *out;
    const Module *m; /* NULL: no types are filled in */
    int depth;
    bool in_model;
} Printer;

/* t with parentheses if it binds weaker than `need`. */
void print_expr(Printer *p, const Ast *t, Precedence need);
/* The kids from `from` on, with commas. */
void print_exprs(Printer *p, const Ast *t, int from, Precedence need);
/* Two kids with a sign between them. */
void print_two(Printer *p, const Ast *t, Precedence left, const char *sign, Precedence right);

#endif
