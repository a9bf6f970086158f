/* Prints expressions as .hdl text, with the fewest parentheses that keep the tree; for
 * hdl_print.c.
 *
 * An operand gets parentheses if its operator binds weaker than its place asks for: the 1 + 2 of
 * (1 + 2) * 3 is printed where PREC_MUL is needed, and + has only PREC_ADD. */
#include "frontend/syntax/hdl_print.h"

#include <string.h>

enum {
    WIDTH = 96
};

static void add(Printer *p, const char *s)
{
    text_add(p->out, s);
}

void print_exprs(Printer *p, const Ast *t, int from, Precedence need)
{
    for (int i = from; i < t->n; i++) {
        add(p, i > from ? ", " : "");
        print_expr(p, t->kid[i], need);
    }
}

static Precedence binary_precedence(const char *op)
{
    static const struct {
        const char *op;
        Precedence precedence;
    } table[] = {{"or", PREC_OR},      {"and", PREC_AND},    {"==", PREC_COMPARE},
                 {"!=", PREC_COMPARE}, {"<", PREC_COMPARE},  {"<=", PREC_COMPARE},
                 {">", PREC_COMPARE},  {">=", PREC_COMPARE}, {"+", PREC_ADD},
                 {"-", PREC_ADD},      {"**", PREC_POWER}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(op, table[i].op))
            return table[i].precedence;
    return PREC_MUL;
}

static Precedence precedence_of(const Ast *t)
{
    if (t->kind == AST_RANGE)
        return PREC_RANGE;
    if (t->kind == AST_COND)
        return PREC_COND;
    if (t->kind == AST_PIPE)
        return PREC_PIPE;
    if (t->kind == AST_UNARY)
        return t->name[0] == '-' ? PREC_UNARY : PREC_NOT;
    return t->kind == AST_BINARY ? binary_precedence(t->name) : PREC_POSTFIX;
}

static void binary(Printer *p, const Ast *t)
{
    const Precedence precedence = binary_precedence(t->name);
    Precedence left = precedence, right = (Precedence)(precedence + 1);
    if (precedence == PREC_COMPARE)
        left = right;
    if (precedence == PREC_POWER) {
        left = PREC_POSTFIX;
        right = PREC_UNARY;
    }
    print_expr(p, t->kid[0], left);
    text_printf(p->out, " %s ", t->name);
    print_expr(p, t->kid[1], right);
}

static void number(Printer *p, const Ast *t)
{
    const size_t before = p->out->len;
    if (t->flag) {
        text_printf(p->out, "%.0f", t->value);
        return;
    }
    text_real(p->out, t->value);
    if (!strpbrk(p->out->s + before, ".e"))
        add(p, ".0");
}

/* Lists of lists that would leave the line are printed one element a line. */
static void list(Printer *p, const Ast *t)
{
    const size_t before = p->out->len;
    add(p, "[");
    print_exprs(p, t, 0, PREC_RANGE);
    add(p, "]");
    if (p->out->len - before < WIDTH - 16 || t->n == 0 || t->kid[0]->kind != AST_LIST)
        return;
    p->out->len = before;
    add(p, "[");
    for (int i = 0; i < t->n; i++) {
        text_printf(p->out, "\n%*s", 2 * p->depth + 2, "");
        print_expr(p, t->kid[i], PREC_RANGE);
        add(p, ",");
    }
    text_printf(p->out, "\n%*s]", 2 * p->depth, "");
}

static void slice(Printer *p, const Ast *t)
{
    if (t->kid[0])
        print_expr(p, t->kid[0], PREC_COND);
    add(p, ":");
    if (t->kid[1])
        print_expr(p, t->kid[1], PREC_COND);
}

static void applied(Printer *p, const Ast *t, char open, char close)
{
    print_expr(p, t->kid[0], PREC_POSTFIX);
    text_printf(p->out, "%c", open);
    print_exprs(p, t, 1, PREC_RANGE);
    text_printf(p->out, "%c", close);
}

static void cond(Printer *p, const Ast *t)
{
    print_expr(p, t->kid[0], PREC_PIPE);
    add(p, " if ");
    print_expr(p, t->kid[1], PREC_PIPE);
    add(p, " else ");
    print_expr(p, t->kid[2], PREC_COND);
}

void print_two(Printer *p, const Ast *t, Precedence left, const char *sign, Precedence right)
{
    print_expr(p, t->kid[0], left);
    add(p, sign);
    print_expr(p, t->kid[1], right);
}

static void string(Printer *p, const Ast *t)
{
    text_printf(p->out, "\"%s\"", t->name);
}

static void range(Printer *p, const Ast *t)
{
    print_two(p, t, PREC_COND, " .. ", PREC_COND);
}

static void pipe(Printer *p, const Ast *t)
{
    print_two(p, t, PREC_PIPE, " |> ", PREC_POSTFIX);
}

static void call(Printer *p, const Ast *t)
{
    applied(p, t, '(', ')');
}

static void indexed(Printer *p, const Ast *t)
{
    applied(p, t, '[', ']');
}

static void argument(Printer *p, const Ast *t)
{
    text_printf(p->out, "%s = ", t->name);
    print_expr(p, t->kid[0], PREC_COND);
}

static void member(Printer *p, const Ast *t)
{
    print_expr(p, t->kid[0], PREC_POSTFIX);
    text_printf(p->out, ".%s", t->name);
}

static void unary(Printer *p, const Ast *t)
{
    add(p, t->name[0] == '-' ? "-" : "not ");
    print_expr(p, t->kid[0], precedence_of(t));
}

/* Expressions that are one word, and those with a form of their own; what is neither is a name. */
static const char *const words[AST_KIND_COUNT] = {
    [AST_TRUE] = "true", [AST_FALSE] = "false", [AST_NONE] = "none",
    [AST_SELF] = "self", [AST_WILD] = "_",      [AST_DOTS] = "...",
};
static void (*const forms[AST_KIND_COUNT])(Printer *p, const Ast *t) = {
    [AST_NUMBER] = number, [AST_STRING] = string, [AST_LIST] = list,     [AST_RANGE] = range,
    [AST_CALL] = call,     [AST_ARG] = argument,  [AST_INDEX] = indexed, [AST_SLICE] = slice,
    [AST_MEMBER] = member, [AST_UNARY] = unary,   [AST_BINARY] = binary, [AST_PIPE] = pipe,
    [AST_COND] = cond,
};

static void bare(Printer *p, const Ast *t)
{
    if (forms[t->kind])
        forms[t->kind](p, t);
    else if (words[t->kind])
        add(p, words[t->kind]);
    else
        add(p, t->name ? t->name : "");
}

void print_expr(Printer *p, const Ast *t, Precedence need)
{
    const bool parens = precedence_of(t) < need;
    add(p, parens ? "(" : "");
    bare(p, t);
    add(p, parens ? ")" : "");
}
