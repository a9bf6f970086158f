/* hftrun: trains, evaluates and asks the models inside a model.so. */
#include "tools/hftrun.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int exit_code(hftac_status status)
{
    static const int codes[] = {
        [HFTAC_USAGE] = EXIT_USAGE,
        [HFTAC_NOT_FOUND] = EXIT_INPUT,
        [HFTAC_DATA] = EXIT_INPUT,
        [HFTAC_FILE] = EXIT_FILE,
        [HFTAC_MODEL] = EXIT_INPUT,
        [HFTAC_CPU] = EXIT_MISSING,
        [HFTAC_DEVICE] = EXIT_MISSING,
        [HFTAC_MEMORY] = EXIT_FILE,
        [HFTAC_THREADS] = EXIT_FILE,
        [HFTAC_INTERRUPTED] = EXIT_FILE, /* is seen to where it is asked for */
    };
    return codes[status];
}

void check(hftac_status status)
{
    if (status)
        die(exit_code(status), "%s", hftac_last_error());
}

void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        die(EXIT_FILE, "out of memory");
    return p;
}

/* Opens twice where the lists say how many models there are: names and domains are known only
 * once it is open. */
static hftac_array *open_array(const Options *o, HyperTable *h)
{
    hftac_array *a;
    hftac_options ho = {
        .threads = o->threads, .models = o->models, .seed = o->seed, .device = o->device};
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

/* All data, opened before training: what is wrong with any of it is found then. */
typedef struct Sets {
    hftac_data *all, *train, *valid; /* --train, and what --valid splits off its end */
    hftac_data *test, *ask; /* ask: what --predict is for, one of the others or its own */
} Sets;

typedef struct Run {
    const Options *o;
    hftac_array *a;
    Report *report;
    Sets sets;
    int64_t epochs, steps; /* planned, done */
    const char *what;
} Run;

static int on_batch(void *context, const hftac_progress *p)
{
    Run *run = context;
    report_progress(run->report, run->what, p, run->epochs);
    return signals_asked();
}

static hftac_data *open_data(const Run *run, const char *path, hftac_purpose purpose)
{
    hftac_data *data;
    check(hftac_data_open(run->a, path, &(hftac_data_options){.purpose = purpose}, &data));
    return data;
}

static void open_training(const Run *run, Sets *s)
{
    s->train = s->all = open_data(run, run->o->train, HFTAC_FOR_TRAINING);
    if (!run->o->valid)
        return;
    char *end;
    const double part = strtod(run->o->valid, &end);
    if (*end || end == run->o->valid) {
        s->valid = open_data(run, run->o->valid, HFTAC_FOR_EVALUATION);
        return;
    }
    const int64_t n = hftac_data_samples(s->all), v = (int64_t)llround(part * (double)n);
    if (!(part > 0 && part < 1) || v < 1 || v >= n)
        die(EXIT_USAGE,
            "--valid %s leaves nothing to train on or to validate with (%lld samples)",
            run->o->valid, (long long)n);
    check(hftac_data_slice(s->all, n - v, v, &s->valid));
    check(hftac_data_slice(s->all, 0, n - v, &s->train));
}

static int first_batch(void *context, int64_t first, int64_t n_valid)
{
    (void)context;
    (void)first;
    (void)n_valid;
    return 1;
}

/* A program with outputs and no loss: all that its data can be for is prediction. */
static bool predicts_only(const hftac_array *a)
{
    const hftac_description *d = hftac_describe(a);
    return d->can_predict && !d->can_evaluate && !d->can_train;
}

static void open_sets(Run *run)
{
    const Options *o = run->o;
    Sets *s = &run->sets;
    const bool measures = !predicts_only(run->a);
    if (o->train && measures)
        open_training(run, s);
    if (o->test && measures)
        s->test = open_data(run, o->test, HFTAC_FOR_EVALUATION);
    if (s->valid)
        check(hftac_data_check(run->a, s->valid, HFTAC_FOR_EVALUATION));
    if (s->test)
        check(hftac_data_check(run->a, s->test, HFTAC_FOR_EVALUATION));
    if (!o->predict)
        return;
    s->ask = s->test ? s->test : s->all;
    if (!s->ask)
        s->ask = open_data(run, o->test ? o->test : o->train, HFTAC_FOR_PREDICTION);
    check(hftac_data_check(run->a, s->ask, HFTAC_FOR_PREDICTION));
    const hftac_status asked = hftac_predict(run->a, s->ask, first_batch, NULL);
    if (asked != HFTAC_INTERRUPTED)
        check(asked);
}

static void close_sets(Sets *s)
{
    if (s->ask != s->test && s->ask != s->all)
        hftac_data_close(s->ask);
    hftac_data_close(s->test);
    hftac_data_close(s->valid);
    if (s->train != s->all)
        hftac_data_close(s->train);
    hftac_data_close(s->all);
}

/* False after a signal or a failure, which is told and remembered: what was trained is still to be
 * saved. */
static bool went_on(Run *run, hftac_status status)
{
    if (status && status != HFTAC_INTERRUPTED)
        report_problem(run->report, exit_code(status), "%s", hftac_last_error());
    return status == HFTAC_OK;
}

/* epoch: the number of epochs done, for the report. */
static bool evaluate(Run *run, hftac_data *data, Split split, const char *what, int64_t epoch)
{
    const hftac_evaluate_options eo = {.callback = on_batch, .context = run};
    run->what = what;
    if (!went_on(run, hftac_evaluate(run->a, data, &eo, NULL)))
        return false;
    report_evaluation(run->report, split, epoch);
    return true;
}

static bool train_epoch(Run *run, bool *said)
{
    const Sets *s = &run->sets;
    const hftac_train_options to = {
        .shuffle = run->o->shuffle, .seed = run->o->seed, .callback = on_batch, .context = run};
    hftac_pass pass;
    const double start = now();
    run->what = "train";
    const hftac_status trained = hftac_train_epoch(run->a, s->train, &to, &pass);
    run->steps += pass.steps;
    if (!went_on(run, trained))
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
    return went_on(run, hftac_epoch_end(run->a, loss)) && went;
}

static void train(Run *run)
{
    check(hftac_set_plan(run->a, run->epochs, 0));
    for (int b = 0; run->o->only >= 0 && b < hftac_model_count(run->a); b++)
        if (b != run->o->only)
            check(hftac_stop_model(run->a, b));
    bool said = false;
    while (!signals_asked() && hftac_epoch(run->a) < run->epochs &&
           hftac_running_count(run->a) > 0)
        if (!train_epoch(run, &said))
            break;
    if (!run->steps && report_code(run->report))
        exit(report_code(run->report)); /* it could not even begin */
}

/* Models that were to be trained and were not replace nothing. */
static void save(Run *run)
{
    const Options *o = run->o;
    const int32_t only = o->only;
    if (o->train && !run->steps && run->epochs > 0 && signals_asked())
        return;
    went_on(run, only < 0 ? hftac_save(run->a, o->save)
                          : hftac_save_models(run->a, &only, 1, o->save));
}

static void load(const Options *o, hftac_array *a)
{
    struct stat st;
    const int32_t only = o->only;
    const bool one = only >= 0 && stat(o->load, &st) == 0 && S_ISDIR(st.st_mode);
    check(one ? hftac_load_models(a, &only, 1, o->load, NULL) : hftac_load(a, o->load, NULL));
}

static void check_task(const Options *o, const hftac_array *a)
{
    if (predicts_only(a) && !o->predict && (o->train || o->test))
        die(EXIT_USAGE,
            "%s has outputs and no loss: it can be asked, with --predict FILE, and neither "
            "trained nor tested",
            o->model);
    const hftac_description *d = hftac_describe(a);
    if (o->train && d->can_train && o->epochs < 0 && d->epochs == 0)
        die(EXIT_USAGE,
            "how many epochs? %s says none: give --epochs N, or write `epochs N` in the train "
            "section",
            o->model);
}

static bool has_parameters(const hftac_array *a)
{
    for (int p = 0; p < hftac_describe(a)->n_params; p++)
        if (hftac_describe_param(a, p)->role == HFTAC_PARAMETER)
            return true;
    return false;
}

/* Numbers of models as they begin look like any others. */
static void note_untrained(const Options *o, const hftac_array *a)
{
    if (!o->train && !o->load && (o->test || o->predict) && has_parameters(a))
        fprintf(stderr,
                "hftrun: warning: the models are neither trained nor loaded (--train, --load): "
                "what is shown are their initial values\n");
}

/* ... or met bad data. */
static bool all_diverged(const Run *run)
{
    hftac_model_status s;
    for (int b = 0; b < hftac_model_count(run->a); b++) {
        check(hftac_read_model(run->a, b, &s));
        if (s.state <= HFTAC_MODEL_STOPPED && (run->o->only < 0 || run->o->only == b))
            return false;
    }
    return true;
}

static int finish(Run *run)
{
    const Options *o = run->o;
    const bool measures = !predicts_only(run->a);
    if (measures && (o->train || o->test))
        report_table(run->report, signals_asked() ? "interrupted" : NULL);
    const int sig = signals_asked(), code = report_code(run->report);
    if (sig)
        return 128 + sig;
    return code ? code : run->sets.train && all_diverged(run) ? EXIT_DIVERGED : 0;
}

static int run_all(const Options *o, hftac_array *a, const HyperTable *h, int argc, char **argv)
{
    Run run = {
        .o = o, .a = a, .epochs = o->epochs >= 0 ? o->epochs : hftac_describe(a)->epochs};
    open_sets(&run);
    run.report = report_open(o, a, h, argc, argv);
    signals_defer();
    if (run.sets.train)
        train(&run);
    if (o->save)
        save(&run);
    if (run.sets.test && !signals_asked())
        evaluate(&run, run.sets.test, SPLIT_TEST, "test", hftac_epoch(a));
    if (run.sets.ask && !signals_asked())
        went_on(&run, hftac_predict_to_file(a, run.sets.ask, o->predict));
    const int code = finish(&run);
    report_close(run.report);
    close_sets(&run.sets);
    return code;
}

int main(int argc, char **argv)
{
    standard_files_open();
    signals_begin();
    Options o = hftrun_options_read(argc, argv);
    HyperTable h;
    hftac_array *a = open_array(&o, &h);
    if (o.info) {
        report_info(a, o.json);
        stdout_end();
    }
    check_task(&o, a);
    note_untrained(&o, a);
    table_check_sort(&o, a);
    outputs_try(&o);
    if (o.load)
        load(&o, a);
    if (o.perf_map)
        check(hftac_write_map(a, NULL));
    if (o.profile)
        check(hftac_profile(a, 1));
    const int code = run_all(&o, a, &h, argc, argv);
    if (o.profile)
        profile_print(a);
    hypers_free(&h);
    option_list_free(&o.specs);
    hftac_close(a);
    return code;
}
