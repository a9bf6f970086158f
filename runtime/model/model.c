/* Reading the descriptor's tables, which model_check.c has checked. */
#include "runtime/model/model.h"

#include <string.h>

#define HFTAC_ROW(name, number, text, bytes, file_name) \
    static_assert((int)HFTAC_##name == (int)HFTAC_DT_##name, "element types");
HFTAC_TYPE_TABLE(HFTAC_ROW)
#undef HFTAC_ROW
static_assert((int)HFTAC_PARAMETER == HFTAC_ROLE_PARAM &&
                  (int)HFTAC_BUFFER == HFTAC_ROLE_BUFFER &&
                  (int)HFTAC_OPTIMIZER == HFTAC_ROLE_OPTIM &&
                  (int)HFTAC_COUNTER == HFTAC_ROLE_COUNTER &&
                  (int)HFTAC_ACCUMULATOR == HFTAC_ROLE_METRIC,
              "roles");
static_assert((int)HFTAC_DOMAIN_NONE == HFTAC_DOMAIN_KIND_NONE &&
                  (int)HFTAC_DOMAIN_RANGE == HFTAC_DOMAIN_KIND_RANGE &&
                  (int)HFTAC_DOMAIN_LOG == HFTAC_DOMAIN_KIND_LOG &&
                  (int)HFTAC_DOMAIN_INT == HFTAC_DOMAIN_KIND_INT &&
                  (int)HFTAC_DOMAIN_SET == HFTAC_DOMAIN_KIND_SET,
              "domains");
static_assert((int)HFTAC_MAX_DIMS == HFTAC_MAX_RANK, "ranks");

int32_t hft_state_of_role(const Model *m, uint32_t role)
{
    for (uint32_t i = 0; i < m->variant->n_states; i++)
        if (hft_model_state(m, i)->role == role)
            return (int32_t)i;
    return -1;
}

const void *hft_model_row(const Model *m, int tag, uint32_t i)
{
    const Table *t = &m->table[tag];
    return t->rows + (size_t)t->row_bytes * i;
}

const char *hft_model_text(const Model *m, HftacText text)
{
    return (const char *)m->table[HFTAC_SECTION_TEXT].rows + text;
}

const HftacInput *hft_model_input(const Model *m, uint32_t i)
{
    return hft_model_row(m, HFTAC_SECTION_INPUTS, i);
}

const HftacHyper *hft_model_hyper(const Model *m, uint32_t i)
{
    return hft_model_row(m, HFTAC_SECTION_HYPERS, i);
}

const HftacState *hft_model_state(const Model *m, uint32_t i)
{
    return hft_model_row(m, HFTAC_SECTION_STATES, m->variant->first_state + i);
}

const HftacOutput *hft_model_output(const Model *m, uint32_t i)
{
    return hft_model_row(m, HFTAC_SECTION_OUTPUTS, i);
}

const HftacEntry *hft_model_entry(const Model *m, uint32_t kind)
{
    for (uint32_t i = 0; i < m->variant->n_entries; i++) {
        const HftacEntry *e =
            hft_model_row(m, HFTAC_SECTION_ENTRIES, m->variant->first_entry + i);
        if (e->kind == kind)
            return e;
    }
    return NULL;
}

const HftacResult *hft_entry_result(const Model *m, const HftacEntry *e, uint32_t i)
{
    return hft_model_row(m, HFTAC_SECTION_RESULTS, e->first_result + i);
}

const HftacStep *hft_entry_step(const Model *m, const HftacEntry *e, uint32_t i)
{
    return hft_model_row(m, HFTAC_SECTION_STEPS, e->first_step + i);
}

const void *hft_model_address(const Model *m, uint32_t number)
{
    const int64_t *distance =
        hft_model_row(m, HFTAC_SECTION_ADDRESSES, m->code->first_address + number);
    return m->block + *distance;
}

/* Data pointers and function pointers are the same thing here, by POSIX's dlsym too. */
HftacRegionFn *hft_model_run(const Model *m, uint32_t number)
{
    const void *address = hft_model_address(m, number);
    HftacRegionFn *f;
    memcpy(&f, &address, sizeof f);
    return f;
}

HftacKernelFn *hft_model_kernel(const Model *m, uint32_t number)
{
    const void *address = hft_model_address(m, number);
    HftacKernelFn *f;
    memcpy(&f, &address, sizeof f);
    return f;
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
