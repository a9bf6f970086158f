/* `repeat` as a loop region against the same program unrolled: the same values within rounding
 * after some steps, bits that do not depend on the number of models or threads, and a compile
 * time that does not grow with the number of rounds. */
#include "tests/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BATCH = 4,
    ROUNDS = 10,
    WIDTH = 8,
    STEPS = 12,
    MODELS = 3
};

static int failures;

static void expect(bool ok, const char *program, const char *what)
{
    if (!ok) {
        printf("FAILED: %s: %s\n", program, what);
        failures++;
    }
}

#define TAIL                       \
    "  loss mse_loss(out, y)\n}\n" \
    "train { batch N = 4; optimizer SGD(lr, momentum = 0.9); clip norm(5.0) }\n"

typedef struct Program {
    const char *name, *text;
} Program;

/* The blocks: everything that a loop can do, one of each. */
static const Program programs[] = {
    {"cell", "hdl 1\nhyper lr = 0.05 in log(1e-4 .. 1)\nhyper drop = 0 in (0 .. 0.9)\n"
             "block Cell(hidden) on (x: [N, L, D]) -> [N, L, hidden] {\n"
             "  w = Param([hidden, D], init = uniform(-0.4, 0.4))\n"
             "  v = Param([hidden, hidden], init = uniform(-0.4, 0.4))\n"
             "  gain = Param([hidden], init = ones())\n"
             "  fc = Linear(hidden)\n"
             "  h = zeros([N, hidden])\n"
             "  s = 0\n"
             "  repeat t in reversed(0 .. L) {\n"
             "    z = linear(x[:, t], w) + linear(h, v) * gain\n"
             "    z = dropout(z, drop) + 0.01 * t\n"
             "    k = t + 1\n"
             "    h = tanh(fc(z)) + relu(x[:, L - 1 - t, 0:1])\n"
             "    s = s + sum(h, dim = 1, keepdim = true) / k\n"
             "    ys[t] = h * where(t > 3, 1.0, 0.5)\n"
             "  }\n"
             "  return stack(ys, dim = 1) + unsqueeze(s, 1) + unsqueeze(z, 1)\n"
             "}\n"
             "model M {\n  input x : f32[N, 10, 8]\n  target y : f32[N, 3]\n"
             "  cell = Cell(6)\n  fc = Linear(3)\n"
             "  out = cell(x) |> mean(dim = 1) |> fc\n" TAIL},
    {"lstm", "hdl 1\nhyper lr = 0.05 in log(1e-4 .. 1)\nhyper drop = 0 in (0 .. 0.9)\n"
             "model M {\n  input x : f32[N, 10, 8]\n  target y : f32[N, 3]\n"
             "  rnn = LSTM(6, num_layers = 2, bidirectional = true, batch_first = true)\n"
             "  fc = Linear(3)\n  all, last = rnn(x)\n"
             "  out = all |> dropout(drop) |> mean(dim = 1) |> fc\n" TAIL},
    {"gru", "hdl 1\nhyper lr = 0.05 in log(1e-4 .. 1)\nhyper drop = 0 in (0 .. 0.9)\n"
            "model M {\n  input x : f32[N, 10, 8]\n  target y : f32[N, 3]\n"
            "  rnn = GRU(7, batch_first = true)\n"
            "  fc = Linear(3)\n  all, last = rnn(x)\n"
            "  out = last[0] |> dropout(drop) |> fc\n" TAIL},
    {"batch statistics",
     "hdl 1\nhyper lr = 0.05 in log(1e-4 .. 1)\nhyper drop = 0 in (0 .. 0.9)\n"
     "block Cell on (x: [N, L, D]) -> [N, D] {\n"
     "  v = Param([D, D], init = uniform(-0.4, 0.4))\n"
     "  h = zeros([N, D])\n"
     "  repeat t in 0 .. L {\n"
     "    m = mean(h, dim = 0, keepdim = true)\n"
     "    h = tanh(x[:, t] + linear(h, v) - m) + 0.1 * max(h, dim = 0, keepdim = true)\n"
     "  }\n"
     "  return h\n"
     "}\n"
     "model M {\n  input x : f32[N, 10, 8]\n  target y : f32[N, 3]\n"
     "  cell = Cell()\n  fc = Linear(3)\n"
     "  out = cell(x) |> dropout(drop) |> fc\n" TAIL},
    {"refused: layers in the body, a condition on the counter, states",
     "hdl 1\nhyper lr = 0.05 in log(1e-4 .. 1)\nhyper drop = 0 in (0 .. 0.9)\n"
     "block Cell on (x: [N, L, D]) -> [N, D] {\n"
     "  h = x[:, 0]\n"
     "  repeat t in 0 .. L {\n"
     "    if t == 3 { h = h * 2 }\n"
     "    fcs[t] = Linear(D)\n"
     "    h = h + 0.1 * fcs[t](x[:, t])\n"
     "  }\n"
     "  bn = BatchNorm1d()\n"
     "  h = bn(h)\n"
     "  repeat t in 0 .. L {\n"
     "    h = bn(h + x[:, t])\n"
     "  }\n"
     "  return h\n"
     "}\n"
     "model M {\n  input x : f32[N, 10, 8]\n  target y : f32[N, 3]\n"
     "  cell = Cell()\n  fc = Linear(3)\n"
     "  out = cell(x) |> dropout(drop) |> fc\n" TAIL},
    {"windows", /* read where they lie: of an input from its second step on, of a value */
     "hdl 1\nhyper lr = 0.05 in log(1e-4 .. 1)\nhyper drop = 0 in (0 .. 0.9)\n"
     "block Cell on (x: [N, L, D]) -> [N, D] {\n"
     "  v = Param([D, D], init = uniform(-0.4, 0.4))\n"
     "  gain = Param([D], init = ones())\n"
     "  w = window(x[:, 1:], 1, 3, 1, 2)\n"
     "  u = window(x * gain, [1, 2], [2, 3], [1, 2])\n"
     "  h = zeros([N, D])\n"
     "  repeat t in reversed(0 .. 5) {\n"
     "    near = sum(u[:, 1:, :, t, 1:2], dim = (0, 1))\n"
     "    h = tanh(mean(w[:, :, t], dim = 0) + linear(h, v) + 0.1 * near)\n"
     "  }\n"
     "  return h\n"
     "}\n"
     "model M {\n  input x : f32[N, 10, 8]\n  target y : f32[N, 3]\n"
     "  cell = Cell()\n  fc = Linear(3)\n"
     "  out = cell(x) |> dropout(drop) |> fc\n" TAIL},
    {"shared scan", "hdl 1\nhyper lr = 0.05 in log(1e-4 .. 1)\nhyper drop = 0 in (0 .. 0.9)\n"
                    "model M {\n  input x : f32[N, 10, 8]\n  target y : f32[N, 3]\n"
                    "  m = x[:, 0]\n  top = 0\n"
                    "  repeat t in 1 .. 10 {\n"
                    "    m = maximum(m, x[:, t] + 0.1 * x[:, t - 1])\n    top = t * 2\n  }\n"
                    "  fc = Linear(3)\n"
                    "  out = fc(m) * (1 + drop) + top\n" TAIL},
};
enum {
    N_PROGRAMS = sizeof programs / sizeof *programs
};

static const char *const looped[] = {"--loop-from=2", NULL};
static const char *const unrolled[] = {"--loop-from=1000000", NULL};

static float value_of(int64_t i, int step)
{
    return (float)sin(0.37 * (double)(i + 1) + 1.7 * step);
}

static void feed_values(hftac_array *a, const char *name, int64_t count, int step)
{
    static float v[BATCH * ROUNDS * WIDTH];
    hftac_input in;
    for (int64_t i = 0; i < count; i++)
        v[i] = value_of(i, step) * (count > BATCH * 3 ? 1.0f : 0.3f);
    must(hftac_find_input(a, name, &in));
    must(hftac_feed(a, in, v, BATCH));
}

static void set_hyper(hftac_array *a, const char *name, int model, double v)
{
    hftac_hyper h;
    must(hftac_find_hyper(a, name, &h));
    must(hftac_set_hyper(a, h, model, v));
}

/* Slots hold models first, first + 1, ... */
static void train(hftac_array *a, int first, double drop)
{
    for (int b = 0; b < hftac_model_count(a); b++) {
        set_hyper(a, "lr", b, 0.02 * (1 + first + b));
        set_hyper(a, "drop", b, drop);
        must(hftac_set_seed(a, b, 11 + (uint64_t)(first + b)));
        must(hftac_reset_model(a, b));
    }
    for (int step = 0; step < STEPS; step++) {
        feed_values(a, "x", BATCH * ROUNDS * WIDTH, step % 3);
        feed_values(a, "y", BATCH * 3, step % 3);
        must(hftac_train_step(a));
    }
}

/* Largest difference between two models' parameters, relative to their size; 0: the same bits. */
static double difference(hftac_array *a, int slot_a, hftac_array *b, int slot_b)
{
    double worst = 0;
    for (int p = 0; p < hftac_describe(a)->n_params; p++) {
        const char *name = hftac_describe_param(a, p)->name;
        size_t n, n_b;
        float *x = get_param(a, name, slot_a, &n), *y = get_param(b, name, slot_b, &n_b);
        double far = 0, size = 1e-3;
        if (n != n_b)
            return INFINITY;
        for (size_t i = 0; i < n / sizeof *x; i++) {
            far = fmax(far, fabs((double)x[i] - (double)y[i]));
            size = fmax(size, fabs((double)y[i]));
        }
        if (memcmp(x, y, n) && far == 0)
            far = size; /* NaN */
        worst = fmax(worst, far / size);
        free(x);
        free(y);
    }
    return worst;
}

/* Cut into kernels, with the rounds of loops walked by the library, steps give the same bits, and
 * every kernel of the training step has run: once a model and step, those of a loop in each round
 * too. */
static void check_profile(const Program *p, hftac_array *one)
{
    hftac_array *cut = compile_text_options(p->text, 1, looped);
    if (!cut) {
        expect(false, p->name, "does not compile");
        return;
    }
    must(hftac_profile(cut, 1));
    train(cut, MODELS - 1, 0.3);
    expect(difference(cut, 0, one, 0) == 0, p->name, "kernels one by one give the same bits");
    bool again = false, regular = true;
    for (int k = 0; k < hftac_kernel_count(cut); k++) {
        hftac_kernel_profile row;
        must(hftac_read_kernel(cut, k, &row));
        if (strcmp(row.entry, "train") != 0)
            continue;
        regular = regular && row.calls > 0 && row.calls % STEPS == 0 && row.seconds > 0;
        again = again || row.calls > STEPS;
    }
    const bool has_loop = strncmp(p->name, "refused", strlen("refused")) != 0;
    expect(regular && again == has_loop, p->name, "kernels run once a step, or in each round");
    hftac_close(cut);
}

static void check_program(const Program *p)
{
    hftac_array *loop = compile_text_options(p->text, MODELS, looped);
    hftac_array *flat = compile_text_options(p->text, 2, unrolled);
    hftac_array *one = compile_text_options(p->text, 1, looped);
    if (!loop || !flat || !one) {
        expect(false, p->name, "does not compile");
        return;
    }
    train(flat, 1, 0);
    train(loop, 0, 0);
    const double far = fmax(difference(loop, 1, flat, 0), difference(loop, 2, flat, 1));
    if (far > 2e-5)
        printf("%s: off by %g\n", p->name, far);
    expect(far <= 2e-5, p->name, "a loop gives what the unrolled program gives");
    train(loop, 0, 0.3);
    for (int b = 0; b < MODELS; b++) {
        train(one, b, 0.3);
        expect(difference(loop, b, one, 0) == 0, p->name, "slot b of B is B = 1, bit for bit");
    }
    check_profile(p, one);
    hftac_close(loop);
    hftac_close(flat);
    hftac_close(one);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of three, as the machine is shared. */
static double compile_time(int length)
{
    Source s = {.len = 0};
    double best = INFINITY;
    add(&s,
        "hdl 1\nmodel M {\n  input x : f32[N, %d, 8]\n  target y : f32[N, 6]\n"
        "  rnn = LSTM(6, batch_first = true)\n  all, last = rnn(x)\n"
        "  loss mse_loss(all[:, -1], y)\n}\ntrain { batch N = 4; optimizer SGD(0.1) }\n",
        length);
    for (int i = 0; i < 3; i++) {
        const double start = seconds();
        hftac_array *a = compile_text(s.text, 1);
        best = fmin(best, seconds() - start);
        expect(a != NULL, "long lstm", "does not compile");
        if (!a)
            return best;
        hftac_close(a);
    }
    return best;
}

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    for (int i = 0; i < N_PROGRAMS; i++)
        check_program(&programs[i]);
    const double brief = compile_time(64), longer = compile_time(512);
    printf("compile time: %.3f s for 64 rounds, %.3f s for 512\n", brief, longer);
    expect(longer < 1.5 * brief + 0.05, "long lstm",
           "compile time does not grow with the rounds");
    check_end();
    printf("%d failures\n", failures);
    return failures != 0;
}
