/* check_optim DIR: optimizers, clipping and schedules against golden traces.
 *
 * The loss sum(p * g) has the gradient g exactly.  Every number that the file gives an optimizer
 * becomes a hyper, so that the three slots can differ. */
#include "tests/check/check.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *file, *hdl;
} optimizers[] = {
    {"sgd", "SGD"},           {"adam", "Adam"},       {"adamw", "AdamW"},
    {"adadelta", "Adadelta"}, {"adagrad", "Adagrad"}, {"rmsprop", "RMSprop"},
    {"adamax", "Adamax"},     {"nadam", "NAdam"},     {"radam", "RAdam"},
    {"lion", "Lion"},         {"lamb", "LAMB"},
};

static const struct {
    const char *file, *hdl;
} schedules[] = {
    {"step", "StepLR"},
    {"exponential", "ExponentialLR"},
    {"cosine", "CosineAnnealingLR"},
    {"multistep", "MultiStepLR"},
    {"cosine_restarts", "CosineAnnealingWarmRestarts"},
    {"linear", "LinearLR"},
    {"constant", "ConstantLR"},
    {"polynomial", "PolynomialLR"},
    {"onecycle", "OneCycleLR"},
    {"cyclic", "CyclicLR"},
    {"reduce_on_plateau", "ReduceLROnPlateau"},
};

static const char *optimizer_name(const Golden *g)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (!strcmp(optimizers[i].file, golden_text(g, "optimizer")))
            return optimizers[i].hdl;
    fatal("%s: unknown optimizer %s", g->path, golden_text(g, "optimizer"));
}

/* Numbers become hypers h0, h1, ... (declared in `heads`), the rest stays as it is. */
static void add_argument(Source *heads, Source *call, const json_t *v, int *n)
{
    if (json_is_number(v)) {
        add(heads, "hyper h%d = %.17g\n", *n, json_number_value(v));
        add(call, "h%d", (*n)++);
    } else if (json_is_array(v)) {
        for (size_t i = 0; i < json_array_size(v); i++) {
            add(call, i ? ", " : "[");
            add_argument(heads, call, json_array_get(v, i), n);
        }
        add(call, "]");
    } else {
        add_json(call, v);
    }
}

static void write_optimizer(Source *s, const Golden *g, int *n_hypers)
{
    static Source call;
    call.len = 0;
    call.text[0] = 0;
    json_t *args = golden_json(g, "args");
    const char *name;
    json_t *v;
    *n_hypers = 0;
    add(s, "hdl 1\n");
    json_object_foreach(args, name, v)
    {
        add(&call, "%s%s = ", call.len ? ", " : "", name);
        add_argument(s, &call, v, n_hypers);
    }
    json_decref(args);
    const Tensor *p = golden_find(g, "p0");
    add(s, "model Case {\n  input g : f32");
    add_shape(s, p);
    add(s, "\n  p = Param(");
    add_shape(s, p);
    add(s, ")\n  loss sum(p * g)\n}\ntrain Case {\n  batch N = 1\n  optimizer %s(%s)\n}\n",
        optimizer_name(g), call.text);
}

/* Slots other than the golden one have other hypers. */
static void set_hypers(hftac_array *a, int n_hypers, int model, int slot, int home)
{
    for (int h = 0; h < n_hypers; h++) {
        char name[16];
        hftac_hyper handle;
        snprintf(name, sizeof name, "h%d", h);
        must(hftac_find_hyper(a, name, &handle));
        const double v = hftac_describe_hyper(a, handle)->value;
        must(hftac_set_hyper(a, handle, model,
                             slot == home ? v : v * (slot > home ? 0.9 : 0.8)));
    }
}

static bool check_trace(const Golden *g, int home)
{
    static Source s;
    s.len = 0;
    int n_hypers;
    write_optimizer(&s, g, &n_hypers);
    hftac_array *three = compile_text(s.text, SLOTS), *one[SLOTS] = {0};
    bool ok = three != NULL;
    const Tensor *p0 = golden_find(g, "p0");
    for (int b = 0; ok && b < SLOTS; b++) {
        one[b] = compile_text(s.text, 1);
        set_hypers(three, n_hypers, b, b, home);
        set_hypers(one[b], n_hypers, 0, b, home);
        void *v = slot_values(p0, b, home);
        set_param(three, "p", b, p0, v);
        set_param(one[b], "p", 0, p0, v);
        free(v);
    }
    for (int t = 0; ok; t++) {
        char name[32], what[256];
        snprintf(name, sizeof name, "grad.%d", t);
        const Tensor *grad = golden_find(g, name);
        if (!grad)
            break;
        feed(three, "g", grad);
        must(hftac_train_step(three));
        for (int b = 0; b < SLOTS; b++) {
            size_t bytes;
            feed(one[b], "g", grad);
            must(hftac_train_step(one[b]));
            void *x = get_param(three, "p", b, &bytes), *y = get_param(one[b], "p", 0, &bytes);
            snprintf(what, sizeof what, "%s step %d slot %d", g->base, t, b);
            ok &= same_bits(what, x, y, bytes);
            if (b == home) {
                snprintf(name, sizeof name, "p.%d", t);
                ok &= close_enough(what, x, golden_find(g, name), 1e-5, 1e-6);
            }
            free(x);
            free(y);
        }
    }
    hftac_close(three);
    for (int b = 0; b < SLOTS; b++)
        hftac_close(one[b]);
    if (!ok)
        printf("FAILED: %s\n", g->base);
    return ok;
}

/* torch.nn.utils.clip_grad_norm_: SGD with lr 1 from 0 leaves minus the clipped gradient. */
static bool check_clip(const Golden *g)
{
    static Source s;
    s.len = 0;
    add(&s, "hdl 1\nhyper bound = %s\nmodel Case {\n", golden_text(g, "max_norm"));
    int n = 0;
    char name[64];
    for (;; n++) {
        snprintf(name, sizeof name, "grad.%d", n);
        const Tensor *t = golden_find(g, name);
        if (!t)
            break;
        add(&s, "  input g%d : f32", n);
        add_shape(&s, t);
        add(&s, "\n  p%d = Param(", n);
        add_shape(&s, t);
        add(&s, ")\n");
    }
    add(&s, "  loss ");
    for (int i = 0; i < n; i++)
        add(&s, "%ssum(p%d * g%d)", i ? " + " : "", i, i);
    add(&s,
        "\n}\ntrain Case {\n  batch N = 1\n  optimizer SGD(lr = 1)\n  clip norm(bound)\n}\n");
    hftac_array *a = compile_text(s.text, SLOTS);
    bool ok = a != NULL;
    for (int i = 0; ok && i < n; i++) {
        char input[16];
        snprintf(name, sizeof name, "grad.%d", i);
        snprintf(input, sizeof input, "g%d", i);
        feed(a, input, golden_find(g, name));
    }
    if (ok)
        must(hftac_train_step(a));
    for (int i = 0; ok && i < n; i++) {
        char param[16];
        snprintf(param, sizeof param, "p%d", i);
        snprintf(name, sizeof name, "clipped.%d", i);
        for (int b = 0; b < SLOTS; b++) {
            size_t bytes;
            float *v = get_param(a, param, b, &bytes);
            for (size_t k = 0; k < bytes / sizeof *v; k++)
                v[k] = -v[k];
            ok &= close_enough(name, v, golden_find(g, name), 1e-5, 1e-6);
            free(v);
        }
    }
    hftac_close(a);
    return ok;
}

static bool check_schedule(const char *name, const char *hdl, const json_t *row)
{
    static Source s;
    static Source call;
    s.len = call.len = 0;
    call.text[0] = 0;
    int n = 0;
    add(&s, "hdl 1\nhyper base = %.17g\n", json_number_value(json_object_get(row, "base_lr")));
    const char *arg;
    json_t *v;
    json_object_foreach(json_object_get(row, "args"), arg, v)
    {
        add(&call, "%s%s = ", call.len ? ", " : "", arg);
        add_argument(&s, &call, v, &n);
    }
    /* The loss is what is fed: the metric that a schedule may follow. */
    add(&s,
        "model Case {\n  input g : f32[1]\n  p = Param([1])\n  loss sum(g) + 0 * sum(p)\n}\n");
    add(&s,
        "train Case {\n  batch N = 1\n  epochs 50\n  optimizer SGD(lr = base)\n  schedule "
        "%s(%s)\n}\n",
        hdl, call.text);
    hftac_array *a = compile_text(s.text, SLOTS);
    if (!a)
        return false;
    hftac_metric factor, loss;
    must(hftac_find_metric(a, "schedule", &factor));
    must(hftac_find_metric(a, "loss", &loss));
    float fed = 1;
    const Tensor g = {.type = HFTAC_F32, .rank = 1, .dims = {1}, .count = 1, .values = &fed};
    bool ok = true;
    const json_t *metric = json_object_get(row, "metric");
    const double base = json_number_value(json_object_get(row, "base_lr"));
    const json_t *lr = json_object_get(row, "lr");
    for (size_t e = 0; e < json_array_size(lr); e++) {
        if (metric)
            fed = (float)json_number_value(json_array_get(metric, e));
        feed(a, "g", &g);
        must(hftac_train_step(a));
        const double want = json_number_value(json_array_get(lr, e));
        for (int b = 0; b < SLOTS; b++) {
            double f;
            must(hftac_read_metric(a, factor, b, &f));
            if (!(fabs(f * base - want) <=
                  1e-12 * fabs(want) + 1e-15)) { /* double against double */
                printf("FAILED: schedule %s, epoch %zu: %.17g, not %.17g\n", name, e, f * base,
                       want);
                ok = false;
            }
        }
        must(hftac_epoch_end(a, loss));
    }
    hftac_close(a);
    return ok;
}

static void check_schedules(const char *directory, int *passed, int *failed)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/schedules.json", directory);
    json_error_t error;
    json_t *all = json_load_file(path, 0, &error);
    if (!all) {
        printf("note: no %s\n", path);
        return;
    }
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        const json_t *row = json_object_get(all, schedules[i].file);
        if (!row)
            continue;
        if (check_schedule(schedules[i].file, schedules[i].hdl, row))
            ++*passed;
        else
            ++*failed;
    }
    json_decref(all);
}

/* ---- schedules in a row, and per step ---- */

enum {
    STEPS_PER_EPOCH = 2,
    CHAIN_EPOCHS = 8
};

static double linear_then_step(int epoch, int step)
{
    (void)step;
    return epoch < 4 ? 0.1 + 0.9 * epoch / 4 : pow(0.5, (epoch - 4) / 3);
}

static double three_in_a_row(int epoch, int step)
{
    (void)epoch;
    return step < 2 ? 0.25 : step < 5 ? pow(1 - (step - 2) / 3.0, 2) : pow(0.9, step - 5);
}

static double cosine_steps(int epoch, int step)
{
    (void)epoch;
    return (1 + cos(acos(-1) * step / 5)) / 2;
}

/* Over the whole run, 16 steps: up over .25 * 16 - 1 of them. */
static double one_cycle(int epoch, int step)
{
    (void)epoch;
    const double top = 3, last = 15;
    return step <= top ? 0.5 + (4 - 0.5) * step / top
                       : 4 + (0.5 / 100 - 4) * (step - top) / (last - top);
}

static const struct {
    const char *hdl;
    double (*factor)(int epoch, int step);
} chains[] = {
    {"LinearLR(start_factor = 0.1, total_iters = 4) then StepLR(step_size = 3, gamma = 0.5)",
     linear_then_step},
    {"ConstantLR(factor = 0.25, total_iters = 2) then PolynomialLR(total_iters = 3, power = 2) "
     "then ExponentialLR(gamma = 0.9) per step",
     three_in_a_row},
    {"CosineAnnealingLR(T_max = 5) per step", cosine_steps},
    {"OneCycleLR(max_lr = 2, pct_start = 0.25, anneal_strategy = \"linear\", div_factor = 8, "
     "final_div_factor = 100) per step",
     one_cycle},
};

static bool check_chain(int i)
{
    static Source s;
    s.len = 0;
    add(&s,
        "hdl 1\nmodel Case {\n  input g : f32[1]\n  p = Param([1])\n  loss sum(p * g)\n}\n");
    add(&s,
        "train Case {\n  batch N = 1\n  epochs %d\n  optimizer SGD(lr = 0.5)\n  schedule "
        "%s\n}\n",
        CHAIN_EPOCHS, chains[i].hdl);
    hftac_array *a = compile_text(s.text, SLOTS);
    if (!a)
        return false;
    hftac_metric factor;
    must(hftac_find_metric(a, "schedule", &factor));
    must(hftac_set_plan(a, CHAIN_EPOCHS, STEPS_PER_EPOCH));
    const Tensor g = {
        .type = HFTAC_F32, .rank = 1, .dims = {1}, .count = 1, .values = &(float){1}};
    bool ok = true;
    for (int epoch = 0; epoch < CHAIN_EPOCHS; epoch++) {
        for (int k = 0; k < STEPS_PER_EPOCH; k++) {
            const double want = chains[i].factor(epoch, epoch * STEPS_PER_EPOCH + k);
            double f;
            feed(a, "g", &g);
            must(hftac_train_step(a));
            must(hftac_read_metric(a, factor, SLOTS - 1, &f));
            if (!(fabs(f - want) <= 1e-12 * fabs(want) + 1e-15)) {
                printf("FAILED: %s, epoch %d, step %d: %.17g, not %.17g\n", chains[i].hdl,
                       epoch, k, f, want);
                ok = false;
            }
        }
        must(hftac_epoch_end(a, HFTAC_NO_METRIC));
    }
    hftac_close(a);
    return ok;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        fatal("usage: check_optim DIR");
    check_begin(argv[0]);
    int n, passed = 0, failed = 0;
    char **files = list_files(argv[1], &n);
    for (int i = 0; i < n; i++) {
        Golden g = golden_read(files[i]);
        const bool clip = golden_find(&g, "clipped.0") != NULL;
        if (clip ? check_clip(&g) : check_trace(&g, i % SLOTS))
            passed++;
        else
            failed++;
        golden_free(&g);
        free(files[i]);
    }
    free(files);
    check_schedules(argv[1], &passed, &failed);
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        if (check_chain((int)i))
            passed++;
        else
            failed++;
    check_end();
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
