/* The train section of a program after reading: train.c fills it in, train_step.c and the files
 * beside it build the graph of a step from it. */
#ifndef HFTAC_FRONTEND_TRAIN_TRAIN_H
#define HFTAC_FRONTEND_TRAIN_TRAIN_H

#include "frontend/elaborate/elab.h"

/* A pattern of parameter names, of `freeze` or `no_decay`; used: a parameter matches it. */
typedef struct Pattern {
    const char *text;
    SrcRange loc;
    bool used;
} Pattern;

/* `clip norm x` or `clip value x` of gradients. */
typedef struct Clip {
    enum {
        CLIP_NONE,
        CLIP_NORM,
        CLIP_VALUE
    } kind;
    Value limit;
    SrcRange loc;
} Clip;

/* A chain of schedules, joined by `then`; its parts are V_SCHED. */
typedef struct Schedule {
    Value *part;
    int n;
    bool per_step;
    SrcRange loc;
} Schedule;

/* One `optimizer` statement, or one `update` clause. */
typedef struct Update {
    /* The UPDATE clause, or NULL for an `optimizer` statement. */
    const Ast *clause;
    /* The paths whose parameters are updated; NULL: every parameter. */
    const char **targets;
    int n_targets;
    Value loss, optimizer;
    /* What reports call the loss. */
    const char *name;
    Schedule schedule;
    Clip clip;
    SrcRange loc;
} Update;

/* All that the section says. */
typedef struct Train {
    /* Only batch, epochs and accumulate are being read. */
    bool sizes;
    const Ast *batch, *epochs;
    Update *updates;
    int n_updates, cap_updates;
    Schedule schedule;
    Clip clip;
    Pattern *freeze, *no_decay;
    int n_freeze, cap_freeze, n_no_decay, cap_no_decay;
} Train;

/* train.c */
void train_statement(Elab *e, const Ast *s);
bool train_build(Elab *e);
/* Reads batch, epochs and accumulate before any graph is built. */
bool train_sizes(Elab *e);
/* A state of the train section's own, first 0. */
void train_state(Elab *e, const char *name, const Type *type, StateRole role,
                 const char *parameter);
/* An expression with the names of the model as it was run last. */
Value eval_in_model(Elab *e, const Ast *t);

/* Adds to the train graph what the section asks for. */
bool train_step_build(Elab *e, Train *t);

/* train_reach.c: by node id, what the gradient of the loss flows to. */
bool *train_reach(Elab *e, const Node *loss);

/* train_scalars.c. */
/* Are all scalars finite that the update has noted (NULL: it has none)?  Reports them to the
 * host, and forgets them. */
Node *scalars_finite(Elab *e, const char *optimizer, SrcRange loc);

/* train_schedule.c: the factor of a chain of schedules at this step, NUM or a weak scalar; lr:
 * the base rate. */
Value schedule_chain(Elab *e, const Schedule *c, Value lr);
int param_named(const Ast *params, const char *name);
void bind_all(Elab *e, const BoundDefinition *b);

/* train_versions.c: the losses of several clauses, each over the parameters as updated so far. */
typedef struct Versions Versions;
/* All losses, in the order of the clauses, as the model has them. */
Versions *versions_new(Elab *e, int n_losses, Node *const *loss);
/* The loss of that clause, the next in order. */
Node *versions_loss(Versions *v, int clause, Node *loss);
/* What the parameter is in it. */
Node *versions_param(Versions *v, const char *name);
/* The parameter's value for the clauses to come. */
void versions_update(Versions *v, const char *name, Node *value);
/* These parameters have been updated: the next clause begins. */
void versions_next(Versions *v, int n, const char *const *names);
/* States written by blocks get the values that the evaluated calls leave. */
void versions_end(Versions *v);

#endif
