/* Numbers among integers: no value wraps, whatever number an integer tensor meets.
 *
 * For each integer type a program is generated in which values at the type's edges meet numbers
 * inside, at the edges of and outside that type, in every comparison and in what chooses, fills,
 * pads, joins and computes.  What is right is computed here in long double, which holds every i64
 * (64 bits of mantissa), and for i64 arithmetic, which is modulo 2^64 as in PyTorch, in int128.
 * Each program runs at B = 1 and at B = 3, where the hyper that is compared differs from slot to
 * slot. Then labels of u8 must train 200 classes as labels of i64 do, bit for bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/integers.h"

static int failures;

#define COUNT(rows) (int)(sizeof rows / sizeof *rows)

static Real element(hftac_type t, const void *v, int64_t i)
{
    switch (t) {
    case HFTAC_F32:
        return ((const float *)v)[i];
    case HFTAC_F64:
        return (Real)((const double *)v)[i];
    case HFTAC_I32:
        return ((const int32_t *)v)[i];
    case HFTAC_I64:
        return ((const int64_t *)v)[i];
    case HFTAC_BOOL:
    case HFTAC_U8:
        break;
    }
    return ((const unsigned char *)v)[i];
}

static const void *output_of(hftac_array *a, const char *name, int model, hftac_type *type)
{
    hftac_output o;
    const void *v;
    must(hftac_find_output(a, name, &o));
    must(hftac_read_output(a, o, model, &v));
    for (int i = 0; i < hftac_describe(a)->n_outputs; i++)
        if (strcmp(hftac_describe_output(a, i)->name, name) == 0)
            *type = hftac_describe_output(a, i)->type;
    return v;
}

static void expect(bool ok, const char *type, const char *row, Real x, Real c, Real got,
                   Real want)
{
    if (ok || failures++ > 40)
        return;
    printf("FAILED: %s: %s with x = %.20Lg, c = %.20Lg gives %.20Lg, not %.20Lg\n", type, row,
           x, c, got, want);
}

/* fn NAME(x, c), whose result has a row for each. */
static void write_rows(Source *s, const char *name, const Row *rows, int n)
{
    add(s, "fn %s(x, c) = stack([", name);
    for (int i = 0; i < n; i++)
        add(s, "%s%s", i ? ",\n    " : "", rows[i].text);
    add(s, "])\n");
}

static void write_functions(Source *s)
{
    add(s, "hdl 1\nhyper h = 1\n");
    write_rows(s, "compare", integer_comparisons, COUNT(integer_comparisons));
    write_rows(s, "choose", integer_choices, COUNT(integer_choices));
    write_rows(s, "compute", integer_arithmetic, COUNT(integer_arithmetic));
}

static void check_rows(hftac_array *a, const TypeCase *t, const Number *c, const char *function,
                       int number, const Row *rows, int n)
{
    char name[32];
    hftac_type type = HFTAC_F32;
    snprintf(name, sizeof name, "%s%d", function, number);
    for (int model = 0; model < hftac_describe(a)->models; model++) {
        const void *v = output_of(a, name, model, &type);
        for (int i = 0; i < n * VALUES; i++) {
            const Real x = (Real)t->value[i % VALUES];
            Real want = rows[i / VALUES].right(x, c->value), got = element(type, v, i);
            if (type == HFTAC_F32)
                want = (Real)(float)want;
            expect(got == want, t->text, rows[i / VALUES].text, x, c->value, got, want);
        }
    }
}

static void feed_values(hftac_array *a, const TypeCase *t)
{
    unsigned char bytes[VALUES];
    int32_t words[VALUES];
    for (int i = 0; i < VALUES; i++) {
        bytes[i] = (unsigned char)t->value[i];
        words[i] = (int32_t)t->value[i];
    }
    hftac_input in;
    must(hftac_find_input(a, "x", &in));
    must(hftac_feed(a, in,
                    t->type == HFTAC_I64   ? (const void *)t->value
                    : t->type == HFTAC_I32 ? (const void *)words
                                           : (const void *)bytes,
                    1));
}

static hftac_array *compile(const Source *s, int n_models)
{
    hftac_array *a = compile_text(s->text, n_models);
    if (!a)
        fatal("a case does not compile");
    return a;
}

static void check_numbers(const TypeCase *t, int first, int last, int n_models)
{
    static Source s;
    s.len = 0;
    write_functions(&s);
    add(&s, "model M {\n  input x : %s[8]\n", t->text);
    for (int k = first; k < last; k++) {
        const Number *c = &integer_numbers[k];
        add(&s, "  output compare%d = compare(x, %s)\n", k, c->text);
        if (!c->wide)
            add(&s, "  output choose%d = choose(x, %s)\n", k, c->text);
        if (!c->wide && !c->fraction)
            add(&s, "  output compute%d = compute(x, %s)\n", k, c->text);
    }
    add(&s, "  loss mean(x)\n}\n");
    hftac_array *a = compile(&s, n_models);
    feed_values(a, t);
    must(hftac_predict_step(a, 1));
    for (int k = first; k < last; k++) {
        const Number *c = &integer_numbers[k];
        check_rows(a, t, c, "compare", k, integer_comparisons, COUNT(integer_comparisons));
        if (!c->wide)
            check_rows(a, t, c, "choose", k, integer_choices, COUNT(integer_choices));
        if (!c->wide && !c->fraction)
            check_rows(a, t, c, "compute", k, integer_arithmetic, COUNT(integer_arithmetic));
    }
    hftac_close(a);
}

/* ---- what is known at run time only ---- */

enum {
    N_REALS = 21
};

static const double reals[N_REALS] = {
    0,      0.5,     -0.5,   1,      255,     255.5,  256,  -100,  0x1p24,   0x1p31,   -0x1p31,
    0x1p53, -0x1p53, 0x1p62, 0x1p63, -0x1p63, 0x1p65, 1e30, -1e30, INFINITY, -INFINITY};

/* Rows of x against each real, [rows, VALUES, n]. */
static void check_reals(hftac_array *a, const TypeCase *t, const char *name, int model, int n,
                        const double *r)
{
    hftac_type type = HFTAC_BOOL;
    const void *v = output_of(a, name, model, &type);
    for (int row = 0; row < COUNT(integer_comparisons); row++)
        for (int i = 0; i < VALUES; i++)
            for (int k = 0; k < n; k++) {
                const Real x = (Real)t->value[i], c = (Real)r[k];
                const Real want = integer_comparisons[row].right(x, c);
                const Real got = element(type, v, (row * VALUES + i) * n + k);
                expect(got == want, t->text, integer_comparisons[row].text, x, c, got, want);
            }
}

/* Casts of reals stop at the type's ends, folded or not; NaN is 0. */
static void check_casts(hftac_array *a, const char *name)
{
    static const Real want[] = {0, 0, 1, 255, 255, 0};
    hftac_type type = HFTAC_BOOL;
    const void *v = output_of(a, name, 0, &type);
    for (int i = 0; i < COUNT(want); i++)
        expect(element(type, v, i) == want[i], name, "cast", i, 0, element(type, v, i),
               want[i]);
}

static void feed_input(hftac_array *a, const char *name, const void *v, int64_t samples)
{
    hftac_input in;
    must(hftac_find_input(a, name, &in));
    must(hftac_feed(a, in, v, samples));
}

/* Against tensors of f64 and f32, and against a hyper, another one in each model. */
static void check_run_time(const TypeCase *t, int n_models)
{
    static Source s;
    float narrow[N_REALS];
    double rounded[N_REALS];
    const double real[] = {-0.5, -INFINITY, 1.9, 255.5, 1e20, NAN};
    s.len = 0;
    write_functions(&s);
    add(&s, "model M {\n  input x : %s[8]\n  input wide : f64[%d]\n  input narrow : f32[%d]\n",
        t->text, N_REALS, N_REALS);
    add(&s, "  input real : f64[6]\n"
            "  output compare1 = compare(unsqueeze(x, 1), wide)\n"
            "  output compare2 = compare(unsqueeze(x, 1), narrow)\n"
            "  output compare3 = compare(x, h)\n"
            "  output cast1 = cast(real, \"u8\")\n"
            "  huge = 1e20\n"
            "  output cast2 = cast(stack([full([1], -0.5), full([1], -huge * huge), full([1], "
            "1.9), "
            "full([1], 255.5), full([1], huge), 0 * full([1], log(0))]), \"u8\")\n"
            "  loss mean(x) * h\n}\n");
    hftac_array *a = compile(&s, n_models);
    for (int k = 0; k < N_REALS; k++)
        rounded[k] = narrow[k] = (float)reals[k];
    feed_values(a, t);
    feed_input(a, "wide", reals, 1);
    feed_input(a, "narrow", narrow, 1);
    feed_input(a, "real", real, 1);
    hftac_hyper h;
    must(hftac_find_hyper(a, "h", &h));
    for (int turn = 0; turn < N_REALS; turn++) {
        for (int b = 0; b < n_models; b++)
            must(hftac_set_hyper(a, h, b, reals[(turn + b) % N_REALS]));
        must(hftac_predict_step(a, 1));
        for (int b = 0; b < n_models; b++)
            check_reals(a, t, "compare3", b, 1, &reals[(turn + b) % N_REALS]);
    }
    check_reals(a, t, "compare1", n_models - 1, N_REALS, reals);
    check_reals(a, t, "compare2", n_models - 1, N_REALS, rounded);
    check_casts(a, "cast1");
    check_casts(a, "cast2");
    hftac_close(a);
}

/* Numbers in a loop are the program's, as they are where it is unrolled. */
static void check_loop(void)
{
    static const char *const from[] = {"--loop-from=2", "--loop-from=1000"};
    static Source s;
    s.len = 0;
    add(&s,
        "hdl 1\nmodel M {\n  input x : u8[1]\n  n = 1\n  m = 0\n  k = 0\n  y = 0 * x\n"
        "  repeat i in 0 .. 70 {\n    n = n * 2\n    m = m + 2 ** 51\n    k = k + 5\n"
        "    y = y + where(x < 4 * k, 1, 0) + where(x < i * i * i, 1, 0)\n  }\n"
        "  output o = stack([cast(x, \"f64\") + n, cast(x, \"f64\") + m, cast(x + k, \"f64\"), "
        "cast(y, \"f64\")])\n"
        "  loss mean(x)\n}\n");
    const Real want[] = {0x1p70L, 70 * 0x1p51L, 200 + 350, 60 + 64};
    for (int i = 0; i < 2; i++) {
        hftac_array *a = compile_text_options(s.text, 1, (const char *const[]){from[i], NULL});
        if (!a)
            fatal("the loop does not compile");
        feed_input(a, "x", &(unsigned char){200}, 1);
        must(hftac_predict_step(a, 1));
        hftac_type type = HFTAC_F64;
        const void *v = output_of(a, "o", 0, &type);
        for (int k = 0; k < COUNT(want); k++)
            expect(fabsl(element(type, v, k) - want[k]) <= 200, from[i], "loop", k, 0,
                   element(type, v, k), want[k]);
        hftac_close(a);
    }
}

/* ---- labels ---- */

enum {
    CLASSES = 200,
    SAMPLES = 40,
    STEPS = 3
};

static hftac_array *open_labels(const char *type, const char *arguments, int n_models)
{
    static Source s;
    s.len = 0;
    add(&s,
        "hdl 1\nhyper lr = 0.5\nmodel M {\n  input x : f32[N, 3]\n  target y : %s[N]\n"
        "  fc = Linear(%d)\n  loss cross_entropy(fc(x), y%s)\n"
        "  metric acc = accuracy(fc(x), y, -100)\n}\n"
        "train {\n  batch N = %d\n  optimizer SGD(lr)\n}\n",
        type, CLASSES, arguments, SAMPLES);
    return compile(&s, n_models);
}

/* Trains with classes 156 .. 195; weight and bias of model b afterwards. */
static float *train_labels(hftac_array *a, hftac_type type, int b, size_t *bytes)
{
    unsigned char small[SAMPLES];
    int64_t large[SAMPLES];
    float x[SAMPLES * 3];
    hftac_hyper lr;
    must(hftac_find_hyper(a, "lr", &lr));
    for (int i = 0; i < SAMPLES; i++) {
        large[i] = small[i] = (unsigned char)(156 + i);
        for (int k = 0; k < 3; k++)
            x[3 * i + k] = (float)sin(1 + 7 * i + 3 * k);
    }
    for (int m = 0; m < hftac_describe(a)->models; m++)
        must(hftac_set_hyper(a, lr, m, 0.5 + 0.1 * (m - b)));
    must(hftac_set_seed(a, b, 7));
    must(hftac_reset_model(a, b));
    feed_input(a, "x", x, SAMPLES);
    feed_input(a, "y", type == HFTAC_U8 ? (const void *)small : (const void *)large, SAMPLES);
    for (int step = 0; step < STEPS; step++)
        must(hftac_train_step(a));
    return get_param(a, "fc.bias", b, bytes);
}

/* As i64 labels do, the class that -100 would become in u8 too, unless it is the class to ignore.
 */
static void check_labels(const char *arguments, bool learns, int n_models)
{
    size_t bytes;
    hftac_array *a = open_labels("u8", arguments, n_models),
                *b = open_labels("i64", arguments, 1), *none = open_labels("i64", arguments, 1);
    float *small = train_labels(a, HFTAC_U8, n_models - 1, &bytes);
    float *large = train_labels(b, HFTAC_I64, 0, &bytes);
    must(hftac_set_seed(none, 0, 7));
    must(hftac_reset_model(none, 0));
    float *before = get_param(none, "fc.bias", 0, &bytes);
    if (!same_bits("labels of u8 and i64", small, large, bytes))
        failures++;
    /* Softmax pushes every class down; that of a label rises. */
    const bool rose = small[156] > before[156];
    if (rose != learns || !(small[157] > before[157]) || !(small[100] < before[100])) {
        printf("FAILED: class 156%s: from %g to %g\n", arguments, (double)before[156],
               (double)small[156]);
        failures++;
    }
    free(small);
    free(large);
    free(before);
    hftac_close(a);
    hftac_close(b);
    hftac_close(none);
}

int main(int argc, char **argv)
{
    (void)argc;
    check_begin(argv[0]);
    for (int t = 0; t < N_TYPES; t++) {
        check_numbers(&integer_types[t], 0, N_NUMBERS / 2, 1 + t % 2 * 2);
        check_numbers(&integer_types[t], N_NUMBERS / 2, N_NUMBERS, 3 - t % 2 * 2);
        check_run_time(&integer_types[t], 3);
    }
    check_run_time(&integer_types[1], 1);
    check_loop();
    check_labels("", true, 3);
    check_labels(", ignore_index = 156", false, 1);
    check_end();
    printf("%d failures\n", failures);
    return failures != 0;
}
