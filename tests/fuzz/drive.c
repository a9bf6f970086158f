#include "tests/fuzz/drive.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void fatal(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("fuzz: ", stdout);
    vprintf(fmt, ap);
    fputc('\n', stdout);
    va_end(ap);
    exit(2);
}

void must(hftac_status status)
{
    if (status)
        fatal("%s", hftac_last_error());
}

void *must_malloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        fatal("out of memory");
    return p;
}

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t drive_bits(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    return mix(mix(mix(mix(seed) ^ a) ^ b) ^ c);
}

double drive_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* Inside the domain, its ends now and then. */
static double hyper_value(const hftac_hyper_description *d, uint64_t bits)
{
    const double u = drive_unit(bits);
    const unsigned end = (unsigned)(bits & 15);
    switch (d->domain) {
    case HFTAC_DOMAIN_RANGE:
        return end == 0 ? d->lo : end == 1 ? d->hi : d->lo + u * (d->hi - d->lo);
    case HFTAC_DOMAIN_LOG:
        return end == 0 ? d->lo : end == 1 ? d->hi : d->lo * pow(d->hi / d->lo, u);
    case HFTAC_DOMAIN_INT:
        return d->lo + d->step * floor(u * floor((d->hi - d->lo) / d->step + 1));
    case HFTAC_DOMAIN_SET:
        return d->set[(int64_t)(u * (double)d->n_set)];
    case HFTAC_DOMAIN_NONE:
        break;
    }
    return d->value;
}

void drive_set_models(hftac_array *a, uint64_t seed, int first)
{
    for (int b = 0; b < hftac_model_count(a); b++) {
        const uint64_t slot = (uint64_t)(first + b);
        for (int h = 0; h < hftac_describe(a)->n_hypers; h++)
            must(hftac_set_hyper(a, h, b,
                                 hyper_value(hftac_describe_hyper(a, h),
                                             drive_bits(seed, 1, slot, (uint64_t)h))));
        must(hftac_set_seed(a, b, drive_bits(seed, 2, slot, 0) >> 12));
    }
}

/* The K of NAME_cK; 0: none.  *ignore: NAME_cKi. */
static int64_t classes_of(const char *name, bool *ignore)
{
    const char *c = strstr(name, "_c");
    *ignore = c && name[strlen(name) - 1] == 'i';
    return c ? strtol(c + 2, NULL, 10) : 0;
}

static void store(void *to, hftac_type type, int64_t i, double v)
{
    switch (type) {
    case HFTAC_BOOL:
    case HFTAC_U8:
        ((uint8_t *)to)[i] = (uint8_t)v;
        return;
    case HFTAC_I32:
        ((int32_t *)to)[i] = (int32_t)v;
        return;
    case HFTAC_I64:
        ((int64_t *)to)[i] = (int64_t)v;
        return;
    case HFTAC_F32:
        ((float *)to)[i] = (float)v;
        return;
    case HFTAC_F64:
        ((double *)to)[i] = v;
        return;
    }
}

void *drive_values(const hftac_input_description *d, uint64_t seed, int input, int slot,
                   int64_t step, int64_t batch, int64_t samples)
{
    const int64_t count = (int64_t)(d->bytes / hftac_type_bytes(d->type)),
                  part = d->batch_axis == 0 ? count / batch : count;
    const int64_t filled = d->batch_axis == 0 ? samples * part : count;
    void *out = must_malloc(d->bytes);
    bool ignore;
    const int64_t classes = classes_of(d->name, &ignore);
    const uint64_t place = (uint64_t)(d->is_each ? slot : 0) * 1000 + (uint64_t)step;
    for (int64_t i = 0; i < filled; i++) {
        const uint64_t bits = drive_bits(seed, 3 + (uint64_t)input, place, (uint64_t)i);
        double v = 2 * (drive_unit(bits) + drive_unit(bits * 0x9E3779B97F4A7C15u) - 1);
        if (classes)
            v = ignore && bits % 5 == 0 ? -100 : floor(drive_unit(bits) * (double)classes);
        store(out, d->type, i, v);
    }
    const size_t bytes = (size_t)part * hftac_type_bytes(d->type);
    for (int64_t i = samples; d->batch_axis == 0 && i < batch; i++)
        memcpy((char *)out + (size_t)i * bytes, out, bytes);
    return out;
}

void drive_feed(hftac_array *a, uint64_t seed, int first, int64_t step, int64_t samples)
{
    const hftac_description *all = hftac_describe(a);
    for (int i = 0; i < all->n_inputs; i++) {
        const hftac_input_description *d = hftac_describe_input(a, i);
        for (int b = 0; b < (d->is_each ? all->models : 1); b++) {
            void *v = drive_values(d, seed, i, first + b, step, all->batch, samples);
            must(d->is_each ? hftac_feed_model(a, i, b, v, samples)
                            : hftac_feed(a, i, v, samples));
            free(v);
        }
    }
}

int64_t drive_part(const hftac_array *a, const char *whole)
{
    const int64_t n = hftac_describe(a)->batch;
    return whole ? n : (n + 1) / 2;
}
