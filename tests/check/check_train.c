/* check_train DIR: whole training runs of the workloads against golden traces.
 *
 * A file names its workload; the program is that sample with sizes from the file's tensors and
 * metadata, and a train section made from what the metadata says of optimizer, eps and clipping.
 * Three models with different hypers train on the same batches; losses and final parameters must
 * be within four times PyTorch's own float32 error, plus 1e-6; slot b must be bit-equal to its B
 * = 1 run. */
#include "tests/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -Ddefine = axis `axis` of the tensor `from`, or the metadata value `from` if axis is META. */
enum {
    META = -1,
    MAX_SIZES = 9
};
typedef struct Size {
    const char *define, *from;
    int axis;
} Size;

#define INIT(key) "m.0.init." key
static const struct Workload {
    const char *name;
    Size sizes[MAX_SIZES];
} workloads[] = {
    {"mlp",
     {{"features", "x.0", 1},
      {"width", INIT("fc1.weight"), 0},
      {"classes", INIT("fc3.weight"), 0}}},
    {"lenet", {{0}}},
    {"pointnet_cls",
     {{"width_divisor", "width_divisor", META},
      {"points", "x.0", 1},
      {"classes", INIT("fc3.weight"), 0}}},
    {"pointnet_seg",
     {{"width_divisor", "width_divisor", META},
      {"points", "x.0", 1},
      {"classes", INIT("conv4.weight"), 0}}},
    {"dcgan", {{"nz", "z.0", 1}, {"width", INIT("g.up4.weight"), 0}}},
    {"resnet18",
     {{"width", INIT("conv1.weight"), 0},
      {"size", "x.0", 2},
      {"classes", INIT("fc.weight"), 0}}},
    {"mobilenet_v3_large",
     {{"width_multiplier", "width_multiplier", META},
      {"head", INIT("fc1.weight"), 0},
      {"size", "x.0", 2},
      {"classes", INIT("fc2.weight"), 0}}},
    {"transformer_lm",
     {{"vocab", INIT("embed.weight"), 0},
      {"d_model", INIT("embed.weight"), 1},
      {"ff", INIT("layers.0.linear1.weight"), 0},
      {"length", "x.0", 1},
      {"heads", "heads", META},
      {"depth", "layers", META}}},
    {"bert",
     {{"vocab", INIT("token.weight"), 0},
      {"hidden", INIT("token.weight"), 1},
      {"positions", INIT("position.weight"), 0},
      {"length", "x.0", 1},
      {"heads", "heads", META},
      {"depth", "layers", META},
      {"padding_id", "padding_id", META}}},
};

/* Metadata's spelling of an optimizer, and the standard library's. */
static const char *const optimizers[][2] = {
    {"sgd", "SGD"},           {"adam", "Adam"},       {"adamw", "AdamW"},
    {"adadelta", "Adadelta"}, {"adagrad", "Adagrad"}, {"rmsprop", "RMSprop"},
    {"adamax", "Adamax"},     {"nadam", "NAdam"},     {"radam", "RAdam"},
    {"lion", "Lion"},         {"lamb", "LAMB"},
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
    Source program, included; /* included: what its includes say, to be searched */
    const char *options[2 * MAX_SIZES + 4];
    char text[MAX_SIZES][64];
    json_t *hypers;
    int n_models, n_steps;
} Trace;

static const Tensor *need(const Golden *g, const char *name)
{
    const Tensor *x = golden_find(g, name);
    if (!x)
        fatal("%s: no tensor %s", g->path, name);
    return x;
}

static void set_sizes(Trace *t, const struct Workload *w)
{
    int n = 0;
    t->options[n++] = "-I" HFTAC_SAMPLES;
    for (int i = 0; i < MAX_SIZES && w->sizes[i].define; i++) {
        const Size *s = &w->sizes[i];
        const size_t room = sizeof t->text[i];
        if (s->axis != META)
            snprintf(t->text[i], room, "-D%s=%lld", s->define,
                     (long long)need(t->g, s->from)->dims[s->axis]);
        else if (*golden_text(t->g, s->from))
            snprintf(t->text[i], room, "-D%s=%s", s->define, golden_text(t->g, s->from));
        else
            continue;
        t->options[n++] = t->text[i];
    }
}

static void add_file(Source *to, const char *name, Source *included)
{
    char path[512], line[512], other[128];
    snprintf(path, sizeof path, HFTAC_SAMPLES "/%s", name);
    FILE *f = fopen(path, "r");
    if (!f)
        fatal("cannot read %s", path);
    while (fgets(line, sizeof line, f) && strncmp(line, "train ", 6)) {
        add(to, "%s", line);
        if (sscanf(line, "include \"%127[^\"]", other) == 1)
            add_file(included, other, included);
    }
    fclose(f);
}

/* The sample without its train section, which stands last in every sample. */
static void add_model(Trace *t, const char *workload)
{
    char name[128];
    snprintf(name, sizeof name, "%s.hdl", workload);
    add_file(&t->program, name, &t->included);
}

static bool has_hyper(const Trace *t, const char *name)
{
    return json_object_get(t->hypers, name) != NULL;
}

/* lr, momentum, ... as far as the trace varies them; `suffix` is of the learning rate's name. */
static void add_optimizer(Trace *t, const char *suffix)
{
    static const char *const plain[] = {"momentum", "rho", "alpha", "weight_decay", "lr_decay"};
    const char *text = golden_text(t->g, "optimizer"), *eps = strstr(text, "eps "),
               *name = NULL;
    const size_t len = strcspn(text, ", ");
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        if (strlen(optimizers[i][0]) == len && !strncmp(text, optimizers[i][0], len))
            name = optimizers[i][1];
    if (!name)
        fatal("%s: unknown optimizer '%s'", t->g->path, text);
    add(&t->program, "%s(lr = lr%s", name, suffix);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (has_hyper(t, plain[i]))
            add(&t->program, ", %s = %s", plain[i], plain[i]);
    if (has_hyper(t, "beta1"))
        add(&t->program, ", betas = (beta1, beta2)");
    if (eps)
        add(&t->program, ", eps = %.17g", atof(eps + 4));
    add(&t->program, ")\n");
}

static void add_train(Trace *t)
{
    const Tensor *x = golden_find(t->g, "x.0") ? need(t->g, "x.0") : need(t->g, "real.0");
    add(&t->program, "train {\n  batch N = %lld\n", (long long)x->dims[0]);
    if (golden_find(t->g, "m.0.loss")) {
        add(&t->program, "  optimizer ");
        add_optimizer(t, "");
    } else {
        /* Two networks, two losses. */
        add(&t->program, "  update d minimize loss_d with ");
        add_optimizer(t, "_d");
        add(&t->program, "  update g minimize loss_g with ");
        add_optimizer(t, "_g");
    }
    if (*golden_text(t->g, "clip_grad_norm"))
        add(&t->program, "  clip norm(%s)\n", golden_text(t->g, "clip_grad_norm"));
    add(&t->program, "}\n");
}

/* Hypers that the trace varies and the sample does not have. */
static void add_hypers(Trace *t)
{
    const char *name;
    json_t *list;
    json_object_foreach(t->hypers, name, list)
    {
        char line[96];
        snprintf(line, sizeof line, "\nhyper %s ", name);
        if (!strstr(t->program.text, line) && !strstr(t->included.text, line))
            add(&t->program, "hyper %s = 0\n", name);
    }
}

static void trace_begin(Trace *t, const Golden *g)
{
    const struct Workload *w = find_workload(g);
    *t = (Trace){.g = g,
                 .hypers = golden_json(g, "hypers"),
                 .n_models = atoi(golden_text(g, "B")),
                 .n_steps = atoi(golden_text(g, "steps"))};
    set_sizes(t, w);
    add_model(t, w->name);
    add_hypers(t);
    add_train(t);
}

static void set_hyper(hftac_array *a, const char *name, int model, double v)
{
    hftac_hyper h;
    must(hftac_find_hyper(a, name, &h));
    must(hftac_set_hyper(a, h, model, v));
}

/* Parameters and hypers of the trace's model `slot`; the traces have no dropout. */
static void set_model(const Trace *t, hftac_array *a, int model, int slot)
{
    for (int i = 0; i < hftac_describe(a)->n_hypers; i++)
        if (!strcmp(hftac_describe_hyper(a, i)->name, "drop"))
            set_hyper(a, "drop", model, 0);
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
    json_object_foreach(t->hypers, name, list)
        set_hyper(a, name, model, json_number_value(json_array_get(list, (size_t)slot)));
}

/* Inputs x, y, ... of step k are tensors x.k, y.k, ... */
static void step(const Trace *t, hftac_array *a, int k)
{
    for (int i = 0; i < hftac_describe(a)->n_inputs; i++) {
        char name[160];
        const char *input = hftac_describe_input(a, i)->name;
        snprintf(name, sizeof name, "%s.%d", input, k);
        feed(a, input, need(t->g, name));
    }
    must(hftac_train_step(a));
}

enum {
    MAX_LOSSES = 4
};

/* The trace's losses: tensors m.SLOT.NAME, NAME beginning with loss. */
typedef struct Losses {
    int n;
    const char *name[MAX_LOSSES];
    float *value; /* [n_models, n, n_steps] */
} Losses;

static Losses losses_of(const Trace *t)
{
    Losses l = {0};
    for (int i = 0; i < t->g->n && l.n < MAX_LOSSES; i++)
        if (!strncmp(t->g->tensor[i].name, "m.0.loss", 8))
            l.name[l.n++] = t->g->tensor[i].name + 4;
    if (!l.n)
        fatal("%s: no loss", t->g->path);
    l.value = calloc((size_t)(t->n_models * l.n * t->n_steps), sizeof *l.value);
    return l;
}

static float *loss_at(const Trace *t, const Losses *l, int slot, int loss)
{
    return l->value + (slot * l->n + loss) * t->n_steps;
}

static void read_losses(const Trace *t, const Losses *l, hftac_array *a, int k)
{
    for (int i = 0; i < l->n; i++)
        for (int b = 0; b < t->n_models; b++) {
            hftac_metric m;
            double v;
            must(hftac_find_metric(a, l->name[i], &m));
            must(hftac_read_metric(a, m, b, &v));
            loss_at(t, l, b, i)[k] = (float)v;
        }
}

static bool within(const Trace *t, const char *what, int slot, double error, double bound)
{
    if (error <= bound)
        return true;
    printf("FAILED: %s slot %d: %s is off by %.3g, allowed are %.3g\n", t->g->base, slot, what,
           error, bound);
    return false;
}

/* Where a ReLU's operand is nearer to 0 than its own rounding, the gradient takes one side or the
 * other, and parameters are off by
 * one of two sizes.  Four operands of the traces are that near (a rerun of them in float64 by
 * PyTorch 2.15, which gives
 * the golden values; the error is a layer's mean in float32; what follows is the largest error in
 * a final parameter
 * if float64 takes the other side there, against 2.6e-4 that are allowed):
 *   pointnet_seg, model 2, step 2: bn3, element 1266: 2.6e-7, error 1.6e-5; the other side is
 *   1.1e-3 off (bn1.bias)
 *   mobilenet_v3_large, model 0, step 0: blocks.2.pw_bn, 10641: 3.4e-7, error 2.6e-7; 1.3e-3
 *   (blocks.4.pw_bn.bias)
 *   mobilenet_v3_large, model 1, step 2: blocks.2.dw_bn, 24496: 3.1e-7, error 5.1e-7; 1.4e-3
 *   (blocks.2.dw_bn.bias)
 *                                        blocks.3.pw_bn, 35090: 5.6e-7, error 5.9e-7; 6.9e-4
 *                                        (blocks.3.pw_bn.bias)
 * So a change of bits alone, of the order of a sum or a fused multiplication, may fail here with
 * errors of these sizes in
 * these models, and is no worse for that; any other failure is a fault. */
static double allowed(const Trace *t, const char *what)
{
    json_t *f32 = golden_json(t->g, "float32_error");
    const double bound = 4 * json_number_value(json_object_get(f32, what)) + 1e-6;
    json_decref(f32);
    return bound;
}

static bool compare_losses(const Trace *t, const Losses *l, int slot)
{
    bool ok = true;
    for (int i = 0; i < l->n; i++) {
        char name[128];
        snprintf(name, sizeof name, "m.%d.%s", slot, l->name[i]);
        ok &= within(t, l->name[i], slot, trace_error(loss_at(t, l, slot, i), need(t->g, name)),
                     allowed(t, "loss"));
    }
    return ok;
}

static bool compare_params(const Trace *t, hftac_array *all, hftac_array *one, int slot,
                           double *worst)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "m.%d.final.", slot);
    bool ok = true;
    for (int i = 0; i < t->g->n; i++) {
        const Tensor *x = &t->g->tensor[i];
        if (strncmp(x->name, prefix, strlen(prefix)))
            continue;
        const char *key = x->name + strlen(prefix);
        size_t bytes;
        void *a = get_param(all, key, slot, &bytes), *b = get_param(one, key, 0, &bytes);
        ok &= same_bits(x->name, a, b, bytes);
        const double error = trace_error(a, x);
        ok &= within(t, key, slot, error, allowed(t, "final"));
        *worst = fmax(*worst, error);
        free(a);
        free(b);
    }
    return ok;
}

static bool compare_slots(const Trace *t, const Losses *l, hftac_array *all, hftac_array *one)
{
    bool ok = true;
    double worst = 0;
    for (int b = 0; b < t->n_models; b++) {
        must(hftac_reset_model(one, 0));
        set_model(t, one, 0, b);
        for (int k = 0; k < t->n_steps; k++)
            step(t, one, k);
        ok &= compare_losses(t, l, b);
        ok &= compare_params(t, all, one, b, &worst);
    }
    printf("%s: %d models, %d steps, largest error %.3g of %.3g\n", t->g->base, t->n_models,
           t->n_steps, worst, allowed(t, "final"));
    return ok;
}

static bool check_trace(const Golden *g)
{
    static Trace t;
    trace_begin(&t, g);
    hftac_array *all = compile_text_options(t.program.text, t.n_models, t.options);
    hftac_array *one = compile_text_options(t.program.text, 1, t.options);
    bool ok = all && one;
    if (ok) {
        Losses l = losses_of(&t);
        for (int b = 0; b < t.n_models; b++)
            set_model(&t, all, b, b);
        for (int k = 0; k < t.n_steps; k++) {
            step(&t, all, k);
            read_losses(&t, &l, all, k);
        }
        ok = compare_slots(&t, &l, all, one);
        free(l.value);
    }
    json_decref(t.hypers);
    hftac_close(one);
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
