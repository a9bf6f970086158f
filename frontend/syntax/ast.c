/* The names of the kinds of tree nodes, and the dump of a tree for --emit=ast. */
#include "frontend/syntax/ast.h"

const char *ast_kind_text(AstKind k)
{
    static const char *const text[] = {
#define X(NAME) #NAME,
        AST_KINDS(X)
#undef X
    };
    return text[k];
}

static void print(Text *out, const Ast *t, int depth)
{
    text_printf(out, "%*s", 2 * depth, "");
    if (!t) {
        text_add(out, "-\n");
        return;
    }
    text_add(out, ast_kind_text(t->kind));
    if (t->name && t->kind != AST_FILE)
        text_printf(out, " \"%s\"", t->name);
    if (t->kind == AST_NUMBER) {
        text_add(out, " ");
        text_real(out, t->value);
    }
    if (t->flag)
        text_add(out, t->kind == AST_NUMBER     ? " integer"
                      : t->kind == AST_TYPE     ? " leading"
                      : t->kind == AST_SCHEDULE ? " per_step"
                                                : " each");
    text_add(out, "\n");
    for (int i = 0; i < t->n; i++)
        print(out, t->kid[i], depth + 1);
}

void ast_print(Text *out, const Ast *t)
{
    print(out, t, 0);
}
