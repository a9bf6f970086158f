/* check_semantics: what the standard library must do where goldens cannot tell: the places of
 * semantics.md where others went wrong, and random values, whose bounds and means are checked. */
#include "tests/check/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void expect(bool ok, const char *fmt, ...)
{
    if (ok)
        return;
    va_list ap;
    va_start(ap, fmt);
    printf("FAILED: ");
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    failures++;
}

/* A program whose optimizer leaves parameters alone and keeps their gradients. */
static hftac_array *open_case(const char *body, int n_models)
{
    static Source s;
    s.len = 0;
    add(&s, "hdl 1\nhyper h = 0\noptimizer Keep(lr = h) on (p, g) {\n  state grad = 0\n  grad "
            ":= g\n  return p\n}\n");
    add(&s, "model Case {\n%s}\ntrain Case {\n  batch N = 1\n  optimizer Keep()\n}\n", body);
    hftac_array *a = compile_text(s.text, n_models);
    if (!a)
        fatal("a case does not compile");
    return a;
}

static void feed_real(hftac_array *a, const char *name, int n, const float *v)
{
    const Tensor t = {.type = HFTAC_F32, .rank = 1, .dims = {n}, .count = n, .values = v};
    feed(a, name, &t);
}

static void feed_int(hftac_array *a, const char *name, int n, const int64_t *v)
{
    const Tensor t = {.type = HFTAC_I64, .rank = 1, .dims = {n}, .count = n, .values = v};
    feed(a, name, &t);
}

static const float *output(hftac_array *a, const char *name, int model)
{
    hftac_output o;
    const void *v;
    must(hftac_find_output(a, name, &o));
    must(hftac_read_output(a, o, model, &v));
    return v;
}

static double metric(hftac_array *a, const char *name, int model)
{
    hftac_metric m;
    double v;
    must(hftac_find_metric(a, name, &m));
    must(hftac_read_metric(a, m, model, &v));
    return v;
}

static void set_values(hftac_array *a, const char *name, int model, int n, const float *v)
{
    const Tensor t = {.type = HFTAC_F32, .count = n};
    set_param(a, name, model, &t, v);
}

static bool all_are(const float *v, int n, float want)
{
    for (int i = 0; i < n; i++)
        if (v[i] != want)
            return false;
    return true;
}

static void check_masked_attention(void)
{
    hftac_array *a =
        open_case("  q = Param([1, 2, 4], init = 1);  k = Param([1, 3, 4], init = 2);  v = "
                  "Param([1, 3, 4], init = 3)\n"
                  "  input allowed : bool[2, 3]\n"
                  "  output out = scaled_dot_product_attention(q, k, v, attn_mask = allowed)\n"
                  "  loss sum(out * out)\n",
                  1);
    const unsigned char allowed[6] = {0, 0, 0, 1, 0, 1};
    const Tensor t = {
        .type = HFTAC_BOOL, .rank = 2, .dims = {2, 3}, .count = 6, .values = allowed};
    feed(a, "allowed", &t);
    must(hftac_predict_step(a, 1));
    expect(all_are(output(a, "out", 0), 4, 0), "a fully masked attention row gives 0");
    expect(fabs(output(a, "out", 0)[4] - 3) < 1e-6, "the other row is the mean of its values");
    must(hftac_train_step(a));
    hftac_model_status s;
    must(hftac_read_model(a, 0, &s));
    expect(s.state == HFTAC_MODEL_RUNNING, "gradients of a masked row are finite: %s", s.text);
    size_t bytes;
    float *g = get_param(a, "optimizer.grad.q", 0, &bytes);
    expect(all_are(g, 4, 0), "no gradient flows to a masked query");
    free(g);
    hftac_close(a);
}

static void check_embedding(void)
{
    hftac_array *a = open_case(
        "  input id : i64[4]\n  embed = Embedding(5, 3, padding_idx = 1)\n  y = embed(id)\n"
        "  output out = y\n  loss sum(y)\n",
        SLOTS);
    size_t bytes;
    float *w = get_param(a, "embed.weight", 1, &bytes), largest = 0;
    expect(bytes == 60 && all_are(w + 3, 3, 0), "the row of padding_idx begins as 0");
    for (int i = 0; i < 15; i++)
        largest = fmaxf(largest, fabsf(w[i]));
    expect(largest > 0.5 && largest < 6, "the other rows begin as normal(0, 1)");
    free(w);
    for (int b = 0; b < SLOTS; b++)
        set_values(a, "embed.weight", b, 15,
                   (float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
    feed_int(a, "id", 4, (int64_t[]){4, 1, 4, 0});
    must(hftac_predict_step(a, 1));
    expect(output(a, "out", 2)[3] == 4, "the row of padding_idx is used as it is");
    must(hftac_train_step(a));
    w = get_param(a, "optimizer.grad.embed.weight", 2, &bytes);
    expect(w[0] == 1 && w[3] == 0 && w[12] == 2,
           "repeated rows add up, padding_idx gets no gradient");
    free(w);
    feed_int(a, "id", 4, (int64_t[]){0, 2, 5, 0});
    must(hftac_train_step(a));
    for (int b = 0; b < SLOTS; b++) {
        hftac_model_status s;
        must(hftac_read_model(a, b, &s));
        expect(s.state != HFTAC_MODEL_RUNNING && strstr(s.text, "5"),
               "an id beyond the table is an error that names it: %s", s.text);
    }
    hftac_close(a);
}

static void check_cross_entropy(void)
{
    static const struct {
        const char *arguments;
        double loss;
    } rows[] = {{"", .288726},
                {", weight = [1, 2, 4]", .360054},
                {", label_smoothing = 0.1", .422059},
                {", weight = [1, 2, 4], label_smoothing = 0.1", .484330}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "  input label : i64[3]\n  z = Param([3, 3])\n  y = cross_entropy(z, "
                 "label%s)\n  loss y\n"
                 "  metric top = top_k_accuracy(z, label, k = 2, ignore_index = -100)\n",
                 rows[i].arguments);
        hftac_array *a = open_case(body, 1);
        set_values(a, "z", 0, 9, (float[]){1, 2, 3, 0, 0, 0, 3, 1, 0});
        feed_int(a, "label", 3, (int64_t[]){2, -100, 0});
        must(hftac_train_step(a));
        expect(fabs(metric(a, "loss", 0) - rows[i].loss) < 1e-6,
               "cross_entropy(%s): %g, not %g", rows[i].arguments, metric(a, "loss", 0),
               rows[i].loss);
        size_t bytes;
        float *g = get_param(a, "optimizer.grad.z", 0, &bytes);
        expect(all_are(g + 3, 3, 0), "an ignored target gets no gradient");
        free(g);
        feed_int(a, "label", 3, (int64_t[]){-100, -100, -100});
        must(hftac_train_step(a));
        g = get_param(a, "optimizer.grad.z", 0, &bytes);
        expect(metric(a, "loss", 0) == 0 && all_are(g, 9, 0),
               "a mean over no valid target is 0, and so is its gradient");
        free(g);
        hftac_close(a);
    }
}

static void check_top_k(void)
{
    hftac_array *a = open_case(
        "  input label : i64[4]\n  input z : f32[4, 3]\n  p = Param([1])\n  loss sum(p)\n"
        "  output out = stack([top_k_accuracy(z, label, k = 1), top_k_accuracy(z, label, k = "
        "2), accuracy(z, label)])\n",
        1);
    feed_int(a, "label", 4, (int64_t[]){0, 1, 2, 1});
    feed_real(a, "z", 12, (float[]){3, 2, 1, 3, 2, 1, 3, 2, 1, 5, 5, 5});
    must(hftac_predict_step(a, 1));
    const float *v = output(a, "out", 0);
    expect(v[0] == 0.25f && v[1] == 0.75f && v[2] == 0.25f,
           "top-k accuracy: %g %g, accuracy %g", v[0], v[1], v[2]);
    hftac_close(a);
}

static void check_tensor_index(void)
{
    hftac_array *a = open_case("  input id : i64[3]\n  x = Param([2, 4, 2])\n  y = x[1, id]\n  "
                               "output out = y\n  loss sum(y)\n",
                               1);
    float x[16];
    for (int i = 0; i < 16; i++)
        x[i] = (float)i;
    set_values(a, "x", 0, 16, x);
    feed_int(a, "id", 3, (int64_t[]){3, -4, -1});
    must(hftac_predict_step(a, 1));
    const float *y = output(a, "out", 0), want[] = {14, 15, 8, 9, 14, 15};
    expect(!memcmp(y, want, sizeof want), "x[1, id] picks %g %g, %g %g, %g %g", y[0], y[1],
           y[2], y[3], y[4], y[5]);
    must(hftac_train_step(a));
    size_t bytes;
    float *g = get_param(a, "optimizer.grad.x", 0, &bytes);
    expect(all_are(g, 8, 0) && g[8] == 1 && g[14] == 2 && g[12] == 0,
           "its gradient goes back there");
    free(g);
    hftac_close(a);
}

static void check_rearrange(void)
{
    hftac_array *a = open_case("  x = Param([2, 3, 4])\n  output heads = rearrange(x, \"n l (h "
                               "d) -> h (n l) d\", h = 2)\n"
                               "  output sums = einsum(\"abc->ca\", x)\n  loss sum(x)\n",
                               1);
    float x[24];
    for (int i = 0; i < 24; i++)
        x[i] = (float)i;
    set_values(a, "x", 0, 24, x);
    must(hftac_predict_step(a, 1));
    const float *heads = output(a, "heads", 0), *sums = output(a, "sums", 0);
    bool ok = true;
    for (int h = 0; h < 2; h++)
        for (int row = 0; row < 6; row++)
            for (int d = 0; d < 2; d++)
                ok &= heads[(h * 6 + row) * 2 + d] == (float)(row * 4 + h * 2 + d);
    for (int n = 0; n < 2; n++)
        for (int c = 0; c < 4; c++)
            ok &= sums[c * 2 + n] == (float)(3 * (n * 12 + c) + 12);
    expect(ok, "rearrange and einsum of one operand");
    hftac_close(a);
}

/* Rates 0, .5, 1 in three slots. */
static void check_dropout(const char *function, int group)
{
    char body[512];
    snprintf(body, sizeof body,
             "  x = Param([8, 16, 16], init = 1)\n  y = %s(x, h)\n  keep = Kept()\n  y = "
             "keep(y)\n  output out = y\n  loss sum(y)\n}\n"
             "block Kept on (y) {\n  state value : f32[8, 16, 16] = 0\n  if training {\n    "
             "value := y\n  }\n  return y\n",
             function);
    hftac_array *a = open_case(body, SLOTS);
    hftac_hyper h;
    must(hftac_find_hyper(a, "h", &h));
    for (int b = 0; b < SLOTS; b++)
        must(hftac_set_hyper(a, h, b, b * 0.5));
    must(hftac_predict_step(a, 1));
    must(hftac_train_step(a));
    for (int b = 0; b < SLOTS; b++) {
        size_t bytes;
        float *y = get_param(a, "keep.value", b, &bytes),
              *g = get_param(a, "optimizer.grad.x", b, &bytes);
        int zeros = 0;
        expect(all_are(output(a, "out", b), 2048, 1), "%s does nothing in evaluation",
               function);
        for (int i = 0; i < 2048; i++) {
            zeros += y[i] == 0;
            expect(y[i] == (y[i] == 0 ? 0
                            : b == 1  ? 2.0f
                                      : 1.0f) &&
                       g[i] == y[i] && y[i] == y[i - i % group],
                   "%s with rate %g makes %g of 1, gradient %g", function, b * 0.5, y[i], g[i]);
        }
        expect(b == 1 ? zeros > 2048 * 0.25 && zeros < 2048 * 0.75
                      : zeros == (b == 0 ? 0 : 2048),
               "%s with rate %g drops %d of 2048", function, b * 0.5, zeros);
        free(y);
        free(g);
    }
    hftac_close(a);
}

static void check_rrelu(void)
{
    hftac_array *a = open_case(
        "  x = Param([512], init = -1)\n  y = rrelu(x)\n  output out = y\n  loss sum(y)\n", 1);
    must(hftac_predict_step(a, 1));
    expect(fabs(output(a, "out", 0)[5] + 11.0 / 48) < 1e-6,
           "rrelu takes the mean slope in evaluation");
    must(hftac_train_step(a));
    size_t bytes;
    float *g = get_param(a, "optimizer.grad.x", 0, &bytes), least = 1, most = 0;
    for (int i = 0; i < 512; i++) {
        least = fminf(least, g[i]);
        most = fmaxf(most, g[i]);
    }
    expect(least >= 0.125f && most < 0.33334f && most - least > 0.19f,
           "rrelu's slopes are in [1/8, 1/3): %g .. %g", least, most);
    free(g);
    hftac_close(a);
}

/* The cumulative mean, with each model's own counter: a model that stands still does not count. */
static void check_cumulative_statistics(void)
{
    hftac_array *a = open_case("  input x : f32[2, 1]\n  bn = BatchNorm1d(momentum = none)\n  "
                               "y = bn(x)\n  output out = y\n  loss sum(y)\n",
                               2);
    must(hftac_stop_model(a, 1));
    for (int t = 0; t < 3; t++) {
        feed_real(a, "x", 2, (float[]){(float)t, (float)t + 2});
        must(hftac_train_step(a));
    }
    size_t bytes;
    float *mean = get_param(a, "bn.running_mean", 0, &bytes),
          *var = get_param(a, "bn.running_var", 0, &bytes);
    int64_t *n = get_param(a, "bn.num_batches_tracked", 1, &bytes);
    expect(fabsf(mean[0] - 2) < 1e-6 && fabsf(var[0] - 2) < 1e-6,
           "cumulative statistics: %g %g", mean[0], var[0]);
    expect(*n == 0, "a model that does not run counts no batches");
    free(mean);
    free(var);
    free(n);
    hftac_close(a);
}

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    check_masked_attention();
    check_embedding();
    check_cross_entropy();
    check_top_k();
    check_dropout("dropout", 1);
    check_dropout("dropout2d", 16);
    check_tensor_index();
    check_rearrange();
    check_rrelu();
    check_cumulative_statistics();
    check_end();
    printf("%d failures\n", failures);
    return failures != 0;
}
