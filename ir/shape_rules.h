/* Declarations of the shape rules that rows of ops.def name, and what the rules share. */
#ifndef HFTAC_IR_SHAPE_RULES_H
#define HFTAC_IR_SHAPE_RULES_H

#include "ir/shape.h"

/* clang-format off */
#define OP(NAME, text, in, attrs, shape, grad, kind, data) ShapeRule shape_rule_##shape;
#include "ir/ops.def"
/* clang-format on */

/* The spelling of n's operator, which every message begins with. */
const char *shape_op(const Node *n);
/* Follows a failure: where operand i was made and what type it has. */
void shape_note_operand(const ShapeContext *c, const Node *n, int i);
/* Extents are at least 1 and their product is one that memory can be planned for. */
bool shape_fits(const ShapeContext *c, const Node *n, const Shape *s);
/* All operands from `first` on have one element type. */
bool shape_same_dtypes(const ShapeContext *c, const Node *n, int first);
bool shape_need_real(const ShapeContext *c, const Node *n, int i);
bool shape_need_number(const ShapeContext *c, const Node *n, int i);
bool shape_need_bool(const ShapeContext *c, const Node *n, int i);
bool shape_need_integer(const ShapeContext *c, const Node *n, int i);
/* An attribute list has one entry for each of `rank` axes. */
bool shape_need_entries(const ShapeContext *c, const Node *n, const IntList *l,
                        const char *field, int rank);

#endif
