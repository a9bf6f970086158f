/* The work of a finished plan, counted from its kernels: how often each value is computed against
 * how many elements it has.
 *
 * Over all kernels of an entry
 *   a contraction or scatter   once per element
 *   a reduction                once per element, as a second kernel reads what the first one stored
 *   a dear expression          WORK_TIMES per element
 * and in each kernel what passes/fuse/work.c says.  A loop's body is an entry of its own, for one
 * of its rounds.  So the work of an
 * entry is at most a constant times that of its values, each computed once, and loads: it grows
 * as the shapes do. */
#include "ir/shape.h"
#include "passes/fuse/work.h"
#include "passes/plan/plan_build.h"

static double elements_of(const Node *n)
{
    return (double)shape_count(&n->type.shape);
}

const Node *work_count_kernel(Work *w, const EntryPlan *e, const Kernel *k)
{
    const KernelOfEntry context = {e, k};
    Node **roots = arena_array(w->arena, (size_t)k->n_stores + 1, sizeof *roots);
    for (int i = 0; i < k->n_stores; i++)
        roots[i] = k->stores[i].value;
    const WorkNest nest = {.graph = e->graph,
                           .kind = k->kind,
                           .n_roots = k->n_stores,
                           .roots = roots,
                           .space = &k->space,
                           .order = k->order,
                           .vector = k->vector,
                           .external = kernel_reads,
                           .context = &context};
    return work_excess(w, &nest);
}

static const char *too_often(Arena *a, const char *where, const Node *n, double times)
{
    return arena_printf(a, "%s computes %%%s too often: %g times per element", where, n->name,
                        times);
}

static const char *check_entry(const EntryPlan *e, Arena *a, Arena *scratch)
{
    Work *w = work_new(scratch, e->graph->n_nodes);
    WorkTotals t = work_totals(scratch, e->graph->n_nodes);
    for (int k = 0; k < e->n_kernels; k++) {
        const Kernel *kernel = &e->kernels[k];
        if (kernel->loop)
            continue;
        const Node *excess = work_count_kernel(w, e, kernel);
        work_totals_add(&t, w);
        if (excess)
            return too_often(a, arena_printf(a, "kernel %s", kernel->name), excess,
                             w->times[excess->id] / elements_of(excess));
    }
    graph_foreach (e->graph, n)
        if (work_totals_exceed(&t, n))
            return too_often(a, "the entry", n, work_per_element(&t, n));
    return NULL;
}

const char *plan_work_check(const EntryPlan *e, Arena *a)
{
    Arena *scratch = arena_new();
    const char *wrong = check_entry(e, a, scratch);
    arena_free(scratch);
    return wrong;
}

/* ---- report ---- */

/* What one element of n costs, without its operands: a reduction takes what it reduces, a
 * contraction a product of each pair. */
static double element_cost(const Node *n)
{
    const double elements = elements_of(n);
    if (node_kind(n) == KIND_REDUCE)
        return elements_of(n->in[0]) / elements;
    if (node_kind(n) == KIND_CONTRACT)
        return einsum_depth(n);
    return node_kind(n) == KIND_SCATTER ? 1 : node_own_cost(n);
}

typedef struct Sum {
    double planned, least, rounds, stored;
    double reductions, dear, cheap; /* the most per element */
    int kernels, evaluations;
} Sum;

static void add_most(double *most, double times)
{
    *most = times > *most ? times : *most;
}

static void add_values(Sum *s, const WorkTotals *t, const Graph *g, double rounds)
{
    graph_foreach (g, n) {
        if (t->times[n->id] == 0)
            continue;
        s->planned += rounds * t->times[n->id] * element_cost(n);
        s->least += rounds * elements_of(n) * element_cost(n);
        if (node_kind(n) == KIND_REDUCE)
            add_most(&s->reductions, work_per_element(t, n));
        else if (node_kind(n) == KIND_EXPR)
            add_most(t->cheap[n->id] ? &s->cheap : &s->dear, work_per_element(t, n));
    }
}

/* rounds: of the loops that the entry is the body of. */
static void add_entry(Sum *s, const EntryPlan *e, double rounds)
{
    Arena *scratch = arena_new();
    Work *w = work_new(scratch, e->graph->n_nodes);
    WorkTotals t = work_totals(scratch, e->graph->n_nodes);
    for (int k = 0; k < e->n_kernels; k++) {
        const Kernel *kernel = &e->kernels[k];
        s->kernels++;
        if (kernel->loop) {
            add_entry(s, kernel->loop->body, rounds * (double)kernel->loop->count);
            continue;
        }
        work_count_kernel(w, e, kernel);
        work_totals_add(&t, w);
        s->evaluations += w->evaluations;
        s->rounds += rounds * w->rounds;
        for (int i = 0; i < kernel->n_stores; i++)
            s->stored += rounds * (double)kernel->stores[i].to->bytes;
    }
    add_values(s, &t, e->graph, rounds);
    arena_free(scratch);
}

void plan_print_work(Text *out, const Plan *p)
{
    text_printf(out,
                "work of one model of \"%s\": scalar operations; least: each value once per "
                "element\n",
                p->module->name);
    for (int i = 0; i < p->n_entries; i++) {
        Sum s = {0};
        add_entry(&s, &p->entries[i], 1);
        text_printf(out,
                    "@%s: %d kernels, %d evaluations, rounds %.0f, stored %.0f bytes, work "
                    "%.0f, least %.0f, times reductions %.2f dear %.2f cheap %.2f\n",
                    p->entries[i].graph->name, s.kernels, s.evaluations, s.rounds, s.stored,
                    s.planned, s.least, s.reductions, s.dear, s.cheap);
    }
}
