/* batch_run MODEL.so DATA N_VALID: feeds one batch, evaluates and predicts its first N_VALID
 * samples, and prints what comes out, for partial.py.  DATA: the inputs' values one after the
 * other, a whole batch of each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/hftac.h"

static void need(hftac_status s)
{
    if (!s)
        return;
    fprintf(stderr, "%s\n", hftac_last_error());
    exit(1);
}

static void feed(hftac_array *a, const char *path)
{
    const hftac_description *about = hftac_describe(a);
    FILE *f = fopen(path, "rb");
    for (int32_t i = 0; f && i < about->n_inputs; i++) {
        const hftac_input_description *in = hftac_describe_input(a, i);
        void *values = malloc(in->bytes);
        if (!values || fread(values, 1, in->bytes, f) != in->bytes) {
            fprintf(stderr, "%s is too short for %s\n", path, in->name);
            exit(1);
        }
        need(hftac_feed(a, i, values, about->batch));
        free(values);
    }
    if (!f || fgetc(f) != EOF) {
        fprintf(stderr, "%s does not hold the inputs\n", path);
        exit(1);
    }
    fclose(f);
}

/* A step that is refused must say what the description says. */
static int refused(hftac_status s, const char *what, const char *whole)
{
    if (!s)
        return 0;
    if (s != HFTAC_DATA || !whole || strncmp(hftac_last_error(), whole, strlen(whole)) != 0)
        need(s);
    printf("%s refused %s\n", what, hftac_last_error());
    return 1;
}

static void evaluate(hftac_array *a, int64_t n)
{
    const hftac_description *about = hftac_describe(a);
    need(hftac_evaluate_begin(a, 0));
    if (refused(hftac_evaluate_step(a, n), "evaluation", about->evaluate_whole))
        return;
    need(hftac_evaluate_end(a));
    for (int32_t i = 0; i < about->n_metrics; i++) {
        double v;
        if (!hftac_describe_metric(a, i)->from_evaluation)
            continue;
        need(hftac_read_metric(a, i, 0, &v));
        printf("metric %s %.17g\n", hftac_describe_metric(a, i)->name, v);
    }
}

static double element(const hftac_output_description *o, const void *values, int64_t i)
{
    switch (o->type) {
    case HFTAC_F64:
        return ((const double *)values)[i];
    case HFTAC_F32:
        return (double)((const float *)values)[i];
    case HFTAC_I64:
        return (double)((const int64_t *)values)[i];
    case HFTAC_I32:
        return ((const int32_t *)values)[i];
    case HFTAC_BOOL:
    case HFTAC_U8:
        break;
    }
    return ((const unsigned char *)values)[i];
}

/* The elements of the valid samples, in order. */
static void print_output(const hftac_output_description *o, const void *values, int64_t n)
{
    int64_t inner = 1, count = 1;
    for (int32_t k = o->rank - 1; k >= 0; k--) {
        count *= o->dims[k];
        inner *= k > o->batch_axis ? o->dims[k] : 1;
    }
    printf("output %s %d", o->name, o->rank);
    for (int32_t k = 0; k < o->rank; k++)
        printf(" %" PRId64, k == o->batch_axis ? n * o->per_sample : o->dims[k]);
    for (int64_t i = 0; i < count; i++)
        if (o->batch_axis < 0 || i / inner % o->dims[o->batch_axis] < n * o->per_sample)
            printf(" %.17g", element(o, values, i));
    putchar('\n');
}

static void predict(hftac_array *a, int64_t n)
{
    const hftac_description *about = hftac_describe(a);
    if (refused(hftac_predict_step(a, n), "prediction", about->predict_whole))
        return;
    for (int32_t i = 0; i < about->n_outputs; i++) {
        const void *values;
        need(hftac_read_output(a, i, 0, &values));
        print_output(hftac_describe_output(a, i), values, n);
    }
}

int main(int argc, char **argv)
{
    hftac_array *a;
    if (argc != 4)
        return 2;
    need(hftac_open(argv[1], NULL, &a));
    feed(a, argv[2]);
    if (hftac_describe(a)->can_evaluate)
        evaluate(a, atoll(argv[3]));
    if (hftac_describe(a)->can_predict)
        predict(a, atoll(argv[3]));
    hftac_close(a);
    return 0;
}
