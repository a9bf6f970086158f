/* Evaluates expressions other than calls and indexing: names, literals, lists, operators,
 * conditions, ranges. */
#include "frontend/elaborate/elab.h"

#include <math.h>
#include <string.h>

#include "frontend/values/batch.h"

enum {
    MAX_DEPTH = 1200,
    MAX_RANGE = 1 << 20
};

static Value eval_list(Elab *e, const Ast *t)
{
    int n = 0, cap = t->n > 0 ? t->n : 1;
    Value *v = arena_array(e->arena, (size_t)cap, sizeof *v);
    for (int i = 0; i < t->n; i++) {
        if (t->kid[i]->kind != AST_DOTS) {
            if (n == cap)
                v = arena_grow(e->arena, v, &cap, sizeof *v);
            v[n++] = eval(e, t->kid[i]);
            continue;
        }
        /* `...` in a list: the dims it stands for in this head. */
        const Binding *dots = e->frame ? scope_find(&e->frame->scope, "...") : NULL;
        if (dots == NULL) {
            diag_error(e->diag, t->kid[i]->loc,
                       "`...` stands for dims only where the head of the fn or block has it");
            return value_error();
        }
        for (int k = 0; k < dots->value.list.n; k++) {
            if (n == cap)
                v = arena_grow(e->arena, v, &cap, sizeof *v);
            v[n++] = dots->value.list.v[k];
        }
    }
    for (int i = 0; i < n; i++)
        if (v[i].kind == V_ERROR)
            return value_error();
    const Value list = value_list_of(n, v);
    return list_checked(e, &list, t->loc) ? list : value_error();
}

static Value eval_range(Elab *e, const Ast *t)
{
    const Value lo = eval(e, t->kid[0]), hi = eval(e, t->kid[1]);
    int64_t a, b;
    if (!value_to_int(e, &lo, t->kid[0]->loc, "the start of a range", &a) ||
        !value_to_int(e, &hi, t->kid[1]->loc, "the end of a range", &b))
        return value_error();
    if (b > a && b - a > MAX_RANGE) {
        diag_error(e->diag, t->loc, "a range of %lld values is too long", (long long)(b - a));
        return value_error();
    }
    return (Value){.kind = V_RANGE, .range = {a, b, false}};
}

/* Whether v, which is a number or none, is true. */
static Value truth_of(const Value *v, bool b)
{
    return batch_number(v) ? batch_depends(value_bool(b)) : value_bool(b);
}

/* `and` and `or` decide early when the left side is known; on tensors they are elementwise. */
static Value eval_logical(Elab *e, const Ast *t, bool is_and)
{
    const Value a = eval(e, t->kid[0]);
    if (a.kind == V_ERROR)
        return a;
    if (a.kind == V_TENSOR)
        return math_logical(e, is_and ? OP_AND : OP_OR, a, eval(e, t->kid[1]), t->loc);
    bool left, right;
    if (!value_truth(e, &a, t->kid[0]->loc, "the operand", &left))
        return value_error();
    const Value known = truth_of(&a, left);
    if (left != is_and)
        return known;
    const Value b = eval(e, t->kid[1]);
    if (b.kind == V_TENSOR)
        return math_logical(e, is_and ? OP_AND : OP_OR, known, b, t->loc);
    if (!value_truth(e, &b, t->kid[1]->loc, "the operand", &right))
        return value_error();
    return truth_of(known.by_n ? &known : &b, right);
}

static bool is_arithmetic(const Value *v)
{
    return value_is_number(v) || v->kind == V_TENSOR || v->kind == V_COUNTER;
}

static bool is_run_time(const Value *v)
{
    return v->kind == V_TENSOR || v->kind == V_COUNTER;
}

static Value eval_equal(Elab *e, const Ast *t, Value a, Value b)
{
    const bool negate = t->name[0] == '!';
    if (is_arithmetic(&a) && is_arithmetic(&b) && (is_run_time(&a) || is_run_time(&b)))
        return math_binary(e, negate ? OP_NE : OP_EQ, a, b, t->loc);
    const Value r = value_bool(value_equal(&a, &b) != negate);
    return batch_equal(e, &a, &b) ? batch_depends(r) : r;
}

typedef struct BinaryRow {
    const char *text;
    OpCode op;
} BinaryRow;

static const BinaryRow binary_rows[] = {
    {"+", OP_ADD}, {"-", OP_SUB}, {"*", OP_MUL}, {"//", OP_FDIV}, {"%", OP_MOD},
    {"<", OP_LT},  {"<=", OP_LE}, {">", OP_GT},  {">=", OP_GE},
};

static Value list_concat(Elab *e, const Value *a, const Value *b, SrcRange at)
{
    const int n = a->list.n + b->list.n;
    Value *v = arena_array(e->arena, (size_t)n, sizeof *v);
    for (int i = 0; i < n; i++)
        v[i] = i < a->list.n ? a->list.v[i] : b->list.v[i - a->list.n];
    const Value list = value_list_of(n, v);
    return list_checked(e, &list, at) ? list : value_error();
}

static Value eval_binary(Elab *e, const Ast *t)
{
    if (strcmp(t->name, "and") == 0 || strcmp(t->name, "or") == 0)
        return eval_logical(e, t, t->name[0] == 'a');
    const Value a = eval(e, t->kid[0]), b = eval(e, t->kid[1]);
    if (a.kind == V_ERROR || b.kind == V_ERROR)
        return value_error();
    if (strcmp(t->name, "==") == 0 || strcmp(t->name, "!=") == 0)
        return eval_equal(e, t, a, b);
    if (a.kind == V_LIST && b.kind == V_LIST && strcmp(t->name, "+") == 0)
        return list_concat(e, &a, &b, t->loc);
    const bool table =
        (a.kind == V_TENSOR && b.kind == V_LIST) || (a.kind == V_LIST && b.kind == V_TENSOR);
    if (!table && (!is_arithmetic(&a) || !is_arithmetic(&b))) {
        const bool left = !is_arithmetic(&a);
        diag_error(e->diag, t->kid[left ? 0 : 1]->loc, "'%s' takes numbers and tensors, not %s",
                   t->name, value_what(e, left ? &a : &b));
        return value_error();
    }
    if (strcmp(t->name, "/") == 0)
        return math_divide(e, a, b, t->loc);
    if (strcmp(t->name, "**") == 0)
        return math_power(e, a, b, t->loc);
    if (strcmp(t->name, "@") == 0)
        return math_matmul(e, a, b, t->loc);
    for (size_t i = 0; i < sizeof binary_rows / sizeof *binary_rows; i++)
        if (strcmp(t->name, binary_rows[i].text) == 0)
            return math_binary(e, binary_rows[i].op, a, b, t->loc);
    diag_internal(NULL, "unknown operator '%s' in a syntax tree", t->name);
}

static Value eval_unary(Elab *e, const Ast *t)
{
    const Value x = eval(e, t->kid[0]);
    const bool negate = t->name[0] == '-';
    if (x.kind == V_ERROR)
        return x;
    if (!negate && x.kind != V_TENSOR) {
        bool b;
        if (!value_truth(e, &x, t->kid[0]->loc, "the operand of `not`", &b))
            return value_error();
        return truth_of(&x, !b);
    }
    if (!is_arithmetic(&x)) {
        diag_error(e->diag, t->loc, "'-' takes a number or a tensor, not %s",
                   value_what(e, &x));
        return value_error();
    }
    return math_unary(e, negate ? OP_NEG : OP_NOT, x, t->loc);
}

static Value eval_cond(Elab *e, const Ast *t)
{
    const Value c = eval(e, t->kid[1]);
    bool b;
    if (!value_to_bool(e, &c, t->kid[1]->loc, "the condition of `if`", &b))
        return value_error();
    return eval(e, t->kid[b ? 0 : 2]);
}

static Value eval_self(Elab *e, const Ast *t)
{
    if (e->frame != NULL && (e->frame->kind == FRAME_BLOCK || e->frame->kind == FRAME_MODEL))
        return e->frame->self;
    diag_error(e->diag, t->loc, "`self` means something only in a block");
    return value_error();
}

/* A name, a literal, or `_`. */
static Value eval_word(Elab *e, const Ast *t)
{
    if (t->kind == AST_NAME)
        return elab_name(e, t->name, t->loc);
    if (t->kind == AST_NUMBER)
        return value_num(t->value, t->flag);
    if (t->kind == AST_STRING)
        return value_str(t->name);
    if (t->kind == AST_TRUE || t->kind == AST_FALSE)
        return value_bool(t->kind == AST_TRUE);
    return t->kind == AST_NONE ? value_none() : (Value){.kind = V_WILD};
}

/* Each kind of expression; the other kinds are none. */
static Value (*const evaluators[AST_KIND_COUNT])(Elab *e, const Ast *t) = {
    [AST_NAME] = eval_word,     [AST_NUMBER] = eval_word,   [AST_STRING] = eval_word,
    [AST_TRUE] = eval_word,     [AST_FALSE] = eval_word,    [AST_NONE] = eval_word,
    [AST_WILD] = eval_word,     [AST_SELF] = eval_self,     [AST_LIST] = eval_list,
    [AST_RANGE] = eval_range,   [AST_CALL] = eval_call,     [AST_PIPE] = eval_pipe,
    [AST_INDEX] = eval_index,   [AST_MEMBER] = eval_member, [AST_UNARY] = eval_unary,
    [AST_BINARY] = eval_binary, [AST_COND] = eval_cond,
};

static Value eval_node(Elab *e, const Ast *t)
{
    if (evaluators[t->kind] != NULL)
        return evaluators[t->kind](e, t);
    diag_error(e->diag, t->loc, "this is not an expression");
    return value_error();
}

Value eval(Elab *e, const Ast *t)
{
    if (t == NULL || !elab_tick(e, t->loc))
        return value_error();
    if (e->depth >= MAX_DEPTH) {
        diag_error(e->diag, t->loc, "expressions and calls are nested too deeply");
        e->gave_up = true;
        return value_error();
    }
    const SrcRange loc = e->b.loc;
    e->depth++;
    e->b.loc = t->loc;
    const Value v = eval_node(e, t);
    e->b.loc = loc;
    e->depth--;
    return v;
}
