/* Feeding a batch: what the caller may give, and what an entry has to be given. */
#include <inttypes.h>

#include "runtime/array.h"

hftac_status hft_fill_input(hftac_array *a, int32_t input, int32_t model, const Rows *rows)
{
    return a->device->kind->feed(a->device, (uint32_t)input, model, rows);
}

void hft_note_fed(hftac_array *a, int32_t input, int64_t samples)
{
    a->fed[input] = a->inputs[input].batch_axis < 0 ? a->m->info->batch : samples;
}

hftac_status hft_leave_drawn(hftac_array *a, int32_t input)
{
    hft_note_fed(a, input, a->m->info->batch);
    return a->device->kind->feed_drawn(a->device, (uint32_t)input);
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
    hftac_status s = check_feed(a, input, values, samples);
    if (s)
        return s;
    const hftac_input_description *in = &a->inputs[input];
    const size_t bytes = in->batch_axis < 0
                             ? in->bytes
                             : in->bytes / (size_t)a->m->info->batch * (size_t)samples;
    for (int32_t b = 0; !s && b < (in->is_each ? a->n : 1); b++)
        s = hft_fill_input(a, input, b,
                           &(Rows){.values = (const unsigned char *)values + (size_t)b * bytes,
                                   .samples = samples});
    hft_note_fed(a, input, samples);
    return s;
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
    s = hft_fill_input(a, input, model, &(Rows){.values = values, .samples = samples});
    hft_note_fed(a, input, samples);
    return s;
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
    hft_note_fed(a, input, a->m->info->batch);
    return a->device->kind->feed_borrowed(a->device, (uint32_t)input, values);
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
