/* Data sets: what is refused, conversions, order of samples, the last batch, prediction files. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "runtime/files/safetensors.h"
#include "tests/unit/runtime_test.h"

enum {
    SAMPLES = 11
};

/* x[i] = {i, i, i}, label i % 5, noise of model b, [2, .] = b; in the types given. */
typedef struct Set {
    float x[SAMPLES * 3];
    int64_t label[SAMPLES];
    int32_t noise[4 * SAMPLES * 2];
    double bias[2];
    hftac_tensor tensors[4];
} Set;

static void make_set(Set *s)
{
    for (int i = 0; i < SAMPLES; i++) {
        s->x[3 * i] = s->x[3 * i + 1] = s->x[3 * i + 2] = (float)i;
        s->label[i] = i % 5;
    }
    for (int i = 0; i < 4 * SAMPLES * 2; i++)
        s->noise[i] = i / (SAMPLES * 2);
    s->bias[0] = 2, s->bias[1] = 3;
    s->tensors[0] = (hftac_tensor){"x", HFTAC_F32, 2, {SAMPLES, 3}, s->x};
    s->tensors[1] = (hftac_tensor){"label", HFTAC_I64, 1, {SAMPLES}, s->label};
    s->tensors[2] = (hftac_tensor){"noise", HFTAC_I32, 3, {4, SAMPLES, 2}, s->noise};
    s->tensors[3] = (hftac_tensor){"bias", HFTAC_F64, 1, {2}, s->bias};
}

static hftac_data *open_set(const hftac_array *a, const Set *s)
{
    hftac_data *d = NULL;
    OK(hftac_data_from_memory(a, s->tensors, 4, NULL, &d));
    return d;
}

static void test_refusals(hftac_array *a)
{
    Set s;
    hftac_data *d = (hftac_data *)1;
    make_set(&s);
    FAILS(hftac_data_from_memory(a, s.tensors, 1, NULL, &d), HFTAC_DATA,
          "there is no tensor \"label\" (u8 [samples]); there are: x");
    CHECK(d == NULL && strstr(hftac_last_error(),
                              "there is no tensor \"noise\" (i32 [models, samples, 2])"));
    s.tensors[0].dims[1] = 4;
    s.tensors[1].type = HFTAC_F32;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA,
          "\"x\" has shape [11, 4], needed is [samples, 3]");
    CHECK(strstr(hftac_last_error(), "\"label\" is of type f32, needed is u8"));
    make_set(&s);
    s.tensors[0].type = HFTAC_F64;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA,
          "\"x\" is of type f64, needed is f32");
    make_set(&s);
    s.tensors[1].dims[0] = 10;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA,
          "\"label\" has 10 samples, \"x\" has 11");
    make_set(&s);
    s.tensors[2].dims[0] = 3;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA,
          "\"noise\" has shape [3, 11, 2]");
    make_set(&s);
    s.label[7] = 300;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA,
          "300 in sample 7 does not fit u8");
    s.label[7] = -1;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA,
          "-1 in sample 7 does not fit u8");
    s.label[7] = 255;
    s.label[9] = 5;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA,
          "\"label\" is 5 in sample 9, allowed are 0 to 4, or 255 to ignore it");
    make_set(&s);
    s.tensors[0].dims[0] = s.tensors[1].dims[0] = s.tensors[2].dims[1] = 0;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_DATA, "no samples");
    s.tensors[0].values = NULL;
    FAILS(hftac_data_from_memory(a, s.tensors, 3, NULL, &d), HFTAC_USAGE, "tensor number 0");
    FAILS(hftac_data_from_memory(a, NULL, 3, NULL, &d), HFTAC_USAGE, "NULL");
    FAILS(hftac_data_open(a, "/nowhere", NULL, &d), HFTAC_FILE, "No such file");
    FAILS(hftac_data_open(a, model_path, NULL, &d), HFTAC_DATA, "damaged");
}

/* Prediction does not look at targets, and needs none. */
static void test_purposes(hftac_array *a)
{
    Set s;
    hftac_data *d;
    make_set(&s);
    s.label[3] = 77;
    OK(hftac_data_from_memory(a, s.tensors, 4,
                              &(hftac_data_options){.purpose = HFTAC_FOR_PREDICTION}, &d));
    FAILS(hftac_evaluate(a, d, NULL, NULL), HFTAC_DATA, "no tensor \"label\"");
    hftac_data_close(d);
    OK(hftac_data_from_memory(a, s.tensors, 1,
                              &(hftac_data_options){.purpose = HFTAC_FOR_PREDICTION},
                              &d) == HFTAC_DATA
           ? HFTAC_OK
           : HFTAC_DATA);
    CHECK(strstr(hftac_last_error(), "no tensor \"bias\" (f64 [2])"));
    OK(hftac_data_from_memory(a, s.tensors + 1, 1,
                              &(hftac_data_options){.purpose = HFTAC_FOR_EVALUATION},
                              &d) == HFTAC_DATA
           ? HFTAC_OK
           : HFTAC_DATA);
    CHECK(strstr(hftac_last_error(), "\"label\" is 77 in sample 3"));
}

static int count_call(void *context, const hftac_progress *p)
{
    int *left = context;
    CHECK(p->batch >= 1 && p->batch <= p->batches && p->samples >= p->batch);
    return --*left == 0;
}

static void test_loops(hftac_array *a)
{
    Set s;
    make_set(&s);
    hftac_data *d = open_set(a, &s), *part = NULL;
    hftac_pass pass;
    CHECK(hftac_data_samples(d) == SAMPLES);
    OK(hftac_evaluate(a, d, NULL, &pass));
    CHECK(pass.steps == 3 && pass.samples == SAMPLES && pass.dropped == 0);
    double v;
    for (int b = 0; b < 4; b++) { /* 0..4 twice and a 0: every sample once */
        OK(hftac_read_metric(a, 0, b, &v));
        CHECK(fabs(v - (20.0 / 11 + b)) < 1e-12);
        OK(hftac_read_metric(a, 2, b, &v));
        CHECK(v == SAMPLES);
    }
    OK(hftac_train_epoch(a, d, NULL, &pass));
    CHECK(pass.steps == 2 && pass.samples == 8 && pass.dropped == 3);
    float scale;
    OK(hftac_get_param(a, 1, 3, &scale, sizeof scale));
    CHECK(scale == 6);
    int left = 1;
    FAILS(hftac_train_epoch(
              a, d, &(hftac_train_options){.callback = count_call, .context = &left}, &pass),
          HFTAC_INTERRUPTED, "batch 1 of 2");
    CHECK(pass.steps == 1);
    FAILS(hftac_train_epoch(a, d, &(hftac_train_options){.shuffle = HFTAC_SHUFFLE_EACH}, &pass),
          HFTAC_USAGE, "x is shared");
    OK(hftac_data_slice(d, 10, 1, &part));
    FAILS(hftac_train_epoch(a, part, NULL, &pass), HFTAC_DATA,
          "has 1 samples, a batch needs 4");
    OK(hftac_evaluate(a, part, NULL, &pass));
    OK(hftac_read_metric(a, 2, 0, &v));
    CHECK(v == 1 && pass.steps == 1);
    hftac_data_close(part);
    FAILS(hftac_data_slice(d, 10, 2, &part), HFTAC_USAGE, "not in a data set of 11");
    hftac_data_close(d);
}

/* Without labels there is nothing to tell orders apart by but the weights: w depends on which
 * 8 of 11 samples were seen. */
static float weight_after(const Set *s, int threads, uint64_t seed, hftac_shuffle shuffle,
                          int epochs)
{
    hftac_array *a = open_fake(threads);
    hftac_data *d = open_set(a, s);
    for (int i = 0; i < epochs; i++) {
        OK(hftac_train_epoch(a, d, &(hftac_train_options){.seed = seed, .shuffle = shuffle},
                             NULL));
        OK(hftac_epoch_end(a, HFTAC_NO_METRIC));
    }
    float w[6];
    OK(hftac_get_param(a, 0, 3, w, sizeof w));
    hftac_data_close(d);
    hftac_close(a);
    return w[0];
}

static void test_shuffle(void)
{
    Set s;
    make_set(&s);
    CHECK(weight_after(&s, 1, 0, HFTAC_SHUFFLE_NONE, 1) == 3 - 0.5f * 7); /* samples 0..7 */
    CHECK(weight_after(&s, 1, 5, HFTAC_SHUFFLE_SAME, 3) ==
          weight_after(&s, 3, 5, HFTAC_SHUFFLE_SAME, 3));
    int different = 0;
    const float w = weight_after(&s, 1, 0, HFTAC_SHUFFLE_SAME, 1);
    for (uint64_t seed = 1; seed < 9; seed++)
        different += weight_after(&s, 1, seed, HFTAC_SHUFFLE_SAME, 1) != w;
    CHECK(different >= 4);
}

/* A bad label that slipped in is named by its number in the data set. */
static void test_fault_number(hftac_array *a)
{
    Set s;
    make_set(&s);
    unsigned char label[SAMPLES] = {0};
    s.tensors[1] = (hftac_tensor){"label", HFTAC_U8, 1, {SAMPLES}, label};
    hftac_data *d = open_set(a, &s);
    label[6] = 9;
    hftac_model_status m;
    FAILS(hftac_evaluate(a, d, NULL, NULL), HFTAC_DATA, "9 in sample 6");
    OK(hftac_train_epoch(a, d, &(hftac_train_options){.shuffle = HFTAC_SHUFFLE_NONE}, NULL));
    OK(hftac_read_model(a, 2, &m));
    CHECK(m.state == HFTAC_MODEL_FAULT && m.sample == 6 && m.value == 9);
    hftac_data_close(d);
}

static void test_predict_file(hftac_array *a)
{
    Set s;
    make_set(&s);
    hftac_data *d = open_set(a, &s);
    const char *path = in_folder("predictions.safetensors");
    OK(hftac_predict_to_file(a, d, path));
    StFile f;
    OK(hft_st_open(path, &f));
    const StTensor *y = hft_st_find(&f, "y"), *z = hft_st_find(&f, "z"),
                   *c = hft_st_find(&f, "c");
    CHECK(y && y->rank == 3 && y->dims[0] == 4 && y->dims[1] == SAMPLES && y->dims[2] == 2);
    CHECK(z && z->rank == 3 && z->dims[1] == 2 && z->dims[2] == 2 * SAMPLES);
    CHECK(c && c->rank == 1 && c->dims[0] == 4);
    unsigned char *ys = NULL, *zs = NULL;
    OK(hft_st_read(&f, y, &ys));
    OK(hft_st_read(&f, z, &zs));
    for (int b = 0; ys && zs && c && b < 4; b++)
        for (int i = 0; i < SAMPLES; i++) {
            float v;
            memcpy(&v, ys + (size_t)(b * SAMPLES + i) * 8, 4);
            CHECK(v == (float)(i + b));
            for (int k = 0; k < 4; k++) {
                memcpy(&v,
                       zs + (size_t)(b * 4 * SAMPLES + k / 2 * 2 * SAMPLES + 2 * i + k % 2) * 4,
                       4);
                CHECK(v == (float)(100 * i + 10 * (k / 2) + k % 2));
            }
        }
    free(ys);
    free(zs);
    hft_st_close(&f);
    FAILS(hftac_predict_to_file(a, d, in_folder("no/such/folder")), HFTAC_FILE, "No such file");
    FAILS(hftac_predict(a, d, NULL, NULL), HFTAC_USAGE, "sink is NULL");
    hftac_data_close(d);
}

/* The same from files: u8 pixels for a f32 input, .npy files. */
static void test_data_files(hftac_array *a)
{
    const char *path = in_folder("data.safetensors");
    write_st(path,
             "{\"x\":{\"dtype\":\"U8\",\"shape\":[1,3],\"data_offsets\":[1,4]},\"bias\":{"
             "\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
             "\"unused\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[6,8]},\"flag\":{"
             "\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}",
             8);
    hftac_data *d;
    OK(hftac_data_open(a, path, &(hftac_data_options){.purpose = HFTAC_FOR_PREDICTION}, &d));
    write_bytes(path, "", 0); /* what becomes of the file does not matter any more */
    OK(hftac_predict_to_file(a, d, in_folder("p.safetensors")));
    const void *p = NULL;
    OK(hftac_read_output(a, 0, 0, &p));
    CHECK(p && *(const float *)p == 1);
    OK(hftac_read_output(a, 2, 0, &p));
    CHECK(p && *(const double *)p == 9);
    hftac_data_close(d);

    CHECK(mkdir(in_folder("npy"), 0777) == 0);
    char file[128 + 24] = "\x93NUMPY\x01";
    file[8] = 118;
    snprintf(file + 10, 119, "%-117s\n",
             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    const float x[6] = {4, 5, 6, 7, 8, 9};
    memcpy(file + 128, x, sizeof x);
    write_bytes(in_folder("npy/x.npy"), file, sizeof file);
    snprintf(file + 10, 119, "%-117s\n",
             "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }");
    memset(file + 128, 0, 16);
    write_bytes(in_folder("npy/bias.npy"), file, 128 + 16);
    OK(hftac_data_open(a, in_folder("npy"),
                       &(hftac_data_options){.purpose = HFTAC_FOR_PREDICTION}, &d));
    CHECK(hftac_data_samples(d) == 2);
    hftac_data_close(d);
    FAILS(hftac_data_open(a, in_folder("npy"), NULL, &d), HFTAC_DATA,
          "there is no tensor \"label\"");
    const char *bad[][2] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "size disagree"},
        {"{'descr': '<f8', 'fortran_order': True, 'shape': (2,), }", "Fortran"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, -1), }", "shape"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }",
         "shape"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
         "overflows"},
        {"{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }", "is of type >f8"},
        {"", "no descr"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(file + 10, 119, "%-117s\n", bad[i][0]);
        write_bytes(in_folder("npy/bias.npy"), file, 128 + 16);
        FAILS(hftac_data_open(a, in_folder("npy"),
                              &(hftac_data_options){.purpose = HFTAC_FOR_PREDICTION}, &d),
              HFTAC_DATA, bad[i][1]);
    }
    for (size_t n = 0; n < 128; n += 9) {
        write_bytes(in_folder("npy/bias.npy"), file, n);
        FAILS(hftac_data_open(a, in_folder("npy"),
                              &(hftac_data_options){.purpose = HFTAC_FOR_PREDICTION}, &d),
              HFTAC_DATA, "damaged");
    }
}

/* Tensors that nobody asks for may be of any type and rank; asked for, they are refused by name
 * and shape. */
static void test_foreign_tensors(hftac_array *a)
{
    static const char *const types[] = {"F8_E8M0", "F4", "C64", "F8_E4M3FNUZ",
                                        "NOT_YET_INVENTED"};
    const hftac_data_options predict = {.purpose = HFTAC_FOR_PREDICTION};
    const char *path = in_folder("foreign.safetensors"), *entry = "\"data_offsets\":[22,26]}}";
    char header[512], words[128];
    hftac_data *d;
    const void *p = NULL;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *shapes[] = {"[]", "[7]", "[1,1,1,1,1,1,1,1,4]"};
        for (int k = 0; k < 3; k++) {
            snprintf(header, sizeof header,
                     "{\"x\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[16,22]},"
                     "\"bias\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
                     "\"more\":{\"dtype\":\"%s\",\"shape\":%s,%s",
                     types[i], shapes[k], entry);
            write_st(path, header, 26);
            OK(hftac_data_open(a, path, &predict, &d));
            OK(hftac_predict_to_file(a, d, in_folder("p.safetensors")));
            OK(hftac_read_output(a, 0, 0, &p));
            CHECK(p && ((const float *)p)[0] == 16 && ((const float *)p)[2] == 19);
            hftac_data_close(d);
        }
        snprintf(header, sizeof header,
                 "{\"bias\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
                 "\"x\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[16,19]}}",
                 types[i]);
        snprintf(words, sizeof words, "\"x\" is of type %s, needed is f32", types[i]);
        write_st(path, header, 16 + 3);
        FAILS(hftac_data_open(a, path, &predict, &d), HFTAC_DATA, words);
    }
    write_st(path,
             "{\"bias\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]},"
             "\"x\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,3],\"data_offsets\":[16,19]}}",
             19);
    FAILS(hftac_data_open(a, path, &predict, &d), HFTAC_DATA,
          "\"x\" has shape [1, 1, 1, 1, 1, 1, 1, 1, ...], needed is [samples, 3]");
}

void test_data(void)
{
    void (*const tests[])(hftac_array *) = {
        test_refusals,     test_purposes,   test_loops,          test_fault_number,
        test_predict_file, test_data_files, test_foreign_tensors};
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        hftac_array *a = open_fake(2);
        tests[i](a);
        hftac_close(a);
    }
    test_shuffle();
}
