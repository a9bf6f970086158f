/* What the check programs share: golden files, compiling a generated program, comparing tensors.
 *
 * A check program takes a directory of golden files and reads operators, attributes and shapes
 * from their metadata, so that it runs on other files of the same form.  Each case runs at B = 1
 * and at B = 3 with three different models in the slots; the slot with the golden values is
 * compared with them, and every slot bit for bit with its B = 1 run. */
#ifndef HFTAC_TESTS_CHECK_H
#define HFTAC_TESTS_CHECK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/hftac.h"

enum {
    SLOTS = 3
};

typedef struct Tensor {
    char name[128];
    hftac_type type;
    int rank;
    int64_t dims[HFTAC_MAX_DIMS];
    int64_t count;
    const void *values; /* in the file's memory */
} Tensor;

typedef struct Golden {
    char path[512], base[128]; /* base: the file's name without directory and suffix */
    json_t *meta;              /* __metadata__: strings */
    Tensor *tensor;
    int n;
    void *memory;
} Golden;

/* Ends the program with exit code 2. */
_Noreturn void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* ... if a library call failed. */
void must(hftac_status status);

/* Every .safetensors file of a directory, in order of name. */
char **list_files(const char *directory, int *n);
Golden golden_read(const char *path);
void golden_free(Golden *g);
const Tensor *golden_find(const Golden *g, const char *name);
/* A metadata value as text ("" if absent); one that holds JSON, parsed. */
const char *golden_text(const Golden *g, const char *key);
json_t *golden_json(const Golden *g, const char *key);

/* A growing text. */
typedef struct Source {
    char text[65536];
    size_t len;
} Source;
void add(Source *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* [4, 5] of a tensor's shape; a JSON value as .hdl. */
void add_shape(Source *s, const Tensor *t);
void add_json(Source *s, const json_t *value);

/* Compiles an .hdl text (or a file, with extra options ended by NULL) with the hftac beside this
 * program and opens the result; NULL after printing the compiler's message. */
hftac_array *compile_text(const char *text, int n_models);
hftac_array *compile_text_options(const char *text, int n_models, const char *const *options);
hftac_array *compile_file(const char *path, int n_models, const char *const *options);
hftac_array *compile_file_threads(const char *path, int n_models, const char *const *options,
                                  int threads);
/* What `hftac --emit=STAGE` says of an .hdl text, malloced; NULL after printing the message. */
char *emit_text(const char *text, const char *stage);
/* Compiles an .hir text. */
hftac_array *compile_ir(const char *text, int n_models);
/* Where generated programs are kept: set from the command line's program name. */
void check_begin(const char *argv0);
void check_end(void);

/* ||a - b|| <= relative * ||b|| + absolute; prints what differs and returns false. */
bool close_enough(const char *what, const float *a, const Tensor *golden, double relative,
                  double absolute);
/* The measure of the traces: ||a - ref|| / (||ref|| + 1e-3 sqrt(n)). */
double trace_error(const float *a, const Tensor *golden);
bool same_bits(const char *what, const void *a, const void *b, size_t bytes);

/* Values for slot `slot` of a case whose golden values are in slot `home`: the golden ones there,
 * elsewhere the same elements in another order.  Malloced. */
void *slot_values(const Tensor *t, int slot, int home);

void set_param(hftac_array *a, const char *name, int model, const Tensor *like,
               const void *values);
void *get_param(hftac_array *a, const char *name, int model, size_t *bytes);
void feed(hftac_array *a, const char *name, const Tensor *t);

#endif
