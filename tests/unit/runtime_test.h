/* What the tests of the runtime share: checks that count failures, a folder for files, an
 * array of the fake model. */
#ifndef HFTAC_TESTS_RUNTIME_TEST_H
#define HFTAC_TESTS_RUNTIME_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/hftac.h"

extern int failures;
extern const char *model_path; /* of fake_model.so */
extern const char *folder;     /* a fresh one for files */

#define CHECK(condition) check_that(condition, __FILE__, __LINE__, #condition)
#define OK(call)         check_status(call, HFTAC_OK, "", __FILE__, __LINE__, #call)
/* The call fails with this status and a text that contains `words`. */
#define FAILS(call, status, words) check_status(call, status, words, __FILE__, __LINE__, #call)

void check_that(bool ok, const char *file, int line, const char *what);
void check_status(hftac_status got, hftac_status want, const char *words, const char *file,
                  int line, const char *what);

/* folder/name, in one of a few static buffers. */
const char *in_folder(const char *name);
void write_bytes(const char *path, const void *bytes, size_t n);
/* A safetensors file: header, and n data bytes 0, 1, 2 ... */
void write_st(const char *path, const char *header, size_t n);

hftac_array *open_fake(int threads);
/* Feeds x, label, noise: x[i][j] = i + j, labels 0 1 2 3, noise of model b = b. */
void feed_fake(hftac_array *a);

void test_files(void);
void test_sets(void);
void test_data(void);
void test_faults(void);
void test_door(void);
void test_headers(void);
/* other: a fake model named "Other"; others: pairs of a model.so and a word of its refusal, or
 * "opens", ended by NULL. */
void test_loader(const char *other, char **others);

#endif
