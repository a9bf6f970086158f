/* Loops: one node of kind LOOP, whose body is a graph of its own that is run `count` times.
 *
 *   %h.loop = loop %h, %u, %w count=64 carried=1 scanned=1 : bool[] {
 *     %h = arg index=0 : f32[32, 128]           carried: the operand, later what `next` left
 *     %u = arg index=1 : f32[32, 128]           scanned: element t of the operand's first axis,
 *     f32[64, 32, 128]
 *     %w = arg index=2 : f32[128, 128]          invariant: the operand
 *     ...
 *     next %h.next
 *     stack %h.next
 *   }
 *   %h.last = result %h.loop index=0 : f32[32, 128]
 *   %h.all = result %h.loop index=1 : f32[64, 32, 128]
 *
 * Operands: first the carried values' initial ones, then the scanned ones, then the invariant
 * ones.  Results: first the carried values after the last round, then each stacked value of all
 * rounds along a new first axis.  `reverse`: t runs from count - 1 to 0; scanned and stacked
 * values keep their places. A body reads what is outside through its args only; its leaves are
 * args, constants and run-time scalars.  What is counted is an iota that is scanned.  A carried
 * argument has its operand's element type and extents and may have batch marks that it lacks. */
#ifndef HFTAC_IR_LOOP_H
#define HFTAC_IR_LOOP_H

#include "ir/build.h"

typedef enum LoopRole {
    LOOP_CARRIED,
    LOOP_SCANNED,
    LOOP_INVARIANT
} LoopRole;

bool node_is_loop(const Node *n);   /* the region */
bool node_is_result(const Node *n); /* one of its results */
bool node_is_arg(const Node *n);
/* Of operand (and argument) i. */
LoopRole loop_role(const Node *loop, int64_t i);
/* The value that stands behind an invariant argument, looked for outwards; any other node itself.
 * *g: its graph. */
Node *loop_origin(const Graph **g, Node *n);
/* The argument of the body that stands for operand i, or NULL if it has none (any more). */
Node *loop_arg(const Node *loop, int i);
/* Type of result i, models left out; false if there is none such. */
bool loop_result_type(const Node *loop, int64_t i, Type *out);
int loop_n_results(const Node *loop);
/* The first violation of what stands above as a sentence in the arena, or NULL. */
const char *loop_check(const Node *loop, Arena *a);

/* A loop in the making.  Arguments may be added in any order; they are numbered at the end. */
typedef struct LoopDraft {
    Builder *b; /* of the graph around it */
    Graph *body;
    int64_t count;
    bool reverse;
    struct LoopDraftArg *args;
    int n_args, cap_args;
    Node **next;
    int n_next, cap_next;
    Node **stack;
    int n_stack, cap_stack;
} LoopDraft;

/* A graph for a body that is in no module's list. */
Graph *loop_body_new(Module *m, const char *name);
void loop_begin(LoopDraft *d, Builder *b, Graph *body, int64_t count, bool reverse);
/* Appends an argument to the body.  Scanned and invariant operands that are there already give
 * their argument again. */
Node *loop_carried(LoopDraft *d, const char *name, Node *init, const Type *type);
Node *loop_scanned(LoopDraft *d, Node *operand);
Node *loop_invariant(LoopDraft *d, Node *operand);
/* Next values in the order of the carried arguments, one for each. */
void loop_next(LoopDraft *d, Node *value);
/* The number among the stacked values; a value that is stacked already keeps its number. */
int loop_stack(LoopDraft *d, Node *value);
/* What an argument of that role stands for; NULL: it has another role. */
Node *loop_draft_operand(const LoopDraft *d, const Node *arg, LoopRole role);
/* Appends the LOOP node; NULL if it was given a NULL value (reported before). */
Node *loop_end(LoopDraft *d, const char *hint);
/* The node of result i. */
Node *loop_result(Builder *b, Node *loop, int i, const char *hint);
Node *loop_stacked(Builder *b, Node *loop, int number, const char *hint);

/* One more invariant operand; its argument. */
Node *loop_add_invariant(Node *loop, Node *operand);
/* One more stacked value (or the one that is stacked already); its number. */
int loop_add_stack(Node *loop, Node *value);
/* Drops what no result of the loop needs: carried and stacked values, operands, dead nodes of the
 * body.  The loop's results in g are renumbered.  True if anything went. */
bool loop_trim(Graph *g, Node *loop);

#endif
