/* Builds the nodes of the syntax tree for the actions of grammar.y.
 *
 * Besides, it checks what the grammar leaves out so that its messages can be better: how high
 * the tree is, what a type, a domain and `repeat` may hold, and which statements belong in which
 * body. */
#include "frontend/syntax/parse.h"

#include <stdarg.h>
#include <string.h>

AstList *parse_list(Parser *p, Ast *first)
{
    AstList *l = arena_alloc(p->a, sizeof *l);
    return first ? parse_list_add(p, l, first) : l;
}

AstList *parse_list_add(Parser *p, AstList *l, Ast *t)
{
    if (l->n == l->cap)
        l->v = arena_grow(p->a, l->v, &l->cap, sizeof *l->v);
    l->v[l->n++] = t;
    return l;
}

static Ast *new_node(Parser *p, AstKind k, SrcRange loc, int n, Ast **kid)
{
    Ast *t = arena_alloc(p->a, sizeof *t);
    *t = (Ast){.kind = k, .loc = loc, .name_loc = SRC_NONE, .height = 1, .n = n, .kid = kid};
    for (int i = 0; i < n; i++)
        if (kid[i] && kid[i]->height >= t->height)
            t->height = kid[i]->height + 1;
    if (t->height > AST_MAX_HEIGHT && !p->stop) {
        diag_error(p->d, loc, "nested too deeply: %d levels", AST_MAX_HEIGHT);
        p->stop = true;
    }
    return t;
}

static Ast *node_va(Parser *p, AstKind k, SrcRange loc, int n, va_list ap)
{
    Ast **kid = arena_array(p->a, (size_t)n, sizeof *kid);
    for (int i = 0; i < n; i++)
        kid[i] = va_arg(ap, Ast *);
    return new_node(p, k, loc, n, kid);
}

Ast *parse_node(Parser *p, AstKind k, SrcRange loc, int n, ...)
{
    va_list ap;
    va_start(ap, n);
    Ast *t = node_va(p, k, loc, n, ap);
    va_end(ap);
    return t;
}

Ast *parse_named(Parser *p, AstKind k, SrcRange loc, const char *name, SrcRange name_loc, int n,
                 ...)
{
    va_list ap;
    va_start(ap, n);
    Ast *t = node_va(p, k, loc, n, ap);
    va_end(ap);
    t->name = name;
    t->name_loc = name_loc;
    return t;
}

Ast *parse_node_list(Parser *p, AstKind k, SrcRange loc, const AstList *l)
{
    return new_node(p, k, loc, l->n, l->v);
}

Ast *parse_values(Parser *p, SrcRange loc, const AstList *l)
{
    return l->n == 1 ? l->v[0] : parse_node_list(p, AST_LIST, loc, l);
}

/* `first` nodes, then the list's. */
static Ast *node_before(Parser *p, AstKind k, SrcRange loc, int n, Ast *const *first,
                        const AstList *l)
{
    Ast **kid = arena_array(p->a, (size_t)(n + l->n), sizeof *kid);
    memcpy(kid, first, (size_t)n * sizeof *kid);
    if (l->n > 0)
        memcpy(kid + n, l->v, (size_t)l->n * sizeof *kid);
    return new_node(p, k, loc, n + l->n, kid);
}

Ast *parse_applied(Parser *p, AstKind k, SrcRange loc, Ast *base, const AstList *l)
{
    return node_before(p, k, loc, 1, &base, l);
}

Ast *parse_update(Parser *p, SrcRange loc, Ast *targets, Ast *loss, Ast *optimizer,
                  const AstList *more)
{
    Ast *first[3] = {targets, loss, optimizer};
    return node_before(p, AST_UPDATE, loc, 3, first, more);
}

Ast *parse_repeat(Parser *p, SrcRange loc, const AstList *names, Ast *over, Ast *body)
{
    Ast *first[2] = {over, body};
    return node_before(p, AST_REPEAT, loc, 2, first, names);
}

Ast *parse_type(Parser *p, SrcRange loc, const char *name, const AstList *dims)
{
    AstList rest = *dims;
    const bool leading = rest.n > 0 && rest.v[0]->kind == AST_DOTS;
    if (leading)
        rest.v++, rest.n--;
    for (int i = 0; i < rest.n; i++)
        if (rest.v[i]->kind == AST_DOTS)
            diag_error(p->d, rest.v[i]->loc, "'...' stands for leading dims only");
    Ast *t = parse_node_list(p, AST_TYPE, loc, &rest);
    t->flag = leading;
    t->name = name;
    if (name)
        t->name_loc = (SrcRange){loc.file, loc.lo, loc.lo + (uint32_t)strlen(name)};
    return t;
}

Ast *parse_domain(Parser *p, SrcRange loc, const char *name, SrcRange name_loc, Ast *lo,
                  Ast *hi, const char *step_name, SrcRange step_loc, Ast *step)
{
    if (*name && strcmp(name, "log") != 0 && strcmp(name, "int") != 0)
        diag_error(p->d, name_loc,
                   "unknown domain '%s'; there are (a .. b), log(a .. b), int(a .. b), {...}",
                   name);
    if (step && (strcmp(step_name, "step") != 0 || strcmp(name, "int") != 0))
        diag_error(p->d, step_loc, "only int(a .. b, step = s) takes another argument");
    return parse_named(p, AST_DOMAIN, loc, name, name_loc, 3, lo, hi, step);
}

void parse_version(Parser *p, SrcRange loc, double version)
{
    if (version != 1)
        diag_error(p->d, loc, "this compiler reads version 1 of the language ('hdl 1')");
}

/* ---- which statement belongs where ---- */

#define AT(KIND) (1u << (KIND - AST_INPUT))

#define PLAIN (AT(AST_ASSIGN) | AT(AST_IF) | AT(AST_REPEAT))
#define KEPT  (AT(AST_STATE) | AT(AST_NEXT))

/* What each definition's body is called, and which kinds of statement it may hold. */
static const struct {
    const char *text;
    unsigned allowed;
} bodies[AST_KIND_COUNT] = {
    [AST_FN] = {"a fn", PLAIN | AT(AST_RETURN)},
    [AST_BLOCK] = {"a block", PLAIN | KEPT | AT(AST_RETURN)},
    [AST_OPTDEF] = {"an optimizer's definition", PLAIN | KEPT | AT(AST_RETURN)},
    [AST_SCHEDDEF] = {"a schedule's definition", PLAIN | KEPT | AT(AST_RETURN)},
    [AST_MODEL] = {"the model", PLAIN | KEPT | AT(AST_INPUT) | AT(AST_TARGET) | AT(AST_LOSS) |
                                    AT(AST_METRIC) | AT(AST_OUTPUT)},
    [AST_TRAIN] = {"the train section", AT(AST_IF) | AT(AST_INIT) | AT(AST_BATCH) |
                                            AT(AST_EPOCHS) | AT(AST_CLIP) | AT(AST_ACCUMULATE) |
                                            AT(AST_OPTIMIZER) | AT(AST_SCHEDULE) |
                                            AT(AST_FREEZE) | AT(AST_NO_DECAY) | AT(AST_UPDATE)},
};

#undef PLAIN
#undef KEPT

static void check_body(Parser *p, const Ast *body, AstKind decl);

static void check_kids(Parser *p, const Ast *t, AstKind decl)
{
    for (int i = 0; i < t->n; i++)
        if (t->kid[i] && t->kid[i]->kind == AST_BODY)
            check_body(p, t->kid[i], decl);
        else if (t->kid[i] && t->kid[i]->kind == AST_IF)
            check_kids(p, t->kid[i], decl);
}

static void check_body(Parser *p, const Ast *body, AstKind decl)
{
    for (int i = 0; i < body->n; i++) {
        const Ast *t = body->kid[i];
        const char *word = p->src + t->loc.lo;
        const int len = (int)strspn(word, "abcdefghijklmnopqrstuvwxyz_");
        const char *what = t->kind == AST_ASSIGN ? "a binding"
                           : t->kind == AST_NEXT ? "':='"
                                                 : arena_printf(p->a, "'%.*s'", len, word);
        if (!(bodies[decl].allowed & AT(t->kind)))
            diag_error(p->d, t->loc, "%s does not belong in %s", what, bodies[decl].text);
        check_kids(p, t, decl);
    }
}

void parse_check_places(Parser *p)
{
    for (int i = 0; i < p->root->n; i++) {
        const Ast *decl = p->root->kid[i];
        const Ast *last = decl->n > 0 ? decl->kid[decl->n - 1] : NULL;
        if (last && last->kind == AST_BODY)
            check_body(p, last, decl->kind);
    }
}
