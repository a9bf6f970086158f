/* What an .hdl program is made of while it is evaluated.
 *
 * Evaluating a program means running it: numbers, lists, functions and layers are values here; a
 * tensor is a node of the graph being built.  Each entry point is one run of the model body.  An
 * error is reported where it is found and gives V_ERROR, which every operation passes on quietly.
 *
 * Weak tensors are what has no element type of its own yet: hypers, step, epoch and the constants
 * of arange, eye, zeros ..., all held as f64 (or i64, bool).  They take the type of the strong
 * tensor they meet. */
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
    V_ERROR, /* reported already */
    V_NONE,
    V_BOOL,
    V_NUM,
    V_STR,
    V_WILD, /* `_` */
    V_LIST,
    V_RANGE,
    V_COUNTER, /* the number of the round, in a loop being tried: step * round + base */
    V_TENSOR,
    V_FN, /* def: FN */
    V_BUILTIN,
    V_BLOCK, /* def: BLOCK; calling it makes a layer */
    V_LAYER,
    V_PARAM,    /* Param(...) or `state` that no name owns yet */
    V_DIST,     /* a distribution of initial values */
    V_OPTDEF,   /* def: OPTDEF */
    V_SCHEDDEF, /* def: SCHEDDEF */
    V_OPTIM,    /* an OPTDEF with its arguments */
    V_SCHED     /* a SCHEDDEF with its arguments */
} ValueKind;

struct Value {
    ValueKind kind;
    bool integer; /* NUM: an integer among integers; 2.0 is not */
    bool weak;    /* TENSOR */
    union {
        bool b;
        double num;
        const char *str;
        struct {
            int n, depth;
            int64_t size; /* values in it at all depths */
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
    Node *weight; /* TENSOR, rank 0: what its average was over, or NULL: samples */
    int64_t of_n; /* NUM: it is of_n * N + what does not depend on the batch size N; ... */
    bool by_n;    /* NUM, BOOL: it depends on N in another way */
};

/* A definition with values for its parameters, in order. */
struct BoundDefinition {
    const Ast *def;
    Value *arg;
    SrcRange *loc; /* where each was given */
    int n;
    SrcRange call;
};

struct Layer {
    BoundDefinition *block; /* NULL: Sequential */
    Value *items;           /* Sequential */
    int n_items;
    const char *path; /* NULL: not named yet */
    SrcRange loc;
};

/* What the width of a distribution comes from. */
typedef enum DistScale {
    DIST_FROM_ARGUMENTS, /* its arguments */
    DIST_KAIMING,
    DIST_XAVIER
} DistScale;

typedef struct Dist {
    const Builtin *family; /* NULL: the constant arg[0] */
    DistScale scale;
    bool is_normal; /* else uniform */
    Value arg[3];
    const Graph *graph; /* of the nodes among arg */
    SrcRange loc;
} Dist;

typedef struct ParamSpec {
    Shape shape;
    Dist init;
    SrcRange loc;
} ParamSpec;

typedef struct Binding {
    const char *name;
    Value value;
    SrcRange loc;
    bool is_dim; /* bound in a shape */
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

/* One body being run. */
struct Frame {
    Frame *up;
    FrameKind kind;
    const Ast *def;
    Scope scope;
    const char *path;   /* of the instance; "" in the model */
    const char *prefix; /* of the names of nodes */
    int serial;         /* no two runs of a body have the same */
    Value self;         /* `self[i]`: a list */
    int first_node;     /* of the graph when it began */
    bool returned;
    Value result;
    int errors;   /* diag_errors when it began */
    bool library; /* stops at its first error: what follows from it tells the user nothing */
    const char *return_hint; /* names the node returned */
    /* FRAME_OPTIM, FRAME_SCHED: which states `state` makes; for an optimizer, whose they are. */
    const char *state_prefix, *parameter;
    const Shape *state_shape;
    DType state_dtype;
    /* FRAME_TRAIN */
    struct Train *train;
};

typedef struct InitRule {
    const char *pattern;
    Dist dist;
    SrcRange loc;
} InitRule;

typedef enum GlobalState {
    GLOBAL_NEW,
    GLOBAL_BUSY,
    GLOBAL_DONE
} GlobalState;

/* A declaration at the top of a file. */
typedef struct Global {
    const char *name;
    const Ast *decl; /* FN, BLOCK, OPTDEF, SCHEDDEF, or the BIND of a const, arch or hyper */
    AstKind kind;    /* FN ... or CONST, ARCH, HYPER */
    bool library;
    GlobalState state;
    Value value;
    const Ast *define; /* -D */
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
    int frame;   /* serial of the last body that bound it */
    int randoms; /* random nodes made in it in this graph */
} LayerRecord;

/* What is known of a state beside the module's row. */
typedef struct StateRecord {
    const char *name;
    Dist init;
    SrcRange call; /* of the layer whose call made it */
    int frame;     /* serial of the body that declared it last */
    bool rejected; /* a conflict has been reported */
} StateRecord;

/* A state's value as far as the current graph has come. */
typedef struct StateValue {
    const char *name;
    Node *now;
    bool written;
    SrcRange loc;
} StateValue;

/* `state := value` in a block, in the train graph. */
typedef struct StateWrite {
    const char *state;
    Node *before, *value;
    int lo, hi; /* ids of what the call of the block computes */
    int frame;
    SrcRange loc;
} StateWrite;

typedef struct IndexCheck {
    const char *input;
    Node *checked, *position, *value;
    int64_t lo, hi, ignore;
    bool has_ignore;
    SrcRange loc;
} IndexCheck;

/* Nodes lo <= id < hi come from a statement of an optimizer that makes what is called `name`. */
typedef struct NodeOrigin {
    const char *name; /* NULL: the parameter's new value */
    int lo, hi;
} NodeOrigin;

/* A scalar that an update computes with tensors, in the type in which it meets them. */
typedef struct Scalar {
    const char *label;
    Node *node;
} Scalar;

/* One avg() of the metric being elaborated. */
typedef struct MetricAverage {
    Node *placeholder; /* a detach node in the eval graph that stands for the average */
    Node *value, *weight;
    /* The states in which the sums of value * weight and of weight grow. */
    const char *sum_state, *weight_state;
} MetricAverage;

/* A loss, metric or output of the model, in the current graph. */
typedef struct ModelValue {
    AstKind kind; /* LOSS, METRIC, OUTPUT */
    const char *name;
    Value value;
    MetricAverage *averages;
    int n_averages;
    SrcRange loc;
} ModelValue;

struct Elab {
    Arena *arena;
    Diag *diag;
    const FrontendOptions *options;
    Module *module;
    Builder b;
    Graph *scratch; /* b.graph while nothing of run time is known; no graph of the module */
    EntryKind entry;
    DType real; /* what f32 means */
    Frame *frame;
    int serials, depth;
    int64_t work; /* statements run and calls made, against runaway programs */
    bool gave_up;
    Global *globals;
    int n_globals, cap_globals;
    const Global *constant; /* the const, arch or hyper being evaluated */
    const Ast *model, *train;
    const char *batch_name;     /* "N" */
    const Ast **builtin_params; /* PARAMS by position in builtin_rows */
    LayerRecord *layers;
    int n_layers, cap_layers;
    StateRecord *states;
    int n_states, cap_states;
    const char **added; /* names of states that the program does not declare itself */
    int n_added, cap_added;
    Map *added_numbers; /* by role and wanted name */
    StateValue *state_values;
    int n_state_values, cap_state_values;
    Map *layer_numbers, *state_numbers, *state_value_numbers; /* by name, of the lists above */
    StateWrite *writes;
    int n_writes, cap_writes;
    IndexCheck *index_checks;
    int n_index_checks, cap_index_checks;
    MetricAverage *averages; /* of the metric being elaborated */
    int n_averages, cap_averages;
    LoopTrial *loop;    /* the loop being tried, or NULL */
    bool in_objective;  /* inside loss or metric */
    Graph *model_graph; /* of the entry that was run last */
    Frame *model_frame; /* and the names of the model in it */
    ModelValue *model_values;
    int n_model_values, cap_model_values;
    InitRule *inits; /* `init "pattern" dist` of the train section */
    int n_inits, cap_inits;
    Objective *objectives; /* of `update` clauses */
    int n_objectives, cap_objectives;
    int64_t accumulate;   /* batches that make one step */
    const char *updating; /* the parameter whose optimizer runs, or NULL */
    Scalar *scalars;      /* that have met tensors in this update */
    int n_scalars, cap_scalars;
    NodeOrigin *made; /* by the optimizer that runs; inner statements stand behind outer ones */
    int n_made, cap_made;
    int making; /* the statement among them that is being run, or -1 */
    void (*train_statement)(Elab *e, const Ast *s); /* of the train section: train/train.c */
    int n_schedules; /* whose bodies have been run in the train graph */
};

typedef struct Arg {
    const char *name; /* NULL: positional */
    Value v;
    SrcRange loc;
} Arg;

typedef struct Args {
    Arg *a;
    int n;
    SrcRange loc;      /* the call */
    SrcRange name_loc; /* the callee */
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

/* batch.c: numbers that come from the batch size */
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
