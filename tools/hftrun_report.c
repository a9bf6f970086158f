/* What hftrun tells of a run that goes on: progress on stderr, logs in files. */
#include "tools/hftrun_report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/hftrun_json.h"

enum {
    PROBLEM_BYTES = 16384,
    N_STATES = HFTAC_MODEL_FAULT + 1
};

/* Seconds between two bars, and between two lines. */
static const double bar_interval = 0.1, line_interval = 2;

/* To the start of the line, which is erased. */
static const char erase_line[] = "\r\033[K";

const char *const split_text[N_SPLITS] = {"train", "valid", "test"};

double *report_cell(const Report *r, Split s, int model, int metric)
{
    return &r->metric[((int)s * r->about->models + model) * r->about->n_metrics + metric];
}

const char *report_state(const Report *r, int model)
{
    const char *const text[N_STATES] = {
        [HFTAC_MODEL_RUNNING] = r->ended ? r->ended : "running",
        [HFTAC_MODEL_STOPPED] = "stopped",
        [HFTAC_MODEL_DIVERGED] = "diverged",
        [HFTAC_MODEL_FAULT] = "bad data",
    };
    hftac_model_status s;
    check(hftac_read_model(r->a, model, &s));
    return text[s.state];
}

bool report_shows(const Report *r, int model)
{
    return r->o->only < 0 || r->o->only == model;
}

/* ---- Logs ---- */

void report_problem(Report *r, int code, const char *fmt, ...)
{
    char text[PROBLEM_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    report_quiet(r);
    fputs("hftrun: error: ", stderr);
    print_escaped(text, stderr);
    fputc('\n', stderr);
    if (!r->code)
        r->code = code;
}

int report_code(const Report *r)
{
    return r->code;
}

/* A log that cannot be written is given up; the run goes on without it. */
static void give_up_log(Report *r, FILE **log, const char *path)
{
    const int error = errno;
    fclose(*log);
    *log = NULL;
    report_problem(r, EXIT_FILE, "cannot write '%s': %s", path, strerror(error));
}

void report_log(Report *r, json_t *object)
{
    if (r->log &&
        (!json_print(object, JSON_COMPACT | JSON_REAL_PRECISION(9), r->log) || fflush(r->log)))
        give_up_log(r, &r->log, r->o->log);
    json_decref(object);
}

json_t *report_hypers(const Report *r, int model)
{
    json_t *object = json_object();
    for (int h = 0; h < r->h->n_hypers; h++)
        json_put_number(&object, hftac_describe_hyper(r->a, h)->name,
                        r->h->value[model * r->h->n_hypers + h]);
    return object;
}

static void log_header(Report *r, int argc, char **argv)
{
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:I}", "event", "start", "version",
                  hftac_version(), "model", r->about->name, "march", r->about->march, "models",
                  r->about->models, "seed", (json_int_t)r->o->seed);
    json_t *command = json_array(), *models = json_array();
    for (int i = 0; i < argc; i++)
        json_append(&command, json_text(argv[i]));
    for (int b = 0; b < r->about->models; b++) {
        uint64_t seed;
        check(hftac_get_seed(r->a, b, &seed));
        json_append(&models, json_pack("{s:i, s:I, s:o}", "model", b, "seed", (json_int_t)seed,
                                       "hypers", report_hypers(r, b)));
    }
    json_put(&object, "command", command);
    json_put(&object, "slots", models);
    report_log(r, object);
}

static FILE *open_log(const char *path)
{
    FILE *f = path ? fopen(path, "we") : NULL;
    if (path && !f)
        die(EXIT_FILE, "cannot write '%s': %s", path, strerror(errno));
    return f;
}

static void csv_row(Report *r, int64_t epoch, int model, const char *split, const char *metric,
                    double v)
{
    if (!r->csv)
        return;
    fprintf(r->csv, "%lld,%d,%s,%s,%.9g", (long long)epoch, model, split, metric, v);
    for (int h = 0; h < r->h->n_hypers; h++)
        fprintf(r->csv, ",%.9g", r->h->value[model * r->h->n_hypers + h]);
    if (fputc('\n', r->csv) == EOF || fflush(r->csv))
        give_up_log(r, &r->csv, r->o->csv);
}

Report *report_open(const Options *o, hftac_array *a, const HyperTable *h, int argc,
                    char **argv)
{
    Report *r = allocate(1, sizeof *r);
    *r = (Report){.o = o,
                  .a = a,
                  .h = h,
                  .about = hftac_describe(a),
                  .started = now(),
                  .progress = o->progress};
    if (r->progress == PROGRESS_AUTO)
        r->progress = isatty(STDERR_FILENO) ? PROGRESS_BAR : PROGRESS_PLAIN;
    const size_t n = (size_t)N_SPLITS * (size_t)r->about->models * (size_t)r->about->n_metrics;
    r->metric = allocate(n + 1, sizeof *r->metric);
    for (size_t i = 0; i < n; i++)
        r->metric[i] = NAN;
    r->log = open_log(o->log);
    r->csv = open_log(o->csv);
    if (r->log)
        log_header(r, argc, argv);
    if (r->csv) {
        fputs("epoch,model,split,metric,value", r->csv);
        for (int i = 0; i < h->n_hypers; i++)
            fprintf(r->csv, ",%s", hftac_describe_hyper(a, i)->name);
        if (fputc('\n', r->csv) == EOF || fflush(r->csv))
            give_up_log(r, &r->csv, o->csv);
    }
    if (r->code)
        exit(r->code); /* before any time is spent */
    return r;
}

void report_close(Report *r)
{
    if (!r)
        return;
    if (r->log)
        fclose(r->log); /* every line was flushed */
    if (r->csv)
        fclose(r->csv);
    free(r->metric);
    free(r);
}

/* ---- Progress ---- */

static int best_model(const Report *r, Split split, int metric, bool largest)
{
    int best = -1;
    for (int b = 0; b < r->about->models; b++) {
        const double v = *report_cell(r, split, b, metric);
        if (report_shows(r, b) && !isnan(v) &&
            (best < 0 || (largest ? v > *report_cell(r, split, best, metric)
                                  : v < *report_cell(r, split, best, metric))))
            best = b;
    }
    return best;
}

int report_loss(const Report *r)
{
    hftac_metric loss;
    if (hftac_find_metric(r->a, "loss", &loss))
        loss = -1;
    for (int m = 0; loss < 0 && m < r->about->n_metrics; m++)
        if (!hftac_describe_metric(r->a, m)->is_factor)
            return m;
    return loss;
}

static void count_states(const Report *r, int *n)
{
    hftac_model_status s;
    for (int b = 0; b < r->about->models; b++)
        if (!hftac_read_model(r->a, b, &s))
            n[s.state]++;
}

void report_progress(Report *r, const char *what, const hftac_progress *p, int64_t epochs)
{
    const double t = now();
    if (p->batch <= 1)
        r->pass_started = t;
    if (r->progress != PROGRESS_BAR || t - r->last_shown < bar_interval)
        return;
    const double rate = (double)p->samples * r->about->models /
                        (t > r->pass_started ? t - r->pass_started : 1e-9);
    const double took = t - r->started;
    const double done =
        (double)p->epoch + (double)p->batch / (double)(p->batches ? p->batches : 1);
    int n[N_STATES] = {0};
    count_states(r, n);
    const int loss = report_loss(r),
              best = loss < 0 ? -1 : best_model(r, SPLIT_TRAIN, loss, false);
    fprintf(stderr,
            "%s%s epoch %lld/%lld  step %lld/%lld  %.3g samples/s  eta %.0f s  running %d "
            "stopped %d diverged %d",
            erase_line, what, (long long)p->epoch + 1, (long long)epochs, (long long)p->batch,
            (long long)p->batches, rate, done > 0 ? took / done * ((double)epochs - done) : 0.0,
            n[HFTAC_MODEL_RUNNING], n[HFTAC_MODEL_STOPPED],
            n[HFTAC_MODEL_DIVERGED] + n[HFTAC_MODEL_FAULT]);
    if (best >= 0)
        fprintf(stderr, "  best %d loss %.4g", best, *report_cell(r, SPLIT_TRAIN, best, loss));
    fflush(stderr);
    r->last_shown = t;
    r->line_open = true;
}

void report_quiet(Report *r)
{
    if (r->line_open)
        fputs(erase_line, stderr);
    r->line_open = false;
}

static void log_metric(Report *r, int64_t epoch, int model, Split split, int metric)
{
    const char *name = hftac_describe_metric(r->a, metric)->name;
    const double v = *report_cell(r, split, model, metric);
    csv_row(r, epoch, model, split_text[split], name, v);
    if (!r->log)
        return;
    json_t *object = json_pack("{s:s, s:I, s:i}", "event", split_text[split], "epoch",
                               (json_int_t)epoch, "model", model);
    json_put(&object, "state", json_text(report_state(r, model)));
    json_put_number(&object, name, v);
    report_log(r, object);
}

void report_epoch(Report *r, int64_t epoch, double seconds, int64_t samples)
{
    for (int b = 0; b < r->about->models; b++)
        for (int m = 0; m < r->about->n_metrics; m++) {
            double v;
            if (!report_shows(r, b) || !hftac_describe_metric(r->a, m)->from_train ||
                hftac_read_epoch_metric(r->a, m, b, &v) || isnan(v))
                continue;
            *report_cell(r, SPLIT_TRAIN, b, m) = v;
            log_metric(r, epoch, b, SPLIT_TRAIN, m);
        }
    r->seen[SPLIT_TRAIN] = true;
    const double t = now();
    if (r->progress != PROGRESS_PLAIN || (t - r->last_shown < line_interval && epoch != 1))
        return;
    int n[N_STATES] = {0};
    count_states(r, n);
    const int loss = report_loss(r),
              best = loss < 0 ? -1 : best_model(r, SPLIT_TRAIN, loss, false);
    fprintf(stderr,
            "epoch %lld: %.0f samples/s over all models, running %d, stopped %d, diverged %d",
            (long long)epoch,
            (double)samples * r->about->models / (seconds > 0 ? seconds : 1e-9),
            n[HFTAC_MODEL_RUNNING], n[HFTAC_MODEL_STOPPED],
            n[HFTAC_MODEL_DIVERGED] + n[HFTAC_MODEL_FAULT]);
    if (best >= 0)
        fprintf(stderr, ", best model %d, loss %.4g", best,
                *report_cell(r, SPLIT_TRAIN, best, loss));
    fputc('\n', stderr);
    r->last_shown = t;
}

void report_evaluation(Report *r, Split split, int64_t epoch)
{
    r->seen[split] = true;
    for (int b = 0; b < r->about->models; b++)
        for (int m = 0; m < r->about->n_metrics; m++) {
            if (!report_shows(r, b) || !hftac_describe_metric(r->a, m)->from_evaluation)
                continue;
            check(hftac_read_metric(r->a, m, b, report_cell(r, split, b, m)));
            log_metric(r, epoch, b, split, m);
        }
}
