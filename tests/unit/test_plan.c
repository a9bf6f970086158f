/* Vertical fusion and memory planning: which stores share a kernel, in which order, and that no
 * value is overwritten before its last reader.
 *
 * Beside plan_check, which every plan goes through, a simulation runs the kernels on tagged
 * memory: every byte remembers which value was written last, every read checks it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/print.h"
#include "ir/read.h"
#include "ir/verify.h"
#include "passes/plan/plan_build.h"

static int failures, checks;

#define CHECK(ok, ...)                                           \
    do {                                                         \
        checks++;                                                \
        if (!(ok)) {                                             \
            failures++;                                          \
            fprintf(stderr, "FAIL %s:%d: ", __FILE__, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                        \
            fprintf(stderr, "\n");                               \
        }                                                        \
    } while (0)

typedef struct Case {
    Arena *arena;
    Module *module;
    Plan *plan;
    EntryPlan *e; /* the first entry */
    int failures; /* before it */
} Case;

static void show(const Case *c)
{
    Text t;
    text_init(&t, c->arena);
    plan_print(&t, c->plan, true);
    fputs(t.s, stderr);
}

/* ---- simulation on tagged memory ---- */

enum {
    TAG_OLD = -1,
    TAG_NONE = -2
};

typedef struct Memory {
    int *state, *shared, *scratch; /* by byte: id of the value that was written last */
} Memory;

static int *tagged(Arena *a, int64_t n, int tag)
{
    int *m = arena_array(a, (size_t)n + 1, sizeof *m);
    for (int64_t i = 0; i < n; i++)
        m[i] = tag;
    return m;
}

static int *bytes_of(const Memory *m, const Buffer *b)
{
    switch (b->space) {
    case BUF_STATE:
        return m->state + b->offset;
    case BUF_SHARED:
        return m->shared + b->offset;
    case BUF_SCRATCH:
        return m->scratch + b->offset;
    case BUF_INPUT:
    case BUF_HYPER:
    case BUF_CLOCK:
    case BUF_SCALAR:
    case BUF_SEED:
    case BUF_CONST:
    case BUF_RESULT:
    case BUF_OUTPUT:
        break;
    }
    return NULL;
}

static bool holds(const Memory *m, const Buffer *b, int tag)
{
    const int *at = bytes_of(m, b);
    for (int64_t i = 0; at && i < b->bytes; i++)
        if (at[i] != tag)
            return false;
    return true;
}

static void simulate_kernel(const Case *c, const EntryPlan *e, const Kernel *k, const Memory *m)
{
    int n;
    Node **body = kernel_body(e, k, c->arena, &n);
    bool *computed = arena_array(c->arena, (size_t)e->graph->n_nodes + 1, sizeof *computed);
    for (int i = 0; i < n; i++)
        computed[body[i]->id] = true;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < body[i]->n_in; j++) {
            const Node *x = body[i]->in[j];
            const Buffer *b = e->buffer[x->id];
            if (computed[x->id])
                continue;
            CHECK(b != NULL, "%s reads %%%s, which is nowhere", k->name, x->name);
            if (b)
                CHECK(holds(m, b, x->op == OP_STATE ? TAG_OLD : x->id),
                      "%s reads %%%s, which was overwritten or not yet written", k->name,
                      x->name);
        }
    for (int i = 0; i < k->n_stores; i++) {
        int *at = bytes_of(m, k->stores[i].to);
        for (int64_t j = 0; at && j < k->stores[i].to->bytes; j++)
            at[j] = k->stores[i].value->id;
    }
}

static void simulate(const Case *c)
{
    for (int i = 0; i < c->plan->n_entries; i++) {
        const EntryPlan *e = &c->plan->entries[i];
        const Memory m = {tagged(c->arena, c->plan->state_bytes, TAG_OLD),
                          tagged(c->arena, e->shared_bytes, TAG_NONE),
                          tagged(c->arena, e->scratch_bytes, TAG_NONE)};
        for (int k = 0; k < e->n_kernels; k++)
            simulate_kernel(c, e, &e->kernels[k], &m);
        for (int o = 0; o < e->graph->n_outputs; o++) {
            const Output *out = &e->graph->outputs[o];
            if (out->kind != OUT_STATE)
                continue;
            const Buffer *b =
                &c->plan->states[module_state(c->module, out->name) - c->module->states];
            const bool kept = out->value->op == OP_STATE;
            CHECK(holds(&m, b, kept ? TAG_OLD : out->value->id), "state %s is not written",
                  out->name);
        }
    }
}

/* ---- cases ---- */

static const char *printed(const Case *c)
{
    Text t;
    text_init(&t, c->arena);
    module_print(&t, c->module);
    return t.s;
}

static void plan_module(Case *c, int optimize)
{
    const Target t = {.optimize = optimize};
    hfuse(c->module, 2, &t);
    lower(c->module, &t);
    prepare(c->module);
    module_verify(c->module, "prepare");
    const char *before = printed(c);
    c->plan = plan_build(c->module, &t);
    CHECK(!strcmp(before, printed(c)), "the plan edits the graphs");
    c->e = &c->plan->entries[0];
    simulate(c);
}

static Case open_case(const char *text, int optimize)
{
    Case c = {.arena = arena_new(), .failures = failures};
    Diag *d = diag_new(c.arena, NULL);
    c.module =
        module_read(c.arena, d, diag_add_source(d, "case.hir", text, strlen(text), false));
    if (!c.module)
        exit(1);
    plan_module(&c, optimize);
    return c;
}

static void close_case(Case *c)
{
    if (failures > c->failures)
        show(c);
    arena_free(c->arena);
}

static const Kernel *kernel_of(const Case *c, const char *value)
{
    for (int k = 0; k < c->e->n_kernels; k++)
        for (int s = 0; s < c->e->kernels[k].n_stores; s++)
            if (!strcmp(c->e->kernels[k].stores[s].value->name, value))
                return &c->e->kernels[k];
    return NULL;
}

static int shared_count(const EntryPlan *e)
{
    int n = 0;
    for (int k = 0; k < e->n_kernels; k++)
        n += !e->kernels[k].per_model;
    return n;
}

/* position of the kernel that stores to this place */
static int writer_of(const Case *c, const char *place)
{
    for (int k = 0; k < c->e->n_kernels; k++)
        for (int s = 0; s < c->e->kernels[k].n_stores; s++)
            if (!strcmp(c->e->kernels[k].stores[s].to->name, place))
                return k;
    return -1;
}

static bool computes(const Case *c, const Kernel *k, const char *name)
{
    int n;
    Node **body = kernel_body(c->e, k, c->arena, &n);
    for (int i = 0; i < n; i++)
        if (!strcmp(body[i]->name, name))
            return true;
    return false;
}

static const char head[] = "hir 1\nmodule \"Case\" stage=ir models=0 batch=4 epochs=1\n";

#define TEXT(declarations, nodes)                                              \
    "hir 1\nmodule \"Case\" stage=ir models=0 batch=4 epochs=1\n" declarations \
    "graph @train {\n" nodes "}\n"

/* Bias and relu happen on the contraction's accumulators; the pre-activation that the gradient of
 * tanh wants is one more store of the same kernel. */
static void test_epilogue(void)
{
    Case c = open_case(
        TEXT("input \"x\" : f32[4*1, 6]\nparam \"w\" : f32[5, 6]\nparam \"b\" : f32[5]\n",
             "%x = input name=\"x\" : f32[4, 6]\n"
             "%w = state name=\"w\" : f32[5, 6]\n"
             "%b = state name=\"b\" : f32[5]\n"
             "%mm = einsum %x, %w spec=\"mk,nk->mn\" : f32[4, 5]\n"
             "%pre = add %mm, %b : f32[4, 5]\n"
             "%y = tanh %pre : f32[4, 5]\n"
             "%s = sum %pre dims=[0] keepdim=true : f32[1, 5]\n"
             "output \"y\" %y\n"
             "output \"s\" %s\n"),
        2);
    CHECK(c.e->n_kernels == 2, "%d kernels", c.e->n_kernels);
    const Kernel *k = kernel_of(&c, "y");
    CHECK(k && k->kind == KERNEL_CONTRACT && k->n_stores == 2 && k->vector == 1, "epilogue");
    CHECK(kernel_of(&c, "pre") == k, "pre-activation is stored by the contraction");
    CHECK(!kernel_of(&c, "mm"), "the sum itself is not stored");
    const Kernel *s = kernel_of(&c, "s");
    CHECK(s && s->vector == 1, "a column sum runs along the columns");
    close_case(&c);
}

/* What depends on the whole result cannot be an epilogue. */
static void test_no_cycle(void)
{
    Case c = open_case(TEXT("input \"x\" : f32[4*1, 6]\nparam \"w\" : f32[5, 6]\n",
                            "%x = input name=\"x\" : f32[4, 6]\n"
                            "%w = state name=\"w\" : f32[5, 6]\n"
                            "%mm = einsum %x, %w spec=\"mk,nk->mn\" : f32[4, 5]\n"
                            "%m = max %mm dims=[1] keepdim=true : f32[4, 1]\n"
                            "%d = sub %mm, %m : f32[4, 5]\n"
                            "output \"d\" %d\n"),
                       2);
    CHECK(c.e->n_kernels == 2, "%d kernels", c.e->n_kernels);
    CHECK(kernel_of(&c, "mm")->kind == KERNEL_CONTRACT, "the contraction is stored");
    CHECK(kernel_of(&c, "d")->kind == KERNEL_EXPR && computes(&c, kernel_of(&c, "d"), "m"),
          "row kernel");
    close_case(&c);
}

static void test_softmax(void)
{
    Case c = open_case(TEXT("input \"x\" : f32[4*1, 6]\nparam \"w\" : f32[4, 6]\n",
                            "%x = input name=\"x\" : f32[4, 6]\n"
                            "%w = state name=\"w\" : f32[4, 6]\n"
                            "%z = mul %x, %w : f32[4, 6]\n"
                            "%m = max %z dims=[1] keepdim=true : f32[4, 1]\n"
                            "%d = sub %z, %m : f32[4, 6]\n"
                            "%e = exp %d : f32[4, 6]\n"
                            "%s = sum %e dims=[1] : f32[4]\n"
                            "%t = reshape %s shape=[4, 1] : f32[4, 1]\n"
                            "%y = div %e, %t : f32[4, 6]\n"
                            "output \"y\" %y\n"),
                       2);
    CHECK(c.e->n_kernels == 1, "%d kernels", c.e->n_kernels);
    const Kernel *k = kernel_of(&c, "y");
    CHECK(k && k->n_stores == 1 && k->vector == 1 && k->space.dim[0] == 4 &&
              k->space.dim[1] == 6,
          "one kernel over rows");
    CHECK(c.e->scratch_bytes == 0, "nothing is stored in between");
    close_case(&c);
}

/* A row statistic that another kernel reads too is one more store of the row kernel. */
static void test_row_statistic(void)
{
    Case c = open_case(TEXT("input \"x\" : f32[4*1, 6]\nparam \"w\" : f32[4, 6]\n",
                            "%x = input name=\"x\" : f32[4, 6]\n"
                            "%w = state name=\"w\" : f32[4, 6]\n"
                            "%z = mul %x, %w : f32[4, 6]\n"
                            "%m = sum %z dims=[1] : f32[4]\n"
                            "%c = reshape %m shape=[4, 1] : f32[4, 1]\n"
                            "%y = sub %z, %c : f32[4, 6]\n"
                            "%all = sum %m dims=[0] : f32[]\n"
                            "%r = cast %all to=f64 : f64[]\n"
                            "output \"y\" %y\n"
                            "result \"all\" %r\n"),
                       2);
    CHECK(c.e->n_kernels == 2, "%d kernels", c.e->n_kernels);
    const Kernel *k = kernel_of(&c, "y");
    CHECK(k && k->n_stores == 2, "statistic and row");
    CHECK(kernel_of(&c, "r")->space.rank == 0 && kernel_of(&c, "r")->vector == -1, "rank 0");
    close_case(&c);
}

static const char adam[] = TEXT(
    "hyper \"lr\" = 0.1\nparam \"p\" : f32[3, 5]\nparam \"q\" : f32[5]\noptim "
    "\"optimizer.m.p\" of \"p\" : f32[3, 5]\n"
    "optim \"optimizer.v.p\" of \"p\" : f32[3, 5]\noptim \"optimizer.m.q\" of \"q\" : f32[5]\n"
    "counter \"$step\" : i64[]\ninput \"x\" : f32[4*1, 5]\n",
    "%x = input name=\"x\" : f32[4, 5]\n"
    "%lr = hyper name=\"lr\" : f64[]\n"
    "%step = state name=\"$step\" : i64[]\n"
    "%one = const data=[1] : i64[]\n"
    "%next = add %step, %one : i64[]\n"
    "%fs = cast %next to=f64 : f64[]\n"
    "%pw = pow %lr, %fs : f64[]\n"
    "%pf = cast %pw : f32[]\n"
    "%p = state name=\"p\" : f32[3, 5]\n"
    "%q = state name=\"q\" : f32[5]\n"
    "%m = state name=\"optimizer.m.p\" : f32[3, 5]\n"
    "%v = state name=\"optimizer.v.p\" : f32[3, 5]\n"
    "%mq = state name=\"optimizer.m.q\" : f32[5]\n"
    "%h = einsum %x, %p spec=\"mk,nk->mn\" : f32[4, 3]\n"
    "%g = einsum %h, %x spec=\"mn,mk->nk\" : f32[3, 5]\n"
    "%gq = sum %x dims=[0] : f32[5]\n"
    "%sq = mul %g, %g : f32[3, 5]\n"
    "%ss = sum %sq dims=[0, 1] : f32[]\n"
    "%ok = isfinite %ss : bool[]\n"
    "%gp = add %g, %p : f32[3, 5]\n"
    "%mn = add %m, %gp : f32[3, 5]\n"
    "%g2 = mul %gp, %gp : f32[3, 5]\n"
    "%vn = add %v, %g2 : f32[3, 5]\n"
    "%sv = sqrt %vn : f32[3, 5]\n"
    "%num = mul %mn, %pf : f32[3, 5]\n"
    "%up = div %num, %sv : f32[3, 5]\n"
    "%pn = sub %p, %up : f32[3, 5]\n"
    "%po = where %ok, %pn, %p : f32[3, 5]\n"
    "%mo = where %ok, %mn, %m : f32[3, 5]\n"
    "%vo = where %ok, %vn, %v : f32[3, 5]\n"
    "%mqn = add %mq, %gq : f32[5]\n"
    "%uq = mul %mqn, %pf : f32[5]\n"
    "%qn = sub %q, %uq : f32[5]\n"
    "%qo = where %ok, %qn, %q : f32[5]\n"
    "%mqo = where %ok, %mqn, %mq : f32[5]\n"
    "%so = where %ok, %next, %step : i64[]\n"
    "%okr = cast %ok to=f64 : f64[]\n"
    "state \"p\" %po\nstate \"optimizer.m.p\" %mo\nstate \"optimizer.v.p\" %vo\n"
    "state \"q\" %qo\nstate \"optimizer.m.q\" %mqo\nstate \"$step\" %so\nok \"ok\" %okr\n");

/* One update is one pass over the parameter, in place; scalars that several updates need are
 * computed once. */
static void test_update(void)
{
    Case c = open_case(adam, 2);
    const int p = writer_of(&c, "p"), q = writer_of(&c, "q");
    CHECK(p >= 0 && p == writer_of(&c, "optimizer.m.p") && p == writer_of(&c, "optimizer.v.p"),
          "p, m and v are one kernel");
    CHECK(q >= 0 && q == writer_of(&c, "optimizer.m.q") && q != p,
          "q and its m are one kernel");
    CHECK(c.e->kernels[p].n_stores == 3 && c.e->kernels[p].flat, "three stores in one loop");
    const Kernel *s = kernel_of(&c, "pf");
    CHECK(s && s->space.rank == 0 && s == kernel_of(&c, "ss") && s == kernel_of(&c, "so"),
          "scalars share a kernel");
    CHECK(!computes(&c, &c.e->kernels[p], "pw"), "the power is not computed again");
    for (int k = 0; k < c.e->n_kernels; k++)
        CHECK(c.e->kernels[k].kind != KERNEL_CONTRACT || k < p, "contractions read the old p");
    close_case(&c);
}

/* Two states that swap, and one that is shifted along itself: the new value waits in a buffer. */
static void test_swap(void)
{
    Case c =
        open_case(TEXT("buffer \"a\" : f32[6]\nbuffer \"b\" : f32[6]\nbuffer \"c\" : f32[6]\n"
                       "buffer \"d\" : f32[2, 3]\n",
                       "%a = state name=\"a\" : f32[6]\n"
                       "%b = state name=\"b\" : f32[6]\n"
                       "%c = state name=\"c\" : f32[6]\n"
                       "%d = state name=\"d\" : f32[2, 3]\n"
                       "%f = slice %c start=[5] step=[-1] size=[6] : f32[6]\n"
                       "%m = sum %d dims=[0] keepdim=true : f32[1, 3]\n"
                       "%dn = sub %d, %m : f32[2, 3]\n"
                       "state \"a\" %b\nstate \"b\" %a\nstate \"c\" %f\nstate \"d\" %dn\n"),
                  2);
    CHECK(c.e->scratch_bytes > 0, "a swap needs a buffer");
    close_case(&c);
}

static void test_unchanged_state(void)
{
    Case c = open_case(TEXT("buffer \"a\" : f32[6]\ninput \"x\" : f32[4*1]\n",
                            "%a = state name=\"a\" : f32[6]\n"
                            "%x = input name=\"x\" : f32[4]\n"
                            "%s = sum %x dims=[0] : f32[]\n"
                            "%r = cast %s to=f64 : f64[]\n"
                            "state \"a\" %a\nresult \"s\" %r\nresult \"t\" %r\n"),
                       2);
    CHECK(writer_of(&c, "a") < 0, "a state that stays is not written");
    CHECK(shared_count(c.e) == 1 && c.e->n_results == 2, "%d shared kernels",
          shared_count(c.e));
    CHECK(c.e->kernels[c.e->n_kernels - 1].per_model,
          "each model gets its copy of a shared result");
    close_case(&c);
}

/* What all models share is computed once, and stays until the last model is done. */
static void test_shared(void)
{
    Case c = open_case(
        TEXT("input \"x\" : u8[4*1, 6]\nparam \"w\" : f32[5, 6]\nparam \"w2\" : f32[5, 6]\n",
             "%x = input name=\"x\" : u8[4, 6]\n"
             "%w = state name=\"w\" : f32[5, 6]\n"
             "%w2 = state name=\"w2\" : f32[5, 6]\n"
             "%xf = cast %x : f32[4, 6]\n"
             "%y = einsum %xf, %w spec=\"mk,nk->mn\" : f32[4, 5]\n"
             "%e = exp %y : f32[4, 5]\n"
             "%z = einsum %xf, %w2 spec=\"mk,nk->mn\" : f32[4, 5]\n"
             "%u = mul %z, %e : f32[4, 5]\n"
             "output \"u\" %u\n"),
        2);
    CHECK(shared_count(c.e) == 1 && c.e->n_kernels == 3, "%d kernels", c.e->n_kernels);
    const Buffer *b = c.e->kernels[0].stores[0].to;
    CHECK(b->space == BUF_SHARED && b->last == c.e->n_kernels - 1, "alive to the end");
    CHECK(kernel_of(&c, "u")->kind == KERNEL_CONTRACT,
          "the later contraction takes the product");
    close_case(&c);
}

/* Dear values that are read twice are stored; cheap ones are computed again. */
static void test_recompute(void)
{
    Case c = open_case(
        TEXT("param \"a\" : f32[4, 6]\nparam \"w\" : f32[5, 6]\n",
             "%a = state name=\"a\" : f32[4, 6]\n"
             "%w = state name=\"w\" : f32[5, 6]\n"
             "%cheap = neg %a : f32[4, 6]\n"
             "%dear = exp %a : f32[4, 6]\n"
             "%c0 = sum %cheap dims=[0] keepdim=true : f32[1, 6]\n"
             "%d0 = sum %dear dims=[0] keepdim=true : f32[1, 6]\n"
             "%c1 = sum %cheap dims=[0, 1] : f32[]\n"
             "%d1 = sum %dear dims=[0, 1] : f32[]\n"
             "output \"c0\" %c0\noutput \"d0\" %d0\noutput \"c1\" %c1\noutput \"d1\" %d1\n"),
        2);
    CHECK(!kernel_of(&c, "cheap"), "neg is computed where it is read");
    CHECK(kernel_of(&c, "dear") != NULL, "exp is stored");
    close_case(&c);
}

/* A chain that no kernel can hold as a whole reuses its memory, in place where it is elementwise.
 */
static void test_reuse(void)
{
    Text t;
    Arena *a = arena_new();
    text_init(&t, a);
    text_add(&t, head);
    text_add(&t, "param \"w\" : f32[32, 32]\nparam \"x\" : f32[32, 32]\ngraph @train {\n"
                 "%w = state name=\"w\" : f32[32, 32]\n%h0 = state name=\"x\" : f32[32, 32]\n");
    for (int i = 0; i < 6; i++)
        text_printf(&t, "%%h%d = einsum %%h%d, %%w spec=\"mk,nk->mn\" : f32[32, 32]\n", i + 1,
                    i);
    text_add(&t, "output \"y\" %h6\n}\n");
    Case c = open_case(t.s, 2);
    CHECK(c.e->scratch_bytes == 2 * 32 * 32 * 4, "scratch is %lld bytes",
          (long long)c.e->scratch_bytes);
    close_case(&c);
    Case all = open_case(t.s, 0);
    CHECK(all.e->scratch_bytes >= 5 * 32 * 32 * 4, "-O0 shares no memory");
    close_case(&all);
    arena_free(a);
}

/* An elementwise kernel writes over the value that dies in it; one that reads other elements too
 * does not. */
static void test_in_place(void)
{
    Case c = open_case(TEXT("param \"w\" : f32[8, 8]\nparam \"x\" : f32[8, 8]\n",
                            "%w = state name=\"w\" : f32[8, 8]\n"
                            "%x = state name=\"x\" : f32[8, 8]\n"
                            "%h = einsum %x, %w spec=\"mk,nk->mn\" : f32[8, 8]\n"
                            "%m = sum %h dims=[0] keepdim=true : f32[1, 8]\n"
                            "%y = sub %h, %m : f32[8, 8]\n"
                            "%z = einsum %y, %w spec=\"mk,nk->mn\" : f32[8, 8]\n"
                            "%t = permute %z dims=[1, 0] : f32[8, 8]\n"
                            "%u = add %z, %t : f32[8, 8]\n"
                            "%v = einsum %u, %w spec=\"mk,nk->mn\" : f32[8, 8]\n"
                            "output \"v\" %v\n"),
                       2);
    const Buffer *h = kernel_of(&c, "h")->stores[0].to, *y = kernel_of(&c, "y")->stores[0].to;
    const Buffer *z = kernel_of(&c, "z")->stores[0].to, *u = kernel_of(&c, "u")->stores[0].to;
    CHECK(h->last == y->first && h->offset == y->offset, "y is written over h");
    CHECK(z->last == u->first && z->offset != u->offset, "u reads z across: not over it");
    close_case(&c);
}

/* Operands of a scatter lie in memory; a gather's index and value are computed where they are
 * read, if cheap. */
static void test_indirect(void)
{
    Case c = open_case(TEXT("param \"w\" : f32[7, 3]\ninput \"i\" : u8[4*1, 3]\n",
                            "%w = state name=\"w\" : f32[7, 3]\n"
                            "%i = input name=\"i\" : u8[4, 3]\n"
                            "%id = cast %i to=i64 : i64[4, 3]\n"
                            "%n = neg %w : f32[7, 3]\n"
                            "%g = gather %n, %id dim=0 : f32[4, 3]\n"
                            "%e = exp %g : f32[4, 3]\n"
                            "%zero = const data=[0] : f32[7, 3]\n"
                            "%s = scatter_add %zero, %id, %e dim=0 : f32[7, 3]\n"
                            "%next = sub %w, %s : f32[7, 3]\n"
                            "state \"w\" %next\n"),
                       2);
    const Kernel *s = kernel_of(&c, "s");
    CHECK(s && s->kind == KERNEL_SCATTER && !strcmp(s->contract->name, "s"), "scatter");
    CHECK(kernel_of(&c, "id") && kernel_of(&c, "e"), "operands are stored");
    CHECK(!kernel_of(&c, "zero"), "one value for all elements is not");
    CHECK(!kernel_of(&c, "n") && !kernel_of(&c, "g"),
          "the gather is computed where it is read");
    CHECK(kernel_of(&c, "next")->kind == KERNEL_EXPR, "a scatter has no epilogue");
    close_case(&c);
}

static void test_same_bytes(void)
{
    char *first = NULL;
    for (int round = 0; round < 2; round++) {
        Case c = open_case(adam, 2);
        Text t;
        text_init(&t, c.arena);
        plan_print(&t, c.plan, true);
        plan_print_memory(&t, c.plan);
        if (round)
            CHECK(!strcmp(first, t.s), "same input, same plan");
        else
            first = strdup(t.s);
        close_case(&c);
    }
    free(first);
}

static void expect_wrong(const Case *c, const char *says)
{
    const char *wrong = plan_check(c->plan, c->arena);
    CHECK(wrong && strstr(wrong, says), "\"%s\" says not: %s", wrong ? wrong : "", says);
}

/* Steps that leave out a kernel, name one twice, in another order, or in the run of the others. */
static void check_broken_steps(const Case *c)
{
    EntryPlan *e = c->e;
    Step *run = &e->steps[e->n_steps - 1];
    CHECK(step_is_run(run) && run->n_list > 1, "the last step is a run");
    run->n_list--;
    expect_wrong(c, "the steps name");
    run->n_list++;
    run->list[1].kernel--;
    expect_wrong(c, "is next");
    run->list[1].kernel++;
    run->list[1].kind = STEP_LOOP;
    expect_wrong(c, "another kind");
    run->list[1].kind = STEP_KERNEL;
    run->kind = STEP_SHARED;
    expect_wrong(c, "wrong run");
    run->kind = STEP_BARRIER;
    expect_wrong(c, "neither a run nor a barrier");
    run->kind = STEP_MODELS;
    CHECK(!plan_check(c->plan, c->arena), "the plan holds again");
}

/* Kernels that leave something out, or do it elsewhere. */
static void check_broken_kernels(const Case *c)
{
    Kernel *k = &c->e->kernels[writer_of(c, "p")];
    const Kernel whole = *k;
    k->n_stores = 0;
    expect_wrong(c, "stores nothing");
    *k = whole;
    k->order[0] = MAX_RANK - 1;
    expect_wrong(c, "are not its axes");
    *k = whole;
    k->space.dim[0]++;
    expect_wrong(c, "does not lie in the space");
    *k = whole;
    Buffer *to = k->stores[0].to;
    const Buffer place = *to;
    to->shape.dim[0]++;
    expect_wrong(c, "of another shape");
    *to = place;
    Store *twice = arena_array(c->arena, (size_t)k->n_stores + 1, sizeof *twice);
    memcpy(twice, k->stores, (size_t)k->n_stores * sizeof *twice);
    twice[k->n_stores] = twice[0];
    k->stores = twice;
    k->n_stores++;
    expect_wrong(c, "is written twice");
    *k = whole;
    CHECK(!plan_check(c->plan, c->arena), "the plan holds again");
}

/* A broken plan is found. */
static void test_checker(void)
{
    Case c = open_case(adam, 2);
    const EntryPlan *e = c.e;
    CHECK(!plan_check(c.plan, c.arena), "the plan holds");
    const int p = writer_of(&c, "p");
    const Kernel saved = e->kernels[p];
    const int first = shared_count(e);
    e->kernels[p] = e->kernels[first];
    e->kernels[first] = saved;
    CHECK(plan_check(c.plan, c.arena) != NULL, "an update before its gradient is found");
    e->kernels[first] = e->kernels[p];
    e->kernels[p] = saved;
    check_broken_steps(&c);
    check_broken_kernels(&c);
    Buffer *one = NULL;
    int found = 0;
    for (int k = 0; k < e->n_kernels; k++)
        for (int s = 0; s < e->kernels[k].n_stores; s++) {
            Buffer *b = e->kernels[k].stores[s].to;
            if (b->space != BUF_SCRATCH || !b->bytes)
                continue;
            if (one && one->first <= b->last && b->first <= one->last && !found++) {
                const int64_t offset = b->offset;
                b->offset = one->offset;
                CHECK(plan_check(c.plan, c.arena) != NULL,
                      "two live buffers in one place are found");
                b->offset = offset;
            }
            one = b;
        }
    CHECK(found > 0, "nothing to collide");
    CHECK(!plan_check(c.plan, c.arena), "the plan holds again");
    close_case(&c);
}

/* ---- random graphs ---- */

static uint32_t random_state;

static int pick(int n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)n);
}

static Node *random_unary(Builder *b, Node *x)
{
    static const OpCode ops[] = {OP_NEG, OP_EXP, OP_RELU, OP_TANH, OP_ABS};
    return build1(b, ops[pick(5)], x);
}

static Node *random_node(Builder *b, Node **pool, int n)
{
    Node *x = pool[pick(n)], *y = pool[pick(n)];
    const int64_t axis = pick(2), swap[] = {1, 0};
    switch (pick(8)) {
    case 0:
        return build_einsum(b, x, y, pick(2) ? "mk,kn->mn" : "mk,nk->mn");
    case 1:
        return build_permute(b, x, swap);
    case 2:
        return build_expand(b, build_reduce(b, pick(2) ? OP_SUM : OP_REDMAX, x, 1, &axis, true),
                            &x->type.shape);
    case 3: {
        const int64_t both[] = {0, 1};
        return build2(b, OP_MUL, x, build_reduce(b, OP_SUM, y, 2, both, false));
    }
    case 4:
        return build2(b, OP_ADD, x, build_reduce(b, OP_SUM, y, 1, &axis, false));
    case 5:
        return random_unary(b, x);
    default:
        return build2(b, pick(2) ? OP_ADD : OP_MUL, x, y);
    }
}

enum {
    RANDOM_STATES = 4,
    RANDOM_NODES = 24
};

static void test_random(uint32_t seed, int optimize)
{
    random_state = seed;
    Case c = {.arena = arena_new(), .failures = failures};
    c.module = module_new(c.arena, diag_new(c.arena, NULL), "Random");
    const int64_t dims[] = {6, 6};
    const Type t = {.dtype = DT_F32, .shape = shape_of(2, dims)};
    static const char *const names[RANDOM_STATES] = {"a", "b", "c", "d"};
    for (int i = 0; i < RANDOM_STATES; i++)
        module_add_state(c.module, &(State){.name = names[i],
                                            .type = t,
                                            .role = i < 2 ? ROLE_PARAM : ROLE_BUFFER,
                                            .loc = SRC_NONE});
    Builder b = {.graph = graph_new(c.module, ENTRY_TRAIN), .loc = SRC_NONE};
    Node *pool[RANDOM_STATES + RANDOM_NODES];
    int n = 0;
    for (int i = 0; i < RANDOM_STATES; i++)
        pool[n++] = build_state(&b, names[i]);
    for (int i = 0; i < RANDOM_NODES; i++)
        pool[n] = random_node(&b, pool, n), n++;
    for (int i = 0; i < RANDOM_STATES; i++)
        graph_add_output(b.graph, &(Output){.kind = OUT_STATE,
                                            .name = names[i],
                                            .value = pool[pick(n)],
                                            .loc = SRC_NONE});
    graph_add_output(
        b.graph,
        &(Output){.kind = OUT_TENSOR, .name = "y", .value = pool[n - 1], .loc = SRC_NONE});
    plan_module(&c, optimize);
    if (failures > c.failures)
        fprintf(stderr, "random graph %u\n", seed);
    close_case(&c);
}

int main(void)
{
    test_epilogue();
    test_no_cycle();
    test_softmax();
    test_row_statistic();
    test_update();
    test_swap();
    test_unchanged_state();
    test_shared();
    test_recompute();
    test_reuse();
    test_in_place();
    test_indirect();
    test_same_bytes();
    test_checker();
    for (uint32_t seed = 1; seed <= 400; seed++)
        test_random(seed, seed % 8 ? 2 : 0);
    printf("%d checks, %d failed\n", checks, failures);
    return failures ? 1 : 0;
}
