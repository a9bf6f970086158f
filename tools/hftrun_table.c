/* The table at the end of a run: the best model first, as text or JSON. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hftrun_json.h"
#include "tools/hftrun_report.h"

enum {
    NAME_BYTES = 128
};

/* What the table is ordered by. */
typedef struct Order {
    Split split;
    int metric;
    bool largest; /* comes first */
} Order;

/* --sort=NAME[:min|max]: where nothing is said, the least is best of what training minimizes, else
 * the largest. */
static bool parse_sort(const char *sort, const hftac_array *a, Order *k)
{
    char name[NAME_BYTES];
    const size_t n = strcspn(sort, ":");
    const char *which = sort + n;
    snprintf(name, sizeof name, "%.*s", (int)n, sort);
    if (hftac_find_metric(a, name, &k->metric))
        return false;
    k->largest =
        *which ? !strcmp(which, ":max") : !hftac_describe_metric(a, k->metric)->is_loss;
    return !*which || k->largest || !strcmp(which, ":min");
}

void table_check_sort(const Options *o, const hftac_array *a)
{
    Order k;
    if (o->sort && !parse_sort(o->sort, a, &k))
        die(EXIT_USAGE,
            "--sort needs NAME, NAME:min or NAME:max with a metric of the model, not '%s'",
            o->sort);
}

/* On test, else validation, else train. */
static Order table_order(const Report *r)
{
    Order k = {.split = r->seen[SPLIT_TEST]    ? SPLIT_TEST
                        : r->seen[SPLIT_VALID] ? SPLIT_VALID
                                               : SPLIT_TRAIN,
               .metric = report_loss(r)};
    if (r->o->sort)
        parse_sort(r->o->sort, r->a, &k);
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
        v.value = *report_cell(r, k->split, model, k->metric) * (k->largest ? -1 : 1);
    return v;
}

static int *ranked_models(const Report *r, int *n)
{
    const Order k = table_order(r);
    Ranked *sorted = allocate((size_t)r->about->models, sizeof *sorted);
    int *rank = allocate((size_t)r->about->models, sizeof *rank);
    *n = 0;
    for (int b = 0; b < r->about->models; b++)
        if (report_shows(r, b))
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
        json_t *row = json_pack("{s:i, s:s, s:o}", "model", b, "state", report_state(r, b),
                                "hypers", report_hypers(r, b));
        for (int s = 0; s < N_SPLITS; s++) {
            json_t *values = json_object();
            for (int m = 0; m < r->about->n_metrics; m++)
                if (metric_shown(r, (Split)s, m))
                    json_put_number(&values, hftac_describe_metric(r->a, m)->name,
                                    *report_cell(r, (Split)s, b, m));
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
                char head[NAME_BYTES];
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
                    printf("  %12.6g", *report_cell(r, (Split)s, b, m));
        printf("  %s\n", report_state(r, b));
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
        if (report_shows(r, b) && !hftac_read_model(r->a, b, &s) &&
            s.state > HFTAC_MODEL_STOPPED)
            fprintf(stderr, "hftrun: %s\n", s.text);
    json_t *object = json_pack("{s:s, s:f}", "event", interrupted ? interrupted : "end",
                               "seconds", now() - r->started);
    if (n)
        json_put(&object, "best", json_integer(rank[0]));
    report_log(r, object);
    free(rank);
    if (stdout_failed())
        report_problem(r, EXIT_FILE, "cannot write to standard output: %s", strerror(errno));
}
