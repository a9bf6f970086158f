/* codegen/cpu against the reference: .hir text, a plan by hand, model.so, run for two models;
 * every output compared, guard words round every array. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "ir/index.h"
#include "ir/print.h"
#include "ir/read.h"
#include "runtime/model/image.h"
#include "tests/unit/handplan.h"
#include "tests/unit/ref.h"

enum {
    MODELS = 2,
    GUARD = 64
};

typedef struct Case {
    const char *name, *declarations, *body;
} Case;

static int failures;

#define CHECK(cond, ...)                           \
    do {                                           \
        if (!(cond)) {                             \
            printf("%s:%d: ", __FILE__, __LINE__); \
            printf(__VA_ARGS__);                   \
            printf("\n");                          \
            failures++;                            \
        }                                          \
    } while (0)

#define F32_XY                   \
    "input \"x\" : f32[5, 37]\n" \
    "input \"y\" each : f32[2 | 5, 37]\n"
#define X "  %x = input name=\"x\" : f32[5, 37]\n"
#define Y "  %y = input name=\"y\" : f32[2 | 5, 37]\n"

static const Case cases[] = {
    {"elementwise", F32_XY,
     X Y "  %a = add %x, %y : f32[2 | 5, 37]\n"
         "  %m = mul %a, %x : f32[2 | 5, 37]\n"
         "  %r = relu %m : f32[2 | 5, 37]\n"
         "  %e = exp %y : f32[2 | 5, 37]\n"
         "  output \"r\" %r\n  output \"e\" %e\n  output \"x\" %x\n"},
    {"broadcast", F32_XY "hyper \"lr\" = 0.5\nparam \"b\" : f32[2 | 37]\n",
     X Y "  %b = state name=\"b\" : f32[2 | 37]\n"
         "  %lr = hyper name=\"lr\" : f64[2 | ]\n"
         "  %c = cast %lr to=f32 : f32[2 | ]\n"
         "  %s = sub %y, %b : f32[2 | 5, 37]\n"
         "  %t = mul %s, %c : f32[2 | 5, 37]\n"
         "  %l = cast %t to=f64 : f64[2 | 5, 37]\n"
         "  output \"t\" %t\n  output \"l\" %l\n  state \"b\" %b\n"},
    {"bool and integers", F32_XY "input \"u\" : u8[5, 37]\ninput \"k\" : i64[37]\n",
     X Y "  %u = input name=\"u\" : u8[5, 37]\n"
         "  %k = input name=\"k\" : i64[37]\n"
         "  %g = gt %y, %x : bool[2 | 5, 37]\n"
         "  %w = where %g, %x, %y : f32[2 | 5, 37]\n"
         "  %c = cast %u to=i64 : i64[5, 37]\n"
         "  %s = add %c, %k : i64[5, 37]\n"
         "  %i = iota shape=[5, 37] dim=1 : i64[5, 37]\n"
         "  %q = eq %i, %s : bool[5, 37]\n"
         "  output \"g\" %g\n  output \"w\" %w\n  output \"s\" %s\n  output \"q\" %q\n"},
    {"reduce rows", F32_XY,
     X Y "  %s = sum %y dims=[1] : f32[2 | 5]\n"
         "  %m = max %y dims=[1] keepdim=true : f32[2 | 5, 1]\n"
         "  %d = sub %y, %m : f32[2 | 5, 37]\n"
         "  %e = exp %d : f32[2 | 5, 37]\n"
         "  %z = sum %e dims=[1] keepdim=true : f32[2 | 5, 1]\n"
         "  %p = div %e, %z : f32[2 | 5, 37]\n"
         "  %a = argmax %y dims=[1] : i64[2 | 5]\n"
         "  output \"s\" %s\n  output \"m\" %m\n  output \"p\" %p\n  output \"a\" %a\n"},
    {"reduce columns and all", F32_XY,
     X Y "  %s = sum %y dims=[0] : f32[2 | 37]\n"
         "  %n = min %y dims=[0] : f32[2 | 37]\n"
         "  %a = argmax %y dims=[0] : i64[2 | 37]\n"
         "  %t = sum %y dims=[0, 1] : f32[2 | ]\n"
         "  %c = cast %t to=f64 : f64[2 | ]\n"
         "  output \"s\" %s\n  output \"n\" %n\n  output \"a\" %a\n  result \"t\" %c\n"},
    {"long rows", "input \"v\" each : f32[2 | 3, 1031]\n",
     "  %v = input name=\"v\" : f32[2 | 3, 1031]\n"
     "  %q = mul %v, %v : f32[2 | 3, 1031]\n"
     "  %s = sum %q dims=[1] : f32[2 | 3]\n"
     "  %d = cast %q to=f64 : f64[2 | 3, 1031]\n"
     "  %t = sum %d dims=[0, 1] : f64[2 | ]\n"
     "  output \"s\" %s\n  result \"t\" %t\n"},
    {"views", "input \"v\" each : f32[2 | 4, 6, 16]\n",
     "  %v = input name=\"v\" : f32[2 | 4, 6, 16]\n"
     "  %a = reshape %v shape=[24, 16] : f32[2 | 24, 16]\n"
     "  %b = reshape %v shape=[4, 96] : f32[2 | 4, 96]\n"
     "  %c = reshape %b shape=[12, 32] : f32[2 | 12, 32]\n"
     "  %d = permute %v dims=[2, 0, 1] : f32[2 | 16, 4, 6]\n"
     "  %e = reshape %d shape=[32, 12] : f32[2 | 32, 12]\n"
     "  %f = slice %v start=[1, 0, 3] step=[2, 1, 4] size=[2, 5, 3] : f32[2 | 2, 5, 3]\n"
     "  %g = reshape %v shape=[384] : f32[2 | 384]\n"
     "  output \"a\" %a\n  output \"c\" %c\n  output \"d\" %d\n  output \"e\" %e\n"
     "  output \"f\" %f\n  output \"g\" %g\n"},
    {"layout", "input \"v\" each : f32[2 | 19, 33]\ninput \"w\" : f32[16, 24]\n",
     "  %v = input name=\"v\" : f32[2 | 19, 33]\n"
     "  %w = input name=\"w\" : f32[16, 24]\n"
     "  %l = layout %v dims=[1, 0] : f32[2 | 19, 33]\n"
     "  %m = layout %w dims=[1, 0] : f32[16, 24]\n"
     "  %n = neg %l : f32[2 | 19, 33]\n"
     "  %o = neg %m : f32[16, 24]\n"
     "  output \"n\" %n\n  output \"o\" %o\n"},
    {"layouts of rank 3",
     "input \"v\" each : f64[2 | 3, 17, 9]\ninput \"k\" : u8[20, 6]\ninput \"w\" each : f32[2 "
     "| 64, 3, 16]\n",
     "  %v = input name=\"v\" : f64[2 | 3, 17, 9]\n"
     "  %k = input name=\"k\" : u8[20, 6]\n"
     "  %w = input name=\"w\" : f32[2 | 64, 3, 16]\n"
     "  %l = layout %v dims=[0, 2, 1] : f64[2 | 3, 17, 9]\n"
     "  %m = layout %k dims=[1, 0] : u8[20, 6]\n"
     "  %n = layout %w dims=[2, 1, 0] : f32[2 | 64, 3, 16]\n"
     "  %o = layout %w dims=[1, 0, 2] : f32[2 | 64, 3, 16]\n"
     "  %p = permute %w dims=[2, 1, 0] : f32[2 | 16, 3, 64]\n"
     "  output \"l\" %l\n  output \"m\" %m\n  output \"n\" %n\n  output \"o\" %o\n"
     "  output \"p\" %p\n"},
    {"pad and gather", F32_XY "target \"k\" : i64[5]\n",
     X Y "  %k = input name=\"k\" : i64[5]\n"
         "  %p = pad %y start=[1, 3] step=[1, 1] size=[7, 44] : f32[2 | 7, 44]\n"
         "  %q = pad %y start=[0, 2] step=[2, 3] size=[10, 113] : f32[2 | 10, 113]\n"
         "  %s = sum %p dims=[1] : f32[2 | 7]\n"
         "  %r = reshape %k shape=[5, 1] : i64[5, 1]\n"
         "  %g = gather %y, %r dim=1 : f32[2 | 5, 1]\n"
         "  %i = iota shape=[5, 37] dim=0 : i64[5, 37]\n"
         "  %h = gather %y, %i dim=1 : f32[2 | 5, 37]\n"
         "  output \"p\" %p\n  output \"q\" %q\n  output \"s\" %s\n  output \"g\" %g\n"
         "  output \"h\" %h\n"},
    {"scatter along rows",
     F32_XY "input \"k\" : i64[9, 1]\ninput \"u\" each : f32[2 | 9, 37]\n",
     X Y "  %k = input name=\"k\" : i64[9, 1]\n"
         "  %u = input name=\"u\" : f32[2 | 9, 37]\n"
         "  %i = expand %k shape=[9, 37] : i64[9, 37]\n"
         "  %s = scatter_add %y, %i, %u dim=0 : f32[2 | 5, 37]\n"
         "  %z = const data=[0] : f32[5, 37]\n"
         "  %t = scatter_add %z, %i, %u dim=0 : f32[2 | 5, 37]\n"
         "  output \"s\" %s\n  output \"t\" %t\n"},
    {"scatter within rows", F32_XY "input \"k\" : i64[4, 9]\n",
     X Y "  %k = input name=\"k\" : i64[4, 9]\n"
         "  %s = scatter_add %x, %k, %y dim=1 : f32[2 | 5, 37]\n"
         "  %g = scatter_add %y, %k, %x dim=0 : f32[2 | 5, 37]\n"
         "  output \"s\" %s\n  output \"g\" %g\n"},
    {"running sums", F32_XY "input \"v\" each : f64[2 | 3, 4, 5]\n",
     X Y "  %v = input name=\"v\" : f64[2 | 3, 4, 5]\n"
         "  %a = cumsum %y dim=1 : f32[2 | 5, 37]\n"
         "  %b = cumsum %y dim=0 : f32[2 | 5, 37]\n"
         "  %c = cumsum %x dim=1 reverse=true : f32[5, 37]\n"
         "  %d = cumsum %v dim=1 reverse=true : f64[2 | 3, 4, 5]\n"
         "  output \"a\" %a\n  output \"b\" %b\n  output \"c\" %c\n  output \"d\" %d\n"},
    {"random", "counter \"n\" : i64[2 | ]\n",
     "  %seed = seed : i64[2 | ]\n"
     "  %n = state name=\"n\" : i64[2 | ]\n"
     "  %r = random %seed, %n path=\"drop.0\" shape=[3, 21] : i64[2 | 3, 21]\n"
     "  %p = permute %r dims=[1, 0] : i64[2 | 21, 3]\n"
     "  output \"r\" %r\n  output \"p\" %p\n  state \"n\" %n\n"},
    {"tables", "",
     "  %t = const data=[1, 2.5, -3, 4, 5, 6, 7, 8, 9, 10, 11] : f32[11]\n"
     "  %u = const data=[0, 1, 1] : bool[3, 1]\n"
     "  %o = const data=1 : f32[]\n"
     "  %w = where %u, %t, %o : f32[3, 11]\n"
     "  output \"w\" %w\n"},
    {"doubles", "input \"v\" each : f64[2 | 3, 21]\n",
     "  %v = input name=\"v\" : f64[2 | 3, 21]\n"
     "  %t = tanh %v : f64[2 | 3, 21]\n"
     "  %s = sum %t dims=[1] : f64[2 | 3]\n"
     "  %m = max %t dims=[0] : f64[2 | 21]\n"
     "  output \"t\" %t\n  output \"s\" %s\n  output \"m\" %m\n"},
    {"contract", "input \"x\" : f32[13, 29]\nparam \"w\" : f32[2 | 29, 43]\n",
     "  %x = input name=\"x\" : f32[13, 29]\n"
     "  %w = state name=\"w\" : f32[2 | 29, 43]\n"
     "  %o = einsum %x, %w spec=\"mk,kn->mn\" : f32[2 | 13, 43]\n"
     "  %r = relu %o : f32[2 | 13, 43]\n"
     "  output \"r\" %r\n  state \"w\" %w\n"},
    {"states in place", "param \"w\" : f32[2 | 9, 11]\nparam \"u\" : f32[2 | 9, 11]\n",
     "  %w = state name=\"w\" : f32[2 | 9, 11]\n"
     "  %u = state name=\"u\" : f32[2 | 9, 11]\n"
     "  %a = add %w, %u : f32[2 | 9, 11]\n"
     "  %s = sub %w, %u : f32[2 | 9, 11]\n"
     "  state \"w\" %a\n  state \"u\" %s\n"},
    {"states in a layout", "param \"w\" : f32[2 | 9, 11] layout=[1, 0]\n",
     "  %w = state name=\"w\" : f32[2 | 9, 11]\n"
     "  %o = mul %w, %w : f32[2 | 9, 11]\n"
     "  output \"o\" %o\n  state \"w\" %w\n"},
};

/* --- data
 * ------------------------------------------------------------------------------------------------
 */

static uint32_t random_state = 1;

static double random_value(DType t)
{
    random_state = random_state * 1664525u + 1013904223u;
    const double u = (double)(random_state >> 8) / (1 << 24);
    switch (t) {
    case DT_BOOL:
        return u < 0.5;
    case DT_U8:
        return floor(u * 20);
    case DT_I32:
    case DT_I64:
        return floor(u * 44) - 4;
    case DT_F32:
    case DT_F64:
    case DT_COUNT:
        break;
    }
    return (double)(float)(u * 4 - 2);
}

static void put(void *to, DType t, int64_t i, double v)
{
    switch (t) {
    case DT_BOOL:
    case DT_U8:
        ((uint8_t *)to)[i] = (uint8_t)v;
        break;
    case DT_I32:
        ((int32_t *)to)[i] = (int32_t)v;
        break;
    case DT_I64:
        ((int64_t *)to)[i] = (int64_t)v;
        break;
    case DT_F32:
        ((float *)to)[i] = (float)v;
        break;
    case DT_F64:
    case DT_COUNT:
        ((double *)to)[i] = v;
    }
}

static double get(const void *from, DType t, int64_t i)
{
    switch (t) {
    case DT_BOOL:
    case DT_U8:
        return ((const uint8_t *)from)[i];
    case DT_I32:
        return ((const int32_t *)from)[i];
    case DT_I64:
        return (double)((const int64_t *)from)[i];
    case DT_F32:
        return ((const float *)from)[i];
    case DT_F64:
    case DT_COUNT:
        break;
    }
    return ((const double *)from)[i];
}

/* Memory with guard words before and behind. */
static unsigned char *guarded(Arena *a, int64_t bytes)
{
    unsigned char *p = arena_alloc(a, (size_t)bytes + 2 * GUARD + 64);
    p += 64 - (uintptr_t)p % 64;
    memset(p, 0xa5, (size_t)bytes + 2 * GUARD);
    return p + GUARD;
}

static bool guards_hold(const unsigned char *p, int64_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        if (p[-1 - i] != 0xa5 || p[bytes + i] != 0xa5)
            return false;
    return true;
}

/* --- one run
 * --------------------------------------------------------------------------------------------- */

typedef struct Run {
    Arena *arena;
    Module *module;
    const Model *model;
    HftacFrame frame;
    unsigned char **output;
    double **bound[MODELS]; /* per model: inputs, then states, then hypers */
} Run;

static int64_t count_of(const Type *t)
{
    return shape_count(&t->shape);
}

/* Where element i of a state is stored. */
static int64_t stored_at(const State *s, int64_t i)
{
    int64_t index[MAX_RANK] = {0}, at = 0;
    const Shape *shape = &s->type.shape;
    for (int d = shape->rank - 1; d >= 0; d--) {
        index[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
    for (int k = 0; k < shape->rank; k++) {
        const int axis = s->layout.n ? (int)s->layout.v[k] : k;
        at = at * shape->dim[axis] + index[axis];
    }
    return at;
}

static void fill_inputs(Run *r)
{
    const Module *m = r->module;
    const void **inputs = arena_array(r->arena, (size_t)m->n_inputs, sizeof *inputs);
    for (int i = 0; i < m->n_inputs; i++) {
        const Input *in = &m->inputs[i];
        const int64_t n = count_of(&in->type), bytes = n * dtype_bytes(in->type.dtype);
        unsigned char *p = guarded(r->arena, bytes * (in->each ? MODELS : 1));
        for (int b = 0; b < MODELS; b++) {
            r->bound[b][i] = arena_array(r->arena, (size_t)n, sizeof(double));
            for (int64_t k = 0; k < n; k++) {
                if (b == 0 || in->each)
                    put(p + (in->each ? b * bytes : 0), in->type.dtype, k,
                        random_value(in->type.dtype));
                r->bound[b][i][k] = get(p + (in->each ? b * bytes : 0), in->type.dtype, k);
            }
        }
        inputs[i] = p;
    }
    r->frame.inputs = inputs;
}

static void fill_states(Run *r)
{
    const Module *m = r->module;
    r->frame.state = guarded(r->arena, (int64_t)r->model->variant->state_bytes * MODELS);
    for (int b = 0; b < MODELS; b++) {
        for (int i = 0; i < m->n_states; i++) {
            const State *s = &m->states[i];
            const int64_t n = count_of(&s->type);
            const HftacState *row = hft_model_state(r->model, (uint32_t)i);
            unsigned char *p = r->frame.state + b * row->model_bytes + row->offset;
            double *bound = arena_array(r->arena, (size_t)n, sizeof(double));
            for (int64_t k = 0; k < n; k++) {
                bound[k] = random_value(s->type.dtype);
                put(p, s->type.dtype, stored_at(s, k), bound[k]);
            }
            r->bound[b][m->n_inputs + i] = bound;
        }
    }
}

static void fill_scalars(Run *r)
{
    const Module *m = r->module;
    double *hypers = arena_array(r->arena, (size_t)(MODELS * m->n_hypers), sizeof *hypers);
    double *scalars = arena_array(r->arena, HFTAC_N_SCALARS, sizeof *scalars);
    double *clocks = arena_array(r->arena, MODELS * HFTAC_N_CLOCK, sizeof *clocks);
    uint64_t *seeds = arena_array(r->arena, MODELS, sizeof *seeds);
    for (int b = 0; b < MODELS; b++) {
        seeds[b] = UINT64_C(0x123456789abc) + (uint64_t)b;
        for (int i = 0; i < m->n_hypers; i++) {
            hypers[b * m->n_hypers + i] = 0.25 + b + 0.5 * i;
            r->bound[b][m->n_inputs + m->n_states + i] = &hypers[b * m->n_hypers + i];
        }
    }
    r->frame.hypers = hypers;
    r->frame.clocks = clocks;
    r->frame.scalars = scalars;
    r->frame.seeds = seeds;
}

static uint32_t n_outputs(const Run *r)
{
    return r->model->table[HFTAC_SECTION_OUTPUTS].n;
}

static int64_t output_bytes(const Run *r, uint32_t i)
{
    return (int64_t)hft_model_output(r->model, i)->bytes * MODELS;
}

static void fill_outputs(Run *r)
{
    r->output = arena_array(r->arena, n_outputs(r), sizeof *r->output);
    for (uint32_t i = 0; i < n_outputs(r); i++)
        r->output[i] = guarded(r->arena, output_bytes(r, i));
    r->frame.outputs = (void *const *)r->output;
    r->frame.results =
        (double *)guarded(r->arena, (int64_t)r->model->info->n_results * 8 * MODELS);
    r->frame.scratch = guarded(r->arena, (int64_t)r->model->info->scratch_bytes);
    r->frame.shared = guarded(r->arena, (int64_t)r->model->info->shared_bytes);
    r->frame.size = sizeof r->frame;
}

static void compare(const char *what, const char *name, int model, DType t, const void *got,
                    const double *want, int64_t n)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        const double g = get(got, t, i), d = g - want[i];
        error += d * d;
        norm += want[i] * want[i];
        if (!(fabs(d) <= 1e-4 * (1 + fabs(want[i]))) && !(isnan(g) && isnan(want[i]))) {
            CHECK(false, "%s: %s of model %d: [%lld] is %.9g, not %.9g", what, name, model,
                  (long long)i, g, want[i]);
            return;
        }
    }
    CHECK(sqrt(error) <= 1e-6 * sqrt(norm) + 1e-7, "%s: %s of model %d: error %g of %g", what,
          name, model, sqrt(error), sqrt(norm));
}

static void compare_state(Run *r, const char *what, int b, const Output *o, const double *want)
{
    const Module *m = r->module;
    const State *s = module_state(m, o->name);
    const int64_t n = count_of(&s->type);
    const HftacState *row = hft_model_state(r->model, (uint32_t)(s - m->states));
    const unsigned char *p = r->frame.state + b * row->model_bytes + row->offset;
    double *got = arena_array(r->arena, (size_t)n, sizeof *got);
    for (int64_t i = 0; i < n; i++)
        got[i] = get(p, s->type.dtype, stored_at(s, i));
    compare(what, o->name, b, DT_F64, got, want, n);
}

static void compare_model(Run *r, const char *what, int b)
{
    const Module *m = r->module;
    const Graph *g = module_graph(m, ENTRY_PREDICT);
    const int n = m->n_inputs + m->n_states + m->n_hypers;
    RefBinding *bind = arena_array(r->arena, (size_t)n, sizeof *bind);
    for (int i = 0; i < n; i++) {
        const int s = i - m->n_inputs, h = s - m->n_states;
        bind[i].op = s < 0 ? OP_INPUT : h < 0 ? OP_STATE : OP_HYPER;
        bind[i].name = s < 0   ? m->inputs[i].name
                       : h < 0 ? m->states[s].name
                               : m->hypers[h].name;
        bind[i].data = r->bound[b][i];
    }
    const RefWorld world = {.bindings = bind, .n_bindings = n, .seed = r->frame.seeds[b]};
    double **value = ref_evaluate(r->arena, g, &world);
    for (int i = 0, tensor = 0, result = 0; i < g->n_outputs; i++) {
        const Output *o = &g->outputs[i];
        const int64_t count = count_of(&o->value->type);
        if (o->kind == OUT_TENSOR) {
            const HftacOutput *row = hft_model_output(r->model, (uint32_t)tensor);
            const char *name = hft_model_text(r->model, row->name);
            CHECK(!strcmp(name, o->name), "%s: output %d is called %s", what, tensor, name);
            compare(what, o->name, b, o->value->type.dtype,
                    r->output[tensor++] + (uint64_t)b * row->bytes, value[o->value->id], count);
        } else if (o->kind == OUT_RESULT) {
            const int at = b * (int)r->model->info->n_results + result++;
            compare(what, o->name, b, DT_F64, r->frame.results + at, value[o->value->id], 1);
        } else if (o->kind == OUT_STATE) {
            compare_state(r, what, b, o, value[o->value->id]);
        }
    }
}

static void run(Run *r, const char *what)
{
    fill_inputs(r);
    fill_states(r);
    fill_scalars(r);
    fill_outputs(r);
    const HftacEntry *e = hft_model_entry(r->model, HFTAC_ENTRY_PREDICT);
    for (uint32_t i = 0; i < e->n_steps; i++) {
        const HftacStep *step = hft_entry_step(r->model, e, i);
        if (step->kind != HFTAC_STEP_BARRIER)
            hft_model_run(r->model, step->function)(
                &r->frame, 0, step->kind == HFTAC_STEP_MODELS ? MODELS : 0);
    }
    for (int b = 0; b < MODELS; b++)
        compare_model(r, what, b);
    for (uint32_t i = 0; i < n_outputs(r); i++)
        CHECK(guards_hold(r->output[i], output_bytes(r, i)), "%s: output %u: guard words", what,
              i);
    CHECK(guards_hold(r->frame.scratch, (int64_t)r->model->info->scratch_bytes), "%s: scratch",
          what);
    CHECK(guards_hold(r->frame.shared, (int64_t)r->model->info->shared_bytes), "%s: shared",
          what);
    CHECK(guards_hold(r->frame.state, (int64_t)r->model->variant->state_bytes * MODELS),
          "%s: state", what);
}

static Module *read_case(Arena *a, const Case *c)
{
    const char *text = arena_printf(a,
                                    "hir 1\nmodule \"Case\" stage=fused models=%d\n%sgraph "
                                    "@init {\n}\ngraph @predict {\n%s}\n",
                                    MODELS, c->declarations, c->body);
    Diag *d = diag_new(a, NULL);
    return module_read(a, d, diag_add_source(d, c->name, text, strlen(text), false));
}

static bool write_file(const char *path, const Text *content)
{
    FILE *f = fopen(path, "wb");
    const bool ok = f && fwrite(content->s, 1, content->len, f) == content->len;
    return f && fclose(f) == 0 && ok;
}

static void test_case(const Case *c, const char *march, int optimize, bool share)
{
    Run r = {.arena = arena_new()};
    const char *what = arena_printf(r.arena, "%s -march=%s -O%d%s", c->name, march, optimize,
                                    share ? " shared" : "");
    const char *so = "./test_codegen.so", *error = NULL;
    bool missing;
    Text object, linked;
    text_init(&object, r.arena);
    text_init(&linked, r.arena);
    r.module = read_case(r.arena, c);
    if (!r.module) {
        CHECK(false, "%s: cannot be read", what);
        return;
    }
    for (int b = 0; b < MODELS; b++)
        r.bound[b] = arena_array(r.arena, 32, sizeof(double *));
    const CodegenOptions options = {.march = march, .optimize = optimize, .version = "test"};
    CpuModule *m = cpu_generate(r.arena, handplan(r.arena, r.module, share), &options, &error);
    CHECK(m, "%s: %s", what, error);
    if (m && getenv("TEST_CODEGEN_LLVM")) {
        Text t;
        text_init(&t, r.arena);
        cpu_print_llvm(m, &t);
        puts(t.s);
    }
    bool ok = m && cpu_emit_object(m, &object, &error);
    ok = ok && link_objects(r.arena, 1, &object, false, &linked, &error, &missing);
    ok = ok && write_file(so, &linked);
    CHECK(ok, "%s: %s", what, error);
    Image image;
    const bool loaded = ok && hft_image_open(so, &image) == HFTAC_OK;
    CHECK(!ok || loaded, "%s: %s", what, hftac_last_error());
    r.model = loaded ? &image.model : NULL;
    if (r.model)
        run(&r, what);
    if (loaded)
        hft_image_close(&image);
    cpu_free(m);
    unlink(so);
    arena_free(r.arena);
}

/* --- the rest
 * -------------------------------------------------------------------------------------------- */

static void test_index(void)
{
    Arena *a = arena_new();
    IndexSpace s;
    index_space_init(&s, a, 8);
    const Affine lane = affine_var(AFFINE_LANE);
    const Affine block = affine_var(index_var(&s, AFFINE_VAR_LOOP, 0, 11, false));
    const Affine base = affine_scale(&block, 8), i = affine_add(&base, &lane);
    Affine q, r;
    affine_split(&s, &i, 8, &q, &r); /* (8 b + lane) / 8 */
    CHECK(affine_equal(&q, &block) && affine_equal(&r, &lane), "a block splits exactly");
    affine_split(&s, &i, 24, &q, &r);
    CHECK(!affine_lanes(&s, &q),
          "a quotient by a multiple of the block is the same in all lanes");
    CHECK(affine_lane_linear(&s, &r) && affine_coef(&r, AFFINE_LANE) == 1,
          "its rest has stride 1");
    Affine back = affine_scale(&q, 24);
    back = affine_add(&back, &r);
    back = affine_join(&s, &back);
    CHECK(affine_equal(&back, &i), "quotient and rest join again");
    affine_split(&s, &i, 10, &q, &r);
    CHECK(affine_lanes(&s, &q) && !affine_lane_linear(&s, &q), "an odd quotient is opaque");
    arena_free(a);
}

static void test_target(void)
{
    Arena *a = arena_new();
    const char *error = NULL;
    CHECK(cpu_vector_bytes(a, "x86-64-v3", &error) == 32, "x86-64-v3");
    CHECK(cpu_vector_bytes(a, "x86-64-v4", &error) == 64, "x86-64-v4");
    CHECK(cpu_vector_bytes(a, "x86-64", &error) == 0 && strstr(error, "AVX2"), "x86-64");
    CHECK(cpu_vector_bytes(a, "z80", &error) == 0 && strstr(error, "\"z80\""), "z80");
    arena_free(a);
}

static void test_link_errors(void)
{
    Arena *a = arena_new();
    const char *error = NULL;
    bool missing;
    Text object, linked;
    text_init(&object, a);
    text_init(&linked, a);
    text_add(&object, "no object");
    CHECK(!link_objects(a, 1, &object, false, &linked, &error, &missing) && !missing &&
              strstr(error, "linking failed") && !linked.len,
          "what is no object: %s", error ? error : "");
    arena_free(a);
}

static const char *llvm_text(Arena *a, const Case *c)
{
    const CodegenOptions options = {.march = "x86-64-v3", .optimize = 2, .version = "test"};
    const char *error = NULL;
    CpuModule *m = cpu_generate(a, handplan(a, read_case(a, c), false), &options, &error);
    Text t;
    text_init(&t, a);
    cpu_print_llvm(m, &t);
    cpu_free(m);
    return t.s;
}

/* Kernels that differ only in where their values lie are one function, and the same input gives
 * the same text. */
static void test_equal_kernels(void)
{
    static const Case two = {"two", F32_XY,
                             X Y
                             "  %a = relu %x : f32[5, 37]\n  %b = relu %y : f32[2 | 5, 37]\n"
                             "  %c = exp %y : f32[2 | 5, 37]\n"
                             "  output \"a\" %a\n  output \"b\" %b\n  output \"c\" %c\n"};
    Arena *a = arena_new();
    const char *text = llvm_text(a, &two);
    CHECK(strstr(text, "define internal void @predict.a("), "the first relu is a function");
    CHECK(!strstr(text, "@predict.b("), "the second relu is the same function");
    CHECK(strstr(text, "define internal void @predict.c("), "exp is another one");
    CHECK(!strcmp(text, llvm_text(a, &two)), "the same input gives the same code");
    arena_free(a);
}

int main(void)
{
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool v4 = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
    const int n = (int)(sizeof cases / sizeof *cases);
    test_index();
    test_target();
    test_link_errors();
    test_equal_kernels();
    for (int i = 0; v3 && i < n; i++) {
        const char *only = getenv("TEST_CODEGEN_CASE");
        if (only && strcmp(only, cases[i].name))
            continue;
        test_case(&cases[i], "x86-64-v3", 2, false);
        test_case(&cases[i], "x86-64-v3", 0, true);
        if (v4)
            test_case(&cases[i], "x86-64-v4", 2, true);
    }
    if (!v3)
        printf("skipped running: this processor has no AVX2\n");
    printf("%s\n", failures ? "FAILED" : "ok");
    return failures != 0;
}
