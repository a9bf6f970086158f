/* Prints a syntax tree as .hdl text in canonical layout, for --emit=hdl.
 *
 * Each statement stands on a line of its own, two blanks per level, with no more parentheses
 * than the precedences ask for.  Parsing the text again gives an equal tree. */
#include "frontend/syntax/hdl_print.h"

#include <string.h>

static void add(Printer *p, const char *s)
{
    text_add(p->out, s);
}

/* ---- types and heads ---- */

static void type(Printer *p, const Ast *t)
{
    text_printf(p->out, "%s[%s", t->name ? t->name : "",
                !t->flag   ? ""
                : t->n > 0 ? "..., "
                           : "...");
    print_exprs(p, t, 0, PREC_COND);
    add(p, "]");
}

static void type_opt(Printer *p, const Ast *t, const char *sign)
{
    if (!t)
        return;
    add(p, sign);
    type(p, t);
}

static void value_opt(Printer *p, const Ast *t)
{
    if (!t)
        return;
    add(p, " = ");
    print_expr(p, t, PREC_COND);
}

static void params(Printer *p, const Ast *t)
{
    add(p, "(");
    for (int i = 0; i < t->n; i++) {
        text_printf(p->out, "%s%s", i > 0 ? ", " : "", t->kid[i]->name);
        type_opt(p, t->kid[i]->kid[0], ": ");
        value_opt(p, t->kid[i]->kid[1]);
    }
    add(p, ")");
}

static void domain(Printer *p, const Ast *t)
{
    if (!strcmp(t->name, "set")) {
        add(p, " in {");
        print_exprs(p, t, 0, PREC_COND);
        add(p, "}");
        return;
    }
    text_printf(p->out, " in %s(", t->name);
    print_two(p, t, PREC_COND, " .. ", PREC_COND);
    if (t->kid[2]) {
        add(p, ", step = ");
        print_expr(p, t->kid[2], PREC_COND);
    }
    add(p, ")");
}

/* ---- statements ---- */

static void body(Printer *p, const Ast *t);

/* A model-level name's type as elaborated.  Axes that come from the batch stay open, as their
 * extent is not the program's. */
static void filled_type(Printer *p, const Ast *target)
{
    const Type *t = target->type;
    if (!p->m || !p->in_model || !t || target->flag || target->kid[0] || target->kid[1] ||
        !strcmp(target->name, "_"))
        return;
    text_printf(p->out, " : %s[", dtype_text(t->dtype));
    for (int i = 0; i < t->shape.rank; i++) {
        add(p, i > 0 ? ", " : "");
        if (t->shape.batch[i])
            add(p, "_");
        else
            text_printf(p->out, "%lld", (long long)t->shape.dim[i]);
    }
    add(p, "]");
}

static void targets(Printer *p, const Ast *t)
{
    for (int i = 0; i < t->n; i++) {
        const Ast *target = t->kid[i];
        text_printf(p->out, "%s%s", i > 0 ? ", " : "", target->name);
        if (target->kid[1]) {
            add(p, "[");
            print_expr(p, target->kid[1], PREC_COND);
            add(p, "]");
        }
        type_opt(p, target->kid[0], " : ");
        filled_type(p, target);
    }
}

static void word_exprs(Printer *p, const char *word, const Ast *t)
{
    text_printf(p->out, "%s ", word);
    print_exprs(p, t, 0, PREC_COND);
}

static void input(Printer *p, const Ast *t)
{
    text_printf(p->out, "%s %s", t->kind == AST_INPUT ? "input" : "target", t->name);
    type_opt(p, t->kid[0], " : ");
    add(p, t->flag ? " each" : "");
    value_opt(p, t->kid[1]);
}

static void schedule(Printer *p, const Ast *t)
{
    add(p, "schedule ");
    for (int i = 0; i < t->n; i++) {
        add(p, i > 0 ? " then " : "");
        print_expr(p, t->kid[i], PREC_COND);
    }
    add(p, t->flag ? " per step" : "");
}

static void update(Printer *p, const Ast *t)
{
    word_exprs(p, "update", t->kid[0]);
    add(p, " minimize ");
    print_expr(p, t->kid[1], PREC_COND);
    add(p, " with ");
    print_expr(p, t->kid[2], PREC_COND);
    for (int i = 3; i < t->n; i++) {
        add(p, " ");
        if (t->kid[i]->kind == AST_SCHEDULE)
            schedule(p, t->kid[i]);
        else
            word_exprs(p, "clip", t->kid[i]);
    }
}

static void if_statement(Printer *p, const Ast *t)
{
    add(p, "if ");
    print_expr(p, t->kid[0], PREC_COND);
    add(p, " ");
    body(p, t->kid[1]);
    if (!t->kid[2])
        return;
    add(p, " else ");
    if (t->kid[2]->kind == AST_IF)
        if_statement(p, t->kid[2]);
    else
        body(p, t->kid[2]);
}

static void repeat(Printer *p, const Ast *t)
{
    add(p, "repeat ");
    print_exprs(p, t, 2, PREC_COND);
    add(p, " in ");
    print_expr(p, t->kid[0], PREC_RANGE);
    add(p, " ");
    body(p, t->kid[1]);
}

static void assignment(Printer *p, const Ast *t)
{
    targets(p, t->kid[0]);
    value_opt(p, t->kid[1]);
}

static void state(Printer *p, const Ast *t)
{
    text_printf(p->out, "state %s", t->name);
    type_opt(p, t->kid[0], " : ");
    value_opt(p, t->kid[1]);
}

static void next(Printer *p, const Ast *t)
{
    text_printf(p->out, "%s := ", t->name);
    print_expr(p, t->kid[0], PREC_COND);
}

static void init(Printer *p, const Ast *t)
{
    add(p, "init ");
    print_expr(p, t->kid[0], PREC_COND);
    add(p, " ");
    print_expr(p, t->kid[1], PREC_COND);
}

/* Statements `WORD expressions`, `WORD name = value`, and those with a form of their own. */
static const char *const with_exprs[AST_KIND_COUNT] = {
    [AST_LOSS] = "loss",     [AST_RETURN] = "return",         [AST_EPOCHS] = "epochs",
    [AST_CLIP] = "clip",     [AST_ACCUMULATE] = "accumulate", [AST_OPTIMIZER] = "optimizer",
    [AST_FREEZE] = "freeze", [AST_NO_DECAY] = "no_decay",
};
static const char *const with_name[AST_KIND_COUNT] = {
    [AST_METRIC] = "metric",
    [AST_OUTPUT] = "output",
    [AST_BATCH] = "batch",
};
static void (*const forms[AST_KIND_COUNT])(Printer *p, const Ast *t) = {
    [AST_INPUT] = input,   [AST_TARGET] = input, [AST_ASSIGN] = assignment,
    [AST_STATE] = state,   [AST_NEXT] = next,    [AST_IF] = if_statement,
    [AST_REPEAT] = repeat, [AST_INIT] = init,    [AST_SCHEDULE] = schedule,
    [AST_UPDATE] = update,
};

static void statement(Printer *p, const Ast *t)
{
    if (forms[t->kind]) {
        forms[t->kind](p, t);
    } else if (with_exprs[t->kind]) {
        word_exprs(p, with_exprs[t->kind], t);
    } else {
        text_printf(p->out, "%s %s", with_name[t->kind], t->name);
        value_opt(p, t->kid[0]);
    }
}

static void body(Printer *p, const Ast *t)
{
    add(p, "{\n");
    p->depth++;
    for (int i = 0; i < t->n; i++) {
        text_printf(p->out, "%*s", 2 * p->depth, "");
        statement(p, t->kid[i]);
        add(p, "\n");
    }
    p->depth--;
    text_printf(p->out, "%*s}", 2 * p->depth, "");
}

/* ---- declarations ---- */

static void binds(Printer *p, const char *word, const Ast *t)
{
    text_printf(p->out, "%s ", word);
    for (int i = 0; i < t->n; i++) {
        text_printf(p->out, "%s%s", i > 0 ? ", " : "", t->kid[i]->name);
        value_opt(p, t->kid[i]->kid[0]);
        if (t->kid[i]->kid[1])
            domain(p, t->kid[i]->kid[1]);
    }
}

/* `fn f(..)` or `schedule S(..)`: an expression or a body. */
static void function(Printer *p, const char *word, const Ast *t)
{
    text_printf(p->out, "%s %s", word, t->name);
    params(p, t->kid[0]);
    if (t->kid[1]->kind != AST_BODY) {
        value_opt(p, t->kid[1]);
        return;
    }
    add(p, " ");
    body(p, t->kid[1]);
}

static void block(Printer *p, const Ast *t)
{
    text_printf(p->out, "block %s", t->name);
    if (t->kid[0])
        params(p, t->kid[0]);
    add(p, " on ");
    params(p, t->kid[1]);
    for (int i = 0; t->kid[2] && i < t->kid[2]->n; i++)
        type_opt(p, t->kid[2]->kid[i], i > 0 ? ", " : " -> ");
    add(p, " ");
    body(p, t->kid[3]);
}

static void include(Printer *p, const Ast *t)
{
    text_printf(p->out, "include \"%s\"", t->name);
}

static void optimizer(Printer *p, const Ast *t)
{
    text_printf(p->out, "optimizer %s", t->name);
    params(p, t->kid[0]);
    add(p, " on ");
    params(p, t->kid[1]);
    add(p, " ");
    body(p, t->kid[2]);
}

/* The model or the train section. */
static void section(Printer *p, const Ast *t)
{
    text_printf(p->out, "%s ", t->kind == AST_MODEL ? "model" : "train");
    if (t->name)
        text_printf(p->out, "%s ", t->name);
    p->in_model = t->kind == AST_MODEL;
    body(p, t->kid[0]);
    p->in_model = false;
}

static void declaration(Printer *p, const Ast *t)
{
    static const char *const bindings[AST_KIND_COUNT] = {
        [AST_CONST] = "const", [AST_ARCH] = "arch", [AST_HYPER] = "hyper"};
    static const char *const functions[AST_KIND_COUNT] = {
        [AST_FN] = "fn", [AST_SCHEDDEF] = "schedule"};
    if (bindings[t->kind])
        binds(p, bindings[t->kind], t);
    else if (functions[t->kind])
        function(p, functions[t->kind], t);
    else if (t->kind == AST_INCLUDE)
        include(p, t);
    else if (t->kind == AST_BLOCK)
        block(p, t);
    else if (t->kind == AST_OPTDEF)
        optimizer(p, t);
    else
        section(p, t);
    add(p, "\n");
}

static bool is_binds(const Ast *t)
{
    return t->kind == AST_CONST || t->kind == AST_ARCH || t->kind == AST_HYPER ||
           t->kind == AST_INCLUDE;
}

static void file(Printer *p, const Ast *t)
{
    add(p, "hdl 1\n");
    for (int i = 0; i < t->n; i++) {
        if (i == 0 || !is_binds(t->kid[i]) || !is_binds(t->kid[i - 1]))
            add(p, "\n");
        declaration(p, t->kid[i]);
    }
}

void hdl_print(Text *out, const Ast *t)
{
    Printer p = {.out = out};
    if (t->kind == AST_FILE)
        file(&p, t);
    else
        print_expr(&p, t, PREC_RANGE);
}

void program_print_hdl(Text *out, const Program *program, const Module *m)
{
    Printer p = {.out = out, .m = m};
    file(&p, program->files[0]);
}
