/* A program may call its things what it likes: nothing depends on how a name is spelled.
 *
 * One program, with its names left open, is compiled again and again: each word that hftac uses
 * for something of its own (an entry point, a result, a state, a setting of the run) stands once
 * in every place where a program gives a name, and some pairs of names make a path that is just
 * what a state of hftac's is called.  Every one of these programs must train bit for bit like the
 * one with plain names, state by state, metric by metric, output by output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

enum {
    MODELS = 2,
    SAMPLES = 2,
    FEATURES = 4,
    CLASSES = 3,
    EPOCHS = 3,
    BATCHES = 4
};

/* What the program names; in its text '@' and this letter. */
enum {
    OUTER = 'a', /* a layer of the model */
    INNER,       /* a layer in it */
    PARAMETER,   /* of the inner one */
    BUFFER,      /* of the inner one */
    FACTOR,      /* a parameter of the model */
    LOSS,        /* what is minimized */
    METRIC,
    HYPER,
    OUTPUT,
    INPUT,
    MOMENT, /* a state of the optimizer */
    BEST,   /* a state of the schedule */
    TARGET,
    SCALE, /* a parameter of the outer layer */
    CALLS, /* an i64[] of the outer layer */
    END
};
enum {
    N_SLOTS = END - 'a'
};

static const char head[] = "hdl 1\n"
                           "hyper @h = 0.05\n"
                           "optimizer Opt(lr, decay) on (p, g) {\n"
                           "  state @k = 0\n"
                           "  @k := decay * @k + g\n"
                           "  return p - lr * @k\n"
                           "}\n"
                           "schedule Plateau(decay) {\n"
                           "  state @l : f64[] = 1\n"
                           "  fresh = epoch_metric()\n"
                           "  @l := where(fresh == fresh, @l * decay, @l)\n"
                           "  return @l\n"
                           "}\n"
                           "block Inner on (x: [N, C]) -> [N, C] {\n"
                           "  @c = Param([C], init = ones)\n"
                           "  state @d : f32[C] = 0\n"
                           "  if training { @d := 0.5 * @d + mean(x, 0) }\n"
                           "  return x * @c\n"
                           "}\n"
                           "block Outer on (x: [N, C]) -> [N, C] {\n"
                           "  @b = Inner()\n"
                           "  @n = Param([C], init = ones)\n"
                           "  state @o : i64[] = 0\n"
                           "  if training { @o := @o + 1 }\n"
                           "  return tanh(@b(x) * @n)\n"
                           "}\n"
                           "model M {\n"
                           "  input @j : f32[N, 4]\n"
                           "  target @m : i64[N]\n"
                           "  @a = Outer()\n"
                           "  @e = Param([4], init = ones)\n"
                           "  last = Linear(3)\n"
                           "  z = last(@a(@j) * @e)\n"
                           "  @f = cross_entropy(z, @m)\n"
                           "  metric @g = exp(avg(@f))\n"
                           "  output @i = softmax(z)\n";
static const char *const tails[] = {
    "  loss @f\n"
    "}\n"
    "train {\n"
    "  batch N = 2\n"
    "  epochs 3\n"
    "  accumulate 2\n"
    "  optimizer Opt(@h, 0.5)\n"
    "  schedule Plateau(0.5)\n"
    "}\n",
    "}\n"
    "train {\n"
    "  batch N = 2\n"
    "  epochs 3\n"
    "  accumulate 2\n"
    "  update @a minimize @f with Opt(@h, 0.5) schedule Plateau(0.5)\n"
    "  update last minimize @f with Adam(@h)\n"
    "}\n"};
enum {
    N_TAILS = sizeof tails / sizeof *tails,
    WITH_LOSS = 0
};

static const char *const words[] = {"accumulate", "ok",     "schedule",        "step",
                                    "loss",       "metric", "train",           "init",
                                    "lr",         "eval",   "eval_end",        "predict",
                                    "count",      "weight", "exp_avg",         "index",
                                    "epoch",      "epochs", "n_valid",         "optimizer",
                                    "next",       "params", "steps_per_epoch", "cause"};
enum {
    N_WORDS = sizeof words / sizeof *words
};

/* The names by slot that make a path such as hftac has for its own states; NULL: the plain one. */
static const char *const paths[][N_SLOTS] = {
    /* "accumulate.<parameter>": the average of its gradients. */
    {[OUTER - 'a'] = "accumulate", [SCALE - 'a'] = "w", [FACTOR - 'a'] = "w"},
    {[OUTER - 'a'] = "accumulate", [CALLS - 'a'] = "count"},
    /* "optimizer.<state>.<parameter>", and the same of the clauses. */
    {[OUTER - 'a'] = "optimizer",
     [INNER - 'a'] = "m",
     [PARAMETER - 'a'] = "w",
     [MOMENT - 'a'] = "m",
     [FACTOR - 'a'] = "w"},
    /* "<layer>.<layer>.<parameter>" ends like the name of another parameter. */
    {[OUTER - 'a'] = "w", [INNER - 'a'] = "w", [PARAMETER - 'a'] = "w", [FACTOR - 'a'] = "v"},
    {[OUTER - 'a'] = "schedule", [SCALE - 'a'] = "metric", [CALLS - 'a'] = "best"},
    {[BEST - 'a'] = "metric"},
    {[OUTER - 'a'] = "metric", [INNER - 'a'] = "loss", [PARAMETER - 'a'] = "sum"},
    {[OUTER - 'a'] = "metric",
     [INNER - 'a'] = "ok",
     [BUFFER - 'a'] = "weight",
     [METRIC - 'a'] = "ok"},
};
enum {
    N_PATHS = sizeof paths / sizeof *paths
};

static int failures;

/* Names with which it would be another program, by the rules of the language. */
static bool is_another_program(int slot, const char *word, int tail)
{
    if (slot == MOMENT && !strcmp(word, "lr"))
        return true; /* hides the optimizer's own lr */
    return slot == METRIC && !strcmp(word, "loss") && tail == WITH_LOSS; /* two of one name */
}

static void write_program(Source *s, const char *const *name, int tail)
{
    const char *parts[] = {head, tails[tail]};
    *s = (Source){0};
    for (int i = 0; i < 2; i++)
        for (const char *p = parts[i]; *p; p++)
            if (*p == '@')
                add(s, "%s", name[*++p - 'a']);
            else
                add(s, "%c", *p);
}

static void set_params(hftac_array *a)
{
    int place = 0;
    for (int i = 0; i < hftac_describe(a)->n_params; i++) {
        const hftac_param_description *d = hftac_describe_param(a, i);
        float v[64];
        if (d->role != HFTAC_PARAMETER)
            continue;
        for (int b = 0; b < MODELS; b++) {
            for (size_t k = 0; k < d->bytes / sizeof *v; k++)
                v[k] = (float)(++place * 37 % 64 - 32) / 40;
            must(hftac_set_param(a, i, b, v, d->bytes));
        }
    }
}

static void feed_batch(hftac_array *a, const char *const *name, int number)
{
    float x[SAMPLES * FEATURES];
    int64_t label[SAMPLES];
    hftac_input in;
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)((number * 31 + i * 17) % 29 - 14) / 9;
    for (int i = 0; i < SAMPLES; i++)
        label[i] = (number + 2 * i) % CLASSES;
    must(hftac_find_input(a, name[INPUT - 'a'], &in));
    must(hftac_feed(a, in, x, SAMPLES));
    must(hftac_find_input(a, name[TARGET - 'a'], &in));
    must(hftac_feed(a, in, label, SAMPLES));
}

/* The metric is what every epoch ends with, so that the schedule has something to follow. */
static void train(hftac_array *a, const char *const *name)
{
    hftac_metric metric;
    set_params(a);
    must(hftac_find_metric(a, name[METRIC - 'a'], &metric));
    for (int e = 0; e < EPOCHS; e++) {
        for (int t = 0; t < BATCHES; t++) {
            feed_batch(a, name, e * BATCHES + t);
            must(hftac_train_step(a));
        }
        must(hftac_evaluate_begin(a, 0));
        feed_batch(a, name, e);
        must(hftac_evaluate_step(a, SAMPLES));
        must(hftac_evaluate_end(a));
        must(hftac_epoch_end(a, metric));
    }
    feed_batch(a, name, 1);
    must(hftac_predict_step(a, SAMPLES));
}

static void expect_same(const char *what, const char *which, const void *x, const void *y,
                        size_t bytes)
{
    if (!memcmp(x, y, bytes))
        return;
    printf("FAILED: %s: %s is another one\n", what, which);
    failures++;
}

/* States stand in the order in which the program makes them, whatever they are called. */
static void compare_states(const char *what, hftac_array *plain, hftac_array *a)
{
    for (int i = 0; i < hftac_describe(a)->n_params; i++) {
        const hftac_param_description *d = hftac_describe_param(a, i);
        unsigned char x[256], y[256];
        for (int b = 0; b < MODELS && d->bytes <= sizeof x; b++) {
            must(hftac_get_param(plain, i, b, x, d->bytes));
            must(hftac_get_param(a, i, b, y, d->bytes));
            expect_same(what, d->name, x, y, d->bytes);
        }
    }
}

static void compare_kinds(const char *what, const hftac_metric_description *x,
                          const hftac_metric_description *y)
{
    if (x->is_factor == y->is_factor && x->is_loss == y->is_loss &&
        x->from_train == y->from_train && x->from_evaluation == y->from_evaluation)
        return;
    printf("FAILED: %s: %s is a result of another kind\n", what, y->name);
    failures++;
}

static void compare_results(const char *what, hftac_array *plain, hftac_array *a)
{
    for (int i = 0; i < hftac_describe(a)->n_metrics; i++)
        for (int b = 0; b < MODELS; b++) {
            double x, y;
            must(hftac_read_metric(plain, i, b, &x));
            must(hftac_read_metric(a, i, b, &y));
            expect_same(what, hftac_describe_metric(a, i)->name, &x, &y, sizeof x);
            compare_kinds(what, hftac_describe_metric(plain, i), hftac_describe_metric(a, i));
        }
    for (int b = 0; b < MODELS; b++) {
        const void *x, *y;
        must(hftac_read_output(plain, 0, b, &x));
        must(hftac_read_output(a, 0, b, &y));
        expect_same(what, "the output", x, y, SAMPLES * CLASSES * sizeof(float));
    }
}

/* By the plain names: what is what. */
static void check_plain(hftac_array *a, const char *loss, const char *metric)
{
    hftac_metric m;
    must(hftac_find_metric(a, loss, &m));
    const hftac_metric_description *d = hftac_describe_metric(a, m);
    if (!d->is_loss || d->is_factor || !d->from_train || !d->from_evaluation) {
        printf("FAILED: %s is no loss\n", loss);
        failures++;
    }
    must(hftac_find_metric(a, metric, &m));
    if (hftac_describe_metric(a, m)->is_loss) {
        printf("FAILED: %s is a loss\n", metric);
        failures++;
    }
}

static hftac_array *run(const char *const *name, int tail)
{
    static const char *const options[] = {"-O0", NULL};
    static Source s;
    write_program(&s, name, tail);
    hftac_array *a = compile_text_options(s.text, MODELS, options);
    if (!a) {
        printf("%s\n", s.text);
        exit(1);
    }
    train(a, name);
    return a;
}

static void compare(const char *what, hftac_array *plain, const char *const *name, int tail)
{
    hftac_array *a = run(name, tail);
    const hftac_description *x = hftac_describe(plain), *y = hftac_describe(a);
    if (x->n_params != y->n_params || x->n_metrics != y->n_metrics) {
        printf("FAILED: %s: %d states and %d metrics, not %d and %d\n", what, y->n_params,
               y->n_metrics, x->n_params, x->n_metrics);
        failures++;
    } else {
        compare_states(what, plain, a);
        compare_results(what, plain, a);
    }
    hftac_close(a);
}

static void check_words(hftac_array *plain, const char *const *plain_names, int tail)
{
    for (int v = 0; v < N_WORDS; v++) {
        const char *name[N_SLOTS];
        for (int s = 0; s < N_SLOTS; s++) {
            const char *word = words[(v + s) % N_WORDS];
            name[s] = is_another_program('a' + s, word, tail) ? plain_names[s] : word;
        }
        compare(name[0], plain, name, tail);
    }
}

static void check_paths(hftac_array *plain, const char *const *plain_names, int tail)
{
    for (int v = 0; v < N_PATHS; v++) {
        const char *name[N_SLOTS];
        for (int s = 0; s < N_SLOTS; s++)
            name[s] = paths[v][s] ? paths[v][s] : plain_names[s];
        compare(name[0], plain, name, tail);
    }
}

/* What is wrong with an index that no input gave is not said of an input called `index`. */
static void check_fault(void)
{
    static const char text[] = "hdl 1\n"
                               "model M {\n"
                               "  input index : i64[N]\n"
                               "  w = Param([4, 2], init = ones)\n"
                               "  z = embedding(index + 0, w)\n"
                               "  loss mean(z)\n"
                               "}\n"
                               "train { batch N = 2; optimizer SGD(0.1) }\n";
    const int64_t bad[] = {0, 9};
    hftac_input in;
    hftac_model_status status;
    hftac_array *a = compile_text(text, 1);
    if (!a)
        exit(1);
    must(hftac_find_input(a, "index", &in));
    must(hftac_feed(a, in, bad, 2));
    must(hftac_train_step(a));
    must(hftac_read_model(a, 0, &status));
    if (status.input || !strstr(status.text, "an index is 9")) {
        printf("FAILED: a computed index: %s\n", status.text);
        failures++;
    }
    hftac_close(a);
}

int main(int argc, char **argv)
{
    static const char *const plain_names[N_SLOTS] = {"na", "nb", "nc", "nd", "ne",
                                                     "nf", "ng", "nh", "ni", "nj",
                                                     "nk", "nl", "nm", "nn", "no"};
    (void)argc;
    check_begin(argv[0]);
    for (int tail = 0; tail < N_TAILS; tail++) {
        hftac_array *plain = run(plain_names, tail);
        check_plain(plain, tail == WITH_LOSS ? "loss" : plain_names[LOSS - 'a'],
                    plain_names[METRIC - 'a']);
        check_words(plain, plain_names, tail);
        check_paths(plain, plain_names, tail);
        hftac_close(plain);
    }
    check_fault();
    check_end();
    printf("%s\n", failures ? "FAILED" : "all names are alike");
    return failures ? 1 : 0;
}
