/* Axes by letters: rearrange, and einsum of one operand.
 *
 * A pattern such as "n l (h d) -> n h l d" is two lists of axes; brackets join letters to one
 * axis, 1 is an axis of one element.  The operand is taken apart into its letters, these are put
 * in their new order and joined again. */
#include "frontend/builtins/builtins.h"

#include <ctype.h>
#include <string.h>

#include "frontend/values/batch.h"

/* One side: its letters in order, and for each axis how many of them it has. */
typedef struct AxisGroups {
    int n_letters, n_axes;
    char letter[MAX_RANK];
    int size[MAX_RANK];
} AxisGroups;

static bool add_letter(AxisGroups *s, char letter)
{
    if (s->n_letters == MAX_RANK || memchr(s->letter, letter, (size_t)s->n_letters))
        return false;
    s->letter[s->n_letters++] = letter;
    return true;
}

static bool add_axis(AxisGroups *s, int letters)
{
    if (s->n_axes == MAX_RANK)
        return false;
    s->size[s->n_axes++] = letters;
    return true;
}

/* "n l (h d)" up to `end`; false if it is no such list. */
static bool read_groups(const char *p, const char *end, AxisGroups *s)
{
    int group = -1; /* letters in the open bracket; -1: none is open */
    *s = (AxisGroups){0};
    for (; p < end; p++) {
        bool ok = true;
        if (*p == '(' || *p == ')') {
            ok = (group < 0) == (*p == '(');
            if (ok && *p == ')')
                ok = add_axis(s, group);
            group = *p == '(' ? 0 : -1;
        } else if (*p == '1' && group < 0) {
            ok = add_axis(s, 0);
        } else if (islower((unsigned char)*p)) {
            ok = add_letter(s, *p) && (group >= 0 || add_axis(s, 1));
            group += group >= 0;
        } else {
            ok = *p == ' ';
        }
        if (!ok)
            return false;
    }
    return group < 0;
}

static int position(const AxisGroups *s, char letter)
{
    const char *p = memchr(s->letter, letter, (size_t)s->n_letters);
    return p ? (int)(p - s->letter) : -1;
}

/* The argument called like the letter: they come after input and pattern, in alphabetical order. */
static bool letter_size(const Call *c, char letter, int64_t *out, int64_t *mark)
{
    const int i = 2 + (letter - 'a');
    *out = -1;
    *mark = batch_size_mark(c->e, &c->arg[i]);
    if (c->arg[i].kind == V_NONE)
        return true;
    return value_whole(c->e, &c->arg[i], c->loc[i], "the size of an axis", out);
}

static bool sizes_are_used(const Call *c, const AxisGroups *s)
{
    for (char letter = 'a'; letter <= 'z'; letter++)
        if (c->arg[2 + (letter - 'a')].kind != V_NONE && position(s, letter) < 0) {
            diag_error(c->e->diag, c->loc[2 + (letter - 'a')],
                       "rearrange: the pattern has no axis '%c'", letter);
            return false;
        }
    return true;
}

/* Extents of the letters; one of a bracket may be left open: a bit of *left. */
static bool take_apart(const Call *c, const AxisGroups *s, const Shape *x, Shape *out,
                       unsigned *left)
{
    *out = (Shape){.rank = s->n_letters};
    *left = 0;
    for (int axis = 0, k = 0; axis < s->n_axes; k += s->size[axis++]) {
        int64_t known = 1;
        int open = -1;
        for (int i = k; i < k + s->size[axis]; i++) {
            if (!letter_size(c, s->letter[i], &out->dim[i], &out->batch[i]))
                return false;
            if (out->dim[i] > 0) {
                known *= out->dim[i] <= x->dim[axis] ? out->dim[i] : x->dim[axis] + 1;
            } else if (open >= 0 || out->dim[i] == 0) {
                diag_error(c->e->diag, c->at, "rearrange: give the size of '%c', as in %c = 4",
                           s->letter[i], s->letter[i]);
                return false;
            } else {
                open = i;
                *left |= 1u << i;
            }
        }
        if (open >= 0 && x->dim[axis] % known == 0)
            known *= out->dim[open] = x->dim[axis] / known;
        if (known != x->dim[axis]) {
            diag_error(c->e->diag, c->at, "rearrange: axis %d of %s does not fill its letters",
                       axis, shape_text(c->e->arena, x));
            return false;
        }
    }
    return true;
}

static Shape join(const AxisGroups *s, const Shape *letters)
{
    Shape r = {.rank = s->n_axes};
    for (int axis = 0, k = 0; axis < s->n_axes; axis++) {
        r.dim[axis] = 1;
        for (int i = 0; i < s->size[axis]; i++)
            r.dim[axis] *= letters->dim[k++];
    }
    return r;
}

Value builtin_rearrange(const Call *c)
{
    Elab *e = c->e;
    const Value *x = &c->arg[0], *pattern = &c->arg[1];
    const char *arrow = pattern->kind == V_STR ? strstr(pattern->str, "->") : NULL;
    AxisGroups from, to;
    if (x->kind != V_TENSOR || !arrow || !read_groups(pattern->str, arrow, &from) ||
        !read_groups(arrow + 2, arrow + strlen(arrow), &to) || from.n_letters != to.n_letters) {
        if (x->kind != V_ERROR && pattern->kind != V_ERROR)
            diag_error(
                e->diag, c->at,
                "rearrange takes a tensor and a pattern such as \"n l (h d) -> n h l d\", "
                "with the same letters on both sides");
        return value_error();
    }
    const Shape *s = &x->node->type.shape;
    Shape apart, ordered;
    int64_t dims[MAX_RANK];
    if (from.n_axes != s->rank) {
        diag_error(e->diag, c->at, "rearrange: the pattern has %d axes, but the operand is %s",
                   from.n_axes, value_what(e, x));
        return value_error();
    }
    unsigned open;
    if (!sizes_are_used(c, &from) || !take_apart(c, &from, s, &apart, &open))
        return value_error();
    ordered = (Shape){.rank = to.n_letters};
    for (int i = 0; i < to.n_letters; i++) {
        const int k = position(&from, to.letter[i]);
        if (k < 0) {
            diag_error(e->diag, c->at, "rearrange: '%c' is on the right side only",
                       to.letter[i]);
            return value_error();
        }
        dims[i] = k;
        ordered.dim[i] = apart.dim[k];
    }
    const Shape joined = join(&to, &ordered);
    Node *n = batch_resized(e, OP_RESHAPE, x->node, &apart, open);
    n = n ? build_permute(&e->b, n, dims) : NULL;
    return value_node(n ? build_reshape(&e->b, n, &joined) : NULL, x->weak);
}

Value einsum_of_one(const Call *c, const char *spec)
{
    Elab *e = c->e;
    const char *arrow = strstr(spec, "->");
    const Value v = math_real(e, c->arg[1]);
    Node *x = math_strong(e, &v, c->loc[1], "an operand");
    AxisGroups from, to;
    if (x == NULL)
        return value_error();
    if (!arrow || !read_groups(spec, arrow, &from) ||
        !read_groups(arrow + 2, arrow + strlen(arrow), &to) || from.n_axes != from.n_letters ||
        to.n_axes != to.n_letters || from.n_axes != x->type.shape.rank) {
        diag_error(e->diag, c->at, "einsum of %s: the equation \"%s\" does not fit",
                   shape_text(e->arena, &x->type.shape), spec);
        return value_error();
    }
    AxisGroups kept = {0};
    int64_t summed[MAX_RANK], dims[MAX_RANK];
    int n = 0;
    for (int i = 0; i < from.n_letters; i++)
        if (position(&to, from.letter[i]) < 0)
            summed[n++] = i;
        else
            add_letter(&kept, from.letter[i]);
    for (int i = 0; i < to.n_letters; i++) {
        const int k = position(&kept, to.letter[i]);
        if (k < 0) {
            diag_error(e->diag, c->at, "einsum: '%c' is in the result only", to.letter[i]);
            return value_error();
        }
        dims[i] = k;
    }
    if (n > 0)
        x = build_reduce(&e->b, OP_SUM, x, n, summed, false);
    return value_node(x ? build_permute(&e->b, x, dims) : NULL, false);
}
