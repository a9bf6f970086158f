/* Exactness on one program: each slot of each array computes bit for bit what it computes alone.
 *
 *     fuzz_run_fused SEED STEPS ONE.so:1 OTHER.so:THREADS...
 *
 * All files are the same program; the first was compiled with B = 1 and is run once for each slot
 * of the largest other one. A run trains STEPS steps, evaluates a full and a partial batch and
 * predicts; after each step all state, losses and metrics are kept, and compared slot by slot.
 * Exit code 1 and a line for the first difference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/drive.h"

enum {
    MAX_SLOTS = 16
};

/* Everything that one slot showed, one piece after the other. */
typedef struct Piece {
    char what[96];
    hftac_type type;
    size_t at, bytes;
} Piece;

typedef struct Trace {
    Piece *pieces;
    int n, cap;
    char *data;
    size_t bytes, room;
} Trace;

static void keep(Trace *t, const char *stage, const char *name, hftac_type type,
                 const void *data, size_t bytes)
{
    if (t->n == t->cap)
        t->pieces = realloc(t->pieces, (size_t)(t->cap = 2 * t->cap + 64) * sizeof *t->pieces);
    if (t->bytes + bytes > t->room)
        t->data = realloc(t->data, t->room = 2 * (t->bytes + bytes));
    Piece *p = &t->pieces[t->n++];
    *p = (Piece){.type = type, .at = t->bytes, .bytes = bytes};
    snprintf(p->what, sizeof p->what, "%s: %s", stage, name);
    memcpy(t->data + p->at, data, bytes);
    t->bytes += bytes;
}

static void free_trace(Trace *t)
{
    free(t->pieces);
    free(t->data);
}

static void keep_state(hftac_array *a, int slot, const char *stage, Trace *t)
{
    for (int p = 0; p < hftac_describe(a)->n_params; p++) {
        const hftac_param_description *d = hftac_describe_param(a, p);
        void *v = must_malloc(d->bytes);
        must(hftac_get_param(a, p, slot, v, d->bytes));
        keep(t, stage, d->name, d->type, v, d->bytes);
        free(v);
    }
}

static void keep_metrics(hftac_array *a, int slot, const char *stage, Trace *t)
{
    for (int m = 0; m < hftac_describe(a)->n_metrics; m++) {
        double v;
        must(hftac_read_metric(a, m, slot, &v));
        keep(t, stage, hftac_describe_metric(a, m)->name, HFTAC_F64, &v, sizeof v);
    }
}

/* Only the rows of valid samples mean something. */
static void keep_outputs(hftac_array *a, int slot, int64_t n_valid, const char *stage, Trace *t)
{
    for (int o = 0; o < hftac_describe(a)->n_outputs; o++) {
        const hftac_output_description *d = hftac_describe_output(a, o);
        const void *v;
        must(hftac_read_output(a, o, slot, &v));
        const size_t whole = n_valid == hftac_describe(a)->batch ? d->bytes : 0;
        const size_t part = d->batch_axis == 0 ? d->bytes / (size_t)d->dims[0] *
                                                     (size_t)(d->per_sample * n_valid)
                                               : whole;
        keep(t, stage, d->name, d->type, v, part);
    }
}

static void train(hftac_array *a, uint64_t seed, int first, int steps, Trace *t)
{
    must(hftac_set_plan(a, 4, 2));
    for (int s = 0; s < steps; s++) {
        char stage[32];
        snprintf(stage, sizeof stage, "after step %d", s + 1);
        drive_feed(a, seed, first, s, hftac_describe(a)->batch);
        must(hftac_train_step(a));
        for (int b = 0; b < hftac_model_count(a); b++) {
            keep_state(a, b, stage, &t[first + b]);
            keep_metrics(a, b, stage, &t[first + b]);
        }
        if (s % 2)
            must(hftac_epoch_end(a, HFTAC_NO_METRIC));
    }
}

static void evaluate_and_predict(hftac_array *a, uint64_t seed, int first, Trace *t)
{
    const hftac_description *about = hftac_describe(a);
    const int64_t n = about->batch;
    int64_t part = drive_part(a, about->evaluate_whole);
    must(hftac_evaluate_begin(a, 0));
    for (int k = 0; k < 2; k++) {
        drive_feed(a, seed, first, 100 + k, k ? part : n);
        must(hftac_evaluate_step(a, k ? part : n));
    }
    must(hftac_evaluate_end(a));
    for (int b = 0; b < hftac_model_count(a); b++)
        keep_metrics(a, b, "evaluation", &t[first + b]);
    part = drive_part(a, about->predict_whole);
    for (int k = 0; k < 2 && about->can_predict; k++) {
        drive_feed(a, seed, first, 100 + k, k ? part : n);
        must(hftac_predict_step(a, k ? part : n));
        for (int b = 0; b < hftac_model_count(a); b++)
            keep_outputs(a, b, k ? part : n, k ? "prediction of a part" : "prediction",
                         &t[first + b]);
    }
}

/* FILE:THREADS */
static hftac_array *open_array(const char *arg)
{
    char path[512];
    snprintf(path, sizeof path, "%s", arg);
    char *colon = strrchr(path, ':');
    if (!colon)
        fatal("'%s' is not FILE:THREADS", arg);
    *colon = 0;
    hftac_array *a;
    const hftac_options o = {.threads = (int32_t)strtol(colon + 1, NULL, 10)};
    must(hftac_open(path, &o, &a));
    return a;
}

static int run(const char *arg, uint64_t seed, int first, int steps, Trace *t)
{
    hftac_array *a = open_array(arg);
    const int n = hftac_model_count(a);
    drive_set_models(a, seed, first);
    for (int b = 0; b < n; b++)
        keep_state(a, b, "at first", &t[first + b]);
    train(a, seed, first, steps, t);
    evaluate_and_predict(a, seed, first, t);
    hftac_close(a);
    return n;
}

static double value_at(hftac_type type, const char *p)
{
    double x;
    float f;
    int64_t i;
    int32_t k;
    switch (type) {
    case HFTAC_F64:
        memcpy(&x, p, sizeof x);
        return x;
    case HFTAC_F32:
        memcpy(&f, p, sizeof f);
        return f;
    case HFTAC_I64:
        memcpy(&i, p, sizeof i);
        return (double)i;
    case HFTAC_I32:
        memcpy(&k, p, sizeof k);
        return k;
    case HFTAC_BOOL:
    case HFTAC_U8:
        break;
    }
    return *(const uint8_t *)p;
}

/* The first element with other bits, -1: none.  Any NaN is as good as another. */
static int64_t first_difference(hftac_type type, const char *a, const char *b, size_t bytes)
{
    const size_t size = hftac_type_bytes(type);
    if (!memcmp(a, b, bytes))
        return -1;
    for (size_t i = 0; i < bytes; i += size)
        if (memcmp(a + i, b + i, size) &&
            !(isnan(value_at(type, a + i)) && isnan(value_at(type, b + i))))
            return (int64_t)(i / size);
    return -1;
}

static bool compare(const Trace *t, const Trace *one, const char *arg, int slot)
{
    if (t->n != one->n)
        fatal("%s shows %d values, B = 1 %d", arg, t->n, one->n);
    for (int i = 0; i < t->n; i++) {
        const Piece *p = &t->pieces[i], *q = &one->pieces[i];
        if (strcmp(p->what, q->what) || p->bytes != q->bytes)
            fatal("%s: '%s' where B = 1 has '%s'", arg, p->what, q->what);
        const char *x = t->data + p->at, *y = one->data + q->at;
        const int64_t at = first_difference(p->type, x, y, p->bytes);
        if (at >= 0) {
            const size_t size = hftac_type_bytes(p->type);
            printf("%s, slot %d: %s: not the bits of B = 1: element %lld is %.17g, not %.17g\n",
                   arg, slot, p->what, (long long)at, value_at(p->type, x + (size_t)at * size),
                   value_at(p->type, y + (size_t)at * size));
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        fatal("usage: fuzz_run_fused SEED STEPS ONE.so:1 OTHER.so:THREADS...");
    const uint64_t seed = strtoull(argv[1], NULL, 10);
    const int steps = (int)strtol(argv[2], NULL, 10);
    Trace one[MAX_SLOTS] = {0};
    int n_one = 0, failures = 0;
    for (int i = 4; i < argc; i++) {
        Trace t[MAX_SLOTS] = {0};
        const int n = run(argv[i], seed, 0, steps, t);
        for (; n_one < n; n_one++)
            run(argv[3], seed, n_one, steps, one);
        for (int b = 0; b < n; b++)
            failures += !compare(&t[b], &one[b], argv[i], b);
        for (int b = 0; b < MAX_SLOTS; b++)
            free_trace(&t[b]);
    }
    for (int b = 0; b < MAX_SLOTS; b++)
        free_trace(&one[b]);
    return failures != 0;
}
