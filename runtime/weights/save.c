/* Saving models: parameters and buffers under PyTorch's keys and in its layouts, one file a model,
 * and hyper-parameters and seeds beside them. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/door.h"
#include "runtime/files/json_text.h"
#include "runtime/files/safetensors.h"
#include "runtime/files/saved_set.h"
#include "runtime/weights/weights.h"

static const char HYPERS_NAME[] = "hypers.json";

static hftac_status write_values(hftac_array *a, int32_t model, StWriter *w,
                                 const StTensor *tensors)
{
    uint64_t largest = 1;
    for (int32_t i = 0; i < a->about.n_params; i++)
        if (hft_is_saved(&a->params[i]) && a->params[i].bytes > largest)
            largest = a->params[i].bytes;
    unsigned char *values = malloc(largest);
    if (!values)
        return hft_fail_memory("a parameter", largest);
    hftac_status s = HFTAC_OK;
    const StTensor *t = tensors;
    for (int32_t i = 0; i < a->about.n_params && !s; i++) {
        if (!hft_is_saved(&a->params[i]))
            continue;
        s = hft_param_read(a, i, model, values);
        if (!s)
            s = hft_st_write(w, t++, 0, values, a->params[i].bytes);
    }
    free(values);
    return s;
}

static int32_t list_saved(const hftac_array *a, StTensor *tensors)
{
    int32_t n = 0;
    for (int32_t i = 0; i < a->about.n_params; i++) {
        const hftac_param_description *p = &a->params[i];
        if (!hft_is_saved(p))
            continue;
        StTensor *t = &tensors[n++];
        t->name = p->name;
        t->type = (int32_t)p->type;
        t->rank = p->rank;
        memcpy(t->dims, p->dims, sizeof t->dims);
    }
    return n;
}

static hftac_status write_model(hftac_array *a, int32_t model, AtomicFile *file)
{
    StTensor *tensors = calloc((size_t)a->about.n_params + 1, sizeof *tensors);
    if (!tensors) {
        hft_file_abort(file);
        return hft_fail_memory("a file's header",
                               (uint64_t)a->about.n_params * sizeof *tensors);
    }
    hftac_status s = hft_initialize_model(a, model);
    if (s) {
        free(tensors);
        hft_file_abort(file);
        return s;
    }
    char slot[16];
    snprintf(slot, sizeof slot, "%d", model);
    const char *const metadata[][2] = {
        {"format", "pt"}, {"model", a->about.name}, {"slot", slot}};
    StWriter *w = NULL;
    s = hft_st_create(file, tensors, list_saved(a, tensors), metadata, 3, &w);
    if (!s)
        s = write_values(a, model, w, tensors);
    if (!s)
        s = hft_st_commit(w);
    else
        hft_st_abort(w);
    free(tensors);
    return s;
}

hftac_status hftac_save_model(hftac_array *a, int32_t model, const char *path)
{
    HFT_STANDARD_FLOAT_MODE;
    hftac_status s = hft_check_slot(a, model);
    if (s)
        return s;
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    AtomicFile *file;
    s = hft_file_create(path, &file);
    return s ? s : write_model(a, model, file);
}

/* JSON has no infinity and no integer above 2^63. */
static json_t *number_json(double v)
{
    return isfinite(v) ? json_real(v) : json_string(v > 0 ? "inf" : "-inf");
}

static json_t *seed_json(uint64_t seed)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, seed);
    return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_string(text);
}

static json_t *model_json(const hftac_array *a, int32_t model)
{
    json_t *hypers = json_object();
    bool ok = hypers != NULL;
    for (int32_t h = 0; ok && h < a->about.n_hypers; h++)
        ok = json_object_set_new(
                 hypers, a->hypers[h].name,
                 number_json(a->control.hypers[(size_t)model * (size_t)a->about.n_hypers +
                                               (size_t)h])) == 0;
    if (!ok) {
        json_decref(hypers);
        return NULL;
    }
    return json_pack("{s:i, s:o, s:o}", "slot", (int)model, "seed",
                     seed_json(a->control.seeds[model]), "hypers", hypers);
}

static hftac_status write_hypers(const hftac_array *a, const Slots *slots, AtomicFile *file)
{
    json_t *models = json_array();
    bool ok = models != NULL;
    for (int32_t i = 0; ok && i < slots->n; i++)
        ok = json_array_append_new(models, model_json(a, hft_slot_of(slots, i))) == 0;
    json_t *all = ok ? json_pack("{s:s, s:O}", "model", a->about.name, "models", models) : NULL;
    size_t n;
    char *text = hft_json_text(all, JSON_INDENT(2) | JSON_REAL_PRECISION(17), &n);
    hftac_status s = HFTAC_OK;
    if (text) {
        s = hft_file_put(file, text, n);
    } else {
        hft_file_abort(file);
        s = hft_fail_memory("hypers.json", 0);
    }
    free(text);
    json_decref(all);
    json_decref(models);
    return s;
}

/* hypers.json, or model-, three digits or more, .safetensors. */
static bool is_member(const char *name)
{
    static const char head[] = "model-", tail[] = ".safetensors";
    const size_t n = sizeof head - 1;
    if (strncmp(name, head, n) != 0)
        return strcmp(name, HYPERS_NAME) == 0;
    const size_t digits = strspn(name + n, "0123456789");
    return digits >= 3 && strcmp(name + n + digits, tail) == 0;
}

static hftac_status write_set(hftac_array *a, const Slots *slots, const SavedSet *set)
{
    char name[NAME_BYTES];
    AtomicFile *file;
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; i < slots->n && !s; i++) {
        s = hft_set_create(set, hft_model_file_name(name, hft_slot_of(slots, i)), &file);
        if (!s)
            s = write_model(a, hft_slot_of(slots, i), file);
    }
    if (!s)
        s = hft_set_create(set, HYPERS_NAME, &file);
    return s ? s : write_hypers(a, slots, file);
}

static hftac_status save_set(hftac_array *a, const Slots *slots, const char *directory)
{
    SavedSet *set;
    hftac_status s = hft_check_slots(a, slots);
    if (!s)
        s = hft_set_begin(directory, is_member, &set);
    if (s)
        return s;
    s = write_set(a, slots, set);
    if (!s)
        return hft_set_commit(set);
    hft_set_abort(set);
    return s;
}

hftac_status hftac_save(hftac_array *a, const char *directory)
{
    HFT_STANDARD_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!directory)
        return hft_fail(HFTAC_USAGE, "directory is NULL");
    return save_set(a, &(Slots){.n = a->n}, directory);
}

hftac_status hftac_save_models(hftac_array *a, const int32_t *models, int32_t n_models,
                               const char *directory)
{
    HFT_STANDARD_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!models || !directory)
        return hft_fail(HFTAC_USAGE, "models or directory is NULL");
    return save_set(a, &(Slots){.list = models, .n = n_models}, directory);
}

hftac_status hftac_try_save(const char *directory)
{
    if (!directory)
        return hft_fail(HFTAC_USAGE, "directory is NULL");
    SavedSet *set;
    AtomicFile *file;
    hftac_status s = hft_set_begin(directory, is_member, &set);
    if (s)
        return s;
    s = hft_set_create(set, HYPERS_NAME, &file);
    if (!s)
        s = hft_file_put(file, "\n", 1);
    hft_set_abort(set);
    return s;
}

hftac_status hftac_try_file(const char *path)
{
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    AtomicFile *file;
    hftac_status s = hft_file_create(path, &file);
    if (s)
        return s;
    s = hft_file_write(file, 0, "\n", 1);
    hft_file_abort(file);
    return s;
}
