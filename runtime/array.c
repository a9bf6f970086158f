/* Opening and closing an array: its descriptions, what the host keeps of its models, its device.
 *
 * hftac_close takes a half-built array, so that hftac_open has one way out. */
#include "runtime/array.h"
#include "runtime/door.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* n * size zeroed bytes; NULL and false when they do not fit or are not there. */
static bool table(void *pointer_to_table, uint64_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);
    memcpy(pointer_to_table, &p, sizeof p);
    if (!p)
        hft_fail_memory("tables", n * size);
    return p != NULL;
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
    const HftacEntry *e = a->entries[which].entry;
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

static hftac_metric add_metric(hftac_array *a, const HftacResult *r, int which)
{
    const char *name = text_of(a, r->name);
    const bool factor = r->kind == HFTAC_RESULT_FACTOR;
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
    d->is_loss |= r->is_loss != 0;
    return i;
}

/* Sorts an entry's results by what becomes of them. */
static bool plan_entry(hftac_array *a, int which)
{
    EntryResults *p = &a->entries[which];
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
        if (r->kind == HFTAC_RESULT_VALUE || r->kind == HFTAC_RESULT_FACTOR)
            p->values[p->n_values++] =
                (ResultRef){.index = r->index, .metric = add_metric(a, r, which)};
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
        a->entries[i].entry = hft_model_entry(a->m, (uint32_t)i);
        n += a->entries[i].entry ? a->entries[i].entry->n_results : 0;
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
    const HftacEntry *e = a->entries[which].entry;
    return e && e->whole ? text_of(a, e->whole) : NULL;
}

static void describe_array(hftac_array *a)
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
    d->batch = m->info->batch;
    d->epochs = m->info->epochs;
    d->n_inputs = (int32_t)rows(a, HFTAC_SECTION_INPUTS);
    d->n_hypers = (int32_t)rows(a, HFTAC_SECTION_HYPERS);
    d->n_params = (int32_t)m->variant->n_states;
    d->n_outputs = (int32_t)rows(a, HFTAC_SECTION_OUTPUTS);
    d->can_train = a->entries[HFTAC_ENTRY_TRAIN].entry != NULL;
    d->can_evaluate = a->entries[HFTAC_ENTRY_EVAL].entry != NULL;
    d->can_predict = a->entries[HFTAC_ENTRY_PREDICT].entry != NULL;
    d->evaluate_whole = whole_of(a, HFTAC_ENTRY_EVAL);
    d->predict_whole = whole_of(a, HFTAC_ENTRY_PREDICT);
    d->state_bytes_per_model = m->variant->state_bytes;
    d->scratch_bytes_per_thread = m->info->scratch_bytes;
}

static hftac_status describe_device(hftac_array *a)
{
    const DeviceMemory *m = &a->device->memory;
    hftac_description *d = &a->about;
    d->device = a->device->kind->name;
    d->threads = a->device->threads;
    d->state_bytes = m->state;
    d->shared_bytes = m->shared;
    d->scratch_bytes = m->scratch;
    d->input_bytes = m->input;
    d->output_bytes = m->output;
    d->total_bytes = m->state + m->shared + m->scratch + m->input + m->output;
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; !s && i < d->n_inputs; i++)
        if (a->inputs[i].is_drawn)
            s = hft_leave_drawn(a, i);
    return s;
}

/* ---- Memory ---- */

static uint64_t staging_bytes(const hftac_array *a)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < a->m->variant->n_states; i++) {
        const HftacState *s = hft_model_state(a->m, i);
        most = !hft_is_plain(s) && s->bytes > most ? s->bytes : most;
    }
    return most;
}

static bool allocate_host(hftac_array *a)
{
    const uint64_t n = (uint64_t)a->n, n_metrics = (uint64_t)a->about.n_metrics;
    Control *c = &a->control;
    return table(&c->hypers, n * rows(a, HFTAC_SECTION_HYPERS), sizeof(double)) &&
           table(&c->clocks, n * HFTAC_N_CLOCK, sizeof(double)) &&
           table(&c->scalars, HFTAC_N_SCALARS, sizeof(double)) &&
           table(&c->seeds, n, sizeof *c->seeds) &&
           table(&a->fed, rows(a, HFTAC_SECTION_INPUTS), sizeof *a->fed) &&
           table(&a->staging, staging_bytes(a), 1) && table(&a->models, n, sizeof *a->models) &&
           table(&a->metric_values, n * n_metrics, sizeof(double)) &&
           table(&a->epoch_sum, n * n_metrics, sizeof(double)) &&
           table(&a->epoch_count, n, sizeof *a->epoch_count) && table(&a->alive, n, 1) &&
           table(&a->flags, n, 1) && table(&a->evaluated, n, 1);
}

static void fill_values(hftac_array *a, uint64_t seed)
{
    for (int32_t b = 0; b < a->n; b++) {
        a->control.seeds[b] = seed + (uint64_t)b;
        for (uint32_t h = 0; h < rows(a, HFTAC_SECTION_HYPERS); h++)
            a->control.hypers[(size_t)b * rows(a, HFTAC_SECTION_HYPERS) + h] =
                a->hypers[h].value;
        a->control.clocks[(size_t)b * HFTAC_N_CLOCK + HFTAC_CLOCK_EPOCHS] =
            (double)a->m->info->epochs;
        a->models[b].state = HFTAC_MODEL_STOPPED;
        hft_set_state(a, b, HFTAC_MODEL_RUNNING);
    }
    a->n_uninitialized = a->n;
    for (size_t i = 0; i < (size_t)a->about.n_metrics * (size_t)a->n; i++)
        a->metric_values[i] = NAN;
    a->control.scalars[HFTAC_SCALAR_N_VALID] = (double)a->m->info->batch;
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
    a->path = strdup(path);
    if (!a->path)
        return hft_fail_memory("a path", strlen(path));
    if (!plan_entries(a) || !describe_inputs(a) || !describe_hypers(a) || !describe_params(a) ||
        !describe_outputs(a))
        return HFTAC_MEMORY;
    describe_array(a);
    if (!allocate_host(a))
        return HFTAC_MEMORY;
    fill_values(a, o->seed);
    s = hft_device_open(o->device,
                        &(DeviceSetup){.model = a->m,
                                       .path = a->path,
                                       .control = &a->control,
                                       .models = a->n,
                                       .threads = o->threads},
                        &a->device);
    return s ? s : describe_device(a);
}

hftac_status hftac_open(const char *path, const hftac_options *options, hftac_array **array)
{
    HFT_STANDARD_FLOAT_MODE;
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

void hftac_close(hftac_array *a)
{
    if (!a)
        return;
    hft_device_close(a->device);
    for (int i = 0; i < HFTAC_N_ENTRIES; i++) {
        free(a->entries[i].values);
        free(a->entries[i].faults);
        free(a->entries[i].causes);
        free(a->entries[i].kept);
    }
    void *const tables[] = {a->path,
                            a->inputs,
                            a->hypers,
                            a->params,
                            a->metrics,
                            a->outputs,
                            a->fed,
                            a->staging,
                            a->control.hypers,
                            a->control.clocks,
                            a->control.scalars,
                            a->control.seeds,
                            a->models,
                            a->metric_values,
                            a->epoch_sum,
                            a->epoch_count,
                            a->flags,
                            a->evaluated,
                            a->alive};
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
