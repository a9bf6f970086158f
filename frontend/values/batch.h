/* How the numbers of a program depend on its batch size N, and the marks that say it of the axes
 * of shapes; for built-ins, operators and types.  frontend/values/batch.c says why it is needed. */
#ifndef HFTAC_FRONTEND_VALUES_BATCH_H
#define HFTAC_FRONTEND_VALUES_BATCH_H

#include "frontend/values/value.h"

bool batch_number(const Value *v);
/* Any of them in a list. */
bool batch_any(const Value *v);
/* r, which depends on N in some way. */
Value batch_depends(Value r);
/* r, which was made of `from`. */
Value batch_as(const Value *from, Value r);
/* r = a op b. */
Value batch_binary(const Elab *e, OpCode op, const Value *a, const Value *b, Value r);
Value batch_unary(const Elab *e, OpCode op, const Value *a, Value r);
/* Does it depend on N whether they are equal? */
bool batch_equal(const Elab *e, const Value *a, const Value *b);
/* The extent of an axis as a number. */
Value batch_extent(const Elab *e, const Shape *s, int axis);
/* The mark of an axis of that size which is new: 0, its factor of N, or BATCH_MIXED. */
int64_t batch_size_mark(const Elab *e, const Value *v);
/* From here on the entry point is one for whole batches. */
void batch_whole(Elab *e, SrcRange at, const char *why);
/* The same if v depends on N, where it decides what no mark can say. */
void batch_decides(Elab *e, const Value *v, SrcRange at, const char *what);
/* x reshaped or expanded to sizes of the program, which say by their marks where N stands; open:
 * those left open. */
Node *batch_resized(Elab *e, OpCode op, Node *x, const Shape *asked, unsigned open);
/* The mark of x[from:to:step] along an axis; V_NONE: no bound. */
int64_t batch_slice_mark(const Elab *e, const Shape *s, int axis, const Value *from,
                         const Value *to, int64_t step);
Node *batch_slice(Elab *e, Node *x, const int64_t *start, const int64_t *step,
                  const int64_t *size, const int64_t *mark);

#endif
