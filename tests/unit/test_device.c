/* A whole life of an array on the device of apart_device.c and on the CPU: initial values,
 * training epochs, an evaluation in the middle of one, hypers and parameters changed on the way,
 * saving, loading, prediction.  All bits must be equal, although the device's memory cannot be
 * touched by the library, and although the host's copy of the data is overwritten when the device
 * has taken its own.  The results of earlier runs must be had as long as the device says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/array.h"
#include "runtime/data/data.h"

enum {
    MODELS = 4,
    SAMPLES = 17,
    STEPS = 4,
    N_RESULTS = 64,
    RECORD_BYTES = 1 << 16
};

/* What is compared: bytes in the order in which they were had. */
typedef struct Record {
    unsigned char bytes[RECORD_BYTES];
    size_t n;
} Record;

static int failures;

#define CHECK(condition) check_that(condition, __LINE__, #condition)
#define OK(call)         check_that(!(call) || (puts(hftac_last_error()), false), __LINE__, #call)

static void check_that(bool ok, int line, const char *what)
{
    if (ok)
        return;
    printf("%s:%d: failed: %s\n", __FILE__, line, what);
    failures++;
}

static void add(Record *r, const void *bytes, size_t n)
{
    CHECK(r->n + n <= sizeof r->bytes);
    if (r->n + n > sizeof r->bytes)
        exit(1);
    memcpy(r->bytes + r->n, bytes, n);
    r->n += n;
}

static void write_data(const char *path)
{
    static const char header[] =
        "{\"bias\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
        "\"noise\":{\"dtype\":\"I32\",\"shape\":[4,17,2],\"data_offsets\":[16,560]},"
        "\"x\":{\"dtype\":\"F32\",\"shape\":[17,3],\"data_offsets\":[560,764]},"
        "\"label\":{\"dtype\":\"U8\",\"shape\":[17],\"data_offsets\":[764,781]}}";
    const uint64_t length = sizeof header - 1;
    const double bias[2] = {0.25, -3};
    int32_t noise[MODELS * SAMPLES * 2];
    float x[SAMPLES * 3];
    unsigned char label[SAMPLES];
    for (int i = 0; i < MODELS * SAMPLES * 2; i++)
        noise[i] = i * i % 23;
    for (int i = 0; i < SAMPLES * 3; i++)
        x[i] = (float)(i * 37 % 101) / 7;
    for (int i = 0; i < SAMPLES; i++)
        label[i] = (unsigned char)(i * 3 % 5);
    FILE *f = fopen(path, "wb");
    if (!f)
        exit(2);
    fwrite(&length, sizeof length, 1, f);
    fwrite(header, 1, length, f);
    fwrite(bias, sizeof bias, 1, f);
    fwrite(noise, sizeof noise, 1, f);
    fwrite(x, sizeof x, 1, f);
    fwrite(label, sizeof label, 1, f);
    if (fclose(f))
        exit(2);
}

static void add_file(Record *r, const char *path)
{
    unsigned char bytes[4096];
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    if (!f)
        return;
    add(r, bytes, fread(bytes, 1, sizeof bytes, f));
    fclose(f);
}

/* Every parameter and every metric of every model. */
static void add_models(Record *r, hftac_array *a)
{
    unsigned char values[256];
    for (int b = 0; b < MODELS; b++) {
        for (int32_t p = 0; p < a->about.n_params; p++) {
            OK(hftac_get_param(a, p, b, values, a->params[p].bytes));
            add(r, values, a->params[p].bytes);
        }
        for (int32_t m = 0; m < a->about.n_metrics; m++) {
            double v[2];
            OK(hftac_read_metric(a, m, b, &v[0]));
            OK(hftac_read_epoch_metric(a, m, b, &v[1]));
            add(r, v, sizeof v);
        }
    }
}

typedef struct Callback {
    hftac_array *a;
    hftac_data *data;
    Record *record;
    double results[STEPS][N_RESULTS]; /* of each step of the epoch */
} Callback;

/* A loop within a loop: the outer one's order must come back. */
static int evaluate_within(void *context, const hftac_progress *p)
{
    const Callback *c = context;
    if (p->batch == 2)
        OK(hftac_evaluate(c->a, c->data, NULL, NULL));
    add_models(c->record, c->a);
    return 0;
}

static size_t results_bytes(const hftac_array *a)
{
    const size_t n = (size_t)a->n * a->m->info->n_results;
    CHECK(n <= N_RESULTS);
    return n * sizeof(double);
}

static int keep_results(void *context, const hftac_progress *p)
{
    Callback *c = context;
    CHECK(p->batch <= STEPS);
    memcpy(c->results[p->batch - 1], c->a->results, results_bytes(c->a));
    return 0;
}

static void check_earlier(const Callback *c)
{
    const Device *d = c->a->device;
    CHECK(d->runs_kept >= 1);
    for (int32_t ago = 0; ago < d->runs_kept && ago < STEPS; ago++) {
        const double *r = NULL;
        OK(d->kind->results(c->a->device, ago, &r));
        CHECK(r && !memcmp(r, c->results[STEPS - 1 - ago], results_bytes(c->a)));
    }
}

static int add_outputs(void *context, int64_t first, int64_t n)
{
    const Callback *c = context;
    (void)first, (void)n;
    for (int32_t o = 0; o < c->a->about.n_outputs; o++)
        for (int b = 0; b < MODELS; b++) {
            const void *values;
            OK(hftac_read_output(c->a, o, b, &values));
            add(c->record, values, c->a->outputs[o].bytes);
        }
    return 0;
}

/* What training reads, of which the device has copies by now. */
static void overwrite(const hftac_array *a, hftac_data *d)
{
    for (int32_t i = 0; i < d->n_inputs; i++)
        if (d->inputs[i].number && hft_entry_reads(a, HFTAC_ENTRY_TRAIN, i))
            memset(d->inputs[i].owned, 0x5a,
                   (size_t)d->inputs[i].copies * d->inputs[i].copy_bytes);
}

static void live(const char *model, const char *device, const char *folder, Record *r)
{
    char data_path[512], saved[512];
    snprintf(data_path, sizeof data_path, "%s/data.safetensors", folder);
    snprintf(saved, sizeof saved, "%s/model.safetensors", folder);
    hftac_array *a = NULL;
    hftac_data *d = NULL;
    OK(hftac_open(model, &(hftac_options){.threads = 2, .seed = 5, .device = device}, &a));
    OK(hftac_data_open(a, data_path, NULL, &d));
    if (failures)
        return;
    Callback c = {.a = a, .data = d, .record = r};
    const hftac_train_options within = {.seed = 3, .callback = evaluate_within, .context = &c};
    OK(hftac_train_epoch(a, d, &within, NULL));
    OK(hftac_epoch_end(a, 0));
    if (a->device->runs_kept > 1)
        overwrite(a, d);
    OK(hftac_set_hyper(a, 0, 1, 0.0625));
    OK(hftac_set_param(a, 0, 2, (const float[6]){1, 2, 3, 4, 5, 6}, 24));
    const hftac_train_options keep = {.seed = 3, .callback = keep_results, .context = &c};
    OK(hftac_train_epoch(a, d, &keep, NULL));
    check_earlier(&c);
    add_models(r, a);
    OK(hftac_save_model(a, 2, saved));
    add_file(r, saved);
    OK(hftac_load_model(a, 3, saved, NULL));
    OK(hftac_evaluate(a, d, NULL, NULL));
    OK(hftac_predict(a, d, add_outputs, &c));
    add_models(r, a);
    hftac_data_close(d);
    hftac_close(a);
}

int main(int argc, char **argv)
{
    static Record cpu, apart;
    char folder[] = "/tmp/hftac-device-XXXXXX", path[512];
    if (argc != 2 || !mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/data.safetensors", folder);
    write_data(path);
    live(argv[1], "host", folder, &cpu);
    live(argv[1], "cpu", folder, &apart);
    CHECK(cpu.n > 1000 && cpu.n == apart.n && !memcmp(cpu.bytes, apart.bytes, cpu.n));
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
    return failures ? 1 : 0;
}
