/* The nodes in the body of a loop that is being tried (elab_loop.c): which of them depend on the
 * round and which are moved in front of the loop, the counter as a number or tensor, and the
 * elements that a loop reads from a tensor (scans) or writes to one (collects) round by round. */
#include "frontend/elaborate/elab_loop.h"

#include <string.h>

#include "frontend/values/batch.h"

bool loop_refuse(LoopTrial *t, const char *why)
{
    diag_error(t->e->diag, t->repeat->loc, "no loop: %s", why);
    return false;
}

/* ---- nodes that do not depend on the round ---- */

bool loop_inside(const LoopTrial *t, const Node *n)
{
    return n->id < t->graph->n_nodes && t->graph->nodes[n->id] == n;
}

bool loop_varies(LoopTrial *t, const Node *n)
{
    if (!loop_inside(t, n) || t->n_varies == t->graph->n_nodes)
        return loop_inside(t, n) && t->varies[n->id];
    bool *known = arena_array(t->e->arena, (size_t)t->graph->n_nodes + 1, sizeof *known);
    if (t->n_varies)
        memcpy(known, t->varies, (size_t)t->n_varies * sizeof *known);
    for (; t->n_varies < t->graph->n_nodes; t->n_varies++) {
        const Node *x = t->graph->nodes[t->n_varies];
        known[x->id] = node_is_arg(x);
        for (int i = 0; i < x->n_in; i++)
            known[x->id] |= loop_inside(t, x->in[i]) && known[x->in[i]->id];
    }
    t->varies = known;
    return known[n->id];
}

static Node *move_leaf(LoopTrial *t, const Node *n)
{
    Builder b = t->outer;
    b.loc = n->loc;
    return build_same_leaf(&b, n);
}

/* The node outside that has the value of n, which does not vary. */
Node *loop_move_out(LoopTrial *t, Node *n)
{
    if (!loop_inside(t, n))
        return n;
    if (t->cap_moved < t->graph->n_nodes) {
        const int cap = 2 * t->graph->n_nodes;
        Node **moved = arena_array(t->e->arena, (size_t)cap, sizeof *moved);
        if (t->cap_moved)
            memcpy(moved, t->moved, (size_t)t->cap_moved * sizeof *moved);
        t->moved = moved;
        t->cap_moved = cap;
    }
    if (t->moved[n->id])
        return t->moved[n->id];
    Node *copy;
    if (op_info(n->op)->kind == KIND_LEAF) {
        copy = move_leaf(t, n);
    } else {
        Node m = *n;
        m.in = arena_array(t->e->arena, (size_t)n->n_in + 1, sizeof *m.in);
        for (int i = 0; i < n->n_in; i++)
            m.in[i] = loop_move_out(t, n->in[i]);
        copy = graph_append(t->outer.graph, &m);
    }
    return t->moved[n->id] = copy;
}

/* ---- what arguments stand for ---- */

const Node *loop_argument(const LoopTrial *t, const Node *arg, bool *number)
{
    *number = false;
    for (int i = 0; i < t->n_carried; i++)
        if (t->carried[i].arg == arg) {
            *number = t->carried[i].weak && dtype_class(arg->type.dtype) == DTC_INT;
            return NULL;
        }
    const Node *scanned = loop_draft_operand(&t->draft, arg, LOOP_SCANNED);
    return scanned != NULL ? scanned : loop_draft_operand(&t->draft, arg, LOOP_INVARIANT);
}

bool loop_numbers(LoopTrial *t, const Node *n)
{
    bool *needed = arena_array(t->e->arena, (size_t)n->id + 1, sizeof *needed);
    bool number = false;
    needed[n->id] = true;
    for (int i = n->id; i >= 0 && !number; i--) {
        const Node *x = t->graph->nodes[i];
        if (needed[i] && x->op == OP_ARG)
            loop_argument(t, x, &number);
        for (int k = 0; needed[i] && k < x->n_in; k++)
            needed[x->in[k]->id] = true;
    }
    return number;
}

/* ---- the counter ---- */

Value loop_counter_value(int64_t step, int64_t base)
{
    if (step == 0)
        return value_int(base);
    return (Value){.kind = V_COUNTER, .counter = {step, base}};
}

bool loop_whole_number(const Value *v, int64_t *out)
{
    if (v->kind != V_NUM || !v->integer || batch_number(v) || v->num < -1e9 || v->num > 1e9)
        return false;
    *out = (int64_t)v->num;
    return true;
}

/* Small enough that all rounds' values are integers of 2^53 (a repeat has at most 2^20 rounds). */
static bool counter_allowed(int64_t step, int64_t base)
{
    const int64_t most_step = INT64_C(1) << 32, most_base = INT64_C(1) << 52;
    return step >= -most_step && step <= most_step && base >= -most_base && base <= most_base;
}

static bool counter_result(int64_t step, int64_t base, Value *out)
{
    if (!counter_allowed(step, base))
        return false;
    *out = loop_counter_value(step, base);
    return true;
}

bool loop_counter_binary(OpCode op, const Value *a, const Value *b, Value *out)
{
    int64_t n = 0;
    const bool left = a->kind == V_COUNTER, right = b->kind == V_COUNTER;
    if (left && right && (op == OP_ADD || op == OP_SUB)) {
        const int64_t sign = op == OP_ADD ? 1 : -1;
        return counter_result(a->counter.step + sign * b->counter.step,
                              a->counter.base + sign * b->counter.base, out);
    }
    if (left == right || !loop_whole_number(left ? b : a, &n))
        return false;
    const int64_t step = left ? a->counter.step : b->counter.step;
    const int64_t base = left ? a->counter.base : b->counter.base;
    if (op == OP_ADD)
        return counter_result(step, base + n, out);
    if (op == OP_MUL && n > -1000 && n < 1000)
        return counter_result(step * n, base * n, out);
    if (op == OP_SUB)
        return left ? counter_result(step, base - n, out)
                    : counter_result(-step, n - base, out);
    return false;
}

Value loop_counter_tensor(Elab *e, const Value *v)
{
    LoopTrial *t = e->loop;
    if (t == NULL)
        return value_error();
    if (t->rounds == NULL) {
        const Shape line = {.rank = 1, .dim = {t->count}};
        Builder b = t->outer;
        b.hint = "rounds";
        t->rounds = build_iota(&b, &line, 0);
    }
    Builder b = e->b;
    b.hint = "round";
    Node *n = loop_scanned(&t->draft, t->rounds);
    n = build2(&b, OP_MUL, n, build_const(&b, DT_I64, (double)v->counter.step));
    n = build2(&b, OP_ADD, n, build_const(&b, DT_I64, (double)v->counter.base));
    return value_node(n, true);
}

bool loop_counter_index(Elab *e, const Value *v, int64_t n, int64_t *start, int64_t *step,
                        int64_t *size)
{
    const LoopTrial *t = e->loop;
    if (t == NULL)
        return false;
    const int64_t lo = v->counter.base, hi = lo + v->counter.step * (t->count - 1);
    const bool front = lo >= 0 && hi >= 0 && lo < n && hi < n;
    const bool back = lo < 0 && hi < 0 && lo >= -n && hi >= -n;
    *start = back ? lo + n : lo;
    *step = v->counter.step;
    *size = t->count;
    return front || back;
}

Node *loop_scan(Elab *e, Node *x, int axis)
{
    LoopTrial *t = e->loop;
    if (x == NULL || t == NULL)
        return NULL;
    if (loop_varies(t, x)) {
        loop_refuse(t, "it takes an element of what changes from round to round");
        return NULL;
    }
    int64_t perm[MAX_RANK] = {axis};
    for (int i = 0, n = 1; i < x->type.shape.rank; i++)
        if (i != axis)
            perm[n++] = i;
    Builder b = t->outer;
    b.loc = e->b.loc;
    return loop_scanned(&t->draft, build_permute(&b, loop_move_out(t, x), perm));
}

Node *loop_random(Elab *e, const char *path, const Shape *shape, Node *step)
{
    LoopTrial *t = e->loop;
    Shape all = {.rank = shape->rank + 1, .dim = {t->count}};
    if (all.rank > MAX_RANK) {
        loop_refuse(t, "its random values have too many axes");
        return NULL;
    }
    for (int i = 1; i < all.rank; i++) {
        all.dim[i] = shape->dim[i - 1];
        all.batch[i] = shape->batch[i - 1];
    }
    e->loop = NULL; /* of all rounds at once */
    Node *bits = random_bits(e, path, &all, step);
    e->loop = t;
    return loop_scan(e, bits, 0);
}

bool loop_collect(Elab *e, const Ast *target, const Value *index, const Value *v)
{
    LoopTrial *t = e->loop;
    if (t == NULL || strcmp(target->name, "self") == 0 || v->kind != V_TENSOR || v->weight)
        return t != NULL && loop_refuse(t, "it collects what is no tensor");
    for (int i = 0; i < t->n_collected; i++) {
        Collected *c = &t->collected[i];
        if (strcmp(c->name, target->name) != 0)
            continue;
        if (c->value != NULL)
            return loop_refuse(t, "it gives an element two values");
        c->step = index->counter.step;
        c->base = index->counter.base;
        c->value = v->node;
        c->weak = v->weak;
        c->loc = target->loc;
        return true;
    }
    return loop_refuse(t, "it collects in a list of another body");
}

/* ---- the finished body ---- */

/* n as a node of the body. */
Node *loop_in_body(LoopTrial *t, Node *n)
{
    if (loop_varies(t, n))
        return n;
    if (loop_inside(t, n) && n->op == OP_CONST && n->attrs.value.data.n == 1)
        return n;
    return loop_invariant(&t->draft, loop_move_out(t, n));
}

/* What does not vary leaves the body's graph, except for constants that it reads. */
/* The operand that an argument scans, or NULL. */
static Node *scanned_operand(const LoopTrial *t, const Node *arg)
{
    return loop_draft_operand(&t->draft, arg, LOOP_SCANNED);
}

/* Is n elementwise computed from scanned values and numbers outside only?  *widest: bytes of the
 * widest element that is scanned. */
static bool scans_only(LoopTrial *t, const Node *n, int *widest)
{
    if (node_is_arg(n) && scanned_operand(t, n)) {
        const int bytes = dtype_bytes(n->type.dtype);
        *widest = bytes > *widest ? bytes : *widest;
        return n->type.shape.rank < MAX_RANK;
    }
    if (op_info(n->op)->kind != KIND_EXPR)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        const Node *x = n->in[i];
        if (loop_varies(t, x)
                ? !shape_equal(&x->type.shape, &n->type.shape) || !scans_only(t, x, widest)
                : x->type.shape.rank != 0)
            return false;
    }
    return true;
}

/* All rounds' values of such a node. */
static Node *all_rounds(LoopTrial *t, Node *n)
{
    if (!loop_varies(t, n))
        return loop_move_out(t, n);
    if (node_is_arg(n))
        return scanned_operand(t, n);
    Node **in = arena_array(t->e->arena, (size_t)n->n_in + 1, sizeof *in);
    for (int i = 0; i < n->n_in; i++)
        in[i] = all_rounds(t, n->in[i]);
    Builder b = t->outer;
    b.hint = n->name;
    b.loc = n->loc;
    return build(&b, n->op, &n->attrs, n->n_in, in);
}

/* A value that is narrower than what it is computed from is computed for all rounds at once: of
 * random bits only what dropout keeps is in memory. */
static void lift_narrow(LoopTrial *t)
{
    Graph *g = t->graph;
    for (int i = 0, n = g->n_nodes; i < n; i++) {
        Node *x = g->nodes[i];
        int widest = 0;
        if (op_info(x->op)->kind != KIND_EXPR || !loop_varies(t, x))
            continue;
        if (!scans_only(t, x, &widest) || dtype_bytes(x->type.dtype) >= widest)
            continue;
        Node *arg = loop_scanned(&t->draft, all_rounds(t, x));
        graph_replace(g, x, arg);
        for (int k = 0; k < t->draft.n_next; k++)
            t->draft.next[k] = t->draft.next[k] == x ? arg : t->draft.next[k];
        for (int k = 0; k < t->draft.n_stack; k++)
            t->draft.stack[k] = t->draft.stack[k] == x ? arg : t->draft.stack[k];
    }
}

void loop_close_body(LoopTrial *t)
{
    Graph *g = t->graph;
    lift_narrow(t);
    const int n = g->n_nodes;
    for (int i = 0; i < n; i++)
        for (int k = 0; loop_varies(t, g->nodes[i]) && k < g->nodes[i]->n_in; k++)
            g->nodes[i]->in[k] = loop_in_body(t, g->nodes[i]->in[k]);
    loop_varies(t, g->nodes[g->n_nodes - 1]);
    int kept = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (t->varies[i] || g->nodes[i]->op == OP_CONST)
            g->nodes[kept++] = g->nodes[i];
    g->n_nodes = kept;
    graph_sort(g);
}

Node *loop_restack(const Value *v, int n)
{
    Node *all = NULL;
    for (int i = 0; i < n; i++) {
        const Node *x = v[i].kind == V_TENSOR ? v[i].node : NULL;
        const Node *slice = x != NULL && x->op == OP_RESHAPE ? x->in[0] : x;
        if (slice == NULL || slice->op != OP_SLICE || !node_is_result(slice->in[0]))
            return NULL;
        const Shape *s = &slice->in[0]->type.shape;
        if ((all != NULL && all != slice->in[0]) || s->dim[0] != n ||
            slice->attrs.slice.start.v[0] != i || slice->attrs.slice.size.v[0] != 1 ||
            x->type.shape.rank != s->rank - 1)
            return NULL;
        for (int k = 1; k < s->rank; k++)
            if (slice->attrs.slice.size.v[k] != s->dim[k] ||
                x->type.shape.dim[k - 1] != s->dim[k])
                return NULL;
        all = slice->in[0];
    }
    return all;
}
