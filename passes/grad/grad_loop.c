/* The gradient of a loop is a loop that runs the other way.
 *
 * The body is copied into a joint graph and swept there once, from the adjoints of its next and
 * stacked values to those of its arguments.  What the sweep added becomes the new body.  It
 * carries the adjoints of the carried values; what it needs of the forward round is scanned:
 * values that are cheap are computed again, all others the forward loop stacks.
 *
 * The gradient of an invariant operand is a sum over rounds.  Where a term of it is a contraction
 * or a sum of values of the round - a recurrent weight, a bias - these values are stacked and one
 * contraction after the loop sums over rounds too, which is far cheaper than a small product a
 * round; any other term is carried as a running sum. */
#include <string.h>

#include "ir/loop.h"
#include "ir/shape.h"
#include "passes/grad/grad.h"
#include "passes/rewrite.h"

enum {
    COST_AGAIN = 2, /* scalar functions up to this are computed again */
    MAX_TERMS = 16
};

/* One term of an invariant operand's gradient; node: of the joint graph. */
typedef struct Term {
    const Node *node;
    int carried; /* number among the carried values of the running sum; -1: lifted */
} Term;

typedef struct Reverse {
    Adjoint *c;
    Node *loop;
    Graph *body, *joint;
    int n; /* nodes of body; the joint graph begins with their copies, in order */
    Sweep sweep;
    Arena *scratch;
    LoopDraft draft;
    Node **done;  /* by joint id: what stands for it in the new body */
    Node **saved; /* by body id: its stacked value, outside */
    bool *varies; /* by joint id: from round to round */
    int *stacked; /* by joint id: number among the new loop's stacked values, -1 */
    Node **given; /* by joint id: of the arguments that bring adjoints: the operand, outside */
    Node *back;   /* the new loop */
} Reverse;

static Arena *arena_of(const Reverse *r)
{
    return r->body->module->arena;
}

/* ---- the joint graph ---- */

static void copy_body(Reverse *r)
{
    graph_drop_dead(r->body);
    r->n = r->body->n_nodes;
    r->joint = loop_body_new(r->body->module, r->body->name);
    graph_foreach (r->body, n) {
        Node copy = *n;
        copy.in = arena_array(r->scratch, (size_t)n->n_in + 1, sizeof *copy.in);
        for (int i = 0; i < n->n_in; i++)
            copy.in[i] = r->joint->nodes[n->in[i]->id];
        graph_append(r->joint, &copy);
    }
}

static Node *joint_arg(const Reverse *r, int operand)
{
    const Node *arg = loop_arg(r->loop, operand);
    return arg ? r->joint->nodes[arg->id] : NULL;
}

/* An operand that depends makes its argument depend, and a next value that does the carried
 * argument. */
static void find_dependent(Reverse *r)
{
    bool *depends = r->sweep.depends;
    const bool *outside = r->c->sweep->depends;
    for (int i = 0; i < r->loop->n_in; i++) {
        const Node *arg = joint_arg(r, i);
        if (arg && sweep_real(arg) && outside[r->loop->in[i]->id])
            depends[arg->id] = true;
    }
    for (bool changed = true; changed;) {
        changed = false;
        sweep_mark(&r->sweep, r->n - 1);
        for (int k = 0; k < r->loop->attrs.loop.carried; k++) {
            const Node *arg = joint_arg(r, k), *next = r->body->outputs[k].value;
            if (!arg || !sweep_real(arg) || depends[arg->id] || !depends[next->id])
                continue;
            depends[arg->id] = changed = true;
        }
    }
}

/* The adjoint of result i as the sweep outside has it, or NULL. */
static Node *result_adjoint(const Reverse *r, int i)
{
    const Sweep *s = r->c->sweep;
    Node *sum = NULL;
    for (int k = 0; k < s->n; k++) {
        const Node *n = s->graph->nodes[k];
        if (!node_is_result(n) || n->in[0] != r->loop || n->attrs.slot.index != i ||
            !s->adjoint[k])
            continue;
        sum = sum ? build2(r->c->b, OP_ADD, sum, s->adjoint[k]) : s->adjoint[k];
    }
    return sum;
}

static Node *zeros_like(Builder *b, const Type *t)
{
    return build_full(b, t->dtype, &t->shape, 0);
}

static Type plain_type(const Node *n)
{
    return (Type){.dtype = n->type.dtype, .shape = n->type.shape};
}

/* An argument of the joint graph through which the adjoint of output i comes in. */
static Node *seed_output(Reverse *r, Builder *b, int i)
{
    const Node *value = r->body->outputs[i].value;
    Node n = {.op = OP_ARG, .type = plain_type(value), .loc = value->loc};
    n.name = arena_printf(arena_of(r), "%s.grad", value->name);
    attrs_default(op_info(n.op)->attrs, &n.attrs);
    Node *seed = graph_append(r->joint, &n);
    Node **adjoint = &r->sweep.adjoint[value->id];
    *adjoint = *adjoint ? build2(b, OP_ADD, *adjoint, seed) : seed;
    return seed;
}

/* The adjoints that flow into the round: carried ones where the carried value depends, the others
 * where a result has one. */
static void seed_outputs(Reverse *r, Builder *b, Node **seed, Node **operand)
{
    const int n_carried = (int)r->loop->attrs.loop.carried;
    for (int i = 0; i < r->body->n_outputs; i++) {
        const Node *value = r->body->outputs[i].value;
        const Node *arg = i < n_carried ? joint_arg(r, i) : NULL;
        if (!sweep_real(value))
            continue;
        operand[i] = result_adjoint(r, i);
        const bool carried = arg && r->sweep.depends[arg->id];
        if (!operand[i] && !carried)
            continue;
        if (!operand[i])
            operand[i] = zeros_like(r->c->b, &value->type);
        seed[i] = seed_output(r, b, i);
    }
}

/* ---- the new body ---- */

static bool is_cheap(const Node *n)
{
    switch (op_info(n->op)->kind) {
    case KIND_EXPR:
        return scalar_cost((ScalarFn)op_info(n->op)->data) <= COST_AGAIN;
    case KIND_VIEW:
        return true;
    case KIND_INDEX:
        return op_info(n->op)->data == INDEX_IOTA;
    case KIND_LEAF:
    case KIND_REDUCE:
    case KIND_CONTRACT:
    case KIND_SCATTER:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    return n->op == OP_DETACH || n->op == OP_SLOPE;
}

/* Can the forward value be had without being stacked? */
static bool is_free(const Reverse *r, const Node *x)
{
    if (r->done[x->id])
        return true;
    if (node_is_arg(x))
        return loop_role(r->loop, x->attrs.slot.index) != LOOP_CARRIED;
    if (op_info(x->op)->kind == KIND_LEAF)
        return true;
    if (!is_cheap(x))
        return false;
    for (int i = 0; i < x->n_in; i++)
        if (!is_free(r, x->in[i]))
            return false;
    return true;
}

/* The forward loop stacks the value. */
static Node *save(Reverse *r, const Node *x)
{
    if (!r->saved[x->id]) {
        const int number = loop_add_stack(r->loop, r->body->nodes[x->id]);
        const char *hint = arena_printf(arena_of(r), "%s.all", x->name);
        r->saved[x->id] = loop_stacked(r->c->b, r->loop, number, hint);
    }
    return r->saved[x->id];
}

static Node *moved(Reverse *r, const Node *x);

static Node *move_node(Reverse *r, const Node *x)
{
    Node n = *x;
    n.in = arena_array(r->scratch, (size_t)x->n_in + 1, sizeof *n.in);
    for (int i = 0; i < x->n_in; i++)
        n.in[i] = moved(r, x->in[i]);
    return graph_append(r->draft.body, &n);
}

static Node *move_forward(Reverse *r, const Node *x)
{
    if (node_is_arg(x)) {
        Node *operand = r->loop->in[x->attrs.slot.index];
        switch (loop_role(r->loop, x->attrs.slot.index)) {
        case LOOP_SCANNED:
            return loop_scanned(&r->draft, operand);
        case LOOP_INVARIANT:
            return loop_invariant(&r->draft, operand);
        case LOOP_CARRIED:
            break;
        }
    }
    return is_free(r, x) ? move_node(r, x) : loop_scanned(&r->draft, save(r, x));
}

/* What stands in the new body for a node of the joint graph. */
static Node *moved(Reverse *r, const Node *x)
{
    if (!r->done[x->id])
        r->done[x->id] = x->id < r->n ? move_forward(r, x) : move_node(r, x);
    return r->done[x->id];
}

static void begin_body(Reverse *r, Node *const *seed, Node *const *operand)
{
    const size_t size = (size_t)r->joint->n_nodes + 1;
    r->done = arena_array(r->scratch, size, sizeof *r->done);
    r->saved = arena_array(r->scratch, size, sizeof *r->saved);
    r->given = arena_array(r->scratch, size, sizeof *r->given);
    r->stacked = arena_array(r->scratch, size, sizeof *r->stacked);
    for (size_t i = 0; i < size; i++)
        r->stacked[i] = -1;
    Graph *body = loop_body_new(r->body->module, r->body->name);
    loop_begin(&r->draft, r->c->b, body, r->loop->attrs.loop.count,
               !r->loop->attrs.loop.reverse);
    for (int i = 0; i < r->body->n_outputs; i++) {
        if (!seed[i])
            continue;
        const Type type = plain_type(seed[i]);
        const bool carried = i < r->loop->attrs.loop.carried;
        r->done[seed[i]->id] = carried
                                   ? loop_carried(&r->draft, seed[i]->name, operand[i], &type)
                                   : loop_scanned(&r->draft, operand[i]);
        if (!carried)
            r->given[seed[i]->id] = operand[i];
    }
}

/* ---- sums over rounds ---- */

static void find_varying(Reverse *r)
{
    r->varies = arena_array(r->scratch, (size_t)r->joint->n_nodes + 1, sizeof *r->varies);
    graph_foreach (r->joint, n) {
        if (node_is_arg(n))
            r->varies[n->id] =
                n->id >= r->n || loop_role(r->loop, n->attrs.slot.index) != LOOP_INVARIANT;
        for (int i = 0; i < n->n_in; i++)
            r->varies[n->id] |= r->varies[n->in[i]->id];
    }
}

/* Can all rounds' values of x be had outside? */
static bool has_rounds(const Reverse *r, const Node *x)
{
    return r->varies[x->id] ? x->type.shape.rank < MAX_RANK : node_is_arg(x) && x->id < r->n;
}

static bool is_moving(const Node *v)
{
    return v->op == OP_RESHAPE || v->op == OP_PERMUTE;
}

static bool can_lift(const Reverse *r, const Node *v)
{
    if (v->id < r->n || !r->varies[v->id])
        return false;
    if (is_moving(v))
        return can_lift(r, v->in[0]);
    if (v->op == OP_EINSUM)
        return has_rounds(r, v->in[0]) && has_rounds(r, v->in[1]);
    return v->op == OP_SUM && has_rounds(r, v->in[0]);
}

/* Sees to it that all rounds' values of x are there after the loop. */
static void want_rounds(Reverse *r, const Node *x)
{
    if (!r->varies[x->id] || r->given[x->id] ||
        (x->id < r->n && node_is_arg(x) &&
         loop_role(r->loop, x->attrs.slot.index) == LOOP_SCANNED))
        return;
    if (x->id < r->n)
        save(r, x);
    else
        r->stacked[x->id] = loop_stack(&r->draft, moved(r, x));
}

static void want_lift(Reverse *r, const Node *v)
{
    if (is_moving(v)) {
        want_lift(r, v->in[0]);
        return;
    }
    for (int i = 0; i < v->n_in; i++)
        want_rounds(r, v->in[i]);
}

/* All rounds' values of x along a first axis; of what does not vary the value. */
static Node *rounds_of(const Reverse *r, const Node *x)
{
    if (r->given[x->id])
        return r->given[x->id];
    if (x->id < r->n && r->saved[x->id])
        return r->saved[x->id];
    if (x->id < r->n)
        return r->loop->in[x->attrs.slot.index];
    return loop_stacked(r->c->b, r->back, r->stacked[x->id],
                        arena_printf(arena_of(r), "%s.all", x->name));
}

static char unused_letter(const char *spec)
{
    char letter = 't';
    while (strchr(spec, letter))
        letter = letter == 'z' ? 'a' : (char)(letter + 1);
    return letter;
}

static Node *lift_einsum(const Reverse *r, const Node *v)
{
    EinsumSpec s;
    if (!einsum_parse(v->attrs.einsum.spec, &s))
        return NULL;
    const char letter = unused_letter(v->attrs.einsum.spec);
    const char round[] = {letter, '\0'};
    const char *spec = arena_printf(
        arena_of(r), "%s%.*s,%s%.*s->%.*s", r->varies[v->in[0]->id] ? round : "", s.n_a, s.a,
        r->varies[v->in[1]->id] ? round : "", s.n_b, s.b, s.n_out, s.out);
    return build_einsum(r->c->b, rounds_of(r, v->in[0]), rounds_of(r, v->in[1]), spec);
}

static Node *lift_sum(const Reverse *r, const Node *v)
{
    int64_t dims[MAX_RANK] = {0};
    const IntList *own = &v->attrs.axes.dims;
    for (int i = 0; i < own->n; i++)
        dims[i + 1] = own->v[i] + 1;
    Node *sum = build_reduce(r->c->b, OP_SUM, rounds_of(r, v->in[0]), own->n + 1, dims, false);
    return build_reshape(r->c->b, sum, &v->type.shape);
}

/* The sum over all rounds of a node of the joint graph. */
static Node *lifted(const Reverse *r, const Node *v)
{
    if (v->op == OP_RESHAPE)
        return build_reshape(r->c->b, lifted(r, v->in[0]), &v->type.shape);
    if (v->op == OP_PERMUTE)
        return build_permute(r->c->b, lifted(r, v->in[0]), v->attrs.perm.dims.v);
    return v->op == OP_EINSUM ? lift_einsum(r, v) : lift_sum(r, v);
}

static bool splits(const Node *v)
{
    return v->op == OP_ADD && shape_equal(&v->in[0]->type.shape, &v->type.shape) &&
           shape_equal(&v->in[1]->type.shape, &v->type.shape);
}

/* v as a sum of at most MAX_TERMS terms. */
static void find_terms(const Reverse *r, const Node *v, Term *terms, int *n)
{
    if (v->id >= r->n && splits(v) && *n + 2 < MAX_TERMS) {
        find_terms(r, v->in[0], terms, n);
        find_terms(r, v->in[1], terms, n);
        return;
    }
    terms[(*n)++] = (Term){.node = v, .carried = -1};
}

/* A carried value that starts at zero and to which each round adds v. */
static int carry_sum(Reverse *r, const Node *v)
{
    const Type type = plain_type(v);
    Node *zero = zeros_like(r->c->b, &type);
    const char *name = arena_printf(arena_of(r), "%s.sum", v->name);
    Node *sum = loop_carried(&r->draft, name, zero, &type);
    Builder b = {.graph = r->draft.body, .loc = v->loc, .hint = name};
    loop_next(&r->draft, build2(&b, OP_ADD, sum, moved(r, v)));
    return r->draft.n_next - 1;
}

static void want_terms(Reverse *r, Term *terms, int n)
{
    for (int i = 0; i < n; i++)
        if (can_lift(r, terms[i].node))
            want_lift(r, terms[i].node);
        else
            terms[i].carried = carry_sum(r, terms[i].node);
}

static Node *sum_terms(const Reverse *r, const Term *terms, int n)
{
    Node *sum = NULL;
    for (int i = 0; i < n; i++) {
        Node *v = terms[i].carried >= 0
                      ? loop_result(r->c->b, r->back, terms[i].carried, r->c->b->hint)
                      : lifted(r, terms[i].node);
        sum = sum ? build2(r->c->b, OP_ADD, sum, v) : v;
    }
    return sum;
}

/* ---- what flows out ---- */

typedef struct Flow {
    int carried, stacked; /* numbers of the new loop's values, -1: none */
    Term terms[MAX_TERMS];
    int n_terms;
} Flow;

/* The next values of the carried adjoints, in their order. */
static void flow_carried(Reverse *r, Node *const *seed, Flow *flow)
{
    for (int k = 0; k < r->loop->attrs.loop.carried; k++) {
        if (!seed[k])
            continue;
        const Node *arg = joint_arg(r, k), *adjoint = arg ? r->sweep.adjoint[arg->id] : NULL;
        Builder b = {.graph = r->draft.body, .loc = seed[k]->loc, .hint = seed[k]->name};
        loop_next(&r->draft, adjoint ? moved(r, adjoint) : zeros_like(&b, &seed[k]->type));
        flow[k].carried = r->draft.n_next - 1;
    }
}

static void flow_others(Reverse *r, Flow *flow)
{
    for (int i = (int)r->loop->attrs.loop.carried; i < r->loop->n_in; i++) {
        const Node *arg = joint_arg(r, i), *adjoint = arg ? r->sweep.adjoint[arg->id] : NULL;
        if (!adjoint || !r->sweep.depends[arg->id])
            continue;
        if (loop_role(r->loop, i) == LOOP_SCANNED) {
            flow[i].stacked = loop_stack(&r->draft, moved(r, adjoint));
            continue;
        }
        find_terms(r, adjoint, flow[i].terms, &flow[i].n_terms);
        want_terms(r, flow[i].terms, flow[i].n_terms);
    }
}

static void add_flow(Reverse *r, int i, const Flow *f)
{
    Adjoint *c = r->c;
    const bool any = f->carried >= 0 || f->stacked >= 0 || f->n_terms > 0;
    if (!any || !adjoint_wanted(c, i))
        return;
    if (f->n_terms > 0)
        adjoint_add(c, i, sum_terms(r, f->terms, f->n_terms));
    else if (f->stacked >= 0)
        adjoint_add(c, i, loop_stacked(c->b, r->back, f->stacked, c->b->hint));
    else
        adjoint_add(c, i, loop_result(c->b, r->back, f->carried, c->b->hint));
}

static void build_reverse(Reverse *r)
{
    const size_t n_out = (size_t)r->body->n_outputs + 1, n_in = (size_t)r->loop->n_in + 1;
    Node **seed = arena_array(r->scratch, n_out, sizeof *seed);
    Node **operand = arena_array(r->scratch, n_out, sizeof *operand);
    Flow *flow = arena_array(r->scratch, n_in, sizeof *flow);
    Builder b = {.graph = r->joint, .loc = r->loop->loc};
    for (int i = 0; i < r->loop->n_in; i++)
        flow[i].carried = flow[i].stacked = -1;
    find_dependent(r);
    seed_outputs(r, &b, seed, operand);
    if (!sweep_back(&r->sweep, &b, r->n - 1))
        return;
    find_varying(r);
    begin_body(r, seed, operand);
    flow_carried(r, seed, flow);
    flow_others(r, flow);
    r->c->b->loc = r->loop->loc;
    r->back = loop_end(&r->draft, arena_printf(arena_of(r), "%s.grad", r->loop->name));
    for (int i = 0; r->back && i < r->loop->n_in; i++)
        add_flow(r, i, &flow[i]);
}

static const Node *inner_loop(const Graph *body)
{
    graph_foreach (body, n)
        if (node_is_loop(n))
            return n;
    return NULL;
}

void grad_loop(Adjoint *c)
{
    const Node *inner = inner_loop(c->y->body);
    if (inner) {
        diag_error(c->b->graph->module->diag, inner->loc,
                   "a loop inside a loop has no gradient, and one is asked for");
        return;
    }
    Reverse r = {.c = c, .loop = c->y, .body = c->y->body, .scratch = arena_new()};
    copy_body(&r);
    r.sweep = (Sweep){.graph = r.joint, .n = r.n};
    r.sweep.adjoint = arena_array(r.scratch, (size_t)r.n + 1, sizeof *r.sweep.adjoint);
    r.sweep.depends = arena_array(r.scratch, (size_t)r.n + 1, sizeof *r.sweep.depends);
    build_reverse(&r);
    arena_free(r.scratch);
}

/* The loop is visited after its results, which tell it that there are adjoints. */
void grad_result(Adjoint *c)
{
    if (adjoint_wanted(c, 0))
        c->sweep->adjoint[c->in[0]->id] = c->g;
}
