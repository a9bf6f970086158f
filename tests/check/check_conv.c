/* check_conv [STEP]: convolutions and transposed ones against plain loops: values and all
 * gradients, over the whole grid of kernel, stride, padding, dilation, groups and bias, at odd
 * sizes.
 *
 * Of the grid every STEP-th case is taken (default below; 1: all), many in one program: each has
 * its input as a parameter, the loss is the sum of all outputs times given numbers, and an
 * optimizer keeps the gradients.  The machine code that is compared went through the whole
 * compiler. */
#include "tests/check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PER_PROGRAM = 24,
    DEFAULT_STEP = 61,
    MODELS = 2
};

/* Lengths and positions are double loops' business: everything is 2-d, a 1-d case has kernel 1
 * along h. */
typedef struct Case {
    bool transposed, one_axis, same, bias;
    int64_t n, c, o, size[2], kernel[2], stride[2], padding[2], dilation[2], more[2], groups;
    int64_t out[2], before[2];
} Case;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Length of the result along an axis; 0 or less: there is no such case. */
static int64_t out_size(Case *c, int d)
{
    const int64_t reach = c->dilation[d] * (c->kernel[d] - 1);
    if (c->transposed)
        return (c->size[d] - 1) * c->stride[d] - 2 * c->padding[d] + reach + c->more[d] + 1;
    const int64_t all = c->same ? reach : 2 * c->padding[d];
    c->before[d] = c->same ? reach / 2 : c->padding[d];
    return floor_div(c->size[d] + all - reach - 1, c->stride[d]) + 1;
}

/* ---- the grid ---- */

typedef struct Grid {
    Case *v;
    int n, step, seen;
} Grid;

static void add_case(Grid *g, Case c)
{
    for (int d = 0; d < 2; d++) {
        c.out[d] = out_size(&c, d);
        if (c.out[d] < 1 ||
            (c.more[d] && c.more[d] >= c.stride[d] && c.more[d] >= c.dilation[d]))
            return;
    }
    if (g->seen++ % g->step == 0)
        g->v[g->n++] = c;
}

/* Sizes that leave remainders, other ones for each case. */
static void vary_sizes(const Grid *g, Case *c)
{
    static const int64_t sizes[] = {7, 5, 9, 1, 6, 3, 11, 8, 2, 13};
    c->size[0] = c->one_axis ? 1 : sizes[g->seen % 10];
    c->size[1] = sizes[(g->seen * 7 / 3 + 3) % 10];
    c->n = 1 + g->seen % 3;
}

static void add_forms(Grid *g, Case c)
{
    static const int64_t paddings[] = {0, 1, 2, 4};
    for (int p = 0; p < 5; p++)
        for (int bias = 0; bias < 2; bias++) {
            c.same = p == 4 && !c.transposed;
            if (p == 4 && (c.transposed || c.stride[1] > 1 || c.stride[0] > 1))
                continue;
            c.bias = bias == 1;
            c.padding[0] = c.one_axis || c.same ? 0 : paddings[p];
            c.padding[1] = c.same ? 0 : paddings[(p + bias) % 4];
            c.more[0] = c.transposed && !c.one_axis && bias ? c.stride[0] - 1 : 0;
            c.more[1] = c.transposed && p == 1 ? 1 : 0;
            vary_sizes(g, &c);
            add_case(g, c);
        }
}

static void add_kernels(Grid *g, Case c)
{
    static const int64_t kernels[][2] = {{1, 1}, {3, 3}, {2, 3}, {5, 2}, {1, 4}};
    for (int k = 0; k < 5; k++)
        for (int s = 1; s <= 3; s++)
            for (int d = 1; d <= 3; d++) {
                c.kernel[0] = c.one_axis ? 1 : kernels[k][0];
                c.kernel[1] = kernels[k][1];
                c.stride[0] = c.one_axis ? 1 : s;
                c.stride[1] = s == 3 ? 2 : s;
                c.dilation[0] = c.one_axis ? 1 : (d + 1) / 2;
                c.dilation[1] = d;
                add_forms(g, c);
            }
}

static void make_grid(Grid *g)
{
    /* channels, results, groups */
    static const int64_t channels[][3] = {{3, 5, 1}, {4, 6, 2},  {6, 6, 6}, {3, 6, 3},
                                          {1, 1, 1}, {17, 9, 1}, {9, 18, 9}};
    for (int t = 0; t < 2; t++)
        for (int one = 0; one < 2; one++)
            for (int k = 0; k < 7; k++)
                add_kernels(g, (Case){.transposed = t == 1,
                                      .one_axis = one == 1,
                                      .c = channels[k][0],
                                      .o = channels[k][1],
                                      .groups = channels[k][2]});
}

/* ---- plain loops ---- */

typedef struct Data {
    float *x, *w, *bias, *g;     /* given */
    double *y, *gx, *gw, *gbias; /* expected */
    int64_t n_x, n_w, n_y;
} Data;

static float *numbers(int64_t n, uint32_t *seed)
{
    float *v = malloc((size_t)n * sizeof *v + 1);
    for (int64_t i = 0; i < n; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        v[i] = (float)((double)(*seed >> 8) / (1 << 24) - 0.5);
    }
    return v;
}

static Data data_new(const Case *c, uint32_t seed)
{
    Data d = {.n_x = c->n * c->c * c->size[0] * c->size[1],
              .n_w = c->o * c->c / c->groups * c->kernel[0] * c->kernel[1],
              .n_y = c->n * c->o * c->out[0] * c->out[1]};
    d.x = numbers(d.n_x, &seed);
    d.w = numbers(d.n_w, &seed);
    d.bias = numbers(c->o, &seed);
    d.g = numbers(d.n_y, &seed);
    d.y = calloc((size_t)d.n_y, sizeof *d.y);
    d.gx = calloc((size_t)d.n_x, sizeof *d.gx);
    d.gw = calloc((size_t)d.n_w, sizeof *d.gw);
    d.gbias = calloc((size_t)c->o, sizeof *d.gbias);
    return d;
}

static void data_free(Data *d)
{
    free(d->x);
    free(d->w);
    free(d->bias);
    free(d->g);
    free(d->y);
    free(d->gx);
    free(d->gw);
    free(d->gbias);
}

/* One product: the element of the side without taps (`many`) and of the side whose windows these
 * are (`few`). */
static void one_product(const Case *c, Data *d, int64_t n, int64_t o, int64_t ci,
                        const int64_t *t, const int64_t *few)
{
    int64_t many[2];
    for (int k = 0; k < 2; k++)
        many[k] = few[k] * c->stride[k] + t[k] * c->dilation[k] -
                  (c->transposed ? c->padding[k] : c->before[k]);
    const int64_t *in = c->transposed ? few : many, *out = c->transposed ? many : few;
    if (many[0] < 0 || many[1] < 0 || many[0] >= (c->transposed ? c->out[0] : c->size[0]) ||
        many[1] >= (c->transposed ? c->out[1] : c->size[1]))
        return;
    const int64_t per = c->c / c->groups, each = c->o / c->groups,
                  taps = c->kernel[0] * c->kernel[1];
    const int64_t tap = t[0] * c->kernel[1] + t[1];
    const int64_t w =
        c->transposed ? (ci * each + o % each) * taps + tap : (o * per + ci % per) * taps + tap;
    const int64_t x = ((n * c->c + ci) * c->size[0] + in[0]) * c->size[1] + in[1];
    const int64_t y = ((n * c->o + o) * c->out[0] + out[0]) * c->out[1] + out[1];
    d->y[y] += (double)d->x[x] * d->w[w];
    d->gx[x] += (double)d->g[y] * d->w[w];
    d->gw[w] += (double)d->g[y] * d->x[x];
}

static void convolve(const Case *c, Data *d)
{
    const int64_t *few = c->transposed ? c->size : c->out;
    const int64_t per = c->c / c->groups, each = c->o / c->groups;
    for (int64_t y = 0; y < d->n_y; y++) {
        const int64_t o = y / (c->out[0] * c->out[1]) % c->o;
        d->y[y] = c->bias ? d->bias[o] : 0;
        d->gbias[o] += d->g[y];
    }
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t o = 0; o < c->o; o++)
            for (int64_t i = 0; i < per; i++)
                for (int64_t p = 0; p < few[0] * few[1]; p++)
                    for (int64_t t = 0; t < c->kernel[0] * c->kernel[1]; t++)
                        one_product(c, d, n, o, o / each * per + i,
                                    (int64_t[]){t / c->kernel[1], t % c->kernel[1]},
                                    (int64_t[]){p / few[1], p % few[1]});
}

/* ---- the program ---- */

static void add_pair(Source *s, const Case *c, const char *name, const int64_t *v)
{
    if (c->one_axis)
        add(s, ", %s = %lld", name, (long long)v[1]);
    else
        add(s, ", %s = [%lld, %lld]", name, (long long)v[0], (long long)v[1]);
}

static void add_layer(Source *s, const Case *c, int i)
{
    add(s, "  c%d = %s%dd(%lld", i, c->transposed ? "ConvTranspose" : "Conv",
        c->one_axis ? 1 : 2, (long long)c->o);
    add_pair(s, c, "kernel_size", c->kernel);
    add_pair(s, c, "stride", c->stride);
    if (c->same)
        add(s, ", padding = \"same\"");
    else
        add_pair(s, c, "padding", c->padding);
    add_pair(s, c, "dilation", c->dilation);
    if (c->transposed)
        add_pair(s, c, "output_padding", c->more);
    add(s, ", groups = %lld, bias = %s)\n", (long long)c->groups, c->bias ? "true" : "false");
}

static void add_sizes(Source *s, const Case *c, int64_t channels, const int64_t *size)
{
    add(s, "[%lld, %lld", (long long)c->n, (long long)channels);
    if (!c->one_axis)
        add(s, ", %lld", (long long)size[0]);
    add(s, ", %lld]", (long long)size[1]);
}

static void write_program(Source *s, const Case *c, int n)
{
    s->len = 0;
    add(s, "hdl 1\noptimizer Keep() on (p, g) {\n  state grad = 0\n  grad := g\n  return "
           "p\n}\nmodel Case {\n");
    for (int i = 0; i < n; i++) {
        add(s, "  input g%d : f32", i);
        add_sizes(s, &c[i], c[i].o, c[i].out);
        add(s, "\n  x%d = Param(", i);
        add_sizes(s, &c[i], c[i].c, c[i].size);
        add(s, ")\n");
        add_layer(s, &c[i], i);
        add(s, "  output y%d = c%d(x%d)\n", i, i, i);
    }
    add(s, "  total = 0\n");
    for (int i = 0; i < n; i++)
        add(s, "  total = total + sum(y%d * g%d)\n", i, i);
    add(s, "  loss total\n}\ntrain Case {\n  batch N = 1\n  optimizer Keep()\n}\n");
}

/* ---- running and comparing ---- */

static void set_values(hftac_array *a, int model, int i, const char *what, const float *v,
                       int64_t n)
{
    char name[32];
    snprintf(name, sizeof name, what, i);
    set_param(a, name, model, &(Tensor){.count = n, .type = HFTAC_F32}, v);
}

static bool close_to(const float *v, const double *expected, int64_t n)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (v[i] - expected[i]) * (v[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return sqrt(difference) <= 2e-6 * sqrt(norm) + 1e-6 * sqrt((double)n);
}

static bool check_gradient(hftac_array *a, int model, int i, const char *what,
                           const double *expected, int64_t n)
{
    char name[64];
    size_t bytes;
    snprintf(name, sizeof name, what, i);
    float *v = get_param(a, name, model, &bytes);
    const bool ok = bytes == (size_t)n * sizeof *v && close_to(v, expected, n);
    if (!ok)
        printf("FAILED: %s of model %d\n", name, model);
    free(v);
    return ok;
}

static bool check_output(hftac_array *a, int model, int i, const Data *d)
{
    char name[32];
    const void *v;
    hftac_output out;
    snprintf(name, sizeof name, "y%d", i);
    must(hftac_find_output(a, name, &out));
    must(hftac_read_output(a, out, model, &v));
    const bool ok = hftac_describe_output(a, out)->bytes == (size_t)d->n_y * sizeof(float) &&
                    close_to(v, d->y, d->n_y);
    if (!ok)
        printf("FAILED: %s of model %d\n", name, model);
    return ok;
}

static bool check_model(hftac_array *a, int model, int i, const Case *c, const Data *d)
{
    bool ok = check_output(a, model, i, d);
    ok &= check_gradient(a, model, i, "optimizer.grad.x%d", d->gx, d->n_x);
    ok &= check_gradient(a, model, i, "optimizer.grad.c%d.weight", d->gw, d->n_w);
    if (c->bias)
        ok &= check_gradient(a, model, i, "optimizer.grad.c%d.bias", d->gbias, c->o);
    return ok;
}

static int check_program(const Case *c, int n)
{
    static Source s;
    write_program(&s, c, n);
    hftac_array *a = compile_text(s.text, MODELS);
    if (!a)
        return n;
    Data d[PER_PROGRAM][MODELS];
    for (int i = 0; i < n; i++)
        for (int m = 0; m < MODELS; m++) {
            d[i][m] = data_new(&c[i], (uint32_t)(1 + i * MODELS + m));
            if (m) /* the gradient is shared */
                memcpy(d[i][m].g, d[i][0].g, (size_t)d[i][0].n_y * sizeof(float));
            convolve(&c[i], &d[i][m]);
            set_values(a, m, i, "x%d", d[i][m].x, d[i][m].n_x);
            set_values(a, m, i, "c%d.weight", d[i][m].w, d[i][m].n_w);
            if (c[i].bias)
                set_values(a, m, i, "c%d.bias", d[i][m].bias, c[i].o);
        }
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", i);
        feed(a, name, &(Tensor){.values = d[i][0].g});
    }
    must(hftac_predict_step(a, 1));
    must(hftac_train_step(a));
    int failed = 0;
    for (int i = 0; i < n; i++) {
        bool ok = true;
        for (int m = 0; m < MODELS; m++)
            ok &= check_model(a, m, i, &c[i], &d[i][m]);
        if (!ok) {
            Source line = {.len = 0};
            add_layer(&line, &c[i], i);
            printf("        x%d %lld x %lld x %lld x %lld, %s", i, (long long)c[i].n,
                   (long long)c[i].c, (long long)c[i].size[0], (long long)c[i].size[1],
                   line.text + 1);
        }
        failed += !ok;
        for (int m = 0; m < MODELS; m++)
            data_free(&d[i][m]);
    }
    hftac_close(a);
    return failed;
}

/* The case of semantics.md: groups are not mixed up. */
static int check_groups(void)
{
    Case c = {.n = 1, .c = 4, .o = 16, .groups = 2};
    for (int d = 0; d < 2; d++)
        c.size[d] = c.kernel[d] = c.stride[d] = c.dilation[d] = c.out[d] = 1;
    static Source s;
    write_program(&s, &c, 1);
    hftac_array *a = compile_text(s.text, 1);
    if (!a)
        return 1;
    const float x[4] = {0, 0, 0, 1};
    float w[32];
    double y[16];
    for (int i = 0; i < 32; i++)
        w[i] = 1;
    for (int i = 0; i < 16; i++)
        y[i] = i >= 8;
    set_values(a, 0, 0, "x%d", x, 4);
    set_values(a, 0, 0, "c%d.weight", w, 32);
    must(hftac_predict_step(a, 1));
    const bool ok = check_output(a, 0, 0, &(Data){.y = y, .n_y = 16});
    hftac_close(a);
    return !ok;
}

int main(int argc, char **argv)
{
    check_begin(argv[0]);
    Grid g = {.v = calloc(20000, sizeof(Case)),
              .step = argc > 1 ? atoi(argv[1]) : DEFAULT_STEP};
    if (g.step < 1)
        fatal("usage: check_conv [STEP]");
    make_grid(&g);
    int failed = check_groups();
    for (int i = 0; i < g.n; i += PER_PROGRAM)
        failed += check_program(&g.v[i], g.n - i < PER_PROGRAM ? g.n - i : PER_PROGRAM);
    printf("%d passed, %d failed, of a grid of %d\n", g.n + 1 - failed, failed, g.seen);
    const bool any = g.n > 0;
    free(g.v);
    check_end();
    return failed || !any;
}
