/* Builds the check that the scalars which an update has noted (elaborate/elab_scalars.c) are all
 * finite. */
#include "frontend/train/train.h"

Node *scalars_finite(Elab *e, const char *optimizer, SrcRange loc)
{
    Node *ok = NULL;
    for (int i = 0; i < e->n_scalars; i++) {
        const Scalar *s = &e->scalars[i];
        e->b.hint = "ok";
        Node *finite = build1(&e->b, OP_ISFINITE, s->node);
        ok = ok == NULL ? finite : build2(&e->b, OP_AND, ok, finite);
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
