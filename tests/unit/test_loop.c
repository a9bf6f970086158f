/* Loops: text and back, mistakes in either, what is trimmed, and the plan of a body. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/loop.h"
#include "ir/print.h"
#include "ir/read.h"
#include "ir/verify.h"
#include "passes/plan/plan_build.h"
#include "tests/unit/graphs.h"

enum {
    ROUNDS = 5
};

/* h = tanh(einsum(h, w) + x[t]), c counts; both carried; h stacked, and a second stack that
 * nobody reads. */
static Node *build_cell(Lab *l, bool reverse)
{
    const Shape s = shape2(3, 8), scalar = {0};
    const Type t = {.dtype = DT_F32, .shape = s}, number = {.dtype = DT_I64};
    Node *x = lab_state(l, "x", ROLE_BUFFER, DT_F32, shape3(ROUNDS, 3, 8), -1, 1);
    Node *w = lab_state(l, "w", ROLE_PARAM, DT_F32, shape2(8, 8), -1, 1);
    LoopDraft d;
    loop_begin(&d, &l->b, loop_body_new(l->module, "cell"), ROUNDS, reverse);
    Builder in = {.graph = d.body, .hint = "in"};
    Node *h = loop_carried(&d, "h", build_full(&l->b, DT_F32, &s, 0.5), &t);
    Node *c = loop_carried(&d, "c", build_full(&l->b, DT_I64, &scalar, 0), &number);
    Node *u = build_einsum(&in, h, loop_invariant(&d, w), "mk,nk->mn");
    u = build2(&in, OP_ADD, u, loop_scanned(&d, x));
    loop_next(&d, build1(&in, OP_TANH, u));
    loop_next(&d, build2(&in, OP_ADD, c, build_const(&in, DT_I64, 1)));
    CHECK(loop_stack(&d, d.next[0]) == 0 && loop_stack(&d, u) == 1 &&
              loop_stack(&d, d.next[0]) == 0,
          "a value is stacked once");
    Node *loop = loop_end(&d, "cell");
    lab_output(l, OUT_TENSOR, "last", loop_result(&l->b, loop, 0, "last"));
    lab_output(l, OUT_TENSOR, "all", loop_stacked(&l->b, loop, 0, "all"));
    return loop;
}

static const char *module_text(Lab *l)
{
    Text t;
    text_init(&t, l->arena);
    module_print(&t, l->module);
    return t.s;
}

/* NULL and what was said if the text is refused. */
static Module *read_text(Lab *l, const char *text)
{
    return module_read(l->arena, l->diag,
                       diag_add_source(l->diag, "t.hir", text, strlen(text), false));
}

static void test_round_trip(void)
{
    Lab l;
    lab_open(&l, ENTRY_PREDICT);
    build_cell(&l, true);
    CHECK(!module_check(l.module), "the loop is well formed");
    const char *text = module_text(&l);
    CHECK(strstr(text,
                 "= loop %h, %c, %x, %w count=5 carried=2 scanned=1 reverse=true : bool[] {") ||
              strstr(text, "count=5 carried=2 scanned=1 reverse=true : bool[] {"),
          "the loop's line:\n%s", text);
    CHECK(strstr(text, "\n    next %") && strstr(text, "\n    stack %") &&
              strstr(text, "\n  }\n"),
          "the body stands inside");
    Module *m = read_text(&l, text);
    CHECK(m != NULL, "the text is read");
    if (m) {
        Text again;
        text_init(&again, l.arena);
        module_print(&again, m);
        CHECK(!strcmp(again.s, text), "read and printed again:\n%s", again.s);
        Text dot;
        text_init(&dot, l.arena);
        module_print_dot(&dot, m);
        CHECK(strstr(dot.s, "\"next\"") && strstr(dot.s, "\"stack\""), "the body is drawn");
    }
    lab_close(&l);
}

typedef struct Mistake {
    const char *from, *to, *said;
} Mistake;

static const Mistake mistakes[] = {
    {"carried=2", "carried=9", "do not fit its operands"},
    {"count=5", "count=6", "but the operand is"},
    {"index=3", "index=7", "stands for no operand"},
    {"    next %in.2\n", "    next %c\n", "but the carried one is"},
    {"    stack %in.1\n", "    next %in.1\n", "not of the kind"},
    {"    stack %in.1\n", "    result \"r\" %c\n", "not of the kind"},
    {"result %cell index=2", "result %cell index=8", "has no result 8"},
    {"result %cell index=2", "result %x index=2", "is no loop"},
    {"  }\n", "", "is not defined above"},
};

static const char *replaced(Arena *a, const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    return at ? arena_printf(a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from))
              : NULL;
}

static void test_mistakes(void)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        Lab l;
        lab_open(&l, ENTRY_PREDICT);
        build_cell(&l, false);
        const Mistake *m = &mistakes[i];
        const char *text = replaced(l.arena, module_text(&l), m->from, m->to);
        CHECK(text != NULL, "the text has '%s' in:\n%s", m->from, module_text(&l));
        if (text) {
            CHECK(read_text(&l, text) == NULL, "'%s' is refused", m->to);
            fflush(l.out);
            CHECK(strstr(l.messages, m->said), "'%s' instead of '%s' says: %s", m->to, m->from,
                  l.messages);
        }
        lab_close(&l);
    }
}

static void test_broken(void)
{
    Lab l;
    lab_open(&l, ENTRY_PREDICT);
    Node *loop = build_cell(&l, false);
    Graph *body = loop->body, *outer = body->outer;
    body->owner = NULL;
    CHECK(module_check(l.module), "a body without its loop");
    body->owner = loop;
    body->outer = body;
    CHECK(module_check(l.module), "a body in another graph");
    body->outer = outer;
    Builder in = {.graph = body};
    Node *stray = build_state(&in, "w");
    const char *said = module_check(l.module);
    CHECK(said && strstr(said, "without an argument"), "a body that reads a state: %s", said);
    stray->op = OP_SEED;
    stray->type = (Type){.dtype = DT_I64};
    CHECK(!module_check(l.module), "a body may read the seed: %s", module_check(l.module));
    lab_close(&l);
}

static void test_trim(void)
{
    Lab l;
    lab_open(&l, ENTRY_PREDICT);
    Node *loop = build_cell(&l, false);
    double **before = lab_evaluate(&l, "as built");
    int64_t n, n_all;
    const double *last = ref_output(l.graph, before, "last", &n);
    const double *all = ref_output(l.graph, before, "all", &n_all);
    simplify(l.module);
    CHECK(loop->attrs.loop.carried == 1 && loop->n_in == 3 && loop->body->n_outputs == 2,
          "what counts and what nobody reads is gone");
    CHECK(loop->attrs.loop.scanned == 1, "the scanned operand stays");
    double **after = lab_evaluate(&l, "simplify");
    CHECK(lab_error(&l, after, "last", last, n) == 0, "the last value stays");
    CHECK(lab_error(&l, after, "all", all, n_all) == 0, "all values stay");
    CHECK(!loop_trim(l.graph, loop), "there is nothing left to trim");
    lab_close(&l);
}

/* ---- plans ---- */

static const Kernel *loop_kernel(const EntryPlan *e)
{
    for (int i = 0; i < e->n_kernels; i++)
        if (e->kernels[i].kind == KERNEL_LOOP)
            return &e->kernels[i];
    return NULL;
}

static Plan *plan_cell(Lab *l, bool reverse, int optimize)
{
    const Target cpu = {.optimize = optimize};
    build_cell(l, reverse);
    mask_batch(l->module);
    simplify(l->module);
    hfuse(l->module, 3, &cpu);
    lower(l->module, &cpu);
    prepare(l->module);
    module_verify(l->module, "lower");
    return plan_build(l->module, &cpu);
}

static void check_places(const Kernel *k, bool reverse)
{
    const EntryPlan *body = k->loop->body;
    int carried = 0, stepping = 0;
    graph_foreach (body->graph, n) {
        const Buffer *b = body->buffer[n->id];
        if (!node_is_arg(n))
            continue;
        CHECK(b && b->outside && b->base && b->depth == 1, "%%%s has a place outside", n->name);
        carried += b->odd_base != NULL;
        if (!b->step)
            continue;
        stepping++;
        const int64_t element = 3 * 8 * 4;
        CHECK(b->step == (reverse ? -element : element) &&
                  b->shift == (reverse ? (ROUNDS - 1) * element : 0),
              "rounds go through the scanned operand");
    }
    CHECK(carried == 1 && stepping == 1, "one carried and one scanned argument");
}

static void test_plan(bool reverse, int optimize)
{
    Lab l;
    lab_open(&l, ENTRY_PREDICT);
    Plan *p = plan_cell(&l, reverse, optimize);
    const Kernel *k = loop_kernel(&p->entries[0]);
    CHECK(k && k->per_model && k->loop->count == ROUNDS && k->n_stores == 2, "a loop's kernel");
    if (k) {
        check_places(k, reverse);
        CHECK(optimize == 0 || k->loop->body->n_kernels == 1,
              "a round is one contraction with its epilogue: %d kernels",
              k->loop->body->n_kernels);
        const Buffer *last = p->entries[0].buffer[k->stores[0].value->id];
        CHECK(last == k->loop->place[0][ROUNDS & 1], "the last round's place is the result's");
        k->loop->place[0][1]->offset = k->loop->place[0][0]->offset;
        CHECK(plan_check(p, l.arena), "the two places of a carried value must not meet");
    }
    lab_close(&l);
}

/* A body's own memory must lie inside the loop's. */
static void test_check(void)
{
    Lab l;
    lab_open(&l, ENTRY_PREDICT);
    Plan *p = plan_cell(&l, false, 0);
    const Kernel *k = loop_kernel(&p->entries[0]);
    CHECK(!plan_check(p, l.arena), "the plan holds");
    for (int i = 0; k && i < k->loop->body->n_kernels; i++) {
        Buffer *b = k->loop->body->kernels[i].stores[0].to;
        const int64_t shift = b->shift;
        b->shift = 1 << 20;
        CHECK(plan_check(p, l.arena), "kernel %d of the body may not write anywhere", i);
        b->shift = shift;
    }
    CHECK(!plan_check(p, l.arena), "the plan holds again");
    lab_close(&l);
}

int main(void)
{
    test_round_trip();
    test_mistakes();
    test_broken();
    test_trim();
    for (int optimize = 0; optimize <= 2; optimize += 2) {
        test_plan(false, optimize);
        test_plan(true, optimize);
    }
    test_check();
    return check_status();
}
