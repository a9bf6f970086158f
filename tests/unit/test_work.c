/* Is what the plan counts what the code does?  Each program given is planned and generated; the
 * emitter tells of every value that it writes code for, and in how many rounds, and that is
 * compared with passes/fuse/work.c, kernel by kernel. */
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/verify.h"
#include "passes/fuse/work.h"
#include "passes/plan/plan_build.h"

enum {
    MAX_KERNELS = 2000
};

/* What the emitter told of one kernel. */
typedef struct Told {
    const Kernel *kernel;
    double *elements; /* by node id */
} Told;

typedef struct Test {
    Arena *arena;
    const char *name;
    const Plan *plan;
    Told told[MAX_KERNELS];
    int n_told, compared, equal, failures;
} Test;

/* The entry, or the loop's body, that the kernel belongs to. */
static const EntryPlan *entry_of(const EntryPlan *e, const Kernel *k)
{
    if (k >= e->kernels && k < e->kernels + e->n_kernels)
        return e;
    for (int i = 0; i < e->n_kernels; i++)
        if (e->kernels[i].loop) {
            const EntryPlan *found = entry_of(e->kernels[i].loop->body, k);
            if (found)
                return found;
        }
    return NULL;
}

static const EntryPlan *find_entry(const Plan *p, const Kernel *k)
{
    for (int i = 0; i < p->n_entries; i++) {
        const EntryPlan *found = entry_of(&p->entries[i], k);
        if (found)
            return found;
    }
    return NULL;
}

static void computed(void *context, const Kernel *k, const Node *n, double elements)
{
    Test *t = context;
    if (t->n_told == 0 || t->told[t->n_told - 1].kernel != k) {
        const EntryPlan *e = find_entry(t->plan, k);
        t->told[t->n_told++] =
            (Told){k, arena_array(t->arena, (size_t)e->graph->n_nodes, sizeof(double))};
    }
    t->told[t->n_told - 1].elements[n->id] += elements;
}

/* A guarded store chooses between the operands itself. */
static bool chosen_by_store(const Kernel *k, const Node *n)
{
    for (int i = 0; i < k->n_stores; i++)
        if (k->stores[i].value == n && k->stores[i].flag)
            return true;
    return false;
}

/* A value that is the same in some of a block's lanes may be computed once for them; else both
 * counts are the same. */
static void compare(Test *t, const Told *told)
{
    const EntryPlan *e = find_entry(t->plan, told->kernel);
    Work *w = work_new(t->arena, e->graph->n_nodes);
    work_count_kernel(w, e, told->kernel);
    graph_foreach (e->graph, n) {
        const double planned = w->times[n->id], emitted = told->elements[n->id];
        if (node_own_cost(n) == 0 || (planned == 0 && emitted == 0) ||
            chosen_by_store(told->kernel, n))
            continue;
        t->compared++;
        t->equal += planned == emitted;
        if (planned >= emitted && emitted > 0)
            continue;
        t->failures++;
        fprintf(stderr, "FAIL %s: kernel %s of @%s computes %%%s %.0f times, planned %.0f\n",
                t->name, told->kernel->name, e->graph->name, n->name, emitted, planned);
    }
}

static Plan *plan_of(Test *t, const char *path)
{
    const FrontendOptions options = {.n_models = 1, .precision = DT_F32};
    const Target target = {.optimize = 2};
    Diag *d = diag_new(t->arena, NULL);
    Program p = {0};
    bool not_found;
    Module *m = program_load(t->arena, d, path, &options, &p, &not_found)
                    ? program_elaborate(t->arena, d, &p, &options)
                    : NULL;
    for (int i = 0; m && i < pass_count; i++)
        if (!pass_list[i].run(m, 1, &target))
            return NULL;
    return m ? plan_build(m, &target) : NULL;
}

static int run(const char *path)
{
    static Test t; /* large */
    t = (Test){.arena = arena_new(), .name = path};
    t.plan = plan_of(&t, path);
    const CodegenOptions o = {.march = "x86-64-v3",
                              .version = "test",
                              .split = true,
                              .computed = computed,
                              .context = &t};
    const char *error = "no plan";
    CpuModule *m = t.plan ? cpu_generate(t.arena, t.plan, &o, &error) : NULL;
    if (!m) {
        fprintf(stderr, "FAIL %s: %s\n", path, error);
        return 1;
    }
    for (int i = 0; i < t.n_told; i++)
        compare(&t, &t.told[i]);
    printf("%s: %d kernels, %d values, %d counts equal\n", path, t.n_told, t.compared, t.equal);
    cpu_free(m);
    arena_free(t.arena);
    return t.failures;
}

int main(int argc, char **argv)
{
    int failures = 0;
    for (int i = 1; i < argc; i++)
        failures += run(argv[i]);
    return failures || argc < 2;
}
