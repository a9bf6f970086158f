/* A list is its own queue: accesses are appended as they are met and looked at in that order, so
 * that no depth of a kernel asks for stack. */
#include "passes/plan/plan_reads.h"

#include <string.h>

#include "ir/loop.h"

typedef struct Follow {
    AccessList *list;
    Arena *lists; /* where it grows */
    Arena *arena; /* of variables */
    IndexSpace space;
    unsigned *axes; /* by variable; of quotients and remainders: not used */
    int cap_axes;
    KernelOfEntry kernel;
    Index stored; /* the index of the space */
} Follow;

static int new_var(Follow *f, AffineVarKind kind, int64_t extent, unsigned axes)
{
    const int var = index_var(&f->space, kind, 0, extent - 1, false);
    while (var >= f->cap_axes)
        f->axes = arena_grow(f->arena, f->axes, &f->cap_axes, sizeof *f->axes);
    f->axes[var] = axes;
    return var;
}

static unsigned axes_of_form(const Follow *f, const Affine *a)
{
    unsigned axes = 0;
    for (int i = 0; i < a->n; i++) {
        const AffineVar *v = &f->space.var[a->term[i].var];
        const bool made = v->kind == AFFINE_VAR_DIV || v->kind == AFFINE_VAR_MOD;
        axes |= made ? axes_of_form(f, &v->of) : f->axes[a->term[i].var];
    }
    return axes;
}

static unsigned axes_of(const Follow *f, const Index *i)
{
    unsigned axes = 0;
    for (int k = 0; k < i->rank; k++)
        axes |= axes_of_form(f, &i->at[k]);
    return axes;
}

/* One value for all elements: it is written into the code. */
static bool is_splat(const Node *n)
{
    return n->op == OP_CONST && n->attrs.value.data.n == 1;
}

static bool is_leaf_in_memory(const Node *n)
{
    return op_info(n->op)->kind == KIND_LEAF && !is_splat(n);
}

static bool is_exact(const Follow *f, const Node *n, const Index *at)
{
    return shape_equal(&n->type.shape, &f->kernel.kernel->space) && index_equal(at, &f->stored);
}

static void add(Follow *f, Node *n, const Index *at, bool read)
{
    AccessList *l = f->list;
    for (int i = l->first[n->id]; i >= 0; i = l->v[i].next)
        if (index_equal(&l->v[i].at, at))
            return;
    if (l->n == l->cap)
        l->v = arena_grow(f->lists, l->v, &l->cap, sizeof *l->v);
    l->v[l->n] = (Access){.node = n,
                          .at = *at,
                          .axes = axes_of(f, at),
                          .read = read || is_leaf_in_memory(n) || kernel_reads(&f->kernel, n),
                          .exact = at->rank == n->type.shape.rank && is_exact(f, n, at),
                          .next = l->first[n->id]};
    l->first[n->id] = l->n++;
}

/* A value that is an index: whatever it is, it depends on what it is read at. */
static Affine value_as_index(void *follow, Node *index, const Index *at, int64_t extent)
{
    Follow *f = follow;
    add(f, index, at, false);
    return affine_var(new_var(f, AFFINE_VAR_VALUE, extent, axes_of(f, at)));
}

/* Operands that lie in memory and are read in an order of the kernel's own. */
static void follow_direct(Follow *f, const Node *n)
{
    const Index nowhere = {0};
    for (int i = node_is_loop(n) ? (int)n->attrs.loop.carried : 0; i < n->n_in; i++) {
        Node *x = n->in[i];
        while (op_info(x->op)->kind == KIND_VIEW && !kernel_reads(&f->kernel, x))
            x = x->in[0];
        add(f, x, &nowhere, !is_splat(x));
    }
}

static void follow_operands(Follow *f, Node *n, const Index *at)
{
    const OpKind kind = op_info(n->op)->kind;
    if (node_is_result(n)) {
        add(f, n->in[0], at, false);
        return;
    }
    if (kind == KIND_CONTRACT || kind == KIND_SCATTER || node_is_loop(n)) {
        follow_direct(f, n);
        return;
    }
    const Reader reader = {&f->space, value_as_index, f};
    for (int k = 0; k < node_n_read(n); k++) {
        Reading r;
        node_read(&reader, n, k, at, &r);
        const Shape *s = &n->in[k]->type.shape;
        for (int d = 0; kind == KIND_REDUCE && d < s->rank; d++)
            if (reduced_axes(n) >> d & 1 && s->dim[d] > 1)
                r.at.at[d] = affine_var(new_var(f, AFFINE_VAR_LOOP, s->dim[d], ACCESS_REDUCED));
        add(f, n->in[k], &r.at, false);
    }
}

static void follow_store(Follow *f, Node *value)
{
    const Shape *s = &value->type.shape;
    Index at = {.rank = s->rank};
    for (int k = 0; k < s->rank; k++)
        at.at[k] = s->dim[k] > 1 ? f->stored.at[k] : affine_const(0);
    add(f, value, &at, false);
}

static void start(AccessList *l, Arena *a, const Graph *g)
{
    if (!l->first) {
        l->first = arena_array(a, (size_t)g->n_nodes + 1, sizeof *l->first);
        for (int i = 0; i < g->n_nodes; i++)
            l->first[i] = -1;
    }
    for (int i = 0; i < l->n; i++)
        l->first[l->v[i].node->id] = -1;
    l->n = 0;
}

void plan_accesses(AccessList *out, Arena *a, const EntryPlan *e, const Kernel *k,
                   const Store *only)
{
    Follow f = {.list = out,
                .lists = a,
                .arena = arena_new(),
                .kernel = {e, k},
                .stored = {.rank = k->space.rank}};
    start(out, a, e->graph);
    index_space_init(&f.space, f.arena, 1);
    for (int d = 0; d < k->space.rank; d++)
        if (k->space.dim[d] > 1)
            f.stored.at[d] = affine_var(new_var(&f, AFFINE_VAR_LOOP, k->space.dim[d], 1u << d));
    for (int s = 0; s < k->n_stores; s++)
        if (!only || &k->stores[s] == only)
            follow_store(&f, k->stores[s].value);
    for (int i = 0; i < out->n; i++)
        if (!out->v[i].read) {
            const Index at = out->v[i].at;
            follow_operands(&f, out->v[i].node, &at);
        }
    arena_free(f.arena);
}
