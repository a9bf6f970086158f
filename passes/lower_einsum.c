/* Makes each einsum a contraction proper: permutes of its operands go into the letters, a letter that one operand
 * sums alone is summed before, and what has no use for a micro-kernel - without letters (of more than one
 * element) in each operand alone, or without a summed one - becomes a product and a sum, which fuse with what is
 * around them. */
#include "passes/rewrite.h"

#include <string.h>

#include "ir/shape.h"

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
    int64_t perm[MAX_RANK];
    Shape s = {.rank = n_space};
    int n_perm = 0;
    for (int i = 0; i < n_space; i++) {
        const char *at = memchr(letters, space[i], (size_t)n);
        s.dim[i] = at ? x->type.shape.dim[at - letters] : 1;
        s.batch[i] = at ? x->type.shape.batch[at - letters] : 0;
        if (at)
            perm[n_perm++] = at - letters;
    }
    return build_reshape(b, build_permute(b, x, perm), &s);
}

/* NULL if the letters are more than axes can be. */
static Node *product_and_sum(Builder *b, const EinsumSpec *s, Node *const *in,
                             const Shape *result)
{
    char summed[2 * MAX_RANK], space[3 * MAX_RANK];
    const int n_summed = summed_letters(s, summed), n_space = s->n_out + n_summed;
    if (n_space > MAX_RANK)
        return NULL;
    memcpy(space, s->out, (size_t)s->n_out);
    memcpy(space + s->n_out, summed, (size_t)n_summed);
    Node *x = spread(b, in[0], s->a, s->n_a, space, n_space);
    Node *y = spread(b, in[1], s->b, s->n_b, space, n_space);
    Node *product = build2(b, OP_MUL, x, y);
    int64_t dims[MAX_RANK];
    int n_dims = 0;
    for (int i = s->n_out; i < n_space; i++)
        if (product->type.shape.dim[i] > 1)
            dims[n_dims++] = i;
    return build_reshape(b, build_reduce(b, OP_SUM, product, n_dims, dims, false), result);
}

/* Has each operand a result letter of its own, and is there something to sum? */
static bool is_contraction(const EinsumSpec *s, Node *const *in)
{
    const Shape *x = &in[0]->type.shape, *y = &in[1]->type.shape;
    bool own_a = false, own_b = false, summed = false;
    for (int i = 0; i < s->n_a; i++) {
        const bool both = has_letter(s->b, s->n_b, s->a[i]);
        own_a |= !both && x->dim[i] > 1;
        summed |= both && x->dim[i] > 1 && !has_letter(s->out, s->n_out, s->a[i]);
    }
    for (int i = 0; i < s->n_b; i++)
        own_b |= !has_letter(s->a, s->n_a, s->b[i]) && y->dim[i] > 1;
    return own_a && own_b && summed;
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
    if (!is_contraction(&s, in)) {
        Node *v = product_and_sum(b, &s, in, &n->type.shape);
        if (v)
            return v;
    }
    if (in[0] == n->in[0] && in[1] == n->in[1])
        return n;
    return build_einsum(b, in[0], in[1], spec_text(b, &s));
}
