/* The operator a @ b: a product of tensors. */
#include "frontend/elaborate/elab.h"

#include <string.h>

/* Letters for n batch axes from `first` on; an axis of extent 1 that is broadcast gets none. */
static int batch_letters(char *out, const Shape *s, int n, const Shape *batch)
{
    int k = 0;
    for (int i = 0; i < n; i++) {
        const int axis = batch->rank - n + i;
        if (s->dim[i] != 1 || batch->dim[axis] == 1)
            out[k++] = (char)('a' + axis);
    }
    return k;
}

/* x without those leading axes that its letters leave out. */
static Node *drop_broadcast(Elab *e, Node *x, int n, const Shape *batch)
{
    const Shape *s = &x->type.shape;
    Shape r = shape_scalar();
    for (int i = 0; i < s->rank; i++)
        if (i >= n || s->dim[i] != 1 || batch->dim[batch->rank - n + i] == 1)
            r.dim[r.rank++] = s->dim[i];
    return r.rank == s->rank ? x : build_reshape(&e->b, x, &r);
}

/* Where an operand of the wrong shape comes from. */
static void note_operand(Elab *e, const Node *x, const char *which)
{
    if (x->loc.file >= 0)
        diag_note(e->diag, x->loc, "the %s operand is %s", which,
                  type_text(e->arena, &x->type));
}

static Value matmul_nodes(Elab *e, Node *x, Node *y, bool weak, SrcRange at)
{
    const Shape *a = &x->type.shape, *b = &y->type.shape;
    const bool vec_a = a->rank == 1, vec_b = b->rank == 1;
    const int na = vec_a ? 0 : a->rank - 2, nb = vec_b ? 0 : b->rank - 2;
    Shape sa = shape_of(na, a->dim), sb = shape_of(nb, b->dim), batch;
    if (a->rank == 0 || b->rank == 0) {
        diag_error(e->diag, at, "a matrix product needs tensors with axes, not %s @ %s",
                   shape_text(e->arena, a), shape_text(e->arena, b));
        return value_error();
    }
    if (a->dim[a->rank - 1] != b->dim[vec_b ? 0 : b->rank - 2]) {
        diag_error(e->diag, at,
                   "matrix product of %s and %s: the inner axes have %lld and %lld elements",
                   shape_text(e->arena, a), shape_text(e->arena, b),
                   (long long)a->dim[a->rank - 1], (long long)b->dim[vec_b ? 0 : b->rank - 2]);
        note_operand(e, x, "left");
        note_operand(e, y, "right");
        return value_error();
    }
    if (!shape_broadcast(&sa, &sb, &batch)) {
        diag_error(e->diag, at,
                   "matrix product of %s and %s: the leading axes do not broadcast",
                   shape_text(e->arena, a), shape_text(e->arena, b));
        return value_error();
    }
    /* Batch letters a..f, then m, k, n. */
    char spec[4 * MAX_RANK + 8];
    int n = batch_letters(spec, &sa, na, &batch);
    if (!vec_a)
        spec[n++] = 'm';
    spec[n++] = 'k';
    spec[n++] = ',';
    n += batch_letters(spec + n, &sb, nb, &batch);
    spec[n++] = 'k';
    if (!vec_b)
        spec[n++] = 'n';
    spec[n++] = '-';
    spec[n++] = '>';
    for (int i = 0; i < batch.rank; i++)
        spec[n++] = (char)('a' + i);
    if (!vec_a)
        spec[n++] = 'm';
    if (!vec_b)
        spec[n++] = 'n';
    spec[n] = '\0';
    x = drop_broadcast(e, x, na, &batch);
    y = drop_broadcast(e, y, nb, &batch);
    Builder bld = e->b;
    bld.loc = at;
    return value_node(x && y ? build_einsum(&bld, x, y, arena_strdup(e->arena, spec)) : NULL,
                      weak);
}

Value math_matmul(Elab *e, Value a, Value b, SrcRange at)
{
    if (a.kind == V_ERROR || b.kind == V_ERROR)
        return value_error();
    if (a.kind != V_TENSOR || b.kind != V_TENSOR) {
        const Value *bad = a.kind != V_TENSOR ? &a : &b;
        diag_error(e->diag, at, "a matrix product needs two tensors, not %s",
                   value_what(e, bad));
        return value_error();
    }
    const Value v[2] = {math_real(e, a), math_real(e, b)};
    bool weak;
    const DType d = math_promote(e, v, 2, &weak);
    Node *x = math_cast(e, &v[0], d, at, "an operand"),
         *y = math_cast(e, &v[1], d, at, "an operand");
    return x && y ? matmul_nodes(e, x, y, weak, at) : value_error();
}
