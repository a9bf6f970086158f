/* Binding tensors to a model's inputs, for whoever opens a data set (data.c).
 *
 * Everything that can be wrong with data is found here, before training: all missing tensors
 * and wrong types and shapes in one message; then values that a conversion would lose; then
 * labels and indices outside the ranges that the descriptor's faults state. */
#include "runtime/data/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Binder {
    const hftac_array *a;
    hftac_data *data;
    const char *path; /* for messages */
    int purpose_entry;
    const Source *sources;
    int32_t n_sources;
    Report report;
    const char *counted; /* the input that decided the number of samples */
} Binder;

/* ---- Shapes ---- */

/* The dims that data for this input must have; -1 where the samples stand.  An `each` input
 * has one axis more, in front. */
static int32_t wanted_dims(const hftac_input_description *in, int64_t dims[HFTAC_MAX_DIMS + 1])
{
    int32_t n = 0;
    if (in->is_each)
        dims[n++] = -2;
    if (in->batch_axis >= 0)
        dims[n++] = -1;
    for (int32_t k = 0; k < in->rank; k++)
        if (k != in->batch_axis)
            dims[n++] = in->dims[k];
    return n;
}

static const char *wanted_text(const hftac_input_description *in, char text[SHAPE_TEXT_BYTES])
{
    int64_t dims[HFTAC_MAX_DIMS + 1];
    const int32_t rank = wanted_dims(in, dims);
    size_t n = (size_t)snprintf(text, SHAPE_TEXT_BYTES, "[");
    for (int32_t k = 0; k < rank && n < SHAPE_TEXT_BYTES - 24; k++) {
        const char *comma = k ? ", " : "";
        if (dims[k] < 0)
            n += (size_t)snprintf(text + n, SHAPE_TEXT_BYTES - n, "%s%s", comma,
                                  dims[k] == -1 ? "samples" : "models");
        else
            n += (size_t)snprintf(text + n, SHAPE_TEXT_BYTES - n, "%s%" PRId64, comma, dims[k]);
    }
    snprintf(text + n, SHAPE_TEXT_BYTES - n, "]");
    return text;
}

static bool shape_fits(const Binder *b, const hftac_input_description *in, const Source *s)
{
    int64_t dims[HFTAC_MAX_DIMS + 1];
    if (s->rank > HFTAC_MAX_DIMS || wanted_dims(in, dims) != s->rank)
        return false;
    for (int32_t k = 0; k < s->rank; k++) {
        if (dims[k] >= 0 && dims[k] != s->dims[k])
            return false;
        if (dims[k] == -2 && s->dims[k] != 1 && s->dims[k] != b->a->n &&
            s->dims[k] != b->a->about.capacity)
            return false;
    }
    return true;
}

/* ---- Binding ---- */

static const Source *find_source(const Binder *b, const char *name)
{
    for (int32_t i = 0; i < b->n_sources; i++)
        if (strcmp(b->sources[i].name, name) == 0)
            return &b->sources[i];
    return NULL;
}

static void report_missing(Binder *b, const hftac_input_description *in)
{
    char names[512] = "", shape[SHAPE_TEXT_BYTES];
    size_t used = 0;
    for (int32_t i = 0; i < b->n_sources && used + 3 < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.100s", i ? ", " : "",
                                 b->sources[i].name);
    hft_report_add(&b->report, "there is no tensor \"%s\" (%s %s); there are: %s", in->name,
                   hftac_type_text(in->type), wanted_text(in, shape),
                   b->n_sources ? names : "none");
}

static void count_samples(Binder *b, const hftac_input_description *in, const Source *s)
{
    if (in->batch_axis < 0)
        return;
    const int64_t n = s->dims[in->is_each ? 1 : 0];
    if (!b->counted) {
        b->counted = in->name;
        b->data->samples = n;
    } else if (n != b->data->samples) {
        hft_report_add(&b->report, "\"%s\" has %" PRId64 " samples, \"%s\" has %" PRId64,
                       in->name, n, b->counted, b->data->samples);
    }
}

static void bind_input(Binder *b, int32_t i, const Source *s)
{
    const hftac_input_description *in = &b->a->inputs[i];
    char have[SHAPE_TEXT_BYTES], need[SHAPE_TEXT_BYTES];
    if (!shape_fits(b, in, s)) {
        hft_report_add(&b->report, "\"%s\" has shape %s, needed is %s", in->name,
                       hft_shape_text(have, s->rank, s->dims), wanted_text(in, need));
        return;
    }
    if (!hft_can_convert(s->type, in->type)) {
        hft_report_add(&b->report, "\"%s\" is of type %s, needed is %s%s", in->name,
                       s->type_name, hftac_type_text(in->type),
                       in->type < HFTAC_F32 || s->type == HFTAC_F64 ? ""
                                                                    : " or an integer type");
        return;
    }
    count_samples(b, in, s);
    DataInput *d = &b->data->inputs[i];
    d->copies = in->is_each ? (int32_t)s->dims[0] : 1;
}

static bool is_used(const hftac_array *a, int entry, int32_t i)
{
    if (entry == HFTAC_ENTRY_PREDICT)
        return hft_entry_reads(a, entry, i);
    return hft_entry_reads(a, HFTAC_ENTRY_TRAIN, i) ||
           hft_entry_reads(a, HFTAC_ENTRY_EVAL, i) ||
           hft_entry_reads(a, HFTAC_ENTRY_PREDICT, i);
}

/* If all that is needed is drawn: as many samples as the file has of other inputs. */
static void count_others(Binder *b)
{
    for (int32_t i = 0; i < b->a->about.n_inputs && !b->counted; i++) {
        const hftac_input_description *in = &b->a->inputs[i];
        const Source *s = find_source(b, in->name);
        if (s && shape_fits(b, in, s))
            count_samples(b, in, s);
    }
}

static hftac_status bind_all(Binder *b)
{
    for (int32_t i = 0; i < b->a->about.n_inputs; i++) {
        if (!is_used(b->a, b->purpose_entry, i))
            continue;
        const hftac_input_description *in = &b->a->inputs[i];
        const Source *s = find_source(b, in->name);
        if (s)
            bind_input(b, i, s);
        else if (hft_entry_reads(b->a, b->purpose_entry, i) && !in->is_drawn)
            report_missing(b, in);
    }
    count_others(b);
    char head[512];
    snprintf(head, sizeof head, "%.400s does not fit model %.64s", b->path, b->a->about.name);
    const hftac_status s = hft_report_fail(&b->report, HFTAC_DATA, head);
    if (s)
        return s;
    if (b->data->samples == 0)
        return hft_fail(HFTAC_DATA, "%s: there are no samples in it", b->path);
    return HFTAC_OK;
}

/* ---- Values ---- */

static int64_t sample_of(const Binder *b, const hftac_input_description *in, size_t element,
                         size_t elements_per_sample)
{
    if (in->batch_axis < 0 || elements_per_sample == 0)
        return (int64_t)element;
    return (int64_t)(element / elements_per_sample) % b->data->samples;
}

static size_t elements_per_sample(const hftac_input_description *in)
{
    size_t n = 1;
    for (int32_t k = 0; k < in->rank; k++)
        if (k != in->batch_axis)
            n *= (size_t)in->dims[k];
    return n;
}

/* n elements, a piece at a time, so that no second copy of the data is ever whole. */
static hftac_status convert_pieces(const Binder *b, int32_t i, const Source *s, size_t n)
{
    enum {
        PIECE = 1 << 16
    };
    const hftac_input_description *in = &b->a->inputs[i];
    const size_t from = hftac_type_bytes((hftac_type)s->type), to = hftac_type_bytes(in->type);
    unsigned char *piece = s->values ? NULL : malloc(PIECE * from);
    hftac_status status =
        s->values || piece ? HFTAC_OK : hft_fail_memory("a piece of a tensor", PIECE * from);
    for (size_t at = 0; at < n && !status; at += PIECE) {
        const size_t count = n - at < PIECE ? n - at : PIECE;
        const unsigned char *values = s->values ? s->values + at * from : piece;
        size_t bad = 0;
        if (!s->values)
            status = hft_read_at(s->file, s->begin + at * from, piece, count * from);
        if (!status && !hft_convert(s->type, values, in->type,
                                    b->data->inputs[i].owned + at * to, count, &bad))
            status = hft_fail(
                HFTAC_DATA,
                "%s: \"%s\" is of type %s, and %" PRId64 " in sample %" PRId64
                " does not fit %s",
                b->path, in->name, s->type_name, hft_integer_at(s->type, values, bad),
                sample_of(b, in, at + bad, elements_per_sample(in)), hftac_type_text(in->type));
    }
    free(piece);
    return status;
}

static hftac_status convert_input(Binder *b, int32_t i, const Source *s)
{
    const hftac_input_description *in = &b->a->inputs[i];
    DataInput *d = &b->data->inputs[i];
    const size_t per_sample = elements_per_sample(in);
    const size_t n = per_sample * (in->batch_axis < 0 ? 1 : (size_t)b->data->samples);
    d->copy_bytes = n * hftac_type_bytes(in->type);
    const bool same = s->type == (int32_t)in->type;
    if (same && s->values) {
        d->values = s->values;
        return HFTAC_OK;
    }
    const size_t all = n * (size_t)d->copies;
    uint64_t bytes;
    if (__builtin_mul_overflow(d->copy_bytes, (uint64_t)d->copies, &bytes) ||
        !(d->owned = malloc(bytes ? bytes : 1)))
        return hft_fail_memory("a tensor of the data", bytes);
    d->values = d->owned;
    d->number = hft_device_number_tensor(b->a->device);
    return same ? hft_read_at(s->file, s->begin, d->owned, bytes)
                : convert_pieces(b, i, s, all);
}

static hftac_status check_range(const Binder *b, int32_t i, const HftacResult *r)
{
    const hftac_input_description *in = &b->a->inputs[i];
    const DataInput *d = &b->data->inputs[i];
    const size_t n = d->copy_bytes / hftac_type_bytes(in->type) * (size_t)d->copies;
    for (size_t k = 0; k < n; k++) {
        const int64_t v = hft_integer_at((int32_t)in->type, d->values, k);
        if ((v >= r->lo && v < r->hi) || (r->has_ignore && v == r->ignore))
            continue;
        char ignore[48] = "";
        if (r->has_ignore)
            snprintf(ignore, sizeof ignore, ", or %" PRId64 " to ignore it", r->ignore);
        return hft_fail(HFTAC_DATA,
                        "%s: \"%s\" is %" PRId64 " in sample %" PRId64 ", allowed are %" PRId64
                        " to %" PRId64 "%s",
                        b->path, in->name, v, sample_of(b, in, k, elements_per_sample(in)),
                        r->lo, r->hi - 1, ignore);
    }
    return HFTAC_OK;
}

/* The ranges that entry point `which` checks in this input. */
static hftac_status check_ranges(const Binder *b, int32_t i, int which)
{
    const EntryResults *p = &b->a->entries[which];
    const hftac_input_description *in = &b->a->inputs[i];
    hftac_status s = HFTAC_OK;
    for (int k = 0; k < p->n_faults && !s; k++)
        if (p->faults[k]->input == i && in->type < HFTAC_F32)
            s = check_range(b, i, p->faults[k]);
    return s;
}

static hftac_status check_values(Binder *b)
{
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; i < b->a->about.n_inputs && !s; i++) {
        if (!b->data->inputs[i].copies)
            continue;
        s = convert_input(b, i, find_source(b, b->a->inputs[i].name));
        if (!s)
            s = check_ranges(b, i, b->purpose_entry);
        if (!s && b->purpose_entry == HFTAC_ENTRY_TRAIN)
            s = check_ranges(b, i, HFTAC_ENTRY_EVAL);
    }
    return s;
}

hftac_status hft_data_bind(const hftac_array *a, hftac_data *d, const char *path,
                           const hftac_data_options *o, const Source *sources, int32_t n)
{
    static const int entries[] = {HFTAC_ENTRY_TRAIN, HFTAC_ENTRY_EVAL, HFTAC_ENTRY_PREDICT};
    static const char *const names[] = {"training", "evaluation", "prediction"};
    const hftac_purpose purpose = o ? o->purpose : HFTAC_FOR_TRAINING;
    if (purpose < HFTAC_FOR_TRAINING || purpose > HFTAC_FOR_PREDICTION)
        return hft_fail(HFTAC_USAGE, "there is no purpose number %d", (int)purpose);
    if (!a->entries[entries[purpose]].entry)
        return hft_fail(HFTAC_USAGE, "%s was compiled without %s", a->path, names[purpose]);
    Binder b = {.a = a,
                .data = d,
                .path = path,
                .purpose_entry = entries[purpose],
                .sources = sources,
                .n_sources = n};
    const hftac_status s = bind_all(&b);
    return s ? s : check_values(&b);
}
