/* A model.so by hand, for the tests of the runtime: no compiler is needed to test libhftac.
 *
 * Four models, N = 4.  x f32[N, 3] is shared, label u8[N] is a target in 0..4 (255: ignored),
 * noise i32[2, N] is `each` with its batch axis inside, bias f64[2] has no batch axis.  A
 * step does w -= lr * mean(x), b += mean(noise), seen += N; its loss is lr * sum(label), so
 * that an lr of infinity makes a model diverge.  w is stored transposed. */

#include <assert.h>

#include "runtime/model_abi.h"

#ifndef FAKE_FEATURES
#define FAKE_FEATURES "sse2"
#endif
#ifndef FAKE_NAME
#define FAKE_NAME "Fake"
#endif
#ifndef FAKE_MAJOR
#define FAKE_MAJOR 2
#endif
static_assert(HFTAC_ABI_MAJOR == 2, "FAKE_MAJOR");

enum {
    B = 4,
    N = 4,
    BLOCK = 128,
    MEAN = 0 /* in shared memory */
};
enum {
    LR,
    REPEAT,
    PICK,
    N_HYPERS
};
enum {
    X,
    LABEL,
    NOISE,
    BIAS,
    N_INPUTS
};
enum {
    R_LOSS,
    R_OK,
    R_FAULT,
    R_FAULT_VALUE,
    R_FACTOR,
    N_RESULTS
};

typedef struct State {
    float w[3][2]; /* logical [2, 3], layout [1, 0] */
    float b;
    float pad;
    int64_t seen;
    double moment[2];
    int64_t step;
    double sum, weight;
} State;
static_assert(sizeof(State) <= BLOCK, "State");

#ifdef FAKE_IMPORT
int fake_import(void);
int (*const fake_pointer)(void) = fake_import;
#endif
#ifdef FAKE_CONSTRUCTOR
__attribute__((constructor)) static void run_me(void)
{
    __builtin_trap();
}
#endif

static State *state_of(const HftacFrame *f, int64_t b)
{
    return (State *)(f->state + b * BLOCK);
}

static int64_t find_fault(const HftacFrame *f, int64_t n)
{
    const unsigned char *label = f->inputs[LABEL];
    for (int64_t i = 0; i < n; i++)
        if (label[i] > 4 && label[i] != 255)
            return i;
    return -1;
}

static void put_fault(const HftacFrame *f, double *r, int64_t at)
{
    const unsigned char *label = f->inputs[LABEL];
    r[R_FAULT] = (double)at;
    r[R_FAULT_VALUE] = at < 0 ? 0 : label[at];
}

static void init_models(const HftacFrame *f, int64_t lo, int64_t hi)
{
    for (int64_t b = lo; b < hi; b++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++)
                state_of(f, b)->w[j][i] = (float)f->seeds[b] + (float)(10 * i + j);
}

static void shared_train(const HftacFrame *f, int64_t lo, int64_t hi)
{
    (void)lo, (void)hi;
    const float *x = f->inputs[X];
    float *mean = (float *)f->shared + MEAN;
    for (int j = 0; j < 3; j++) {
        mean[j] = 0;
        for (int i = 0; i < N; i++)
            mean[j] += x[3 * i + j] / N;
    }
}

static void train_models(const HftacFrame *f, int64_t lo, int64_t hi)
{
    const unsigned char *label = f->inputs[LABEL];
    const float *mean = (const float *)f->shared + MEAN;
    for (int64_t b = lo; b < hi; b++) {
        const double lr = f->hypers[b * N_HYPERS + LR];
        const int *noise = (const int *)f->inputs[NOISE] + b * 2 * N;
        double *r = f->results + b * N_RESULTS, *scratch = (double *)f->scratch;
        scratch[0] = 0;
        for (int i = 0; i < N; i++)
            scratch[0] += label[i];
        put_fault(f, r, find_fault(f, N));
        r[R_LOSS] = lr * scratch[0];
        r[R_OK] = r[R_FAULT] < 0 && r[R_LOSS] - r[R_LOSS] == 0;
        r[R_FACTOR] = 1.0 / (1.0 + f->scalars[HFTAC_SCALAR_EPOCH]);
        if (r[R_OK] == 0)
            continue;
        State *s = state_of(f, b);
        for (int j = 0; j < 3; j++)
            for (int i = 0; i < 2; i++)
                s->w[j][i] -= (float)lr * mean[j];
        for (int i = 0; i < 2 * N; i++)
            s->b += (float)noise[i] / (2 * N);
        s->seen += N;
        s->step++;
    }
}

static void eval_models(const HftacFrame *f, int64_t lo, int64_t hi)
{
    const unsigned char *label = f->inputs[LABEL];
    const int64_t n = (int64_t)f->scalars[HFTAC_SCALAR_N_VALID];
    for (int64_t b = lo; b < hi; b++) {
        put_fault(f, f->results + b * N_RESULTS, find_fault(f, n));
        for (int64_t i = 0; i < n; i++)
            state_of(f, b)->sum += label[i] + (double)b;
        state_of(f, b)->weight += (double)n;
    }
}

static void eval_end_models(const HftacFrame *f, int64_t lo, int64_t hi)
{
    for (int64_t b = lo; b < hi; b++) {
        f->results[b * N_RESULTS + 0] = state_of(f, b)->sum / state_of(f, b)->weight;
        f->results[b * N_RESULTS + 1] = state_of(f, b)->weight;
    }
}

static void predict_models(const HftacFrame *f, int64_t lo, int64_t hi)
{
    const float *x = f->inputs[X];
    const double *bias = f->inputs[BIAS];
    for (int64_t b = lo; b < hi; b++) {
        float *y = (float *)f->outputs[0] + b * N * 2,
              *z = (float *)f->outputs[1] + b * 2 * N * 2;
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 2; k++) {
                y[2 * i + k] = x[3 * i] + (float)b;
                for (int p = 0; p < 2; p++)
                    z[k * N * 2 + 2 * i + p] = x[3 * i] * 100 + (float)(10 * k + p);
            }
        ((double *)f->outputs[2])[b] = bias[0] + bias[1];
    }
}

#define F32(...)                                           \
    {                                                      \
        .dtype = HFTAC_DT_F32, .dim = {__VA_ARGS__},       \
        .rank = sizeof((int[]){__VA_ARGS__}) / sizeof(int) \
    }
#define SCALAR(t)  \
    {              \
        .dtype = t \
    }

static const HftacInput inputs[N_INPUTS] = {
    [X] = {.name = "x", .shape = F32(N, 3), .bytes = sizeof(float) * N * 3},
    [LABEL] = {.name = "label", .shape = {HFTAC_DT_U8, 1, {N}}, .is_target = 1, .bytes = N},
    [NOISE] = {.name = "noise",
               .shape = {HFTAC_DT_I32, 2, {2, N}},
               .batch_axis = 1,
               .is_each = 1,
               .bytes = sizeof(int) * 2 * N},
    [BIAS] = {.name = "bias", .shape = {HFTAC_DT_F64, 1, {2}}, .batch_axis = -1, .bytes = 16},
};
static const double set[] = {0, 0.5, 2};
static const HftacHyper hypers[N_HYPERS] = {
    [LR] = {.name = "lr", .value = 0.5, .domain = 2, .lo = 1e-4, .hi = 1},
    [REPEAT] = {.name = "repeat",
                .value = 3,
                .is_integer = 1,
                .domain = 3,
                .lo = 1,
                .hi = 9,
                .step = 2},
    [PICK] = {.name = "pick", .domain = 4, .n_set = 3, .set = set},
};
static const HftacState states[] = {
    {.name = "fc.weight",
     .shape = F32(2, 3),
     .layout = {1, 0},
     .offset = offsetof(State, w),
     .bytes = 24},
    {.name = "scale", .shape = SCALAR(HFTAC_DT_F32), .offset = offsetof(State, b), .bytes = 4},
    {.name = "seen",
     .shape = SCALAR(HFTAC_DT_I64),
     .role = HFTAC_ROLE_BUFFER,
     .offset = offsetof(State, seen),
     .bytes = 8},
    {.name = "optimizer.m",
     .shape = {HFTAC_DT_F64, 1, {2}},
     .role = HFTAC_ROLE_OPTIM,
     .offset = offsetof(State, moment),
     .bytes = 16},
    {.name = "$step",
     .shape = SCALAR(HFTAC_DT_I64),
     .role = HFTAC_ROLE_COUNTER,
     .offset = offsetof(State, step),
     .bytes = 8},
    {.name = "metric.loss.sum",
     .shape = SCALAR(HFTAC_DT_F64),
     .role = HFTAC_ROLE_METRIC,
     .offset = offsetof(State, sum),
     .bytes = 8},
    {.name = "metric.loss.weight",
     .shape = SCALAR(HFTAC_DT_F64),
     .role = HFTAC_ROLE_METRIC,
     .offset = offsetof(State, weight),
     .bytes = 8},
};
static const HftacOutput outputs[] = {
    {.name = "y",
     .shape = F32(N, 2),
     .batch_axis = 0,
     .per_sample = 1,
     .bytes = sizeof(float) * N * 2},
    {.name = "z",
     .shape = F32(2, N * 2),
     .batch_axis = 1,
     .per_sample = 2,
     .bytes = sizeof(float) * N * 4},
    {.name = "c", .shape = SCALAR(HFTAC_DT_F64), .batch_axis = -1, .bytes = 8},
};
static const HftacResult train_results[] = {
    {.name = "loss", .kind = HFTAC_RESULT_VALUE, .index = R_LOSS},
    {.name = "ok", .kind = HFTAC_RESULT_OK, .index = R_OK},
    {.name = "label",
     .kind = HFTAC_RESULT_FAULT,
     .index = R_FAULT,
     .hi = 5,
     .ignore = 255,
     .has_ignore = 1},
    {.name = "label", .kind = HFTAC_RESULT_FAULT_VALUE, .index = R_FAULT_VALUE},
    {.name = "schedule", .kind = HFTAC_RESULT_FACTOR, .index = R_FACTOR},
};
static const HftacResult eval_results[] = {
    {.name = "label",
     .kind = HFTAC_RESULT_FAULT,
     .index = R_FAULT,
     .hi = 5,
     .ignore = 255,
     .has_ignore = 1},
    {.name = "label", .kind = HFTAC_RESULT_FAULT_VALUE, .index = R_FAULT_VALUE},
};
static const HftacResult end_results[] = {
    {.name = "loss", .kind = HFTAC_RESULT_VALUE, .index = 0},
    {.name = "count", .kind = HFTAC_RESULT_VALUE, .index = 1},
};
#define MASK(...)      \
    {                  \
        __VA_ARGS__, 0 \
    }
static const HftacEntry entries[HFTAC_N_ENTRIES] = {
    [HFTAC_ENTRY_INIT] = {.present = 1, .models = init_models},
    [HFTAC_ENTRY_TRAIN] = {.present = 1,
                           .n_results = 5,
                           .shared = shared_train,
                           .models = train_models,
                           .results = train_results,
                           .input_mask = MASK(1 << X | 1 << LABEL | 1 << NOISE)},
    [HFTAC_ENTRY_EVAL] = {.present = 1,
                          .n_results = 2,
                          .models = eval_models,
                          .results = eval_results,
                          .input_mask = MASK(1 << LABEL)},
    [HFTAC_ENTRY_EVAL_END] = {.present = 1,
                              .n_results = 2,
                              .models = eval_end_models,
                              .results = end_results},
    [HFTAC_ENTRY_PREDICT] = {.present = 1,
                             .models = predict_models,
                             .input_mask = MASK(1 << X | 1 << BIAS)},
};

/* The note by which libhftac finds the descriptor.  Its hash is filled in after linking, by
 * restamp (tests/unit/restamp.c). */
#define TEXT_OF(x)   #x
#define NUMBER_OF(x) TEXT_OF(x)
__asm__(".pushsection " HFTAC_NOTE_SECTION ",\"a\",@note\n"
        ".balign 4\n"
        ".long 6, 32, 1\n"
        ".asciz \"" HFTAC_NOTE_NAME "\"\n"
        ".balign 4\n"
        ".long " NUMBER_OF(FAKE_MAJOR) ", 0\n"
                                       ".quad model - .\n"
                                       ".zero 16\n"
                                       ".popsection\n");

extern const HftacModel model;
__attribute__((visibility("hidden"))) const HftacModel model = {
    .magic = HFTAC_ABI_MAGIC,
    .abi_major = HFTAC_ABI_MAJOR,
    .size = sizeof(HftacModel),
    .version = "0.1.0",
    .name = FAKE_NAME,
    .march = "x86-64",
    .cpu_features = FAKE_FEATURES,
    .n_models = B,
    .batch = N,
    .epochs = 20,
    .state_bytes = BLOCK,
    .shared_bytes = 64,
    .scratch_bytes = 64,
    .n_inputs = N_INPUTS,
    .n_hypers = N_HYPERS,
    .n_states = sizeof states / sizeof states[0],
    .n_outputs = sizeof outputs / sizeof outputs[0],
    .n_results = N_RESULTS,
    .n_entries = HFTAC_N_ENTRIES,
    .input_size = sizeof(HftacInput),
    .hyper_size = sizeof(HftacHyper),
    .state_size = sizeof(HftacState),
    .output_size = sizeof(HftacOutput),
    .result_size = sizeof(HftacResult),
    .entry_size = sizeof(HftacEntry),
    .inputs = inputs,
    .hypers = hypers,
    .states = states,
    .outputs = outputs,
    .entries = entries,
};
