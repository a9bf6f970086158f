/* Built-in functions for initial values: distributions, Param, tensors full of a number; and
 * Sequential. */
#include "frontend/builtins/builtins.h"

#include <math.h>
#include <string.h>

static Value dist_of(const Call *c, DistScale scale, bool is_normal)
{
    Dist *d = arena_alloc(c->e->arena, sizeof *d);
    *d = (Dist){.family = c->builtin,
                .scale = scale,
                .is_normal = is_normal,
                .graph = c->e->b.graph,
                .loc = c->at};
    for (int i = 0; i < c->n; i++)
        d->arg[i] = c->arg[i];
    return (Value){.kind = V_DIST, .dist = d};
}

Value builtin_normal(const Call *c)
{
    return dist_of(c, DIST_FROM_ARGUMENTS, true);
}

Value builtin_uniform(const Call *c)
{
    return dist_of(c, DIST_FROM_ARGUMENTS, false);
}

Value builtin_kaiming_normal(const Call *c)
{
    return dist_of(c, DIST_KAIMING, true);
}

Value builtin_kaiming_uniform(const Call *c)
{
    return dist_of(c, DIST_KAIMING, false);
}

Value builtin_xavier_normal(const Call *c)
{
    return dist_of(c, DIST_XAVIER, true);
}

Value builtin_xavier_uniform(const Call *c)
{
    return dist_of(c, DIST_XAVIER, false);
}

bool builtin_is_family(const Builtin *b)
{
    static Value (*const all[])(const Call *c) = {
        builtin_normal,          builtin_uniform,       builtin_kaiming_normal,
        builtin_kaiming_uniform, builtin_xavier_normal, builtin_xavier_uniform,
        builtin_zeros,           builtin_ones};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (b->run == all[i])
            return true;
    return false;
}

static Value filled_with(const Call *c, double x)
{
    Shape s;
    if (c->arg[0].kind == V_NONE) {
        Dist *d = arena_alloc(c->e->arena, sizeof *d);
        *d = dist_constant(value_num(x, false), c->at);
        return (Value){.kind = V_DIST, .dist = d};
    }
    if (!value_to_shape(c->e, &c->arg[0], c->loc[0], false, &s))
        return value_error();
    return value_node(build_full(&c->e->b, DT_F64, &s, x), true);
}

Value builtin_zeros(const Call *c)
{
    return filled_with(c, 0);
}

Value builtin_ones(const Call *c)
{
    return filled_with(c, 1);
}

Value builtin_full(const Call *c)
{
    Shape s;
    const Value *v = &c->arg[1];
    if (!value_to_shape(c->e, &c->arg[0], c->loc[0], false, &s))
        return value_error();
    if (v->kind == V_TENSOR && v->node->type.shape.rank == 0)
        return value_node(build_expand(&c->e->b, v->node, &s), v->weak);
    if (!value_is_number(v)) {
        diag_error(c->e->diag, c->loc[1], "full needs one number, not %s", value_what(c->e, v));
        return value_error();
    }
    const DType d = v->kind == V_BOOL ? DT_BOOL : v->integer ? DT_I64 : DT_F64;
    if (!math_fits(c->e, v, d, c->loc[1], "what fills the tensor"))
        return value_error();
    return value_node(math_full(c->e, d, &s, v), true);
}

Value builtin_param(const Call *c)
{
    ParamSpec *p = arena_alloc(c->e->arena, sizeof *p);
    p->loc = c->at;
    if (!value_to_shape(c->e, &c->arg[0], c->loc[0], false, &p->shape) ||
        !dist_from(c->e, &c->arg[1], c->loc[1], &p->init))
        return value_error();
    /* A parameter has no samples, whatever its size. */
    for (int i = 0; i < p->shape.rank; i++)
        p->shape.batch[i] = p->shape.batch[i] ? BATCH_MIXED : 0;
    return (Value){.kind = V_PARAM, .param = p};
}

Value builtin_sequential(const Call *c)
{
    const bool list = c->n == 1 && c->arg[0].kind == V_LIST;
    const int n = list ? c->arg[0].list.n : c->n;
    const Value *items = list ? c->arg[0].list.v : c->arg;
    for (int i = 0; i < n; i++)
        if (!value_callable(&items[i])) {
            diag_error(c->e->diag, list ? c->loc[0] : c->loc[i],
                       "an element of Sequential must be a layer or a function, not %s",
                       value_what(c->e, &items[i]));
            return value_error();
        }
    Layer *l = arena_alloc(c->e->arena, sizeof *l);
    const Value copy = value_list(c->e, n, items);
    *l = (Layer){.items = copy.list.v, .n_items = n, .loc = c->at};
    return (Value){.kind = V_LAYER, .layer = l};
}
