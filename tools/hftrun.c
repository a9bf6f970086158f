/* hftrun: trains, evaluates and asks the models inside a model.so. */
#include "tools/hftrun.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t interrupted;

static const char help_text[] =
    "Usage: hftrun [options] model.so\n"
    "Trains, evaluates and asks the models that hftac compiled into model.so.\n"
    "\n"
    "  --train FILE          train on this data (safetensors: tensors named as the model's "
    "inputs)\n"
    "  --valid FILE          evaluate on this data after every epoch; a fraction (--valid 0.1) "
    "takes\n"
    "                        that part off the end of the training data\n"
    "  --test FILE           evaluate on this data at the end\n"
    "  --predict FILE        write the outputs for the test data (else training data) to FILE; "
    "all that\n"
    "                        a program without a loss can do\n"
    "  --epochs N            how often to go through the data (default: the program's)\n"
    "  --models K            use K of the array's models (default: as many as the lists have, "
    "else all)\n"
    "  --hyper NAME=LIST     a value for all models, or one for each: lr=1e-4,3e-4; or a range "
    "that is\n"
    "                        spread over the models: 'lr=log(1e-4..1e-1)', 'drop=(0..0.5)', "
    "'n=int(3..20)'\n"
    "  --grid                the product of the lists instead of one list beside the other\n"
    "  --hypers TABLE.csv    a header line of names, then one line of values per model\n"
    "  --seed N              orders the data and is the base of the models' seeds (default 0)\n"
    "  --seeds LIST          the models' own seeds (initial values, dropout) alone\n"
    "  --no-shuffle          take the data in the file's order\n"
    "  --shuffle=each        every model its own order (programs whose inputs are `each`)\n"
    "  --load FILE|DIR       start from saved parameters\n"
    "  --save DIR            save every model's parameters, and hypers.json\n"
    "  --log FILE            JSON lines       --csv FILE  one row per epoch, model and metric\n"
    "  --threads N           default: as many as there are CPUs\n"
    "  --only SLOT           train and show this model alone\n"
    "  --sort=NAME[:min|max] what the final table is ordered by (default: the loss)\n"
    "  --json                the final table, or --info, as JSON\n"
    "  --info                inputs, hyper-parameters, parameters, metrics, memory\n"
    "  --progress=auto|bar|plain|none\n"
    "  -q, --quiet           no warnings and no progress\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 ok, 1 errors in the data, 2 usage, 3 file or OS error, 4 CPU feature "
    "missing,\n"
    "5 every model diverged, 130 interrupted (what --save asked for is written first).\n";

_Noreturn void die(int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    fputs("hftrun: error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputs(code == EXIT_USAGE ? "\nTry 'hftrun --help'.\n" : "\n", stderr);
    va_end(ap);
    exit(code);
}

void check(hftac_status status)
{
    static const int codes[] = {
        [HFTAC_USAGE] = EXIT_USAGE,
        [HFTAC_NOT_FOUND] = EXIT_INPUT,
        [HFTAC_DATA] = EXIT_INPUT,
        [HFTAC_FILE] = EXIT_FILE,
        [HFTAC_MODEL] = EXIT_INPUT,
        [HFTAC_CPU] = EXIT_DEVICE,
        [HFTAC_MEMORY] = EXIT_FILE,
        [HFTAC_THREADS] = EXIT_FILE,
        [HFTAC_INTERRUPTED] = EXIT_INTERRUPTED,
    };
    if (status)
        die(codes[status], "%s", hftac_last_error());
}

void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        die(EXIT_FILE, "out of memory");
    return p;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

/* ---- Options ---- */

static int64_t parse_int(const char *text, const char *option, int64_t lo, int64_t hi)
{
    char *end;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < lo || v > hi)
        die(EXIT_USAGE, "%s needs a whole number from %lld to %lld, not '%s'", option,
            (long long)lo, (long long)hi, text);
    return v;
}

enum {
    OPT_TRAIN = 256,
    OPT_VALID,
    OPT_TEST,
    OPT_PREDICT,
    OPT_EPOCHS,
    OPT_MODELS,
    OPT_HYPER,
    OPT_GRID,
    OPT_HYPERS,
    OPT_SEED,
    OPT_SEEDS,
    OPT_NO_SHUFFLE,
    OPT_SHUFFLE,
    OPT_LOAD,
    OPT_SAVE,
    OPT_LOG,
    OPT_CSV,
    OPT_THREADS,
    OPT_ONLY,
    OPT_SORT,
    OPT_JSON,
    OPT_INFO,
    OPT_PROGRESS,
    OPT_HELP,
    OPT_VERSION,
    OPT_LATER
};

static const struct option long_options[] = {
    {"train", required_argument, NULL, OPT_TRAIN},
    {"valid", required_argument, NULL, OPT_VALID},
    {"test", required_argument, NULL, OPT_TEST},
    {"predict", required_argument, NULL, OPT_PREDICT},
    {"epochs", required_argument, NULL, OPT_EPOCHS},
    {"models", required_argument, NULL, OPT_MODELS},
    {"hyper", required_argument, NULL, OPT_HYPER},
    {"grid", no_argument, NULL, OPT_GRID},
    {"hypers", required_argument, NULL, OPT_HYPERS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"no-shuffle", no_argument, NULL, OPT_NO_SHUFFLE},
    {"shuffle", required_argument, NULL, OPT_SHUFFLE},
    {"load", required_argument, NULL, OPT_LOAD},
    {"save", required_argument, NULL, OPT_SAVE},
    {"log", required_argument, NULL, OPT_LOG},
    {"csv", required_argument, NULL, OPT_CSV},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"only", required_argument, NULL, OPT_ONLY},
    {"sort", required_argument, NULL, OPT_SORT},
    {"json", no_argument, NULL, OPT_JSON},
    {"info", no_argument, NULL, OPT_INFO},
    {"progress", required_argument, NULL, OPT_PROGRESS},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {"checkpoint", required_argument, NULL, OPT_LATER},
    {"checkpoint-every", required_argument, NULL, OPT_LATER},
    {"resume", no_argument, NULL, OPT_LATER},
    {"stop-patience", required_argument, NULL, OPT_LATER},
    {"keep", required_argument, NULL, OPT_LATER},
    {"profile", no_argument, NULL, OPT_LATER},
    {NULL, 0, NULL, 0},
};

static Progress parse_progress(const char *text)
{
    static const char *const names[] = {"auto", "bar", "plain", "none"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(text, names[i]))
            return (Progress)i;
    die(EXIT_USAGE, "--progress is auto, bar, plain or none, not '%s'", text);
}

static hftac_shuffle parse_shuffle(const char *text)
{
    if (!strcmp(text, "each"))
        return HFTAC_SHUFFLE_EACH;
    if (strcmp(text, "same"))
        die(EXIT_USAGE, "--shuffle is same or each, not '%s'", text);
    return HFTAC_SHUFFLE_SAME;
}

static uint64_t parse_seed(const char *text)
{
    char *end;
    errno = 0;
    const uint64_t v = strtoull(text, &end, 0);
    if (errno || end == text || *end || *text == '-')
        die(EXIT_USAGE, "--seed needs a whole number, not '%s'", text);
    return v;
}

static void parse_option(Options *o, int opt, const char *arg, const char *word)
{
    switch (opt) {
    case OPT_TRAIN:
        o->train = arg;
        break;
    case OPT_VALID:
        o->valid = arg;
        break;
    case OPT_TEST:
        o->test = arg;
        break;
    case OPT_PREDICT:
        o->predict = arg;
        break;
    case OPT_EPOCHS:
        o->epochs = parse_int(arg, "--epochs", 0, 1000000000);
        break;
    case OPT_MODELS:
        o->models = (int)parse_int(arg, "--models", 1, 1 << 20);
        break;
    case OPT_HYPER:
        if (o->n_specs == MAX_SPECS)
            die(EXIT_USAGE, "over %d times --hyper", MAX_SPECS);
        o->specs[o->n_specs++] = arg;
        break;
    case OPT_GRID:
        o->grid = true;
        break;
    case OPT_HYPERS:
        o->hypers_table = arg;
        break;
    case OPT_SEED:
        o->seed = parse_seed(arg);
        break;
    case OPT_SEEDS:
        o->seeds = arg;
        break;
    case OPT_NO_SHUFFLE:
        o->shuffle = HFTAC_SHUFFLE_NONE;
        break;
    case OPT_SHUFFLE:
        o->shuffle = parse_shuffle(arg);
        break;
    case OPT_LOAD:
        o->load = arg;
        break;
    case OPT_SAVE:
        o->save = arg;
        break;
    case OPT_LOG:
        o->log = arg;
        break;
    case OPT_CSV:
        o->csv = arg;
        break;
    case OPT_THREADS:
        o->threads = (int)parse_int(arg, "--threads", 1, 1024);
        break;
    case OPT_ONLY:
        o->only = (int)parse_int(arg, "--only", 0, 1 << 20);
        break;
    case OPT_SORT:
        o->sort = arg;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_INFO:
        o->info = true;
        break;
    case OPT_PROGRESS:
        o->progress = parse_progress(arg);
        break;
    case 'q':
        o->quiet = true;
        o->progress = PROGRESS_NONE;
        break;
    case OPT_HELP:
        fputs(help_text, stdout);
        exit(0);
    case OPT_VERSION:
        puts("hftrun " HFTAC_VERSION);
        exit(0);
    case OPT_LATER:
        die(EXIT_USAGE, "%s is not there yet", word);
    default:
        fputs("Try 'hftrun --help'.\n", stderr);
        exit(EXIT_USAGE);
    }
}

static Options parse_options(int argc, char **argv)
{
    Options o = {.epochs = -1, .only = -1};
    int index = 0;
    for (int opt; (opt = getopt_long(argc, argv, "q", long_options, &index)) != -1; index = 0)
        parse_option(&o, opt, optarg, opt == OPT_LATER ? long_options[index].name : "");
    if (optind >= argc)
        die(EXIT_USAGE, "no model.so");
    if (optind + 1 < argc)
        die(EXIT_USAGE, "one model.so, please; '%s' is a second", argv[optind + 1]);
    o.model = argv[optind];
    if (!o.info && !o.train && !o.test && !o.predict && !o.save)
        die(EXIT_USAGE, "nothing to do: give --train, --test, --predict, --save or --info");
    if (o.predict && !o.test && !o.train)
        die(EXIT_USAGE, "--predict needs data: give --test (or --train)");
    if (o.valid && !o.train)
        die(EXIT_USAGE, "--valid goes with --train");
    return o;
}

/* ---- Phases ---- */

/* Opens twice where the lists say how many models there are: names and domains are known only once it is open. */
static hftac_array *open_array(const Options *o, HyperTable *h)
{
    hftac_array *a;
    hftac_options ho = {.threads = o->threads, .models = o->models, .seed = o->seed};
    check(hftac_open(o->model, &ho, &a));
    const int wanted = hypers_count(o, a), capacity = hftac_describe(a)->capacity;
    const int n = o->models ? o->models : wanted > 1 ? wanted : capacity;
    if (n > capacity)
        die(EXIT_USAGE, "%d models are wanted, %s was compiled for %d", n, o->model, capacity);
    if (n != hftac_model_count(a)) {
        hftac_close(a);
        ho.models = n;
        check(hftac_open(o->model, &ho, &a));
    }
    if (o->only >= n)
        die(EXIT_USAGE, "--only %d: there are %d models, 0 to %d", o->only, n, n - 1);
    *h = hypers_read(o, a, n);
    hypers_apply(h, a, o->quiet);
    seeds_apply(o, a, n);
    return a;
}

typedef struct Run {
    const Options *o;
    hftac_array *a;
    Report *report;
    int64_t epochs;
    const char *what;
} Run;

static int on_batch(void *context, const hftac_progress *p)
{
    Run *run = context;
    report_progress(run->report, run->what, p, run->epochs);
    return interrupted;
}

/* Training data and, split off its end or from a file of its own, validation data. */
typedef struct Sets {
    hftac_data *all, *train, *valid;
} Sets;

static Sets open_sets(const Run *run)
{
    Sets s = {0};
    check(hftac_data_open(run->a, run->o->train, NULL, &s.all));
    s.train = s.all;
    if (!run->o->valid)
        return s;
    char *end;
    const double part = strtod(run->o->valid, &end);
    if (*end || end == run->o->valid) {
        const hftac_data_options eval = {.purpose = HFTAC_FOR_EVALUATION};
        check(hftac_data_open(run->a, run->o->valid, &eval, &s.valid));
        return s;
    }
    const int64_t n = hftac_data_samples(s.all), v = (int64_t)llround(part * (double)n);
    if (!(part > 0 && part < 1) || v < 1 || v >= n)
        die(EXIT_USAGE,
            "--valid %s leaves nothing to train on or to validate with (%lld samples)",
            run->o->valid, (long long)n);
    check(hftac_data_slice(s.all, n - v, v, &s.valid));
    check(hftac_data_slice(s.all, 0, n - v, &s.train));
    return s;
}

/* What will be asked for at the end is refused at the beginning. */
static void check_set(const Run *run, const char *path, hftac_purpose purpose)
{
    const hftac_data_options options = {.purpose = purpose};
    hftac_data *data;
    check(hftac_data_open(run->a, path, &options, &data));
    check(hftac_data_check(run->a, data, purpose));
    hftac_data_close(data);
}

static void check_sets(const Run *run, bool measures)
{
    const Options *o = run->o;
    if (o->test && measures && hftac_describe(run->a)->evaluate_whole)
        check_set(run, o->test, HFTAC_FOR_EVALUATION);
    if (o->predict && hftac_describe(run->a)->predict_whole)
        check_set(run, o->test ? o->test : o->train, HFTAC_FOR_PREDICTION);
}

static void close_sets(Sets *s)
{
    hftac_data_close(s->valid);
    if (s->train != s->all)
        hftac_data_close(s->train);
    hftac_data_close(s->all);
}

/* OK or, after Ctrl-C, false; other statuses end the program. */
static bool went_on(hftac_status status)
{
    if (status == HFTAC_INTERRUPTED)
        return false;
    check(status);
    return true;
}

/* epoch: the number of epochs done, for the report. */
static bool evaluate(Run *run, hftac_data *data, Split split, const char *what, int64_t epoch)
{
    const hftac_evaluate_options eo = {.callback = on_batch, .context = run};
    run->what = what;
    if (!went_on(hftac_evaluate(run->a, data, &eo, NULL)))
        return false;
    report_evaluation(run->report, split, epoch);
    return true;
}

static bool train_epoch(Run *run, const Sets *s, bool *said)
{
    const hftac_train_options to = {
        .shuffle = run->o->shuffle, .seed = run->o->seed, .callback = on_batch, .context = run};
    hftac_pass pass;
    const double start = now();
    run->what = "train";
    if (!went_on(hftac_train_epoch(run->a, s->train, &to, &pass)))
        return false;
    if (pass.dropped && !*said && !run->o->quiet) {
        report_quiet(run->report);
        fprintf(stderr,
                "hftrun: note: each epoch leaves out the last %lld samples, which fill no "
                "batch of %lld\n",
                (long long)pass.dropped, (long long)hftac_describe(run->a)->batch);
        *said = true;
    }
    report_epoch(run->report, hftac_epoch(run->a) + 1, now() - start, pass.samples);
    /* A schedule that follows a metric follows the loss, if it can that of the validation set. */
    const bool went =
        !s->valid || evaluate(run, s->valid, SPLIT_VALID, "validate", hftac_epoch(run->a) + 1);
    hftac_metric loss = HFTAC_NO_METRIC;
    if (hftac_find_metric(run->a, "loss", &loss))
        loss = HFTAC_NO_METRIC;
    check(hftac_epoch_end(run->a, loss));
    return went;
}

static void train(Run *run)
{
    Sets s = open_sets(run);
    if (s.valid)
        check(hftac_data_check(run->a, s.valid, HFTAC_FOR_EVALUATION));
    check(hftac_set_plan(run->a, run->epochs, 0));
    for (int b = 0; run->o->only >= 0 && b < hftac_model_count(run->a); b++)
        if (b != run->o->only)
            check(hftac_stop_model(run->a, b));
    bool said = false;
    while (!interrupted && hftac_epoch(run->a) < run->epochs && hftac_running_count(run->a) > 0)
        if (!train_epoch(run, &s, &said))
            break;
    close_sets(&s);
}

static void test(Run *run)
{
    const hftac_data_options eval = {.purpose = HFTAC_FOR_EVALUATION};
    hftac_data *data;
    check(hftac_data_open(run->a, run->o->test, &eval, &data));
    evaluate(run, data, SPLIT_TEST, "test", hftac_epoch(run->a));
    hftac_data_close(data);
}

static void predict(Run *run)
{
    const hftac_data_options predict = {.purpose = HFTAC_FOR_PREDICTION};
    hftac_data *data;
    check(
        hftac_data_open(run->a, run->o->test ? run->o->test : run->o->train, &predict, &data));
    check(hftac_predict_to_file(run->a, data, run->o->predict));
    hftac_data_close(data);
}

/* A program with outputs and no loss: all that its data can be for is prediction. */
static bool predicts_only(const hftac_array *a)
{
    const hftac_description *d = hftac_describe(a);
    return d->can_predict && !d->can_evaluate && !d->can_train;
}

static void check_task(const Options *o, const hftac_array *a)
{
    if (predicts_only(a) && !o->predict && (o->train || o->test))
        die(EXIT_USAGE,
            "%s has outputs and no loss: it can be asked, with --predict FILE, and neither "
            "trained nor tested",
            o->model);
}

static bool all_diverged(const Run *run)
{
    hftac_model_status s;
    for (int b = 0; b < hftac_model_count(run->a); b++) {
        check(hftac_read_model(run->a, b, &s));
        if (s.state != HFTAC_MODEL_DIVERGED && (run->o->only < 0 || run->o->only == b))
            return false;
    }
    return true;
}

static void check_sort(const Options *o, const hftac_array *a)
{
    if (!o->sort)
        return;
    char name[128];
    const char *colon = strrchr(o->sort, ':');
    hftac_metric m;
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - o->sort) : (int)strlen(o->sort),
             o->sort);
    if ((colon && strcmp(colon, ":min") && strcmp(colon, ":max")) ||
        hftac_find_metric(a, name, &m))
        die(EXIT_USAGE,
            "--sort needs NAME, NAME:min or NAME:max with a metric of the model, not '%s'",
            o->sort);
}

int main(int argc, char **argv)
{
    const Options o = parse_options(argc, argv);
    HyperTable h;
    hftac_array *a = open_array(&o, &h);
    if (o.info) {
        report_info(a, o.json);
        hypers_free(&h);
        hftac_close(a);
        return 0;
    }
    check_task(&o, a);
    check_sort(&o, a);
    if (o.load)
        check(hftac_load(a, o.load, NULL));
    const struct sigaction sa = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    Run run = {.o = &o,
               .a = a,
               .report = report_open(&o, a, &h, argc, argv),
               .epochs = o.epochs >= 0 ? o.epochs : hftac_describe(a)->epochs};
    const bool measures = !predicts_only(a);
    check_sets(&run, measures);
    if (o.train && measures)
        train(&run);
    if (o.test && measures && !interrupted)
        test(&run);
    if (o.save)
        check(hftac_save(a, o.save));
    if (o.predict && !interrupted)
        predict(&run);
    if (measures && (o.train || o.test))
        report_table(run.report, interrupted ? "interrupted" : NULL);
    report_close(run.report);
    const int code = interrupted                                 ? EXIT_INTERRUPTED
                     : o.train && measures && all_diverged(&run) ? EXIT_DIVERGED
                                                                 : 0;
    hypers_free(&h);
    hftac_close(a);
    return code;
}
