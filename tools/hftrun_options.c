/* hftrun's options: the table (tools/options.h says what its columns do) and what must hold
 * between them. */
#include "tools/hftrun.h"

#define STORED(field) STORED_IN(Options, field)

static const char data_group[] = "Data";
static const char training_group[] = "Training";
static const char sweep_group[] = "Hyper-parameters";
static const char parameters_group[] = "Parameters";
static const char report_group[] = "Reports";

static const Option rows[] = {
    {.name = "train",
     .kind = OPTION_FILE,
     STORED(train),
     .argument = "FILE",
     .help = "train on this data (safetensors: tensors named as the model's inputs)",
     .group = data_group},
    {.name = "valid",
     .kind = OPTION_FILE,
     STORED(valid),
     .argument = "FILE",
     .help =
         "evaluate on this data after every epoch; a fraction (--valid 0.1) takes that part "
         "off the end of the training data",
     .group = data_group},
    {.name = "test",
     .kind = OPTION_FILE,
     STORED(test),
     .argument = "FILE",
     .help = "evaluate on this data at the end",
     .group = data_group},
    {.name = "predict",
     .kind = OPTION_FILE,
     STORED(predict),
     .argument = "FILE",
     .help = "write the outputs for the test data (else training data) to FILE; all that a "
             "program without a loss can do",
     .group = data_group},
    {.name = "epochs",
     .kind = OPTION_NUMBER,
     .most = MAX_EPOCHS,
     STORED(epochs),
     .argument = "N",
     .help = "how often to go through the data (default: the program's)",
     .group = training_group},
    {.name = "models",
     .kind = OPTION_NUMBER,
     .least = 1,
     .most = MAX_MODELS,
     STORED(models),
     .argument = "K",
     .help = "use K of the array's models (default: as many as the lists have, else all)",
     .group = training_group},
    {.name = "only",
     .kind = OPTION_NUMBER,
     .most = MAX_MODELS,
     STORED(only),
     .argument = "SLOT",
     .help = "train and show this model alone",
     .group = training_group},
    {.name = "seed",
     .kind = OPTION_SEED,
     STORED(seed),
     .argument = "N",
     .help = "orders the data and is the base of the models' seeds (default 0)",
     .group = training_group},
    {.name = "seeds",
     .kind = OPTION_TEXT,
     STORED(seeds),
     .argument = "LIST",
     .help = "the models' own seeds (initial values, dropout) alone",
     .group = training_group},
    {.name = "no-shuffle",
     .kind = OPTION_VALUE,
     .value = HFTAC_SHUFFLE_NONE,
     STORED(shuffle),
     .help = "take the data in the file's order",
     .group = training_group},
    {.name = "shuffle",
     .kind = OPTION_CHOICE,
     .words = "same,none,each", /* as hftac_shuffle */
     STORED(shuffle),
     .help =
         "one order for all models, the file's order, or every model its own (programs whose "
         "inputs are `each`)",
     .group = training_group},
    {.name = "threads",
     .kind = OPTION_NUMBER,
     .least = 1,
     .most = MAX_THREADS,
     STORED(threads),
     .argument = "N",
     .help = "threads that train (default: as many as there are CPUs)",
     .group = training_group},
    {.name = "device",
     .kind = OPTION_TEXT,
     STORED(device),
     .argument = "NAME",
     .help = "where the models train: cpu (default), cuda, cuda:N",
     .group = training_group},
    {.name = "hyper",
     .kind = OPTION_LIST,
     .named = true,
     STORED(specs),
     .argument = "NAME=LIST",
     .help = "a value for all models, or one for each: lr=1e-4,3e-4; or a range that is spread "
             "over the models: 'lr=log(1e-4..1e-1)', 'drop=(0..0.5)', 'n=int(3..20)'; may be "
             "given for each of them",
     .group = sweep_group},
    {.name = "grid",
     .kind = OPTION_FLAG,
     STORED(grid),
     .help = "the product of the lists instead of one list beside the other",
     .group = sweep_group},
    {.name = "hypers",
     .kind = OPTION_FILE,
     STORED(hypers_table),
     .argument = "TABLE.csv",
     .help = "a header line of names, then one line of values per model",
     .group = sweep_group},
    {.name = "load",
     .kind = OPTION_FILE,
     STORED(load),
     .argument = "FILE|DIR",
     .help = "start from saved parameters",
     .group = parameters_group},
    {.name = "save",
     .kind = OPTION_FOLDER,
     STORED(save),
     .argument = "DIR",
     .help = "save every model's parameters, and hypers.json",
     .group = parameters_group},
    {.name = "log",
     .kind = OPTION_FILE,
     STORED(log),
     .argument = "FILE",
     .help = "JSON lines: one object per event",
     .group = report_group},
    {.name = "csv",
     .kind = OPTION_FILE,
     STORED(csv),
     .argument = "FILE",
     .help = "one row per epoch, model and metric",
     .group = report_group},
    {.name = "sort",
     .kind = OPTION_TEXT,
     STORED(sort),
     .argument = "NAME[:min|max]",
     .help = "what the final table is ordered by (default: the loss)",
     .group = report_group},
    {.name = "json",
     .kind = OPTION_FLAG,
     STORED(json),
     .help = "the final table, or --info, as JSON",
     .group = report_group},
    {.name = "info",
     .kind = OPTION_FLAG,
     STORED(info),
     .help = "inputs, hyper-parameters, parameters, metrics, memory",
     .group = report_group},
    {.name = "profile",
     .kind = OPTION_FLAG,
     STORED(profile),
     .help = "kernels one by one, on one thread, and at the end a table of their times",
     .group = report_group},
    {.name = "perf-map",
     .kind = OPTION_FLAG,
     STORED(perf_map),
     .help = "tell Linux' perf the names of the compiled functions (/tmp/perf-PID.map)",
     .group = report_group},
    {.name = "progress",
     .kind = OPTION_CHOICE,
     .words = "auto,bar,plain,none", /* as Progress */
     STORED(progress),
     .help =
         "a bar on a terminal, else a line per interval (auto); always one of them; or none",
     .group = report_group},
    {.name = "quiet",
     .letter = 'q',
     .kind = OPTION_FLAG,
     STORED(quiet),
     .help = "no warnings, and no progress unless --progress asks for it",
     .group = report_group},
    COMMON_OPTIONS,
    {.name = "checkpoint", .kind = OPTION_LATER, .argument = "DIR"},
    {.name = "checkpoint-every", .kind = OPTION_LATER, .argument = "N"},
    {.name = "resume", .kind = OPTION_LATER},
    {.name = "stop-patience", .kind = OPTION_LATER, .argument = "N"},
    {.name = "keep", .kind = OPTION_LATER, .argument = "last|best"},
};

static const ExitCode exit_codes[] = {
    {"0", "ok"},
    {"1", "errors in the data"},
    {"2", "usage"},
    {"3", "file or OS error"},
    {"4", "CPU feature missing"},
    {"5", "every model diverged or met bad data"},
    {"128 + signal", "interrupted"},
    {0},
};

static const char *const notes[] = {
    "Ctrl-C (130), SIGTERM, SIGHUP and a closed pipe end the run after the current step, and "
    "what "
    "--save asked for is written first; a second Ctrl-C ends it at once.",
    "Where --save, --log, --csv and --predict write is tried before training. --save replaces "
    "the "
    "model-NNN.safetensors and hypers.json in DIR as one: a run that is killed leaves the old "
    "set "
    "or the new one. If writing fails, the table is printed all the same.",
    "An option that has an argument is given once, --hyper once for each hyper-parameter; "
    "`--epochs 3` and `--epochs=3` are the same, and `--` ends the options.",
    NULL,
};

const OptionTable hftrun_table = {
    .name = "hftrun",
    .operand = "model.so",
    .operand_name = "model.so",
    .suffixes = "so",
    .summary = "Trains, evaluates and asks the models that hftac compiled into model.so.",
    .option = rows,
    .n_options = sizeof rows / sizeof rows[0],
    .exit_codes = exit_codes,
    .notes = notes,
};

Options hftrun_options_read(int argc, char **argv)
{
    Options o = {.epochs = -1, .only = -1};
    o.model = options_parse(&hftrun_table, argc, argv, &o);
    if (o.quiet && o.progress == PROGRESS_AUTO)
        o.progress = PROGRESS_NONE;
    if (!o.info && !o.train && !o.test && !o.predict && !o.save)
        die(EXIT_USAGE, "nothing to do: give --train, --test, --predict, --save or --info");
    if (o.predict && !o.test && !o.train)
        die(EXIT_USAGE, "--predict needs data: give --test (or --train)");
    if (o.valid && !o.train)
        die(EXIT_USAGE, "--valid goes with --train");
    return o;
}
