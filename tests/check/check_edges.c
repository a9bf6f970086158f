/* check_edges FILE STD BUILTINS [NAME]: functions, layers and losses at their edges against
 * PyTorch's values, gradients and buffers.
 *
 * FILE is what tests/edges/write_functions.py wrote: cases as .hdl, their operands and PyTorch's
 * results.  Values and gradients that are not finite never leave a training step, so the step's
 * graph is made an entry for prediction here, whose outputs are what the step computes: each
 * case's value y, its buffers, and the gradients of sum(w y).  Many cases share a program.  Those
 * of scalar functions run a second time with constants as operands: what the compiler computes
 * itself has the same edges.
 *
 * STD and BUILTINS are frontend/std and frontend/builtins/builtins.def: a function or layer that
 * has no case fails (check_edges_names.c). */
#include "tests/check/check_edges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/print.h"
#include "ir/read.h"
#include "ir/verify.h"
#include "tests/check/check.h"

enum {
    PER_PROGRAM = 40
};

static const char head[] = "hdl 1\n"
                           "block Kept on (y) {\n"
                           "  flat = reshape(cast(y, \"f32\"), [_])\n"
                           "  n = len(flat)\n"
                           "  state value : f32[n] = 0\n"
                           "  if training {\n    value := flat\n  }\n"
                           "  return sum(flat)\n}\n"
                           "model Case {\n  anchor = Param([1])\n";

/* ---- the program ---- */

static const char *case_name(const json_t *c)
{
    return json_string_value(json_object_get(c, "name"));
}

/* The case's tensor that FILE calls "NUMBER/name"; NULL: it is another case's. */
static const char *tensor_of(const Tensor *t, int number)
{
    char *end;
    return strtol(t->name, &end, 10) == number && *end == '/' ? end + 1 : NULL;
}

/* Of another result: also right. */
static bool is_alternative(const char *name)
{
    return !strncmp(name, "alt:", 4);
}

static bool is_result(const char *name)
{
    return !strcmp(name, "y") || !strncmp(name, "g:", 2) || !strncmp(name, "after:", 6) ||
           is_alternative(name);
}

static bool has_gradient(const Golden *g, const Tensor *t)
{
    char name[160];
    const char *slash = strchr(t->name, '/');
    snprintf(name, sizeof name, "%.*s/g:%s", (int)(slash - t->name), t->name, slash + 1);
    return golden_find(g, name) != NULL;
}

/* Operands: Params if they have a gradient, else inputs.  Those with a dot in their name are a
 * layer's own. */
static void write_operands(Source *s, const Golden *g, int number)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < g->n; i++) {
            const Tensor *t = &g->tensor[i];
            const char *name = tensor_of(t, number);
            if (!name || is_result(name) || strchr(name, '.') ||
                has_gradient(g, t) != (pass == 1))
                continue;
            add(s, pass ? "  c%d_%s = Param(" : "  input c%d_%s : ", number, name);
            if (pass == 0)
                add(s, "%s", hftac_type_text(t->type));
            add_shape(s, t);
            add(s, pass ? ")\n" : "\n");
        }
}

static void write_case(Source *s, const Golden *g, const json_t *c, int number)
{
    const char *text = json_string_value(json_object_get(c, "text"));
    write_operands(s, g, number);
    add(s, strstr(text, "@y = ") ? "  " : "  c%d_y = ", number);
    for (const char *p = text; *p; p++)
        if (*p == '@' && p[1] == '@')
            add(s, "%c", *++p); /* of a product */
        else if (*p == '@')
            add(s, "c%d_", number);
        else
            add(s, "%c%s", *p, *p == '\n' ? "  " : "");
    add(s, "\n  c%d_kept = Kept()\n  c%d_sum = c%d_kept(c%d_y)\n", number, number, number,
        number);
}

static void write_program(Source *s, const Golden *g, const json_t *cases, int from, int to)
{
    s->len = 0;
    add(s, "%s", head);
    for (int i = from; i < to; i++)
        write_case(s, g, json_array_get(cases, (size_t)i), i);
    add(s, "  loss sum(anchor)");
    for (int i = from; i < to; i++)
        add(s, " + c%d_sum", i);
    add(s, "\n}\ntrain Case {\n  batch N = 1\n  optimizer SGD(0)\n}\n");
}

/* ---- the step as a prediction ---- */

typedef struct Turn {
    const Golden *g;
    Module *module;
    Graph *step;
    Builder b;
} Turn;

/* What the step leaves in a state if nothing stops it: behind the choices of the old value. */
static Node *next_value(const Graph *step, const char *state)
{
    for (int i = 0; i < step->n_outputs; i++) {
        Node *v = step->outputs[i].value;
        if (step->outputs[i].kind != OUT_STATE || strcmp(step->outputs[i].name, state))
            continue;
        while (v->op == OP_WHERE && v->in[2]->op == OP_STATE &&
               !strcmp(v->in[2]->attrs.leaf.name, state))
            v = v->in[1];
        return v;
    }
    return NULL;
}

static Node *weighed(Turn *t, Node *y)
{
    const int64_t n = shape_count(&y->type.shape), axis = 0;
    double *w = malloc((size_t)n * sizeof *w);
    for (int64_t i = 0; i < n; i++)
        w[i] = 1 + 0.25 * (double)(i % 7);
    Node *table = build_table(&t->b, y->type.dtype, &y->type.shape, w);
    free(w);
    return build_reduce(&t->b, OP_SUM, build2(&t->b, OP_MUL, y, table), 1, &axis, false);
}

/* The result that FILE calls "NUMBER/name". */
static Node *result_node(Turn *t, int number, const char *name)
{
    char state[192];
    snprintf(state, sizeof state, "c%d_kept.value", number);
    Node *y = next_value(t->step, state);
    if (!strcmp(name, "y"))
        return y;
    if (!strncmp(name, "after:", 6)) {
        snprintf(state, sizeof state, "c%d_%s", number, name + 6);
        Node *next = next_value(t->step, state);
        return next || !module_state(t->module, state) ? next : build_state(&t->b, state);
    }
    snprintf(state, sizeof state, "c%d_%s", number, name + 2);
    Node *x = module_state(t->module, state) ? build_state(&t->b, state) : NULL;
    return x && y ? build2(&t->b, OP_GRAD, weighed(t, y), x) : NULL;
}

static bool turn_outputs(Turn *t, int from, int to)
{
    Output *outputs = calloc((size_t)t->g->n, sizeof *outputs);
    int n = 0;
    for (int i = 0; i < t->g->n; i++)
        for (int k = from; k < to; k++) {
            const char *name = tensor_of(&t->g->tensor[i], k);
            if (!name || !is_result(name) || is_alternative(name))
                continue;
            Node *v = result_node(t, k, name);
            if (!v) {
                printf("FAILED: the program has no result %s\n", t->g->tensor[i].name);
                free(outputs);
                return false;
            }
            outputs[n++] = (Output){
                .kind = OUT_TENSOR, .name = t->g->tensor[i].name, .value = v, .loc = SRC_NONE};
        }
    t->step->n_outputs = 0;
    for (int i = 0; i < n; i++)
        graph_add_output(t->step, &outputs[i]);
    free(outputs);
    return true;
}

/* Parameters become tables of their values, so that the compiler computes all that it can. */
static void fold_operands(Turn *t, int from, int to)
{
    for (int i = 0; i < t->g->n; i++)
        for (int k = from; k < to; k++) {
            const Tensor *x = &t->g->tensor[i];
            const char *name = tensor_of(x, k);
            char state[192];
            snprintf(state, sizeof state, "c%d_%s", k, name ? name : "");
            if (!name || is_result(name) || !module_state(t->module, state))
                continue;
            Node *leaf = build_state(&t->b, state);
            double *v = malloc((size_t)x->count * sizeof *v);
            for (int64_t e = 0; e < x->count; e++)
                v[e] = ((const float *)x->values)[e];
            graph_replace(t->step, leaf, build_table(&t->b, DT_F32, &leaf->type.shape, v));
            free(v);
        }
    graph_sort(t->step);
}

/* The module with its first values and the step, renamed. */
static bool turn(const Golden *g, Module *m, int from, int to, bool folded, Text *out)
{
    Turn t = {.g = g, .module = m, .step = module_graph(m, ENTRY_TRAIN)};
    t.b = (Builder){.graph = t.step, .loc = SRC_NONE};
    if (!turn_outputs(&t, from, to))
        return false;
    if (folded)
        fold_operands(&t, from, to);
    graph_drop_dead(t.step);
    t.step->name = "predict";
    int n = 0;
    for (int i = 0; i < m->n_graphs; i++)
        if (m->graphs[i] == t.step || !strcmp(m->graphs[i]->name, "init"))
            m->graphs[n++] = m->graphs[i];
    m->n_graphs = n;
    module_verify(m, "check_edges");
    module_print(out, m);
    return true;
}

static hftac_array *compile(const Golden *g, const Source *s, int from, int to, bool folded)
{
    char *text = emit_text(s->text, "ir");
    if (!text)
        return NULL;
    Arena *arena = arena_new();
    Diag *diag = diag_new(arena, &(DiagOptions){.out = stdout});
    Module *m =
        module_read(arena, diag, diag_add_source(diag, "case.hir", text, strlen(text), false));
    Text out;
    text_init(&out, arena);
    hftac_array *a = NULL;
    if (m && turn(g, m, from, to, folded, &out))
        a = compile_ir(out.s, 1);
    arena_free(arena);
    free(text);
    return a;
}

/* ---- comparing ---- */

static void load(hftac_array *a, const Golden *g, int from, int to)
{
    for (int i = 0; i < g->n; i++)
        for (int k = from; k < to; k++) {
            const Tensor *t = &g->tensor[i];
            const char *name = tensor_of(t, k);
            char full[192];
            hftac_param p;
            if (!name || is_result(name))
                continue;
            snprintf(full, sizeof full, "c%d_%s", k, name);
            if (hftac_find_param(a, full, &p) == HFTAC_OK)
                must(hftac_set_param(a, p, 0, t->values,
                                     (size_t)t->count * hftac_type_bytes(t->type)));
            else
                feed(a, full, t);
        }
}

static bool same(float a, float g, double relative, double absolute, bool signs)
{
    if (isnan(g))
        return isnan(a);
    if (g == 0)
        return fabs((double)a) <= absolute && (a != 0 || !signs || signbit(a) == signbit(g));
    if (isinf(g) || !isfinite(a))
        return a == g;
    return fabs((double)a - (double)g) <= relative * fabs((double)g) + absolute;
}

static double setting(const json_t *c, const char *key, double otherwise)
{
    const json_t *v = json_object_get(c, key);
    return json_is_boolean(v) ? json_is_true(v) : v ? json_number_value(v) : otherwise;
}

/* The operands' values at flat position i of a result of as many elements, for a message. */
static void print_operands(const Golden *g, int number, int64_t count, int64_t i)
{
    for (int k = 0; k < g->n; k++) {
        const Tensor *t = &g->tensor[k];
        const char *name = tensor_of(t, number);
        if (name && !is_result(name) && t->count == count && t->type == HFTAC_F32)
            printf(" %s = %.9g", name, (double)((const float *)t->values)[i]);
    }
}

static bool compare(hftac_array *a, const Golden *g, const json_t *c, int number,
                    const Tensor *t)
{
    hftac_output out;
    const void *values;
    must(hftac_find_output(a, t->name, &out));
    must(hftac_read_output(a, out, 0, &values));
    const hftac_output_description *d = hftac_describe_output(a, out);
    if (d->bytes != (size_t)t->count * sizeof(float) || t->type != HFTAC_F32) {
        printf("FAILED: %s %s: %zu bytes, PyTorch has %lld elements\n", case_name(c), t->name,
               (size_t)d->bytes, (long long)t->count);
        return false;
    }
    const char *slash = strchr(t->name, '/');
    char other[160];
    snprintf(other, sizeof other, "%d/alt:%s", number, slash + 1);
    const Tensor *alt = golden_find(g, other);
    const bool signs = slash[1] == 'y' && setting(c, "signs", 1) != 0;
    const double relative = setting(c, "relative", 4e-6),
                 absolute = setting(c, "absolute", 6e-7);
    int bad = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const float v = ((const float *)values)[i], r = ((const float *)t->values)[i];
        if (same(v, r, relative, absolute, signs) ||
            (alt && same(v, ((const float *)alt->values)[i], relative, absolute, signs)))
            continue;
        if (bad++ < 100) {
            printf("FAILED: %s (%s)[%lld]: %.9g, PyTorch %.9g;", case_name(c), t->name,
                   (long long)i, (double)v, (double)r);
            print_operands(g, number, t->count, i);
            printf("\n");
        }
    }
    return !bad;
}

typedef struct Score {
    int passed, failed;
} Score;

static void run(const Golden *g, const json_t *cases, int from, int to, bool folded,
                Score *score)
{
    static Source s;
    write_program(&s, g, cases, from, to);
    hftac_array *a = compile(g, &s, from, to, folded);
    if (!a) {
        printf("FAILED: cases %d to %d do not compile\n", from, to - 1);
        score->failed += to - from;
        return;
    }
    load(a, g, from, to);
    must(hftac_predict_step(a, 1));
    for (int k = from; k < to; k++) {
        bool ok = true;
        for (int i = 0; i < g->n; i++) {
            const char *name = tensor_of(&g->tensor[i], k);
            if (name && is_result(name) && !is_alternative(name))
                ok &= compare(a, g, json_array_get(cases, (size_t)k), k, &g->tensor[i]);
        }
        score->passed += ok;
        score->failed += !ok;
    }
    hftac_close(a);
}

/* Of the cases of that name (NULL: all); of those whose operands may be constants, if `folded`. */
static void run_all(const Golden *g, const json_t *cases, const char *only, bool folded,
                    Score *score)
{
    const int n = (int)json_array_size(cases);
    int from = 0;
    for (int i = 0; i <= n; i++) {
        const json_t *c = i < n ? json_array_get(cases, (size_t)i) : NULL;
        const bool wanted = c && (!only || !strcmp(only, case_name(c))) &&
                            (!folded || setting(c, "fold", 0) != 0);
        if (i > from && (!wanted || i - from == PER_PROGRAM)) {
            run(g, cases, from, i, folded, score);
            from = i;
        }
        from = wanted ? from : i + 1;
    }
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fatal("usage: check_edges FILE STD BUILTINS [NAME]");
    check_begin(argv[0]);
    Golden g = golden_read(argv[1]);
    json_t *cases = golden_json(&g, "cases");
    const char *only = argc > 4 ? argv[4] : NULL;
    Score score = {0, 0};
    run_all(&g, cases, only, false, &score);
    run_all(&g, cases, only, true, &score);
    if (!only)
        score.failed += edges_without_case(cases, argv[2], argv[3]);
    printf("%d passed, %d failed (PyTorch %s)\n", score.passed, score.failed,
           golden_text(&g, "torch"));
    json_decref(cases);
    golden_free(&g);
    check_end();
    return score.failed || !score.passed;
}
