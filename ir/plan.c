/* Plans as text, and the nodes of a kernel. */
#include "ir/plan.h"

#include <string.h>

#include "ir/loop.h"
#include "ir/print.h"
#include "ir/reading.h"

bool buffer_is_planned(const Buffer *b)
{
    return !b->outside && (b->space == BUF_SCRATCH || b->space == BUF_SHARED);
}

/* ---- which nodes does a kernel compute ---- */

const Buffer *kernel_read(const EntryPlan *e, const Kernel *k, const Node *n)
{
    const Buffer *b = e->buffer[n->id];
    if (!b || (op_info(n->op)->kind == KIND_LEAF && n->op != OP_CONST))
        return b;
    for (int i = 0; i < k->n_stores; i++)
        if (k->stores[i].value == n && k->stores[i].to == b)
            return NULL;
    return b;
}

bool kernel_reads(const void *kernel_of_entry, const Node *n)
{
    const KernelOfEntry *k = kernel_of_entry;
    return kernel_read(k->entry, k->kernel, n) != NULL;
}

const Buffer *kernel_operand(IndexSpace *s, const EntryPlan *e, const Kernel *k, const Node *n,
                             int64_t *stride, int64_t *offset)
{
    const KernelOfEntry kernel = {e, k};
    int var[MAX_RANK];
    Index i = index_of_axes(s, &n->type.shape, var);
    const Node *base = read_through_views(s, n, kernel_reads, &kernel, &i);
    const Buffer *b = kernel_read(e, k, base);
    if (!b)
        return NULL;
    const Affine at = index_offset(s, &b->shape, b->stride, &i);
    return affine_strides(at, n->type.shape.rank, var, stride, offset) ? b : NULL;
}

/* What a kernel has to do with a node. */
typedef enum Part {
    PART_NONE,
    PART_COMPUTED,
    PART_LOADED
} Part;

static void find_parts(const EntryPlan *e, const Kernel *k, const Node *n, unsigned char *part)
{
    if (part[n->id] != PART_NONE)
        return;
    part[n->id] = kernel_read(e, k, n) ? PART_LOADED : PART_COMPUTED;
    /* What a loop carries at first is where it wants it already. */
    for (int i = node_is_loop(n) ? (int)n->attrs.loop.carried : 0;
         i < n->n_in && part[n->id] == PART_COMPUTED; i++)
        find_parts(e, k, n->in[i], part);
}

static Node **nodes_of(const EntryPlan *e, const Kernel *k, Part wanted, Arena *a, int *n)
{
    const size_t size = (size_t)e->graph->n_nodes + 1;
    unsigned char *part = arena_alloc(a, size);
    for (int i = 0; i < k->n_stores; i++)
        find_parts(e, k, k->stores[i].value, part);
    int count = 0;
    for (int i = 0; i < e->graph->n_nodes; i++)
        count += part[i] == wanted;
    Node **nodes = arena_array(a, (size_t)count + 1, sizeof *nodes);
    *n = 0;
    for (int i = 0; i < e->graph->n_nodes; i++)
        if (part[i] == wanted)
            nodes[(*n)++] = e->graph->nodes[i];
    return nodes;
}

Node **kernel_body(const EntryPlan *e, const Kernel *k, Arena *a, int *n)
{
    return nodes_of(e, k, PART_COMPUTED, a, n);
}

/* ---- text ---- */

static const char *const space_text[] = {
    [BUF_STATE] = "state",   [BUF_INPUT] = "input",   [BUF_HYPER] = "hyper",
    [BUF_CLOCK] = "clock",   [BUF_SCALAR] = "scalar", [BUF_SEED] = "seed",
    [BUF_CONST] = "const",   [BUF_SHARED] = "shared", [BUF_SCRATCH] = "scratch",
    [BUF_RESULT] = "result", [BUF_OUTPUT] = "output"};
static const char *const kind_text[] = {[KERNEL_EXPR] = "expr",
                                        [KERNEL_CONTRACT] = "contract",
                                        [KERNEL_SCATTER] = "scatter",
                                        [KERNEL_LOOP] = "loop"};

static bool has_name(BufferSpace s)
{
    return s != BUF_SHARED && s != BUF_SCRATCH && s != BUF_CONST && s != BUF_SEED;
}

static bool has_offset(BufferSpace s)
{
    return s == BUF_STATE || s == BUF_SHARED || s == BUF_SCRATCH;
}

static void print_strides(Text *out, const Buffer *b)
{
    text_add(out, " strides=[");
    for (int i = 0; i < b->shape.rank; i++)
        text_printf(out, "%s%lld", i ? ", " : "", (long long)b->stride[i]);
    text_add(out, "]");
}

static void print_buffer(Text *out, const Buffer *b, bool places)
{
    text_add(out, space_text[b->space]);
    if (has_name(b->space))
        text_printf(out, " \"%s\"", b->name);
    if (places && b->outside)
        text_add(out, " outside");
    else if (places && has_offset(b->space))
        text_printf(out, " at %lld", (long long)b->offset);
    if (places && (b->space == BUF_RESULT || b->space == BUF_OUTPUT || b->space == BUF_INPUT))
        text_printf(out, " number %d", b->index);
    text_printf(out, " %s", dtype_text(b->dtype));
    shape_print(out, &b->shape);
    if (!places)
        return;
    if (b->shape.rank > 0)
        print_strides(out, b);
    if (buffer_is_planned(b))
        text_printf(out, " live=%d..%d", b->first, b->last);
}

static void print_loads(Text *out, const EntryPlan *e, const Kernel *k, Arena *a)
{
    int n;
    Node **nodes = nodes_of(e, k, PART_LOADED, a, &n);
    for (int i = 0; i < n; i++) {
        text_printf(out, "      load %%%s <- ", nodes[i]->name);
        print_buffer(out, e->buffer[nodes[i]->id], true);
        text_add(out, "\n");
    }
}

static void print_kernel_head(Text *out, const Kernel *k, int at, bool places)
{
    text_add(out, "    kernel ");
    if (places)
        text_printf(out, "%d ", at);
    text_printf(out, "@%s %s %s space=", k->name, kind_text[k->kind],
                k->per_model ? "models" : "shared");
    shape_print(out, &k->space);
    bool natural = true;
    for (int i = 0; i < k->space.rank; i++)
        natural &= k->order[i] == i;
    if (!natural) {
        text_add(out, " order=[");
        for (int i = 0; i < k->space.rank; i++)
            text_printf(out, "%s%d", i ? ", " : "", k->order[i]);
        text_add(out, "]");
    }
    if (k->vector >= 0)
        text_printf(out, " vector=%d", k->vector);
    text_add(out, k->flat ? " flat {\n" : " {\n");
}

static void print_kernels(Text *out, const EntryPlan *e, bool places, Arena *a);

static void print_place(Text *out, const Buffer *b)
{
    text_printf(out, "\"%s\"", b->name);
    if (b->space == BUF_SCRATCH || b->space == BUF_SHARED)
        text_printf(out, " at %lld", (long long)b->offset);
}

/* Where what a round reads or writes lies. */
static void print_given(Text *out, const char *what, const char *name, const Buffer *b)
{
    text_printf(out, "      %s %%%s = ", what, name);
    print_place(out, b->base);
    if (b->odd_base) {
        text_add(out, " or ");
        print_place(out, b->odd_base);
    }
    text_printf(out, " + %lld", (long long)b->shift);
    if (b->step)
        text_printf(out, " + %lld * round", (long long)b->step);
    text_add(out, "\n");
}

static void add_indented(Text *out, const char *lines)
{
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1) {
        text_add(out, "    ");
        text_addn(out, lines, (size_t)(end + 1 - lines));
    }
}

/* The body's kernels, and with places how rounds see what is outside. */
static void print_loop(Text *out, const EntryPlan *e, int at, bool places, Arena *a)
{
    const Kernel *k = &e->kernels[at];
    const EntryPlan *body = k->loop->body;
    if (places) {
        print_loads(out, e, k, a);
        graph_foreach (body->graph, n)
            if (node_is_arg(n) && body->buffer[n->id])
                print_given(out, "arg", n->name, body->buffer[n->id]);
    }
    text_printf(out, "      rounds %lld {\n", (long long)k->loop->count);
    Text inside;
    text_init(&inside, a);
    print_kernels(&inside, body, places, a);
    add_indented(out, inside.s);
    text_add(out, "      }\n");
    for (int i = 0; i < k->n_stores; i++) {
        text_printf(out, "      store %%%s -> ", k->stores[i].value->name);
        print_buffer(out, k->stores[i].to, places);
        text_add(out, "\n");
    }
    text_add(out, "    }\n");
}

static void print_kernel(Text *out, const EntryPlan *e, int at, bool places, Arena *a)
{
    const Kernel *k = &e->kernels[at];
    int n;
    if (k->kind == KERNEL_LOOP) {
        print_kernel_head(out, k, at, places);
        print_loop(out, e, at, places, a);
        return;
    }
    Node **body = kernel_body(e, k, a, &n);
    print_kernel_head(out, k, at, places);
    if (places)
        print_loads(out, e, k, a);
    for (int i = 0; i < n; i++) {
        text_add(out, "      ");
        node_print(out, body[i]);
        text_add(out, "\n");
    }
    for (int i = 0; i < k->n_stores; i++) {
        text_printf(out, "      store %%%s -> ", k->stores[i].value->name);
        print_buffer(out, k->stores[i].to, places);
        if (k->stores[i].flag)
            text_add(out, " guarded");
        text_add(out, "\n");
    }
    text_add(out, "    }\n");
}

static void print_kernels(Text *out, const EntryPlan *e, bool places, Arena *a)
{
    for (int k = 0; k < e->n_kernels; k++)
        print_kernel(out, e, k, places, a);
}

/* "0..5, 6 x 64 rounds { 0..2 }, 7": the numbers of a run's kernels, loops with their lists. */
static void print_list(Text *out, const EntryPlan *e, const Step *list, int n)
{
    for (int i = 0, end; i < n; i = end) {
        end = i + 1;
        text_printf(out, "%s%d", i ? ", " : " ", list[i].kernel);
        if (list[i].kind == STEP_LOOP) {
            const LoopPlan *loop = e->kernels[list[i].kernel].loop;
            text_printf(out, " x %lld rounds {", (long long)loop->count);
            print_list(out, loop->body, list[i].list, list[i].n_list);
            text_add(out, " }");
            continue;
        }
        while (end < n && list[end].kind == STEP_KERNEL)
            end++;
        if (end > i + 1)
            text_printf(out, "..%d", list[end - 1].kernel);
    }
}

static void print_steps(Text *out, const EntryPlan *e)
{
    static const char *const texts[] = {[STEP_SHARED] = "shared",
                                        [STEP_MODELS] = "models",
                                        [STEP_BARRIER] = "barrier",
                                        [STEP_KERNEL] = "kernel",
                                        [STEP_LOOP] = "loop"};
    for (int i = 0; i < e->n_steps; i++) {
        text_printf(out, "    step %s", texts[e->steps[i].kind]);
        print_list(out, e, e->steps[i].list, e->steps[i].n_list);
        text_add(out, "\n");
    }
}

static int count_shared(const EntryPlan *e)
{
    int n = 0;
    for (int k = 0; k < e->n_kernels; k++)
        n += !e->kernels[k].per_model;
    return n;
}

void plan_print(Text *out, const Plan *p, bool places)
{
    Arena *a = arena_new();
    text_printf(out, "plan \"%s\" models=%d", p->module->name, p->module->n_models);
    if (places)
        text_printf(out, " state=%lld shared=%lld scratch=%lld results=%d",
                    (long long)p->state_bytes, (long long)p->shared_bytes,
                    (long long)p->scratch_bytes, p->n_results);
    text_add(out, " {\n");
    for (int i = 0; i < p->n_entries; i++) {
        const EntryPlan *e = &p->entries[i];
        text_printf(out, "  entry @%s", e->graph->name);
        if (places)
            text_printf(out, " shared=%lld scratch=%lld results=%d", (long long)e->shared_bytes,
                        (long long)e->scratch_bytes, e->n_results);
        text_add(out, " {\n");
        if (places)
            print_steps(out, e);
        print_kernels(out, e, places, a);
        text_add(out, "  }\n");
    }
    text_add(out, "}\n");
    arena_free(a);
}

/* ---- memory report ---- */

static const char *bytes_text(Arena *a, int64_t n)
{
    if (n < 10 * 1024)
        return arena_printf(a, "%lld B", (long long)n);
    if (n < 10 * 1024 * 1024)
        return arena_printf(a, "%.1f KiB", (double)n / 1024);
    return arena_printf(a, "%.1f MiB", (double)n / (1024 * 1024));
}

static void print_roles(Text *out, const Plan *p, Arena *a)
{
    static const char *const roles[N_ROLES] = {
        [ROLE_PARAM] = "parameters",
        [ROLE_BUFFER] = "buffers",
        [ROLE_OPTIM] = "optimizer",
        [ROLE_COUNTER] = "counters",
        [ROLE_METRIC] = "metrics",
        [ROLE_GRADIENT] = "gradients",
        [ROLE_BATCH_COUNTER] = "batches",
        [ROLE_SCHEDULE] = "schedules",
        [ROLE_EPOCH_METRIC] = "epoch metric",
    };
    for (int r = 0; r < N_ROLES; r++) {
        int64_t bytes = 0;
        for (int i = 0; i < p->module->n_states; i++)
            if ((int)p->module->states[i].role == r)
                bytes += p->states[i].bytes;
        if (bytes)
            text_printf(out, "  %-12s %12s\n", roles[r], bytes_text(a, bytes));
    }
}

static int list_once(const Buffer **list, int n, const Buffer *b)
{
    for (int i = 0; i < n; i++)
        if (list[i] == b)
            return n;
    list[n++] = b;
    return n;
}

static int max_places(const EntryPlan *e)
{
    int n = 0;
    for (int k = 0; k < e->n_kernels; k++)
        n += e->kernels[k].n_stores + (e->kernels[k].loop ? e->kernels[k].loop->n_held : 0);
    return n;
}

/* The places of one entry in one space, each once. */
static int collect_places(const EntryPlan *e, const Buffer **list)
{
    int n = 0;
    for (int k = 0; k < e->n_kernels; k++)
        for (int s = 0; s < e->kernels[k].n_stores; s++) {
            const Buffer *b = e->kernels[k].stores[s].to;
            if (buffer_is_planned(b))
                n = list_once(list, n, b);
        }
    for (int k = 0; k < e->n_kernels; k++)
        for (int i = 0; e->kernels[k].loop && i < e->kernels[k].loop->n_held; i++)
            n = list_once(list, n, e->kernels[k].loop->held[i]);
    return n;
}

static void print_largest(Text *out, const EntryPlan *e, Arena *a)
{
    enum {
        SHOWN = 5
    };
    const Buffer **list = arena_array(a, (size_t)max_places(e) + 1, sizeof *list);
    const int n = collect_places(e, list);
    for (int shown = 0; shown < SHOWN; shown++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (list[i] && (best < 0 || list[i]->bytes > list[best]->bytes))
                best = i;
        if (best < 0)
            return;
        text_printf(out, "    %-24s %12s  ", list[best]->name,
                    bytes_text(a, list[best]->bytes));
        print_buffer(out, list[best], true);
        text_add(out, "\n");
        list[best] = NULL;
    }
}

static int64_t sum_places(const EntryPlan *e, Arena *a)
{
    const Buffer **list = arena_array(a, (size_t)max_places(e) + 1, sizeof *list);
    const int n = collect_places(e, list);
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += list[i]->bytes;
    return sum;
}

void plan_print_memory(Text *out, const Plan *p)
{
    Arena *a = arena_new();
    text_printf(out,
                "memory of \"%s\": B * state + shared + T * scratch (B models, T threads)\n",
                p->module->name);
    text_printf(out, "  state   %12s per model\n", bytes_text(a, p->state_bytes));
    text_printf(out, "  shared  %12s\n", bytes_text(a, p->shared_bytes));
    text_printf(out, "  scratch %12s per thread\n", bytes_text(a, p->scratch_bytes));
    text_printf(out, "  B = %d: %s + T * %s\n", p->module->n_models,
                bytes_text(a, p->module->n_models * p->state_bytes + p->shared_bytes),
                bytes_text(a, p->scratch_bytes));
    text_add(out, "state of one model\n");
    print_roles(out, p, a);
    for (int i = 0; i < p->n_entries; i++) {
        const EntryPlan *e = &p->entries[i];
        text_printf(
            out, "@%s: %d kernels (%d shared), shared %s, scratch %s, without reuse %s\n",
            e->graph->name, e->n_kernels, count_shared(e), bytes_text(a, e->shared_bytes),
            bytes_text(a, e->scratch_bytes), bytes_text(a, sum_places(e, a)));
        print_largest(out, e, a);
    }
    arena_free(a);
}
