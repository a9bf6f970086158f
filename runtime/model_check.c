/* Is the descriptor inside a model.so what model_abi.h says?
 *
 * A pointer is followed only if it lies in the file's own segments, a function is believed only
 * if it lies in an executable one, and every number that later code relies on (offsets in
 * the state block, positions of results, bytes of a shape) is checked here once. */
#include <elf.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/error.h"
#include "runtime/image.h"

enum {
    MAX_MODELS = 1 << 20,
    MAX_ROWS = 1 << 20
};

typedef struct Check {
    const char *path;
    const Image *image;
    const HftacModel *m;
    const char *fault; /* the first one found */
} Check;

static bool fault(Check *c, const char *what)
{
    if (!c->fault)
        c->fault = what;
    return false;
}

static const Segment *segment_of(const Image *image, const void *p, uint64_t bytes)
{
    const uint64_t address = (uintptr_t)p - (uintptr_t)image->mapping.memory;
    for (int i = 0; i < image->file.n_segments; i++) {
        const Segment *s = &image->file.segments[i];
        if (address >= s->address && address - s->address <= s->bytes &&
            bytes <= s->bytes - (address - s->address))
            return s;
    }
    return NULL;
}

static bool readable(const Check *c, const void *p, uint64_t bytes, size_t alignment)
{
    const Segment *s = segment_of(c->image, p, bytes);
    return s && (s->flags & PF_R) && (uintptr_t)p % alignment == 0;
}

static bool check_string(Check *c, const char *text)
{
    const Segment *s = segment_of(c->image, text, 1);
    if (!s || !(s->flags & PF_R))
        return fault(c, "a name lies outside the file");
    const uint64_t at = (uintptr_t)text - (uintptr_t)c->image->mapping.memory;
    const uint64_t left = s->bytes - (at - s->address);
    return memchr(text, 0, left) ? true : fault(c, "a name has no end");
}

/* A function pointer; data pointers and function pointers are the same thing on x86-64, by
 * POSIX's dlsym too. */
static bool check_function(Check *c, HftacRegionFn *fn, bool required)
{
    const void *p = NULL;
    memcpy(&p, &fn, sizeof p);
    if (!p)
        return required ? fault(c, "an entry point has no code") : true;
    const Segment *s = segment_of(c->image, p, 1);
    return s && (s->flags & PF_X) ? true
                                  : fault(c, "an entry point's code lies outside the file");
}

static bool check_table(Check *c, const void *rows, uint32_t n, uint32_t size, size_t least)
{
    if (n == 0)
        return true;
    if (size < least || size % 8 != 0 || size > 65536 || n > MAX_ROWS)
        return fault(c, "a table's size is wrong");
    return readable(c, rows, (uint64_t)n * size, 8) ? true
                                                    : fault(c, "a table lies outside the file");
}

static bool check_shape(Check *c, const HftacShape *shape, int32_t batch_axis,
                        int64_t per_sample, uint64_t bytes)
{
    uint64_t need = 0;
    if (!hft_shape_bytes(shape, &need) || need > bytes)
        return fault(c, "a shape and its bytes disagree");
    if (batch_axis < -1 || batch_axis >= (int32_t)shape->rank)
        return fault(c, "a batch axis is out of range");
    if (batch_axis >= 0 && (per_sample <= 0 || shape->dim[batch_axis] % per_sample != 0 ||
                            shape->dim[batch_axis] / per_sample != c->m->batch))
        return fault(c, "a batch axis does not have the batch's size");
    return true;
}

static bool check_layout(Check *c, const HftacState *s)
{
    unsigned seen = 0;
    for (uint32_t k = 0; k < s->shape.rank; k++)
        if (s->layout[k] < s->shape.rank)
            seen |= 1u << s->layout[k];
    return seen == (1u << s->shape.rank) - 1
               ? true
               : fault(c, "a state's layout is not a permutation of its axes");
}

static bool check_state(Check *c, const HftacState *s)
{
    if (!check_string(c, s->name) || !check_shape(c, &s->shape, -1, 1, s->bytes) ||
        !check_layout(c, s))
        return false;
    const uint64_t block = c->m->state_bytes;
    if (s->offset > block || s->bytes > block - s->offset ||
        s->offset % hftac_type_bytes((hftac_type)s->shape.dtype) != 0)
        return fault(c, "a state lies outside the model's block");
    return s->role <= HFTAC_ROLE_METRIC ? true : fault(c, "a state has an unknown role");
}

static bool check_hyper(Check *c, const HftacHyper *h)
{
    if (!check_string(c, h->name))
        return false;
    if (h->n_set > MAX_ROWS || (h->n_set && !readable(c, h->set, h->n_set * sizeof(double), 8)))
        return fault(c, "a hyper's domain lies outside the file");
    return h->domain <= HFTAC_DOMAIN_SET ? true : fault(c, "a hyper's domain is unknown");
}

static bool check_entry(Check *c, const HftacEntry *e)
{
    if (!e->present)
        return true;
    if (!check_function(c, e->shared, false) || !check_function(c, e->models, true) ||
        !check_table(c, e->results, e->n_results, c->m->result_size, sizeof(HftacResult)))
        return false;
    for (uint32_t i = 0; i < 128; i++)
        if ((e->input_mask[i / 64] >> (i % 64) & 1) && i >= c->m->n_inputs)
            return fault(c, "an entry point reads an input that is not there");
    for (uint32_t i = 0; i < e->n_results; i++) {
        const HftacResult *r = hft_entry_result(c->m, e, i);
        if (r->name && !check_string(c, r->name))
            return false;
        if (r->index >= c->m->n_results ||
            (r->kind == HFTAC_RESULT_FAULT && r->index + 1 >= c->m->n_results))
            return fault(c, "a result's position is out of range");
        if (!r->name && (r->kind == HFTAC_RESULT_VALUE || r->kind == HFTAC_RESULT_FACTOR))
            return fault(c, "a result has no name");
    }
    return true;
}

static bool check_numbers(Check *c)
{
    const HftacModel *m = c->m;
    const uint64_t limit = UINT64_C(1) << 46;
    if (m->n_models < 1 || m->n_models > MAX_MODELS || m->batch < 0 || m->epochs < 0)
        return fault(c, "its number of models, batch or epochs makes no sense");
    if (m->state_bytes > limit || m->shared_bytes > limit || m->scratch_bytes > limit ||
        m->state_bytes % 64 != 0)
        return fault(c, "its memory sizes make no sense");
    if (m->n_inputs > 128 || m->n_entries > 64 || m->n_results > MAX_ROWS)
        return fault(c, "it has too many inputs, entry points or results");
    return true;
}

static bool check_rows(Check *c)
{
    const HftacModel *m = c->m;
    if (!check_table(c, m->inputs, m->n_inputs, m->input_size, sizeof(HftacInput)) ||
        !check_table(c, m->hypers, m->n_hypers, m->hyper_size, sizeof(HftacHyper)) ||
        !check_table(c, m->states, m->n_states, m->state_size, sizeof(HftacState)) ||
        !check_table(c, m->outputs, m->n_outputs, m->output_size, sizeof(HftacOutput)) ||
        !check_table(c, m->entries, m->n_entries, m->entry_size, sizeof(HftacEntry)))
        return false;
    bool ok = true;
    for (uint32_t i = 0; ok && i < m->n_inputs; i++) {
        const HftacInput *in = hft_model_input(m, i);
        ok = check_string(c, in->name) &&
             check_shape(c, &in->shape, in->batch_axis, 1, in->bytes);
    }
    for (uint32_t i = 0; ok && i < m->n_outputs; i++) {
        const HftacOutput *out = hft_model_output(m, i);
        ok = check_string(c, out->name) &&
             check_shape(c, &out->shape, out->batch_axis, out->per_sample, out->bytes);
    }
    for (uint32_t i = 0; ok && i < m->n_states; i++)
        ok = check_state(c, hft_model_state(m, i));
    for (uint32_t i = 0; ok && i < m->n_hypers; i++)
        ok = check_hyper(c, hft_model_hyper(m, i));
    for (uint32_t i = 0; ok && i < m->n_entries && i < HFTAC_N_ENTRIES; i++)
        if (hft_model_entry(m, i))
            ok = check_entry(c, hft_model_entry(m, i));
    if (ok && m->n_states && !hft_model_entry(m, HFTAC_ENTRY_INIT))
        return fault(c, "it cannot make initial values");
    if (ok && hft_model_entry(m, HFTAC_ENTRY_EVAL) && !hft_model_entry(m, HFTAC_ENTRY_EVAL_END))
        return fault(c, "it can begin an evaluation but not end it");
    return ok;
}

hftac_status hft_model_check(const char *path, const Image *image)
{
    Check c = {.path = path, .image = image, .m = image->model};
    const HftacModel *m = image->model;
    const size_t head = offsetof(HftacModel, version);
    if (!readable(&c, m, head, 8) || memcmp(m->magic, HFTAC_ABI_MAGIC, sizeof m->magic) != 0)
        return hft_fail(HFTAC_MODEL, "%s: not a model.so: its descriptor has a wrong mark",
                        path);
    if (m->abi_major != HFTAC_ABI_MAJOR)
        return hft_fail(HFTAC_MODEL,
                        "%s: made for version %u of the descriptor, this libhftac reads "
                        "version %u; compile it again",
                        path, m->abi_major, HFTAC_ABI_MAJOR);
    if (m->size < sizeof *m || !readable(&c, m, m->size, 8))
        return hft_fail(HFTAC_MODEL, "%s: damaged model.so: its descriptor has a wrong size",
                        path);
    if (check_string(&c, m->version) && check_string(&c, m->name) &&
        check_string(&c, m->march) && check_string(&c, m->cpu_features) && check_numbers(&c))
        check_rows(&c);
    return c.fault ? hft_fail(HFTAC_MODEL, "%s: damaged model.so: %s", path, c.fault)
                   : HFTAC_OK;
}

bool hft_shape_bytes(const HftacShape *shape, uint64_t *bytes)
{
    *bytes = hftac_type_bytes((hftac_type)shape->dtype);
    if (*bytes == 0 || shape->rank > HFTAC_MAX_RANK)
        return false;
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->dim[i] < 0 ||
            __builtin_mul_overflow(*bytes, (uint64_t)shape->dim[i], bytes) ||
            *bytes > INT64_MAX)
            return false;
    return true;
}

static const void *row(const void *rows, uint32_t size, uint32_t i)
{
    return (const char *)rows + (size_t)size * i;
}

const HftacInput *hft_model_input(const HftacModel *m, uint32_t i)
{
    return row(m->inputs, m->input_size, i);
}

const HftacHyper *hft_model_hyper(const HftacModel *m, uint32_t i)
{
    return row(m->hypers, m->hyper_size, i);
}

const HftacState *hft_model_state(const HftacModel *m, uint32_t i)
{
    return row(m->states, m->state_size, i);
}

const HftacOutput *hft_model_output(const HftacModel *m, uint32_t i)
{
    return row(m->outputs, m->output_size, i);
}

const HftacEntry *hft_model_entry(const HftacModel *m, uint32_t i)
{
    const HftacEntry *e = i < m->n_entries ? row(m->entries, m->entry_size, i) : NULL;
    return e && e->present ? e : NULL;
}

const HftacResult *hft_entry_result(const HftacModel *m, const HftacEntry *e, uint32_t i)
{
    return row(e->results, m->result_size, i);
}
