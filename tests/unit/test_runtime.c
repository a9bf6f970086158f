/* The library's interface on the fake model (fake_model.c): test_runtime FAKE_MODEL.so
 * and its variants, see main() */
#include "tests/unit/runtime_test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

int failures;
const char *model_path, *folder;

void check_that(bool ok, const char *file, int line, const char *what)
{
    if (ok)
        return;
    failures++;
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
}

void check_status(hftac_status got, hftac_status want, const char *words, const char *file,
                  int line, const char *what)
{
    if (got == want && (got == HFTAC_OK || strstr(hftac_last_error(), words)))
        return;
    failures++;
    fprintf(stderr, "%s:%d: %s\n  gave status %d, wanted %d \"%s\"; last error: %s\n", file,
            line, what, got, want, words, hftac_last_error());
}

const char *in_folder(const char *name)
{
    static char buffers[16][512];
    static int next;
    char *p = buffers[next++ % 16];
    snprintf(p, sizeof buffers[0], "%s/%s", folder, name);
    return p;
}

void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n);
    if (f)
        fclose(f);
}

hftac_array *open_fake(int threads)
{
    hftac_array *a = NULL;
    OK(hftac_open(model_path, &(hftac_options){.threads = threads}, &a));
    if (!a)
        exit(1);
    return a;
}

void feed_fake(hftac_array *a)
{
    float x[12];
    int32_t noise[4 * 8];
    for (int i = 0; i < 12; i++)
        x[i] = (float)(i / 3 + i % 3);
    for (int i = 0; i < 32; i++)
        noise[i] = i / 8;
    OK(hftac_feed(a, 0, x, 4));
    OK(hftac_feed(a, 1, (const unsigned char[]){0, 1, 2, 3}, 4));
    OK(hftac_feed(a, 2, noise, 4));
}

static void test_open(char **others)
{
    hftac_array *a = (hftac_array *)1;
    FAILS(hftac_open(NULL, NULL, &a), HFTAC_USAGE, "path is NULL");
    CHECK(a == NULL);
    FAILS(hftac_open(model_path, NULL, NULL), HFTAC_USAGE, "array is NULL");
    FAILS(hftac_open("/nowhere/model.so", NULL, &a), HFTAC_FILE, "No such file");
    FAILS(hftac_open("/dev/zero", NULL, &a), HFTAC_MODEL, "not a file");
    FAILS(hftac_open(folder, NULL, &a), HFTAC_MODEL, "not a file");
    FAILS(hftac_open("/proc/self/exe", NULL, &a), HFTAC_MODEL, "not a");
    FAILS(hftac_open(model_path, &(hftac_options){.threads = -1}, &a), HFTAC_USAGE, "threads");
    FAILS(hftac_open(model_path, &(hftac_options){.device = "cuda"}, &a), HFTAC_DEVICE, "CUDA");
    FAILS(hftac_open(model_path, &(hftac_options){.device = "cuda:7"}, &a), HFTAC_DEVICE,
          "cuda:7");
    static const char *const wrong[] = {"",        "gpu",        "cuda:", "cuda:x", "cuda:-1",
                                        "cuda:1x", "cuda:99999", "cpu:1", "CPU",    "cpu "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        FAILS(hftac_open(model_path, &(hftac_options){.device = wrong[i]}, &a), HFTAC_USAGE,
              "device");
    OK(hftac_open(model_path, &(hftac_options){.device = "cpu"}, &a));
    CHECK(!strcmp(hftac_describe(a)->device, "cpu"));
    hftac_close(a);
    FAILS(hftac_open(model_path, &(hftac_options){.models = 5}, &a), HFTAC_USAGE,
          "holds 4 models, 5");
    FAILS(hftac_open(others[0], NULL, &a), HFTAC_CPU, "lacks warp9 flux");
    FAILS(hftac_open(others[1], NULL, &a), HFTAC_MODEL, "version 9");
    OK(hftac_open(model_path, NULL, &a));
    FAILS(hftac_profile(a, 1), HFTAC_USAGE, "nothing of its kernels");
    hftac_close(a);
    hftac_close(NULL);
    hftac_data_close(NULL);
    CHECK(!hftac_describe(NULL) && !hftac_describe_input(NULL, 0) &&
          hftac_model_count(NULL) == 0);
}

static void test_discovery(void)
{
    hftac_array *a = open_fake(0);
    const hftac_description *d = hftac_describe(a);
    CHECK(!strcmp(d->name, "Fake") && d->models == 4 && d->capacity == 4 && d->batch == 4 &&
          d->epochs == 20);
    CHECK(d->n_inputs == 4 && d->n_hypers == 3 && d->n_params == 7 && d->n_outputs == 3 &&
          d->n_metrics == 3);
    CHECK(d->can_train && d->can_evaluate && d->can_predict && d->threads >= 1 &&
          d->threads <= 4);
    CHECK(d->state_bytes == 4 * 128 && d->total_bytes > d->state_bytes);
    const hftac_input_description *noise = hftac_describe_input(a, 2);
    CHECK(noise && !strcmp(noise->name, "noise") && noise->is_each && noise->batch_axis == 1 &&
          noise->rank == 2 && noise->type == HFTAC_I32 && noise->used_by_train &&
          !noise->used_by_predict && noise->bytes == 32);
    const hftac_hyper_description *pick = hftac_describe_hyper(a, 2);
    CHECK(pick && pick->domain == HFTAC_DOMAIN_SET && pick->n_set == 3 && pick->set[1] == 0.5);
    const hftac_param_description *w = hftac_describe_param(a, 0);
    CHECK(w && !strcmp(w->name, "fc.weight") && w->role == HFTAC_PARAMETER && w->dims[0] == 2 &&
          w->dims[1] == 3 && w->bytes == 24);
    const hftac_metric_description *factor = hftac_describe_metric(a, 1),
                                   *count = hftac_describe_metric(a, 2);
    CHECK(factor && !strcmp(factor->name, "schedule") && factor->is_factor &&
          factor->from_train);
    CHECK(count && !strcmp(count->name, "count") && !count->from_train &&
          count->from_evaluation);
    CHECK(hftac_describe_metric(a, 0)->from_train &&
          hftac_describe_metric(a, 0)->from_evaluation);
    const hftac_output_description *z = hftac_describe_output(a, 1);
    CHECK(z && z->batch_axis == 1 && z->per_sample == 2 && z->dims[1] == 8);
    CHECK(!hftac_describe_input(a, 4) && !hftac_describe_input(a, -1) &&
          !hftac_describe_output(a, 99));
    hftac_hyper h;
    OK(hftac_find_hyper(a, "repeat", &h));
    CHECK(h == 1);
    FAILS(hftac_find_hyper(a, "Lr", &h), HFTAC_NOT_FOUND,
          "no hyper \"Lr\"; it has: lr, repeat, pick");
    CHECK(h == -1);
    FAILS(hftac_find_input(a, NULL, &h), HFTAC_USAGE, "NULL");
    FAILS(hftac_find_param(NULL, "x", &h), HFTAC_USAGE, "NULL");
    hftac_close(a);
}

static void test_hypers(void)
{
    hftac_array *a = open_fake(1);
    double v = 0;
    OK(hftac_get_hyper(a, 0, 3, &v));
    CHECK(v == 0.5);
    OK(hftac_set_hyper(a, 0, 3, 7));
    OK(hftac_get_hyper(a, 0, 3, &v));
    CHECK(v == 7);
    FAILS(hftac_set_hyper(a, 1, 0, 2.5), HFTAC_DATA, "must be an integer, not 2.5");
    FAILS(hftac_set_hyper(a, 0, 0, NAN), HFTAC_DATA, "nan");
    FAILS(hftac_set_hyper(a, 3, 0, 1), HFTAC_USAGE, "no hyper number 3");
    FAILS(hftac_set_hyper(a, 0, 4, 1), HFTAC_USAGE, "no model 4: models are 0 to 3");
    FAILS(hftac_get_hyper(a, 0, 0, NULL), HFTAC_USAGE, "NULL");
    CHECK(hftac_hyper_in_domain(a, 0, 1e-4) && !hftac_hyper_in_domain(a, 0, 2));
    CHECK(hftac_hyper_in_domain(a, 1, 7) && !hftac_hyper_in_domain(a, 1, 8) &&
          !hftac_hyper_in_domain(a, 1, 11));
    CHECK(hftac_hyper_in_domain(a, 2, 2) && !hftac_hyper_in_domain(a, 2, 1));
    hftac_close(a);
}

static void test_params(void)
{
    hftac_array *a = NULL;
    OK(hftac_open(model_path, &(hftac_options){.seed = 100}, &a));
    float w[6] = {0}, v[6] = {0};
    uint64_t seed;
    OK(hftac_get_seed(a, 2, &seed));
    CHECK(seed == 102);
    OK(hftac_set_seed(a, 2, 1000));
    OK(hftac_get_param(a, 0, 2, w, sizeof w));
    for (int i = 0; i < 6; i++) /* logical order [2, 3], though stored [3, 2] */
        CHECK(w[i] == (float)(1000 + 10 * (i / 3) + i % 3));
    for (int i = 0; i < 6; i++)
        w[i] = (float)(-i);
    OK(hftac_set_param(a, 0, 2, w, sizeof w));
    OK(hftac_get_param(a, 0, 2, v, sizeof v));
    CHECK(!memcmp(w, v, sizeof w));
    OK(hftac_get_param(a, 0, 1, v, sizeof v));
    CHECK(v[0] == 101 && v[5] == 101 + 12);
    FAILS(hftac_get_param(a, 0, 1, v, 20), HFTAC_USAGE,
          "fc.weight, f32[2, 3], has 24 bytes, not 20");
    OK(hftac_reset_model(a, 2));
    OK(hftac_get_param(a, 0, 2, v, sizeof v));
    CHECK(v[0] == 1000);
    hftac_close(a);
}

/* Three steps by hand: w -= lr * mean(x), mean(x) = 1.5 2.5 3.5. */
static void test_training(int threads)
{
    hftac_array *a = open_fake(threads);
    FAILS(hftac_train_step(a), HFTAC_USAGE, "input x was not fed");
    feed_fake(a);
    OK(hftac_set_hyper(a, 0, 1, 0.25));
    for (int i = 0; i < 3; i++)
        OK(hftac_train_step(a));
    for (int b = 0; b < 4; b++) {
        const double lr = b == 1 ? 0.25 : 0.5;
        float w[6], scale;
        double loss, mean;
        int64_t step;
        OK(hftac_get_param(a, 0, b, w, sizeof w));
        for (int i = 0; i < 6; i++)
            CHECK(w[i] == (float)(b + 10 * (i / 3) + i % 3 - 3 * lr * (1.5 + i % 3)));
        OK(hftac_get_param(a, 1, b, &scale, sizeof scale));
        CHECK(scale == (float)(3 * b));
        OK(hftac_read_metric(a, 0, b, &loss));
        OK(hftac_read_epoch_metric(a, 0, b, &mean));
        CHECK(loss == lr * 6 && mean == lr * 6);
        OK(hftac_read_step(a, b, &step));
        CHECK(step == 3);
    }
    hftac_close(a);
}

static void check_model(hftac_array *a, int model, hftac_model_state state, const char *words)
{
    hftac_model_status m;
    OK(hftac_read_model(a, model, &m));
    CHECK(m.state == state);
    if (!strstr(m.text, words))
        fprintf(stderr, "text: %s\n", m.text);
    CHECK(strstr(m.text, words));
}

/* A diverging model and a stopped one keep their state; the others go on. */
static void test_isolation(int threads)
{
    hftac_array *a = open_fake(threads);
    feed_fake(a);
    OK(hftac_train_step(a));
    float before[6], after[6];
    OK(hftac_get_param(a, 0, 1, before, sizeof before));
    OK(hftac_set_hyper(a, 0, 1, INFINITY));
    OK(hftac_stop_model(a, 2));
    OK(hftac_train_step(a));
    OK(hftac_train_step(a));
    CHECK(hftac_running_count(a) == 2);
    check_model(a, 0, HFTAC_MODEL_RUNNING, "running");
    check_model(a, 1, HFTAC_MODEL_DIVERGED, "model 1 diverged in step 2: loss is inf");
    check_model(a, 2, HFTAC_MODEL_STOPPED, "stopped");
    int64_t steps[4];
    for (int b = 0; b < 4; b++)
        OK(hftac_read_step(a, b, &steps[b]));
    CHECK(steps[0] == 3 && steps[1] == 1 && steps[2] == 1 && steps[3] == 3);
    OK(hftac_get_param(a, 0, 1, after, sizeof after));
    CHECK(!memcmp(before, after, sizeof before));
    OK(hftac_set_hyper(a, 0, 1, 0.5));
    OK(hftac_resume_model(a, 1));
    OK(hftac_resume_model(a, 2));
    OK(hftac_feed(a, 1, (const unsigned char[]){255, 1, 9, 0}, 4));
    OK(hftac_train_step(a));
    hftac_model_status m;
    check_model(a, 3, HFTAC_MODEL_FAULT,
                "model 3: input label is 9 in sample 2, allowed are 0 to 4");
    OK(hftac_read_model(a, 1, &m));
    CHECK(m.state == HFTAC_MODEL_FAULT && m.value == 9 && m.sample == 2 &&
          !strcmp(m.input, "label") && m.step == 2);
    CHECK(hftac_running_count(a) == 0);
    OK(hftac_train_step(a));
    OK(hftac_read_step(a, 3, &steps[3]));
    CHECK(steps[3] == 3);
    hftac_close(a);
}

static void test_evaluation(void)
{
    hftac_array *a = open_fake(2);
    double v;
    OK(hftac_read_metric(a, 0, 0, &v));
    CHECK(isnan(v));
    FAILS(hftac_evaluate_step(a, 4), HFTAC_USAGE, "label was not fed");
    OK(hftac_feed(a, 1, (const unsigned char[]){0, 1, 2, 3}, 4));
    FAILS(hftac_evaluate_step(a, 4), HFTAC_USAGE, "without hftac_evaluate_begin");
    FAILS(hftac_evaluate_end(a), HFTAC_USAGE, "without hftac_evaluate_begin");
    for (int round = 0; round < 2; round++) {
        OK(hftac_evaluate_begin(a, 0));
        OK(hftac_feed(a, 1, (const unsigned char[]){0, 1, 2, 3}, 4));
        OK(hftac_evaluate_step(a, 4));
        OK(hftac_feed(a, 1, (const unsigned char[]){4}, 1));
        FAILS(hftac_evaluate_step(a, 2), HFTAC_USAGE, "fed 1 samples, 2 are needed");
        OK(hftac_evaluate_step(a, 1));
        OK(hftac_evaluate_end(a));
        for (int b = 0; b < 4; b++) {
            OK(hftac_read_metric(a, 0, b, &v));
            CHECK(v == 2.0 + b);
            OK(hftac_read_metric(a, 2, b, &v));
            CHECK(v == 5);
        }
    }
    OK(hftac_evaluate_begin(a, 0));
    OK(hftac_feed(a, 1, (const unsigned char[]){0, 7}, 2));
    FAILS(hftac_evaluate_step(a, 2), HFTAC_DATA, "model 0: input label is 7 in sample 1");
    FAILS(hftac_evaluate_end(a), HFTAC_USAGE, "without");
    FAILS(hftac_evaluate_step(a, 0), HFTAC_USAGE, "n_valid is 0");
    FAILS(hftac_evaluate_step(a, 5), HFTAC_USAGE, "n_valid is 5");
    hftac_close(a);
}

static void test_prediction(void)
{
    hftac_array *a = open_fake(3);
    const void *p = NULL;
    FAILS(hftac_read_output(a, 0, 0, &p), HFTAC_USAGE, "no prediction yet");
    OK(hftac_feed(a, 0, (const float[]){1, 0, 0, 2, 0, 0}, 2));
    FAILS(hftac_predict_step(a, 2), HFTAC_USAGE, "bias was not fed");
    OK(hftac_feed(a, 3, (const double[]){1, 0.5}, 0));
    OK(hftac_predict_step(a, 2));
    for (int b = 0; b < 4; b++) {
        OK(hftac_read_output(a, 0, b, &p));
        const float *y = p;
        CHECK(y[0] == (float)(1 + b) && y[2] == (float)(2 + b) && y[4] == (float)(1 + b) &&
              y[6] == (float)(1 + b)); /* padding is row 0 */
        OK(hftac_read_output(a, 2, b, &p));
        CHECK(*(const double *)p == 1.5);
    }
    hftac_close(a);
}

static void test_feeding(void)
{
    hftac_array *a = open_fake(1);
    const int32_t own[8] = {1, 1, 1, 1, 1, 1, 1, 9};
    feed_fake(a);
    OK(hftac_feed_model(a, 2, 3, own, 4));
    FAILS(hftac_feed_model(a, 0, 3, own, 4), HFTAC_USAGE, "shared by all models");
    FAILS(hftac_feed(a, 0, own, 5), HFTAC_USAGE, "5 samples");
    FAILS(hftac_feed(a, 0, NULL, 4), HFTAC_USAGE, "NULL");
    FAILS(hftac_feed(a, 7, own, 4), HFTAC_USAGE, "no input number 7");
    FAILS(hftac_feed_borrowed(a, 0, (const char *)own + 1), HFTAC_USAGE, "aligned");
    float x[12] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, scale, w[6];
    OK(hftac_feed_borrowed(a, 0, x));
    x[0] = 6;
    OK(hftac_train_step(a));
    OK(hftac_get_param(a, 1, 3, &scale, sizeof scale));
    CHECK(scale == 2);
    OK(hftac_get_param(a, 0, 0, w, sizeof w));
    CHECK(w[0] == -1.5f && w[1] == 0);
    hftac_close(a);
}

static void test_subset(void)
{
    hftac_array *a = NULL;
    OK(hftac_open(model_path, &(hftac_options){.models = 2, .threads = 8}, &a));
    CHECK(hftac_model_count(a) == 2 && hftac_describe(a)->capacity == 4 &&
          hftac_describe(a)->threads == 2);
    feed_fake(a);
    OK(hftac_train_step(a));
    double v;
    OK(hftac_read_metric(a, 0, 1, &v));
    CHECK(v == 3);
    FAILS(hftac_read_metric(a, 0, 2, &v), HFTAC_USAGE, "no model 2");
    CHECK(isnan(v));
    hftac_close(a);
}

static void test_epochs(void)
{
    hftac_array *a = open_fake(1);
    feed_fake(a);
    double v;
    OK(hftac_train_step(a));
    OK(hftac_read_metric(a, 1, 0, &v));
    CHECK(v == 1);
    OK(hftac_epoch_end(a, HFTAC_NO_METRIC));
    CHECK(hftac_epoch(a) == 1);
    OK(hftac_read_epoch_metric(a, 0, 0, &v));
    CHECK(isnan(v));
    OK(hftac_train_step(a));
    OK(hftac_read_metric(a, 1, 0, &v));
    CHECK(v == 0.5);
    FAILS(hftac_epoch_end(a, 17), HFTAC_USAGE, "no metric number 17");
    FAILS(hftac_set_epoch(a, -1), HFTAC_USAGE, "negative");
    FAILS(hftac_set_plan(a, -1, 0), HFTAC_USAGE, "makes no sense");
    OK(hftac_set_plan(a, 3, 7));
    hftac_close(a);
}

static void test_tables(void)
{
    CHECK(!strcmp(hftac_type_text(HFTAC_F32), "f32") && hftac_type_bytes(HFTAC_I64) == 8 &&
          !hftac_type_text((hftac_type)77));
    CHECK(strstr(hftac_status_text(HFTAC_CPU), "CPU") &&
          !strcmp(hftac_status_text((hftac_status)77), "unknown status"));
    CHECK(strlen(hftac_version()) > 0);
}

int main(int argc, char **argv)
{
    /* In memory if there is such a file system: every save syncs its files. */
    char template[] = "/dev/shm/hftac-test-XXXXXX", on_disk[] = "/tmp/hftac-test-XXXXXX";
    if (argc < 5 || (!(folder = mkdtemp(template)) && !(folder = mkdtemp(on_disk)))) {
        fprintf(stderr, "usage: test_runtime FAKE.so FAKE_CPU.so FAKE_VERSION.so FAKE_OTHER.so "
                        "[FILE WORD]..\n");
        return 2;
    }
    model_path = argv[1];
    test_headers(); /* first: it measures memory, which the others leave in pieces */
    test_open(argv + 2);
    test_tables();
    test_discovery();
    test_hypers();
    test_params();
    for (int threads = 1; threads <= 4; threads++) {
        test_training(threads);
        test_isolation(threads);
    }
    test_evaluation();
    test_prediction();
    test_feeding();
    test_subset();
    test_epochs();
    test_files();
    test_sets();
    test_data();
    test_faults();
    test_door();
    test_loader(argv[4], argv + 5);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        failures++;
    printf("%s\n", failures ? "FAILED" : "passed");
    return failures != 0;
}
