/* A `repeat` that is being tried as a loop; shared by elab_loop.c (names, types, whether it can
 * be a loop) and elab_loop_nodes.c (the nodes of the body). */
#ifndef HFTAC_FRONTEND_ELABORATE_ELAB_LOOP_H
#define HFTAC_FRONTEND_ELABORATE_ELAB_LOOP_H

#include "frontend/elaborate/elab.h"
#include "ir/loop.h"

/* A name that the body gives a new value, so that each round gets it from the round before. */
typedef struct Carried {
    const char *name;
    /* Its value in front of the loop. */
    Value before;
    /* The argument of the body that stands for it, and its type. */
    Type type;
    bool weak;
    Node *arg;
    /* Its value at the end of the body. */
    Value after;
} Carried;

/* One name[step * t + base] = value in the body: the loop collects the values of all rounds. */
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
    /* The counter is first + step * round, for count rounds. */
    int64_t first, step, count;
    /* Builds in front of the loop. */
    Builder outer;
    LoopDraft draft;
    /* The graph of the body. */
    Graph *graph;
    /* 0 .. count - 1, a tensor in front of the loop. */
    Node *rounds;
    Carried *carried;
    int n_carried, cap_carried;
    Collected *collected;
    int n_collected, cap_collected;
    /* By id in graph: the copy of the node in front of the loop, or NULL. */
    Node **moved;
    int cap_moved;
    /* By id in graph: the node depends on the round. */
    bool *varies;
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
