/* What a step does when it is more than one update, or one update more than a batch.
 *
 * Several updates: one program with three `update` clauses must do what three programs with one
 * clause each do, when they are run one after the other and pass on all parameters and
 * statistics.  Dropout draws by step and place, so that the three programs draw what the one
 * recomputes.  The calls of the norm stand in the text in another order than the clauses evaluate
 * them.  Accumulation: four batches of two must be one batch of eight. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

enum {
    STEPS = 5,
    N_CLAUSES = 3,
    SAMPLES = 8,
    FEATURES = 4
};

static const char model[] =
    "hdl 1\n"
    "hyper lr = 0.1\n"
    "model M {\n"
    "  input x : f32[N, 4]\n"
    "  input u : f32[N, 4]\n"
    "  a = Linear(5);  bn = BatchNorm1d();  b = Linear(5);  c = Linear(1)\n"
    "  late = mean(c(tanh(b(relu(bn(a(u)))))) ** 2)\n"
    "  h = dropout(relu(bn(a(x))), 0.4)\n"
    "  first = mean((b(h) - 1) ** 2)\n"
    "  second = mean((c(tanh(b(h))) - 0.5) ** 2)\n"
    "  output o = h\n"
    "}\n"
    "train {\n"
    "  batch N = 8\n";

static const char *const clauses[N_CLAUSES] = {
    "  update a, bn, b minimize first with SGD(lr)\n",
    "  update b, c minimize second with Adam(lr) clip norm(0.1)\n",
    "  update a minimize late with SGD(lr, momentum = 0.9)\n",
};
static const char *const losses[N_CLAUSES] = {"first", "second", "late"};

static int failures;

static void expect(bool ok, const char *what, const char *name, int step, double error)
{
    if (ok)
        return;
    printf("FAILED: %s: %s in step %d is off by %.3g\n", what, name, step, error);
    failures++;
}

static hftac_array *compile(const char *first, const char *second, const char *third)
{
    Source s = {0};
    add(&s, "%s%s%s%s}\n", model, first, second, third);
    hftac_array *a = compile_text(s.text, 1);
    if (!a)
        exit(1);
    return a;
}

/* Reproducible values between -1 and 1. */
static void fill(float *x, int n, int seed)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)sin(12.9898 * (i + 1) + 78.233 * seed);
}

static void feed_values(hftac_array *a, const char *name, const float *values, int64_t n)
{
    hftac_input in;
    must(hftac_find_input(a, name, &in));
    must(hftac_feed(a, in, values, n));
}

/* Not an optimizer's own, and no counter of steps. */
static bool is_models(const hftac_param_description *d)
{
    return d->role == HFTAC_PARAMETER || d->role == HFTAC_BUFFER;
}

static void copy_state(hftac_array *to, hftac_array *from, hftac_role role)
{
    for (int i = 0; i < hftac_describe(from)->n_params; i++) {
        const char *name = hftac_describe_param(from, i)->name;
        if (hftac_describe_param(from, i)->role != role)
            continue;
        size_t bytes;
        void *v = get_param(from, name, 0, &bytes);
        hftac_param p;
        must(hftac_find_param(to, name, &p));
        must(hftac_set_param(to, p, 0, v, bytes));
        free(v);
    }
}

/* Every parameter and every statistic, counters as they are. */
static void compare_state(const char *what, hftac_array *a, hftac_array *b, int step)
{
    for (int i = 0; i < hftac_describe(a)->n_params; i++) {
        const hftac_param_description *d = hftac_describe_param(a, i);
        if (!is_models(d))
            continue;
        size_t bytes;
        void *x = get_param(a, d->name, 0, &bytes), *y = get_param(b, d->name, 0, &bytes);
        double worst = 0;
        if (d->type == HFTAC_F32)
            for (size_t k = 0; k < bytes / sizeof(float); k++)
                worst = fmax(worst, fabs((double)((float *)x)[k] - (double)((float *)y)[k]));
        else
            worst = memcmp(x, y, bytes) ? INFINITY : 0;
        expect(worst <= 2e-6, what, d->name, step, worst);
        free(x);
        free(y);
    }
}

static double loss_of(hftac_array *a, const char *name)
{
    hftac_metric m;
    double v;
    must(hftac_find_metric(a, name, &m));
    must(hftac_read_metric(a, m, 0, &v));
    return v;
}

static void several_updates(void)
{
    hftac_array *all = compile(clauses[0], clauses[1], clauses[2]), *one[N_CLAUSES];
    for (int k = 0; k < N_CLAUSES; k++)
        one[k] = compile(clauses[k], "", "");
    copy_state(one[0], all, HFTAC_PARAMETER);
    for (int s = 0; s < STEPS; s++) {
        float x[SAMPLES * FEATURES], u[SAMPLES * FEATURES];
        fill(x, SAMPLES * FEATURES, 2 * s);
        fill(u, SAMPLES * FEATURES, 2 * s + 1);
        feed_values(all, "x", x, SAMPLES);
        feed_values(all, "u", u, SAMPLES);
        must(hftac_train_step(all));
        for (int k = 0; k < N_CLAUSES; k++) {
            if (k > 0 || s > 0)
                copy_state(one[k], one[(k + N_CLAUSES - 1) % N_CLAUSES], HFTAC_PARAMETER);
            /* The second clause calls the norm no other than the first one did. */
            if (k == 2 || (k == 0 && s > 0))
                copy_state(one[k], one[2 - k], HFTAC_BUFFER);
            feed_values(one[k], "x", x, SAMPLES);
            feed_values(one[k], "u", u, SAMPLES);
            must(hftac_train_step(one[k]));
            const double error = fabs(loss_of(all, losses[k]) - loss_of(one[k], losses[k]));
            expect(error <= 2e-6, "several updates", losses[k], s, error);
        }
        compare_state("several updates", all, one[N_CLAUSES - 1], s);
    }
    hftac_close(all);
    for (int k = 0; k < N_CLAUSES; k++)
        hftac_close(one[k]);
}

static hftac_array *compile_accumulating(int batch, int batches)
{
    Source s = {0};
    add(&s,
        "hdl 1\n"
        "model M {\n"
        "  input x : f32[N, 4]\n"
        "  target y : f32[N, 1]\n"
        "  fc = Linear(1)\n"
        "  loss mse_loss(fc(x), y)\n"
        "}\n"
        "train {\n"
        "  batch N = %d\n"
        "  accumulate %d\n"
        "  optimizer Adam(0.1)\n"
        "  schedule StepLR(2, 0.5) per step\n"
        "  clip norm(0.5)\n"
        "}\n",
        batch, batches);
    hftac_array *a = compile_text(s.text, 1);
    if (!a)
        exit(1);
    return a;
}

static void accumulation(void)
{
    const int parts = 4, part = SAMPLES / 4;
    hftac_array *whole = compile_accumulating(SAMPLES, 1),
                *split = compile_accumulating(part, parts);
    for (int s = 0; s < STEPS; s++) {
        float x[SAMPLES * FEATURES], y[SAMPLES];
        int64_t done;
        fill(x, SAMPLES * FEATURES, s);
        fill(y, SAMPLES, s + 100);
        feed_values(whole, "x", x, SAMPLES);
        feed_values(whole, "y", y, SAMPLES);
        must(hftac_train_step(whole));
        for (int k = 0; k < parts; k++) {
            must(hftac_read_step(split, 0, &done));
            expect(done == s, "accumulation", "the number of steps", s, (double)done);
            feed_values(split, "x", x + k * part * FEATURES, part);
            feed_values(split, "y", y + k * part, part);
            must(hftac_train_step(split));
        }
        compare_state("accumulation", whole, split, s);
    }
    hftac_close(whole);
    hftac_close(split);
}

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    several_updates();
    accumulation();
    check_end();
    printf(failures ? "%d failed\n" : "ok\n", failures);
    return failures != 0;
}
