/* Saving and loading models: parameters and buffers under PyTorch's keys and in its layouts. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/array.h"
#include "runtime/door.h"
#include "runtime/safetensors.h"

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
        hft_param_read(a, i, model, values);
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

hftac_status hftac_save_model(hftac_array *a, int32_t model, const char *path)
{
    HFT_OWN_FLOAT_MODE;
    hftac_status s = hft_check_slot(a, model);
    if (s)
        return s;
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    StTensor *tensors = calloc((size_t)a->about.n_params + 1, sizeof *tensors);
    if (!tensors)
        return hft_fail_memory("a file's header",
                               (uint64_t)a->about.n_params * sizeof *tensors);
    hft_initialize_model(a, model);
    char slot[16];
    snprintf(slot, sizeof slot, "%d", model);
    const char *const metadata[][2] = {
        {"format", "pt"}, {"model", a->about.name}, {"slot", slot}};
    StWriter *w = NULL;
    s = hft_st_create(path, tensors, list_saved(a, tensors), metadata, 3, &w);
    if (!s)
        s = write_values(a, model, w, tensors);
    if (!s)
        s = hft_st_commit(w);
    else
        hft_st_abort(w);
    free(tensors);
    return s;
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
                 number_json(
                     a->hyper_values[(size_t)model * (size_t)a->about.n_hypers + (size_t)h])) ==
             0;
    if (!ok) {
        json_decref(hypers);
        return NULL;
    }
    return json_pack("{s:i, s:o, s:o}", "slot", (int)model, "seed", seed_json(a->seeds[model]),
                     "hypers", hypers);
}

static hftac_status save_hypers(const hftac_array *a, const char *path)
{
    json_t *models = json_array();
    bool ok = models != NULL;
    for (int32_t b = 0; ok && b < a->n; b++)
        ok = json_array_append_new(models, model_json(a, b)) == 0;
    json_t *all = ok ? json_pack("{s:s, s:O}", "model", a->about.name, "models", models) : NULL;
    char *text = all ? json_dumps(all, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    const hftac_status s =
        text ? hft_write_file(path, text, strlen(text)) : hft_fail_memory("hypers.json", 0);
    free(text);
    json_decref(all);
    json_decref(models);
    return s;
}

/* DIR/model-007.safetensors, in a buffer of path_bytes(dir). */
static size_t path_bytes(const char *directory)
{
    return strlen(directory) + 40;
}

static const char *model_path(char *buffer, const char *directory, int32_t model)
{
    snprintf(buffer, path_bytes(directory), "%s/model-%03d.safetensors", directory, model);
    return buffer;
}

hftac_status hftac_save(hftac_array *a, const char *directory)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!directory)
        return hft_fail(HFTAC_USAGE, "directory is NULL");
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return hft_fail_file(directory, "cannot make the folder", errno);
    char *path = malloc(path_bytes(directory));
    if (!path)
        return hft_fail_memory("a path", path_bytes(directory));
    hftac_status s = HFTAC_OK;
    for (int32_t b = 0; b < a->n && !s; b++)
        s = hftac_save_model(a, b, model_path(path, directory, b));
    if (!s) {
        snprintf(path, path_bytes(directory), "%s/hypers.json", directory);
        s = save_hypers(a, path);
    }
    free(path);
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
        hft_initialize_model(a, b);
        at = values;
        for (int32_t i = 0; i < a->about.n_params; at += a->params[i++].bytes)
            if (saved_tensor(a, i, f))
                hft_param_write(a, i, b, at);
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

hftac_status hftac_load(hftac_array *a, const char *path, const hftac_load_options *options)
{
    HFT_OWN_FLOAT_MODE;
    if (hft_check_array(a))
        return HFTAC_USAGE;
    if (!path)
        return hft_fail(HFTAC_USAGE, "path is NULL");
    struct stat st;
    if (stat(path, &st) != 0)
        return hft_fail_file(path, "cannot open", errno);
    if (!S_ISDIR(st.st_mode))
        return load_file(a, 0, a->n, path, options);
    char *file = malloc(path_bytes(path));
    if (!file)
        return hft_fail_memory("a path", path_bytes(path));
    hftac_status s = HFTAC_OK;
    for (int32_t b = 0; b < a->n && !s; b++)
        s = load_file(a, b, b, model_path(file, path, b), options);
    for (int32_t b = 0; b < a->n && !s; b++)
        s = load_file(a, b, b + 1, model_path(file, path, b), options);
    free(file);
    return s;
}
