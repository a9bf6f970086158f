/* Parameters and other states of a model: PyTorch's order of elements outside, inside the one in
 * which the compiler stores them. */
#include <inttypes.h>
#include <string.h>

#include "runtime/array.h"
#include "runtime/door.h"

/* Walks the elements of a state in row-major order of its logical shape, one row of the last
 * axis at a time, and copies between there and the stored order. */
typedef struct Reorder {
    unsigned char *stored, *plain;
    size_t element;
    bool to_plain;
} Reorder;

static void copy_row(const Reorder *o, uint64_t stored, uint64_t plain, int64_t n,
                     uint64_t stride)
{
    unsigned char *s = o->stored + stored * o->element, *p = o->plain + plain * o->element;
    if (stride == 1) {
        memcpy(o->to_plain ? p : s, o->to_plain ? s : p, (size_t)n * o->element);
        return;
    }
    for (int64_t i = 0; i < n; i++, s += stride * o->element, p += o->element)
        memcpy(o->to_plain ? p : s, o->to_plain ? s : p, o->element);
}

static void reorder(const HftacState *state, const Reorder *o)
{
    const uint32_t rank = state->shape.rank;
    uint64_t stride[HFTAC_MAX_RANK] = {0}, next = 1;
    for (uint32_t k = rank; k-- > 0;) {
        stride[state->layout[k]] = next;
        next *= (uint64_t)state->shape.dim[state->layout[k]];
    }
    if (rank == 0) {
        copy_row(o, 0, 0, 1, 1);
        return;
    }
    if (next == 0)
        return;
    const int64_t n = state->shape.dim[rank - 1];
    int64_t at[HFTAC_MAX_RANK] = {0};
    for (uint64_t plain = 0, stored = 0; plain < next; plain += (uint64_t)n) {
        copy_row(o, stored, plain, n, stride[rank - 1]);
        for (uint32_t k = rank - 1; k-- > 0;) {
            stored += stride[k];
            if (++at[k] < state->shape.dim[k])
                break;
            stored -= stride[k] * (uint64_t)at[k];
            at[k] = 0;
        }
    }
}

bool hft_is_plain(const HftacState *s)
{
    for (uint32_t k = 0; k < s->shape.rank; k++)
        if (s->layout[k] != k)
            return false;
    return true;
}

hftac_status hft_param_read(const hftac_array *a, int32_t param, int32_t model, void *values)
{
    const HftacState *state = hft_model_state(a->m, (uint32_t)param);
    const bool plain = hft_is_plain(state);
    const hftac_status s = a->device->kind->download(a->device, (uint32_t)param, model,
                                                     plain ? values : a->staging);
    if (!s && !plain)
        reorder(state, &(Reorder){.stored = a->staging,
                                  .plain = values,
                                  .element = hftac_type_bytes((hftac_type)state->shape.dtype),
                                  .to_plain = true});
    return s;
}

hftac_status hft_param_write(hftac_array *a, int32_t param, int32_t model, const void *values)
{
    const HftacState *state = hft_model_state(a->m, (uint32_t)param);
    const bool plain = hft_is_plain(state);
    Reorder o = {.stored = a->staging,
                 .element = hftac_type_bytes((hftac_type)state->shape.dtype)};
    memcpy(&o.plain, &values, sizeof values); /* only read: to_plain is false */
    if (!plain)
        reorder(state, &o);
    return a->device->kind->upload(a->device, (uint32_t)param, model,
                                   plain ? values : a->staging);
}

static hftac_status check_param(const hftac_array *a, hftac_param param, int32_t model,
                                const void *values, size_t bytes)
{
    const hftac_status s =
        hft_check_access(a, model, param, a ? a->about.n_params : 0, "parameter", values);
    if (s)
        return s;
    const hftac_param_description *d = &a->params[param];
    char shape[SHAPE_TEXT_BYTES];
    if (bytes != d->bytes)
        return hft_fail(HFTAC_USAGE, "parameter %s, %s%s, has %" PRIu64 " bytes, not %zu",
                        d->name, hftac_type_text(d->type),
                        hft_shape_text(shape, d->rank, d->dims), d->bytes, bytes);
    return HFTAC_OK;
}

hftac_status hftac_get_param(hftac_array *a, hftac_param param, int32_t model, void *values,
                             size_t bytes)
{
    HFT_STANDARD_FLOAT_MODE;
    hftac_status s = check_param(a, param, model, values, bytes);
    if (!s)
        s = hft_initialize_model(a, model);
    return s ? s : hft_param_read(a, param, model, values);
}

hftac_status hftac_set_param(hftac_array *a, hftac_param param, int32_t model,
                             const void *values, size_t bytes)
{
    HFT_STANDARD_FLOAT_MODE;
    hftac_status s = check_param(a, param, model, values, bytes);
    if (!s)
        s = hft_initialize_model(a, model);
    return s ? s : hft_param_write(a, param, model, values);
}
