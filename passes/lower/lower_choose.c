/* Which letter of a contraction's result is innermost in memory, and so the one that its kernel
 * vectorises along.
 *
 * Estimated in cycles: the multiply-adds, with lanes and tiles that are not full counted as if
 * they were; a copy of the vector operand where it does not lie contiguous along the letter (a
 * parameter whose order is still free lies as it is wanted); and a price for a result that does
 * not lie as its readers would like it: like the state that it becomes, with a convolution's
 * channels innermost, or like the larger operand. */
#include "passes/lower/lower.h"

#include "ir/loop.h"
#include "ir/reading.h"
#include "ir/shape.h"

static const double price_copied = 1, price_strided = 6, price_rival = 1.25;

enum {
    TILES = 8,    /* sums that must run side by side to keep the multipliers busy */
    MAX_ROWS = 6, /* rows of a tile, about */
    /* Of a vector, whatever the processor's registers are: orders decide bits and what states
     * look like in memory. */
    LOGICAL_BYTES = 64
};

State *free_state(const Graph *g, Node *n, const bool *fixed)
{
    const Graph *outer = g;
    const Node *leaf = base_of_views(loop_origin(&outer, base_of_views(n)));
    if (leaf->op != OP_STATE)
        return NULL;
    State *s = module_state(g->module, leaf->attrs.leaf.name);
    if (!s || (s->role != ROLE_PARAM && s->role != ROLE_BUFFER) || s->type.shape.rank < 2)
        return NULL;
    return fixed[s - g->module->states] ? NULL : s;
}

bool layout_for(const Graph *g, const Node *n, const State *s, int axis, IntList *out)
{
    for (int k = s->type.shape.rank - 1; k >= 0; k--) {
        if (s->type.shape.dim[k] == 1)
            continue;
        const IntList ending = order_ending_in(s->type.shape.rank, k);
        const LayoutTrial trial = {s, order_canonical(&s->type.shape, &ending)};
        if (stored_innermost_in(g, n, &trial) == axis) {
            *out = trial.layout;
            return true;
        }
    }
    return false;
}

static bool through_window(const Node *n)
{
    while (op_info(n->op)->kind == KIND_VIEW && n->op != OP_LAYOUT && n->op != OP_WINDOW)
        n = n->in[0];
    return n->op == OP_WINDOW;
}

/* Can a copy of what is below be contiguous along the operand's axis? */
static bool can_be_contiguous(const Node *n, int axis)
{
    if (n->op != OP_WINDOW)
        return !through_window(n);
    const int k = axis - (n->type.shape.rank - n->in[0]->type.shape.rank);
    return k >= 0 && n->attrs.window.step.v[k] == 1 && !through_window(n->in[0]);
}

static double copy_cost(const Graph *g, Node *v, int axis, const bool *fixed, Choice *choice)
{
    if (stored_innermost(g, v) == axis)
        return 0;
    State *s = free_state(g, v, fixed);
    if (s && layout_for(g, v, s, axis, &choice->layout)) {
        choice->state = s;
        return 0;
    }
    /* What is copied if the operand must lie otherwise: below the windows. */
    const Node *base = can_be_contiguous(v, axis) ? base_of_views(v) : v;
    const double elements = (double)shape_count(&base->type.shape);
    return price_copied * (base->op == OP_PAD ? 0.5 : 1) * elements;
}

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

static double work_cost(const Contraction *c)
{
    const int bytes = dtype_bytes(c->node->type.dtype);
    const int64_t lanes = LOGICAL_BYTES / bytes, extent = c->letter[c->n_out - 1].extent;
    const int64_t vectors = (extent + lanes - 1) / lanes;
    const double rows = (double)(c->m < MAX_ROWS ? c->m : MAX_ROWS);
    const double wide = (double)(vectors < 3 ? vectors : 3);
    const double full = (double)c->batch * (double)c->m * (double)c->n * (double)c->k;
    const double waste = (double)(vectors * lanes) / (double)extent;
    const double busy = max_of(TILES / (rows * wide), (rows + wide) / (rows * wide));
    return full * waste / (2.0 * (double)lanes) * max_of(1, busy);
}

/* The largest axis of the result that comes from operand i alone; -1: none. */
static int own_axis(const Node *einsum, int i)
{
    const int rank = einsum->type.shape.rank;
    int best = -1;
    for (int axis = 0; axis < rank; axis++) {
        Contraction c;
        const IntList order = order_ending_in(rank, axis);
        const int64_t extent = einsum->type.shape.dim[axis];
        if (extent > 1 && contraction_of(einsum, &order, &c) && c.vector_operand == i &&
            (best < 0 || extent > einsum->type.shape.dim[best]))
            best = axis;
    }
    return best;
}

/* Where readers would like the result to be contiguous. */
static int preferred_axis(const Graph *g, const Node *einsum, const IntList *wish)
{
    const int rank = einsum->type.shape.rank;
    if (wish->n)
        return (int)wish->v[rank - 1];
    for (int i = 0; i < 2; i++)
        if (through_window(einsum->in[i]) && own_axis(einsum, 1 - i) >= 0)
            return own_axis(einsum, 1 - i);
    const Node *x = einsum->in[0], *y = einsum->in[1];
    const Node *large = shape_count(&y->type.shape) > shape_count(&x->type.shape) ? y : x;
    const int axis = large->type.shape.rank == rank && base_of_views(large)->op != OP_STATE
                         ? order_innermost(g, large)
                         : -1;
    return axis >= 0 ? axis : rank - 1;
}

bool choose_result(const Graph *g, const Node *einsum, const IntList *wish, const bool *fixed,
                   Choice *out)
{
    const int rank = einsum->type.shape.rank, preferred = preferred_axis(g, einsum, wish);
    double best = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        Choice x = {.order = order_ending_in(rank, axis)};
        if (wish->n && axis == preferred)
            x.order = *wish;
        if (einsum->type.shape.dim[axis] == 1 || !contraction_of(einsum, &x.order, &x.c))
            continue;
        Node *v = einsum->in[x.c.vector_operand];
        const int in = x.c.letter[rank - 1].in[x.c.vector_operand];
        double cost = work_cost(&x.c) + copy_cost(g, v, in, fixed, &x);
        if (axis != preferred)
            cost =
                (cost + price_strided * (double)shape_count(&einsum->type.shape)) * price_rival;
        if (best == 0 || cost < best) {
            best = cost;
            *out = x;
        }
    }
    return best > 0;
}
