/* Putting a batch where the kernels read it.
 *
 * An input is [outer..., N, inner...]; a sample is `outer` pieces of `inner` bytes. */
#include <inttypes.h>
#include <string.h>

#include "runtime/array.h"

typedef struct Pieces {
    int64_t outer, extent; /* pieces of a sample; samples that the axis holds */
    size_t inner;          /* bytes of a piece */
} Pieces;

static Pieces pieces_of(const hftac_input_description *in)
{
    Pieces p = {
        .outer = 1, .extent = in->dims[in->batch_axis], .inner = hftac_type_bytes(in->type)};
    for (int32_t k = 0; k < in->batch_axis; k++)
        p.outer *= in->dims[k];
    for (int32_t k = in->batch_axis + 1; k < in->rank; k++)
        p.inner *= (size_t)in->dims[k];
    return p;
}

void hft_fill_input(hftac_array *a, int32_t input, int32_t model, const Rows *r)
{
    const hftac_input_description *in = &a->inputs[input];
    unsigned char *to =
        a->input_buffer[input] +
        (in->is_each ? (size_t)model * hft_model_input(a->m, (uint32_t)input)->bytes : 0);
    if (in->batch_axis < 0) {
        memcpy(to, r->values, in->bytes);
        return;
    }
    const Pieces p = pieces_of(in);
    if (!r->rows && r->samples == p.extent && (!r->sample_major || p.outer == 1)) {
        memcpy(to, r->values, in->bytes);
        return;
    }
    for (int64_t i = 0; i < p.extent; i++) {
        const int64_t in_batch = i < r->samples ? i : 0;
        const int64_t row = r->rows ? r->rows[in_batch] : in_batch;
        for (int64_t o = 0; o < p.outer; o++) {
            const int64_t piece = r->sample_major ? row * p.outer + o : o * r->samples + row;
            memcpy(to + (size_t)(o * p.extent + i) * p.inner,
                   r->values + (size_t)piece * p.inner, p.inner);
        }
    }
}

void hft_use_buffer(hftac_array *a, int32_t input, int64_t samples)
{
    a->input_at[input] = a->input_buffer[input];
    a->fed[input] = a->inputs[input].batch_axis < 0 ? a->m->info->batch : samples;
}

void hft_leave_drawn(hftac_array *a, int32_t input)
{
    const hftac_input_description *in = &a->inputs[input];
    memset(a->input_buffer[input], 0xff, in->bytes * (size_t)(in->is_each ? a->n : 1));
    hft_use_buffer(a, input, a->m->info->batch);
}

static hftac_status check_feed(const hftac_array *a, hftac_input input, const void *values,
                               int64_t samples)
{
    const hftac_status s = hft_check_handle(a, input, a ? a->about.n_inputs : 0, "input");
    if (s)
        return s;
    const hftac_input_description *in = &a->inputs[input];
    if (!values)
        return hft_fail(HFTAC_USAGE, "feeding %s: values is NULL", in->name);
    if (in->batch_axis >= 0 && (samples < 1 || samples > a->m->info->batch))
        return hft_fail(HFTAC_USAGE,
                        "feeding %s: %" PRId64 " samples, a batch has 1 to %" PRId64, in->name,
                        samples, a->m->info->batch);
    return HFTAC_OK;
}

hftac_status hftac_feed(hftac_array *a, hftac_input input, const void *values, int64_t samples)
{
    const hftac_status s = check_feed(a, input, values, samples);
    if (s)
        return s;
    const hftac_input_description *in = &a->inputs[input];
    const size_t bytes = in->batch_axis < 0
                             ? in->bytes
                             : in->bytes / (size_t)a->m->info->batch * (size_t)samples;
    for (int32_t b = 0; b < (in->is_each ? a->n : 1); b++)
        hft_fill_input(a, input, b,
                       &(Rows){.values = (const unsigned char *)values + (size_t)b * bytes,
                               .samples = samples});
    hft_use_buffer(a, input, samples);
    return HFTAC_OK;
}

hftac_status hftac_feed_model(hftac_array *a, hftac_input input, int32_t model,
                              const void *values, int64_t samples)
{
    hftac_status s = check_feed(a, input, values, samples);
    if (!s)
        s = hft_check_slot(a, model);
    if (s)
        return s;
    const hftac_input_description *in = &a->inputs[input];
    if (!in->is_each)
        return hft_fail(HFTAC_USAGE,
                        "input %s is shared by all models: feed it with hftac_feed", in->name);
    hft_fill_input(a, input, model, &(Rows){.values = values, .samples = samples});
    hft_use_buffer(a, input, samples);
    return HFTAC_OK;
}

hftac_status hftac_feed_borrowed(hftac_array *a, hftac_input input, const void *values)
{
    const hftac_status s = check_feed(a, input, values, a ? a->m->info->batch : 0);
    if (s)
        return s;
    const hftac_input_description *in = &a->inputs[input];
    if ((uintptr_t)values % hftac_type_bytes(in->type) != 0)
        return hft_fail(HFTAC_USAGE, "feeding %s: values are not aligned for %s", in->name,
                        hftac_type_text(in->type));
    if (in->is_each && in->bytes != hft_model_input(a->m, (uint32_t)input)->bytes)
        return hftac_feed(a, input, values, a->m->info->batch);
    a->input_at[input] = values;
    a->fed[input] = a->m->info->batch;
    return HFTAC_OK;
}

hftac_status hft_check_fed(const hftac_array *a, int which, int64_t samples)
{
    for (int32_t i = 0; i < a->about.n_inputs; i++)
        if (hft_entry_reads(a, which, i) && a->fed[i] < samples) {
            if (a->fed[i] == 0)
                return hft_fail(HFTAC_USAGE, "input %s was not fed", a->inputs[i].name);
            return hft_fail(HFTAC_USAGE,
                            "input %s was fed %" PRId64 " samples, %" PRId64 " are needed",
                            a->inputs[i].name, a->fed[i], samples);
        }
    return HFTAC_OK;
}
