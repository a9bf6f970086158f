/* What must always hold, on samples/digits.hdl with dropout and eight different models:
 *   exactness   slot b of B = 8 trains bit for bit as B = 1 does, with 1, 2 and 3 threads, at -O0
 *   and -O2
 *   isolation   a model that its learning rate drives to NaN stops, keeps its last state, and
 *   leaves the others' bits alone
 *   subsets     any subset of models may run
 *   per model   every scalar may differ per model, and so may the clock
 *   memory      a step allocates nothing
 * usage: test_invariants DIGITS-TRAIN.safetensors */
#include "tests/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MODELS = 8,
    EPOCHS = 2
};

static const double rates[MODELS] = {1e-3, 3e-3, 1e-2, 1e-4, 2e-3, 5e-3, 3e-2, 3e-4};
static const double drops[MODELS] = {0.2, 0, 0.5, 1, 0.1, 0.3, 0.2, 0.25};
static int failures;

/* ---- Counting allocations: these take the place of the C library's ---- */

static int64_t allocations;
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);

void *malloc(size_t n)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(p, n);
}

static void expect(bool ok, const char *what)
{
    if (!ok) {
        printf("FAILED: %s\n", what);
        failures++;
    }
}

static void set_hyper(hftac_array *a, const char *name, int model, double v)
{
    hftac_hyper h;
    must(hftac_find_hyper(a, name, &h));
    must(hftac_set_hyper(a, h, model, v));
}

static void set_models(hftac_array *a, int first)
{
    for (int b = 0; b < hftac_model_count(a); b++) {
        set_hyper(a, "lr", b, rates[first + b]);
        set_hyper(a, "drop", b, drops[first + b]);
        set_hyper(a, "decay", b, (first + b) % 2 ? 1e-3 : 0);
        must(hftac_set_seed(a, b, 100 + (uint64_t)(first + b)));
    }
}

static void train(hftac_array *a, const char *path, int epochs)
{
    hftac_data *data;
    must(hftac_data_open(a, path, NULL, &data));
    must(hftac_set_plan(a, epochs, 0));
    const hftac_train_options o = {.seed = 5};
    for (int e = 0; e < epochs; e++) {
        must(hftac_train_epoch(a, data, &o, NULL));
        must(hftac_epoch_end(a, HFTAC_NO_METRIC));
    }
    hftac_data_close(data);
}

/* All of a model's state, one after the other: parameters, moments, counters. */
static char *read_state(hftac_array *a, int model, size_t *bytes)
{
    char *out = NULL;
    *bytes = 0;
    for (int p = 0; p < hftac_describe(a)->n_params; p++) {
        const hftac_param_description *d = hftac_describe_param(a, p);
        out = realloc(out, *bytes + d->bytes);
        must(hftac_get_param(a, p, model, out + *bytes, d->bytes));
        *bytes += d->bytes;
    }
    return out;
}

static bool same_state(hftac_array *a, int i, hftac_array *b, int j)
{
    size_t n, m;
    char *x = read_state(a, i, &n), *y = read_state(b, j, &m);
    const bool same = n == m && !memcmp(x, y, n);
    free(x);
    free(y);
    return same;
}

static hftac_array *compile(int models, int threads, const char *level)
{
    const char *options[] = {level, NULL};
    hftac_array *a =
        compile_file_threads(HFTAC_SAMPLES "/digits.hdl", models, options, threads);
    if (!a)
        fatal("samples/digits.hdl does not compile");
    return a;
}

static void exactness(const char *path)
{
    hftac_array *all[3];
    for (int t = 0; t < 3; t++) {
        all[t] = compile(MODELS, t + 1, "-O2");
        set_models(all[t], 0);
        train(all[t], path, EPOCHS);
    }
    for (int b = 0; b < MODELS; b++) {
        hftac_array *one = compile(1, 1, b % 2 ? "-O0" : "-O2");
        set_models(one, b);
        train(one, path, EPOCHS);
        for (int t = 0; t < 3; t++) {
            char what[128];
            snprintf(what, sizeof what, "slot %d of %d with %d threads is bit-equal to B = 1",
                     b, MODELS, t + 1);
            expect(same_state(all[t], b, one, 0), what);
        }
        if (b)
            expect(!same_state(all[0], b, all[0], b - 1), "different models are different");
        hftac_close(one);
    }
    for (int t = 0; t < 3; t++)
        hftac_close(all[t]);
}

static void isolation(const char *path)
{
    const int bad = 3;
    hftac_array *a = compile(MODELS, 2, "-O2"), *b = compile(MODELS, 2, "-O2");
    set_models(a, 0);
    set_models(b, 0);
    set_hyper(b, "lr", bad, 1e30);
    set_hyper(b, "drop", bad, 0.2);
    train(a, path, EPOCHS);
    train(b, path, EPOCHS);
    hftac_model_status s;
    must(hftac_read_model(b, bad, &s));
    expect(s.state == HFTAC_MODEL_DIVERGED, "a learning rate of 1e30 diverges");
    expect(hftac_running_count(b) == MODELS - 1, "the others run on");
    for (int i = 0; i < MODELS; i++)
        if (i != bad) {
            char what[96];
            snprintf(what, sizeof what, "model %d does not notice that model %d diverged", i,
                     bad);
            expect(same_state(a, i, b, i), what);
        }
    int64_t step;
    must(hftac_read_step(b, bad, &step));
    expect(step + 1 == s.step, "the diverged model keeps the state before that step");
    hftac_close(a);
    hftac_close(b);
}

static void subsets(const char *path)
{
    hftac_array *a = compile(MODELS, 2, "-O2"), *b = compile(MODELS, 2, "-O2");
    set_models(a, 0);
    set_models(b, 0);
    for (int i = 0; i < MODELS; i++)
        if (i != 1 && i != 2 && i != 6)
            must(hftac_stop_model(b, i));
    train(a, path, 1);
    train(b, path, 1);
    for (int i = 0; i < MODELS; i++) {
        int64_t step;
        must(hftac_read_step(b, i, &step));
        const bool ran = i == 1 || i == 2 || i == 6;
        expect(ran ? same_state(a, i, b, i) : step == 0,
               ran ? "a subset runs as all do" : "a stopped model does not train");
    }
    hftac_close(a);
    hftac_close(b);
}

/* Models that began at different times and have different plans: each as it would train alone. */
static void clocks(void)
{
    static const char text[] =
        "hdl 1\nschedule Own() = (epochs - epoch) / (epochs + steps_per_epoch)\n"
        "model M {\n  input x : f32[N, 6]\n  target y : i64[N]\n  fc = Linear(5)\n"
        "  loss cross_entropy(fc(x) * (1 + epoch / 100), y)\n}\n"
        "train M {\n  batch N = 7\n  epochs 6\n  optimizer Adam(0.1)\n  schedule Own()\n}\n";
    float x[7 * 6];
    int64_t y[7];
    for (int i = 0; i < 7 * 6; i++)
        x[i] = (float)((i * 37) % 19 - 9) / 7.0f;
    for (int i = 0; i < 7; i++)
        y[i] = i % 5;
    hftac_array *array[SLOTS + 1];
    for (int k = 0; k <= SLOTS; k++) {
        hftac_array *a = array[k] = compile_text(text, k < SLOTS ? 1 : SLOTS);
        if (!a)
            fatal("the program does not compile");
        for (int b = 0; b < hftac_model_count(a); b++) {
            const int model = k < SLOTS ? k : b;
            must(hftac_set_seed(a, b, 7));
            must(hftac_set_model_plan(a, b, 9 + model, 10 * model + 1));
            must(hftac_set_model_epoch(a, b, 2 * model));
        }
        hftac_input in, target;
        must(hftac_find_input(a, "x", &in));
        must(hftac_find_input(a, "y", &target));
        for (int e = 0; e < 4; e++) {
            must(hftac_feed(a, in, x, 7));
            must(hftac_feed(a, target, y, 7));
            must(hftac_train_step(a));
            must(hftac_epoch_end(a, HFTAC_NO_METRIC));
        }
        expect(hftac_epoch(a) == 4, "the data's epoch is the array's");
    }
    for (int b = 0; b < SLOTS; b++) {
        int64_t epoch;
        must(hftac_read_model_epoch(array[SLOTS], b, &epoch));
        expect(epoch == 2 * b + 4, "each model's epoch goes on from its own");
        expect(same_state(array[SLOTS], b, array[b], 0), "a model trains by its own clock");
        expect(!same_state(array[SLOTS], b, array[SLOTS], (b + 1) % SLOTS),
               "other clocks, other models");
    }
    must(hftac_set_epoch(array[SLOTS], 3));
    int64_t epoch;
    must(hftac_read_model_epoch(array[SLOTS], 2, &epoch));
    expect(epoch == 3, "the array's epoch sets every model's");
    for (int k = 0; k <= SLOTS; k++)
        hftac_close(array[k]);
}

/* Every scalar may differ per model without recompiling: rate, momentum, decay, schedule, clip,
 * smoothing, dropout, initial values.  One array of three against three arrays of one, and each
 * slot against its neighbour. */
static void everything_per_model(void)
{
    static const char text[] =
        "hdl 1\nhyper lr = 0.1\nhyper momentum = 0.9\nhyper decay = 0\nhyper every = 2\nhyper "
        "gamma = 0.1\nhyper bound = 1\n"
        "hyper smooth = 0\nhyper drop = 0\nhyper spread = 0.5\n"
        "model M {\n  input x : f32[N, 6]\n  target y : i64[N]\n  w = Param([5, 6], init = "
        "normal(std = spread))\n"
        "  h = dropout(linear(x, w), drop)\n  loss cross_entropy(h, y, label_smoothing = "
        "smooth)\n}\n"
        "train M {\n  batch N = 7\n  epochs 6\n  optimizer SGD(lr, momentum, weight_decay = "
        "decay)\n"
        "  schedule StepLR(step_size = every, gamma = gamma)\n  clip norm(bound)\n}\n";
    static const struct {
        const char *name;
        double value[SLOTS];
    } hypers[] = {
        {"lr", {0.1, 0.01, 0.001}}, {"momentum", {0.9, 0, 0.5}}, {"decay", {0, 0.1, 0.01}},
        {"every", {1, 2, 3}},       {"gamma", {0.1, 0.5, 2}},    {"bound", {0.01, 1, 100}},
        {"smooth", {0, 0.1, 0.5}},  {"drop", {0, 0.5, 1}},       {"spread", {0.1, 0.5, 2}},
    };
    float x[7 * 6];
    int64_t y[7];
    for (int i = 0; i < 7 * 6; i++)
        x[i] = (float)((i * 37) % 19 - 9) / 7.0f;
    for (int i = 0; i < 7; i++)
        y[i] = i % 5;
    hftac_array *array[SLOTS + 1];
    for (int k = 0; k <= SLOTS; k++) {
        hftac_array *a = array[k] = compile_text(text, k < SLOTS ? 1 : SLOTS);
        if (!a)
            fatal("the program does not compile");
        for (int b = 0; b < hftac_model_count(a); b++) {
            for (size_t h = 0; h < sizeof hypers / sizeof *hypers; h++)
                set_hyper(a, hypers[h].name, b, hypers[h].value[k < SLOTS ? k : b]);
            must(hftac_set_seed(a, b, 7 + (uint64_t)(k < SLOTS ? k : b)));
        }
        hftac_input in, target;
        must(hftac_find_input(a, "x", &in));
        must(hftac_find_input(a, "y", &target));
        for (int e = 0; e < 6; e++) {
            must(hftac_set_epoch(a, e));
            must(hftac_feed(a, in, x, 7));
            must(hftac_feed(a, target, y, 7));
            must(hftac_train_step(a));
        }
    }
    for (int b = 0; b < SLOTS; b++) {
        expect(same_state(array[SLOTS], b, array[b], 0),
               "nine scalars per model give what three separate programs give");
        expect(!same_state(array[SLOTS], b, array[SLOTS], (b + 1) % SLOTS),
               "... and three different models");
        expect(hftac_running_count(array[SLOTS]) == SLOTS, "dropout 1 is 0, not NaN");
    }
    for (int k = 0; k <= SLOTS; k++)
        hftac_close(array[k]);
}

static void memory(void)
{
    hftac_array *a = compile(MODELS, 2, "-O2");
    set_models(a, 0);
    static uint8_t image[32 * 64], label[32];
    for (int i = 0; i < 32 * 64; i++)
        image[i] = (uint8_t)(i * 7 % 17);
    for (int i = 0; i < 32; i++)
        label[i] = (uint8_t)(i % 10);
    hftac_input x, y;
    must(hftac_find_input(a, "image", &x));
    must(hftac_find_input(a, "label", &y));
    int64_t before = 0;
    for (int i = 0; i < 100; i++) {
        if (i == 1)
            before = allocations;
        must(hftac_feed(a, x, image, 32));
        must(hftac_feed(a, y, label, 32));
        must(hftac_train_step(a));
    }
    expect(allocations == before, "a step allocates nothing");
    hftac_close(a);
}

/* A bad label stops every model that reads it, names it, and nothing is written. */
static void faults(void)
{
    hftac_array *a = compile(MODELS, 2, "-O2");
    set_models(a, 0);
    static uint8_t image[32 * 64], label[32];
    label[17] = 10;
    hftac_input x, y;
    must(hftac_find_input(a, "image", &x));
    must(hftac_find_input(a, "label", &y));
    must(hftac_feed(a, x, image, 32));
    must(hftac_feed(a, y, label, 32));
    must(hftac_train_step(a));
    for (int b = 0; b < MODELS; b++) {
        hftac_model_status s;
        int64_t step;
        must(hftac_read_model(a, b, &s));
        must(hftac_read_step(a, b, &step));
        expect(s.state == HFTAC_MODEL_FAULT && s.sample == 17 && s.value == 10 && step == 0,
               "a label out of range is a fault with its place");
    }
    hftac_close(a);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fatal("usage: test_invariants DIGITS-TRAIN.safetensors");
    check_begin(argv[0]);
    exactness(argv[1]);
    isolation(argv[1]);
    subsets(argv[1]);
    everything_per_model();
    clocks();
    memory();
    faults();
    check_end();
    printf("%d failures\n", failures);
    return failures != 0;
}
