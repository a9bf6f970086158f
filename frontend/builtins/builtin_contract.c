/* Built-in functions that contract: matrix products, linear, einsum.  Each is one einsum node;
 * axes that only broadcast get no letter. */
#include "frontend/builtins/builtins.h"

#include <string.h>

Value builtin_matmul(const Call *c)
{
    return math_matmul(c->e, c->arg[0], c->arg[1], c->at);
}

/* "abmk,nk->abmn" */
static const char *linear_spec(Elab *e, int rank)
{
    char lead[MAX_RANK + 1] = "";
    const int n = rank - 1;
    for (int i = 0; i < n; i++)
        lead[i] = i == n - 1 ? 'm' : (char)('a' + i);
    lead[n] = '\0';
    return arena_printf(e->arena, "%sk,nk->%sn", lead, lead);
}

Value builtin_linear(const Call *c)
{
    Elab *e = c->e;
    const Value *bias = &c->arg[2];
    const bool has_bias = bias->kind != V_NONE && !(bias->kind == V_BOOL && !bias->b);
    if (c->arg[0].kind != V_TENSOR || c->arg[1].kind != V_TENSOR) {
        const int i = c->arg[0].kind != V_TENSOR ? 0 : 1;
        if (c->arg[i].kind != V_ERROR)
            diag_error(e->diag, c->loc[i], "linear needs a tensor as %s, not %s",
                       i ? "weight" : "input", value_what(e, &c->arg[i]));
        return value_error();
    }
    const Value w = math_real(e, c->arg[1]), input = math_real(e, c->arg[0]);
    Node *weight = math_strong(e, &w, c->loc[1], "weight");
    if (weight == NULL || input.kind == V_ERROR)
        return value_error();
    Node *x = math_cast(e, &input, weight->type.dtype, c->loc[0], "input");
    const Shape *s = &x->type.shape, *ws = &weight->type.shape;
    if (s->rank == 0 || ws->rank != 2 || s->dim[s->rank - 1] != ws->dim[1]) {
        diag_error(e->diag, c->at,
                   "linear of %s with weight %s: the last axis of the input must be the "
                   "weight's second",
                   shape_text(e->arena, s), shape_text(e->arena, ws));
        return value_error();
    }
    Node *y = build_einsum(&e->b, x, weight, linear_spec(e, s->rank));
    if (!has_bias)
        return value_node(y, false);
    return math_binary(e, OP_ADD, value_node(y, false), *bias, c->at);
}

Value builtin_einsum(const Call *c)
{
    Elab *e = c->e;
    if (c->arg[0].kind != V_STR) {
        diag_error(e->diag, c->loc[0], "the equation is a string such as \"mk,nk->mn\"");
        return value_error();
    }
    char *spec = arena_strdup(e->arena, c->arg[0].str);
    int n = 0;
    for (const char *p = spec; *p != '\0'; p++)
        if (*p != ' ')
            spec[n++] = *p;
    spec[n] = '\0';
    if (c->arg[2].kind == V_NONE)
        return einsum_of_one(c, spec);
    const Value x = math_real(e, c->arg[1]), y = math_real(e, c->arg[2]);
    Node *a = math_strong(e, &x, c->loc[1], "an operand"),
         *b = math_strong(e, &y, c->loc[2], "an operand");
    return value_node(a && b ? build_einsum(&e->b, a, b, spec) : NULL, false);
}
