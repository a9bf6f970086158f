/* What saving (save.c) and loading (load.c) have in common: which states are kept, which models
 * a set is of, and what its files are called. */
#ifndef HFTAC_RUNTIME_WEIGHTS_WEIGHTS_H
#define HFTAC_RUNTIME_WEIGHTS_WEIGHTS_H

#include "runtime/array.h"

/* The models of a set; without a list the first n. */
typedef struct Slots {
    const int32_t *list;
    int32_t n;
} Slots;

int32_t hft_slot_of(const Slots *slots, int32_t i);
/* They exist, and there is one at least. */
hftac_status hft_check_slots(const hftac_array *a, const Slots *slots);

/* Does the state belong into files? */
bool hft_is_saved(const hftac_param_description *p);

enum {
    NAME_BYTES = 40
};
/* "model-007.safetensors"; returns `name`. */
const char *hft_model_file_name(char name[NAME_BYTES], int32_t model);

#endif
