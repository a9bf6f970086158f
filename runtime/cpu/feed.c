/* Putting a batch where the kernels read it.
 *
 * An input is [outer..., N, inner...]; a sample is `outer` pieces of `inner` bytes. */
#include <string.h>

#include "runtime/cpu/device.h"

typedef struct Pieces {
    int64_t outer, extent; /* pieces of a sample; samples that the axis holds */
    size_t inner;          /* bytes of a piece */
} Pieces;

static Pieces pieces_of(const HftacInput *in)
{
    Pieces p = {.outer = 1,
                .extent = in->shape.dim[in->batch_axis],
                .inner = hftac_type_bytes((hftac_type)in->shape.dtype)};
    for (int32_t k = 0; k < in->batch_axis; k++)
        p.outer *= in->shape.dim[k];
    for (uint32_t k = (uint32_t)in->batch_axis + 1; k < in->shape.rank; k++)
        p.inner *= (size_t)in->shape.dim[k];
    return p;
}

static void gather(unsigned char *to, const Pieces *p, const Rows *r)
{
    for (int64_t i = 0; i < p->extent; i++) {
        const int64_t in_batch = i < r->samples ? i : 0;
        const int64_t row = r->rows ? r->rows[in_batch] : in_batch;
        for (int64_t o = 0; o < p->outer; o++) {
            const int64_t piece = r->sample_major ? row * p->outer + o : o * r->samples + row;
            memcpy(to + (size_t)(o * p->extent + i) * p->inner,
                   r->values + (size_t)piece * p->inner, p->inner);
        }
    }
}

hftac_status hft_cpu_feed(Device *d, uint32_t input, int32_t model, const Rows *r)
{
    CpuDevice *c = (CpuDevice *)d;
    const HftacInput *in = hft_model_input(c->m, input);
    unsigned char *to = c->input_buffer[input] + (in->is_each ? (size_t)model * in->bytes : 0);
    c->input_at[input] = c->input_buffer[input];
    if (in->batch_axis < 0) {
        memcpy(to, r->values, in->bytes);
        return HFTAC_OK;
    }
    const Pieces p = pieces_of(in);
    if (!r->rows && r->samples == p.extent && (!r->sample_major || p.outer == 1))
        memcpy(to, r->values, in->bytes);
    else
        gather(to, &p, r);
    return HFTAC_OK;
}

hftac_status hft_cpu_feed_borrowed(Device *d, uint32_t input, const void *values)
{
    ((CpuDevice *)d)->input_at[input] = values;
    return HFTAC_OK;
}

hftac_status hft_cpu_feed_drawn(Device *d, uint32_t input)
{
    CpuDevice *c = (CpuDevice *)d;
    const HftacInput *in = hft_model_input(c->m, input);
    memset(c->input_buffer[input], 0xff,
           (size_t)in->bytes * (size_t)(in->is_each ? c->models : 1));
    c->input_at[input] = c->input_buffer[input];
    return HFTAC_OK;
}
