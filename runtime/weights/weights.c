/* What saving and loading have in common. */
#include "runtime/weights/weights.h"

#include <stdio.h>

bool hft_is_saved(const hftac_param_description *p)
{
    return p->role == HFTAC_PARAMETER || p->role == HFTAC_BUFFER;
}

int32_t hft_slot_of(const Slots *slots, int32_t i)
{
    return slots->list ? slots->list[i] : i;
}

hftac_status hft_check_slots(const hftac_array *a, const Slots *slots)
{
    if (slots->list && slots->n < 1)
        return hft_fail(HFTAC_USAGE, "a set of %d models", slots->n);
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; i < slots->n && !s; i++)
        s = hft_check_slot(a, hft_slot_of(slots, i));
    return s;
}

const char *hft_model_file_name(char name[NAME_BYTES], int32_t model)
{
    snprintf(name, NAME_BYTES, "model-%03d.safetensors", model);
    return name;
}
