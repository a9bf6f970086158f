/* check_ops DIR: operators against golden tensors: values, the gradients of sum(out * grad_out),
 * and buffers afterwards.
 *
 * From each file a program is written: differentiable inputs and the operator's parameters become
 * Params, the rest inputs; an optimizer written in .hdl keeps the gradients where the library can
 * read them.  An operator that has another meaning in training ("training" among its attributes)
 * runs in both: a state keeps what the training step computed. */
#include "tests/check/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How an operator is written.  form: $0 $1 operands, $a the attributes as `, name = value`; a
 * capital first letter: a layer's constructor.  drop: attributes that are inferred or say what
 * the program says otherwise.  rename: "from=to ...". call: how a layer is called, NULL:
 * layer($0); {name} is the attribute of that name, none if absent.  extra: more arguments. */
typedef struct Row {
    const char *op, *form, *drop, *rename, *call, *extra;
} Row;

static const Row rows[] = {
    {.op = "linear", .form = "Linear", .drop = "in_features"},
    {.op = "layer_norm", .form = "LayerNorm"},
    {.op = "group_norm", .form = "GroupNorm", .drop = "num_channels"},
    {.op = "instance_norm1d", .form = "InstanceNorm1d", .drop = "num_features training"},
    {.op = "instance_norm2d", .form = "InstanceNorm2d", .drop = "num_features training"},
    {.op = "rms_norm", .form = "RMSNorm"},
    {.op = "batch_norm1d", .form = "BatchNorm1d", .drop = "num_features training"},
    {.op = "batch_norm2d", .form = "BatchNorm2d", .drop = "num_features training"},
    {.op = "conv1d", .form = "Conv1d", .drop = "in_channels"},
    {.op = "conv2d", .form = "Conv2d", .drop = "in_channels"},
    {.op = "conv3d", .form = "Conv3d", .drop = "in_channels"},
    {.op = "conv_transpose1d", .form = "ConvTranspose1d", .drop = "in_channels"},
    {.op = "conv_transpose2d", .form = "ConvTranspose2d", .drop = "in_channels"},
    {.op = "prelu", .form = "PReLU"},
    {.op = "embedding", .form = "Embedding"},
    {.op = "embedding_bag", .form = "EmbeddingBag"},
    {.op = "multihead_attention",
     .form = "MultiheadAttention",
     .drop = "embed_dim layout causal key value key_padding_mask attn_mask kdim vdim",
     .call = "layer($0, {key}, {value}, key_padding_mask = {key_padding_mask}, attn_mask = "
             "{attn_mask}, "
             "is_causal = {causal} == true)[0]"},
    {.op = "transformer_encoder_layer",
     .form = "TransformerEncoderLayer",
     .drop = "d_model layout src_mask src_key_padding_mask",
     .call = "layer($0, src_mask = {src_mask}, src_key_padding_mask = {src_key_padding_mask})",
     .extra = "dropout = 0"},
    {.op = "lstm", .form = "LSTM", .drop = "input_size layout output", .call = "layer($0)[0]"},
    {.op = "gru", .form = "GRU", .drop = "input_size layout output", .call = "layer($0)[0]"},
    {.op = "matmul", .form = "$0 @ $1"},
    {.op = "add", .form = "$0 + $1"},
    {.op = "sub", .form = "$0 - $1"},
    {.op = "mul", .form = "$0 * $1"},
    {.op = "div", .form = "$0 / $1"},
    {.op = "neg", .form = "-$0"},
    {.op = "reciprocal", .form = "1 / $0"},
    {.op = "rsqrt", .form = "1 / sqrt($0)"},
    {.op = "square", .form = "$0 ** 2"},
    {.op = "maximum", .form = "max($0, $1)"},
    {.op = "minimum", .form = "min($0, $1)"},
    {.op = "pow", .form = "pow($0$a)"},
    {.op = "reshape", .form = "reshape($0$a)"},
    {.op = "expand", .form = "expand($0$a)", .rename = "shape=sizes"},
    {.op = "gather", .form = "gather($0, index = $1$a)"},
    {.op = "index_select", .form = "index_select($0, index = $1$a)"},
    {.op = "scatter_add", .form = "scatter_add($0, index = $1, src = $2$a)"},
    {.op = "cat", .form = "cat([$*]$a)"},
    {.op = "stack", .form = "stack([$*]$a)"},
    {.op = "cross_entropy", .form = "cross_entropy($0, $1$a)"},
    {.op = "mse_loss", .form = "mse_loss($0, $1$a)"},
    {0}, /* any other: op($0, $1$a) */
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
    for (const char *p = list; p && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == 0 || p[n] == ' '))
            return true;
    return false;
}

static const char *renamed(const Row *r, const char *name)
{
    const size_t n = strlen(name);
    return r->rename && !strncmp(r->rename, name, n) && r->rename[n] == '=' ? r->rename + n + 1
                                                                            : name;
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
    json_object_foreach((json_t *)attrs, name, value)
    {
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
    json_object_foreach((json_t *)attrs, name, value)
    {
        int operand;
        if (json_is_string(value) && sscanf(json_string_value(value), "in.%d", &operand) == 1 &&
            operand < n)
            n = operand;
    }
    return n;
}

/* form with its $ and {} filled in. */
static void add_form(Source *s, const Row *r, const char *form, const json_t *attrs, int n_in)
{
    for (const char *p = form; *p; p++) {
        if (*p == '{') {
            char name[64];
            const size_t n = strcspn(p + 1, "}");
            snprintf(name, sizeof name, "%.*s", (int)n, p + 1);
            const json_t *v = json_object_get(attrs, name);
            if (v)
                add_value(s, v);
            else
                add(s, "none");
            p += n + 1;
        } else if (*p != '$') {
            add(s, "%c", *p);
        } else if (*++p == 'a') {
            add_attrs(s, r, attrs, false);
        } else if (*p == '*') {
            for (int i = 0; i < n_in; i++)
                add(s, "%sin%d", i ? ", " : "", i);
        } else {
            add(s, "in%c", *p);
        }
    }
}

static void add_expression(Source *s, const Row *r, const char *op, const json_t *attrs,
                           int n_in)
{
    if (r->op) {
        add_form(s, r, r->form, attrs, n_in);
        return;
    }
    add(s, "%s(", op);
    for (int i = 0; i < n_in; i++)
        add(s, "%sin%d", i ? ", " : "", i);
    add_attrs(s, r, attrs, n_in == 0);
    add(s, ")");
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

/* Is the value that of a training step? */
static bool in_training(const json_t *attrs)
{
    return json_is_true(json_object_get(attrs, "training"));
}

static bool is_layer(const Row *r)
{
    return r->op && r->form[0] >= 'A' && r->form[0] <= 'Z';
}

static void write_input(Source *s, const char *name, const Tensor *t)
{
    add(s, "  input %s : %s", name, type_name(t));
    add_shape(s, t);
    add(s, "\n");
}

static void write_operands(Source *s, const Golden *g, int n)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            char name[16];
            snprintf(name, sizeof name, "in.%d", i);
            const Tensor *t = golden_find(g, name);
            snprintf(name, sizeof name, "in%d", i);
            if (is_param(g, t) != (pass == 1))
                continue;
            if (pass == 0) {
                write_input(s, name, t);
            } else {
                add(s, "  %s = Param(", name);
                add_shape(s, t);
                add(s, ")\n");
            }
        }
}

static void write_layer(Source *s, const Row *r, const json_t *attrs, int n)
{
    add(s, "  layer = %s(", r->form);
    const size_t before = s->len;
    add_attrs(s, r, attrs, true);
    if (json_is_false(json_object_get(attrs, "training")) &&
        (strstr(r->form, "BatchNorm") || strstr(r->form, "InstanceNorm")))
        add(s, "%sfrozen = true", s->len > before ? ", " : "");
    if (r->extra)
        add(s, "%s%s", s->len > before ? ", " : "", r->extra);
    add(s, ")\n  y = ");
    add_form(s, r, r->call ? r->call : "layer($0)", attrs, n);
    add(s, "\n");
}

static void write_program(Source *s, const Golden *g, const json_t *attrs)
{
    const char *op = golden_text(g, "op");
    const Row *r = find_row(op);
    const Tensor *grad_out = golden_find(g, "grad_out"), *out = golden_find(g, "out");
    const int n = count_operands(g);
    add(s, "hdl 1\noptimizer Keep() on (p, g) {\n  state grad = 0\n  grad := g\n  return "
           "p\n}\n\n");
    if (in_training(attrs)) {
        add(s, "block Kept on (y) {\n  state value : f32");
        add_shape(s, out);
        add(s, " = 0\n  if training {\n    value := reshape(y, shape(value))\n  }\n  return "
               "y\n}\n\n");
    }
    add(s, "model Case {\n");
    if (grad_out)
        write_input(s, "grad_out", grad_out);
    write_operands(s, g, n);
    if (is_layer(r)) {
        write_layer(s, r, attrs, n);
    } else {
        add(s, "  y = ");
        add_expression(s, r, op, attrs, positional(attrs, n));
        add(s, "\n");
    }
    if (in_training(attrs))
        add(s, "  kept = Kept()\n  y = kept(y)\n");
    add(s, "  output out = y\n");
    if (grad_out)
        add(s, "  loss sum(reshape(y, [_]) * reshape(grad_out, [_]))\n");
    add(s, "}\n");
    if (grad_out)
        add(s, "\ntrain Case {\n  batch N = 1\n  optimizer Keep()\n}\n");
}

/* The name in the program of in.0, p.weight, b.running_mean. */
static void param_name(const Tensor *t, char *out, size_t size)
{
    if (!strncmp(t->name, "in.", 3))
        snprintf(out, size, "in%s", t->name + 3);
    else
        snprintf(out, size, "layer.%s", t->name + 2);
}

static bool is_buffer(const Tensor *t)
{
    return !strncmp(t->name, "b.", 2);
}

static bool is_operand(const Tensor *t)
{
    return !strncmp(t->name, "in.", 3) || !strncmp(t->name, "p.", 2) || is_buffer(t);
}

/* What the golden file says about results: values, gradients, buffers. */
static bool is_result(const Tensor *t)
{
    return !strcmp(t->name, "out") || !strncmp(t->name, "g.", 2) ||
           !strncmp(t->name, "b_after.", 8);
}

/* Models home .. of the array hold the case's tensors; `only` >= 0: model 0 takes that slot's
 * values. */
static void load(hftac_array *a, const Golden *g, int home, int only)
{
    for (int i = 0; i < g->n; i++) {
        const Tensor *t = &g->tensor[i];
        char name[160];
        param_name(t, name, sizeof name);
        if (!strcmp(t->name, "grad_out"))
            feed(a, "grad_out", t);
        else if (is_operand(t) && !is_buffer(t) && !is_param(g, t))
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
        out[i] = type == HFTAC_I64 ? (float)((const int64_t *)values)[i]
                                   : ((const float *)values)[i];
    return out;
}

typedef struct Result {
    void *value[SLOTS];
    size_t bytes[SLOTS];
} Result;

/* Where the program keeps a result: "" for the output. */
static void result_name(const Golden *g, const Tensor *t, bool training, char *out, size_t size)
{
    char name[160];
    if (!strcmp(t->name, "out")) {
        snprintf(out, size, "%s", training ? "kept.value" : "");
    } else if (!strncmp(t->name, "b_after.", 8)) {
        snprintf(out, size, "layer.%s", t->name + 8);
    } else {
        param_name(golden_find(g, t->name + 2), name, sizeof name);
        snprintf(out, size, "optimizer.grad.%s", name);
    }
}

/* The result t of every model. */
static Result read_result(hftac_array *a, const Golden *g, const Tensor *t, bool training)
{
    Result r = {{0}, {0}};
    char name[192];
    result_name(g, t, training, name, sizeof name);
    for (int b = 0; b < hftac_model_count(a); b++) {
        if (*name) {
            r.value[b] = get_param(a, name, b, &r.bytes[b]);
        } else {
            hftac_output out;
            const void *values;
            must(hftac_find_output(a, "out", &out));
            must(hftac_read_output(a, out, b, &values));
            r.bytes[b] = hftac_describe_output(a, out)->bytes;
            r.value[b] = memcpy(malloc(r.bytes[b] + 1), values, r.bytes[b]);
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

static bool compare(const Golden *g, const Tensor *t, const Result *three, const Result *one,
                    int home)
{
    char what[320];
    bool ok = true;
    for (int b = 0; b < SLOTS; b++) {
        snprintf(what, sizeof what, "%s %s slot %d", g->base, t->name, b);
        ok &= three->bytes[b] == one[b].bytes[0] &&
              same_bits(what, three->value[b], one[b].value[0], three->bytes[b]);
    }
    if ((size_t)t->count * hftac_type_bytes(t->type) != three->bytes[home]) {
        printf("FAILED: %s: %zu bytes, golden has %lld elements\n", what, three->bytes[home],
               (long long)t->count);
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
    const bool training = in_training(attrs);
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
        if (!is_result(t))
            continue;
        Result all = read_result(three, g, t, training), each[SLOTS];
        for (int b = 0; b < SLOTS; b++) {
            must(hftac_reset_model(one, 0));
            load(one, g, home, b);
            run(one, train);
            each[b] = read_result(one, g, t, training);
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
