/* What the shape rules share: reporting and checks of element types and sizes. */
#include "ir/shape_rules.h"

/* Above this nothing could be planned, and sums of a few such sizes in bytes do not overflow. */
static const int64_t max_elements = INT64_C(1) << 44;

bool shape_fail(const ShapeContext *c, const char *fmt, ...)
{
    if (!c->diag)
        return false;
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(c->arena, fmt, ap);
    va_end(ap);
    diag_error(c->diag, c->loc, "%s", text);
    return false;
}

const char *shape_op(const Node *n)
{
    return op_info(n->op)->text;
}

void shape_note_operand(const ShapeContext *c, const Node *n, int i)
{
    static const char *const two[] = {"left", "right"}, *const more[] = {"first", "second",
                                                                         "third"};
    const SrcRange at = n->in[i]->loc;
    if (!c->diag || at.file < 0 || (at.file == c->loc.file && at.lo == c->loc.lo))
        return;
    const char *which = n->n_in == 2 ? two[i] : i < 3 ? more[i] : "this";
    diag_note(c->diag, at, "%s operand is %s", which, type_text(c->arena, &n->in[i]->type));
}

bool shape_fits(const ShapeContext *c, const Node *n, const Shape *s)
{
    int64_t count = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] < 1)
            return shape_fail(c, "%s: axis %d of the result %s has no elements", shape_op(n), i,
                              shape_text(c->arena, s));
        if (s->dim[i] > max_elements / count)
            return shape_fail(c, "%s: the result %s is too large", shape_op(n),
                              shape_text(c->arena, s));
        count *= s->dim[i];
    }
    return true;
}

bool shape_same_dtypes(const ShapeContext *c, const Node *n, int first)
{
    const DType t = n->in[first]->type.dtype;
    for (int i = first + 1; i < n->n_in; i++)
        if (n->in[i]->type.dtype != t) {
            shape_fail(c, "%s: element types differ, %s and %s", shape_op(n),
                       type_text(c->arena, &n->in[first]->type),
                       type_text(c->arena, &n->in[i]->type));
            shape_note_operand(c, n, i);
            return false;
        }
    return true;
}

static bool refuse_type(const ShapeContext *c, const Node *n, int i, const char *wanted)
{
    shape_fail(c, "%s: needs %s, but was given %s", shape_op(n), wanted,
               type_text(c->arena, &n->in[i]->type));
    shape_note_operand(c, n, i);
    return false;
}

bool shape_need_real(const ShapeContext *c, const Node *n, int i)
{
    return dtype_class(n->in[i]->type.dtype) == DTC_REAL ||
           refuse_type(c, n, i, "f32 or f64 (see cast)");
}

bool shape_need_number(const ShapeContext *c, const Node *n, int i)
{
    return dtype_class(n->in[i]->type.dtype) != DTC_BOOL ||
           refuse_type(c, n, i, "numbers (see cast)");
}

bool shape_need_bool(const ShapeContext *c, const Node *n, int i)
{
    return dtype_class(n->in[i]->type.dtype) == DTC_BOOL || refuse_type(c, n, i, "bool");
}

bool shape_need_integer(const ShapeContext *c, const Node *n, int i)
{
    return dtype_class(n->in[i]->type.dtype) == DTC_INT ||
           refuse_type(c, n, i, "integers as indices");
}

bool shape_need_entries(const ShapeContext *c, const Node *n, const IntList *l,
                        const char *field, int rank)
{
    return l->n == rank ||
           shape_fail(c, "%s: %s has %d entries for %d axes", shape_op(n), field, l->n, rank);
}
