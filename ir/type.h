/* Types of values: element type, shape of one model's value, and the models it holds for.
 *
 * The model axis is not part of the shape: f32[8 | 32, 128] is a [32, 128] value of each of eight
 * models; f32[32, 784] is shared by all. */
#ifndef HFTAC_IR_TYPE_H
#define HFTAC_IR_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/support/text.h"

/* Of any value, and of what files and model.so know: inputs, states, outputs. */
enum {
    MAX_RANK = 10,
    MAX_STORED_RANK = 8
};

typedef enum DType {
#define DTYPE(NAME, text, bytes, cls) DT_##NAME,
#include "ir/dtypes.def"
    DT_COUNT
} DType;

typedef enum DTypeClass {
    DTC_BOOL,
    DTC_INT,
    DTC_REAL
} DTypeClass;

const char *dtype_text(DType t);
int dtype_bytes(DType t);
DTypeClass dtype_class(DType t);
/* DT_COUNT if there is none of that name. */
DType dtype_find(const char *text);
/* The type in which two operands meet: the wider of one class; bool with int gives i64, int with
 * real gives f32 (f64 if the real is). */
DType dtype_join(DType a, DType b);
/* Is v one of its values?  Reals are rounded: any v is. */
bool dtype_holds(DType t, double v);

/* dim: extents.  batch says what is known of how an axis depends on the batch size N.
 *   0             it does not
 *   m > 0         the axis is [k, N, m] in one: k times over (k = dim / (N * m), mostly 1) all
 *   samples with m
 *                 consecutive elements each; of each N * m elements the first n_valid * m count
 *                 in evaluation
 *   BATCH_MIXED   it does, and nothing better is proven: the program is one for whole batches, see
 *                 passes/batch/batch_use.c */
enum {
    BATCH_MIXED = -1
};

typedef struct Shape {
    int rank;
    int64_t dim[MAX_RANK];
    int64_t batch[MAX_RANK];
} Shape;

/* Models lo <= b < hi; hi == 0: shared by all. */
typedef struct Interval {
    int lo, hi;
} Interval;

typedef struct Type {
    DType dtype;
    Shape shape;
    Interval models;
} Type;

Shape shape_of(int rank, const int64_t *dim);
Shape shape_scalar(void);
int64_t shape_count(const Shape *s);
/* Same rank and extents (batch marks are not compared). */
bool shape_equal(const Shape *a, const Shape *b);
/* NumPy's rules; false if they do not broadcast.  Marks that differ where both have the extent
 * give BATCH_MIXED. */
bool shape_broadcast(const Shape *a, const Shape *b, Shape *out);
/* The mark of an axis where two values with these marks meet element by element. */
int64_t mark_meet(int64_t a, int64_t b);
bool shape_has_mixed(const Shape *s);
/* Elements of each axis' step in row-major order. */
void shape_strides(const Shape *s, int64_t *stride);
bool type_equal(const Type *a, const Type *b);
bool type_per_model(const Type *t);
/* "[32, 128]" and "f32[8 | 32, 128]". */
void shape_print(Text *out, const Shape *s);
void type_print(Text *out, const Type *t);
/* The same in the arena, for messages. */
const char *shape_text(Arena *a, const Shape *s);
const char *type_text(Arena *a, const Type *t);

#endif
