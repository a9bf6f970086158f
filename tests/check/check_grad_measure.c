/* Gradients against central differences, in float64.
 *
 * All cases of a program are perturbed at the same time, as each has a loss of its own: one
 * element of each case's parameters, and then directions in which all elements move, so that no
 * element goes unseen where there are too many to take one by one.  Around 1e-5 the rounding of a
 * difference and what is cut off of the series are both near 1e-10. Where a difference does not
 * agree it is taken again closer by: there may be a kink in between. */
#include "tests/check/check_grad.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check/check.h"

enum {
    MAX_MODELS = 2,
    MAX_PARAMS = 24, /* of one case */
    ELEMENTS = 16,   /* of a case, one by one */
    DIRECTIONS = 3
};

static const double wide = 1e-5, close_by = 1e-7, tolerance = 1e-6;

/* One parameter of a case, for all models. */
typedef struct Slot {
    hftac_param param, gradient;
    int64_t first, count; /* among the case's elements */
} Slot;

typedef struct Probe {
    Slot slots[MAX_PARAMS];
    int n_slots;
    int64_t count;
    hftac_param value;
    double *x[MAX_MODELS];     /* the case's elements, all parameters in a row */
    double *g[MAX_MODELS];     /* their gradients */
    double *moved, *direction; /* [count] */
    double loss[MAX_MODELS], scale[MAX_MODELS];
    int64_t order[ELEMENTS]; /* the elements that are taken one by one */
    int n_order;
    bool failed;
} Probe;

static bool owns(int number, const char *name)
{
    char prefix[24];
    const int n = snprintf(prefix, sizeof prefix, "c%d_", number);
    return !strncmp(name, prefix, (size_t)n);
}

static hftac_param find(hftac_array *a, const char *name)
{
    hftac_param p;
    must(hftac_find_param(a, name, &p));
    return p;
}

static void add_slot(hftac_array *a, Probe *p, hftac_param param)
{
    const hftac_param_description *d = hftac_describe_param(a, param);
    char name[256];
    snprintf(name, sizeof name, "optimizer.grad.%s", d->name);
    if (p->n_slots == MAX_PARAMS || d->type != HFTAC_F64)
        fatal("parameter %s: too many of a case, or not f64", d->name);
    const int64_t count = (int64_t)(d->bytes / sizeof(double));
    p->slots[p->n_slots++] = (Slot){param, find(a, name), p->count, count};
    p->count += count;
}

/* Distinct values, spread over the range: no two closer than half of what even spacing would be. */
static void draw_values(const GradCase *c, Random *r, double *x, int64_t n)
{
    int64_t *place = malloc(((size_t)n + 1) * sizeof *place);
    for (int64_t i = 0; i < n; i++)
        place[i] = i;
    random_shuffle(r, place, n);
    for (int64_t i = 0; i < n; i++) {
        const double at = ((double)place[i] + 0.25 + 0.5 * random_unit(r)) / (double)n;
        x[i] = c->lo + (c->hi - c->lo) * at;
        if (c->exact_by > 0)
            x[i] = floor(x[i] / c->exact_by) * c->exact_by;
    }
    free(place);
}

static void set_values(hftac_array *a, const Probe *p, int model, const double *x)
{
    for (int i = 0; i < p->n_slots; i++) {
        const Slot *s = &p->slots[i];
        must(hftac_set_param(a, s->param, model, x + s->first, (size_t)s->count * sizeof *x));
    }
}

static void probe_open(hftac_array *a, const GradProgram *program, int number, Random *r,
                       Probe *p)
{
    char name[64];
    const int n_params = hftac_describe(a)->n_params;
    *p = (Probe){0};
    for (int i = 0; i < n_params; i++) {
        const hftac_param_description *d = hftac_describe_param(a, i);
        if (d->role == HFTAC_PARAMETER && owns(number, d->name))
            add_slot(a, p, i);
    }
    if (!p->count)
        fatal("case %s has no parameters", program->cases[number].name);
    snprintf(name, sizeof name, "c%d_kept.value", number);
    p->value = find(a, name);
    p->moved = calloc((size_t)p->count, sizeof *p->moved);
    p->direction = calloc((size_t)p->count, sizeof *p->direction);
    for (int b = 0; b < hftac_model_count(a); b++) {
        p->x[b] = calloc((size_t)p->count, sizeof(double));
        p->g[b] = calloc((size_t)p->count, sizeof(double));
        draw_values(&program->cases[number], r, p->x[b], p->count);
        set_values(a, p, b, p->x[b]);
    }
    int64_t *all = malloc((size_t)p->count * sizeof *all);
    for (int64_t i = 0; i < p->count; i++)
        all[i] = i;
    random_shuffle(r, all, p->count);
    p->n_order = p->count < ELEMENTS ? (int)p->count : ELEMENTS;
    memcpy(p->order, all, (size_t)p->n_order * sizeof *all);
    free(all);
}

static void probe_close(Probe *p)
{
    for (int b = 0; b < MAX_MODELS; b++) {
        free(p->x[b]);
        free(p->g[b]);
    }
    free(p->moved);
    free(p->direction);
}

/* One training step; what is drawn at random is the same each time. */
static void step(hftac_array *a)
{
    const int64_t zero = 0;
    hftac_param counter;
    for (int b = 0; b < hftac_model_count(a); b++)
        if (!hftac_find_param(a, "$step", &counter))
            must(hftac_set_param(a, counter, b, &zero, sizeof zero));
    must(hftac_train_step(a));
}

static double read_value(hftac_array *a, hftac_param p, int model)
{
    double v;
    must(hftac_get_param(a, p, model, &v, sizeof v));
    return v;
}

/* The point itself: losses and gradients. */
static bool read_gradients(hftac_array *a, Probe *probes, int n)
{
    step(a);
    for (int b = 0; b < hftac_model_count(a); b++) {
        hftac_model_status status;
        must(hftac_read_model(a, b, &status));
        if (status.state != HFTAC_MODEL_RUNNING) {
            printf("FAILED: model %d does not run: %s\n", b, status.text);
            return false;
        }
        for (int k = 0; k < n; k++) {
            Probe *p = &probes[k];
            p->loss[b] = read_value(a, p->value, b);
            for (int i = 0; i < p->n_slots; i++) {
                const Slot *s = &p->slots[i];
                must(hftac_get_param(a, s->gradient, b, p->g[b] + s->first,
                                     (size_t)s->count * sizeof(double)));
            }
            double squares = 0;
            for (int64_t i = 0; i < p->count; i++)
                squares += p->g[b][i] * p->g[b][i];
            p->scale[b] = sqrt(squares / (double)p->count);
        }
    }
    return true;
}

/* Perturbation number k: an element, then directions.  False if there are none left. */
static bool aim(Probe *p, int k, Random *r)
{
    if (k >= p->n_order + DIRECTIONS)
        return false;
    for (int64_t i = 0; i < p->count; i++)
        p->direction[i] = k < p->n_order ? (p->order[k] == i) : random_chance(r, 50) ? 1 : -1;
    return true;
}

static void move(hftac_array *a, const Probe *p, double by)
{
    for (int b = 0; b < hftac_model_count(a); b++) {
        for (int64_t i = 0; i < p->count; i++)
            p->moved[i] = p->x[b][i] + by * p->direction[i];
        set_values(a, p, b, p->moved);
    }
}

/* The differences of those probes that are not done, along their directions; slope
 * [probe][model]. */
static void take_differences(hftac_array *a, const GradProgram *program, Probe *probes,
                             const bool *active, double h, double (*slope)[MAX_MODELS])
{
    const int models = hftac_model_count(a);
    for (int side = -1; side <= 1; side += 2) {
        for (int k = 0; k < program->n_cases; k++)
            if (active[k])
                move(a, &probes[k],
                     side * (program->cases[k].exact_by > 0 ? program->cases[k].exact_by : h));
        step(a);
        for (int k = 0; k < program->n_cases; k++)
            for (int b = 0; active[k] && b < models; b++) {
                const double v = read_value(a, probes[k].value, b);
                slope[k][b] = side < 0 ? v : v - slope[k][b];
            }
    }
    for (int k = 0; k < program->n_cases; k++)
        for (int b = 0; active[k] && b < models; b++) {
            slope[k][b] /=
                2 * (program->cases[k].exact_by > 0 ? program->cases[k].exact_by : h);
            set_values(a, &probes[k], b, probes[k].x[b]);
        }
}

/* The derivative in the probe's direction as the gradient has it. */
static double derivative(const Probe *p, int model)
{
    double sum = 0;
    for (int64_t i = 0; i < p->count; i++)
        sum += p->g[model][i] * p->direction[i];
    return sum;
}

static bool agrees(const Probe *p, int model, double slope, double h, int k)
{
    const double d = derivative(p, model);
    const double size =
        k < p->n_order ? p->scale[model] : p->scale[model] * sqrt((double)p->count);
    const double rounding = 1e-14 * (1 + fabs(p->loss[model])) / h;
    return fabs(d - slope) <= tolerance * (fabs(slope) + 0.1 * size) + rounding;
}

static void report(hftac_array *a, const GradCase *c, const Probe *p, int model, double slope,
                   int k)
{
    const Slot *s = p->slots;
    if (k < p->n_order) {
        while (p->order[k] >= s->first + s->count)
            s++;
        printf("FAILED: %s (B = %d, model %d): d/d%s[%lld] is %.12g, differences say %.12g\n",
               c->name, hftac_model_count(a), model, hftac_describe_param(a, s->param)->name,
               (long long)(p->order[k] - s->first), derivative(p, model), slope);
    } else {
        printf("FAILED: %s (B = %d, model %d): the derivative along a direction is %.12g, "
               "differences say %.12g\n",
               c->name, hftac_model_count(a), model, derivative(p, model), slope);
    }
}

/* Compares perturbation k of all cases; true if any case had one. */
static bool compare(hftac_array *a, const GradProgram *program, Probe *probes, int k, Random *r)
{
    const int models = hftac_model_count(a);
    double slope[GRAD_CASES][MAX_MODELS], again[GRAD_CASES][MAX_MODELS];
    bool active[GRAD_CASES] = {false}, doubtful[GRAD_CASES] = {false}, any = false,
         any_doubtful = false;
    for (int i = 0; i < program->n_cases; i++)
        any |= active[i] = !probes[i].failed && aim(&probes[i], k, r);
    if (!any)
        return false;
    take_differences(a, program, probes, active, wide, slope);
    for (int i = 0; i < program->n_cases; i++) {
        for (int b = 0; active[i] && b < models; b++)
            doubtful[i] |= !agrees(&probes[i], b, slope[i][b], wide, k);
        any_doubtful |= doubtful[i];
    }
    if (any_doubtful)
        take_differences(a, program, probes, doubtful, close_by, again);
    for (int i = 0; i < program->n_cases; i++)
        for (int b = 0; doubtful[i] && b < models; b++)
            if (!agrees(&probes[i], b, again[i][b], close_by, k) &&
                !agrees(&probes[i], b, slope[i][b], wide, k)) {
                report(a, &program->cases[i], &probes[i], b, slope[i][b], k);
                probes[i].failed = true;
            }
    return true;
}

static hftac_array *compile(const GradProgram *p, int n_models, const char *path)
{
    const char *const options[] = {"--precision=fp64", n_models == 1 ? "-O0" : "-O2", NULL};
    FILE *f = fopen(path, "w");
    if (!f || fputs(p->text, f) < 0 || fclose(f))
        fatal("cannot write '%s'", path);
    return compile_file_threads(path, n_models, options, 1);
}

static int measure(hftac_array *a, const GradProgram *program, uint64_t seed)
{
    Random r = {seed};
    Probe probes[GRAD_CASES];
    int failed = 0;
    for (int k = 0; k < program->n_cases; k++)
        probe_open(a, program, k, &r, &probes[k]);
    if (read_gradients(a, probes, program->n_cases))
        for (int k = 0; compare(a, program, probes, k, &r); k++)
            ;
    else
        failed = program->n_cases;
    for (int k = 0; k < program->n_cases; k++) {
        failed += probes[k].failed;
        probe_close(&probes[k]);
    }
    return failed;
}

int grad_measure(const GradProgram *program, int n_models, uint64_t seed)
{
    static int number;
    char path[64];
    snprintf(path, sizeof path, "/tmp/hftac-grad-%ld-%d%s", (long)getpid(), number++,
             program->suffix);
    hftac_array *a = compile(program, n_models, path);
    const int failed = a ? measure(a, program, seed) : program->n_cases;
    hftac_close(a);
    if (failed)
        printf("FAILED: %d cases of the program %s, which is kept%s\n", failed, path,
               a ? "" : ": it does not compile");
    else
        unlink(path);
    return failed;
}
