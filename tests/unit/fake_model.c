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
#define FAKE_MAJOR 5
#endif
static_assert(HFTAC_ABI_MAJOR == 5, "FAKE_MAJOR");

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
    int64_t step;
    double sum, weight;
} State;
/* State lies model by model in the first half of the memory; the optimizer's, two doubles a
 * model, side by side behind it: every state has a distance of its own. */
enum {
    MOMENTS = B * 64
};
static_assert(sizeof(State) == 64 && MOMENTS + B * 16 <= B * BLOCK, "State");

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
    return (State *)f->state + b;
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

__attribute__((used)) static void init_models(const HftacFrame *f, int64_t lo, int64_t hi)
{
    for (int64_t b = lo; b < hi; b++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++)
                state_of(f, b)->w[j][i] = (float)f->seeds[b] + (float)(10 * i + j);
}

__attribute__((used)) static void shared_train(const HftacFrame *f, int64_t lo, int64_t hi)
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

__attribute__((used)) static void train_models(const HftacFrame *f, int64_t lo, int64_t hi)
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
        r[R_FACTOR] = 1.0 / (1.0 + f->clocks[b * HFTAC_N_CLOCK + HFTAC_CLOCK_EPOCH]);
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

__attribute__((used)) static void eval_models(const HftacFrame *f, int64_t lo, int64_t hi)
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

__attribute__((used)) static void eval_end_models(const HftacFrame *f, int64_t lo, int64_t hi)
{
    for (int64_t b = lo; b < hi; b++) {
        f->results[b * N_RESULTS + 0] = state_of(f, b)->sum / state_of(f, b)->weight;
        f->results[b * N_RESULTS + 1] = state_of(f, b)->weight;
    }
}

__attribute__((used)) static void predict_models(const HftacFrame *f, int64_t lo, int64_t hi)
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

/* Every text of the model has a field, so that its place is known when this is compiled. */
/* clang-format off */
#define TEXTS(X)                                                                            \
    X(version, "0.1.0")                                                                     \
    X(fake, FAKE_NAME) X(march, "x86-64") X(features, FAKE_FEATURES) X(x, "x")              \
        X(label, "label") X(noise, "noise") X(bias, "bias") X(lr, "lr") X(repeat, "repeat") \
            X(pick, "pick") X(fc_weight, "fc.weight") X(scale, "scale") X(seen, "seen")     \
                X(moment, "optimizer.m") X(step, "$step") X(sum, "metric.loss.sum")         \
                    X(weight, "metric.loss.weight") X(y, "y") X(z, "z") X(c, "c")           \
                        X(loss, "loss") X(ok, "ok") X(mean, "mean") X(source, "fake.hdl:7") X(schedule, "schedule") X(count, "count")
/* clang-format on */
typedef struct Texts {
    char none;
#define X(name, text) char name[sizeof text];
    TEXTS(X)
#undef X
} Texts;
#define T(name) offsetof(Texts, name)

/* Runs, by number; they say nothing of their kernels. */
enum {
    F_INIT,
    F_SHARED,
    F_TRAIN,
    F_EVAL,
    F_EVAL_END,
    F_PREDICT,
    N_FUNCTIONS
};
#define RUN(kind_, run)                             \
    {                                               \
        .kind = HFTAC_STEP_##kind_, .function = run \
    }
enum {
    N_SECTIONS = 14,
    LATER_TAG = 1000,
    N_STATES = 7,
    N_OUTPUTS = 3,
    N_ALL_RESULTS = 9,
    N_STEPS = 7
};

/* The descriptor's block; behind it the functions' words, which only the linker knows. */
typedef struct Block {
    HftacModel head;
    HftacSection sections[N_SECTIONS];
    HftacInfo info[1];
    Texts texts;
    _Alignas(8) double reals[3];
    HftacInput inputs[N_INPUTS];
    HftacHyper hypers[N_HYPERS];
    HftacState states[N_STATES];
    HftacOutput outputs[N_OUTPUTS];
    HftacResult results[N_ALL_RESULTS];
    HftacEntry entries[HFTAC_N_ENTRIES];
    HftacStep steps[N_STEPS];
    HftacVariant variants[1];
    HftacCode codes[1];
} Block;

#define SECTION(tag_, field)                                                   \
    {                                                                          \
        .tag = HFTAC_SECTION_##tag_, .row_bytes = sizeof((Block){0}.field[0]), \
        .offset = offsetof(Block, field), .bytes = sizeof((Block){0}.field)    \
    }
#define MASK(...)      \
    {                  \
        __VA_ARGS__, 0 \
    }
#define FAULT(index_)                                                                          \
    {                                                                                          \
        .name = T(label), .kind = HFTAC_RESULT_FAULT, .index = index_, .hi = 5, .ignore = 255, \
        .has_ignore = 1, .input = LABEL                                                        \
    }

extern const Block fake_block;
__attribute__((visibility("hidden"), section(".rodata.fake"), aligned(64))) const Block
    fake_block =
        {
            .head = {.magic = HFTAC_ABI_MAGIC,
                     .abi_major = HFTAC_ABI_MAJOR,
                     .bytes = sizeof(Block) + N_FUNCTIONS * sizeof(int64_t),
                     .n_sections = N_SECTIONS,
                     .section_bytes = sizeof(HftacSection)},
            .sections = {SECTION(INFO, info),
                         {.tag = HFTAC_SECTION_TEXT,
                          .row_bytes = 1,
                          .offset = offsetof(Block, texts),
                          .bytes = sizeof(Texts)},
                         SECTION(REALS, reals),
                         SECTION(INPUTS, inputs),
                         SECTION(HYPERS, hypers),
                         SECTION(STATES, states),
                         SECTION(OUTPUTS, outputs),
                         SECTION(RESULTS, results),
                         SECTION(ENTRIES, entries),
                         SECTION(STEPS, steps),
                         SECTION(VARIANTS, variants),
                         SECTION(CODE, codes),
                         /* of a later version: every test opens a file that has it */
                         {.tag = LATER_TAG, .row_bytes = 5, .offset = 3, .bytes = 1 << 30},
                         {.tag = HFTAC_SECTION_ADDRESSES,
                          .row_bytes = sizeof(int64_t),
                          .offset = sizeof(Block),
                          .bytes = N_FUNCTIONS * sizeof(int64_t)}},
            .info = {{.version = T(version),
                      .name = T(fake),
                      .n_models = B,
                      .batch = N,
                      .epochs = 20,
                      .shared_bytes = 64,
                      .scratch_bytes = 64,
                      .n_results = N_RESULTS}},
            .texts =
                {
#define X(name, text) .name = text,
                    TEXTS(X)
#undef X
                },
            .reals = {0, 0.5, 2},
            .inputs =
                {
                    [X] = {.name = T(x), .shape = F32(N, 3), .bytes = sizeof(float) * N * 3},
                    [LABEL] = {.name = T(label),
                               .shape = {HFTAC_DT_U8, 1, {N}},
                               .is_target = 1,
                               .bytes = N},
                    [NOISE] = {.name = T(noise),
                               .shape = {HFTAC_DT_I32, 2, {2, N}},
                               .batch_axis = 1,
                               .is_each = 1,
                               .bytes = sizeof(int) * 2 * N},
                    [BIAS] = {.name = T(bias),
                              .shape = {HFTAC_DT_F64, 1, {2}},
                              .batch_axis = -1,
                              .bytes = 16},
                },
            .hypers =
                {
                    [LR] = {.name = T(lr), .value = 0.5, .domain = 2, .lo = 1e-4, .hi = 1},
                    [REPEAT] = {.name = T(repeat),
                                .value = 3,
                                .is_integer = 1,
                                .domain = 3,
                                .lo = 1,
                                .hi = 9,
                                .step = 2},
                    [PICK] = {.name = T(pick), .domain = 4, .n_set = 3},
                },
            .states =
                {
                    {.name = T(fc_weight),
                     .shape = F32(2, 3),
                     .layout = {1, 0},
                     .offset = offsetof(State, w),
                     .model_bytes = sizeof(State),
                     .bytes = 24},
                    {.name = T(scale),
                     .shape = SCALAR(HFTAC_DT_F32),
                     .offset = offsetof(State, b),
                     .model_bytes = sizeof(State),
                     .bytes = 4},
                    {.name = T(seen),
                     .shape = SCALAR(HFTAC_DT_I64),
                     .role = HFTAC_ROLE_BUFFER,
                     .offset = offsetof(State, seen),
                     .model_bytes = sizeof(State),
                     .bytes = 8},
                    {.name = T(moment),
                     .shape = {HFTAC_DT_F64, 1, {2}},
                     .role = HFTAC_ROLE_OPTIM,
                     .offset = MOMENTS,
                     .model_bytes = 16,
                     .bytes = 16},
                    {.name = T(step),
                     .shape = SCALAR(HFTAC_DT_I64),
                     .role = HFTAC_ROLE_COUNTER,
                     .offset = offsetof(State, step),
                     .model_bytes = sizeof(State),
                     .bytes = 8},
                    {.name = T(sum),
                     .shape = SCALAR(HFTAC_DT_F64),
                     .role = HFTAC_ROLE_METRIC,
                     .offset = offsetof(State, sum),
                     .model_bytes = sizeof(State),
                     .bytes = 8},
                    {.name = T(weight),
                     .shape = SCALAR(HFTAC_DT_F64),
                     .role = HFTAC_ROLE_METRIC,
                     .offset = offsetof(State, weight),
                     .model_bytes = sizeof(State),
                     .bytes = 8},
                },
            .outputs =
                {
                    {.name = T(y),
                     .shape = F32(N, 2),
                     .per_sample = 1,
                     .bytes = sizeof(float) * N * 2},
                    {.name = T(z),
                     .shape = F32(2, N * 2),
                     .batch_axis = 1,
                     .per_sample = 2,
                     .bytes = sizeof(float) * N * 4},
                    {.name = T(c), .shape = SCALAR(HFTAC_DT_F64), .batch_axis = -1, .bytes = 8},
                },
            .results =
                {
                    {.name = T(loss),
                     .kind = HFTAC_RESULT_VALUE,
                     .index = R_LOSS}, /* train: 0 to 4 */
                    {.name = T(ok), .kind = HFTAC_RESULT_OK, .index = R_OK},
                    FAULT(R_FAULT),
                    {.name = T(label),
                     .kind = HFTAC_RESULT_FAULT_VALUE,
                     .index = R_FAULT_VALUE},
                    {.name = T(schedule), .kind = HFTAC_RESULT_FACTOR, .index = R_FACTOR},
                    FAULT(R_FAULT), /* eval: 5, 6 */
                    {.name = T(label),
                     .kind = HFTAC_RESULT_FAULT_VALUE,
                     .index = R_FAULT_VALUE},
                    {.name = T(loss),
                     .kind = HFTAC_RESULT_VALUE,
                     .index = 0}, /* eval_end: 7, 8 */
                    {.name = T(count), .kind = HFTAC_RESULT_VALUE, .index = 1},
                },
            .entries =
                {
                    {.kind = HFTAC_ENTRY_INIT, .n_steps = 1},
                    {.kind = HFTAC_ENTRY_TRAIN,
                     .n_results = 5,
                     .first_step = 1,
                     .n_steps = 3,
                     .input_mask = MASK(1 << X | 1 << LABEL | 1 << NOISE)},
                    {.kind = HFTAC_ENTRY_EVAL,
                     .first_result = 5,
                     .n_results = 2,
                     .first_step = 4,
                     .n_steps = 1,
                     .input_mask = MASK(1 << LABEL)},
                    {.kind = HFTAC_ENTRY_EVAL_END,
                     .first_result = 7,
                     .n_results = 2,
                     .first_step = 5,
                     .n_steps = 1},
                    {.kind = HFTAC_ENTRY_PREDICT,
                     .first_step = 6,
                     .n_steps = 1,
                     .input_mask = MASK(1 << X | 1 << BIAS)},
                },
            .steps = {RUN(MODELS, F_INIT),
                      RUN(SHARED, F_SHARED),
                      {.kind = HFTAC_STEP_BARRIER},
                      RUN(MODELS, F_TRAIN),
                      RUN(MODELS, F_EVAL),
                      RUN(MODELS, F_EVAL_END),
                      RUN(MODELS, F_PREDICT)},
            .variants = {{.hi = B,
                          .n_states = N_STATES,
                          .n_entries = HFTAC_N_ENTRIES,
                          .state_bytes = BLOCK}},
            .codes = {{.march = T(march), .features = T(features), .n_addresses = N_FUNCTIONS}},
};

/* The functions' words, directly behind the block, and the note by which libhftac finds it.  The
 * note's hash is filled in after linking, by restamp (tests/unit/restamp.c). */
static_assert(sizeof(Block) % 8 == 0, "functions follow without a gap");
#define TEXT_OF(x)   #x
#define NUMBER_OF(x) TEXT_OF(x)
__asm__(
    ".pushsection .rodata.fake, 1\n" /* subsection 1: behind what the compiler puts into 0 */
    ".quad init_models - fake_block, shared_train - fake_block, train_models - fake_block\n"
    ".quad eval_models - fake_block, eval_end_models - fake_block\n"
    ".quad predict_models - fake_block\n"
    ".popsection\n"
    ".pushsection " HFTAC_NOTE_SECTION ",\"a\",@note\n"
    ".balign 4\n"
    ".long 6, 32, 1\n"
    ".asciz \"" HFTAC_NOTE_NAME "\"\n"
    ".balign 4\n"
    ".long " NUMBER_OF(FAKE_MAJOR) ", 0\n"
                                   ".quad fake_block - .\n"
                                   ".zero 16\n"
                                   ".popsection\n");
