/* Built-in functions for random values: 32 bits of Philox for each element, keyed by the model's
 * seed, the step and a path. */
#include "frontend/builtins/builtins.h"

/* "encoder.0#2": the third draw in that instance. */
static const char *next_path(Elab *e)
{
    const char *path = e->frame != NULL ? e->frame->path : "";
    LayerRecord *r = layer_record(e, path);
    return arena_printf(e->arena, "%s#%d", path, r->randoms++);
}

static bool random_shape(const Call *c, Shape *s)
{
    return value_to_shape(c->e, &c->arg[0], c->loc[0], false, s);
}

Value builtin_random_bits(const Call *c)
{
    Shape s;
    if (!random_shape(c, &s))
        return value_error();
    return value_node(random_bits(c->e, next_path(c->e), &s, random_step(c->e)), false);
}

Value builtin_rand(const Call *c)
{
    Shape s;
    return random_shape(c, &s) ? random_uniform(c->e, next_path(c->e), &s, random_step(c->e))
                               : value_error();
}

Value builtin_randn(const Call *c)
{
    Shape s;
    return random_shape(c, &s) ? random_normal(c->e, next_path(c->e), &s, random_step(c->e))
                               : value_error();
}
