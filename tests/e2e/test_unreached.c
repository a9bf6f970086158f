/* Parameters that a loss does not reach are left alone, as PyTorch leaves those whose gradient is
 * None: no decay, no moments, no accumulators.  A gradient that is 0 is a gradient: a product
 * with 0 or a rounding in between is no excuse. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check/check.h"

static int failures;

static void expect(bool ok, const char *name, const char *what, double value)
{
    if (ok)
        return;
    printf("FAILED: %s %s: %.9g\n", name, what, value);
    failures++;
}

static hftac_array *train(const char *hdl, int steps)
{
    static const float x[4] = {1, 2, 3, 4};
    hftac_array *a = compile_text(hdl, 1);
    if (!a)
        exit(1);
    hftac_input in;
    must(hftac_find_input(a, "x", &in));
    must(hftac_feed(a, in, x, 2));
    for (int t = 0; t < steps; t++)
        must(hftac_train_step(a));
    return a;
}

static bool exists(hftac_array *a, const char *prefix, const char *name)
{
    char text[128];
    hftac_param p;
    snprintf(text, sizeof text, "%s.%s", prefix, name);
    return hftac_find_param(a, text, &p) == HFTAC_OK;
}

/* All parameters begin with 1. */
static float first_of(hftac_array *a, const char *name)
{
    size_t bytes;
    float *v = get_param(a, name, 0, &bytes);
    const float first = v[0];
    free(v);
    return first;
}

static void check_all(hftac_array *a, const char *const *names, const char *prefix,
                      bool reached, double value)
{
    for (int i = 0; names[i]; i++) {
        const float v = first_of(a, names[i]);
        expect(fabs(v - value) < 1e-6, names[i], "is", v);
        expect(exists(a, prefix, names[i]) == reached, names[i], "has state", !reached);
    }
}

/* AdamW on a gradient of 0 multiplies by 1 - lr * decay = 0.95 each step. */
static const char paths[] =
    "hdl 1\n"
    "model M {\n"
    "  input x : f32[N, 2]\n"
    "  used = Param([2], init = 1);  idle = Param([2], init = 1);  cut = Param([2], init = 1)\n"
    "  chosen = Param([2], init = 1);  compared = Param([2], init = 1)\n"
    "  nil = Param([2], init = 1);  rounded = Param([2], init = 1);  frozen = Param([2], init "
    "= 1)\n"
    "  watched = Param([2], init = 1);  looped = Param([2], init = 1)\n"
    "  h = x * used\n"
    "  seen = h\n"
    "  repeat i in 0 .. 16 {\n"
    "    h = tanh(h + 0 * looped + detach(watched))\n"
    "    seen = seen + h\n"
    "  }\n"
    "  c = detach(cut) * 2 + argmax(chosen, dim = 0) + where(compared > 0, 1, 2)\n"
    "  output o = idle * 2\n"
    "  loss mean(seen * c + nil * 0 + floor(rounded) + frozen)\n"
    "}\n"
    "train M {\n"
    "  batch N = 2\n"
    "  freeze \"frozen\"\n"
    "  optimizer AdamW(lr = 0.1, weight_decay = 0.5)\n"
    "  clip norm(1)\n"
    "%s"
    "}\n";

static void check_paths(const char *more, int steps, double decayed)
{
    static const char *const left[] = {"idle", "cut", "chosen", "compared", "watched", NULL};
    static const char *const zero[] = {"nil", "rounded", "looped", NULL};
    Source s = {0};
    add(&s, paths, more);
    hftac_array *a = train(s.text, steps);
    check_all(a, left, "optimizer.exp_avg", false, 1);
    check_all(a, zero, "optimizer.exp_avg", true, decayed);
    expect(first_of(a, "frozen") == 1, "frozen", "is", first_of(a, "frozen"));
    expect(first_of(a, "used") != 1, "used", "is", 1);
    expect(exists(a, "accumulate", "nil") == (steps == 6), "nil", "accumulates", steps);
    expect(!exists(a, "accumulate", "idle"), "idle", "accumulates", 1);
    hftac_close(a);
}

/* Of two clauses each reaches one layer of the two that it names. */
static void check_clauses(void)
{
    static const char hdl[] =
        "hdl 1\nmodel M {\n  input x : f32[N, 2]\n"
        "  a = Linear(2);  b = Linear(2)\n"
        "  la = mean(a(x));  lb = mean(square(b(detach(a(x)))))\n  output o = a(x)\n}\n"
        "train M {\n  batch N = 2\n  init \"*\" ones\n"
        "  update a, b minimize la with SGD(0.5, weight_decay = 1, momentum = 0.5)\n"
        "  update a, b minimize lb with SGD(0, weight_decay = 1, momentum = 0.5)\n}\n";
    hftac_array *a = train(hdl, 1);
    expect(exists(a, "optimizer.0.momentum_buffer", "a.bias"), "a.bias", "has no state of", 0);
    expect(!exists(a, "optimizer.0.momentum_buffer", "b.bias"), "b.bias", "has state of", 0);
    expect(!exists(a, "optimizer.1.momentum_buffer", "a.bias"), "a.bias", "has state of", 1);
    expect(exists(a, "optimizer.1.momentum_buffer", "b.bias"), "b.bias", "has no state of", 1);
    /* d la / d bias = 1/2, and 1 of decay: 1 - 0.5 * 1.5. */
    expect(first_of(a, "a.bias") == 0.25f, "a.bias", "is", first_of(a, "a.bias"));
    expect(first_of(a, "b.bias") == 1, "b.bias", "is", first_of(a, "b.bias"));
    hftac_close(a);
}

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    check_paths("", 3, 0.95 * 0.95 * 0.95);
    check_paths("  accumulate 2\n", 6, 0.95 * 0.95 * 0.95);
    check_clauses();
    check_end();
    printf("%d failed\n", failures);
    return failures > 0;
}
