/* What a program is: a module of graphs over named storage.
 *
 * A graph is a list of nodes in definition order, SSA: a node's operands stand before it.  There
 * is one graph per entry point (EntryKind).
 *
 * Names are for people and for files.  Programs choose them freely, so nothing is concluded from
 * how one is spelled: what a graph is for is its `entry`, what an output means its kind, what a
 * state is for its role, and whose optimizer's state it is its `parameter`.  A name is compared
 * with another one only to find what it names.  By hand: `accumulate 4` and Adam, for a program
 * whose one parameter is called accumulate.count, give
 *
 *   param "accumulate.count"                                    written when a step is complete
 *   gradient "accumulate.accumulate.count" of "accumulate.count"        written with each batch
 *   batch_counter "$accumulate.count"                                   written with each batch
 *   optim "optimizer.exp_avg.accumulate.count" of "accumulate.count"    with a complete step
 *
 * What a graph leaves behind is its list of outputs: state written, results for the host, output
 * tensors, faults.  State is written when the whole step is done: every read of a state in the
 * graph sees the value from before the step. */
#ifndef HFTAC_IR_GRAPH_H
#define HFTAC_IR_GRAPH_H

#include "ir/op.h"
#include "ir/support/diag.h"
#include "ir/support/map.h"

typedef struct Node Node;
typedef struct Graph Graph;
typedef struct Module Module;

/* What an entry point does, in the order in which a run uses them. */
typedef enum EntryKind {
    ENTRY_INIT,     /* first values of all states */
    ENTRY_TRAIN,    /* one step, or one batch of it */
    ENTRY_EVAL,     /* one batch; adds to the metrics' accumulators */
    ENTRY_EVAL_END, /* accumulators to metrics */
    ENTRY_PREDICT,
    ENTRY_NONE /* no entry point: the body of a loop, or a scratch graph */
} EntryKind;

enum {
    N_ENTRIES = ENTRY_NONE
};

/* "init", "train", ... */
const char *entry_text(EntryKind k);
/* ENTRY_NONE if there is none of that name. */
EntryKind entry_find(const char *text);

/* The pass that a module has been through last; each needs the ones before it. */
typedef enum ModuleStage {
    MODULE_IR,       /* as the frontend leaves it */
    MODULE_GRAD,     /* autodiff */
    MODULE_MASKED,   /* mask_batch */
    MODULE_SIMPLE,   /* simplify */
    MODULE_FUSED,    /* hfuse */
    MODULE_LOWERED,  /* lower */
    MODULE_PREPARED, /* prepare */
    N_MODULE_STAGES
} ModuleStage;

/* "ir", "grad", ... */
const char *module_stage_text(ModuleStage s);
/* N_MODULE_STAGES if there is none of that name. */
ModuleStage module_stage_find(const char *text);

/* How the models of one operator are computed together; FORM_NONE before horizontal fusion. */
typedef enum Form {
    FORM_NONE,
    FORM_SHARED,  /* once for all models */
    FORM_BATCHED, /* the model axis is one more batch axis */
    FORM_WIDE /* a contraction of a shared with a per-model operand: models side by side in n (or m) */
} Form;

/* "none", "shared", ... */
const char *form_text(Form f);

struct Node {
    OpCode op;
    /* position in graph->nodes */
    int id;
    /* unique in the graph, without the % */
    const char *name;
    Type type;
    int n_in;
    Node **in;
    Attrs attrs;
    SrcRange loc;
    Form form;
    /* The order in which the axes lie in memory if the value is stored, outermost first, as
     * passes/lower/lower.c has chosen it; n == 0: as they are. */
    IntList order;
    /* kind LOOP: the region */
    Graph *body;
    /* of the pass that is running; NULL between passes */
    void *aux;
};

typedef enum StateRole {
    /* Trained; saved under its name. */
    ROLE_PARAM,
    /* A block's own; saved under its name. */
    ROLE_BUFFER,
    /* The optimizer's for one parameter, such as a moment. */
    ROLE_OPTIM,
    /* i64[], at most one: steps that this model has done. */
    ROLE_COUNTER,
    /* f64[]: an accumulator of eval; the run sets it to zero before it evaluates. */
    ROLE_METRIC,
    /* With `accumulate`: the average of one parameter's gradients in the batches of a step so far.
     */
    ROLE_GRADIENT,
    /* i64[], with `accumulate`, at most one: batches of the step that this model has seen. */
    ROLE_BATCH_COUNTER,
    /* A schedule's own. */
    ROLE_SCHEDULE,
    /* f64[], at most one: the metric that the last epoch ended with; the run writes it for the
     * schedules. */
    ROLE_EPOCH_METRIC
} StateRole;

enum {
    N_ROLES = ROLE_EPOCH_METRIC + 1
};

/* "param", "buffer", ... */
const char *state_role_text(StateRole r);
/* Does a state of that role belong to a parameter? */
bool state_role_has_parameter(StateRole r);

typedef struct State {
    /* dotted: "fc1.weight" */
    const char *name;
    /* models: {0,0} before horizontal fusion */
    Type type;
    StateRole role;
    /* The name of the parameter that it belongs to; NULL where the role has none. */
    const char *parameter;
    SrcRange loc;
    /* Order in which the axes are stored, outermost first; n == 0: as they are. */
    IntList layout;
} State;

/* What a model.so can hold. */
enum {
    MAX_INPUTS = 128
};

typedef struct Input {
    const char *name;
    Type type;
    bool target, each;
    /* `= normal()`: drawn by the program when the data has none */
    bool drawn;
    SrcRange loc;
} Input;

typedef enum DomainKind {
    DOMAIN_NONE,
    DOMAIN_RANGE,
    DOMAIN_LOG,
    DOMAIN_INT,
    DOMAIN_SET
} DomainKind;

typedef struct Hyper {
    const char *name;
    /* the default */
    double value;
    bool integer;
    DomainKind domain;
    /* ranges; both ends belong */
    double lo, hi, step;
    /* DOMAIN_SET */
    RealList set;
    SrcRange loc;
} Hyper;

/* In front of OUT_FAULT stand those that always have a name. */
typedef enum OutputKind {
    OUT_STATE,  /* name: the state; value: what the step leaves in it */
    OUT_RESULT, /* name: "acc", ...: f64[] per model, read by the host */
    OUT_LOSS,   /* the same of what training minimizes */
    OUT_OK,     /* f64[], one in train: 0: nothing of this step was written */
    OUT_FACTOR, /* name: which; f64[]: what a schedule has made of the rate in this step */
    /* name: what the value is called; f64[]: if it is not finite, that is why the step was not
     * written */
    OUT_CAUSE,
    OUT_TENSOR, /* name: a model output of predict */
    /* value: i64[], position of the first bad index in the operand, or -1; value2: i64[], what
     * stood there */
    OUT_FAULT,
    OUT_NEXT, /* of a loop's body: the next round's value of a carried argument, in order */
    OUT_STACK /* of a loop's body: kept of every round; after all OUT_NEXT */
} OutputKind;

enum {
    N_OUTPUT_KINDS = OUT_STACK + 1
};

/* "state", "result", ... */
const char *output_kind_text(OutputKind k);

typedef struct Output {
    OutputKind kind;
    const char *name;
    Node *value, *value2;
    /* OUT_TENSOR after prepare: what the host sees, if value is the same memory in another shape;
     * or NULL. */
    const Type *host_type;
    /* OUT_STATE of reals: an element whose new value is not finite keeps its old one, and the
     * host is told. */
    bool guarded;
    /* OUT_FAULT: the input whose values are checked, or NULL */
    const char *input;
    /* OUT_FAULT: allowed are lo <= v < hi ... */
    int64_t lo, hi;
    /* ... and this one, if has_ignore */
    int64_t ignore;
    bool has_ignore;
    SrcRange loc;
} Output;

struct Graph {
    Module *module;
    EntryKind entry;
    /* for messages and names of code: the entry's, or the loop's */
    const char *name;
    Node **nodes;
    int n_nodes, cap_nodes;
    Output *outputs;
    int n_outputs, cap_outputs;
    /* the LOOP whose body this is, or NULL */
    Node *owner;
    /* and the graph that it stands in */
    Graph *outer;
    /* loops around it */
    int depth;
    /* why whole batches only, with the place; NULL: n_valid may be less */
    const char *whole;
    /* names in use, graph_append's; starts anew when n_nodes is 0 */
    struct NameTable *names;
    /* inputs, states and the like by name: graph_leaf's */
    struct LeafTable *leaves;
};

struct Module {
    Arena *arena;
    Diag *diag;
    /* the model's */
    const char *name;
    ModuleStage stage;
    /* B; 0 before horizontal fusion */
    int n_models;
    /* N; 0 if the program has no train section */
    int64_t batch;
    /* of the train section; 0: none */
    int64_t epochs;
    Graph **graphs;
    int n_graphs, cap_graphs;
    State *states;
    int n_states, cap_states;
    /* by name */
    Map *state_numbers;
    Input *inputs;
    int n_inputs, cap_inputs;
    Hyper *hypers;
    int n_hypers, cap_hypers;
};

Module *module_new(Arena *a, Diag *d, const char *name);
/* At most one for each entry point (the caller checks); of ENTRY_NONE it is no graph of the module.
 */
Graph *graph_new(Module *m, EntryKind entry);
Graph *module_graph(const Module *m, EntryKind entry); /* NULL if absent */
/* Copies *what into the module's table and returns the copy; names must be new (the caller
 * checks). Pointers from earlier calls go stale: look them up by name. */
State *module_add_state(Module *m, const State *what);
Input *module_add_input(Module *m, const Input *what);
Hyper *module_add_hyper(Module *m, const Hyper *what);
State *module_state(const Module *m, const char *name);
/* The first state of that role, or NULL. */
State *module_state_of(const Module *m, StateRole role);
Input *module_input(const Module *m, const char *name);
Hyper *module_hyper(const Module *m, const char *name);
/* The first reason stays. */
void graph_set_whole(Graph *g, SrcRange at, const char *why);
Output *graph_add_output(Graph *g, const Output *what);
/* Appends a node whose fields are set already (name made unique: "x", "x.1", ...; NULL: the
 * operator's text). */
Node *graph_append(Graph *g, const Node *what);
/* The first leaf of that operator - input, state, hyper, scalar - with that name; NULL if there
 * is none. */
Node *graph_leaf(const Graph *g, OpCode op, const char *name);
/* The node appended under this name (without the %), or NULL. */
Node *graph_find(const Graph *g, const char *name);
/* Does the host learn whether an element kept its old value?  A state that is left as it is has
 * nothing to tell. */
bool output_is_watched(const Output *o);
/* Number of uses of each node by id, outputs included (arena array). */
int *graph_uses(const Graph *g, Arena *a);
/* Rewrites: after this every operand and output that was `from` is `to`. */
void graph_replace(Graph *g, const Node *from, Node *to);
/* The same for many at once: to[id] for the node of that id, NULL: it stays. */
void graph_replace_all(Graph *g, Node *const *to);
/* Drops nodes that no output needs and renumbers; keeps order. Returns how many went. */
int graph_drop_dead(Graph *g);
/* Puts nodes in an order in which operands stand first (stable); needed after graph_replace with
 * later nodes. */
void graph_sort(Graph *g);

#define graph_foreach(g, n)                            \
    for (int n##_i = 0; n##_i < (g)->n_nodes; n##_i++) \
        for (Node *n = (g)->nodes[n##_i], *n##_once = n; n##_once; n##_once = NULL)

#endif
