/* What becomes of a step whose update makes values that are not finite: nothing that training
 * made is ever NaN or infinite, the model stops in that very step and says of what, and the other
 * models do not notice.
 *
 * A program runs with three models, of which the middle one meets the bad value; the others are
 * compared bit for bit with arrays of one model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

enum {
    BAD = 1,
    MOST = 256 /* elements of a state */
};

static int failures;

static void expect(bool ok, const char *what, const char *detail)
{
    if (ok)
        return;
    printf("FAILED: %s: %s\n", what, detail);
    failures++;
}

/* A program with one hyper, which is `bad` in the middle slot, and one input x. */
typedef struct Case {
    const char *what, *hdl, *hyper;
    double good, bad;
    const float *x;
    int steps;
    const char *text; /* of the middle model: what stands behind the colon */
    int step;         /* in which it stops */
} Case;

static hftac_array *compile(const char *hdl, int n)
{
    hftac_array *a = compile_text(hdl, n);
    if (!a)
        exit(1);
    return a;
}

static void feed_floats(hftac_array *a, const char *name, const float *x)
{
    hftac_input in;
    must(hftac_find_input(a, name, &in));
    must(hftac_feed(a, in, x, hftac_describe(a)->batch));
}

static hftac_array *run(const Case *c, int n, int slot)
{
    hftac_array *a = compile(c->hdl, n);
    hftac_hyper h;
    must(hftac_find_hyper(a, c->hyper, &h));
    for (int b = 0; b < n; b++) {
        const int s = n == 1 ? slot : b;
        must(hftac_set_hyper(a, h, b, s == BAD ? c->bad : c->good * (1 + 0.1 * s)));
        must(hftac_set_seed(a, b, 1));
    }
    feed_floats(a, "x", c->x);
    for (int t = 0; t < c->steps; t++)
        must(hftac_train_step(a));
    return a;
}

static void same_states(const char *what, hftac_array *a, int model, hftac_array *b)
{
    for (int i = 0; i < hftac_describe(a)->n_params; i++) {
        const char *name = hftac_describe_param(a, i)->name;
        size_t n;
        void *x = get_param(a, name, model, &n), *y = get_param(b, name, 0, &n);
        if (strncmp(name, "metric.", 7) != 0)
            expect(memcmp(x, y, n) == 0, what, name);
        free(x);
        free(y);
    }
}

/* No state of any model is NaN or infinite. */
static void all_finite(const char *what, hftac_array *a)
{
    for (int i = 0; i < hftac_describe(a)->n_params; i++) {
        const hftac_param_description *d = hftac_describe_param(a, i);
        for (int b = 0; b < hftac_describe(a)->models && d->type == HFTAC_F32; b++) {
            size_t n;
            float *x = get_param(a, d->name, b, &n);
            for (size_t k = 0; k < n / sizeof *x; k++)
                expect(isfinite(x[k]), what, d->name);
            free(x);
        }
    }
}

static void check_text(const Case *c, hftac_array *a)
{
    hftac_model_status s;
    char text[192];
    must(hftac_read_model(a, BAD, &s));
    snprintf(text, sizeof text, "model %d diverged in step %d: %s", BAD, c->step, c->text);
    expect(s.state == HFTAC_MODEL_DIVERGED && s.step == c->step && strcmp(s.text, text) == 0,
           c->what, s.text);
}

/* Runs it; the array of three is the caller's. */
static hftac_array *check(const Case *c)
{
    hftac_array *three = run(c, SLOTS, 0);
    check_text(c, three);
    all_finite(c->what, three);
    for (int b = 0; b < SLOTS; b++) {
        hftac_array *one = run(c, 1, b);
        same_states(c->what, three, b, one);
        hftac_close(one);
    }
    return three;
}

static void values_are(const char *what, hftac_array *a, const char *name, const float *want,
                       int n)
{
    size_t bytes;
    float *x = get_param(a, name, BAD, &bytes);
    for (int k = 0; k < n; k++)
        if (fabsf(x[k] - want[k]) > 1e-6f * fabsf(want[k])) {
            char text[128];
            snprintf(text, sizeof text, "%s[%d] is %.9g, not %.9g", name, k, x[k], want[k]);
            expect(false, what, text);
        }
    free(x);
}

#define MODEL                            \
    "model M {\n"                        \
    "  input x : f32[N, 3]\n"            \
    "  w = Param([3], init = 1)\n"       \
    "  loss sum(mean(x * w, dim = 0))\n" \
    "}\n"                                \
    "train M {\n"                        \
    "  batch N = 1\n"

static const float x123[3] = {1, 2, 3}, ones[3] = {1, 1, 1}, zeros[3] = {0, 0, 0};

/* A scalar of the update: nothing at all is written. */
static void check_scalars(void)
{
    const Case cases[] = {
        {"beta2 = 1",
         "hdl 1\nhyper b2 = 0.9\n" MODEL "optimizer Adam(0.1, betas = (0.9, b2)) }", "b2", 0.9,
         1, x123, 2, "scale in Adam is inf", 1},
        {"a rate that f32 has not", "hdl 1\nhyper lr = 0.1\n" MODEL "optimizer SGD(lr) }", "lr",
         0.1, 1e39, x123, 2, "lr in SGD is inf", 1},
        {"a decay that is NaN",
         "hdl 1\nhyper d = 0.1\n" MODEL
         "optimizer AdamW(0.1, weight_decay = 1 / (d - 7) * (d - 7)) }",
         "d", 0.1, 7, x123, 2, "p in AdamW is nan", 1},
        {"the second scalar of one statement",
         "hdl 1\nhyper b = 1\noptimizer Two(a, b) on (p, g) {\n"
         "  return p - (0.1 / a) * g - (0.1 / b) * g\n}\n" MODEL "optimizer Two(b + 1, b) }",
         "b", 1, 0, x123, 2, "the new value in Two is inf", 1},
        {"a scalar of a function that the optimizer calls",
         "hdl 1\nhyper b = 1\nfn part(x, b) {\n  next = x / b\n  return next\n}\n"
         "optimizer Parts(lr, b) on (p, g) {\n"
         "  rate = part(lr, b)\n  return p - rate * g\n}\n" MODEL "optimizer Parts(0.1, b) }",
         "b", 1, 0, x123, 2, "rate.next in Parts is inf", 1},
        {"a schedule that is NaN",
         "hdl 1\nhyper n = 4\nschedule Ramp(n) = epoch / n\n" MODEL
         "optimizer SGD(0.1)\nschedule Ramp(n) }",
         "n", 4, 0, x123, 2, "schedule is nan", 1},
        {"a rate at the last of two batches",
         "hdl 1\nhyper lr = 0.1\n" MODEL "accumulate 2\noptimizer SGD(lr) }", "lr", 0.1, 1e39,
         x123, 2, "lr in SGD is inf", 1},
        {"a clip that is NaN",
         "hdl 1\nhyper c = 1\n" MODEL "clip norm(1 / (c - 7) * (c - 7))\noptimizer Adam(0.1) }",
         "c", 1, 7, x123, 2, "clip in Adam is nan", 1},
        {"a clip by value that is NaN",
         "hdl 1\nhyper c = 1\n" MODEL
         "clip value(1 / (c - 7) * (c - 7))\noptimizer Adam(0.1) }",
         "c", 1, 7, x123, 2, "clip in Adam is nan", 1},
        {"a rate of the second clause",
         "hdl 1\nhyper lr = 0.1\nmodel M {\n  input x : f32[N, 3]\n"
         "  a = Linear(2, bias = false);  b = Linear(2, bias = false)\n"
         "  la = mean(a(x))\n  lb = mean(b(x))\n  output o = a(x)\n}\n"
         "train M {\n batch N = 1\n update a minimize la with SGD(0.1, momentum = 0.5)\n"
         " update b minimize lb with SGD(lr)\n init \"*\" ones\n}",
         "lr", 0.1, 1e39, x123, 2, "lr in SGD is inf", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hftac_array *a = check(&cases[i]);
        int64_t step;
        must(hftac_read_step(a, BAD, &step));
        expect(step == 0, cases[i].what, "the step counts");
        if (i + 1 < sizeof cases / sizeof *cases) {
            values_are(cases[i].what, a, "w", ones, 3);
        } else {
            values_are(cases[i].what, a, "a.weight", ones, 3);
            values_are(cases[i].what, a, "optimizer.0.momentum_buffer.a.weight", zeros, 3);
        }
        hftac_close(a);
    }
}

/* Single elements: those keep what they were, the others are updated. */
static void check_elements(void)
{
    static const float mixed[3] = {1, 0, -1}, moved[3] = {0.9f, 1, 1.1f};
    const Case eps = {"eps = 0 on a gradient that is 0",
                      "hdl 1\nhyper eps = 1e-8\n" MODEL "optimizer Adam(0.1, eps = eps) }",
                      "eps",
                      1e-8,
                      0,
                      mixed,
                      2,
                      "w is not finite after the update",
                      1};
    hftac_array *a = check(&eps);
    values_are(eps.what, a, "w", moved, 3);
    hftac_close(a);
    static const float scaled[3] = {1, 1e-25f, 1e-25f}, second[3] = {0, 0.5f, 0.5f};
    const Case moment = {"a moment that overflows",
                         "hdl 1\nhyper s = 1\nmodel M {\n  input x : f32[N, 3]\n"
                         "  w = Param([3], init = 1)\n  loss s * sum(mean(x * w, dim = 0))\n}\n"
                         "train M { batch N = 1\n optimizer RMSprop(0.1, alpha = 0.5) }",
                         "s",
                         1,
                         1e25,
                         scaled,
                         2,
                         "optimizer.square_avg.w is not finite after the update",
                         1};
    a = check(&moment);
    values_are(moment.what, a, "optimizer.square_avg.w", second, 3);
    hftac_close(a);
    static const float kept[3] = {1e20f, 1e20f, 1e20f};
    const Case buffer = {"a buffer of a block that overflows",
                         "hdl 1\nhyper by = 2\n"
                         "block Grow(by = 1) on (x: [...]) -> [...] {\n"
                         "  state peak : f32[3] = 1\n  peak := peak * by\n  return x\n}\n"
                         "model M {\n  input x : f32[N, 3]\n  w = Param([3], init = 1)\n"
                         "  grow = Grow(by)\n  loss mean(grow(x) * w)\n}\n"
                         "train M { batch N = 1\n optimizer SGD(0.1) }",
                         "by",
                         2,
                         1e20,
                         x123,
                         3,
                         "grow.peak is not finite after the update",
                         2};
    a = check(&buffer);
    values_are(buffer.what, a, "grow.peak", kept, 3);
    hftac_close(a);
}

/* One element of each position in turn, at extents around the vectors' lanes, in kernels of every
 * form: the update alone, in a contraction's epilogue, and beside another order of axes. */
static void check_places(const char *optimizer, int rows, int columns)
{
    Source s = {0};
    add(&s,
        "hdl 1\nmodel M {\n  input x : f32[N, %d]\n  input g : f32[N, %d]\n"
        "  fc = Linear(%d, bias = false)\n  loss sum(fc(x) * g)\n}\n"
        "train M {\n  batch N = 1\n  init \"*\" ones\n  optimizer %s\n}\n",
        columns, rows, rows, optimizer);
    hftac_array *a = compile(s.text, SLOTS);
    float x[MOST], g[MOST], *w[2];
    size_t bytes;
    for (int at = 0; at < rows * columns; at += at < 20 ? 1 : 7) {
        for (int i = 0; i < columns; i++)
            x[i] = i == at % columns ? 3e38f : 1e-30f;
        for (int i = 0; i < rows; i++)
            g[i] = i == at / columns ? 1 : 1e-10f;
        must(hftac_reset_model(a, 0));
        feed_floats(a, "x", x);
        feed_floats(a, "g", g);
        must(hftac_train_step(a));
        hftac_model_status status;
        must(hftac_read_model(a, 0, &status));
        expect(status.state == HFTAC_MODEL_DIVERGED &&
                   strstr(status.text, "fc.weight is not finite after the update"),
               s.text, status.text);
        w[0] = get_param(a, "fc.weight", 0, &bytes);
        for (int i = 0; i < rows * columns; i++)
            expect(i == at ? w[0][i] == 1 : w[0][i] != 1 || x[i % columns] < 1, s.text, "w");
        free(w[0]);
    }
    hftac_close(a);
}

/* Programs that no frontend writes: a guarded store of a contraction, of a copy to another order
 * of axes, of a number, of f64.  Rows of x: large, small, NaN. */
static void check_forms(void)
{
    static const char hir[] = "hir 1\n"
                              "module \"M\" stage=ir batch=3\n"
                              "input \"x\" : f32[3*1, 17]\n"
                              "param \"dot\" : f32[3, 3]\n"
                              "param \"turned\" : f32[17, 3]\n"
                              "param \"one\" : f32[]\n"
                              "param \"wide\" : f64[3, 17]\n"
                              "graph @init {\n"
                              "  %dot = const data=5 : f32[3, 3]\n"
                              "  %turned = const data=5 : f32[17, 3]\n"
                              "  %one = const data=5 : f32[]\n"
                              "  %wide = const data=5 : f64[3, 17]\n"
                              "  state \"dot\" %dot\n"
                              "  state \"turned\" %turned\n"
                              "  state \"one\" %one\n"
                              "  state \"wide\" %wide\n"
                              "}\n"
                              "graph @train {\n"
                              "  %x = input name=\"x\" : f32[3, 17]\n"
                              "  %dot = einsum %x, %x spec=\"mk,nk->mn\" : f32[3, 3]\n"
                              "  %turned = permute %x dims=[1, 0] : f32[17, 3]\n"
                              "  %one = sum %x dims=[0, 1] : f32[]\n"
                              "  %wide = cast %x to=f64 : f64[3, 17]\n"
                              "  %ok = const data=1 : f64[]\n"
                              "  ok \"ok\" %ok\n"
                              "  state \"dot\" %dot guarded\n"
                              "  state \"turned\" %turned guarded\n"
                              "  state \"one\" %one guarded\n"
                              "  state \"wide\" %wide guarded\n"
                              "}\n";
    hftac_array *a = compile_ir(hir, 2);
    if (!a)
        exit(1);
    float x[51];
    for (int i = 0; i < 51; i++)
        x[i] = i < 17 ? 3e19f : i < 34 ? 2 : i == 40 ? NAN : 1;
    feed_floats(a, "x", x);
    must(hftac_train_step(a));
    hftac_model_status s;
    must(hftac_read_model(a, BAD, &s));
    expect(s.state == HFTAC_MODEL_DIVERGED && strstr(s.text, "dot is not finite"), "forms",
           s.text);
    const float d = 17 * 2 * 3e19f, dot[9] = {5, d, 5, d, 17 * 4, 5, 5, 5, 5}, five = 5;
    values_are("a contraction", a, "dot", dot, 9);
    values_are("a number", a, "one", &five, 1);
    float turned[51];
    for (int i = 0; i < 51; i++)
        turned[i % 17 * 3 + i / 17] = i == 40 ? 5 : x[i];
    values_are("a permuted copy", a, "turned", turned, 51);
    size_t bytes;
    double *wide = get_param(a, "wide", BAD, &bytes);
    for (int i = 0; i < 51; i++)
        expect(wide[i] == (i == 40 ? 5 : (double)x[i]), "f64", "wide");
    free(wide);
    hftac_close(a);
}

/* Values that were there before training: a step that meets them says so, by the loss or by the
 * state. */
static void check_loaded(void)
{
    static const char hdl[] = "hdl 1\nmodel M {\n  input x : f32[N, 3]\n"
                              "  used = Param([3], init = 1);  idle = Param([2, 3], init = 1)\n"
                              "  loss mean(square(x * used)) + sum(idle[0])\n}\n"
                              "train M { batch N = 1\n optimizer SGD(0.1) }";
    static const float bad_row[6] = {1, 1, 1, 1, NAN, 1};
    hftac_array *a = compile(hdl, 2);
    hftac_param used, idle;
    must(hftac_find_param(a, "used", &used));
    must(hftac_find_param(a, "idle", &idle));
    must(hftac_set_param(a, used, 0, bad_row + 3, sizeof(float[3])));
    must(hftac_set_param(a, idle, 1, bad_row, sizeof bad_row));
    feed_floats(a, "x", ones);
    must(hftac_train_step(a));
    hftac_model_status s;
    must(hftac_read_model(a, 0, &s));
    expect(strcmp(s.text, "model 0 diverged in step 1: loss is nan") == 0, "loaded", s.text);
    must(hftac_read_model(a, 1, &s));
    expect(strcmp(s.text, "model 1 diverged in step 1: idle is not finite after the update") ==
               0,
           "loaded", s.text);
    hftac_close(a);
}

/* A variance that rounds below 0, because the gradient never varies: PyTorch 2.15 has NaN in 39
 * of these 64 elements. */
static void check_centered(void)
{
    hftac_array *a =
        compile("hdl 1\nmodel M {\n  input x : f32[N, 64]\n  w = Param([64], init = 0)\n"
                "  loss sum(mean(x * w, dim = 0))\n}\ntrain M {\n  batch N = 1\n"
                "  optimizer RMSprop(0.01, alpha = 0.5, centered = true)\n}\n",
                1);
    float x[64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)(i + 1) * 0.37f;
    feed_floats(a, "x", x);
    for (int t = 0; t < 40; t++)
        must(hftac_train_step(a));
    hftac_model_status s;
    must(hftac_read_model(a, 0, &s));
    expect(s.state == HFTAC_MODEL_RUNNING, "centered", s.text);
    all_finite("centered", a);
    hftac_close(a);
}

/* Lengths of 0, 1 and -1 as hypers: the schedule has a value in every epoch, and with 0 the one
 * given here. */
static void check_lengths(void)
{
    static const struct {
        const char *schedule;
        double factor;
    } rows[] = {
        {"StepLR(n)", 1},
        {"ConstantLR(0.5, n)", 1},
        {"LinearLR(0.1, 1, n)", 1},
        {"LinearLR(0.1, 1, n) per step", 1},
        {"LinearLR(0.1, 1, n) then ConstantLR(0.5, n) then StepLR(100)", 1},
        {"PolynomialLR(n)", 1},
        {"PolynomialLR(n, power = 0.5)", 1},
        {"CosineAnnealingLR(n, eta_min = 0.1)", 1},
        {"CosineAnnealingWarmRestarts(n)", 1},
        {"CosineAnnealingWarmRestarts(n, T_mult = 2)", 1},
        {"CyclicLR(0.25, 1, step_size_up = n)", 0.5},
        {"CyclicLR(0.25, 1, step_size_up = n, step_size_down = 1000)", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Source s = {0};
        add(&s, "hdl 1\nhyper n = 5\n" MODEL "epochs 9\noptimizer SGD(0.5)\nschedule %s }",
            rows[i].schedule);
        hftac_array *a = compile(s.text, SLOTS);
        hftac_hyper n;
        hftac_metric m;
        must(hftac_find_hyper(a, "n", &n));
        must(hftac_find_metric(a, "schedule", &m));
        for (int b = 0; b < SLOTS; b++)
            must(hftac_set_hyper(a, n, b, b == 2 ? -1 : b));
        feed_floats(a, "x", x123);
        for (int t = 0; t < 5; t++) {
            must(hftac_set_epoch(a, t));
            must(hftac_train_step(a));
            for (int b = 0; b < SLOTS; b++) {
                double v;
                must(hftac_read_metric(a, m, b, &v));
                const bool late = i == 11 && t > 0; /* it comes down over 1000 epochs */
                expect(isfinite(v), rows[i].schedule, "is not finite");
                expect(b > 0 || late || fabs(v - rows[i].factor) < 1e-12, rows[i].schedule,
                       "has another factor");
            }
        }
        expect(hftac_running_count(a) == SLOTS, rows[i].schedule, "stops a model");
        hftac_close(a);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    check_scalars();
    check_elements();
    check_places("SGD(10)", 9, 17);
    check_places("SGD(10, momentum = 0.5)", 1, 40);
    check_forms();
    check_loaded();
    check_centered();
    check_lengths();
    check_end();
    printf("%d failed\n", failures);
    return failures > 0;
}
