/* Cases of loops: carried, scanned and invariant values, results of either kind, forwards and
 * backwards. */
#include "tests/check/check_grad_rows.h"

#include "ir/loop.h"

typedef struct Cell {
    LoopDraft draft;
    Builder in; /* at the end of the body */
} Cell;

static void open_cell(Maker *m, Cell *c, Builder *outside, int64_t count)
{
    Graph *body = loop_body_new(m->b.graph->module, "body");
    c->in = (Builder){.graph = body, .loc = SRC_NONE};
    loop_begin(&c->draft, outside, body, count, random_chance(&m->random, 50));
}

/* tanh(h @ w + u) */
static Node *recur(Cell *c, Node *h, Node *w, Node *u)
{
    Node *x = build_einsum(&c->in, h, w, "mk,nk->mn");
    return build1(&c->in, OP_TANH, build2(&c->in, OP_ADD, x, u));
}

static Shape with_steps(int64_t count, const Shape *s)
{
    Shape t = {.rank = s->rank + 1, .dim = {count}};
    for (int i = 0; i < s->rank; i++)
        t.dim[i + 1] = s->dim[i];
    return t;
}

/* Two carried values, one of which only decays; what is used of the results is drawn too. */
Node *make_loop(Maker *m)
{
    Random *r = &m->random;
    const int64_t count = random_between(r, 1, 5), rows = random_between(r, 1, 5),
                  width = random_between(r, 1, 9);
    const Shape state = shape_of(2, (const int64_t[]){rows, width}),
                square = shape_of(2, (const int64_t[]){width, width});
    const Shape inputs = with_steps(count, &state), line = shape_of(1, &width);
    Node *first = make_bent(m, make_param(m, &state)),
         *u = make_bent(m, make_param(m, &inputs));
    Node *w = make_param(m, &square), *slow = make_param(m, &line);
    Cell c;
    open_cell(m, &c, &m->b, count);
    Node *h = loop_carried(&c.draft, "h", first, &first->type),
         *s = loop_carried(&c.draft, "s", slow, &slow->type);
    Node *next = recur(&c, h, loop_invariant(&c.draft, w), loop_scanned(&c.draft, u));
    next = build2(&c.in, OP_MUL, next, s);
    loop_next(&c.draft, next);
    loop_next(&c.draft, build2(&c.in, OP_MUL, s, build_const(&c.in, DT_F64, 0.75)));
    const int kept = loop_stack(&c.draft, next),
              squares = loop_stack(&c.draft, build2(&c.in, OP_MUL, h, s));
    Node *loop = loop_end(&c.draft, "steps");
    Node *all = loop_stacked(&m->b, loop, kept, "all");
    switch (random_below(r, 4)) {
    case 0:
        return loop_result(&m->b, loop, 0, "last");
    case 1:
        return all;
    case 2:
        return build2(&m->b, OP_MUL, all, loop_stacked(&m->b, loop, squares, "squares"));
    default:
        return build2(&m->b, OP_ADD, all,
                      build2(&m->b, OP_MUL, loop_result(&m->b, loop, 0, "last"),
                             loop_result(&m->b, loop, 1, "slow")));
    }
}
