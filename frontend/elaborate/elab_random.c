/* Random values: nodes whose bits depend on the model's seed, a path, and the number of the step
 * alone, so that a model draws the same whatever is compiled beside it. */
#include "frontend/elaborate/elab.h"

Node *random_bits(Elab *e, const char *path, const Shape *shape, Node *step)
{
    if (e->loop != NULL)
        return loop_random(e, path, shape, step);
    Attrs attrs;
    attrs_default(ATTR_random, &attrs);
    attrs.random.path = path;
    attrs.random.shape = ints_of(shape->rank, shape->dim);
    Node *in[2] = {build_seed(&e->b), step};
    return build_mark(build(&e->b, OP_RANDOM, &attrs, 2, in), shape);
}

/* (bits >> 8) * 2^-24 + offset * 2^-24: the upper 24 bits are exact in f32. */
static Value unit(Elab *e, const char *path, const Shape *shape, Node *step, int offset)
{
    Builder *b = &e->b;
    Node *n =
        build2(b, OP_FDIV, random_bits(e, path, shape, step), build_const(b, DT_I64, 256));
    if (offset != 0)
        n = build2(b, OP_ADD, n, build_const(b, DT_I64, offset));
    n = n ? build_cast(b, n, e->real) : NULL;
    return value_node(build2(b, OP_MUL, n, build_const(b, e->real, 0x1p-24)), false);
}

Value random_uniform(Elab *e, const char *path, const Shape *shape, Node *step)
{
    return unit(e, path, shape, step, 0);
}

/* Box and Muller's cosine half: sqrt(-2 log u) cos(2 pi v) with u in (0, 1]. */
Value random_normal(Elab *e, const char *path, const Shape *shape, Node *step)
{
    const SrcRange at = e->b.loc;
    const Value u = unit(e, path, shape, step, 1);
    const Value v = unit(e, arena_printf(e->arena, "%s~angle", path), shape, step, 0);
    const Value radius = math_unary(
        e, OP_SQRT,
        math_binary(e, OP_MUL, math_unary(e, OP_LOG, u, at), value_num(-2, false), at), at);
    const Value angle = math_unary(
        e, OP_COS, math_binary(e, OP_MUL, v, value_num(2 * 3.14159265358979323846, false), at),
        at);
    return math_binary(e, OP_MUL, radius, angle, at);
}

Node *random_step(Elab *e)
{
    Node *step = steps_done(e);
    if (e->entry != ENTRY_TRAIN || e->accumulate <= 1)
        return step;
    Builder *b = &e->b;
    return build2(b, OP_ADD,
                  build2(b, OP_MUL, step, build_const(b, DT_I64, (double)e->accumulate)),
                  state_of_role(e, ROLE_BATCH_COUNTER));
}

Node *steps_done(Elab *e)
{
    /* The same draws wherever nothing counts steps. */
    if (module_state_of(e->module, ROLE_COUNTER) == NULL || e->entry == ENTRY_INIT)
        return build_const(&e->b, DT_I64, 0);
    return state_of_role(e, ROLE_COUNTER);
}
