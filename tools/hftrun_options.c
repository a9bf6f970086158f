/* hftrun's options. */
#include "tools/hftrun.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

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
    "  --profile             kernels one by one, on one thread, and at the end a table of "
    "their "
    "times\n"
    "  --perf-map            tell Linux' perf the names of the compiled functions "
    "(/tmp/perf-PID.map)\n"
    "  --progress=auto|bar|plain|none\n"
    "  -q, --quiet           no warnings and no progress\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 ok, 1 errors in the data, 2 usage, 3 file or OS error, 4 CPU feature "
    "missing,\n"
    "5 every model diverged or met bad data, 128 + signal when interrupted: Ctrl-C (130), "
    "SIGTERM,\n"
    "SIGHUP and a closed pipe end the run after the current step, and what --save asked for is "
    "written\n"
    "first; a second Ctrl-C ends it at once.\n"
    "\n"
    "Where --save, --log, --csv and --predict write is tried before training. --save replaces "
    "the\n"
    "model-NNN.safetensors and hypers.json in DIR as one: a run that is killed leaves the old "
    "set or\n"
    "the new one. If writing fails, the table is printed all the same.\n";

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
    OPT_PROFILE,
    OPT_PERF_MAP,
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
    {"profile", no_argument, NULL, OPT_PROFILE},
    {"perf-map", no_argument, NULL, OPT_PERF_MAP},
    {"progress", required_argument, NULL, OPT_PROGRESS},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {"checkpoint", required_argument, NULL, OPT_LATER},
    {"checkpoint-every", required_argument, NULL, OPT_LATER},
    {"resume", no_argument, NULL, OPT_LATER},
    {"stop-patience", required_argument, NULL, OPT_LATER},
    {"keep", required_argument, NULL, OPT_LATER},
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
    case OPT_PROFILE:
        o->profile = true;
        break;
    case OPT_PERF_MAP:
        o->perf_map = true;
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
        stdout_end();
    case OPT_VERSION:
        puts("hftrun " HFTAC_VERSION);
        stdout_end();
    case OPT_LATER:
        die(EXIT_USAGE, "%s is not there yet", word);
    default:
        fputs("Try 'hftrun --help'.\n", stderr);
        exit(EXIT_USAGE);
    }
}

Options options_read(int argc, char **argv)
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
