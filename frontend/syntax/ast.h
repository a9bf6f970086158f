/* The syntax tree of a .hdl file: one kind of node, its meaning given by `kind`.
 *
 * kids by kind (a "?" kid is always there, maybe NULL):                            name / value
 *   FILE     decl*                                                              name: path
 *   CONST, ARCH, HYPER   BIND*
 *   BIND     expr domain?                                                       name
 *   DOMAIN   RANGE, LOG, INT: lo hi step?;  SET: expr*                          name
 *            (the name is "", "log", "int" or "set")
 *   INCLUDE                                     name: the path as it is written
 *   FN       PARAMS (expr | BODY)                                               name
 *   BLOCK    PARAMS? PARAMS RESULTS? BODY       hyper-parameters, inputs        name
 *   MODEL    BODY                                                               name
 *   TRAIN    BODY of train statements                                           name, or NULL
 *   OPTDEF   PARAMS PARAMS BODY                 `optimizer Adam(..) on (p, g) {` name
 *   SCHEDDEF PARAMS (expr | BODY)               `schedule StepLR(..) = expr`    name
 *   PARAMS   PARAM*
 *   PARAM    type? default?                                                     name
 *   TYPE     dim*                               name: the element type, or NULL
 *            (flag: it begins with `...`, which is no kid)
 *   RESULTS  TYPE*
 *   BODY     stmt*
 * statements
 *   INPUT, TARGET  TYPE draw?                   flag: each                      name
 *   LOSS     expr                                                               name: NULL
 *   METRIC   expr                                                               name
 *   OUTPUT   expr?                                                              name
 *   RETURN   expr*
 *   ASSIGN   LHS value                          several values: a LIST
 *   LHS      target*
 *   TARGETV  type? index?                       index: name[index] = ...        name
 *            (the name may be "self", for self[i], and "_")
 *   STATE    TYPE? init?                        `state m = 0`, `state x : f32[C] = 0`   name
 *   NEXT     expr                               `m := expr`                     name
 *   IF       cond BODY (BODY | IF)?
 *   REPEAT   expr BODY                          names: kids[2..] NAME
 *            (`repeat i, row in rows`)
 *   INIT     STRING expr                        init "g.*.weight" normal(..)
 * train statements
 *   BATCH    expr                                                               name
 *   EPOCHS, CLIP, ACCUMULATE  expr
 *   OPTIMIZER expr
 *   SCHEDULE expr*                              chained by `then`; flag: per step
 *   FREEZE, NO_DECAY  expr*
 *   UPDATE   LIST(targets) loss optimizer (SCHEDULE | CLIP)*
 * expressions
 *   NAME                                                                        name
 *   NUMBER                                      value; flag: written as an integer
 *   STRING                                                                      name: its text
 *   TRUE, FALSE, NONE, SELF, WILD (`_`), DOTS (`...`)
 *   LIST     expr*
 *   RANGE    lo hi                              `0 .. n`
 *   CALL     callee arg*
 *   ARG      expr                               a named argument                name
 *   INDEX    base sub*                          sub: expr or SLICE
 *   SLICE    lo? hi?
 *   MEMBER   base                                                               name
 *   UNARY    x                                                                  name: "-", "not"
 *   BINARY   x y                                                                name: "+", ...
 *   PIPE     x callee                           x |> f  or  x |> f(args)
 *   COND     then cond else                     then if cond else else */
#ifndef HFTAC_FRONTEND_SYNTAX_AST_H
#define HFTAC_FRONTEND_SYNTAX_AST_H

#include "ir/support/diag.h"
#include "ir/support/text.h"
#include "ir/type.h"

/* clang-format off */
#define AST_KINDS(X) \
    X(FILE) X(CONST) X(ARCH) X(HYPER) X(BIND) X(DOMAIN) X(INCLUDE) X(FN) X(BLOCK) \
    X(MODEL) X(TRAIN) X(OPTDEF) X(SCHEDDEF) X(PARAMS) X(PARAM) X(TYPE) X(RESULTS) \
    X(BODY) X(INPUT) X(TARGET) X(LOSS) X(METRIC) X(OUTPUT) X(RETURN) X(ASSIGN) X(LHS) \
    X(TARGETV) X(STATE) X(NEXT) X(IF) X(REPEAT) X(INIT) X(BATCH) X(EPOCHS) X(CLIP) \
    X(ACCUMULATE) X(OPTIMIZER) X(SCHEDULE) X(FREEZE) X(NO_DECAY) X(UPDATE) X(NAME) \
    X(NUMBER) X(STRING) X(TRUE) X(FALSE) X(NONE) X(SELF) X(WILD) X(DOTS) X(LIST) \
    X(RANGE) X(CALL) X(ARG) X(INDEX) X(SLICE) X(MEMBER) X(UNARY) X(BINARY) X(PIPE) \
    X(COND)
/* clang-format on */

typedef enum AstKind {
#define X(NAME) AST_##NAME,
    AST_KINDS(X)
#undef X
    AST_KIND_COUNT
} AstKind;

typedef struct Ast Ast;
struct Ast {
    AstKind kind;
    /* Where the whole of it stands, and where the name stands if it has one. */
    SrcRange loc;
    SrcRange name_loc;
    const char *name;
    double value;
    bool flag;
    /* The height of the tree: 1 for a leaf; the parser refuses more than AST_MAX_HEIGHT. */
    int height;
    int n;
    Ast **kid;
    /* Set by the elaboration on a TARGETV of the model's body whose value is a tensor; flag: at
     * times it is another type. */
    const Type *type;
};

enum {
    AST_MAX_HEIGHT = 1000
};

const char *ast_kind_text(AstKind k);
/* Parses source file `file` of the Diag; NULL after reporting (several syntax errors per file).
 * `library` files follow the same grammar. */
Ast *hdl_parse(Arena *a, Diag *d, int file);
/* --emit=ast: one node a line, indented. */
void ast_print(Text *out, const Ast *t);
/* --emit=hdl: canonical layout; parses to an equal tree.  Minimal parentheses. */
void hdl_print(Text *out, const Ast *t);

#endif
