/* The values that an .hdl program computes with while it is compiled, and the state of one
 * compilation (Elab); for everything in frontend/ that runs a program.
 *
 * Compiling a program means running it.  Numbers, lists, functions and layers are values here; a
 * tensor is a node of the graph that is being built.  The model's body is run once for each entry
 * point (train, eval, predict ...).  An error is reported where it is found and gives V_ERROR,
 * which every operation passes on without a second report.
 *
 * A weak tensor has no element type of its own yet: hypers, step, epoch and the constants that
 * arange, eye or zeros make.  It is held as f64 (or i64, or bool) and takes the element type of
 * the first strong tensor that it meets. */
#ifndef HFTAC_FRONTEND_VALUES_VALUE_H
#define HFTAC_FRONTEND_VALUES_VALUE_H

#include "frontend/frontend.h"
#include "ir/build.h"

typedef struct Value Value;
typedef struct Elab Elab;
typedef struct Frame Frame;
typedef struct Layer Layer;
typedef struct BoundDefinition BoundDefinition;
typedef struct Builtin Builtin;
typedef struct LoopTrial LoopTrial;

typedef enum ValueKind {
    /* The result of an error that has been reported. */
    V_ERROR,
    V_NONE,
    V_BOOL,
    V_NUM,
    V_STR,
    /* The word `_`. */
    V_WILD,
    V_LIST,
    V_RANGE,
    /* The number of the round in a loop that is being tried: step * round + base. */
    V_COUNTER,
    V_TENSOR,
    /* A function of the program; def is its FN. */
    V_FN,
    V_BUILTIN,
    /* A block; def is its BLOCK.  Calling it makes a layer. */
    V_BLOCK,
    V_LAYER,
    /* What Param(...) or `state` makes, as long as no name has been given to it. */
    V_PARAM,
    /* A distribution of initial values. */
    V_DIST,
    /* An optimizer or a schedule as it is defined; def is its OPTDEF or SCHEDDEF. */
    V_OPTDEF,
    V_SCHEDDEF,
    /* The same with its arguments, in bound. */
    V_OPTIM,
    V_SCHED
} ValueKind;

struct Value {
    ValueKind kind;
    /* Of a number: it is an integer in the language's sense; 2.0 is not. */
    bool integer;
    /* Of a tensor: see the head of this file. */
    bool weak;
    union {
        bool b;
        double num;
        const char *str;
        struct {
            int n, depth;
            /* The number of values in the list and in the lists inside it, at all depths. */
            int64_t size;
            Value *v;
        } list;
        struct {
            int64_t lo, hi;
            bool reversed;
        } range;
        struct {
            int64_t step, base;
        } counter;
        Node *node;
        const Ast *def;
        const Builtin *builtin;
        Layer *layer;
        struct ParamSpec *param;
        struct Dist *dist;
        BoundDefinition *bound;
    };
    /* Of a scalar tensor that is an average: the sum of its weights; NULL: one per sample. */
    Node *weight;
    /* Of a number: it is of_n * N + a part that does not depend on the batch size N. */
    int64_t of_n;
    /* Of a number or bool: it depends on N in another way than of_n can say. */
    bool by_n;
};

/* A definition together with values for its parameters, in their order. */
struct BoundDefinition {
    const Ast *def;
    Value *arg;
    /* Where in the program each argument was written. */
    SrcRange *loc;
    int n;
    SrcRange call;
};

/* An instance of a block, or a Sequential. */
struct Layer {
    /* The block and its arguments; NULL for a Sequential. */
    BoundDefinition *block;
    /* The layers of a Sequential. */
    Value *items;
    int n_items;
    /* The dotted path that it has been bound to first, or NULL. */
    const char *path;
    SrcRange loc;
};

/* What the width of a distribution comes from. */
typedef enum DistScale {
    DIST_FROM_ARGUMENTS,
    DIST_KAIMING,
    DIST_XAVIER
} DistScale;

/* A distribution of initial values. */
typedef struct Dist {
    /* The built-in that made it; NULL: it is the constant arg[0]. */
    const Builtin *family;
    DistScale scale;
    /* Normal rather than uniform. */
    bool is_normal;
    Value arg[3];
    /* The graph of the nodes among the arguments. */
    const Graph *graph;
    SrcRange loc;
} Dist;

/* A parameter or state that has a shape and initial values but no name yet. */
typedef struct ParamSpec {
    Shape shape;
    Dist init;
    SrcRange loc;
} ParamSpec;

/* A name of a scope and its value. */
typedef struct Binding {
    const char *name;
    Value value;
    SrcRange loc;
    /* A shape has bound the name, as N in x: [N, 3]. */
    bool is_dim;
} Binding;

typedef struct Scope {
    Binding *v;
    int n, cap;
} Scope;

typedef enum FrameKind {
    FRAME_FN,
    FRAME_BLOCK,
    FRAME_MODEL,
    FRAME_OPTIM,
    FRAME_SCHED,
    FRAME_TRAIN,
    FRAME_GLOBAL
} FrameKind;

/* One body that is being run: a function, a block, the model, a section. */
struct Frame {
    /* The body that called this one. */
    Frame *up;
    FrameKind kind;
    const Ast *def;
    Scope scope;
    /* The dotted path of the layer whose body it is; "" in the model. */
    const char *path;
    /* What the names of its nodes begin with. */
    const char *prefix;
    /* A number that no other run of a body has. */
    int serial;
    /* The list behind `self[i]`. */
    Value self;
    /* How many nodes the graph had when the body began. */
    int first_node;
    bool returned;
    Value result;
    /* How many errors had been reported when the body began. */
    int errors;
    /* The body is the standard library's.  It stops at its first error, because what follows from
     * it would tell the user nothing. */
    bool library;
    /* The name that the returned node gets. */
    const char *return_hint;
    /* FRAME_OPTIM and FRAME_SCHED: how the states begin that `state` makes, their shape and
     * element type; for an optimizer, the parameter that they belong to. */
    const char *state_prefix, *parameter;
    const Shape *state_shape;
    DType state_dtype;
    /* FRAME_TRAIN: the section as it has been read so far. */
    struct Train *train;
};

/* `init "pattern" dist`: how parameters with such names begin. */
typedef struct InitRule {
    const char *pattern;
    Dist dist;
    SrcRange loc;
} InitRule;

/* How far a global has been evaluated; BUSY finds definitions that go round in a circle. */
typedef enum GlobalState {
    GLOBAL_NEW,
    GLOBAL_BUSY,
    GLOBAL_DONE
} GlobalState;

/* A declaration at the top of a file. */
typedef struct Global {
    const char *name;
    /* A FN, BLOCK, OPTDEF or SCHEDDEF, or the BIND of a const, arch or hyper. */
    const Ast *decl;
    /* The kind of that declaration: FN ... or CONST, ARCH, HYPER. */
    AstKind kind;
    bool library;
    GlobalState state;
    Value value;
    /* The value that -D gives it, or NULL. */
    const Ast *define;
} Global;

/* What an `update` clause minimizes. */
typedef struct Objective {
    const char *name;
    const Ast *expr;
} Objective;

/* One dotted path that a layer has been bound to. */
typedef struct LayerRecord {
    const char *path;
    SrcRange loc;
    SrcRange first_call;
    bool called;
    /* The serial of the last body that bound it. */
    int frame;
    /* How many random nodes it has made in the current graph. */
    int randoms;
} LayerRecord;

/* What is known of a state in addition to its row in the module. */
typedef struct StateRecord {
    const char *name;
    Dist init;
    /* The call of the layer in which it was made. */
    SrcRange call;
    /* The serial of the body that declared it last. */
    int frame;
    /* A conflict of two declarations has been reported. */
    bool rejected;
} StateRecord;

/* The value that a state has at this point of the current graph. */
typedef struct StateValue {
    const char *name;
    Node *now;
    bool written;
    SrcRange loc;
} StateValue;

/* One `state := value` in a block, in the train graph. */
typedef struct StateWrite {
    const char *state;
    Node *before, *value;
    /* Nodes lo <= id < hi are what the call of the block computes. */
    int lo, hi;
    int frame;
    SrcRange loc;
} StateWrite;

/* One check_index(): a run reports the first element outside lo <= v < hi. */
typedef struct IndexCheck {
    /* The input that the indices come from, for the report. */
    const char *input;
    /* The indices, where the first wrong one stands (-1: nowhere), and what it is. */
    Node *checked, *position, *value;
    int64_t lo, hi, ignore;
    bool has_ignore;
    SrcRange loc;
} IndexCheck;

/* Nodes lo <= id < hi come from a statement of an optimizer that makes what is called `name`. */
typedef struct NodeOrigin {
    /* NULL: the parameter's new value. */
    const char *name;
    int lo, hi;
} NodeOrigin;

/* A scalar that an update computes with tensors, in the type in which it meets them. */
typedef struct Scalar {
    const char *label;
    Node *node;
} Scalar;

/* One avg() of the metric that is being elaborated: an average over the data set. */
typedef struct MetricAverage {
    /* A detach node in the eval graph that stands for the average until the sums are known. */
    Node *placeholder;
    Node *value, *weight;
    /* The states in which the sums of value * weight and of weight grow. */
    const char *sum_state, *weight_state;
} MetricAverage;

/* A loss, metric or output of the model, in the current graph. */
typedef struct ModelValue {
    /* LOSS, METRIC or OUTPUT. */
    AstKind kind;
    const char *name;
    Value value;
    MetricAverage *averages;
    int n_averages;
    SrcRange loc;
} ModelValue;

/* The state of one compilation. */
struct Elab {
    Arena *arena;
    Diag *diag;
    const FrontendOptions *options;
    Module *module;
    Builder b;
    /* Is b.graph while nothing of run time is known; it belongs to no entry point. */
    Graph *scratch;
    EntryKind entry;
    /* The element type that f32 stands for in this compilation. */
    DType real;

    /* The innermost body that is being run, the last serial, how deep calls are nested. */
    Frame *frame;
    int serials, depth;
    /* Statements run and calls made so far, against programs that do not end. */
    int64_t work;
    bool gave_up;

    Global *globals;
    int n_globals, cap_globals;
    /* The const, arch or hyper whose value is being evaluated, or NULL. */
    const Global *constant;
    const Ast *model, *train;
    /* The name of the batch size in the program, usually "N". */
    const char *batch_name;
    /* The PARAMS of each row of builtin_rows. */
    const Ast **builtin_params;

    /* Layers and states, over all entry points. */
    LayerRecord *layers;
    int n_layers, cap_layers;
    StateRecord *states;
    int n_states, cap_states;
    /* The names of states that the program does not declare itself, and their numbers by role
     * and wanted name. */
    const char **added;
    int n_added, cap_added;
    Map *added_numbers;

    /* The current graph: values of states, writes in blocks, checks of indices. */
    StateValue *state_values;
    int n_state_values, cap_state_values;
    StateWrite *writes;
    int n_writes, cap_writes;
    IndexCheck *index_checks;
    int n_index_checks, cap_index_checks;
    /* Positions by name in layers, states and state_values. */
    Map *layer_numbers, *state_numbers, *state_value_numbers;
    /* The averages of the metric that is being elaborated. */
    MetricAverage *averages;
    int n_averages, cap_averages;
    /* The loop that is being tried, or NULL. */
    LoopTrial *loop;
    /* The expression of a loss or metric is being evaluated. */
    bool in_objective;

    /* The graph in which the model's body was run last, with its names, losses, metrics and
     * outputs. */
    Graph *model_graph;
    Frame *model_frame;
    ModelValue *model_values;
    int n_model_values, cap_model_values;

    /* The train section: its `init` rules, the objectives of its `update` clauses, and how many
     * batches make one step. */
    InitRule *inits;
    int n_inits, cap_inits;
    Objective *objectives;
    int n_objectives, cap_objectives;
    int64_t accumulate;
    /* The parameter whose optimizer is being run, or NULL. */
    const char *updating;
    /* The scalars that have met tensors in this update. */
    Scalar *scalars;
    int n_scalars, cap_scalars;
    /* Which statements of the optimizer made which nodes; inner statements stand behind outer
     * ones.  making: the one that is being run, or -1. */
    NodeOrigin *made;
    int n_made, cap_made;
    int making;
    /* Runs a statement of the train section; frontend/elaborate.c sets it to train/train.c's. */
    void (*train_statement)(Elab *e, const Ast *s);
    /* How many schedules have had their bodies run in the train graph. */
    int n_schedules;
};

/* One argument as it is written in a call; name is NULL if it is positional. */
typedef struct Arg {
    const char *name;
    Value v;
    SrcRange loc;
} Arg;

/* The arguments of a call: loc is the place of the call, name_loc that of the callee. */
typedef struct Args {
    Arg *a;
    int n;
    SrcRange loc;
    SrcRange name_loc;
} Args;

/* A call of a built-in with its arguments in the row's order. */
typedef struct Call {
    Elab *e;
    const Builtin *builtin;
    Value *arg;
    SrcRange *loc;
    int n;
    SrcRange at;
} Call;

struct Builtin {
    const char *name, *params;
    Value (*run)(const Call *c);
    OpCode op;
};

extern const Builtin builtin_rows[];
extern const int builtin_row_count;

#define ELAB_PUSH(e, list)                                                                    \
    ((e)->n_##list == (e)->cap_##list                                                         \
         ? (void)((e)->list =                                                                 \
                      arena_grow((e)->arena, (e)->list, &(e)->cap_##list, sizeof *(e)->list)) \
         : (void)0,                                                                           \
     &(e)->list[(e)->n_##list++])

/* values.c */
Value value_error(void);
Value value_none(void);
Value value_bool(bool b);
Value value_num(double v, bool integer);
Value value_int(int64_t v);
Value value_str(const char *s);
Value value_list(Elab *e, int n, const Value *v); /* copied */
Value value_list_of(int n, Value *v);             /* kept */
/* Programs can nest lists without end; false after a report. */
bool list_checked(Elab *e, const Value *list, SrcRange at);
/* V_ERROR for NULL, so that builder calls can be returned as they are. */
Value value_node(Node *n, bool weak);
/* "a number", "a tensor f32[3]", ... for messages. */
const char *value_what(Elab *e, const Value *v);
/* A function, block, optimizer or schedule of the program: `def` is what it means. */
bool value_is_definition(const Value *v);
bool value_equal(const Value *a, const Value *b);
/* NUM or BOOL. */
bool value_is_number(const Value *v);
double value_number(const Value *v);
bool value_callable(const Value *v);
/* Elements of a list or range; false if it is neither. */
bool value_elements(Elab *e, const Value *v, int *n, Value **out);
/* A whole number; else reports with `what` as subject. */
bool value_to_int(Elab *e, const Value *v, SrcRange at, const char *what, int64_t *out);
bool value_to_bool(Elab *e, const Value *v, SrcRange at, const char *what, bool *out);
/* The same where the caller minds what depends on the batch size. */
bool value_whole(Elab *e, const Value *v, SrcRange at, const char *what, int64_t *out);
bool value_truth(Elab *e, const Value *v, SrcRange at, const char *what, bool *out);
/* An axis of a value of `rank` axes, negative from the end. */
bool value_to_dim(Elab *e, const Value *v, SrcRange at, int rank, int *out);
/* A dim, a list of dims, or none: all; distinct and ascending. */
bool value_to_dims(Elab *e, const Value *v, SrcRange at, int rank, int *n, int64_t *out);
bool shape_checked(Elab *e, SrcRange at, const Shape *s);
/* No more axes than an input, state or output can have. */
bool shape_stored(Elab *e, SrcRange at, const Shape *s);
/* A list of sizes (or one size), with the marks that they ask for; wild: one may be `_` or -1 and
 * is given as -1. */
bool value_to_shape(Elab *e, const Value *v, SrcRange at, bool wild, Shape *out);
/* Says why a value is not known at compile time. */
void elab_not_static(Elab *e, const Value *v, SrcRange at, const char *what);
const char *elab_join(Elab *e, const char *prefix, const char *name);
bool pattern_match(const char *pattern, const char *s);

#endif
