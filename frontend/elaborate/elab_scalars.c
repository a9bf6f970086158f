/* The scalars of an update - rates, corrections of bias, factors: each must be finite in the type
 * in which it meets a tensor (a rate of 1e39 does not exist in f32), or else nothing of the step
 * is written.
 *
 * While an optimizer's body runs, every operator that brings a scalar and a tensor together notes
 * the scalar here.  The bodies run once for each parameter and compute the same again, so what
 * has been noted already is not noted twice. */
#include "frontend/elaborate/elab.h"

#include <limits.h>
#include <math.h>

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

int making_begin(Elab *e, const char *name)
{
    const int outer = e->making;
    if (e->updating == NULL)
        return outer;
    const char *around = outer >= 0 ? e->made[outer].name : NULL;
    if (name == NULL)
        name = around;
    else if (around != NULL)
        name = elab_join(e, around, name);
    e->making = e->n_made;
    *ELAB_PUSH(e, made) = (NodeOrigin){name, e->b.graph->n_nodes, INT_MAX};
    return outer;
}

void making_end(Elab *e, int outer)
{
    if (e->updating != NULL)
        e->made[e->making].hi = e->b.graph->n_nodes;
    e->making = outer;
}

/* What the optimizer calls a value that it was given. */
static const char *argument_name(const Elab *e, const Node *n)
{
    const Frame *f = e->frame;
    while (f != NULL && f->kind != FRAME_OPTIM)
        f = f->up;
    for (int i = 0; f != NULL && i < f->scope.n; i++)
        if (f->scope.v[i].value.kind == V_TENSOR && f->scope.v[i].value.node == n)
            return f->scope.v[i].name;
    return NULL;
}

/* A hyper and the like have names of their own; the rest is called like what the statement that
 * computes it makes. */
static const char *label_of(const Elab *e, const Node *n)
{
    if (op_info(n->op)->kind == KIND_LEAF && op_info(n->op)->attrs == ATTR_leaf)
        return n->attrs.leaf.name;
    for (int i = e->n_made - 1; i >= 0; i--)
        if (e->made[i].lo <= n->id && n->id < e->made[i].hi)
            return e->made[i].name != NULL ? e->made[i].name : "the new value";
    const char *given = argument_name(e, n);
    return given != NULL ? given : op_info(n->op)->text;
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
        *ELAB_PUSH(e, scalars) = (Scalar){label_of(e, v->node), as};
}

void scalars_add(Elab *e, const char *label, Node *n)
{
    if (!is_known(e, n))
        *ELAB_PUSH(e, scalars) = (Scalar){label, n};
}
