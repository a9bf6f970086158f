/* Gradients of reductions and contractions. */
#include "passes/grad.h"

#include <string.h>

#include "ir/shape.h"

/* v, which has the reduction's result shape, with the reduced axes put back as extents of 1. */
static Node *with_reduced_axes(Adjoint *c, Node *v)
{
    Shape s = c->in[0]->type.shape;
    const IntList *dims = &c->y->attrs.axes.dims;
    for (int i = 0; i < dims->n; i++) {
        s.dim[dims->v[i]] = 1;
        s.batch[dims->v[i]] = 0;
    }
    return build_reshape(c->b, v, &s);
}

void grad_sum(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0,
                    build_expand(c->b, with_reduced_axes(c, c->g), &c->in[0]->type.shape));
}

/* How to bring the reduced axes together at the end, as one. */
typedef struct Gathering {
    int64_t perm[MAX_RANK], back[MAX_RANK];
    Shape moved, joined; /* after the permute, after the reshape */
} Gathering;

static Gathering gather_axes(const Shape *x, const IntList *dims)
{
    Gathering t = {.moved = {.rank = x->rank}, .joined = {.rank = x->rank - dims->n + 1}};
    bool reduced[MAX_RANK] = {false};
    for (int i = 0; i < dims->n; i++)
        reduced[dims->v[i]] = true;
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->rank; i++)
            if (reduced[i] == (pass == 1))
                t.perm[n++] = i;
    const int kept = t.joined.rank - 1;
    t.joined.dim[kept] = 1;
    for (int i = 0; i < n; i++) {
        t.back[t.perm[i]] = i;
        t.moved.dim[i] = x->dim[t.perm[i]];
        t.moved.batch[i] = x->batch[t.perm[i]];
        if (i < kept) {
            t.joined.dim[i] = t.moved.dim[i];
            t.joined.batch[i] = t.moved.batch[i];
        } else {
            t.joined.dim[kept] *= t.moved.dim[i];
        }
    }
    return t;
}

/* g at the first largest (smallest) element along `dim`, 0 elsewhere; g has extent 1 there. */
static Node *to_first_extreme(Adjoint *c, Node *x, Node *g, int64_t dim)
{
    Node *key = c->y->op == OP_REDMAX ? x : build1(c->b, OP_NEG, x);
    Node *first = build_reduce(c->b, OP_ARGMAX, key, 1, &dim, true);
    Node *hit = build2(c->b, OP_EQ, build_iota(c->b, &x->type.shape, dim), first);
    return build3(c->b, OP_WHERE, hit, g, adjoint_const(c, 0));
}

void grad_redmax(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    Node *x = c->in[0], *g = with_reduced_axes(c, c->g);
    const IntList *dims = &c->y->attrs.axes.dims;
    if (dims->n == 0) {
        adjoint_add(c, 0, g);
        return;
    }
    if (dims->n == 1) {
        adjoint_add(c, 0, to_first_extreme(c, x, g, dims->v[0]));
        return;
    }
    const Gathering t = gather_axes(&x->type.shape, dims);
    Shape joined_g = t.joined;
    joined_g.dim[joined_g.rank - 1] = 1;
    x = build_reshape(c->b, build_permute(c->b, x, t.perm), &t.joined);
    g = build_reshape(c->b, build_permute(c->b, g, t.perm), &joined_g);
    Node *v = to_first_extreme(c, x, g, t.joined.rank - 1);
    adjoint_add(c, 0, build_permute(c->b, build_reshape(c->b, v, &t.moved), t.back));
}

static bool has_letter(const char *letters, int n, char letter)
{
    return memchr(letters, letter, (size_t)n) != NULL;
}

/* The adjoint of the operand with letters x is the einsum of g (letters of the result) with the other operand
 * (letters o).  Letters that only x has were summed alone: they are spread out again. */
static Node *einsum_adjoint(Adjoint *c, const EinsumSpec *s, int i)
{
    const char *x = i == 0 ? s->a : s->b, *o = i == 0 ? s->b : s->a;
    const int n_x = i == 0 ? s->n_a : s->n_b, n_o = i == 0 ? s->n_b : s->n_a;
    const Shape *full = &c->in[i]->type.shape;
    Shape kept = *full;
    char found[MAX_RANK];
    int n_found = 0;
    for (int j = 0; j < n_x; j++)
        if (has_letter(s->out, s->n_out, x[j]) || has_letter(o, n_o, x[j])) {
            found[n_found++] = x[j];
        } else {
            kept.dim[j] = 1;
            kept.batch[j] = 0;
        }
    const char *spec = arena_printf(c->b->graph->module->arena, "%.*s,%.*s->%.*s", s->n_out,
                                    s->out, n_o, o, n_found, found);
    Node *v = build_einsum(c->b, c->g, c->in[1 - i], spec);
    return build_expand(c->b, build_reshape(c->b, v, &kept), full);
}

void grad_einsum(Adjoint *c)
{
    EinsumSpec s;
    if (!einsum_parse(c->y->attrs.einsum.spec, &s))
        return;
    for (int i = 0; i < 2; i++)
        if (adjoint_wanted(c, i))
            adjoint_add(c, i, einsum_adjoint(c, &s, i));
}
