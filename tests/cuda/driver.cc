/* driver MODEL.so [SEED]: runs the CUDA text that it was compiled with (CUDA_TEXT) on the host
 * beside the CPU's model.so of the same program: from the same state and inputs two training
 * steps, then eval, eval_end and predict.  State, results and outputs must agree within float32
 * rounding, and those of ascending and descending order of blocks and threads bit for bit.
 *
 * Within rounding: the program is also run on the CPU from a state whose reals are off by some
 * units in the last place.  A tensor may differ by a small part of its largest element and by a
 * small multiple of what that changes (an optimizer that divides by a gradient's size makes large
 * what is nothing but rounding). */
#include "tests/cuda/standin.h"

#include CUDA_TEXT

extern "C" {
#include "runtime/model/image.h"
}

struct Device {
    unsigned char *state, *shared, *scratch;
    double *results;
    std::vector<void *> outputs;
};

struct Run {
    const Model *m;
    size_t models, scratch_bytes, shared_bytes;
    Device cpu, gpu;
    Device back; /* the GPU's in descending order */
    Device near; /* the CPU's from a state that is a little off */
    std::vector<const void *> inputs;
    std::vector<double> hypers;
    std::vector<double> clocks;
    double scalars[HFTAC_N_SCALARS];
    std::vector<uint64_t> seeds;
    double tolerance;
    int failed;
};

static const char *text(const Model *m, HftacText t)
{
    return hft_model_text(m, t);
}

static uint32_t rows(const Model *m, int tag)
{
    return m->table[tag].n;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits()
{
    uint64_t &s = random_state;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return s;
}

static double random_unit()
{
    return (double)(random_bits() >> 11) * 0x1p-53;
}

static size_t element_bytes(uint32_t dtype)
{
    static const size_t bytes[] = {1, 1, 4, 8, 4, 8};
    return bytes[dtype];
}

static double get(uint32_t dtype, const void *p, size_t i)
{
    switch (dtype) {
    case HFTAC_DT_BOOL:
    case HFTAC_DT_U8:
        return ((const uint8_t *)p)[i];
    case HFTAC_DT_I32:
        return ((const int32_t *)p)[i];
    case HFTAC_DT_I64:
        return (double)((const int64_t *)p)[i];
    case HFTAC_DT_F32:
        return ((const float *)p)[i];
    default:
        return ((const double *)p)[i];
    }
}

static void set(uint32_t dtype, void *p, size_t i, double v)
{
    switch (dtype) {
    case HFTAC_DT_BOOL:
    case HFTAC_DT_U8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    case HFTAC_DT_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case HFTAC_DT_I64:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    case HFTAC_DT_F32:
        ((float *)p)[i] = (float)v;
        break;
    default:
        ((double *)p)[i] = v;
    }
}

/* The range that some entry checks the input for. */
static bool checked_range(const Model *m, const char *input, int64_t *lo, int64_t *hi)
{
    for (uint32_t i = 0; i < rows(m, HFTAC_SECTION_RESULTS); i++) {
        const HftacResult *x = (const HftacResult *)hft_model_row(m, HFTAC_SECTION_RESULTS, i);
        if (x->kind == HFTAC_RESULT_FAULT && !strcmp(text(m, x->name), input)) {
            *lo = x->lo;
            *hi = x->hi;
            return true;
        }
    }
    return false;
}

static const void *make_input(const Model *m, const HftacInput *in)
{
    const size_t bytes = in->bytes * (in->is_each ? (size_t)m->info->n_models : 1),
                 size = element_bytes(in->shape.dtype);
    unsigned char *p = standin_allocate(text(m, in->name), bytes);
    int64_t lo = 0, hi = in->shape.dtype == HFTAC_DT_BOOL ? 2
                         : in->shape.dtype == HFTAC_DT_U8 ? 256
                                                          : 4;
    checked_range(m, text(m, in->name), &lo, &hi);
    for (size_t i = 0; i < bytes / size; i++)
        if (in->shape.dtype >= HFTAC_DT_F32)
            set(in->shape.dtype, p, i, 2 * random_unit() - 1);
        else
            set(in->shape.dtype, p, i,
                (double)(lo + (int64_t)(random_bits() % (uint64_t)(hi - lo))));
    return p;
}

static Device make_device(const Run *r, size_t shared, size_t scratch)
{
    const Model *m = r->m;
    Device d;
    d.state = standin_allocate("state", r->models * m->variant->state_bytes);
    d.shared = standin_allocate("shared", shared);
    d.scratch = standin_allocate("scratch", scratch);
    d.results =
        (double *)standin_allocate("results", r->models * m->info->n_results * sizeof(double));
    for (uint32_t i = 0; i < rows(m, HFTAC_SECTION_OUTPUTS); i++)
        d.outputs.push_back(standin_allocate(text(m, hft_model_output(m, i)->name),
                                             r->models * hft_model_output(m, i)->bytes));
    return d;
}

/* Scratch and shared memory hold no number at first, so that what is read before it is written
 * shows. */
static HftacFrame make_frame(const Run *r, const Device *d, size_t shared, size_t scratch)
{
    memset(d->shared, 0xff, shared);
    memset(d->scratch, 0xff, scratch);
    memset(d->results, 0, r->models * r->m->info->n_results * sizeof(double));
    HftacFrame f = {};
    f.size = sizeof f;
    f.state = d->state;
    f.shared = d->shared;
    f.scratch = d->scratch;
    f.inputs = r->inputs.data();
    f.hypers = r->hypers.data();
    f.clocks = r->clocks.data();
    f.scalars = r->scalars;
    f.seeds = r->seeds.data();
    f.results = d->results;
    f.outputs = d->outputs.data();
    return f;
}

/* Element i, row-major, of a state as the CPU stores it. */
static size_t stored_element(const HftacState *s, size_t i)
{
    int64_t index[HFTAC_MAX_RANK];
    for (uint32_t d = s->shape.rank; d-- > 0;) {
        index[d] = (int64_t)(i % (size_t)s->shape.dim[d]);
        i /= (size_t)s->shape.dim[d];
    }
    size_t at = 0;
    for (uint32_t d = 0; d < s->shape.rank; d++)
        at = at * (size_t)s->shape.dim[s->layout[d]] + (size_t)index[s->layout[d]];
    return at;
}

static const StandinState *find_state(const char *name)
{
    for (const StandinState &s : standin_states)
        if (!strcmp(s.name, name))
            return &s;
    standin_fail(name, "a state that the CUDA text does not have");
}

static void copy_state(const Run *r)
{
    for (uint32_t i = 0; i < r->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(r->m, i);
        const StandinState *to = find_state(text(r->m, s->name));
        const size_t size = element_bytes(s->shape.dtype);
        if ((size_t)to->bytes != s->bytes)
            standin_fail(text(r->m, s->name), "a state of another size in the CUDA text");
        for (size_t b = 0; b < r->models; b++)
            for (size_t e = 0; e < s->bytes / size; e++)
                memcpy(r->gpu.state + b * s->model_bytes + (size_t)to->offset + e * size,
                       r->cpu.state + b * s->model_bytes + s->offset +
                           stored_element(s, e) * size,
                       size);
    }
    memcpy(r->back.state, r->gpu.state, r->models * r->m->variant->state_bytes);
}

static void make_near(const Run *r)
{
    memcpy(r->near.state, r->cpu.state, r->models * r->m->variant->state_bytes);
    for (uint32_t i = 0; i < r->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(r->m, i);
        if (s->shape.dtype != HFTAC_DT_F32)
            continue;
        for (size_t b = 0; b < r->models; b++) {
            float *v = (float *)(r->near.state + b * s->model_bytes + s->offset);
            for (size_t e = 0; e < s->bytes / sizeof *v; e++)
                v[e] *= 1 + (float)((int)(random_bits() % 65) - 32) * 0x1p-23f;
        }
    }
}

struct Difference {
    double worst, cpu, gpu, scale, near;
    size_t at;
};

static double distance(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) ? 0
           : isfinite(a) && isfinite(b)     ? fabs(a - b)
                                            : INFINITY;
}

static void note(Difference *d, double cpu, double near, double gpu, size_t at)
{
    const double error = distance(cpu, gpu), off = distance(cpu, near);
    if (isfinite(off) && off > d->near)
        d->near = off;
    if (isfinite(cpu) && fabs(cpu) > d->scale)
        d->scale = fabs(cpu);
    if (error > d->worst) {
        d->worst = error;
        d->cpu = cpu;
        d->gpu = gpu;
        d->at = at;
    }
}

static void judge(Run *r, const char *when, const char *what, size_t model, const Difference *d,
                  bool exact)
{
    const double allowed = exact ? 0 : r->tolerance * d->scale + 4 * d->near + 1e-14;
    if (d->worst <= allowed)
        return;
    if (r->failed++ < 40)
        printf("FAILED: %s: %s of model %zu, element %zu: %.9g on the CPU, %.9g on the GPU "
               "(largest: %g, allowed: %g)\n",
               when, what, model, d->at, d->cpu, d->gpu, d->scale, allowed);
}

static bool is_real(uint32_t dtype)
{
    return dtype >= HFTAC_DT_F32;
}

static void compare_states(Run *r, const char *when)
{
    for (uint32_t i = 0; i < r->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(r->m, i);
        const StandinState *gpu = find_state(text(r->m, s->name));
        for (size_t b = 0; b < r->models; b++) {
            const size_t from = b * s->model_bytes + s->offset;
            const unsigned char *a = r->cpu.state + from, *n = r->near.state + from,
                                *g = r->gpu.state + b * s->model_bytes + gpu->offset;
            Difference d = {};
            for (size_t e = 0; e < s->bytes / element_bytes(s->shape.dtype); e++)
                note(&d, get(s->shape.dtype, a, stored_element(s, e)),
                     get(s->shape.dtype, n, stored_element(s, e)), get(s->shape.dtype, g, e),
                     e);
            judge(r, when, text(r->m, s->name), b, &d, !is_real(s->shape.dtype));
        }
    }
}

static void compare_results(Run *r, const char *when, const HftacEntry *e)
{
    for (uint32_t i = 0; i < e->n_results; i++) {
        const HftacResult *x = hft_entry_result(r->m, e, i);
        const char *name = text(r->m, x->name);
        for (size_t b = 0; b < r->models; b++) {
            const size_t at = b * r->m->info->n_results + x->index;
            Difference d = {};
            note(&d, r->cpu.results[at], r->near.results[at], r->gpu.results[at], 0);
            judge(r, when, *name ? name : "result", b, &d,
                  x->kind != HFTAC_RESULT_VALUE && x->kind != HFTAC_RESULT_FACTOR &&
                      x->kind != HFTAC_RESULT_CAUSE);
        }
    }
}

static void compare_outputs(Run *r, const char *when)
{
    for (uint32_t i = 0; i < rows(r->m, HFTAC_SECTION_OUTPUTS); i++) {
        const HftacOutput *o = hft_model_output(r->m, i);
        const size_t n = o->bytes / element_bytes(o->shape.dtype);
        for (size_t b = 0; b < r->models; b++) {
            Difference d = {};
            for (size_t e = 0; e < n; e++)
                note(&d, get(o->shape.dtype, r->cpu.outputs[i], b * n + e),
                     get(o->shape.dtype, r->near.outputs[i], b * n + e),
                     get(o->shape.dtype, r->gpu.outputs[i], b * n + e), e);
            judge(r, when, text(r->m, o->name), b, &d, !is_real(o->shape.dtype));
        }
    }
}

static void compare_orders(Run *r, const char *when)
{
    bool same = !memcmp(r->gpu.state, r->back.state, r->models * r->m->variant->state_bytes) &&
                !memcmp(r->gpu.results, r->back.results,
                        r->models * r->m->info->n_results * sizeof(double));
    for (uint32_t i = 0; i < rows(r->m, HFTAC_SECTION_OUTPUTS); i++)
        same = same && !memcmp(r->gpu.outputs[i], r->back.outputs[i],
                               r->models * hft_model_output(r->m, i)->bytes);
    if (!same && r->failed++ < 40)
        printf("FAILED: %s: the order of threads decides what comes out\n", when);
}

static void run_cpu(Run *r, const Device *d, const HftacEntry *e)
{
    const HftacFrame f = make_frame(r, d, r->m->info->shared_bytes, r->m->info->scratch_bytes);
    for (uint32_t i = 0; i < e->n_steps; i++) {
        const HftacStep *step = hft_entry_step(r->m, e, i);
        if (step->kind != HFTAC_STEP_BARRIER)
            hft_model_run(r->m, step->function)(
                &f, 0, step->kind == HFTAC_STEP_MODELS ? (int64_t)r->models : 0);
    }
}

static void run_gpu(Run *r, const Device *d, void (*entry)(const Frame f), bool descending)
{
    const HftacFrame f = make_frame(r, d, r->shared_bytes, r->scratch_bytes);
    Frame g;
    static_assert(sizeof g == sizeof f, "Frame");
    memcpy(&g, &f, sizeof g);
    standin_descending = descending;
    entry(g);
    standin_check_guards();
}

static bool run_entry(Run *r, int which, const char *name)
{
    const HftacEntry *e = hft_model_entry(r->m, (uint32_t)which);
    for (const StandinEntry &s : standin_entries) {
        if (strcmp(s.name, name))
            continue;
        if (!e)
            standin_fail(name, "an entry that model.so does not have");
        copy_state(r);
        make_near(r);
        run_cpu(r, &r->cpu, e);
        run_cpu(r, &r->near, e);
        run_gpu(r, &r->gpu, s.run, false);
        run_gpu(r, &r->back, s.run, true);
        compare_states(r, name);
        compare_results(r, name, e);
        if (which == HFTAC_ENTRY_PREDICT)
            compare_outputs(r, name);
        compare_orders(r, name);
        return true;
    }
    if (e)
        standin_fail(name, "an entry that the CUDA text does not have");
    return false;
}

static void clear_metrics(const Run *r)
{
    for (uint32_t i = 0; i < r->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(r->m, i);
        for (size_t b = 0; s->role == HFTAC_ROLE_METRIC && b < r->models; b++)
            memset(r->cpu.state + b * s->model_bytes + s->offset, 0, s->bytes);
    }
}

static void begin(Run *r, const Model *m)
{
    r->m = m;
    r->models = (size_t)m->info->n_models;
    if (standin_models != m->info->n_models ||
        standin_hypers != (int)rows(m, HFTAC_SECTION_HYPERS) ||
        standin_results != (int)m->info->n_results ||
        (uint64_t)standin_state_bytes != m->variant->state_bytes)
        standin_fail(text(m, m->info->name),
                     "model.so and the CUDA text are not of the same program");
    r->shared_bytes = (size_t)HF_SHARED;
    r->scratch_bytes = r->models * (size_t)HF_SCRATCH;
    r->cpu = make_device(r, m->info->shared_bytes, m->info->scratch_bytes);
    r->near = make_device(r, m->info->shared_bytes, m->info->scratch_bytes);
    r->gpu = make_device(r, r->shared_bytes, r->scratch_bytes);
    r->back = make_device(r, r->shared_bytes, r->scratch_bytes);
    for (uint32_t i = 0; i < rows(m, HFTAC_SECTION_INPUTS); i++)
        r->inputs.push_back(make_input(m, hft_model_input(m, i)));
    for (size_t b = 0; b < r->models; b++) {
        r->seeds.push_back(1000 + b);
        /* Epoch 1 + b of 3 with 5 steps each: every model has a clock of its own. */
        for (double value : {1.0 + (double)b, 3.0, 5.0})
            r->clocks.push_back(value);
        for (uint32_t i = 0; i < rows(m, HFTAC_SECTION_HYPERS); i++) {
            const HftacHyper *h = hft_model_hyper(m, i);
            r->hypers.push_back(h->is_integer ? h->value : h->value * (1 - 0.1 * (double)b));
        }
    }
    r->scalars[HFTAC_SCALAR_N_VALID] = (double)m->info->batch;
}

int main(int argc, char **argv)
{
    Image image;
    if (argc < 2 || hft_image_open(argv[1], &image))
        standin_fail(argc >= 2 ? argv[1] : "driver", hftac_last_error());
    const Model *m = &image.model;
    Run r = {};
    r.tolerance = 2e-5;
    random_state += argc > 2 ? strtoull(argv[2], nullptr, 10) << 20 : 0;
    begin(&r, m);
    if (!hft_model_entry(m, HFTAC_ENTRY_INIT))
        standin_fail(text(m, m->info->name), "a model.so without initial values");
    run_cpu(&r, &r.cpu, hft_model_entry(m, HFTAC_ENTRY_INIT));
    int entries = 0;
    for (int step = 0; step < 2; step++)
        entries += run_entry(&r, HFTAC_ENTRY_TRAIN, "train");
    clear_metrics(&r);
    r.scalars[HFTAC_SCALAR_N_VALID] = m->info->batch > 1 ? (double)(m->info->batch - 1) : 1;
    entries += run_entry(&r, HFTAC_ENTRY_EVAL, "eval");
    entries += run_entry(&r, HFTAC_ENTRY_EVAL_END, "eval_end");
    entries += run_entry(&r, HFTAC_ENTRY_PREDICT, "predict");
    if (entries == 0)
        standin_fail(text(m, m->info->name), "nothing was run");
    return r.failed ? 1 : 0;
}
