/* Element types and shapes.  Sizes are checked where shapes are made (the shape rules and the
 * reader, by shape_fits in shape_common.c) and trusted here. */
#include "ir/type.h"

#include <math.h>
#include <string.h>

typedef struct DTypeInfo {
    const char *text;
    int bytes;
    DTypeClass cls;
} DTypeInfo;

static const DTypeInfo dtypes[] = {
#define DTYPE(NAME, text_, bytes_, cls_) {.text = text_, .bytes = bytes_, .cls = DTC_##cls_},
#include "ir/dtypes.def"
};

const char *dtype_text(DType t)
{
    return dtypes[t].text;
}

int dtype_bytes(DType t)
{
    return dtypes[t].bytes;
}

DTypeClass dtype_class(DType t)
{
    return dtypes[t].cls;
}

DType dtype_find(const char *text)
{
    int t = 0;
    while (t < DT_COUNT && strcmp(dtypes[t].text, text) != 0)
        t++;
    return (DType)t;
}

DType dtype_join(DType a, DType b)
{
    const DTypeClass ca = dtype_class(a), cb = dtype_class(b);
    if (ca == cb)
        return a > b ? a : b;
    if (ca == DTC_REAL || cb == DTC_REAL)
        return ca == DTC_REAL ? a : b;
    return DT_I64; /* bool with an integer */
}

bool dtype_holds(DType t, double v)
{
    switch (t) {
    case DT_BOOL:
        return v == 0 || v == 1;
    case DT_U8:
        return v >= 0 && v <= 255 && v == floor(v);
    case DT_I32:
        return v >= -0x1p31 && v < 0x1p31 && v == floor(v);
    case DT_I64:
        return v >= -0x1p63 && v < 0x1p63 && v == floor(v);
    case DT_F32:
    case DT_F64:
    case DT_COUNT:
        break;
    }
    return true;
}

Shape shape_of(int rank, const int64_t *dim)
{
    Shape s = {.rank = rank};
    for (int i = 0; i < rank; i++)
        s.dim[i] = dim[i];
    return s;
}

Shape shape_scalar(void)
{
    return (Shape){0};
}

int64_t shape_count(const Shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

bool shape_equal(const Shape *a, const Shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

int64_t mark_meet(int64_t a, int64_t b)
{
    return a == b ? a : BATCH_MIXED;
}

bool shape_has_mixed(const Shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->batch[i] == BATCH_MIXED)
            return true;
    return false;
}

bool shape_broadcast(const Shape *a, const Shape *b, Shape *out)
{
    Shape s = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < s.rank; i++) {
        const int ia = i - (s.rank - a->rank), ib = i - (s.rank - b->rank);
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da != db && da != 1 && db != 1)
            return false;
        s.dim[i] = da == 1 ? db : da;
        /* The mark of an operand that has the extent; an axis of one element repeated is not
         * samples. */
        const bool has_a = ia >= 0 && da == s.dim[i], has_b = ib >= 0 && db == s.dim[i];
        s.batch[i] = has_a && has_b ? mark_meet(a->batch[ia], b->batch[ib])
                     : has_a        ? a->batch[ia]
                     : has_b        ? b->batch[ib]
                                    : 0;
    }
    *out = s;
    return true;
}

void shape_strides(const Shape *s, int64_t *stride)
{
    int64_t step = 1;
    for (int i = s->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= s->dim[i];
    }
}

bool type_equal(const Type *a, const Type *b)
{
    return a->dtype == b->dtype && shape_equal(&a->shape, &b->shape) &&
           a->models.lo == b->models.lo && a->models.hi == b->models.hi;
}

bool type_per_model(const Type *t)
{
    return t->models.hi > 0;
}

static void print_dims(Text *out, const Shape *s)
{
    for (int i = 0; i < s->rank; i++)
        text_printf(out, "%s%lld", i ? ", " : "", (long long)s->dim[i]);
}

void shape_print(Text *out, const Shape *s)
{
    text_add(out, "[");
    print_dims(out, s);
    text_add(out, "]");
}

/* The interval is written as the number of models if it starts at 0, else as lo..hi. */
void type_print(Text *out, const Type *t)
{
    text_printf(out, "%s[", dtype_text(t->dtype));
    if (type_per_model(t)) {
        if (t->models.lo)
            text_printf(out, "%d..", t->models.lo);
        text_printf(out, "%d |%s", t->models.hi, t->shape.rank ? " " : "");
    }
    print_dims(out, &t->shape);
    text_add(out, "]");
}

const char *shape_text(Arena *a, const Shape *s)
{
    Text t;
    text_init(&t, a);
    shape_print(&t, s);
    return t.s;
}

const char *type_text(Arena *a, const Type *t)
{
    Text out;
    text_init(&out, a);
    type_print(&out, t);
    return out.s;
}
