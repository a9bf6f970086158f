/* Constant folding, identities, common subexpressions, dead nodes.
 *
 * One walk from operands to results: a node over simplified operands is folded or rewritten until
 * no rule applies, then looked up among the nodes before it by operator, attributes, operands and
 * type; an equal one stands for both.  A rule's inner nodes are met by the next walk; walks end
 * when nothing changes.  A random node's path is an attribute: equal paths are equal values. */
#include "passes/passes.h"

#include <string.h>

#include "ir/loop.h"
#include "passes/rewrite.h"

enum {
    MAX_WALKS = 8,
    MAX_STEPS = 16
};

typedef struct Entry {
    uint64_t hash;
    Node *node;
} Entry;

typedef struct Simplifier {
    Arena *scratch;
    Entry *table; /* open addressing; capacity is a power of two */
    size_t n, cap;
    int changes;
} Simplifier;

static bool type_identical(const Type *a, const Type *b)
{
    return type_equal(a, b) && a->models.lo == b->models.lo && a->models.hi == b->models.hi &&
           !memcmp(a->shape.batch, b->shape.batch,
                   (size_t)a->shape.rank * sizeof *a->shape.batch);
}

static const bool commutative[SC_COUNT] = {
    [SC_ADD] = true, [SC_MUL] = true, [SC_EQ] = true,
    [SC_NE] = true,  [SC_AND] = true, [SC_OR] = true,
};

static bool commutes(OpCode op)
{
    const OpInfo *info = op_info(op);
    return info->kind == KIND_EXPR && commutative[info->data];
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t node_hash(const Node *n)
{
    uint64_t h = mix((uint64_t)n->op, attrs_hash(op_info(n->op)->attrs, &n->attrs));
    if (commutes(n->op)) {
        const uint64_t x = (uint64_t)n->in[0]->id, y = (uint64_t)n->in[1]->id;
        return mix(mix(h, x + y), x * y);
    }
    for (int i = 0; i < n->n_in; i++)
        h = mix(h, (uint64_t)n->in[i]->id);
    return h;
}

static bool same_operands(const Node *a, const Node *b)
{
    if (a->n_in != b->n_in)
        return false;
    if (commutes(a->op) && a->in[0] == b->in[1] && a->in[1] == b->in[0])
        return true;
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i] != b->in[i])
            return false;
    return true;
}

static bool same_node(const Node *a, const Node *b)
{
    return a->op == b->op && !a->body && !b->body && same_operands(a, b) &&
           type_identical(&a->type, &b->type) &&
           attrs_equal(op_info(a->op)->attrs, &a->attrs, &b->attrs);
}

static Entry *slot_for(const Simplifier *s, uint64_t hash, const Node *n)
{
    size_t i = (size_t)hash & (s->cap - 1);
    while (s->table[i].node && (s->table[i].hash != hash || !same_node(s->table[i].node, n)))
        i = (i + 1) & (s->cap - 1);
    return &s->table[i];
}

static void table_grow(Simplifier *s)
{
    const Entry *old = s->table;
    const size_t n_old = s->cap;
    s->cap = n_old ? 2 * n_old : 1024;
    s->table = arena_array(s->scratch, s->cap, sizeof *s->table);
    for (size_t i = 0; i < n_old; i++)
        if (old[i].node)
            *slot_for(s, old[i].hash, old[i].node) = old[i];
}

/* The first node that is equal to n: perhaps n. */
static Node *first_equal(Simplifier *s, Node *n)
{
    if (2 * (s->n + 1) > s->cap)
        table_grow(s);
    const uint64_t hash = node_hash(n);
    Entry *e = slot_for(s, hash, n);
    if (!e->node) {
        *e = (Entry){.hash = hash, .node = n};
        s->n++;
    }
    return e->node;
}

/* Identities first: what they make of an operator (a square root of a power) is then folded as it
 * would run. */
static Node *one_step(Builder *b, Node *n)
{
    Node *v = apply_identity(b, n);
    if (v == n)
        v = fold_constant(b, n);
    return v && type_identical(&v->type, &n->type) ? v : n;
}

static Node *simplify_step(Builder *b, Node *n, void *context)
{
    Simplifier *s = context;
    Node *v = n;
    if (node_is_loop(n))
        simplify_graph(n->body);
    for (int i = 0; i < MAX_STEPS; i++) {
        Node *next = one_step(b, v);
        if (next == v)
            break;
        v = next;
    }
    v = first_equal(s, v);
    s->changes += v != n;
    return v;
}

/* An argument that is the same constant in every round is one. */
static void constant_arguments(const Node *loop)
{
    double v;
    graph_foreach (loop->body, n) {
        if (!node_is_arg(n))
            continue;
        const int64_t i = n->attrs.slot.index;
        if (loop_role(loop, i) == LOOP_CARRIED || !const_uniform(loop->in[i], &v))
            continue;
        double *data = arena_array(loop->body->module->arena, 1, sizeof *data);
        *data = v;
        n->op = OP_CONST;
        attrs_default(op_info(n->op)->attrs, &n->attrs);
        n->attrs.value.data = (RealList){.n = 1, .v = data};
    }
}

static void trim_loops(Graph *g)
{
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (node_is_loop(g->nodes[i])) {
            constant_arguments(g->nodes[i]);
            loop_trim(g, g->nodes[i]);
        }
    graph_drop_dead(g);
}

void simplify_graph(Graph *g)
{
    graph_drop_dead(g);
    trim_loops(g);
    for (int walk = 0; walk < MAX_WALKS; walk++) {
        Simplifier s = {.scratch = arena_new()};
        rewrite_graph(g, simplify_step, &s);
        arena_free(s.scratch);
        if (s.changes == 0)
            return;
    }
}

void simplify(Module *m)
{
    for (int i = 0; i < m->n_graphs; i++)
        simplify_graph(m->graphs[i]);
    m->stage = MODULE_SIMPLE;
}
