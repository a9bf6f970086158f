/* Distributions of initial values: what a program may write for one, and the node that an init
 * graph draws a state's first value with. */
#include "frontend/elaborate/elab.h"

#include <math.h>
#include <string.h>

Dist dist_constant(Value v, SrcRange at)
{
    return (Dist){.arg = {v, value_none(), value_none()}, .loc = at};
}

bool dist_from(Elab *e, const Value *v, SrcRange at, Dist *out)
{
    *out = dist_constant(value_int(0), at);
    if (v->kind == V_DIST) {
        *out = *v->dist;
        return true;
    }
    if (value_is_number(v) || v->kind == V_TENSOR) {
        out->arg[0] = *v;
        out->graph = v->kind == V_TENSOR ? e->b.graph : NULL;
        return true;
    }
    if (v->kind == V_BUILTIN && builtin_is_family(v->builtin)) {
        /* `init = zeros`, `init = normal`: the family with its defaults. */
        const Args none = {.loc = at, .name_loc = at};
        const Value d = call_value(e, v, &none);
        return d.kind == V_DIST && dist_from(e, &d, at, out);
    }
    if (v->kind != V_ERROR)
        diag_error(e->diag, at,
                   "an initial value is a distribution (normal, uniform, zeros, ones, "
                   "kaiming_*, xavier_*) or "
                   "a number, not %s",
                   value_what(e, v));
    return false;
}

/* PyTorch's _calculate_fan_in_and_fan_out. */
static bool fans(Elab *e, const Dist *d, const char *state, const Shape *s, double *in,
                 double *out)
{
    if (s->rank < 2) {
        diag_error(e->diag, d->loc, "%s needs a parameter of at least two axes, but '%s' is %s",
                   d->family->name, state, shape_text(e->arena, s));
        return false;
    }
    double field = 1;
    for (int i = 2; i < s->rank; i++)
        field *= (double)s->dim[i];
    *in = (double)s->dim[1] * field;
    *out = (double)s->dim[0] * field;
    return true;
}

/* torch.nn.init.calculate_gain. */
static Value gain_of(Elab *e, const Dist *d, const Value *a)
{
    static const struct {
        const char *name;
        double gain;
    } rows[] = {{"linear", 1},
                {"sigmoid", 1},
                {"conv1d", 1},
                {"conv2d", 1},
                {"tanh", 5.0 / 3},
                {"selu", 0.75},
                {"relu", 1.4142135623730951}};
    const Value *name = &d->arg[2];
    const char *text = name->kind == V_STR ? name->str : "";
    if (strcmp(text, "leaky_relu") == 0) {
        const Value square = math_binary(e, OP_MUL, *a, *a, d->loc);
        return math_unary(e, OP_SQRT,
                          math_divide(e, value_num(2, false),
                                      math_binary(e, OP_ADD, value_int(1), square, d->loc),
                                      d->loc),
                          d->loc);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, text) == 0)
            return value_num(rows[i].gain, false);
    diag_error(e->diag, d->loc, "unknown nonlinearity %s", value_what(e, name));
    return value_error();
}

/* The standard deviation of a kaiming or xavier family. */
static Value deviation(Elab *e, const Dist *d, const Value *arg, const char *state,
                       const Shape *s)
{
    double in, out;
    if (!fans(e, d, state, s, &in, &out))
        return value_error();
    if (d->scale == DIST_XAVIER)
        return math_binary(e, OP_MUL, arg[0], value_num(sqrt(2 / (in + out)), false), d->loc);
    const Value *mode = &d->arg[1];
    const bool fan_out = mode->kind == V_STR && strcmp(mode->str, "fan_out") == 0;
    if (!fan_out && (mode->kind != V_STR || strcmp(mode->str, "fan_in") != 0)) {
        diag_error(e->diag, d->loc, "mode must be \"fan_in\" or \"fan_out\"");
        return value_error();
    }
    return math_divide(e, gain_of(e, d, &arg[0]), value_num(sqrt(fan_out ? out : in), false),
                       d->loc);
}

static Value sample(Elab *e, const Dist *d, const Value *arg, const char *state, const Shape *s,
                    Node *step)
{
    const bool is_normal = d->is_normal;
    Value lo = arg[0], width = arg[1];
    if (d->scale != DIST_FROM_ARGUMENTS) {
        const Value std = deviation(e, d, arg, state, s);
        const Value half = math_binary(e, OP_MUL, std, value_num(sqrt(3), false), d->loc);
        lo = is_normal ? value_num(0, false) : math_unary(e, OP_NEG, half, d->loc);
        width = is_normal ? std : math_binary(e, OP_MUL, half, value_num(2, false), d->loc);
    } else if (!is_normal) {
        width = math_binary(e, OP_SUB, arg[1], arg[0], d->loc);
    }
    if (lo.kind == V_ERROR || width.kind == V_ERROR)
        return value_error();
    const Value r =
        is_normal ? random_normal(e, state, s, step) : random_uniform(e, state, s, step);
    return math_binary(e, OP_ADD, math_binary(e, OP_MUL, r, width, d->loc), lo, d->loc);
}

/* An argument as a value of the init graph: scalars of another graph are copied. */
static bool init_argument(Elab *e, const Dist *d, Value *v)
{
    if (v->kind != V_TENSOR || d->graph == e->b.graph)
        return true;
    Node *n = graph_copy(e, d->graph, v->node, NULL, NULL, d->loc, "an initial value");
    if (n == NULL)
        return false;
    v->node = n;
    return true;
}

Node *dist_value(Elab *e, const Dist *d, const char *state, const Type *type)
{
    return dist_drawn(e, d, state, type, build_const(&e->b, DT_I64, 0));
}

Node *dist_drawn(Elab *e, const Dist *d, const char *state, const Type *type, Node *step)
{
    Value arg[3] = {d->arg[0], d->arg[1], d->arg[2]};
    for (int i = 0; i < 3; i++)
        if (!init_argument(e, d, &arg[i]))
            return NULL;
    e->b.hint = state;
    e->b.loc = d->loc;
    if (d->family == NULL && !math_fits(e, &arg[0], type->dtype, d->loc, "an initial value"))
        return NULL;
    if (d->family == NULL && arg[0].kind != V_TENSOR)
        return math_full(e, type->dtype, &type->shape, &arg[0]);
    const Value v = d->family == NULL ? arg[0] : sample(e, d, arg, state, &type->shape, step);
    Node *n = math_cast(e, &v, type->dtype, d->loc, "an initial value");
    if (n == NULL)
        return NULL;
    return shape_equal(&n->type.shape, &type->shape) ? n : build_expand(&e->b, n, &type->shape);
}
