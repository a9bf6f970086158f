/* Numbers of one program: what model.so computes is what the graph says, by the reference
 * interpreter in double.
 *
 *     fuzz_against_ref CASE.hir MODEL.so SEED
 *
 * CASE.hir is the program after mask_batch.  For each slot: first values, three training steps
 * (each from the state that the compiled program had), an evaluation and a prediction.  How far a
 * value may be off is measured: the interpreter runs again with every operation's result off by a
 * few units in the last place.  Exit code 1 and a line for each value that is further off. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/read.h"
#include "tests/fuzz/drive.h"
#include "tests/unit/ref.h"

enum {
    STEPS = 3,
    MAX_BINDINGS = 1024,
    NOISES = 3
};

typedef struct Case {
    Arena *arena, *step; /* step: emptied now and then */
    Module *module;
    hftac_array *array;
    uint64_t seed;
    int slot, failures;
    bool single; /* f32 */
    RefBinding bindings[MAX_BINDINGS];
    int n_bindings;
    double **value, **noisy[NOISES]; /* of the entry that ran last */
    const Graph *graph;
} Case;

/* ---- Values from outside ---- */

static void bind(Case *c, OpCode op, const char *name, const double *data)
{
    if (c->n_bindings == MAX_BINDINGS)
        fatal("too many values");
    c->bindings[c->n_bindings++] = (RefBinding){op, name, data};
}

static double *one(Case *c, double v)
{
    double *p = arena_array(c->step, 1, sizeof *p);
    *p = v;
    return p;
}

static double load(hftac_type type, const void *p, int64_t i)
{
    switch (type) {
    case HFTAC_BOOL:
    case HFTAC_U8:
        return ((const uint8_t *)p)[i];
    case HFTAC_I32:
        return ((const int32_t *)p)[i];
    case HFTAC_I64:
        return (double)((const int64_t *)p)[i];
    case HFTAC_F32:
        return ((const float *)p)[i];
    case HFTAC_F64:
        break;
    }
    return ((const double *)p)[i];
}

static double *widen(Case *c, hftac_type type, const void *p, uint64_t bytes)
{
    const int64_t n = (int64_t)(bytes / hftac_type_bytes(type));
    double *out = arena_array(c->step, (size_t)n + 1, sizeof *out);
    for (int64_t i = 0; i < n; i++)
        out[i] = load(type, p, i);
    return out;
}

static double *read_state(Case *c, const hftac_param_description *d, hftac_param p)
{
    void *v = must_malloc(d->bytes);
    must(hftac_get_param(c->array, p, c->slot, v, d->bytes));
    double *out = widen(c, d->type, v, d->bytes);
    free(v);
    return out;
}

static void bind_states(Case *c)
{
    for (int p = 0; p < hftac_describe(c->array)->n_params; p++) {
        const hftac_param_description *d = hftac_describe_param(c->array, p);
        bind(c, OP_STATE, d->name, read_state(c, d, p));
    }
}

static void bind_inputs(Case *c, int64_t step, int64_t samples)
{
    for (int i = 0; i < hftac_describe(c->array)->n_inputs; i++) {
        const hftac_input_description *d = hftac_describe_input(c->array, i);
        void *v = drive_values(d, c->seed, i, c->slot, step, hftac_describe(c->array)->batch,
                               samples);
        bind(c, OP_INPUT, d->name, widen(c, d->type, v, d->bytes));
        free(v);
    }
}

static void bind_scalars(Case *c, int64_t n_valid)
{
    for (int h = 0; h < hftac_describe(c->array)->n_hypers; h++) {
        double v;
        must(hftac_get_hyper(c->array, h, c->slot, &v));
        bind(c, OP_HYPER, hftac_describe_hyper(c->array, h)->name, one(c, v));
    }
    bind(c, OP_SCALAR, "epoch", one(c, (double)hftac_epoch(c->array)));
    bind(c, OP_SCALAR, "epochs", one(c, 4));
    bind(c, OP_SCALAR, "steps_per_epoch", one(c, 2));
    bind(c, OP_SCALAR, "n_valid", one(c, (double)n_valid));
}

static void evaluate(Case *c, const char *entry)
{
    uint64_t seed;
    must(hftac_get_seed(c->array, c->slot, &seed));
    RefWorld w = {c->bindings, c->n_bindings, seed, 0, 0};
    c->graph = module_graph(c->module, entry_find(entry));
    c->value = ref_evaluate(c->step, c->graph, &w);
    w.noise = c->single ? 1.2e-7 : 3e-16;
    for (int k = 0; k < NOISES; k++) {
        w.noise_seed = drive_bits(c->seed, 77, (uint64_t)k, 0);
        c->noisy[k] = ref_evaluate(c->step, c->graph, &w);
    }
}

/* ---- Comparing ---- */

static double distance(const double *a, const double *b, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            s += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(s);
}

static void compare(Case *c, const char *when, const char *name, const Node *node,
                    const double *found, int64_t n)
{
    const double *want = c->value[node->id];
    double norm = 0, moved = 0;
    for (int64_t i = 0; i < n; i++)
        norm += isfinite(want[i]) ? want[i] * want[i] : 0;
    for (int k = 0; k < NOISES; k++)
        moved = fmax(moved, distance(c->noisy[k][node->id], want, n));
    const double unit = c->single ? 1e-7 : 1e-15,
                 allowed = 200 * moved + 20 * unit * sqrt(norm) + 5 * unit * sqrt((double)n);
    const double off = distance(found, want, n);
    if (off <= allowed || !isfinite(moved))
        return;
    c->failures++;
    int64_t worst = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(found[i] - want[i]) <= fabs(found[worst] - want[worst])))
            worst = i;
    printf(
        "slot %d, %s, %s: off by %.3g of %.3g, %.3g allowed; element %lld is %.9g, not %.9g\n",
        c->slot, when, name, off, sqrt(norm), allowed, (long long)worst, found[worst],
        want[worst]);
}

static const Output *find_output(const Graph *g, OutputKind kind, const char *name)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].kind == kind && g->outputs[i].name &&
            !strcmp(g->outputs[i].name, name))
            return &g->outputs[i];
    return NULL;
}

/* Adaptive optimizers divide by the gradient's own size, so that rounding noise around a gradient
 * of 0 becomes a step: of them the moments are compared, in which the gradient stands as it is. */
static bool adaptive(const Case *c)
{
    for (int i = 0; i < c->module->n_states; i++)
        if (c->module->states[i].role == ROLE_OPTIM &&
            !strstr(c->module->states[i].name, ".momentum_buffer."))
            return true;
    return false;
}

static bool is_moment(const char *name)
{
    return strstr(name, ".exp_avg") || strstr(name, ".square_avg") || strstr(name, ".sum.");
}

static bool comparable(const Case *c, const hftac_param_description *d)
{
    if (!adaptive(c))
        return true;
    return d->role == HFTAC_OPTIMIZER ? is_moment(d->name) : d->role != HFTAC_PARAMETER;
}

static void compare_states(Case *c, const char *when, bool all)
{
    for (int p = 0; p < hftac_describe(c->array)->n_params; p++) {
        const hftac_param_description *d = hftac_describe_param(c->array, p);
        const Output *o = find_output(c->graph, OUT_STATE, d->name);
        if (!o || (!all && !comparable(c, d)))
            continue;
        compare(c, when, d->name, o->value, read_state(c, d, p),
                shape_count(&o->value->type.shape));
    }
}

static void compare_metrics(Case *c, const char *when)
{
    for (int m = 0; m < hftac_describe(c->array)->n_metrics; m++) {
        const hftac_metric_description *d = hftac_describe_metric(c->array, m);
        const char *name = d->name;
        const Output *o = find_output(c->graph,
                                      d->is_factor ? OUT_FACTOR
                                      : d->is_loss ? OUT_LOSS
                                                   : OUT_RESULT,
                                      name);
        double v;
        must(hftac_read_metric(c->array, m, c->slot, &v));
        if (o)
            compare(c, when, name, o->value, &v, 1);
    }
}

/* ---- Entries ---- */

static void restart(Case *c)
{
    arena_free(c->step);
    c->step = arena_new();
    c->n_bindings = 0;
}

static void check_init(Case *c)
{
    restart(c);
    bind_scalars(c, 0);
    evaluate(c, "init");
    compare_states(c, "at first", true);
}

static bool runs(const Case *c)
{
    hftac_model_status s;
    must(hftac_read_model(c->array, c->slot, &s));
    return s.state == HFTAC_MODEL_RUNNING;
}

/* What the graph of `entry` makes of the state that the compiled program has now. */
static void foresee(Case *c, const char *entry, int64_t batch, int64_t n_valid)
{
    restart(c);
    bind_states(c);
    bind_inputs(c, batch, n_valid);
    bind_scalars(c, n_valid);
    evaluate(c, entry);
}

typedef hftac_status StepOf(hftac_array *a, int64_t n_valid);

static hftac_status train_step(hftac_array *a, int64_t n_valid)
{
    (void)n_valid;
    return hftac_train_step(a);
}

static hftac_status evaluate_end(hftac_array *a, int64_t n_valid)
{
    (void)n_valid;
    return hftac_evaluate_end(a);
}

/* One step of all models, each compared with what was foreseen for it. */
static void check_step(Case *c, int slots, const char *entry, StepOf *step, int64_t batch,
                       int64_t n_valid)
{
    const bool train = step == train_step;
    char when[64];
    snprintf(when, sizeof when, "%s, batch %lld", entry, (long long)batch);
    Case *each = must_malloc((size_t)slots * sizeof *each);
    for (int b = 0; b < slots; b++) {
        each[b] = *c;
        each[b].failures = 0;
        each[b].slot = b;
        each[b].step = arena_new();
        each[b].graph = NULL;
        if (!train || runs(&each[b]))
            foresee(&each[b], entry, batch, n_valid);
    }
    drive_feed(c->array, c->seed, 0, batch, n_valid);
    must(step(c->array, n_valid));
    for (int b = 0; b < slots; b++) {
        if (each[b].graph) {
            compare_states(&each[b], when, !train);
            if (step != hftac_evaluate_step)
                compare_metrics(&each[b], when);
        }
        c->failures += each[b].failures;
        arena_free(each[b].step);
    }
    free(each);
}

static void check_train(Case *c, int slots)
{
    must(hftac_set_plan(c->array, 4, 2));
    for (int64_t s = 0; s < STEPS && !c->failures; s++) {
        check_step(c, slots, "train", train_step, s, hftac_describe(c->array)->batch);
        if (s % 2)
            must(hftac_epoch_end(c->array, HFTAC_NO_METRIC));
    }
}

static void check_eval(Case *c, int slots)
{
    const hftac_description *about = hftac_describe(c->array);
    const int64_t n = about->batch, part = drive_part(c->array, about->evaluate_whole);
    must(hftac_evaluate_begin(c->array, 0));
    for (int k = 0; k < 2; k++)
        check_step(c, slots, "eval", hftac_evaluate_step, 100 + k, k ? part : n);
    check_step(c, slots, "eval_end", evaluate_end, 101, n);
}

static void check_predict(Case *c, int64_t n_valid)
{
    const int64_t n = hftac_describe(c->array)->batch;
    foresee(c, "predict", 200, n_valid);
    for (int i = 0; i < hftac_describe(c->array)->n_outputs; i++) {
        const hftac_output_description *d = hftac_describe_output(c->array, i);
        const Output *o = find_output(c->graph, OUT_TENSOR, d->name);
        const void *v;
        must(hftac_read_output(c->array, i, c->slot, &v));
        const int64_t all = (int64_t)(d->bytes / hftac_type_bytes(d->type));
        const int64_t rows = d->batch_axis == 0 ? all / d->dims[0] * d->per_sample * n_valid
                             : n_valid == n     ? all
                                                : 0;
        if (o)
            compare(c, n_valid == n ? "prediction" : "prediction of a part", d->name, o->value,
                    widen(c, d->type, v, d->bytes), rows);
    }
}

static Module *read_module(Arena *a, const char *path)
{
    FILE *f = fopen(path, "rb");
    Text t;
    text_init(&t, a);
    char buffer[65536];
    size_t n;
    while (f && (n = fread(buffer, 1, sizeof buffer, f)) > 0)
        text_addn(&t, buffer, n);
    if (!f)
        fatal("cannot read '%s'", path);
    fclose(f);
    Diag *d = diag_new(a, &(DiagOptions){0});
    Module *m = module_read(a, d, diag_add_source(d, path, t.s, t.len, false));
    if (!m)
        fatal("'%s' does not read", path);
    return m;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        fatal("usage: fuzz_against_ref CASE.hir MODEL.so SEED");
    Case c = {.arena = arena_new(), .step = arena_new(), .seed = strtoull(argv[3], NULL, 10)};
    c.module = read_module(c.arena, argv[1]);
    c.single = true;
    for (int i = 0; i < c.module->n_states; i++)
        if (c.module->states[i].role == ROLE_PARAM && c.module->states[i].type.dtype == DT_F64)
            c.single = false;
    must(hftac_open(argv[2], NULL, &c.array));
    const int slots = hftac_model_count(c.array);
    drive_set_models(c.array, c.seed, 0);
    for (c.slot = 0; c.slot < slots; c.slot++)
        check_init(&c);
    check_train(&c, slots);
    check_eval(&c, slots);
    const int64_t n = hftac_describe(c.array)->batch;
    for (int64_t part = n; part > 0 && hftac_describe(c.array)->can_predict;
         part = part > n / 2 && !hftac_describe(c.array)->predict_whole ? n / 2 : 0) {
        drive_feed(c.array, c.seed, 0, 200, part);
        must(hftac_predict_step(c.array, part));
        for (c.slot = 0; c.slot < slots; c.slot++)
            check_predict(&c, part);
    }
    hftac_close(c.array);
    arena_free(c.step);
    arena_free(c.arena);
    return c.failures != 0;
}
