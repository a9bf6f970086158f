/* check_train DIR: whole training runs of the workloads against golden traces.
 *
 * A file names its workload; the program is that sample with the sizes of the file's tensors.  Three models with
 * different hypers train on the same batches; losses and final parameters must be within four times PyTorch's own
 * float32 error, plus 1e-6; slot b must be bit-equal to its B = 1 run. */
#include "tests/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { META = -1, TEXT = -2 };

/* -D options.  NAME = axis `axis` of tensor `from`; META: what the file's metadata says under that key; TEXT: `from` itself. */
typedef struct Size {
    const char *define, *from;
    int axis;
} Size;

static const struct Workload {
    const char *name;
    Size sizes[8];
} workloads[] = {
    {"mlp", {{"N", "x.0", 0}, {"features", "x.0", 1}, {"width", "m.0.init.fc1.weight", 0}, {"classes", "m.0.init.fc3.weight", 0}}},
    {"lenet", {{"N", "x.0", 0}}},
    {"resnet18", {{"N", "x.0", 0}, {"size", "x.0", 2}, {"width", "width", META}, {"classes", "m.0.init.fc.weight", 0}, {"optim", "sgd", TEXT}}},
    {"mobilenet_v3_large", {{"N", "x.0", 0}, {"size", "x.0", 2}, {"width_multiplier", "width_multiplier", META}, {"head", "head", META},
                            {"classes", "m.0.init.fc2.weight", 0}}},
};

static const struct Workload *find_workload(const Golden *g)
{
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (!strcmp(workloads[i].name, golden_text(g, "workload")))
            return &workloads[i];
    fatal("%s: unknown workload '%s'", g->path, golden_text(g, "workload"));
}

typedef struct Trace {
    const Golden *g;
    char path[512];
    const char *options[20];
    char text[10][64];
    json_t *hypers;
    int n_models, n_steps;
} Trace;

static void trace_begin(Trace *t, const Golden *g)
{
    const struct Workload *w = find_workload(g);
    *t = (Trace){.g = g, .hypers = golden_json(g, "hypers"), .n_models = atoi(golden_text(g, "B")), .n_steps = atoi(golden_text(g, "steps"))};
    snprintf(t->path, sizeof t->path, HFTAC_SAMPLES "/%s.hdl", w->name);
    int n = 0;
    for (const Size *s = w->sizes; s->define; s++, n++) {
        const Tensor *x = s->axis < 0 ? NULL : golden_find(g, s->from);
        if (s->axis < 0)
            snprintf(t->text[n], sizeof t->text[n], "-D%s=%s", s->define, s->axis == META ? golden_text(g, s->from) : s->from);
        else if (x)
            snprintf(t->text[n], sizeof t->text[n], "-D%s=%lld", s->define, (long long)x->dims[s->axis]);
        else
            fatal("%s: no tensor %s", g->path, s->from);
        t->options[n] = t->text[n];
    }
    const char *eps = strstr(golden_text(g, "optimizer"), "eps ");
    if (eps) {
        snprintf(t->text[n], sizeof t->text[n], "-Deps=%g", atof(eps + 4));
        t->options[n] = t->text[n];
    }
}

static void set_model(const Trace *t, hftac_array *a, int model, int slot)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "m.%d.init.", slot);
    for (int i = 0; i < t->g->n; i++) {
        const Tensor *x = &t->g->tensor[i];
        if (!strncmp(x->name, prefix, strlen(prefix)))
            set_param(a, x->name + strlen(prefix), model, x, x->values);
    }
    const char *name;
    json_t *list;
    hftac_hyper drop;
    if (hftac_find_hyper(a, "drop", &drop) == HFTAC_OK) /* the traces have no dropout */
        must(hftac_set_hyper(a, drop, model, 0));
    json_object_foreach(t->hypers, name, list) {
        hftac_hyper h;
        must(hftac_find_hyper(a, name, &h));
        must(hftac_set_hyper(a, h, model, json_number_value(json_array_get(list, (size_t)slot))));
    }
}

/* Inputs x, y, ... of step k are tensors x.k, y.k, ... */
static void step(const Trace *t, hftac_array *a, int k)
{
    for (int i = 0; i < hftac_describe(a)->n_inputs; i++) {
        char name[160];
        const char *input = hftac_describe_input(a, i)->name;
        snprintf(name, sizeof name, "%s.%d", input, k);
        const Tensor *x = golden_find(t->g, name);
        if (!x)
            fatal("%s: no tensor %s", t->g->path, name);
        feed(a, input, x);
    }
    must(hftac_train_step(a));
}

static float read_loss(hftac_array *a, int model)
{
    hftac_metric m;
    double v;
    must(hftac_find_metric(a, "loss", &m));
    must(hftac_read_metric(a, m, model, &v));
    return (float)v;
}

static bool within(const Trace *t, const char *what, int slot, double error, double bound)
{
    if (error <= bound)
        return true;
    printf("FAILED: %s slot %d: %s is off by %.3g, allowed are %.3g\n", t->g->base, slot, what, error, bound);
    return false;
}

static bool compare(const Trace *t, hftac_array *all, hftac_array *one, int slot, const float *loss, double *worst)
{
    json_t *f32 = golden_json(t->g, "float32_error");
    const double final_bound = 4 * json_number_value(json_object_get(f32, "final")) + 1e-6;
    const double loss_bound = 4 * json_number_value(json_object_get(f32, "loss")) + 1e-6;
    json_decref(f32);
    char prefix[32], name[64];
    snprintf(name, sizeof name, "m.%d.loss", slot);
    double error = trace_error(loss, golden_find(t->g, name));
    bool ok = within(t, "loss", slot, error, loss_bound);
    snprintf(prefix, sizeof prefix, "m.%d.final.", slot);
    for (int i = 0; i < t->g->n; i++) {
        const Tensor *x = &t->g->tensor[i];
        if (strncmp(x->name, prefix, strlen(prefix)))
            continue;
        const char *key = x->name + strlen(prefix);
        size_t bytes;
        void *a = get_param(all, key, slot, &bytes), *b = get_param(one, key, 0, &bytes);
        ok &= same_bits(x->name, a, b, bytes);
        error = trace_error(a, x);
        ok &= within(t, key, slot, error, final_bound);
        *worst = fmax(*worst, error);
        free(a);
        free(b);
    }
    return ok;
}

static bool check_trace(const Golden *g)
{
    Trace t;
    trace_begin(&t, g);
    hftac_array *all = compile_file(t.path, t.n_models, t.options);
    if (!all)
        return false;
    float *loss = calloc((size_t)(t.n_models * t.n_steps), sizeof *loss);
    for (int b = 0; b < t.n_models; b++)
        set_model(&t, all, b, b);
    for (int k = 0; k < t.n_steps; k++) {
        step(&t, all, k);
        for (int b = 0; b < t.n_models; b++)
            loss[b * t.n_steps + k] = read_loss(all, b);
    }
    bool ok = true;
    double worst = 0;
    for (int b = 0; ok && b < t.n_models; b++) {
        hftac_array *one = compile_file(t.path, 1, t.options);
        set_model(&t, one, 0, b);
        for (int k = 0; k < t.n_steps; k++)
            step(&t, one, k);
        ok &= compare(&t, all, one, b, loss + b * t.n_steps, &worst);
        hftac_close(one);
    }
    printf("%s: %d models, %d steps, largest error %.3g\n", g->base, t.n_models, t.n_steps, worst);
    free(loss);
    json_decref(t.hypers);
    hftac_close(all);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fatal("usage: check_train DIR");
    check_begin(argv[0]);
    int n, passed = 0, failed = 0;
    char **files = list_files(argv[1], &n);
    for (int i = 0; i < n; i++) {
        Golden g = golden_read(files[i]);
        if (check_trace(&g)) {
            passed++;
        } else {
            printf("FAILED: %s\n", g.base);
            failed++;
        }
        golden_free(&g);
        free(files[i]);
    }
    free(files);
    check_end();
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
