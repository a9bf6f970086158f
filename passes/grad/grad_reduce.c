/* Gradients of reductions and contractions. */
#include "passes/grad/grad.h"

#include <string.h>

#include "ir/reading.h"
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

static Node *mul(Adjoint *c, Node *x, Node *y)
{
    return build2(c->b, OP_MUL, x, y);
}

void grad_sum(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        adjoint_add(c, 0,
                    build_expand(c->b, with_reduced_axes(c, c->g), &c->in[0]->type.shape));
}

/* The row-major number of each element of x among the reduced axes: i64, broadcasting to x's
 * shape. */
static Node *number_along(Adjoint *c, const Shape *x, unsigned reduced)
{
    Node *number = NULL;
    for (int d = 0; d < x->rank; d++) {
        if (!(reduced >> d & 1))
            continue;
        Shape line = {.rank = x->rank};
        for (int i = 0; i < x->rank; i++)
            line.dim[i] = i == d ? x->dim[d] : 1;
        Node *index = build_iota(c->b, &line, d);
        if (number) {
            Node *extent = build_const(c->b, DT_I64, (double)x->dim[d]);
            number = build2(c->b, OP_ADD, build2(c->b, OP_MUL, number, extent), index);
        } else {
            number = index;
        }
    }
    return number;
}

/* To the first largest (smallest) element, in row-major order of the reduced axes. */
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
    Node *key = c->y->op == OP_REDMAX ? x : build1(c->b, OP_NEG, x);
    Node *first = build_reduce(c->b, OP_ARGMAX, key, dims->n, dims->v, true);
    Node *hit = build2(c->b, OP_EQ, number_along(c, &x->type.shape, reduced_axes(c->y)), first);
    adjoint_add(c, 0, build3(c->b, OP_WHERE, hit, g, adjoint_const(c, 0)));
}

/* `size` elements of axis 0 of x from `start` on, `step` apart; x is [2, n, k]. */
static Node *part_of_pair(Adjoint *c, Node *x, int64_t start, int64_t step, int64_t size)
{
    const Shape *s = &x->type.shape;
    return build_slice(c->b, x, (const int64_t[]){start, 0, 0}, (const int64_t[]){step, 1, 1},
                       (const int64_t[]){size, s->dim[1], s->dim[2]});
}

/* For each element of x [n, k] the product of the n - 1 others of its column; NULL if n is 1.
 *
 * Element i < n / 2 and element i + n / 2 make a pair.  What multiplies one of them is its partner
 * times all other pairs, so that nothing is ever divided: it is right where elements are zero,
 * infinite or no numbers, and so are the gradients of it.  An example, with n = 3 filled up by a 1:
 * [a, b, c] gives the pairs ac and b1, of which the others are b1 and ac, and the elements'
 * partners [c, 1, a] times those are [c(b1), 1(ac), a(b1)]. */
static Node *product_of_others(Adjoint *c, Node *x)
{
    const int64_t n = x->type.shape.dim[0], k = x->type.shape.dim[1], half = (n + 1) / 2;
    if (n == 1)
        return NULL;
    const Shape flat = shape_of(2, (int64_t[]){2 * half, k}),
                pairs = shape_of(3, (int64_t[]){2, half, k}),
                single = shape_of(2, (int64_t[]){half, k});
    if (n % 2)
        x = build_pad(c->b, x, (const int64_t[]){0, 0}, (const int64_t[]){1, 1}, flat.dim, 1);
    x = build_reshape(c->b, x, &pairs);
    Node *first = part_of_pair(c, x, 0, 1, 1), *second = part_of_pair(c, x, 1, 1, 1);
    Node *product = build_reshape(c->b, mul(c, first, second), &single);
    Node *partner = part_of_pair(c, x, 1, -1, 2);
    Node *others = product_of_others(c, product);
    if (others) {
        const Shape row = shape_of(3, (int64_t[]){1, half, k});
        partner = mul(c, partner, build_reshape(c->b, others, &row));
    }
    partner = build_reshape(c->b, partner, &flat);
    return n % 2 == 0 ? partner
                      : build_slice(c->b, partner, (const int64_t[]){0, 0},
                                    (const int64_t[]){1, 1}, (const int64_t[]){n, k});
}

/* The axes of x, those that y reduces first. */
static void reduced_first(const Adjoint *c, int64_t *order)
{
    const IntList *dims = &c->y->attrs.axes.dims;
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int d = 0; d < c->in[0]->type.shape.rank; d++) {
            bool reduced = false;
            for (int i = 0; i < dims->n; i++)
                reduced |= dims->v[i] == d;
            if (reduced == (pass == 0))
                order[n++] = d;
        }
}

void grad_prod(Adjoint *c)
{
    if (!adjoint_wanted(c, 0))
        return;
    const Shape *s = &c->in[0]->type.shape;
    const IntList *dims = &c->y->attrs.axes.dims;
    int64_t order[MAX_RANK], back[MAX_RANK], n = 1;
    reduced_first(c, order);
    for (int i = 0; i < s->rank; i++)
        back[order[i]] = i;
    for (int i = 0; i < dims->n; i++)
        n *= s->dim[dims->v[i]];
    Node *moved = build_permute(c->b, c->in[0], order);
    const Shape columns = shape_of(2, (int64_t[]){n, shape_count(s) / n});
    Node *others = product_of_others(c, build_reshape(c->b, moved, &columns));
    Node *g = with_reduced_axes(c, c->g);
    if (others) {
        others = build_reshape(c->b, others, &moved->type.shape);
        g = mul(c, g, build_permute(c->b, others, back));
    }
    adjoint_add(c, 0, g);
}

static bool has_letter(const char *letters, int n, char letter)
{
    return memchr(letters, letter, (size_t)n) != NULL;
}

/* The adjoint of the operand with letters x is the einsum of g (letters of the result) with the
 * other operand (letters o).  Letters that only x has were summed alone: they are spread out
 * again. */
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
        if (adjoint_wanted(c, i) && !grad_through_window(c, &s, i))
            adjoint_add(c, i, einsum_adjoint(c, &s, i));
}
