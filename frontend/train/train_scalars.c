/* The scalars of an update - rates, corrections of bias, factors: each must be finite in the type
 * in which it meets a tensor (a rate of 1e39 does not exist in f32), or else nothing of the step
 * is written.
 *
 * While an optimizer's body runs, every operator that brings a scalar and a tensor together notes
 * the scalar here.  The bodies run once for each parameter and compute the same again, so what
 * has been noted already is not noted twice. */
#include "frontend/train/train.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "ir/scalar.h"

/* Arithmetic; a bound may be infinite, and what is compared or chosen is not computed with. */
static bool computes(OpCode op)
{
    ShapeRule *rule = op_info(op)->shape;
    return rule != op_info(OP_EQ)->shape && op != OP_MIN && op != OP_MAX;
}

static bool is_known(const Elab *e, const Node *n)
{
    for (int i = 0; i < e->n_scalars; i++) {
        int left = 64;
        if (math_same_value(e->scalars[i].node, n, &left))
            return true;
    }
    return false;
}

/* "w.rate.4" is called rate, "w.exp_avg.next.2" exp_avg, while w is updated. */
static const char *label_of(Elab *e, const Node *n, const char *param)
{
    const size_t own = strlen(param);
    const char *name = n->name;
    if (strncmp(name, param, own) == 0 && name[own] == '.')
        name += own + 1;
    char *label = arena_strdup(e->arena, name), *dot = strrchr(label, '.');
    if (dot != NULL && isdigit((unsigned char)dot[1]))
        *dot = '\0';
    dot = strrchr(label, '.');
    if (dot != NULL && strcmp(dot, ".next") == 0)
        *dot = '\0';
    return label;
}

void scalars_note(Elab *e, OpCode op, const Value *v, Node *as, SrcRange at)
{
    if (e->updating == NULL || as == NULL || !computes(op) ||
        dtype_class(as->type.dtype) != DTC_REAL)
        return;
    if (value_is_number(v)) {
        if (!isfinite(scalar_round(as->type.dtype, value_number(v))))
            diag_error(e->diag, at, "the number %g of this update is not finite as %s",
                       value_number(v), dtype_text(as->type.dtype));
        return;
    }
    if (v->kind == V_TENSOR && v->weak && as->type.shape.rank == 0 && !is_known(e, as))
        *ELAB_PUSH(e, scalars) = (Scalar){label_of(e, v->node, e->updating), as};
}

void scalars_add(Elab *e, const char *label, Node *n)
{
    if (!is_known(e, n))
        *ELAB_PUSH(e, scalars) = (Scalar){label, n};
}

static bool is_reported(const Elab *e, int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(e->scalars[k].label, e->scalars[i].label) == 0)
            return true;
    return false;
}

Node *scalars_finite(Elab *e, const char *optimizer, SrcRange loc)
{
    Node *ok = NULL;
    for (int i = 0; i < e->n_scalars; i++) {
        const Scalar *s = &e->scalars[i];
        e->b.hint = "ok";
        Node *finite = build1(&e->b, OP_ISFINITE, s->node);
        ok = ok == NULL ? finite : build2(&e->b, OP_AND, ok, finite);
        if (is_reported(e, i))
            continue;
        e->b.hint = s->label;
        const Output o = {.kind = OUT_CAUSE,
                          .name = arena_printf(e->arena, "%s in %s", s->label, optimizer),
                          .value = build_cast(&e->b, s->node, DT_F64),
                          .loc = loc};
        graph_add_output(e->b.graph, &o);
    }
    e->n_scalars = 0;
    return ok;
}
