/* Loading models from what was saved, here or by PyTorch: every difference in keys, shapes and
 * types is told before anything changes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/door.h"
#include "runtime/files/safetensors.h"
#include "runtime/files/saved_set.h"
#include "runtime/weights/weights.h"

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
        if (hft_is_saved(&a->params[i]) && strcmp(a->params[i].name, name) == 0)
            return true;
    return false;
}

static hftac_status check_keys(const hftac_array *a, const char *path, const StFile *f,
                               const hftac_load_options *o)
{
    Report report = {0};
    for (int32_t i = 0; i < a->about.n_params; i++)
        if (hft_is_saved(&a->params[i]))
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
    return hft_is_saved(&a->params[i]) ? hft_st_find(f, a->params[i].name) : NULL;
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
    HFT_STANDARD_FLOAT_MODE;
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
    char *path = hft_set_find(folder, hft_model_file_name(name, model));
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
        s = load_member(a, hft_slot_of(slots, i), folder, true, options);
    for (int32_t i = 0; i < slots->n && !s; i++)
        s = load_member(a, hft_slot_of(slots, i), folder, false, options);
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
    HFT_STANDARD_FLOAT_MODE;
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
    HFT_STANDARD_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!models || !directory)
        return hft_fail(HFTAC_USAGE, "models or directory is NULL");
    const Slots slots = {.list = models, .n = n_models};
    const hftac_status s = hft_check_slots(a, &slots);
    return s ? s : load_set(a, &slots, directory, options);
}
