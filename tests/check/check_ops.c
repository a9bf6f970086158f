/* check_ops DIR: operators against golden tensors: values and the gradients of sum(out * grad_out).
 *
 * From each file a program is written: differentiable inputs and the operator's parameters become Params, the rest
 * inputs; an optimizer written in .hdl keeps the gradients where the library can read them. */
#include "tests/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How an operator is written.  form: $0 $1 operands, $a the attributes as `, name = value`; a capital first letter: a layer's
 * constructor, called on $0.  drop: attributes that are inferred or say what the program says otherwise.
 * rename: "from=to". */
typedef struct Row {
    const char *op, *form, *drop, *rename;
} Row;

static const Row rows[] = {
    {"linear", "Linear", "in_features", ""},
    {"prelu", "PReLU", "", ""},
    {"layer_norm", "LayerNorm", "", ""},
    {"matmul", "$0 @ $1", "", ""},
    {"add", "$0 + $1", "", ""},
    {"sub", "$0 - $1", "", ""},
    {"mul", "$0 * $1", "", ""},
    {"div", "$0 / $1", "", ""},
    {"neg", "-$0", "", ""},
    {"reciprocal", "1 / $0", "", ""},
    {"rsqrt", "1 / sqrt($0)", "", ""},
    {"square", "$0 ** 2", "", ""},
    {"maximum", "max($0, $1)", "", ""},
    {"minimum", "min($0, $1)", "", ""},
    {"pow", "pow($0$a)", "", ""},
    {"reshape", "reshape($0$a)", "", ""},
    {"expand", "expand($0$a)", "", "shape=sizes"},
    {"cross_entropy", "cross_entropy($0, $1$a)", "", ""},
    {"mse_loss", "mse_loss($0, $1$a)", "", ""},
    {NULL, NULL, "", ""}, /* any other: op($0, $1$a) */
};

static const Row *find_row(const char *op)
{
    const Row *r = rows;
    while (r->op && strcmp(r->op, op))
        r++;
    return r;
}

static bool listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' '))
            return true;
    return false;
}

static const char *renamed(const Row *r, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(r->rename, name, n) && r->rename[n] == '=' ? r->rename + n + 1 : name;
}

/* "in.2" as an attribute's value means that operand. */
static void add_value(Source *s, const json_t *v)
{
    int operand;
    if (json_is_string(v) && sscanf(json_string_value(v), "in.%d", &operand) == 1)
        add(s, "in%d", operand);
    else
        add_json(s, v);
}

static void add_attrs(Source *s, const Row *r, const json_t *attrs, bool first)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)attrs, name, value) {
        if (listed(r->drop, name))
            continue;
        add(s, "%s%s = ", first ? "" : ", ", renamed(r, name));
        add_value(s, value);
        first = false;
    }
}

static int count_operands(const Golden *g)
{
    int n = 0;
    char name[16];
    do
        snprintf(name, sizeof name, "in.%d", n++);
    while (golden_find(g, name));
    return n - 1;
}

/* Operands that an attribute names are no positional ones. */
static int positional(const json_t *attrs, int n)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)attrs, name, value) {
        int operand;
        if (json_is_string(value) && sscanf(json_string_value(value), "in.%d", &operand) == 1 && operand < n)
            n = operand;
    }
    return n;
}

static void add_expression(Source *s, const Row *r, const char *op, const json_t *attrs, int n_in)
{
    if (!r->op) {
        add(s, "%s(", op);
        for (int i = 0; i < n_in; i++)
            add(s, "%sin%d", i ? ", " : "", i);
        add_attrs(s, r, attrs, n_in == 0);
        add(s, ")");
        return;
    }
    for (const char *p = r->form; *p; p++) {
        if (*p != '$')
            add(s, "%c", *p);
        else if (*++p == 'a')
            add_attrs(s, r, attrs, false);
        else
            add(s, "in%c", *p);
    }
}

static bool is_param(const Golden *g, const Tensor *t)
{
    char name[160];
    snprintf(name, sizeof name, "g.%s", t->name);
    return golden_find(g, name) != NULL;
}

static const char *type_name(const Tensor *t)
{
    return hftac_type_text(t->type);
}

static void write_program(Source *s, const Golden *g, const json_t *attrs)
{
    const char *op = golden_text(g, "op");
    const Row *r = find_row(op);
    const Tensor *grad_out = golden_find(g, "grad_out");
    const int n = count_operands(g);
    add(s, "hdl 1\noptimizer Keep() on (p, g) {\n  state grad = 0\n  grad := g\n  return p\n}\n\nmodel Case {\n");
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "in.%d", i);
        const Tensor *t = golden_find(g, name);
        if (is_param(g, t))
            continue;
        add(s, "  input in%d : %s", i, type_name(t));
        add_shape(s, t);
        add(s, "\n");
    }
    if (grad_out) {
        add(s, "  input grad_out : f32");
        add_shape(s, grad_out);
        add(s, "\n");
    }
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "in.%d", i);
        const Tensor *t = golden_find(g, name);
        if (!is_param(g, t))
            continue;
        add(s, "  in%d = Param(", i);
        add_shape(s, t);
        add(s, ")\n");
    }
    const bool layer = r->op && r->form[0] >= 'A' && r->form[0] <= 'Z';
    if (layer) {
        add(s, "  layer = %s(", r->form);
        add_attrs(s, r, attrs, true);
        add(s, ")\n  output out = layer(in0)\n");
    } else {
        add(s, "  output out = ");
        add_expression(s, r, op, attrs, positional(attrs, n));
        add(s, "\n");
    }
    if (grad_out)
        add(s, "  loss sum(reshape(out, [_]) * reshape(grad_out, [_]))\n");
    add(s, "}\n");
    if (grad_out)
        add(s, "\ntrain Case {\n  batch N = 1\n  optimizer Keep()\n}\n");
}

/* The name in the program of in.0 or p.weight. */
static void param_name(const Tensor *t, char *out, size_t size)
{
    if (!strncmp(t->name, "in.", 3))
        snprintf(out, size, "in%s", t->name + 3);
    else
        snprintf(out, size, "layer.%s", t->name + 2);
}

static bool is_operand(const Tensor *t)
{
    return !strncmp(t->name, "in.", 3) || !strncmp(t->name, "p.", 2);
}

/* Models home .. of the array hold the case's tensors; `only` >= 0: model 0 takes that slot's values. */
static void load(hftac_array *a, const Golden *g, int home, int only)
{
    for (int i = 0; i < g->n; i++) {
        const Tensor *t = &g->tensor[i];
        char name[160];
        param_name(t, name, sizeof name);
        if (!strcmp(t->name, "grad_out"))
            feed(a, "grad_out", t);
        else if (is_operand(t) && !is_param(g, t))
            feed(a, name, t);
        else if (is_operand(t))
            for (int b = 0; b < hftac_model_count(a); b++) {
                void *v = slot_values(t, only >= 0 ? only : b, home);
                set_param(a, name, b, t, v);
                free(v);
            }
    }
}

static float *as_float(const void *values, const Tensor *t, hftac_type type)
{
    float *out = malloc((size_t)t->count * sizeof *out + 1);
    for (int64_t i = 0; i < t->count; i++)
        out[i] = type == HFTAC_I64 ? (float)((const int64_t *)values)[i] : ((const float *)values)[i];
    return out;
}

typedef struct Result {
    void *value[SLOTS];
    size_t bytes[SLOTS];
} Result;

/* The tensor `name` ("out" or "g.in.0") of every model. */
static Result read_result(hftac_array *a, const Golden *g, const Tensor *t)
{
    Result r = {{0}, {0}};
    for (int b = 0; b < hftac_model_count(a); b++) {
        if (!strcmp(t->name, "out")) {
            hftac_output out;
            const void *values;
            must(hftac_find_output(a, "out", &out));
            must(hftac_read_output(a, out, b, &values));
            r.bytes[b] = hftac_describe_output(a, out)->bytes;
            r.value[b] = memcpy(malloc(r.bytes[b] + 1), values, r.bytes[b]);
        } else {
            char name[160], state[192];
            param_name(golden_find(g, t->name + 2), name, sizeof name);
            snprintf(state, sizeof state, "optimizer.grad.%s", name);
            r.value[b] = get_param(a, state, b, &r.bytes[b]);
        }
    }
    return r;
}

static void free_result(Result *r)
{
    for (int b = 0; b < SLOTS; b++)
        free(r->value[b]);
}

static void run(hftac_array *a, bool train)
{
    must(hftac_predict_step(a, 1));
    if (!train)
        return;
    must(hftac_train_step(a));
    for (int b = 0; b < hftac_model_count(a); b++) {
        hftac_model_status s;
        must(hftac_read_model(a, b, &s));
        if (s.state != HFTAC_MODEL_RUNNING)
            printf("note: %s\n", s.text);
    }
}

static bool compare(const Golden *g, const Tensor *t, const Result *three, const Result *one, int home)
{
    char what[320];
    bool ok = true;
    for (int b = 0; b < SLOTS; b++) {
        snprintf(what, sizeof what, "%s %s slot %d", g->base, t->name, b);
        ok &= three->bytes[b] == one[b].bytes[0] && same_bits(what, three->value[b], one[b].value[0], three->bytes[b]);
    }
    if ((size_t)t->count * hftac_type_bytes(t->type) != three->bytes[home]) {
        printf("FAILED: %s: %zu bytes, golden has %lld elements\n", what, three->bytes[home], (long long)t->count);
        return false;
    }
    float *v = as_float(three->value[home], t, t->type);
    snprintf(what, sizeof what, "%s %s", g->base, t->name);
    ok &= close_enough(what, v, t, 1e-5, 1e-6);
    free(v);
    return ok;
}

static bool check_case(const Golden *g, int home)
{
    static Source s;
    s.len = 0;
    json_t *attrs = golden_json(g, "attrs");
    write_program(&s, g, attrs);
    json_decref(attrs);
    const bool train = golden_find(g, "grad_out") != NULL;
    hftac_array *one = compile_text(s.text, 1), *three = compile_text(s.text, SLOTS);
    bool ok = one && three;
    if (!ok) {
        printf("FAILED: %s does not compile\n", g->base);
        hftac_close(one);
        hftac_close(three);
        return false;
    }
    load(three, g, home, -1);
    run(three, train);
    for (int i = 0; i < g->n; i++) {
        const Tensor *t = &g->tensor[i];
        if (strcmp(t->name, "out") && strncmp(t->name, "g.", 2))
            continue;
        Result all = read_result(three, g, t), each[SLOTS];
        for (int b = 0; b < SLOTS; b++) {
            must(hftac_reset_model(one, 0));
            load(one, g, home, b);
            run(one, train);
            each[b] = read_result(one, g, t);
        }
        ok &= compare(g, t, &all, each, home);
        free_result(&all);
        for (int b = 0; b < SLOTS; b++)
            free_result(&each[b]);
    }
    hftac_close(one);
    hftac_close(three);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        fatal("usage: check_ops DIR [NAME...]");
    check_begin(argv[0]);
    int n, passed = 0, failed = 0;
    char **files = list_files(argv[1], &n);
    for (int i = 0; i < n; i++) {
        Golden g = golden_read(files[i]);
        bool wanted = argc == 2;
        for (int k = 2; k < argc; k++)
            wanted |= !strcmp(argv[k], g.base);
        if (wanted && check_case(&g, i % SLOTS))
            passed++;
        else if (wanted)
            failed++;
        golden_free(&g);
        free(files[i]);
    }
    free(files);
    check_end();
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
