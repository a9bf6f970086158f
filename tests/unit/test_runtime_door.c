/* What callers bring along: floating-point modes, forks, numbers at the ends of their types. */
#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "tests/unit/runtime_test.h"

/* ---- Floating-point modes ---- */

enum {
    SAMPLES = 12,
    STATE_BYTES = 24 + 4,
    FLUSH = 0x8040 /* to zero, and denormals are zero */
};

/* Everything that a run gives: parameters, metrics, outputs of all models. */
typedef struct Outcome {
    unsigned char params[4][STATE_BYTES];
    double metrics[4][3], factor;
    unsigned char output[4][64];
    hftac_model_state state[4];
} Outcome;

typedef struct Set {
    float x[3 * SAMPLES];
    unsigned char label[SAMPLES];
    int32_t noise[4 * SAMPLES * 2];
} Set;

/* Thirds, so that rounding shows, and denormals. */
static void fill_set(Set *s)
{
    for (int i = 0; i < 3 * SAMPLES; i++)
        s->x[i] = i % 4 ? (float)(i + 1) / 3 : 3e-39f;
    for (int i = 0; i < SAMPLES; i++)
        s->label[i] = (unsigned char)(i % 5);
    for (int i = 0; i < 4 * SAMPLES * 2; i++)
        s->noise[i] = i % 7;
}

static hftac_data *open_set(hftac_array *a, const Set *s)
{
    const hftac_tensor tensors[] = {
        {"x", HFTAC_F32, 2, {SAMPLES, 3}, s->x},
        {"label", HFTAC_U8, 1, {SAMPLES}, s->label},
        {"noise", HFTAC_I32, 3, {4, SAMPLES, 2}, s->noise},
    };
    hftac_data *d = NULL;
    OK(hftac_data_from_memory(a, tensors, 3, NULL, &d));
    return d;
}

static int silent(void *context, const hftac_progress *p)
{
    (void)p;
    *(unsigned *)context = _mm_getcsr();
    return 0;
}

/* Computes nothing itself.  Model 3 has an infinite loss. */
static void use_everything(hftac_array *a, const Set *set, Outcome *out, unsigned *in_callback)
{
    memset(out, 0, sizeof *out);
    hftac_data *d = open_set(a, set);
    for (int b = 0; b < 4; b++)
        OK(hftac_set_hyper(a, 0, b, b == 3 ? INFINITY : 0.03));
    OK(hftac_train_epoch(
        a, d, &(hftac_train_options){.callback = silent, .context = in_callback}, NULL));
    OK(hftac_evaluate(a, d, NULL, NULL));
    OK(hftac_save(a, in_folder("modes")));
    OK(hftac_load(a, in_folder("modes"), NULL));
    OK(hftac_epoch_end(a, 0));
    feed_fake(a);
    OK(hftac_feed(a, 3, (const double[]){0.1, 1.0 / 3}, 1));
    OK(hftac_predict_step(a, 4));
    for (int b = 0; b < 4; b++) {
        hftac_model_status status;
        const void *values;
        OK(hftac_get_param(a, 0, b, out->params[b], 24));
        OK(hftac_get_param(a, 1, b, out->params[b] + 24, 4));
        for (int m = 0; m < 3; m++)
            OK(hftac_read_metric(a, m, b, &out->metrics[b][m]));
        OK(hftac_read_output(a, 0, b, &values));
        memcpy(out->output[b], values, hftac_describe_output(a, 0)->bytes);
        OK(hftac_read_model(a, b, &status));
        out->state[b] = status.state;
    }
    hftac_data_close(d);
}

typedef struct Mode {
    int rounding, traps;
    unsigned flush;
} Mode;

static unsigned short x87_mode(void)
{
    unsigned short mode;
    __asm__ volatile("fnstcw %0" : "=m"(mode));
    return mode;
}

/* Both units; flags that the caller has raised before are his. */
static void enter_mode(const Mode *m)
{
    feclearexcept(FE_ALL_EXCEPT);
    fesetround(m->rounding);
    _mm_setcsr(_mm_getcsr() | m->flush | _MM_EXCEPT_UNDERFLOW);
    feenableexcept(m->traps);
}

static void test_mode(const Mode *m, int threads, const Set *set, const Outcome *want)
{
    Outcome got;
    unsigned in_callback = 0;
    hftac_array *a = NULL;
    enter_mode(m);
    const unsigned before = _mm_getcsr();
    const unsigned short x87 = x87_mode();
    const hftac_status s = hftac_open(model_path, &(hftac_options){.threads = threads}, &a);
    if (!s)
        use_everything(a, set, &got, &in_callback);
    const unsigned after = _mm_getcsr();
    const unsigned short x87_after = x87_mode();
    fesetenv(FE_DFL_ENV);
    _mm_setcsr(0x1f80);
    CHECK(s == HFTAC_OK && after == before && x87_after == x87 && in_callback == before);
    CHECK(memcmp(&got, want, sizeof got) == 0);
    hftac_close(a);
}

static void test_modes(void)
{
    static const Mode modes[] = {
        {FE_UPWARD, 0, 0},
        {FE_DOWNWARD, 0, FLUSH},
        {FE_TOWARDZERO, FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW, 0},
        {FE_TONEAREST, FE_ALL_EXCEPT & ~FE_UNDERFLOW, FLUSH},
    };
    Set set;
    fill_set(&set);
    for (int threads = 1; threads <= 4; threads += 3) {
        Outcome want;
        unsigned ignored;
        hftac_array *a = open_fake(threads);
        use_everything(a, &set, &want, &ignored);
        hftac_close(a);
        CHECK(want.state[3] == HFTAC_MODEL_DIVERGED);
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            test_mode(&modes[i], threads, &set, &want);
    }
}

/* ---- Forks ---- */

/* In the child: the array of the parent only closes, an own one trains. */
static int child(hftac_array *a, hftac_data *d)
{
    const int before = failures;
    double v;
    hftac_data *part = NULL, *fresh = NULL;
    alarm(20); /* a hang is a failure */
    FAILS(hftac_train_step(a), HFTAC_USAGE, "its threads are not in this one");
    FAILS(hftac_evaluate_begin(a, 0), HFTAC_USAGE, "process");
    FAILS(hftac_predict_step(a, 4), HFTAC_USAGE, "process");
    FAILS(hftac_train_epoch(a, d, NULL, NULL), HFTAC_USAGE, "process");
    FAILS(hftac_evaluate(a, d, NULL, NULL), HFTAC_USAGE, "process");
    FAILS(hftac_read_metric(a, 0, 0, &v), HFTAC_USAGE, "process");
    FAILS(hftac_set_hyper(a, 0, 0, 1), HFTAC_USAGE, "process");
    FAILS(hftac_set_epoch(a, 1), HFTAC_USAGE, "process");
    FAILS(hftac_save(a, in_folder("forked")), HFTAC_USAGE, "process");
    FAILS(hftac_load(a, in_folder("modes"), NULL), HFTAC_USAGE, "process");
    FAILS(hftac_feed(a, 0, &v, 4), HFTAC_USAGE, "process");
    FAILS(hftac_data_open(a, in_folder("x.safetensors"), NULL, &fresh), HFTAC_USAGE, "process");
    CHECK(hftac_describe(a)->models == 4 && access(in_folder("forked"), F_OK) != 0);
    OK(hftac_data_slice(d, 1, 2, &part));
    hftac_data_close(part);
    hftac_data_close(d);
    hftac_close(a);
    hftac_array *own = open_fake(4);
    feed_fake(own);
    OK(hftac_train_step(own));
    hftac_close(own);
    return failures > before;
}

static void test_fork(int threads)
{
    Set set;
    double loss;
    fill_set(&set);
    hftac_array *a = open_fake(threads);
    hftac_data *d = open_set(a, &set);
    OK(hftac_train_epoch(a, d, NULL, NULL));
    const pid_t pid = fork();
    if (pid == 0)
        _exit(child(a, d));
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(hftac_train_epoch(a, d, NULL, NULL));
    OK(hftac_read_epoch_metric(a, 0, 0, &loss));
    CHECK(isfinite(loss));
    hftac_data_close(d);
    hftac_close(a);
}

/* ---- Numbers at their ends ---- */

static void test_extremes(void)
{
    static const int64_t most = INT64_C(1) << 53;
    static const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX, (INT64_C(1) << 53) + 1};
    hftac_array *a = open_fake(1);
    feed_fake(a);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(hftac_set_epoch(a, wrong[i]), HFTAC_USAGE, "epoch");
        FAILS(hftac_set_model_epoch(a, 1, wrong[i]), HFTAC_USAGE, "epoch");
        FAILS(hftac_set_model_plan(a, 1, wrong[i], 1), HFTAC_USAGE, "plan");
        FAILS(hftac_set_plan(a, wrong[i], 1), HFTAC_USAGE, "plan");
        FAILS(hftac_set_plan(a, 1, wrong[i]), HFTAC_USAGE, "plan");
        FAILS(hftac_feed(a, 0, wrong, wrong[i]), HFTAC_USAGE, "samples");
        FAILS(hftac_predict_step(a, wrong[i]), HFTAC_USAGE, "n_valid");
    }
    FAILS(hftac_predict_step(a, 0), HFTAC_USAGE, "n_valid is 0");
    FAILS(hftac_predict_step(a, 5), HFTAC_USAGE, "n_valid is 5");
    OK(hftac_set_epoch(a, most));
    CHECK(hftac_epoch(a) == most);
    OK(hftac_train_step(a));
    FAILS(hftac_epoch_end(a, HFTAC_NO_METRIC), HFTAC_USAGE, "above 2^53");
    CHECK(hftac_epoch(a) == most);
    OK(hftac_set_plan(a, most, most));
    OK(hftac_set_epoch(a, 0));
    hftac_close(a);
}

__attribute__((unused)) static int no_sink(void *context, int64_t first, int64_t n)
{
    (void)context;
    return first != 0 || n != 0;
}

/* Data sets of so many samples, whose tensor has three floats each; one byte stands for them. */
static void test_data_sizes(void)
{
    static const float x[3 * SAMPLES] = {0};
    static const double bias[2] = {0};
    static const int64_t wrong[] = {INT64_MAX, INT64_MAX / 12 + 1, INT64_C(1) << 62, -1,
                                    INT64_MIN};
    hftac_array *a = open_fake(1);
    hftac_data *d = NULL, *part = NULL;
    const hftac_data_options predict = {.purpose = HFTAC_FOR_PREDICTION};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const hftac_tensor t[] = {{"x", HFTAC_F32, 2, {wrong[i], 3}, x}};
        FAILS(hftac_data_from_memory(a, t, 1, &predict, &d), HFTAC_USAGE, "tensor number 0");
        CHECK(d == NULL);
    }
    /* As many as an address space might hold: the order of samples is what memory cannot. */
    const hftac_tensor huge[] = {{"x", HFTAC_F32, 2, {INT64_MAX / 12, 3}, x},
                                 {"bias", HFTAC_F64, 1, {2}, bias}};
    OK(hftac_data_from_memory(a, huge, 2, &predict, &d));
    CHECK(hftac_data_samples(d) == INT64_MAX / 12);
#ifndef __SANITIZE_ADDRESS__ /* which ends the process instead */
    FAILS(hftac_predict(a, d, no_sink, NULL), HFTAC_MEMORY, "order of samples");
#endif
    FAILS(hftac_predict_to_file(a, d, in_folder("huge")), HFTAC_DATA, "too large");
    FAILS(hftac_data_slice(d, INT64_MAX, INT64_MAX, &part), HFTAC_USAGE, "not in a data set");
    FAILS(hftac_data_slice(d, 1, INT64_MAX, &part), HFTAC_USAGE, "not in a data set");
    FAILS(hftac_data_slice(d, -1, 1, &part), HFTAC_USAGE, "not in a data set");
    FAILS(hftac_data_slice(d, 0, 0, &part), HFTAC_USAGE, "not in a data set");
    OK(hftac_data_slice(d, INT64_MAX / 12 - 1, 1, &part));
    hftac_data_close(part);
    hftac_data_close(d);
    /* One sample less than a batch, and one more. */
    for (int64_t n = 3; n <= 5; n++) {
        hftac_pass pass;
        float values[5 * 3] = {0};
        const hftac_tensor t[] = {{"x", HFTAC_F32, 2, {n, 3}, values},
                                  {"bias", HFTAC_F64, 1, {2}, bias}};
        OK(hftac_data_from_memory(a, t, 2, &predict, &d));
        OK(hftac_predict_to_file(a, d, in_folder("few.safetensors")));
        FAILS(hftac_train_epoch(a, d, NULL, &pass), HFTAC_DATA,
              n < 4 ? "3 samples" : "no tensor");
        hftac_data_close(d);
    }
    hftac_close(a);
}

void test_door(void)
{
    test_modes();
    test_fork(1);
    test_fork(4);
    test_extremes();
    test_data_sizes();
}
