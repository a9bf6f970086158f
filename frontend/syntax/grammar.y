/* The grammar of .hdl, from which bison makes the parser that builds the syntax tree.  It has no
 * conflicts.  Two decisions are left to parse.c: which words are keywords and which newlines end a
 * statement (NL).  Every body takes every statement here; parse_tree.c then reports those that
 * stand in the wrong kind of body. */
%require "3.6"
%define api.pure full
%define api.prefix {hdlyy}
%define api.location.type {SrcRange}
%define parse.error custom
%define parse.lac full
%locations
%param {Parser *p}
%expect 0

%code requires {
#include "frontend/syntax/parse.h"
}
%code {
#define YYMALLOC(size) heap_resize(NULL, size)
#define YYLLOC_DEFAULT(cur, rhs, n)                                                                \
    do {                                                                                           \
        if (n)                                                                                     \
            (cur) = (SrcRange){YYRHSLOC(rhs, 1).file, YYRHSLOC(rhs, 1).lo, YYRHSLOC(rhs, n).hi};   \
        else                                                                                       \
            (cur) = (SrcRange){YYRHSLOC(rhs, 0).file, YYRHSLOC(rhs, 0).hi, YYRHSLOC(rhs, 0).hi};   \
    } while (0)
int hdlyylex(HDLYYSTYPE *value, SrcRange *loc, Parser *p);
static void yyerror(SrcRange *loc, Parser *p, const char *text);
/* Operators: the place of the sign is the node's name_loc. */
#define BIN(OP) parse_named(p, AST_BINARY, yyloc, OP, yylsp[-1], 2, yyvsp[-2].t, yyvsp[0].t)
}
%union {
    Ast *t;
    AstList *l;
    const char *s;
    struct {
        double v;
        bool integer;
    } n;
    bool b;
}

%token NL "end of statement"
%token <s> NAME "name" STR "string"
%token <n> NUM "number"
%token LPAREN "(" RPAREN ")" LBRACKET "[" RBRACKET "]" LBRACE "{" RBRACE "}" COMMA "," COLON ":"
    ASSIGN "="
%token PLUS "+" MINUS "-" STAR "*" SLASH "/" PERCENT "%" AT "@" LT "<" GT ">" DOT "." WILD "_"
%token PIPE "|>" ARROW "->" DOTS ".." ELLIPSIS "..." POW "**" FDIV "//" EQ "==" NE "!=" LE "<="
    GE ">=" BECOMES ":="
%token IF "if" ELSE "else" IN "in" RETURN "return" AND "and" OR "or" NOT "not"
%token TRUE_ "true" FALSE_ "false" NONE "none" SELF "self"
/* Keywords where a statement begins. */
%token HDL "hdl" CONST "const" ARCH "arch" HYPER "hyper" FN "fn" BLOCK "block" MODEL "model"
    TRAIN "train" INCLUDE "include"
%token INPUT "input" TARGET "target" LOSS "loss" METRIC "metric" OUTPUT "output" STATE "state"
    REPEAT "repeat"
%token BATCH "batch" EPOCHS "epochs" OPTIMIZER "optimizer" SCHEDULE "schedule" CLIP "clip"
    ACCUMULATE "accumulate"
%token FREEZE "freeze" NO_DECAY "no_decay" UPDATE "update" INIT "init"
/* Words that mean something in the middle of one statement and are names everywhere else. */
%token <s> ON "on" EACH "each" MINIMIZE "minimize" WITH "with" THEN "then" PER "per" STEP "step"
    OWN_SCHEDULE OWN_CLIP

%type <s> name
%type <b> each per_step
%type <n> version
%type <l> decls binds params params_list dims dims_list shapes stmts targets names list list_open
    args args_list subs thens own
%type <t> decl bind domain head params_opt param type type_opt draw result body stmt simple compound
    else_part target value lhs
%type <t> expr pipe or and not cmp add mul unary power postfix sub atom arg item range schedule
    fn_body init_opt
%%
file: nls version_line decls { p->root = parse_node_list(p, AST_FILE, @$, $3); } ;
version_line: HDL version NL { parse_version(p, @2, $2.v); } | error NL ;
version: NUM ;
nls: %empty | nls NL ;

decls: %empty { $$ = parse_list(p, NULL); }
    | decls decl { $$ = parse_list_add(p, $1, $2); }
    | decls NL
    | decls error NL
    | decls error body ;
decl: CONST binds NL { $$ = parse_node_list(p, AST_CONST, @$, $2); }
    | ARCH binds NL { $$ = parse_node_list(p, AST_ARCH, @$, $2); }
    | HYPER binds NL { $$ = parse_node_list(p, AST_HYPER, @$, $2); }
    | INCLUDE STR NL { $$ = parse_named(p, AST_INCLUDE, @$, $2, @2, 0); }
    | FN name head fn_body { $$ = parse_named(p, AST_FN, @$, $2, @2, 2, $3, $4); }
    | BLOCK name params_opt ON head result body
        { $$ = parse_named(p, AST_BLOCK, @$, $2, @2, 4, $3, $5, $6, $7); }
    | MODEL name body { $$ = parse_named(p, AST_MODEL, @$, $2, @2, 1, $3); }
    | TRAIN name body { $$ = parse_named(p, AST_TRAIN, @$, $2, @2, 1, $3); }
    | TRAIN body { $$ = parse_node(p, AST_TRAIN, @$, 1, $2); }
    | OPTIMIZER name params_opt ON head body
        { $$ = parse_named(p, AST_OPTDEF, @$, $2, @2, 3, $3 ? $3 : parse_node(p, AST_PARAMS, @2, 0), $5, $6); }
    | SCHEDULE name head fn_body { $$ = parse_named(p, AST_SCHEDDEF, @$, $2, @2, 2, $3, $4); } ;
fn_body: "=" expr NL { $$ = $2; } | body ;

binds: bind { $$ = parse_list(p, $1); } | binds "," bind { $$ = parse_list_add(p, $1, $3); } ;
bind: name "=" expr domain { $$ = parse_named(p, AST_BIND, @$, $1, @1, 2, $3, $4); } ;
domain: %empty { $$ = NULL; }
    | IN "(" expr DOTS expr ")" { $$ = parse_domain(p, @$, "", @1, $3, $5, NULL, @1, NULL); }
    | IN "{" list "}" { $$ = parse_node_list(p, AST_DOMAIN, @$, $3); $$->name = "set"; }
    | IN name "(" expr DOTS expr ")" { $$ = parse_domain(p, @$, $2, @2, $4, $6, NULL, @1, NULL); }
    | IN name "(" expr DOTS expr "," name "=" expr ")" { $$ = parse_domain(p, @$, $2, @2, $4, $6, $8, @8, $10); } ;

params_opt: %empty { $$ = NULL; } | head ;
head: "(" params ")" { $$ = parse_node_list(p, AST_PARAMS, @$, $2); } ;
params: %empty { $$ = parse_list(p, NULL); } | params_list comma ;
params_list: param { $$ = parse_list(p, $1); } | params_list "," param { $$ = parse_list_add(p, $1, $3); } ;
param: name type_opt { $$ = parse_named(p, AST_PARAM, @$, $1, @1, 2, $2, NULL); }
    | name type_opt "=" expr { $$ = parse_named(p, AST_PARAM, @$, $1, @1, 2, $2, $4); } ;
type_opt: %empty { $$ = NULL; } | ":" type { $$ = $2; } ;
type: "[" dims "]" { $$ = parse_type(p, @$, NULL, $2); }
    | name "[" dims "]" { $$ = parse_type(p, @$, $1, $3); } ;
dims: %empty { $$ = parse_list(p, NULL); } | dims_list comma ;
dims_list: expr { $$ = parse_list(p, $1); } | dims_list "," expr { $$ = parse_list_add(p, $1, $3); } ;
result: %empty { $$ = NULL; } | ARROW shapes { $$ = parse_node_list(p, AST_RESULTS, @$, $2); } ;
shapes: type { $$ = parse_list(p, $1); } | shapes "," type { $$ = parse_list_add(p, $1, $3); } ;

/* The last statement before } needs no NL. */
body: "{" stmts "}" { $$ = parse_node_list(p, AST_BODY, @$, $2); }
    | "{" stmts simple "}" { $$ = parse_node_list(p, AST_BODY, @$, parse_list_add(p, $2, $3)); }
    | "{" stmts error "}" { yyerrok; $$ = parse_node_list(p, AST_BODY, @$, $2); } ;
stmts: %empty { $$ = parse_list(p, NULL); }
    | stmts stmt { $$ = parse_list_add(p, $1, $2); }
    | stmts NL
    | stmts error NL { yyerrok; }
    | stmts error body ;
stmt: simple NL | compound ;
compound: IF expr body else_part { $$ = parse_node(p, AST_IF, @$, 3, $2, $3, $4); }
    | REPEAT names IN range body { $$ = parse_repeat(p, @$, $2, $4, $5); } ;
else_part: %empty { $$ = NULL; } | ELSE body { $$ = $2; }
    | ELSE IF expr body else_part { $$ = parse_node(p, AST_IF, (SrcRange){@2.file, @2.lo, @$.hi}, 3, $3, $4, $5); } ;
names: name { $$ = parse_list(p, parse_named(p, AST_NAME, @1, $1, @1, 0)); }
    | names "," name { $$ = parse_list_add(p, $1, parse_named(p, AST_NAME, @3, $3, @3, 0)); } ;

simple: INPUT name ":" type each draw { $$ = parse_named(p, AST_INPUT, @$, $2, @2, 2, $4, $6); $$->flag = $5; }
    | TARGET name ":" type each draw { $$ = parse_named(p, AST_TARGET, @$, $2, @2, 2, $4, $6); $$->flag = $5; }
    | LOSS expr { $$ = parse_node(p, AST_LOSS, @$, 1, $2); }
    | METRIC name "=" expr { $$ = parse_named(p, AST_METRIC, @$, $2, @2, 1, $4); }
    | OUTPUT name "=" expr { $$ = parse_named(p, AST_OUTPUT, @$, $2, @2, 1, $4); }
    | OUTPUT name { $$ = parse_named(p, AST_OUTPUT, @$, $2, @2, 1, NULL); }
    | RETURN list comma { $$ = parse_node_list(p, AST_RETURN, @$, $2); }
    | STATE name type_opt init_opt { $$ = parse_named(p, AST_STATE, @$, $2, @2, 2, $3, $4); }
    | INIT STR expr { $$ = parse_node(p, AST_INIT, @$, 2, parse_named(p, AST_STRING, @2, $2, @2, 0), $3); }
    | lhs "=" value { $$ = parse_node(p, AST_ASSIGN, @$, 2, $1, $3); }
    | name BECOMES expr { $$ = parse_named(p, AST_NEXT, @$, $1, @1, 1, $3); }
    | BATCH name "=" expr { $$ = parse_named(p, AST_BATCH, @$, $2, @2, 1, $4); }
    | EPOCHS expr { $$ = parse_node(p, AST_EPOCHS, @$, 1, $2); }
    | OPTIMIZER expr { $$ = parse_node(p, AST_OPTIMIZER, @$, 1, $2); }
    | SCHEDULE schedule { $$ = $2; $$->loc = @$; }
    | CLIP expr { $$ = parse_node(p, AST_CLIP, @$, 1, $2); }
    | ACCUMULATE expr { $$ = parse_node(p, AST_ACCUMULATE, @$, 1, $2); }
    | FREEZE list comma { $$ = parse_node_list(p, AST_FREEZE, @$, $2); }
    | NO_DECAY list comma { $$ = parse_node_list(p, AST_NO_DECAY, @$, $2); }
    | UPDATE list MINIMIZE expr WITH expr own
        { $$ = parse_update(p, @$, parse_node_list(p, AST_LIST, @2, $2), $4, $6, $7); } ;
each: %empty { $$ = false; } | EACH { $$ = true; } ;
draw: %empty { $$ = NULL; } | "=" expr { $$ = $2; } ;
init_opt: draw ;
schedule: thens per_step { $$ = parse_node_list(p, AST_SCHEDULE, @$, $1); $$->flag = $2; } ;
thens: expr { $$ = parse_list(p, $1); } | thens THEN expr { $$ = parse_list_add(p, $1, $3); } ;
per_step: %empty { $$ = false; } | PER STEP { $$ = true; } ;
own: %empty { $$ = parse_list(p, NULL); }
    | own OWN_SCHEDULE schedule { $$ = parse_list_add(p, $1, $3); $3->loc.lo = @2.lo; }
    | own OWN_CLIP expr { $$ = parse_list_add(p, $1, parse_node(p, AST_CLIP, @3, 1, $3)); } ;

lhs: targets { $$ = parse_node_list(p, AST_LHS, @$, $1); } ;
targets: target { $$ = parse_list(p, $1); } | targets "," target { $$ = parse_list_add(p, $1, $3); } ;
target: name type_opt { $$ = parse_named(p, AST_TARGETV, @$, $1, @1, 2, $2, NULL); }
    | "_" { $$ = parse_named(p, AST_TARGETV, @$, "_", @1, 2, NULL, NULL); }
    | name "[" expr "]" type_opt { $$ = parse_named(p, AST_TARGETV, @$, $1, @1, 2, $5, $3); }
    | SELF "[" expr "]" { $$ = parse_named(p, AST_TARGETV, @$, "self", @1, 2, NULL, $3); } ;
value: list comma { $$ = parse_values(p, @1, $1); } ;
list: expr { $$ = parse_list(p, $1); } | list "," expr { $$ = parse_list_add(p, $1, $3); } ;

name: NAME | ON | EACH | MINIMIZE | WITH | THEN | PER | STEP | OWN_SCHEDULE | OWN_CLIP ;

expr: pipe | pipe IF pipe ELSE expr { $$ = parse_node(p, AST_COND, @$, 3, $1, $3, $5); } ;
range: expr | expr DOTS expr { $$ = parse_node(p, AST_RANGE, @$, 2, $1, $3); } ;
pipe: or | pipe PIPE postfix { $$ = parse_node(p, AST_PIPE, @$, 2, $1, $3); } ;
or: and | or OR and { $$ = BIN("or"); } ;
and: not | and AND not { $$ = BIN("and"); } ;
not: cmp | NOT not { $$ = parse_named(p, AST_UNARY, @$, "not", @1, 1, $2); } ;
cmp: add | add EQ add { $$ = BIN("=="); } | add NE add { $$ = BIN("!="); } | add "<" add { $$ = BIN("<"); }
    | add LE add { $$ = BIN("<="); } | add ">" add { $$ = BIN(">"); } | add GE add { $$ = BIN(">="); } ;
add: mul | add "+" mul { $$ = BIN("+"); } | add "-" mul { $$ = BIN("-"); } ;
mul: unary | mul "*" unary { $$ = BIN("*"); } | mul "/" unary { $$ = BIN("/"); } | mul FDIV unary { $$ = BIN("//"); }
    | mul "%" unary { $$ = BIN("%"); } | mul "@" unary { $$ = BIN("@"); } ;
unary: power | "-" unary { $$ = parse_named(p, AST_UNARY, @$, "-", @1, 1, $2); } ;
power: postfix | postfix POW unary { $$ = BIN("**"); } ;
postfix: atom
    | postfix "(" args ")" { $$ = parse_applied(p, AST_CALL, @$, $1, $3); }
    | postfix "[" subs comma "]" { $$ = parse_applied(p, AST_INDEX, @$, $1, $3); }
    | postfix "." name { $$ = parse_named(p, AST_MEMBER, @$, $3, @3, 1, $1); } ;
args: %empty { $$ = parse_list(p, NULL); } | args_list comma ;
args_list: arg { $$ = parse_list(p, $1); }
    | args_list "," arg { $$ = parse_list_add(p, $1, $3); } ;
arg: range | name "=" expr { $$ = parse_named(p, AST_ARG, @$, $1, @1, 1, $3); } ;
subs: sub { $$ = parse_list(p, $1); }
    | subs "," sub { $$ = parse_list_add(p, $1, $3); } ;
sub: expr
    | ":" { $$ = parse_node(p, AST_SLICE, @$, 2, NULL, NULL); }
    | expr ":" { $$ = parse_node(p, AST_SLICE, @$, 2, $1, NULL); }
    | ":" expr { $$ = parse_node(p, AST_SLICE, @$, 2, NULL, $2); }
    | expr ":" expr { $$ = parse_node(p, AST_SLICE, @$, 2, $1, $3); } ;
atom: name { $$ = parse_named(p, AST_NAME, @$, $1, @1, 0); }
    | SELF { $$ = parse_node(p, AST_SELF, @$, 0); }
    | NUM { $$ = parse_node(p, AST_NUMBER, @$, 0); $$->value = $1.v; $$->flag = $1.integer; }
    | STR { $$ = parse_named(p, AST_STRING, @$, $1, @1, 0); }
    | TRUE_ { $$ = parse_node(p, AST_TRUE, @$, 0); }
    | FALSE_ { $$ = parse_node(p, AST_FALSE, @$, 0); }
    | NONE { $$ = parse_node(p, AST_NONE, @$, 0); }
    | "_" { $$ = parse_node(p, AST_WILD, @$, 0); }
    | ELLIPSIS { $$ = parse_node(p, AST_DOTS, @$, 0); }
    | "(" list_open ")" { $$ = parse_values(p, @$, $2); }
    | "(" list_open "," ")" { $$ = parse_node_list(p, AST_LIST, @$, $2); }
    | "(" ")" { $$ = parse_node(p, AST_LIST, @$, 0); }
    | "[" "]" { $$ = parse_node(p, AST_LIST, @$, 0); }
    | "[" list_open comma "]" { $$ = parse_node_list(p, AST_LIST, @$, $2); } ;
list_open: item { $$ = parse_list(p, $1); } | list_open "," item { $$ = parse_list_add(p, $1, $3); } ;
item: range ;
comma: %empty | "," ;
%%
#define N_EXPECTED 128

static bool holds(const yysymbol_kind_t *v, int n, yysymbol_kind_t what)
{
    for (int i = 0; i < n; i++)
        if (v[i] == what)
            return true;
    return false;
}

/* Expected tokens that tell the reader nothing where an expression may go on. */
static bool is_operator(yysymbol_kind_t k)
{
    static const yysymbol_kind_t ops[] = {
        YYSYMBOL_PLUS, YYSYMBOL_PIPE, YYSYMBOL_POW, YYSYMBOL_FDIV, YYSYMBOL_EQ, YYSYMBOL_NE,
        YYSYMBOL_LE, YYSYMBOL_GE, YYSYMBOL_IF, YYSYMBOL_AND, YYSYMBOL_OR, YYSYMBOL_MINUS,
        YYSYMBOL_STAR, YYSYMBOL_SLASH, YYSYMBOL_PERCENT, YYSYMBOL_AT, YYSYMBOL_LT, YYSYMBOL_GT,
        YYSYMBOL_DOT, YYSYMBOL_LPAREN, YYSYMBOL_LBRACKET, YYSYMBOL_DOTS};
    return holds(ops, (int)(sizeof ops / sizeof *ops), k);
}

/* "expression", "name", "',' or ')'", ... */
static void describe(Text *t, const yysymbol_kind_t *v, int n)
{
    if (holds(v, n, YYSYMBOL_CONST) || holds(v, n, YYSYMBOL_INPUT)) {
        text_add(t, holds(v, n, YYSYMBOL_CONST) ? "declaration" : "statement");
        text_add(t, holds(v, n, YYSYMBOL_RBRACE) ? " or '}'" : "");
        return;
    }
    if (holds(v, n, YYSYMBOL_HDL)) {
        text_add(t, "'hdl 1' first");
        return;
    }
    if (holds(v, n, YYSYMBOL_BECOMES)) {
        text_add(t, "'=' after the name that the statement binds");
        return;
    }
    if (holds(v, n, YYSYMBOL_NUM) && n > 1) {
        text_add(t, "expression");
        return;
    }
    if (holds(v, n, YYSYMBOL_NAME)) {
        text_add(t, holds(v, n, YYSYMBOL_LBRACE) ? "name or '{'" : "name");
        return;
    }
    yysymbol_kind_t keep[N_EXPECTED];
    int m = 0;
    const bool after = holds(v, n, YYSYMBOL_PLUS);
    for (int i = 0; i < n; i++)
        if (!(after && is_operator(v[i])) && v[i] != YYSYMBOL_OWN_SCHEDULE && v[i] != YYSYMBOL_OWN_CLIP)
            keep[m++] = v[i];
    if (holds(keep, m, YYSYMBOL_NL))
        m = 1, keep[0] = YYSYMBOL_NL;
    for (int i = 0; i < m; i++) {
        text_add(t, i == 0 ? "" : i + 1 == m ? " or " : ", ");
        const bool sign = keep[i] > YYSYMBOL_NUM;
        text_printf(t, sign ? "'%s'" : "%s", yysymbol_name(keep[i]));
    }
}

static const char *found(const Parser *p, yysymbol_kind_t k, SrcRange loc)
{
    if (k == YYSYMBOL_YYEOF)
        return "end of file";
    if (k == YYSYMBOL_NL)
        return loc.hi > loc.lo ? "';'" : "end of line";
    const int n = (int)(loc.hi - loc.lo);
    return arena_printf(p->a, "'%.*s%s'", n > 24 ? 20 : n, p->src + loc.lo, n > 24 ? "..." : "");
}

static int yyreport_syntax_error(const yypcontext_t *c, Parser *p)
{
    yysymbol_kind_t v[N_EXPECTED];
    const int n = yypcontext_expected_tokens(c, v, N_EXPECTED);
    const yysymbol_kind_t k = yypcontext_token(c);
    const SrcRange at = *yypcontext_location(c);
    Text t;
    text_init(&t, p->a);
    describe(&t, v, n);
    if (k == YYSYMBOL_ELSE)
        diag_error(p->d, at, "'else' must follow the '}' of its 'if' on the same line");
    else
        diag_error(p->d, at, "expected %s, found %s", t.len ? t.s : "something else", found(p, k, at));
    parse_error_notes(p, k == YYSYMBOL_YYEOF || p->last_newline);
    return 0;
}

static void yyerror(SrcRange *loc, Parser *p, const char *text)
{
    (void)text;
    diag_error(p->d, *loc, "nested too deeply");
    p->stop = true;
}
