/* check_optimizers FILE: optimizers and schedules at their edges against PyTorch's values
 * (tests/edges/write_optimizers.py).
 *
 * Each program is an array with one model for each setting.  Where PyTorch makes a value that is
 * not finite, the model stops in that step, the elements concerned keep what they were, and the
 * others are PyTorch's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"

enum {
    MOST = 8 /* hypers */
};

static int failed, passed;

static void miss(const char *what, int slot, int step, int64_t element, double is, double want)
{
    printf("FAILED: %s, setting %d, step %d, element %d: %.9g, not %.9g\n", what, slot, step,
           (int)element, is, want);
    failed++;
}

/* A case of the file: its program and its settings. */
typedef struct Case {
    const char *name, *call;
    char hyper[MOST][8];
    int n_hypers, n_slots;
    const double *values; /* [slots, hypers] */
} Case;

static Case read_case(const Golden *g, const char *key, json_t *meta)
{
    char name[96];
    snprintf(name, sizeof name, "%s.values", key);
    const Tensor *v = golden_find(g, name);
    Case c = {.name = json_string_value(json_object_get(meta, "name")),
              .call = json_string_value(json_object_get(meta, "call")),
              .n_slots = (int)v->dims[0],
              .values = v->values};
    char *list = strdup(json_string_value(json_object_get(meta, "hypers")));
    for (char *h = strtok(list, " "); h && c.n_hypers < MOST; h = strtok(NULL, " "))
        snprintf(c.hyper[c.n_hypers++], sizeof c.hyper[0], "%s", h);
    free(list);
    return c;
}

static hftac_array *compile(const Case *c, const Tensor *p0, bool schedule)
{
    static Source s;
    s.len = 0;
    add(&s, "hdl 1\n");
    for (int h = 0; h < c->n_hypers; h++)
        add(&s, "hyper %s = %.17g\n", c->hyper[h], c->values[h]);
    add(&s, "model Case {\n  input x : f32[N, %d]\n  p = Param([%d])\n", (int)p0->count,
        (int)p0->count);
    add(&s, "  loss sum(p * sum(x, dim = 0))\n}\ntrain Case {\n  batch N = 1\n  epochs 24\n");
    add(&s, schedule ? "  optimizer SGD(0.5)\n  schedule %s\n}\n" : "  optimizer %s\n}\n",
        c->call);
    hftac_array *a = compile_text(s.text, c->n_slots);
    if (!a)
        exit(1);
    for (int b = 0; b < c->n_slots; b++) {
        for (int h = 0; h < c->n_hypers; h++) {
            hftac_hyper handle;
            must(hftac_find_hyper(a, c->hyper[h], &handle));
            must(hftac_set_hyper(a, handle, b, c->values[b * c->n_hypers + h]));
        }
        set_param(a, "p", b, p0, p0->values);
    }
    return a;
}

/* float32 against float32: PyTorch's own order of operations differs. */
static bool close_to(float is, float want, float before)
{
    return fabsf(is - want) <= 2e-5f * fabsf(want) + 2e-5f * fabsf(want - before) + 1e-37f;
}

static void check_step(const Case *c, hftac_array *a, const Tensor *p, int slot, int step,
                       int64_t stop, float *before)
{
    const int64_t n = p->dims[2];
    const float *want = (const float *)p->values + (slot * p->dims[1] + step) * n;
    hftac_model_status s;
    must(hftac_read_model(a, slot, &s));
    if ((s.state == HFTAC_MODEL_DIVERGED) != (step >= stop)) {
        printf("FAILED: %s, setting %d, step %d: the model %s\n", c->name, slot, step, s.text);
        failed++;
    }
    size_t bytes;
    float *is = get_param(a, "p", slot, &bytes);
    for (int64_t i = 0; i < n && step <= stop; i++) {
        const float w = isfinite(want[i]) ? want[i] : before[i];
        if (!close_to(is[i], w, before[i]))
            miss(c->name, slot, step, i, is[i], w);
        else
            passed++;
    }
    memcpy(before, is, bytes);
    free(is);
}

static void check_optimizer(const Golden *g, const char *key, const Case *c)
{
    char name[96];
    snprintf(name, sizeof name, "%s.p", key);
    const Tensor *p = golden_find(g, name), *p0 = golden_find(g, "p0"),
                 *grad = golden_find(g, "g");
    snprintf(name, sizeof name, "%s.stop", key);
    const int64_t *stop = golden_find(g, name)->values, n = p0->count;
    hftac_array *a = compile(c, p0, false);
    hftac_input x;
    must(hftac_find_input(a, "x", &x));
    float *before = calloc((size_t)(c->n_slots * n), sizeof *before);
    for (int b = 0; b < c->n_slots; b++)
        memcpy(before + b * n, p0->values, (size_t)n * sizeof *before);
    for (int t = 0; t < p->dims[1]; t++) {
        must(hftac_feed(a, x, (const float *)grad->values + t * n, 1));
        must(hftac_train_step(a));
        for (int b = 0; b < c->n_slots; b++)
            check_step(c, a, p, b, t, stop[b], before + b * n);
    }
    free(before);
    hftac_close(a);
}

static void check_schedule(const Golden *g, const char *key, const Case *c)
{
    char name[96];
    snprintf(name, sizeof name, "%s.factor", key);
    const Tensor *f = golden_find(g, name), *p0 = golden_find(g, "p0");
    hftac_array *a = compile(c, p0, true);
    hftac_metric m;
    hftac_input x;
    must(hftac_find_metric(a, "schedule", &m));
    must(hftac_find_input(a, "x", &x));
    must(hftac_feed(a, x, p0->values, 1));
    for (int t = 0; t < f->dims[1]; t++) {
        must(hftac_set_epoch(a, t));
        must(hftac_train_step(a));
        for (int b = 0; b < c->n_slots; b++) {
            const double want = ((const double *)f->values)[b * f->dims[1] + t];
            double is;
            must(hftac_read_metric(a, m, b, &is));
            if (fabs(is - want) <= 1e-9 * fabs(want) + 1e-12)
                passed++;
            else
                miss(c->name, b, t, 0, is, want);
        }
    }
    hftac_close(a);
}

static void check_group(const Golden *g, const char *group,
                        void (*check)(const Golden *, const char *, const Case *))
{
    for (int i = 0;; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%d", group, i);
        if (!*golden_text(g, key))
            return;
        json_t *meta = golden_json(g, key);
        const Case c = read_case(g, key, meta);
        check(g, key, &c);
        json_decref(meta);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fatal("usage: check_optimizers FILE");
    check_begin(argv[0]);
    Golden g = golden_read(argv[1]);
    check_group(&g, "optimizer", check_optimizer);
    check_group(&g, "schedule", check_schedule);
    golden_free(&g);
    check_end();
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
