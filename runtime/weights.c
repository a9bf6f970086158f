/* Saving and loading models: parameters and buffers under PyTorch's keys and in its layouts. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/array.h"
#include "runtime/door.h"
#include "runtime/json_text.h"
#include "runtime/safetensors.h"
#include "runtime/saved_set.h"

static bool is_saved(const hftac_param_description *p)
{
    return p->role == HFTAC_PARAMETER || p->role == HFTAC_BUFFER;
}

/* ---- Saving ---- */

static hftac_status write_values(hftac_array *a, int32_t model, StWriter *w,
                                 const StTensor *tensors)
{
    uint64_t largest = 1;
    for (int32_t i = 0; i < a->about.n_params; i++)
        if (is_saved(&a->params[i]) && a->params[i].bytes > largest)
            largest = a->params[i].bytes;
    unsigned char *values = malloc(largest);
    if (!values)
        return hft_fail_memory("a parameter", largest);
    hftac_status s = HFTAC_OK;
    const StTensor *t = tensors;
    for (int32_t i = 0; i < a->about.n_params && !s; i++) {
        if (!is_saved(&a->params[i]))
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
        if (!is_saved(p))
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
    HFT_OWN_FLOAT_MODE;
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

/* The models of a set; NULL stands for all in use. */
typedef struct Slots {
    const int32_t *list;
    int32_t n;
} Slots;

static int32_t slot_of(const Slots *slots, int32_t i)
{
    return slots->list ? slots->list[i] : i;
}

static hftac_status check_slots(const hftac_array *a, const Slots *slots)
{
    if (slots->list && slots->n < 1)
        return hft_fail(HFTAC_USAGE, "a set of %d models", slots->n);
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; i < slots->n && !s; i++)
        s = hft_check_slot(a, slot_of(slots, i));
    return s;
}

static hftac_status write_hypers(const hftac_array *a, const Slots *slots, AtomicFile *file)
{
    json_t *models = json_array();
    bool ok = models != NULL;
    for (int32_t i = 0; ok && i < slots->n; i++)
        ok = json_array_append_new(models, model_json(a, slot_of(slots, i))) == 0;
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

enum {
    NAME_BYTES = 40
};
static const char hypers_name[] = "hypers.json";

static const char *model_name(char name[NAME_BYTES], int32_t model)
{
    snprintf(name, NAME_BYTES, "model-%03d.safetensors", model);
    return name;
}

/* hypers.json, or model-, three digits or more, .safetensors. */
static bool is_member(const char *name)
{
    static const char head[] = "model-", tail[] = ".safetensors";
    const size_t n = sizeof head - 1;
    if (strncmp(name, head, n) != 0)
        return strcmp(name, hypers_name) == 0;
    const size_t digits = strspn(name + n, "0123456789");
    return digits >= 3 && strcmp(name + n + digits, tail) == 0;
}

static hftac_status write_set(hftac_array *a, const Slots *slots, const SavedSet *set)
{
    char name[NAME_BYTES];
    AtomicFile *file;
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; i < slots->n && !s; i++) {
        s = hft_set_create(set, model_name(name, slot_of(slots, i)), &file);
        if (!s)
            s = write_model(a, slot_of(slots, i), file);
    }
    if (!s)
        s = hft_set_create(set, hypers_name, &file);
    return s ? s : write_hypers(a, slots, file);
}

static hftac_status save_set(hftac_array *a, const Slots *slots, const char *directory)
{
    SavedSet *set;
    hftac_status s = check_slots(a, slots);
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
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!directory)
        return hft_fail(HFTAC_USAGE, "directory is NULL");
    return save_set(a, &(Slots){.n = a->n}, directory);
}

hftac_status hftac_save_models(hftac_array *a, const int32_t *models, int32_t n_models,
                               const char *directory)
{
    HFT_OWN_FLOAT_MODE;
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
    s = hft_set_create(set, hypers_name, &file);
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

/* ---- Loading ---- */

static bool is_real(int32_t type)
{
    return type == HFTAC_F32 || type == HFTAC_F64;
}

static bool same_shape(const hftac_param_description *p, const StTensor *t)
{
    if (p->rank == 0 && t->rank == 1 && t->dims[0] == 1)
        return true;
    return p->rank == t->rank &&
           memcmp(p->dims, t->dims, (size_t)p->rank * sizeof p->dims[0]) == 0;
}

static void compare(Report *r, const hftac_param_description *p, const StTensor *t,
                    bool allow_missing)
{
    char have[SHAPE_TEXT_BYTES], need[SHAPE_TEXT_BYTES];
    if (!t) {
        if (!allow_missing)
            hft_report_add(r, "missing %s %s%s", p->name, hftac_type_text(p->type),
                           hft_shape_text(need, p->rank, p->dims));
    } else if (!same_shape(p, t)) {
        hft_report_add(r, "%s has shape %s, the model's is %s", p->name,
                       hft_shape_text(have, t->rank, t->dims),
                       hft_shape_text(need, p->rank, p->dims));
    } else if (t->type != (int32_t)p->type &&
               !(is_real(t->type) && is_real((int32_t)p->type))) {
        hft_report_add(r, "%s is of type %s, the model's is %s", p->name, t->type_name,
                       hftac_type_text(p->type));
    }
}

static bool is_expected(const hftac_array *a, const char *name)
{
    for (int32_t i = 0; i < a->about.n_params; i++)
        if (is_saved(&a->params[i]) && strcmp(a->params[i].name, name) == 0)
            return true;
    return false;
}

static hftac_status check_keys(const hftac_array *a, const char *path, const StFile *f,
                               const hftac_load_options *o)
{
    Report report = {0};
    for (int32_t i = 0; i < a->about.n_params; i++)
        if (is_saved(&a->params[i]))
            compare(&report, &a->params[i], hft_st_find(f, a->params[i].name),
                    o->allow_missing);
    for (int32_t i = 0; i < f->n_tensors; i++) {
        const StTensor *t = &f->tensors[i];
        char shape[SHAPE_TEXT_BYTES];
        if (!o->allow_unexpected && !is_expected(a, t->name))
            hft_report_add(&report, "unexpected %.200s %s%s", t->name, t->type_name,
                           hft_shape_text(shape, t->rank, t->dims));
    }
    char head[512];
    snprintf(head, sizeof head, "%.400s does not fit model %.64s", path, a->about.name);
    return hft_report_fail(&report, HFTAC_DATA, head);
}

/* f32 to f64 or back. */
static void convert_real(const unsigned char *from, unsigned char *to, bool widen, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float narrow;
        double wide;
        if (widen) {
            memcpy(&narrow, from + i * sizeof narrow, sizeof narrow);
            wide = (double)narrow;
            memcpy(to + i * sizeof wide, &wide, sizeof wide);
        } else {
            memcpy(&wide, from + i * sizeof wide, sizeof wide);
            narrow = (float)wide;
            memcpy(to + i * sizeof narrow, &narrow, sizeof narrow);
        }
    }
}

/* To `values`, in the parameter's type. */
static hftac_status read_param(const hftac_param_description *p, const StFile *f,
                               const StTensor *t, unsigned char *values)
{
    if (t->type == (int32_t)p->type)
        return hft_read_at(&f->file, f->data_begin + t->begin, values, p->bytes);
    unsigned char *raw;
    const hftac_status s = hft_st_read(f, t, &raw);
    if (!s)
        convert_real(raw, values, p->type == HFTAC_F64,
                     (size_t)(p->bytes / hftac_type_bytes(p->type)));
    free(raw);
    return s;
}

/* The tensor in the file that this parameter takes its values from, or NULL. */
static const StTensor *saved_tensor(const hftac_array *a, int32_t i, const StFile *f)
{
    return is_saved(&a->params[i]) ? hft_st_find(f, a->params[i].name) : NULL;
}

/* Reads all of the file before it changes anything. */
static hftac_status take_values(hftac_array *a, int32_t lo, int32_t hi, const StFile *f)
{
    uint64_t bytes = 1;
    for (int32_t i = 0; i < a->about.n_params; i++)
        bytes += a->params[i].bytes;
    unsigned char *values = malloc(bytes), *at = values;
    hftac_status s = values ? HFTAC_OK : hft_fail_memory("a model's parameters", bytes);
    for (int32_t i = 0; i < a->about.n_params && !s; at += a->params[i++].bytes) {
        const StTensor *t = saved_tensor(a, i, f);
        if (t)
            s = read_param(&a->params[i], f, t, at);
    }
    if (!s)
        s = hft_read_unchanged(&f->file);
    for (int32_t b = lo; b < hi && !s; b++) {
        s = hft_initialize_model(a, b);
        at = values;
        for (int32_t i = 0; !s && i < a->about.n_params; at += a->params[i++].bytes)
            if (saved_tensor(a, i, f))
                s = hft_param_write(a, i, b, at);
    }
    free(values);
    return s;
}

/* Loads into models lo <= b < hi, or only checks if lo == hi. */
static hftac_status load_file(hftac_array *a, int32_t lo, int32_t hi, const char *path,
                              const hftac_load_options *options)
{
    const hftac_load_options defaults = {0};
    StFile f;
    hftac_status s = hft_st_open(path, &f);
    if (s)
        return s;
    s = check_keys(a, path, &f, options ? options : &defaults);
    if (!s && lo < hi)
        s = take_values(a, lo, hi, &f);
    hft_st_close(&f);
    return s;
}

hftac_status hftac_load_model(hftac_array *a, int32_t model, const char *path,
                              const hftac_load_options *options)
{
    HFT_OWN_FLOAT_MODE;
    const hftac_status s = hft_check_slot(a, model);
    if (s)
        return s;
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    return load_file(a, model, model + 1, path, options);
}

/* Loads file i of the set, or only checks it. */
static hftac_status load_member(hftac_array *a, int32_t model, const char *folder, bool check,
                                const hftac_load_options *options)
{
    char name[NAME_BYTES];
    char *path = hft_set_find(folder, model_name(name, model));
    if (!path)
        return hft_fail_memory("a path", strlen(folder));
    /* A set of fewer models, or of one that was trained alone. */
    const bool missing = access(path, F_OK) != 0 && errno == ENOENT;
    const hftac_status s = missing
                               ? hft_fail(HFTAC_FILE, "%s: there is no %s in it, for model %d",
                                          folder, name, model)
                               : load_file(a, model, check ? model : model + 1, path, options);
    free(path);
    return s;
}

static hftac_status load_members(hftac_array *a, const Slots *slots, const char *folder,
                                 const hftac_load_options *options)
{
    hftac_status s = HFTAC_OK;
    for (int32_t i = 0; i < slots->n && !s; i++)
        s = load_member(a, slot_of(slots, i), folder, true, options);
    for (int32_t i = 0; i < slots->n && !s; i++)
        s = load_member(a, slot_of(slots, i), folder, false, options);
    return s;
}

static bool same_state(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A set that another process saves meanwhile is read again. */
static hftac_status load_set(hftac_array *a, const Slots *slots, const char *folder,
                             const hftac_load_options *options)
{
    enum {
        TRIES = 5
    };
    for (int i = 0; i < TRIES; i++) {
        struct stat before, after;
        if (stat(folder, &before) != 0)
            return hft_fail_file(folder, "cannot open", errno);
        const hftac_status s = load_members(a, slots, folder, options);
        if (stat(folder, &after) == 0 && same_state(&before, &after))
            return s;
    }
    return hft_fail(HFTAC_FILE, "%s: it is written again and again while it is read", folder);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

hftac_status hftac_load(hftac_array *a, const char *path, const hftac_load_options *options)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    return is_folder(path) ? load_set(a, &(Slots){.n = a->n}, path, options)
                           : load_file(a, 0, a->n, path, options);
}

hftac_status hftac_load_models(hftac_array *a, const int32_t *models, int32_t n_models,
                               const char *directory, const hftac_load_options *options)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!models || !directory)
        return hft_fail(HFTAC_USAGE, "models or directory is NULL");
    const Slots slots = {.list = models, .n = n_models};
    const hftac_status s = check_slots(a, &slots);
    return s ? s : load_set(a, &slots, directory, options);
}
