/* A loop being tried, shared by elab_loop.c (names, types, deciding) and elab_loop_nodes.c (what
 * the body is made of). */
#ifndef HFTAC_FRONTEND_ELABORATE_ELAB_LOOP_H
#define HFTAC_FRONTEND_ELABORATE_ELAB_LOOP_H

#include "frontend/elaborate/elab.h"
#include "ir/loop.h"

/* A name of the scope that the body gives a new value. */
typedef struct Carried {
    const char *name;
    Value before;
    Type type; /* of the argument */
    bool weak;
    Node *arg;
    Value after;
} Carried;

/* name[t] = v: collected. */
typedef struct Collected {
    const char *name;
    Value before;
    int64_t step, base;
    Node *value;
    bool weak;
    SrcRange loc;
} Collected;

struct LoopTrial {
    Elab *e;
    const Ast *repeat;
    int64_t first, step, count; /* the counter: first + step * round */
    Builder outer;
    LoopDraft draft;
    Graph *graph;
    Node *rounds; /* 0 .. count - 1, outside */
    Carried *carried;
    int n_carried, cap_carried;
    Collected *collected;
    int n_collected, cap_collected;
    Node **moved; /* by id in graph: the copy outside */
    int cap_moved;
    bool *varies; /* by id in graph */
    int n_varies;
};

/* An error of the trial; false. */
bool loop_refuse(LoopTrial *t, const char *why);
/* What an argument of the body has as its values or elements; NULL if that changes from round to
 * round.  number: it is a number of the program that does. */
const Node *loop_argument(const LoopTrial *t, const Node *arg, bool *number);
/* Does n depend on a number that goes from round to round? */
bool loop_numbers(LoopTrial *t, const Node *n);
/* Is the node one of the body's graph? */
bool loop_inside(const LoopTrial *t, const Node *n);
/* Does it depend on the round? */
bool loop_varies(LoopTrial *t, const Node *n);
/* The node outside that has the value of n, which does not vary. */
Node *loop_move_out(LoopTrial *t, Node *n);
/* n as a node of the body. */
Node *loop_in_body(LoopTrial *t, Node *n);
/* Takes what does not vary out of the body's graph. */
void loop_close_body(LoopTrial *t);
Value loop_counter_value(int64_t step, int64_t base);
bool loop_whole_number(const Value *v, int64_t *out);

#endif
