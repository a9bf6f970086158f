/* Opening and closing an array: its descriptions, its memory, its threads.
 *
 * One allocation each for state, shared values, scratch, inputs and outputs, and small
 * tables.  hftac_close takes a half-built array, so that hftac_open has one way out. */
#include "runtime/array.h"
#include "runtime/door.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LINE = 64,
    SCRATCH_GAP = 128,
    HUGE_PAGE = 2 << 20
};

/* n * size zeroed bytes; NULL and false when they do not fit or are not there. */
static bool table(void *pointer_to_table, uint64_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    memcpy(pointer_to_table, &p, sizeof p);
    if (!p)
        hft_fail_memory("tables", n * size);
    return p != NULL;
}

static bool round_up(uint64_t bytes, uint64_t unit, uint64_t *out)
{
    return !__builtin_add_overflow(bytes, unit - 1, out) && ((*out -= *out % unit), true);
}

/* Zeroed, aligned to a line, or to huge pages where it is large. */
static bool block(unsigned char **out, const char *what, uint64_t bytes)
{
    const uint64_t alignment = bytes >= 4 * (uint64_t)HUGE_PAGE ? HUGE_PAGE : LINE;
    uint64_t rounded;
    *out = NULL;
    if (round_up(bytes ? bytes : 1, alignment, &rounded) && rounded < INT64_MAX)
        *out = aligned_alloc(alignment, rounded);
    if (!*out) {
        hft_fail_memory(what, bytes);
        return false;
    }
    if (alignment == HUGE_PAGE)
        madvise(*out, rounded, MADV_HUGEPAGE);
    memset(*out, 0, rounded);
    return true;
}

/* ---- Descriptions ---- */

/* How many rows a section of the file has. */
static uint32_t rows(const hftac_array *a, int tag)
{
    return a->m->table[tag].n;
}

static const char *text_of(const hftac_array *a, HftacText text)
{
    return hft_model_text(a->m, text);
}

static void describe_shape(const HftacShape *shape, hftac_type *type, int32_t *rank,
                           int64_t dims[HFTAC_MAX_DIMS], uint64_t *bytes)
{
    *type = (hftac_type)shape->dtype;
    *rank = (int32_t)shape->rank;
    memcpy(dims, shape->dim, shape->rank * sizeof dims[0]);
    hft_shape_bytes(shape, bytes);
}

bool hft_entry_reads(const hftac_array *a, int which, int32_t input)
{
    const HftacEntry *e = a->plans[which].entry;
    return e && (e->input_mask[input / 64] >> (input % 64) & 1);
}

static bool describe_inputs(hftac_array *a)
{
    if (!table(&a->inputs, rows(a, HFTAC_SECTION_INPUTS), sizeof *a->inputs))
        return false;
    for (uint32_t i = 0; i < rows(a, HFTAC_SECTION_INPUTS); i++) {
        const HftacInput *in = hft_model_input(a->m, i);
        hftac_input_description *d = &a->inputs[i];
        *d = (hftac_input_description){
            .name = text_of(a, in->name),
            .batch_axis = in->batch_axis,
            .is_target = in->is_target != 0,
            .is_each = in->is_each != 0,
            .is_drawn = in->is_drawn != 0,
            .used_by_train = hft_entry_reads(a, HFTAC_ENTRY_TRAIN, (int32_t)i),
            .used_by_evaluate = hft_entry_reads(a, HFTAC_ENTRY_EVAL, (int32_t)i),
            .used_by_predict = hft_entry_reads(a, HFTAC_ENTRY_PREDICT, (int32_t)i)};
        describe_shape(&in->shape, &d->type, &d->rank, d->dims, &d->bytes);
    }
    return true;
}

static bool describe_hypers(hftac_array *a)
{
    if (!table(&a->hypers, rows(a, HFTAC_SECTION_HYPERS), sizeof *a->hypers))
        return false;
    for (uint32_t i = 0; i < rows(a, HFTAC_SECTION_HYPERS); i++) {
        const HftacHyper *h = hft_model_hyper(a->m, i);
        a->hypers[i] = (hftac_hyper_description){
            .name = text_of(a, h->name),
            .value = h->value,
            .is_integer = h->is_integer != 0,
            .domain = (hftac_domain)h->domain,
            .lo = h->lo,
            .hi = h->hi,
            .step = h->step,
            .n_set = (int64_t)h->n_set,
            .set = h->n_set ? hft_model_row(a->m, HFTAC_SECTION_REALS, h->first_set) : NULL};
    }
    return true;
}

/* To its user a model has states of fewer kinds. */
static hftac_role public_role(uint32_t role)
{
    switch (role) {
    case HFTAC_ROLE_PARAM:
        return HFTAC_PARAMETER;
    case HFTAC_ROLE_BUFFER:
        return HFTAC_BUFFER;
    case HFTAC_ROLE_COUNTER:
        return HFTAC_COUNTER;
    case HFTAC_ROLE_METRIC:
        return HFTAC_ACCUMULATOR;
    default: /* whatever else training keeps; model_check.c knows them all */
        return HFTAC_OPTIMIZER;
    }
}

static bool describe_params(hftac_array *a)
{
    a->step_param = hft_state_of_role(a->m, HFTAC_ROLE_COUNTER);
    a->batch_param = hft_state_of_role(a->m, HFTAC_ROLE_BATCH_COUNTER);
    a->epoch_metric_param = hft_state_of_role(a->m, HFTAC_ROLE_EPOCH_METRIC);
    if (!table(&a->params, a->m->variant->n_states, sizeof *a->params))
        return false;
    for (uint32_t i = 0; i < a->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(a->m, i);
        hftac_param_description *d = &a->params[i];
        d->name = text_of(a, s->name);
        d->role = public_role(s->role);
        describe_shape(&s->shape, &d->type, &d->rank, d->dims, &d->bytes);
    }
    return true;
}

static bool describe_outputs(hftac_array *a)
{
    if (!table(&a->outputs, rows(a, HFTAC_SECTION_OUTPUTS), sizeof *a->outputs))
        return false;
    for (uint32_t i = 0; i < rows(a, HFTAC_SECTION_OUTPUTS); i++) {
        const HftacOutput *o = hft_model_output(a->m, i);
        hftac_output_description *d = &a->outputs[i];
        d->name = text_of(a, o->name);
        d->batch_axis = o->batch_axis;
        d->per_sample = o->per_sample;
        describe_shape(&o->shape, &d->type, &d->rank, d->dims, &d->bytes);
    }
    return true;
}

static hftac_metric add_metric(hftac_array *a, const char *name, int which, bool factor)
{
    int32_t i = 0;
    while (i < a->about.n_metrics &&
           (a->metrics[i].is_factor != factor || strcmp(a->metrics[i].name, name) != 0))
        i++;
    hftac_metric_description *d = &a->metrics[i];
    if (i == a->about.n_metrics) {
        a->about.n_metrics++;
        d->name = name;
    }
    if (which == HFTAC_ENTRY_TRAIN)
        d->from_train = 1;
    if (which == HFTAC_ENTRY_EVAL_END)
        d->from_evaluation = 1;
    d->is_factor = factor;
    return i;
}

/* Sorts an entry's results by what becomes of them. */
static bool plan_entry(hftac_array *a, int which)
{
    EntryPlan *p = &a->plans[which];
    const HftacEntry *e = p->entry;
    p->ok_index = -1;
    if (!e)
        return true;
    if (!table(&p->values, e->n_results, sizeof *p->values) ||
        !table(&p->faults, e->n_results, sizeof *p->faults) ||
        !table(&p->causes, e->n_results, sizeof *p->causes) ||
        !table(&p->kept, e->n_results, sizeof *p->kept))
        return false;
    for (uint32_t i = 0; i < e->n_results; i++) {
        const HftacResult *r = hft_entry_result(a->m, e, i);
        const bool factor = r->kind == HFTAC_RESULT_FACTOR;
        if (r->kind == HFTAC_RESULT_VALUE || factor)
            p->values[p->n_values++] = (ResultRef){
                .index = r->index, .metric = add_metric(a, text_of(a, r->name), which, factor)};
        else if (r->kind == HFTAC_RESULT_FAULT)
            p->faults[p->n_faults++] = r;
        else if (r->kind == HFTAC_RESULT_CAUSE)
            p->causes[p->n_causes++] = r;
        else if (r->kind == HFTAC_RESULT_KEPT)
            p->kept[p->n_kept++] = r;
        else if (r->kind == HFTAC_RESULT_OK)
            p->ok_index = r->index;
    }
    return true;
}

static bool plan_entries(hftac_array *a)
{
    uint64_t n = 0;
    for (int i = 0; i < HFTAC_N_ENTRIES; i++) {
        a->plans[i].entry = hft_model_entry(a->m, (uint32_t)i);
        n += a->plans[i].entry ? a->plans[i].entry->n_results : 0;
    }
    if (!table(&a->metrics, n, sizeof *a->metrics))
        return false;
    for (int i = 0; i < HFTAC_N_ENTRIES; i++)
        if (!plan_entry(a, i))
            return false;
    return true;
}

static const char *whole_of(const hftac_array *a, int which)
{
    const HftacEntry *e = a->plans[which].entry;
    return e && e->whole ? text_of(a, e->whole) : NULL;
}

static void describe_array(hftac_array *a, int32_t threads)
{
    const Model *m = a->m;
    hftac_description *d = &a->about;
    d->path = a->path;
    d->name = text_of(a, m->info->name);
    d->version = text_of(a, m->info->version);
    d->march = text_of(a, m->code->march);
    d->cpu_features = text_of(a, m->code->features);
    d->models = a->n;
    d->capacity = (int32_t)m->info->n_models;
    d->threads = threads;
    d->batch = m->info->batch;
    d->epochs = m->info->epochs;
    d->n_inputs = (int32_t)rows(a, HFTAC_SECTION_INPUTS);
    d->n_hypers = (int32_t)rows(a, HFTAC_SECTION_HYPERS);
    d->n_params = (int32_t)m->variant->n_states;
    d->n_outputs = (int32_t)rows(a, HFTAC_SECTION_OUTPUTS);
    d->can_train = a->plans[HFTAC_ENTRY_TRAIN].entry != NULL;
    d->can_evaluate = a->plans[HFTAC_ENTRY_EVAL].entry != NULL;
    d->can_predict = a->plans[HFTAC_ENTRY_PREDICT].entry != NULL;
    d->evaluate_whole = whole_of(a, HFTAC_ENTRY_EVAL);
    d->predict_whole = whole_of(a, HFTAC_ENTRY_PREDICT);
    d->state_bytes_per_model = m->variant->state_bytes;
    d->scratch_bytes_per_thread = m->info->scratch_bytes;
}

/* ---- Memory ---- */

/* Cuts one block into an area per row, each aligned to a line. */
typedef struct Cut {
    uint64_t bytes;
    bool overflow;
} Cut;

static uint64_t cut_next(Cut *c, uint64_t bytes, uint64_t copies)
{
    const uint64_t at = c->bytes;
    uint64_t area;
    if (__builtin_mul_overflow(bytes, copies, &area) || !round_up(area, LINE, &area) ||
        __builtin_add_overflow(c->bytes, area, &c->bytes))
        c->overflow = true;
    return at;
}

static bool allocate_inputs(hftac_array *a)
{
    const uint32_t n = rows(a, HFTAC_SECTION_INPUTS);
    if (!table(&a->input_at, n, sizeof *a->input_at) ||
        !table(&a->input_buffer, n, sizeof *a->input_buffer) ||
        !table(&a->fed, n, sizeof *a->fed))
        return false;
    Cut c = {0};
    for (uint32_t i = 0; i < n; i++)
        cut_next(&c, hft_model_input(a->m, i)->bytes,
                 a->inputs[i].is_each ? (uint64_t)a->n : 1);
    if (!block(&a->input_memory, "inputs", c.overflow ? UINT64_MAX : c.bytes))
        return false;
    a->about.input_bytes = c.bytes;
    c = (Cut){0};
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t copies = a->inputs[i].is_each ? (uint64_t)a->n : 1;
        a->input_buffer[i] =
            a->input_memory + cut_next(&c, hft_model_input(a->m, i)->bytes, copies);
        a->input_at[i] = a->input_buffer[i];
        if (a->inputs[i].is_drawn)
            hft_leave_drawn(a, (int32_t)i);
    }
    return true;
}

static bool allocate_outputs(hftac_array *a)
{
    const uint32_t n = rows(a, HFTAC_SECTION_OUTPUTS);
    if (!table(&a->output_at, n, sizeof *a->output_at))
        return false;
    Cut c = {0};
    for (uint32_t i = 0; i < n; i++)
        cut_next(&c, hft_model_output(a->m, i)->bytes, (uint64_t)a->n);
    if (!block(&a->output_memory, "outputs", c.overflow ? UINT64_MAX : c.bytes))
        return false;
    a->about.output_bytes = c.bytes;
    c = (Cut){0};
    for (uint32_t i = 0; i < n; i++)
        a->output_at[i] =
            a->output_memory + cut_next(&c, hft_model_output(a->m, i)->bytes, (uint64_t)a->n);
    return true;
}

/* Of the array's models, which may be fewer than the file's; the file's are known to fit. */
static uint64_t state_bytes(const hftac_array *a)
{
    const uint64_t n = (uint64_t)a->n;
    uint64_t bytes = n * a->m->variant->state_bytes;
    for (uint32_t i = 0; i < a->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(a->m, i);
        const uint64_t end = s->offset + (n - 1) * s->model_bytes + s->bytes;
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

static bool allocate_state(hftac_array *a)
{
    hftac_description *d = &a->about;
    uint64_t stride;
    d->state_bytes = state_bytes(a);
    d->shared_bytes = a->m->info->shared_bytes;
    if (!round_up(a->m->info->scratch_bytes, LINE, &stride) ||
        __builtin_add_overflow(stride, SCRATCH_GAP, &stride) ||
        __builtin_mul_overflow(stride, (uint64_t)d->threads, &d->scratch_bytes))
        d->scratch_bytes = UINT64_MAX;
    a->scratch_stride = stride;
    return block(&a->state, "the models' state", d->state_bytes) &&
           block(&a->shared, "shared values", d->shared_bytes) &&
           block(&a->scratch, "scratch", d->scratch_bytes);
}

static bool allocate_partition(const hftac_array *a, Partition *p)
{
    const uint64_t n = (uint64_t)a->n;
    return table(&p->wanted, n, 1) && table(&p->lo, n, sizeof *p->lo) &&
           table(&p->hi, n, sizeof *p->hi) &&
           table(&p->first, (uint64_t)a->about.threads + 1, sizeof *p->first);
}

static bool allocate_host(hftac_array *a)
{
    const uint64_t n = (uint64_t)a->n, n_metrics = (uint64_t)a->about.n_metrics;
    return table(&a->hyper_values, n * rows(a, HFTAC_SECTION_HYPERS), sizeof(double)) &&
           table(&a->results, n * a->m->info->n_results, sizeof(double)) &&
           table(&a->clocks, n * HFTAC_N_CLOCK, sizeof(double)) &&
           table(&a->seeds, n, sizeof *a->seeds) &&
           table(&a->frames, (uint64_t)a->about.threads, sizeof *a->frames) &&
           table(&a->models, n, sizeof *a->models) &&
           table(&a->metric_values, n * n_metrics, sizeof(double)) &&
           table(&a->epoch_sum, n * n_metrics, sizeof(double)) &&
           table(&a->epoch_count, n, sizeof *a->epoch_count) && table(&a->alive, n, 1) &&
           table(&a->flags, n, 1) && table(&a->evaluated, n, 1) &&
           allocate_partition(a, &a->running) && allocate_partition(a, &a->others);
}

static void fill_frames(hftac_array *a)
{
    for (int32_t t = 0; t < a->about.threads; t++)
        a->frames[t] = (HftacFrame){.size = sizeof(HftacFrame),
                                    .state = a->state,
                                    .shared = a->shared,
                                    .scratch = a->scratch + (size_t)t * a->scratch_stride,
                                    .inputs = a->input_at,
                                    .hypers = a->hyper_values,
                                    .clocks = a->clocks,
                                    .scalars = a->scalars,
                                    .seeds = a->seeds,
                                    .results = a->results,
                                    .outputs = a->output_at};
}

static void fill_values(hftac_array *a, uint64_t seed)
{
    for (int32_t b = 0; b < a->n; b++) {
        a->seeds[b] = seed + (uint64_t)b;
        for (uint32_t h = 0; h < rows(a, HFTAC_SECTION_HYPERS); h++)
            a->hyper_values[(size_t)b * rows(a, HFTAC_SECTION_HYPERS) + h] = a->hypers[h].value;
        a->clocks[(size_t)b * HFTAC_N_CLOCK + HFTAC_CLOCK_EPOCHS] = (double)a->m->info->epochs;
        a->models[b].state = HFTAC_MODEL_STOPPED;
        hft_set_state(a, b, HFTAC_MODEL_RUNNING);
    }
    a->n_uninitialized = a->n;
    for (size_t i = 0; i < (size_t)a->about.n_metrics * (size_t)a->n; i++)
        a->metric_values[i] = NAN;
    a->scalars[HFTAC_SCALAR_N_VALID] = (double)a->m->info->batch;
}

/* ---- Open and close ---- */

static hftac_status check_options(const hftac_options *o, const char *path, const Model *m)
{
    if (o->threads < 0 || o->threads > 4096)
        return hft_fail(HFTAC_USAGE, "threads must be 0 to 4096, not %d", o->threads);
    if (o->models < 0 || o->models > m->info->n_models)
        return hft_fail(HFTAC_USAGE, "%s holds %d models, %d were asked for", path,
                        (int)m->info->n_models, o->models);
    return HFTAC_OK;
}

static hftac_status build(hftac_array *a, const char *path, const hftac_options *o)
{
    hftac_status s = hft_image_open(path, &a->image);
    if (s)
        return s;
    a->m = &a->image.model;
    s = check_options(o, path, a->m);
    if (s)
        return s;
    a->n = o->models ? o->models : (int32_t)a->m->info->n_models;
    const int32_t wanted = o->threads ? o->threads : hft_cpu_count();
    a->path = strdup(path);
    if (!a->path)
        return hft_fail_memory("a path", strlen(path));
    if (!plan_entries(a) || !describe_inputs(a) || !describe_hypers(a) || !describe_params(a) ||
        !describe_outputs(a))
        return HFTAC_MEMORY;
    describe_array(a, wanted < a->n ? wanted : a->n);
    if (!allocate_state(a) || !allocate_inputs(a) || !allocate_outputs(a) || !allocate_host(a))
        return HFTAC_MEMORY;
    hftac_description *d = &a->about;
    d->total_bytes =
        d->state_bytes + d->shared_bytes + d->scratch_bytes + d->input_bytes + d->output_bytes;
    fill_frames(a);
    fill_values(a, o->seed);
    return hft_pool_open(a->about.threads, &a->pool);
}

hftac_status hftac_open(const char *path, const hftac_options *options, hftac_array **array)
{
    HFT_OWN_FLOAT_MODE;
    if (!array)
        return hft_fail(HFTAC_USAGE, "hftac_open: array is NULL");
    *array = NULL;
    if (!path)
        return hft_fail(HFTAC_USAGE, "hftac_open: path is NULL");
    const hftac_options defaults = {0};
    hftac_array *a = calloc(1, sizeof *a);
    if (!a)
        return hft_fail_memory("an array", sizeof *a);
    a->process = getpid();
    const hftac_status s = build(a, path, options ? options : &defaults);
    if (s) {
        hftac_close(a);
        return s;
    }
    *array = a;
    return HFTAC_OK;
}

static void free_partition(Partition *p)
{
    free(p->wanted);
    free(p->lo);
    free(p->hi);
    free(p->first);
}

void hftac_close(hftac_array *a)
{
    if (!a)
        return;
    hft_pool_close(a->pool);
    for (int i = 0; i < HFTAC_N_ENTRIES; i++) {
        free(a->plans[i].values);
        free(a->plans[i].faults);
        free(a->plans[i].causes);
        free(a->plans[i].kept);
    }
    free_partition(&a->running);
    free_partition(&a->others);
    void *const tables[] = {
        a->path,          a->inputs,        a->hypers,       a->params,      a->metrics,
        a->outputs,       a->state,         a->shared,       a->scratch,     a->input_memory,
        a->output_memory, a->input_at,      a->input_buffer, a->output_at,   a->fed,
        a->hyper_values,  a->results,       a->seeds,        a->clocks,      a->frames,
        a->models,        a->metric_values, a->epoch_sum,    a->epoch_count, a->flags,
        a->evaluated,     a->alive,         a->profile,      a->pointers};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        free(tables[i]);
    hft_image_close(&a->image);
    free(a);
}

hftac_status hftac_write_map(const hftac_array *a, const char *path)
{
    char usual[64];
    if (hft_check_array(a))
        return HFTAC_USAGE;
    snprintf(usual, sizeof usual, "/tmp/perf-%ld.map", (long)getpid());
    return hft_symbols_write(&a->image.file, path ? path : usual);
}
