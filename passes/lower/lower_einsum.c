/* Makes each einsum a contraction proper: permutes of its operands go into the letters, and a
 * letter that one operand sums alone is summed before.  Later, when it is known how the operands
 * lie, what has no use for a micro-kernel - without letters (of more than one element) in each
 * operand alone, or without a summed one: a depthwise convolution - becomes a product and a sum,
 * which fuse with what is around them. */
#include "passes/lower/lower.h"

#include <string.h>

#include "ir/shape.h"

enum {
    FULL_BATCH = 8,
    TINY_SIDE = 2,
    TINY_SUM = 64
};

static bool has_letter(const char *letters, int n, char letter)
{
    return memchr(letters, letter, (size_t)n) != NULL;
}

static const char *spec_text(Builder *b, const EinsumSpec *s)
{
    const char *text = arena_printf(b->graph->module->arena, "%.*s,%.*s->%.*s", s->n_a, s->a,
                                    s->n_b, s->b, s->n_out, s->out);
    return arena_intern(b->graph->module->arena, text, strlen(text));
}

/* The summed letters in the order that contract.h says. */
static int summed_letters(const EinsumSpec *s, char *out)
{
    int n = 0;
    for (int i = 0; i < s->n_a; i++)
        if (!has_letter(s->out, s->n_out, s->a[i]))
            out[n++] = s->a[i];
    for (int i = 0; i < s->n_b; i++)
        if (!has_letter(s->out, s->n_out, s->b[i]) && !has_letter(s->a, s->n_a, s->b[i]))
            out[n++] = s->b[i];
    return n;
}

/* Looks through permutes of the operands. */
static void fold_permutes(EinsumSpec *s, Node **in)
{
    for (int i = 0; i < 2; i++)
        while (in[i]->op == OP_PERMUTE) {
            char *letters = i == 0 ? s->a : s->b, moved[MAX_RANK];
            const IntList *dims = &in[i]->attrs.perm.dims;
            for (int k = 0; k < dims->n; k++)
                moved[dims->v[k]] = letters[k];
            memcpy(letters, moved, (size_t)dims->n);
            in[i] = in[i]->in[0];
        }
}

/* Sums the letters that only operand i has. */
static Node *sum_lonely(Builder *b, EinsumSpec *s, Node *x, int i)
{
    char *letters = i == 0 ? s->a : s->b;
    const char *other = i == 0 ? s->b : s->a;
    int *n = i == 0 ? &s->n_a : &s->n_b;
    const int n_other = i == 0 ? s->n_b : s->n_a;
    int64_t dims[MAX_RANK];
    int n_dims = 0, kept = 0;
    for (int k = 0; k < *n; k++)
        if (has_letter(s->out, s->n_out, letters[k]) || has_letter(other, n_other, letters[k]))
            letters[kept++] = letters[k];
        else
            dims[n_dims++] = k;
    *n = kept;
    return build_reduce(b, OP_SUM, x, n_dims, dims, false);
}

/* x with one axis per letter of `space`, 1 where it lacks the letter. */
static Node *spread(Builder *b, Node *x, const char *letters, int n, const char *space,
                    int n_space)
{
    const Shape *from = &x->type.shape;
    int64_t perm[MAX_RANK], place[MAX_RANK] = {0};
    Shape s = {.rank = n_space}, squeezed = {0};
    int n_perm = 0;
    for (int i = 0; i < n; i++)
        if (from->dim[i] > 1) {
            place[i] = squeezed.rank;
            squeezed.dim[squeezed.rank] = from->dim[i];
            squeezed.batch[squeezed.rank++] = from->batch[i];
        }
    for (int i = 0; i < n_space; i++) {
        const char *at = memchr(letters, space[i], (size_t)n);
        s.dim[i] = at ? from->dim[at - letters] : 1;
        s.batch[i] = at ? from->batch[at - letters] : 0;
        if (at)
            perm[n_perm++] = place[at - letters];
    }
    x = build_reshape(b, x, &squeezed);
    return build_reshape(b, build_permute(b, x, perm), &s);
}

/* The letter along which the larger operand is contiguous in memory, 0: none. */
static char contiguous_letter(const Graph *g, const EinsumSpec *s, Node *const *in)
{
    const int large = shape_count(&in[1]->type.shape) > shape_count(&in[0]->type.shape) ? 1 : 0;
    const int axis = stored_innermost(g, in[large]);
    return axis < 0 ? 0 : large ? s->b[axis] : s->a[axis];
}

/* The space of the products: axes of more than one element, those with letter `last` behind all
 * others.  If that is a summed one the summed letters come last, to be added up in lanes; else
 * first, so that the lanes are results. */
static int order_space(Builder *b, const EinsumSpec *s, Node *const *in, char *space,
                       int *first_summed, int *n_summed)
{
    char summed[2 * MAX_RANK], kept[MAX_RANK];
    int n_kept = 0, n = 0;
    *n_summed = 0;
    const char last = contiguous_letter(b->graph, s, in);
    const int n_all = summed_letters(s, summed);
    for (int i = 0; i < n_all; i++)
        if (einsum_extent(s, &in[0]->type.shape, &in[1]->type.shape, summed[i]) > 1)
            summed[(*n_summed)++] = summed[i];
    for (int i = 0; i < s->n_out; i++)
        if (einsum_extent(s, &in[0]->type.shape, &in[1]->type.shape, s->out[i]) > 1)
            kept[n_kept++] = s->out[i];
    const bool inner = has_letter(summed, *n_summed, last) || n_kept == 0;
    for (int pass = 0; pass < 2; pass++) {
        const bool now_summed = (pass == 1) == inner;
        const char *letters = now_summed ? summed : kept;
        const int n_letters = now_summed ? *n_summed : n_kept;
        if (now_summed)
            *first_summed = n;
        for (int i = 0; i < n_letters; i++)
            if (letters[i] != last)
                space[n++] = letters[i];
        if (has_letter(letters, n_letters, last))
            space[n++] = last;
    }
    return n;
}

/* From the kept axes of the space to the result's, with its axes of one element. */
static Node *to_result(Builder *b, Node *x, const EinsumSpec *s, const char *kept, int n_kept,
                       const Shape *result)
{
    int64_t perm[MAX_RANK];
    int n = 0;
    for (int i = 0; i < s->n_out; i++)
        for (int k = 0; k < n_kept; k++)
            if (kept[k] == s->out[i])
                perm[n++] = k;
    return build_reshape(b, build_permute(b, x, perm), result);
}

/* NULL if the letters are more than axes can be. */
static Node *product_and_sum(Builder *b, const EinsumSpec *s, Node *const *in,
                             const Shape *result)
{
    char space[3 * MAX_RANK], kept[3 * MAX_RANK];
    int first_summed = 0, n_summed, n_kept = 0;
    const int n_space = order_space(b, s, in, space, &first_summed, &n_summed);
    if (n_space > MAX_RANK)
        return NULL;
    Node *x = spread(b, in[0], s->a, s->n_a, space, n_space);
    Node *y = spread(b, in[1], s->b, s->n_b, space, n_space);
    Node *product = build2(b, OP_MUL, x, y);
    int64_t dims[MAX_RANK];
    for (int i = 0; i < n_space; i++)
        if (i >= first_summed && i < first_summed + n_summed)
            dims[i - first_summed] = i;
        else
            kept[n_kept++] = space[i];
    Node *sum = build_reduce(b, OP_SUM, product, n_summed, dims, false);
    return to_result(b, sum, s, kept, n_kept, result);
}

/* Has each operand a result letter of its own, and is there something to sum?  Many small
 * contractions, as of groups of one or two channels, do not fill a tile. */
static bool is_contraction(const EinsumSpec *s, Node *const *in)
{
    const Shape *x = &in[0]->type.shape, *y = &in[1]->type.shape;
    int64_t own_a = 1, own_b = 1, summed = 1, batch = 1;
    for (int i = 0; i < s->n_a; i++) {
        const bool both = has_letter(s->b, s->n_b, s->a[i]);
        int64_t *kind = !both                                   ? &own_a
                        : has_letter(s->out, s->n_out, s->a[i]) ? &batch
                                                                : &summed;
        *kind *= x->dim[i];
    }
    for (int i = 0; i < s->n_b; i++)
        own_b *= has_letter(s->a, s->n_a, s->b[i]) ? 1 : y->dim[i];
    const int64_t small = own_a < own_b ? own_a : own_b;
    const bool tiny = batch >= FULL_BATCH && small <= TINY_SIDE && summed <= TINY_SUM;
    return own_a > 1 && own_b > 1 && summed > 1 && !tiny;
}

Node *normalise_einsum(Builder *b, Node *n)
{
    EinsumSpec s;
    Node *in[] = {n->in[0], n->in[1]};
    if (!einsum_parse(n->attrs.einsum.spec, &s))
        return n;
    fold_permutes(&s, in);
    for (int i = 0; i < 2; i++)
        in[i] = sum_lonely(b, &s, in[i], i);
    if (in[0] == n->in[0] && in[1] == n->in[1])
        return n;
    return build_einsum(b, in[0], in[1], spec_text(b, &s));
}

Node *multiply_out(Builder *b, Node *n)
{
    EinsumSpec s;
    Node *in[] = {n->in[0], n->in[1]};
    if (!einsum_parse(n->attrs.einsum.spec, &s) || is_contraction(&s, in))
        return n;
    Node *v = product_and_sum(b, &s, in, &n->type.shape);
    return v ? v : n;
}
