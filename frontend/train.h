/* The train section as it is read, between train.c (reading) and train_step.c (the graph). */
#ifndef HFTAC_FRONTEND_TRAIN_H
#define HFTAC_FRONTEND_TRAIN_H

#include "frontend/elab.h"

typedef struct Pattern {
    const char *text;
    SrcRange loc;
    bool used;
} Pattern;

typedef struct Clip {
    enum {
        CLIP_NONE,
        CLIP_NORM,
        CLIP_VALUE
    } kind;
    Value limit;
    SrcRange loc;
} Clip;

typedef struct Schedule {
    Value *part; /* V_SCHED, chained by `then` */
    int n;
    bool per_step;
    SrcRange loc;
} Schedule;

/* One `optimizer` statement, or one `update` clause. */
typedef struct Update {
    const Ast *clause;    /* UPDATE, or NULL */
    const char **targets; /* paths; NULL: every parameter */
    int n_targets;
    Value loss, optimizer;
    Schedule schedule;
    Clip clip;
    SrcRange loc;
} Update;

typedef struct Train {
    bool sizes; /* reading batch and epochs only */
    const Ast *batch, *epochs, *accumulate;
    Update *updates;
    int n_updates, cap_updates;
    Schedule schedule;
    Clip clip;
    Pattern *freeze, *no_decay;
    int n_freeze, cap_freeze, n_no_decay, cap_no_decay;
} Train;

/* Adds to the train graph what the section asks for. */
bool train_step_build(Elab *e, Train *t);

#endif
