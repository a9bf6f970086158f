/* What hftrun tells: progress on stderr, logs in files, the table on stdout. */
#include "tools/hftrun.h"
#include "tools/hftrun_json.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PROBLEM_BYTES = 16384
};

struct Report {
    const Options *o;
    hftac_array *a;
    const HyperTable *h;
    const hftac_description *about;
    FILE *log, *csv;
    double *metric; /* [N_SPLITS][models][n_metrics], NaN: not known */
    bool seen[N_SPLITS];
    double started, pass_started, last_shown;
    Progress progress;
    bool line_open;    /* the bar stands on the current line */
    int code;          /* of the first problem */
    const char *ended; /* what the models are that still ran at the end; NULL before it */
};

static const char *const split_text[N_SPLITS] = {"train", "valid", "test"};

static double *cell(const Report *r, Split s, int model, int metric)
{
    return &r->metric[((int)s * r->about->models + model) * r->about->n_metrics + metric];
}

static const char *state_text(const Report *r, int model)
{
    const char *const text[] = {r->ended ? r->ended : "running", "stopped", "diverged",
                                "bad data"};
    hftac_model_status s;
    check(hftac_read_model(r->a, model, &s));
    return text[s.state];
}

static bool shown_model(const Report *r, int model)
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

static void log_line(Report *r, json_t *object)
{
    if (r->log &&
        (!json_print(object, JSON_COMPACT | JSON_REAL_PRECISION(9), r->log) || fflush(r->log)))
        give_up_log(r, &r->log, r->o->log);
    json_decref(object);
}

static json_t *hypers_json(const Report *r, int model)
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
                                       "hypers", hypers_json(r, b)));
    }
    json_put(&object, "command", command);
    json_put(&object, "slots", models);
    log_line(r, object);
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
        const double v = *cell(r, split, b, metric);
        if (shown_model(r, b) && !isnan(v) &&
            (best < 0 ||
             (largest ? v > *cell(r, split, best, metric) : v < *cell(r, split, best, metric))))
            best = b;
    }
    return best;
}

static int find_metric(const Report *r, const char *name)
{
    hftac_metric m;
    return hftac_find_metric(r->a, name, &m) ? -1 : m;
}

static int loss_metric(const Report *r)
{
    const int loss = find_metric(r, "loss");
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
    if (r->progress != PROGRESS_BAR || t - r->last_shown < 0.1)
        return;
    const double rate = (double)p->samples * r->about->models /
                        (t > r->pass_started ? t - r->pass_started : 1e-9);
    const double took = t - r->started;
    const double done =
        (double)p->epoch + (double)p->batch / (double)(p->batches ? p->batches : 1);
    int n[4] = {0};
    count_states(r, n);
    const int loss = loss_metric(r),
              best = loss < 0 ? -1 : best_model(r, SPLIT_TRAIN, loss, false);
    fprintf(
        stderr,
        "\r\033[K%s epoch %lld/%lld  step %lld/%lld  %.3g samples/s  eta %.0f s  running %d "
        "stopped %d diverged %d",
        what, (long long)p->epoch + 1, (long long)epochs, (long long)p->batch,
        (long long)p->batches, rate, done > 0 ? took / done * ((double)epochs - done) : 0.0,
        n[0], n[1], n[2] + n[3]);
    if (best >= 0)
        fprintf(stderr, "  best %d loss %.4g", best, *cell(r, SPLIT_TRAIN, best, loss));
    fflush(stderr);
    r->last_shown = t;
    r->line_open = true;
}

void report_quiet(Report *r)
{
    if (r->line_open)
        fputs("\r\033[K", stderr);
    r->line_open = false;
}

static void log_metric(Report *r, int64_t epoch, int model, Split split, int metric)
{
    const char *name = hftac_describe_metric(r->a, metric)->name;
    const double v = *cell(r, split, model, metric);
    csv_row(r, epoch, model, split_text[split], name, v);
    if (!r->log)
        return;
    json_t *object = json_pack("{s:s, s:I, s:i}", "event", split_text[split], "epoch",
                               (json_int_t)epoch, "model", model);
    json_put(&object, "state", json_text(state_text(r, model)));
    json_put_number(&object, name, v);
    log_line(r, object);
}

void report_epoch(Report *r, int64_t epoch, double seconds, int64_t samples)
{
    for (int b = 0; b < r->about->models; b++)
        for (int m = 0; m < r->about->n_metrics; m++) {
            double v;
            if (!shown_model(r, b) || !hftac_describe_metric(r->a, m)->from_train ||
                hftac_read_epoch_metric(r->a, m, b, &v) || isnan(v))
                continue;
            *cell(r, SPLIT_TRAIN, b, m) = v;
            log_metric(r, epoch, b, SPLIT_TRAIN, m);
        }
    r->seen[SPLIT_TRAIN] = true;
    const double t = now();
    if (r->progress != PROGRESS_PLAIN || (t - r->last_shown < 2 && epoch != 1))
        return;
    int n[4] = {0};
    count_states(r, n);
    const int loss = loss_metric(r),
              best = loss < 0 ? -1 : best_model(r, SPLIT_TRAIN, loss, false);
    fprintf(stderr,
            "epoch %lld: %.0f samples/s over all models, running %d, stopped %d, diverged %d",
            (long long)epoch,
            (double)samples * r->about->models / (seconds > 0 ? seconds : 1e-9), n[0], n[1],
            n[2] + n[3]);
    if (best >= 0)
        fprintf(stderr, ", best model %d, loss %.4g", best, *cell(r, SPLIT_TRAIN, best, loss));
    fputc('\n', stderr);
    r->last_shown = t;
}

void report_evaluation(Report *r, Split split, int64_t epoch)
{
    r->seen[split] = true;
    for (int b = 0; b < r->about->models; b++)
        for (int m = 0; m < r->about->n_metrics; m++) {
            if (!shown_model(r, b) || !hftac_describe_metric(r->a, m)->from_evaluation)
                continue;
            check(hftac_read_metric(r->a, m, b, cell(r, split, b, m)));
            log_metric(r, epoch, b, split, m);
        }
}

/* ---- The table ---- */

/* --sort=NAME:min|max, else by loss; on test, else validation, else train. */
typedef struct Order {
    Split split;
    int metric;
    bool largest;
} Order;

static Order table_order(const Report *r)
{
    Order k = {.split = r->seen[SPLIT_TEST]    ? SPLIT_TEST
                        : r->seen[SPLIT_VALID] ? SPLIT_VALID
                                               : SPLIT_TRAIN,
               .metric = loss_metric(r)};
    if (r->o->sort) {
        char name[128];
        const char *colon = strrchr(r->o->sort, ':');
        snprintf(name, sizeof name, "%.*s",
                 colon ? (int)(colon - r->o->sort) : (int)strlen(r->o->sort), r->o->sort);
        k.metric = find_metric(r, name);
        k.largest = colon ? !strcmp(colon, ":max") : strcmp(name, "loss") != 0;
    }
    return k;
}

typedef struct Ranked {
    int model;
    bool bad;
    double value; /* the smallest comes first */
} Ranked;

/* Models that diverged come last, then NaN, then worse before better. */
static int by_rank(const void *one, const void *other)
{
    const Ranked *a = one, *b = other;
    const bool nan_a = isnan(a->value), nan_b = isnan(b->value);
    if (a->bad != b->bad)
        return a->bad ? 1 : -1;
    if (nan_a != nan_b)
        return nan_a ? 1 : -1;
    if (!nan_a && a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return (a->model > b->model) - (a->model < b->model);
}

static Ranked rank_of(const Report *r, const Order *k, int model)
{
    hftac_model_status status;
    check(hftac_read_model(r->a, model, &status));
    Ranked v = {.model = model, .bad = status.state > HFTAC_MODEL_STOPPED};
    if (k->metric >= 0)
        v.value = *cell(r, k->split, model, k->metric) * (k->largest ? -1 : 1);
    return v;
}

static int *ranked_models(const Report *r, int *n)
{
    const Order k = table_order(r);
    Ranked *sorted = allocate((size_t)r->about->models, sizeof *sorted);
    int *rank = allocate((size_t)r->about->models, sizeof *rank);
    *n = 0;
    for (int b = 0; b < r->about->models; b++)
        if (shown_model(r, b))
            sorted[(*n)++] = rank_of(r, &k, b);
    qsort(sorted, (size_t)*n, sizeof *sorted, by_rank);
    for (int i = 0; i < *n; i++)
        rank[i] = sorted[i].model;
    free(sorted);
    return rank;
}

static bool metric_shown(const Report *r, Split s, int m)
{
    const hftac_metric_description *d = hftac_describe_metric(r->a, m);
    return r->seen[s] && !d->is_factor &&
           (s == SPLIT_TRAIN ? d->from_train : d->from_evaluation);
}

/* Hypers that were given or differ between models; all of them where none was. */
static bool hyper_shown(const Report *r, int h)
{
    bool any = false;
    for (int i = 0; i < r->h->n_hypers; i++)
        any |= r->h->given[i];
    return !any || r->h->given[h];
}

static void table_json(Report *r, const int *rank, int n)
{
    json_t *rows = json_array();
    for (int i = 0; i < n; i++) {
        const int b = rank[i];
        json_t *row = json_pack("{s:i, s:s, s:o}", "model", b, "state", state_text(r, b),
                                "hypers", hypers_json(r, b));
        for (int s = 0; s < N_SPLITS; s++) {
            json_t *values = json_object();
            for (int m = 0; m < r->about->n_metrics; m++)
                if (metric_shown(r, (Split)s, m))
                    json_put_number(&values, hftac_describe_metric(r->a, m)->name,
                                    *cell(r, (Split)s, b, m));
            if (r->seen[s])
                json_put(&row, split_text[s], values);
            else
                json_decref(values);
        }
        json_append(&rows, row);
    }
    if (!json_print(rows, JSON_INDENT(1) | JSON_REAL_PRECISION(9), stdout))
        report_problem(r, EXIT_FILE, "cannot write to standard output: %s", strerror(errno));
    json_decref(rows);
}

static void table_text(Report *r, const int *rank, int n)
{
    printf("%5s", "model");
    for (int h = 0; h < r->h->n_hypers; h++)
        if (hyper_shown(r, h))
            printf("  %10s", hftac_describe_hyper(r->a, h)->name);
    for (int s = 0; s < N_SPLITS; s++)
        for (int m = 0; m < r->about->n_metrics; m++)
            if (metric_shown(r, (Split)s, m)) {
                char head[64];
                snprintf(head, sizeof head, "%s %s", split_text[s],
                         hftac_describe_metric(r->a, m)->name);
                printf("  %12s", head);
            }
    printf("  state\n");
    for (int i = 0; i < n; i++) {
        const int b = rank[i];
        printf("%5d", b);
        for (int h = 0; h < r->h->n_hypers; h++)
            if (hyper_shown(r, h))
                printf("  %10.6g", r->h->value[b * r->h->n_hypers + h]);
        for (int s = 0; s < N_SPLITS; s++)
            for (int m = 0; m < r->about->n_metrics; m++)
                if (metric_shown(r, (Split)s, m))
                    printf("  %12.6g", *cell(r, (Split)s, b, m));
        printf("  %s\n", state_text(r, b));
    }
}

void report_table(Report *r, const char *interrupted)
{
    report_quiet(r);
    r->ended = interrupted ? interrupted : "done";
    int n;
    int *rank = ranked_models(r, &n);
    (r->o->json ? table_json : table_text)(r, rank, n);
    hftac_model_status s;
    for (int b = 0; b < r->about->models; b++)
        if (shown_model(r, b) && !hftac_read_model(r->a, b, &s) &&
            s.state > HFTAC_MODEL_STOPPED)
            fprintf(stderr, "hftrun: %s\n", s.text);
    json_t *object = json_pack("{s:s, s:f}", "event", interrupted ? interrupted : "end",
                               "seconds", now() - r->started);
    if (n)
        json_put(&object, "best", json_integer(rank[0]));
    log_line(r, object);
    free(rank);
    if (stdout_failed())
        report_problem(r, EXIT_FILE, "cannot write to standard output: %s", strerror(errno));
}

/* ---- --info ---- */

static void print_shape(hftac_type type, int rank, const int64_t *dims)
{
    printf("%s[", hftac_type_text(type));
    for (int i = 0; i < rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)dims[i]);
    putchar(']');
}

static void print_domain(const hftac_hyper_description *h)
{
    static const char *const form[] = {"", "  in (%g .. %g)", "  in log(%g .. %g)",
                                       "  in int(%g .. %g)"};
    if (h->domain == HFTAC_DOMAIN_SET) {
        for (int64_t i = 0; i < h->n_set; i++)
            printf("%s%g", i ? ", " : "  in {", h->set[i]);
        putchar('}');
    } else if (h->domain == HFTAC_DOMAIN_RANGE) {
        printf(form[1], h->lo, h->hi);
    } else if (h->domain == HFTAC_DOMAIN_LOG) {
        printf(form[2], h->lo, h->hi);
    } else if (h->domain == HFTAC_DOMAIN_INT) {
        printf(form[3], h->lo, h->hi);
    }
}

static void info_text(const hftac_array *a, const hftac_description *d)
{
    printf("%s: %d models, batch %lld, %lld epochs; hftac %s, %s\n", d->name, d->capacity,
           (long long)d->batch, (long long)d->epochs, d->version, d->march);
    printf("inputs\n");
    for (int i = 0; i < d->n_inputs; i++) {
        const hftac_input_description *in = hftac_describe_input(a, i);
        printf("  %-24s ", in->name);
        print_shape(in->type, in->rank, in->dims);
        printf("%s%s\n", in->is_target ? "  target" : "", in->is_each ? "  each" : "");
    }
    printf("hyper-parameters\n");
    for (int i = 0; i < d->n_hypers; i++) {
        const hftac_hyper_description *h = hftac_describe_hyper(a, i);
        printf("  %-24s %g", h->name, h->value);
        print_domain(h);
        putchar('\n');
    }
    printf("parameters\n");
    int64_t total = 0;
    for (int i = 0; i < d->n_params; i++) {
        const hftac_param_description *p = hftac_describe_param(a, i);
        if (p->role != HFTAC_PARAMETER && p->role != HFTAC_BUFFER)
            continue;
        printf("  %-24s ", p->name);
        print_shape(p->type, p->rank, p->dims);
        printf("%s\n", p->role == HFTAC_BUFFER ? "  buffer" : "");
        total +=
            p->role == HFTAC_PARAMETER ? (int64_t)(p->bytes / hftac_type_bytes(p->type)) : 0;
    }
    printf("  %lld in all\nmetrics\n", (long long)total);
    for (int i = 0; i < d->n_metrics; i++)
        if (!hftac_describe_metric(a, i)->is_factor)
            printf("  %s\n", hftac_describe_metric(a, i)->name);
    printf("outputs\n");
    for (int i = 0; i < d->n_outputs; i++) {
        const hftac_output_description *out = hftac_describe_output(a, i);
        printf("  %-24s ", out->name);
        print_shape(out->type, out->rank, out->dims);
        putchar('\n');
    }
    if (d->evaluate_whole)
        printf("evaluation takes whole batches only: %s\n", d->evaluate_whole);
    if (d->predict_whole)
        printf("prediction takes whole batches only: %s\n", d->predict_whole);
    printf("memory: state %llu bytes a model, shared %llu, scratch %llu a thread\n",
           (unsigned long long)d->state_bytes_per_model, (unsigned long long)d->shared_bytes,
           (unsigned long long)d->scratch_bytes_per_thread);
}

static json_t *shape_json(const char *name, hftac_type type, int rank, const int64_t *dims)
{
    json_t *list = json_array();
    for (int i = 0; i < rank; i++)
        json_append(&list, json_integer((json_int_t)dims[i]));
    return json_pack("{s:s, s:s, s:o}", "name", name, "type", hftac_type_text(type), "shape",
                     list);
}

static void info_json(const hftac_array *a, const hftac_description *d)
{
    json_t *inputs = json_array(), *hypers = json_array(), *params = json_array(),
           *metrics = json_array(), *outputs = json_array();
    for (int i = 0; i < d->n_inputs; i++) {
        const hftac_input_description *in = hftac_describe_input(a, i);
        json_t *row = shape_json(in->name, in->type, in->rank, in->dims);
        json_put(&row, "target", json_boolean(in->is_target));
        json_put(&row, "each", json_boolean(in->is_each));
        json_append(&inputs, row);
    }
    for (int i = 0; i < d->n_hypers; i++)
        json_append(&hypers, json_pack("{s:s, s:f}", "name", hftac_describe_hyper(a, i)->name,
                                       "default", hftac_describe_hyper(a, i)->value));
    for (int i = 0; i < d->n_params; i++) {
        const hftac_param_description *p = hftac_describe_param(a, i);
        if (p->role == HFTAC_PARAMETER || p->role == HFTAC_BUFFER)
            json_append(&params, shape_json(p->name, p->type, p->rank, p->dims));
    }
    for (int i = 0; i < d->n_metrics; i++)
        json_append(&metrics, json_text(hftac_describe_metric(a, i)->name));
    for (int i = 0; i < d->n_outputs; i++) {
        const hftac_output_description *out = hftac_describe_output(a, i);
        json_append(&outputs, shape_json(out->name, out->type, out->rank, out->dims));
    }
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "name", d->name,
        "version", d->version, "march", d->march, "models", d->capacity, "batch",
        (json_int_t)d->batch, "epochs", (json_int_t)d->epochs, "state_bytes_per_model",
        (json_int_t)d->state_bytes_per_model, "inputs", inputs, "hypers", hypers, "parameters",
        params, "metrics", metrics, "outputs", outputs);
    json_put(&all, "evaluate_whole", json_text(d->evaluate_whole));
    json_put(&all, "predict_whole", json_text(d->predict_whole));
    if (!json_print(all, JSON_INDENT(1), stdout))
        die(EXIT_FILE, "cannot write to standard output: %s", strerror(errno));
    json_decref(all);
}

void report_info(const hftac_array *a, bool json)
{
    (json ? info_json : info_text)(a, hftac_describe(a));
}
