/* The table of reductions, expanded from reductions.def. */
#include "ir/reduction.h"

#include <math.h>

#include "ir/reading.h"
#include "ir/support/diag.h"

enum {
    ORDER_ANY,
    ORDER_ROUNDED,
    RESULT_VALUE = 0,
    RESULT_POSITION
};

static const ReductionInfo reductions[] = {
#define REDUCTION(NAME, step_, identity_, order, result) \
    [RED_##NAME] = {.step = SC_##step_,                  \
                    .identity = IDENTITY_##identity_,    \
                    .rounded = ORDER_##order,            \
                    .position = RESULT_##result},
#include "ir/reductions.def"
};

const ReductionInfo *reduction_info(const Node *n)
{
    const OpInfo *op = op_info(n->op);
    if (op->kind != KIND_REDUCE)
        diag_internal(NULL, "%s is no reduction", op->text);
    return &reductions[op->data];
}

static double lowest(DType t)
{
    if (dtype_class(t) == DTC_REAL)
        return -INFINITY;
    return t == DT_BOOL || t == DT_U8 ? 0 : -ldexp(1, 8 * dtype_bytes(t) - 1);
}

/* 2^63, as an i64, is the largest one. */
static double highest(DType t)
{
    if (dtype_class(t) == DTC_REAL)
        return INFINITY;
    if (t == DT_BOOL || t == DT_U8)
        return t == DT_BOOL ? 1 : UINT8_MAX;
    return t == DT_I32 ? INT32_MAX : ldexp(1, 63);
}

double reduction_identity(const ReductionInfo *r, DType t)
{
    switch (r->identity) {
    case IDENTITY_ZERO:
        return 0;
    case IDENTITY_ONE:
        return 1;
    case IDENTITY_LOWEST:
        return lowest(t);
    case IDENTITY_HIGHEST:
        return highest(t);
    }
    diag_internal(NULL, "a reduction without an identity");
}

ReductionWalk reduction_walk(IndexSpace *s, const Node *n, const Index *result)
{
    const Shape *from = &n->in[0]->type.shape;
    const unsigned reduced = reduced_axes(n);
    const Reader reader = {.space = s};
    Reading operand;
    node_read(&reader, n, 0, result, &operand);
    ReductionWalk w = {.info = reduction_info(n), .dtype = n->type.dtype, .at = operand.at};
    if (w.info->position)
        w.dtype = n->in[0]->type.dtype;
    for (int k = 0; k < from->rank; k++)
        if (reduced >> k & 1) {
            w.axis[w.along.rank] = k;
            w.along.dim[w.along.rank++] = from->dim[k];
        }
    return w;
}
