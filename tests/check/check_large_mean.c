/* check_large_mean FILE: normalisations of values with a large mean are better than PyTorch's in
 * float32.
 *
 * FILE is what tests/sums/write_large_mean.py wrote: layers and functions as .hdl, float32
 * operands, PyTorch's results in float64 and the error of its float32.  A single training step
 * gives all of ours: x is an input plus a parameter that is 0, and with a rate of 2^20 the
 * parameters' change is the gradient, as exactly as float32 holds it. */
#include "tests/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Less than this is rounding of the result itself and of a few additions: where PyTorch's own
 * error is that small (a bias's gradient is the sum of w whatever x is), neither can be said to
 * be better. */
static const double few_roundings = 4e-7;
static const double rate = 1048576;

static const char head[] = "hdl 1\n"
                           "block Kept on (y) {\n"
                           "  flat = reshape(y, [_])\n"
                           "  n = len(flat)\n"
                           "  state value : f32[n] = 0\n"
                           "  if training {\n    value := detach(flat)\n  }\n"
                           "  return y\n}\n"
                           "model Case {\n";

static const Tensor *tensor(const Golden *g, const char *name, const char *key)
{
    char full[160];
    snprintf(full, sizeof full, "%s/%s", name, key);
    const Tensor *t = golden_find(g, full);
    if (!t)
        fatal("%s: no tensor %s", g->path, full);
    return t;
}

static const char *text_of(const json_t *c, const char *key)
{
    return json_string_value(json_object_get(c, key));
}

static void write_case(Source *s, const Golden *g, const json_t *c)
{
    const char *name = text_of(c, "name"), *text = text_of(c, "text"), *x = strstr(text, "@x");
    static const char *const keys[] = {"x", "w"};
    for (int k = 0; k < 2; k++) {
        add(s, "  input %s_%s : f32", name, keys[k]);
        add_shape(s, tensor(g, name, keys[k]));
        add(s, "\n");
    }
    add(s, "  %s_shift = Param(", name);
    add_shape(s, tensor(g, name, "x"));
    add(s, ")\n  %s_moved = %s_x + %s_shift\n", name, name, name);
    if (x)
        add(s, "  %s_y = %.*s%s_moved%s\n", name, (int)(x - text), text, name, x + 2);
    else
        add(s, "  %s_layer = %s\n  %s_y = %s_layer(%s_moved)\n", name, text, name, name, name);
    add(s, "  %s_kept = Kept()\n  %s_loss = sum(%s_kept(%s_y) * %s_w)\n", name, name, name,
        name, name);
}

static void write_program(Source *s, const Golden *g, const json_t *cases)
{
    size_t i;
    json_t *c;
    add(s, "%s", head);
    json_array_foreach(cases, i, c) write_case(s, g, c);
    add(s, "  loss ");
    json_array_foreach(cases, i, c) add(s, "%s%s_loss", i ? " + " : "", text_of(c, "name"));
    add(s, "\n}\ntrain Case {\n  batch N = 1\n  optimizer SGD(%.0f)\n}\n", rate);
}

/* The case's tensor of this kind ("before:", ...): what follows in its name; NULL if t is
 * another. */
static const char *is_kind(const Tensor *t, const char *name, const char *kind)
{
    const size_t n = strlen(name), k = strlen(kind);
    if (strncmp(t->name, name, n) || t->name[n] != '/' || strncmp(t->name + n + 1, kind, k))
        return NULL;
    return t->name + n + 1 + k;
}

static void set_case(hftac_array *a, const Golden *g, const char *name)
{
    char full[160];
    static const char *const keys[] = {"x", "w"};
    for (int k = 0; k < 2; k++) {
        snprintf(full, sizeof full, "%s_%s", name, keys[k]);
        feed(a, full, tensor(g, name, keys[k]));
    }
    const Tensor *x = tensor(g, name, "x");
    float *zeros = calloc((size_t)x->count, sizeof *zeros);
    snprintf(full, sizeof full, "%s_shift", name);
    set_param(a, full, 0, x, zeros);
    free(zeros);
    for (int i = 0; i < g->n; i++) {
        const char *key = is_kind(&g->tensor[i], name, "before:");
        if (!key)
            continue;
        snprintf(full, sizeof full, "%s_layer.%s", name, key);
        set_param(a, full, 0, &g->tensor[i], g->tensor[i].values);
    }
}

static float *held(hftac_array *a, const Tensor *want, const char *owner, const char *key)
{
    char full[160];
    size_t bytes;
    snprintf(full, sizeof full, "%s%s", owner, key);
    float *v = get_param(a, full, 0, &bytes);
    if (bytes != (size_t)want->count * sizeof *v)
        fatal("%s has another size than %s", full, want->name);
    return v;
}

/* Ours for the file's tensor, malloced; NULL: it is not a result of this case. */
static float *result(hftac_array *a, const Golden *g, const char *name, const Tensor *want)
{
    char owner[160];
    const char *key;
    snprintf(owner, sizeof owner, "%s_layer.", name);
    if ((key = is_kind(want, name, "after:")))
        return held(a, want, owner, key);
    if ((key = is_kind(want, name, "y"))) {
        snprintf(owner, sizeof owner, "%s_kept.value", name);
        return held(a, want, owner, "");
    }
    if (!(key = is_kind(want, name, "g:")))
        return NULL;
    const bool of_x = !strcmp(key, "x");
    char before[96];
    snprintf(before, sizeof before, "before:%s", key);
    if (of_x)
        snprintf(owner, sizeof owner, "%s_shift", name);
    float *v = held(a, want, owner, of_x ? "" : key);
    const float *start = of_x ? NULL : tensor(g, name, before)->values;
    for (int64_t i = 0; i < want->count; i++)
        v[i] = (float)(((start ? (double)start[i] : 0) - v[i]) / rate);
    return v;
}

static double error_of(const float *v, const Tensor *want)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < want->count; i++) {
        const double w = ((const double *)want->values)[i], d = (double)v[i] - w;
        difference += d * d;
        size += w * w;
    }
    return sqrt(difference / size);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fatal("usage: check_large_mean FILE");
    check_begin(argv[0]);
    Golden g = golden_read(argv[1]);
    json_t *cases = golden_json(&g, "cases"), *errors = golden_json(&g, "errors"), *c;
    static Source s;
    write_program(&s, &g, cases);
    hftac_array *a = compile_text(s.text, 1);
    if (!a)
        return 1;
    size_t k;
    json_array_foreach(cases, k, c) set_case(a, &g, text_of(c, "name"));
    must(hftac_train_step(a));
    int failures = 0, results = 0;
    json_array_foreach(cases, k, c) for (int i = 0; i < g.n; i++)
    {
        float *v = result(a, &g, text_of(c, "name"), &g.tensor[i]);
        if (!v)
            continue;
        const double torch = json_real_value(json_object_get(errors, g.tensor[i].name)),
                     ours = error_of(v, &g.tensor[i]);
        const bool ok = ours <= fmax(torch, few_roundings);
        printf("%s%-24s error %.2e, PyTorch's %.2e\n", ok ? "" : "FAILED: ", g.tensor[i].name,
               ours, torch);
        failures += !ok;
        results++;
        free(v);
    }
    hftac_close(a);
    json_decref(cases);
    json_decref(errors);
    golden_free(&g);
    check_end();
    printf("%d results, %d failures\n", results, failures);
    return failures || results == 0;
}
