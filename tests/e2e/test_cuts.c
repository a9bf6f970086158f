/* Kernels whose work is done in parts, cut at random places and done in random order, give the
 * bits of the whole: what threads inside of an operator will rely on (HftacKernelFn in
 * runtime/model_abi.h).  Networks of the samples are trained, evaluated and asked by two arrays,
 * one of which calls its kernels one by one, in parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/call.h"
#include "tests/check/check.h"

enum {
    MODELS = 2,
    STEPS = 2,
    MAX_PARTS = 6
};

static int failures;
/* Of the program that is checked: calls of kernels that have several parts, and all. */
static int64_t cut_calls, calls;

static uint64_t draw(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* In place of the library's: parts bound[order[i]] .. bound[order[i] + 1] - 1. */
void hft_cpu_call(HftacKernelFn *kernel, void *const *places, int64_t n_work)
{
    int64_t bound[MAX_PARTS + 1] = {0};
    int order[MAX_PARTS], n = 0;
    while (bound[n] < n_work) {
        const int64_t left = n_work - bound[n];
        const bool last = n == MAX_PARTS - 1 || draw() % 4 == 0;
        bound[n + 1] = last ? n_work : bound[n] + 1 + (int64_t)(draw() % (uint64_t)left);
        order[n] = n;
        n++;
    }
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)(draw() % (uint64_t)(i + 1)), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
    for (int i = 0; i < n; i++)
        kernel(places, bound[order[i]], bound[order[i] + 1]);
    cut_calls += n > 1;
    calls++;
}

static void expect(bool ok, const char *program, const char *what)
{
    if (!ok) {
        printf("FAILED: %s: %s\n", program, what);
        failures++;
    }
}

/* Reals are spread about 0; whole numbers are 0 or 1, classes and tokens of every program. */
static void fill(hftac_type type, unsigned char *to, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t r = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)seed * 977;
        const float real = (float)(int32_t)(r >> 32) / 2147483648.0f;
        const int64_t whole = (int64_t)(r >> 40 & 1);
        const size_t bytes = hftac_type_bytes(type);
        if (type == HFTAC_F32)
            memcpy(to + (size_t)i * bytes, &real, bytes);
        else
            memcpy(to + (size_t)i * bytes, &whole, bytes);
    }
}

static void feed_all(hftac_array *a, int seed)
{
    const hftac_description *about = hftac_describe(a);
    for (int i = 0; i < about->n_inputs; i++) {
        const hftac_input_description *in = hftac_describe_input(a, i);
        unsigned char *values = malloc(in->bytes + 1);
        fill(in->type, values, (int64_t)(in->bytes / hftac_type_bytes(in->type)), seed + i);
        must(hftac_feed(a, i, values, about->batch));
        free(values);
    }
}

static void run(hftac_array *a)
{
    const int64_t batch = hftac_describe(a)->batch;
    for (int step = 0; step < STEPS; step++) {
        feed_all(a, step);
        must(hftac_train_step(a));
    }
    must(hftac_evaluate_begin(a, 0));
    must(hftac_evaluate_step(a, batch));
    must(hftac_evaluate_end(a));
    if (hftac_describe(a)->can_predict)
        must(hftac_predict_step(a, batch));
}

static void compare(const char *name, hftac_array *a, hftac_array *b)
{
    const hftac_description *about = hftac_describe(a);
    for (int p = 0; p < about->n_params; p++)
        for (int model = 0; model < MODELS; model++) {
            const char *param = hftac_describe_param(a, p)->name;
            size_t n;
            void *x = get_param(a, param, model, &n), *y = get_param(b, param, model, &n);
            if (memcmp(x, y, n)) {
                printf("FAILED: %s: %s of model %d\n", name, param, model);
                failures++;
            }
            free(x);
            free(y);
        }
    for (int o = 0; about->can_predict && o < about->n_outputs; o++)
        for (int model = 0; model < MODELS; model++) {
            const void *x, *y;
            must(hftac_read_output(a, o, model, &x));
            must(hftac_read_output(b, o, model, &y));
            expect(!memcmp(x, y, hftac_describe_output(a, o)->bytes), name, "an output");
        }
}

typedef struct Program {
    const char *file;
    const char *options[8];
} Program;

/* Does what both arrays of a program do, and closes them. */
static void check_arrays(const char *name, hftac_array *whole, hftac_array *cut)
{
    if (!whole || !cut) {
        expect(false, name, "does not compile");
        return;
    }
    calls = cut_calls = 0;
    must(hftac_profile(cut, 1));
    run(whole);
    expect(calls == 0, name, "runs are not cut into kernels unless asked");
    run(cut);
    compare(name, whole, cut);
    printf("%s: %lld of %lld calls in parts\n", name, (long long)cut_calls, (long long)calls);
    expect(4 * cut_calls > calls, name, "kernels have parts");
    hftac_close(whole);
    hftac_close(cut);
}

static void check(const Program *p)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.hdl", HFTAC_SAMPLES, p->file);
    check_arrays(p->file, compile_file(path, MODELS, p->options),
                 compile_file(path, MODELS, p->options));
}

/* What no sample has: running sums with lanes and without, contractions with few rows and many
 * columns, sums over the first axis, axes that are no multiple of a vector. */
static const char odd_text[] =
    "hdl 1\nhyper lr = 0.01 in (0 .. 1)\n"
    "model Odd {\n  input x : f32[N, 5, 21]\n  target y : f32[N, 203]\n"
    "  w = Param([203, 21], init = uniform(-0.3, 0.3))\n"
    "  v = Param([5, 21], init = uniform(-0.3, 0.3))\n"
    "  a = cumsum(x * v, dim = 1)\n  b = cumsum(x + v, dim = 2)\n"
    "  c = cumsum(transpose(x * v, 1, 2), dim = 1)\n"
    "  h = mean(a * tanh(b) + transpose(c, 1, 2), dim = 1)\n"
    "  out = linear(tanh(h), w) + mean(tanh(x), dim = 0)[2, 0:1]\n"
    "  loss mse_loss(out, y)\n  output out\n}\n"
    "train { batch N = 3; optimizer SGD(lr, momentum = 0.9) }\n";

static const Program programs[] = {
    {"lenet", {"-DN=3"}},
    {"lstm", {"-DN=5", "-Dvocab=50", "-Dlength=20", "-Dwidth=24", "-Dhidden=20"}},
    {"transformer_lm", {"-DN=3", "-Dvocab=50", "-Dlength=12", "-Dd_model=16", "-Dff=36"}},
    {"two_tower", {"-DN=5", "-Dvocab=50", "-Dwidth=9"}},
    {"pointnet_cls", {"-DN=2", "-Dpoints=40", "-Dwidth_divisor=8"}},
};

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        check(&programs[i]);
    check_arrays("odd", compile_text(odd_text, MODELS), compile_text(odd_text, MODELS));
    check_end();
    return failures != 0;
}
