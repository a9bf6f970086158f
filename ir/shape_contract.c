/* The shape rule of einsum: every letter has one extent. */
#include "ir/shape_rules.h"

#include <string.h>

/* Letters up to a stop; false at too many, a repeated one or something that is no letter. */
static bool parse_letters(const char **s, char stop, int *n, char *letters)
{
    *n = 0;
    for (; **s && **s != stop; ++*s) {
        const char ch = **s;
        if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')))
            return false;
        if (*n == MAX_RANK || memchr(letters, ch, (size_t)*n))
            return false;
        letters[(*n)++] = ch;
    }
    return **s == stop;
}

bool einsum_parse(const char *spec, EinsumSpec *out)
{
    *out = (EinsumSpec){0};
    const char *s = spec;
    if (!s || !parse_letters(&s, ',', &out->n_a, out->a))
        return false;
    s++;
    if (!parse_letters(&s, '-', &out->n_b, out->b) || s[1] != '>')
        return false;
    s += 2;
    if (!parse_letters(&s, '\0', &out->n_out, out->out))
        return false;
    for (int i = 0; i < out->n_out; i++)
        if (!memchr(out->a, out->out[i], (size_t)out->n_a) &&
            !memchr(out->b, out->out[i], (size_t)out->n_b))
            return false;
    return true;
}

static int axis_of(const char *letters, int n, char letter)
{
    const char *at = memchr(letters, letter, (size_t)n);
    return at ? (int)(at - letters) : -1;
}

int64_t einsum_extent(const EinsumSpec *s, const Shape *a, const Shape *b, char letter)
{
    const int ia = axis_of(s->a, s->n_a, letter), ib = axis_of(s->b, s->n_b, letter);
    return ia >= 0 ? a->dim[ia] : ib >= 0 ? b->dim[ib] : 0;
}

double einsum_depth(const Node *einsum)
{
    const Shape *a = &einsum->in[0]->type.shape;
    EinsumSpec s;
    double depth = 1;
    if (!einsum_parse(einsum->attrs.einsum.spec, &s))
        return depth;
    for (int i = 0; i < s.n_a; i++)
        if (axis_of(s.out, s.n_out, s.a[i]) < 0)
            depth *= (double)a->dim[i];
    return depth;
}

static int64_t mark_of(const EinsumSpec *s, const Shape *a, const Shape *b, char letter)
{
    const int ia = axis_of(s->a, s->n_a, letter), ib = axis_of(s->b, s->n_b, letter);
    if (ia >= 0 && ib >= 0)
        return mark_meet(a->batch[ia], b->batch[ib]);
    return ia >= 0 ? a->batch[ia] : ib >= 0 ? b->batch[ib] : 0;
}

static bool letters_agree(const ShapeContext *c, const Node *n, const EinsumSpec *s)
{
    const Shape *a = &n->in[0]->type.shape, *b = &n->in[1]->type.shape;
    if (a->rank != s->n_a || b->rank != s->n_b)
        return shape_fail(c, "%s: \"%s\" has %d and %d axes, the operands are %s and %s",
                          shape_op(n), n->attrs.einsum.spec, s->n_a, s->n_b,
                          shape_text(c->arena, a), shape_text(c->arena, b));
    for (int i = 0; i < s->n_a; i++) {
        const int j = axis_of(s->b, s->n_b, s->a[i]);
        if (j < 0 || a->dim[i] == b->dim[j])
            continue;
        shape_fail(c, "%s: letter %c is %lld in %s and %lld in %s", shape_op(n), s->a[i],
                   (long long)a->dim[i], shape_text(c->arena, a), (long long)b->dim[j],
                   shape_text(c->arena, b));
        shape_note_operand(c, n, 1);
        return false;
    }
    return true;
}

bool shape_rule_einsum(const ShapeContext *c, const Node *n, Type *type)
{
    EinsumSpec s;
    if (!einsum_parse(n->attrs.einsum.spec, &s))
        return shape_fail(
            c,
            "%s: \"%s\" is not of the form \"mk,nk->mn\" (every letter once in an operand, at "
            "most %d, and each of the result in an operand)",
            shape_op(n), n->attrs.einsum.spec ? n->attrs.einsum.spec : "", MAX_RANK);
    if (n->attrs.einsum.chunk < 0)
        return shape_fail(c, "%s: chunk is negative", shape_op(n));
    if (!shape_same_dtypes(c, n, 0) || !shape_need_real(c, n, 0) || !letters_agree(c, n, &s))
        return false;
    const Shape *a = &n->in[0]->type.shape, *b = &n->in[1]->type.shape;
    type->dtype = n->in[0]->type.dtype;
    type->shape = (Shape){.rank = s.n_out};
    for (int i = 0; i < s.n_out; i++) {
        type->shape.dim[i] = einsum_extent(&s, a, b, s.out[i]);
        type->shape.batch[i] = mark_of(&s, a, b, s.out[i]);
    }
    return shape_fits(c, n, &type->shape);
}
