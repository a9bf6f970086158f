/* What a program is: a module of graphs over named storage.
 *
 * A graph is a list of nodes in definition order, SSA: a node's operands stand before it.  There
 * is one graph per entry point: "init" (first values of all states), "train" (one step), "eval"
 * (one batch; adds to the metrics' accumulators), "eval_end" (accumulators to metrics),
 * "predict".
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
    int id;           /* position in graph->nodes */
    const char *name; /* unique in the graph, without the % */
    Type type;
    int n_in;
    Node **in;
    Attrs attrs;
    SrcRange loc;
    Form form;
    /* The order in which the axes lie in memory if the value is stored, outermost first, as
     * passes/lower/lower.c has chosen it; n == 0: as they are. */
    IntList order;
    Graph *body; /* kind LOOP: the region */
    void *aux;   /* of the pass that is running; NULL between passes */
};

typedef enum StateRole {
    ROLE_PARAM,  /* trained; saved under its name */
    ROLE_BUFFER, /* saved under its name */
    ROLE_OPTIM, /* optimizer's; name "optimizer.<state>.<param>" (several updates: "optimizer.<k>.<...>") */
    ROLE_COUNTER, /* "$step": i64[], updates done by this model */
    ROLE_METRIC   /* accumulators of eval; the run sets them to zero before it evaluates */
} StateRole;

/* "param", "buffer", ... */
const char *state_role_text(StateRole r);

typedef struct State {
    const char *name; /* dotted: "fc1.weight" */
    Type type;        /* models: {0,0} before horizontal fusion */
    StateRole role;
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
    bool drawn; /* `= normal()`: drawn by the program when the data has none */
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
    double value; /* the default */
    bool integer;
    DomainKind domain;
    double lo, hi, step; /* ranges; both ends belong */
    RealList set;        /* DOMAIN_SET */
    SrcRange loc;
} Hyper;

typedef enum OutputKind {
    OUT_STATE,  /* name: the state; value: what the step leaves in it */
    OUT_RESULT, /* name: "loss", "acc", ...: rank 0, f64, per model, read by the host */
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

typedef struct Output {
    OutputKind kind;
    const char *name;
    Node *value, *value2;
    /* OUT_TENSOR in a plan: what the host sees, if value is the same memory in another shape;
     * or NULL. */
    const Type *seen;
    /* OUT_STATE of reals: an element whose new value is not finite keeps its old one, and the
     * host is told. */
    bool guarded;
    const char *input; /* OUT_FAULT: the input whose values are checked, or NULL */
    int64_t lo, hi;    /* OUT_FAULT: allowed are lo <= v < hi ... */
    int64_t ignore;    /* ... and this one, if has_ignore */
    bool has_ignore;
    SrcRange loc;
} Output;

struct Graph {
    Module *module;
    const char *name;
    Node **nodes;
    int n_nodes, cap_nodes;
    Output *outputs;
    int n_outputs, cap_outputs;
    Node *owner;       /* the LOOP whose body this is, or NULL */
    Graph *outer;      /* and the graph that it stands in */
    int depth;         /* loops around it */
    const char *whole; /* why whole batches only, with the place; NULL: n_valid may be less */
    struct NameTable *names;  /* names in use, graph_append's; starts anew when n_nodes is 0 */
    struct LeafTable *leaves; /* inputs, states and the like by name: graph_leaf's */
};

struct Module {
    Arena *arena;
    Diag *diag;
    const char *name;  /* the model's */
    const char *stage; /* "ir", "grad", "fused", ...: the last pass, for dumps */
    int n_models;      /* B; 0 before horizontal fusion */
    int64_t batch;     /* N; 0 if the program has no train section */
    int64_t epochs;    /* of the train section; 0: none */
    Graph **graphs;
    int n_graphs, cap_graphs;
    State *states;
    int n_states, cap_states;
    Map *state_numbers; /* by name */
    Input *inputs;
    int n_inputs, cap_inputs;
    Hyper *hypers;
    int n_hypers, cap_hypers;
};

Module *module_new(Arena *a, Diag *d, const char *name);
Graph *graph_new(Module *m, const char *name);
Graph *module_graph(const Module *m, const char *name); /* NULL if absent */
/* Copies *what into the module's table and returns the copy; names must be new (the caller
 * checks). Pointers from earlier calls go stale: look them up by name. */
State *module_add_state(Module *m, const State *what);
Input *module_add_input(Module *m, const Input *what);
Hyper *module_add_hyper(Module *m, const Hyper *what);
State *module_state(const Module *m, const char *name);
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
