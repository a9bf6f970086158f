/* The compile-time evaluator of .hdl, shared by the files elab_*.c, builtin_*.c and train_*.c.
 *
 * Evaluating a program means running it: numbers, lists, functions and layers are values here; a
 * tensor is a node of the graph being built.  Each entry point is one run of the model body.  An
 * error is reported where it is found and gives V_ERROR, which every operation passes on quietly.
 *
 * Weak tensors are what has no element type of its own yet: hypers, step, epoch and the constants
 * of arange, eye, zeros ..., all held as f64 (or i64, bool).  They take the type of the strong
 * tensor they meet. */
#ifndef HFTAC_FRONTEND_ELABORATE_ELAB_H
#define HFTAC_FRONTEND_ELABORATE_ELAB_H

#include "frontend/frontend.h"
#include "ir/build.h"

typedef struct Value Value;
typedef struct Elab Elab;
typedef struct Frame Frame;
typedef struct Layer Layer;
typedef struct Bound Bound;
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
        Bound *bound;
    };
    Node *weight; /* TENSOR, rank 0: what its average was over, or NULL: samples */
    int64_t of_n; /* NUM: it is of_n * N + what does not depend on the batch size N; ... */
    bool by_n;    /* NUM, BOOL: it depends on N in another way */
};

/* A definition with values for its parameters, in order. */
struct Bound {
    const Ast *def;
    Value *arg;
    SrcRange *loc; /* where each was given */
    int n;
    SrcRange call;
};

struct Layer {
    Bound *block; /* NULL: Sequential */
    Value *items; /* Sequential */
    int n_items;
    const char *path; /* NULL: not named yet */
    SrcRange loc;
};

/* What the width of a distribution comes from. */
typedef enum DistScale {
    DIST_GIVEN, /* its arguments */
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
typedef struct LayerRec {
    const char *path;
    SrcRange loc;
    SrcRange first_call;
    bool called;
    int frame;   /* serial of the last body that bound it */
    int randoms; /* random nodes made in it in this graph */
} LayerRec;

/* What is known of a state beside the module's row. */
typedef struct StateRec {
    const char *name;
    Dist init;
    SrcRange call; /* of the layer whose call made it */
    int frame;     /* serial of the body that declared it last */
    bool rejected; /* a conflict has been reported */
} StateRec;

/* A state's value as far as the current graph has come. */
typedef struct Current {
    const char *name;
    Node *now;
    bool written;
    SrcRange loc;
} Current;

/* `state := value` in a block, in the train graph. */
typedef struct Write {
    const char *state;
    Node *before, *value;
    int lo, hi; /* ids of what the call of the block computes */
    int frame;
    SrcRange loc;
} Write;

typedef struct Fault {
    const char *input;
    Node *checked, *position, *value;
    int64_t lo, hi, ignore;
    bool has_ignore;
    SrcRange loc;
} Fault;

/* Nodes lo <= id < hi come from a statement of an optimizer that makes what is called `name`. */
typedef struct NamedNodes {
    const char *name; /* NULL: the parameter's new value */
    int lo, hi;
} NamedNodes;

/* A scalar that an update computes with tensors, in the type in which it meets them. */
typedef struct Scalar {
    const char *label;
    Node *node;
} Scalar;

/* What avg() marked in the metric being elaborated. */
typedef struct Mark {
    Node *mark; /* a detach node in the eval graph that stands for the average */
    Node *value, *weight;
    /* The states in which the sums of value * weight and of weight grow. */
    const char *sum_state, *weight_state;
} Mark;

/* A loss, metric or output of the model, in the current graph. */
typedef struct Named {
    AstKind kind; /* LOSS, METRIC, OUTPUT */
    const char *name;
    Value value;
    Mark *marks;
    int n_marks;
    SrcRange loc;
} Named;

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
    LayerRec *layers;
    int n_layers, cap_layers;
    StateRec *states;
    int n_states, cap_states;
    const char **added; /* names of states that the program does not declare itself */
    int n_added, cap_added;
    Map *added_numbers; /* by role and wanted name */
    Current *currents;
    int n_currents, cap_currents;
    Map *layer_numbers, *state_numbers, *current_numbers; /* by name, of the lists above */
    Write *writes;
    int n_writes, cap_writes;
    Fault *faults;
    int n_faults, cap_faults;
    Mark *marks; /* of the metric being elaborated */
    int n_marks, cap_marks;
    LoopTrial *loop;    /* the loop being tried, or NULL */
    bool in_objective;  /* inside loss or metric */
    Graph *model_graph; /* of the entry that was run last */
    Frame *model_frame; /* and the names of the model in it */
    Named *named;
    int n_named, cap_named;
    InitRule *inits; /* `init "pattern" dist` of the train section */
    int n_inits, cap_inits;
    Objective *objectives; /* of `update` clauses */
    int n_objectives, cap_objectives;
    int64_t accumulate;   /* batches that make one step */
    const char *updating; /* the parameter whose optimizer runs, or NULL */
    Scalar *scalars;      /* that have met tensors in this update */
    int n_scalars, cap_scalars;
    NamedNodes *made; /* by the optimizer that runs; inner statements stand behind outer ones */
    int n_made, cap_made;
    int making;      /* the statement among them that is being run, or -1 */
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

/* scope.c */
Binding *scope_find(Scope *s, const char *name);
void scope_bind(Elab *e, Scope *s, const char *name, Value v, SrcRange loc);
/* The value of a name used at `at`; reports unknown names with a suggestion. */
Value elab_name(Elab *e, const char *name, SrcRange at);
Global *global_find(Elab *e, const char *name, bool library);
const char *elab_called_here(const char *name);
bool elab_is_function(Elab *e, const char *name);
Value global_value(Elab *e, Global *g, SrcRange at);
void globals_collect(Elab *e, const Ast *file, bool library);
bool defines_apply(Elab *e);
/* The value of -DNAME for a dim that no one else gives; false if there is none. */
bool define_dim(Elab *e, const char *name, int64_t *out);
void hypers_declare(Elab *e);
/* The first statement of a kind in a body and the branches of its ifs, or NULL. */
const Ast *find_statement(const Ast *body, AstKind kind);

/* elab_expr.c */
Value eval(Elab *e, const Ast *t);
/* elab_index.c */
Value eval_index(Elab *e, const Ast *t);
Value eval_member(Elab *e, const Ast *t);

/* elab_stmt.c */
void exec_body(Elab *e, const Ast *body);
bool elab_tick(Elab *e, SrcRange at);
const Ast *ast_kid(const Ast *t, int i);

/* elab_loop.c: `repeat` over n values as a loop; false: it must be unrolled, nothing has changed.
 */
bool loop_repeat(Elab *e, const Ast *s, const Value *v, int n);
/* Of a counter and a whole number (or another counter): still a counter?  Else it is a tensor. */
bool loop_counter_binary(OpCode op, const Value *a, const Value *b, Value *out);
Value loop_counter_tensor(Elab *e, const Value *v);
/* All rounds' elements of an axis of n as a slice; false if one is outside. */
bool loop_counter_index(Elab *e, const Value *v, int64_t n, int64_t *start, int64_t *step,
                        int64_t *size);
/* In each round the next element of x along the axis, whose extent is the number of rounds; NULL
 * after a report. */
Node *loop_scan(Elab *e, Node *x, int axis);
/* Random bits of this round. */
Node *loop_random(Elab *e, const char *path, const Shape *shape, Node *step);
/* name[counter] = v; false after a report. */
bool loop_collect(Elab *e, const Ast *target, const Value *index, const Value *v);
/* The node whose first axis these are, one after the other, as a loop has collected them, or
 * NULL. */
Node *loop_restack(const Value *v, int n);

/* elab_call.c */
Value eval_call(Elab *e, const Ast *t);
Value eval_pipe(Elab *e, const Ast *t);
Value call_value(Elab *e, const Value *callee, const Args *args);
/* Puts arguments in the order of PARAMS; out, locs and given have params->n elements. */
bool args_bind(Elab *e, const char *callee, const Ast *params, const Args *args, Value *out,
               SrcRange *locs, bool *given);
/* Defaults for what was not given, evaluated in the current frame, where all are bound. */
void params_bind(Elab *e, const Ast *params, Value *v, SrcRange *locs, const bool *given);
Frame *frame_push(Elab *e, FrameKind kind, const Ast *def, const char *path,
                  const char *prefix);
void frame_pop(Elab *e);
/* A body of the library in which an error has been reported. */
bool frame_failed(const Elab *e);
/* Runs expr or BODY in the current frame; `hint` names what it returns. */
Value run_definition(Elab *e, const Ast *body, const char *hint);

/* elab_type.c */
/* Checks v against a TYPE, binding its free names in the current frame; `subject` begins the
 * message. */
bool type_match(Elab *e, const Ast *type, Value *v, SrcRange at, const char *subject);
bool type_eval(Elab *e, const Ast *type, Type *out, bool is_input);
DType elab_dtype(Elab *e, const char *name);

/* elab_layer.c */
Value layer_call(Elab *e, Layer *l, const Args *args);
Value block_instance(Elab *e, const Ast *def, const Args *args);
/* Gives layers and params in v their names. */
Value elab_adopt(Elab *e, Value v, const char *path, SrcRange loc);
LayerRec *layer_rec(Elab *e, const char *path);
/* The state's value so far; of what two calls of a layer declare there is one. */
Value state_declare(Elab *e, const State *what, const Dist *init);
/* What a state is called that the program does not declare itself: as wanted, or, where a state of
 * the program has that name, with `$` in front, which no name in a program has.  The same again
 * for the same role and wish. */
const char *state_added_name(Elab *e, StateRole role, const char *wanted);
/* Reads the one state of that role. */
Node *state_of_role(Elab *e, StateRole role);
Node *state_now(Elab *e, const char *name);
void state_next(Elab *e, const char *name, Node *v, SrcRange loc);
/* v as a node that is nothing but a state's new value, where several updates have to tell it from
 * the rest. */
Node *state_mark(Elab *e, Node *v);
/* As if nothing had been written. */
void state_unwrite(Elab *e, const char *name);
void layers_check_called(Elab *e);
StateRec *state_rec(Elab *e, const char *name);

/* elab_math.c: operators on values */
Value math_binary(Elab *e, OpCode op, Value a, Value b, SrcRange at);
Value math_unary(Elab *e, OpCode op, Value a, SrcRange at);
Value math_divide(Elab *e, Value a, Value b, SrcRange at);
Value math_power(Elab *e, Value a, Value b, SrcRange at);
Value math_where(Elab *e, Value c, Value a, Value b, SrcRange at);
Value math_logical(Elab *e, OpCode op, Value a, Value b, SrcRange at);
Value math_matmul(Elab *e, Value a, Value b, SrcRange at);
/* A tensor (or number) as a node of its own type: numbers become constants of `dtype`. */
Node *math_node(Elab *e, const Value *v, SrcRange at, const char *what);
/* A number as a constant, each of whose elements it is. */
Node *math_full(Elab *e, DType to, const Shape *shape, const Value *v);
/* Does the type hold the number or tensor?  Reports if not. */
bool math_fits(Elab *e, const Value *v, DType to, SrcRange at, const char *what);
/* As a node of the given type; NULL after a report if that type does not hold the value. */
Node *math_cast(Elab *e, const Value *v, DType to, SrcRange at, const char *what);
/* Strong: a weak tensor or number takes the program's real type (integers i64). */
Node *math_strong(Elab *e, const Value *v, SrcRange at, const char *what);
/* As an f64 scalar node. */
Node *math_scalar(Elab *e, const Value *v, SrcRange at, const char *what);
/* How many elements of x lie along dims; a node where only valid samples count. */
Value math_count(Elab *e, Node *x, int n, const int64_t *dims);
/* Do both compute the same?  A count knows only its operand's shape.  Compares `left` nodes at
 * most. */
bool math_same_value(const Node *a, const Node *b, int *left);
/* train_scalars.c: the operator brings the scalar v, as that node, together with a tensor. */
void scalars_note(Elab *e, OpCode op, const Value *v, Node *as, SrcRange at);
/* Around a statement: what it makes is called so in reports, inside what makes `outer` outer.name;
 * NULL: like what is around it. */
int making_begin(Elab *e, const char *name);
/* outer: what making_begin has returned. */
void making_end(Elab *e, int outer);
/* x where it is real; else in the program's real type (weak: f64). */
Value math_real(Elab *e, Value v);

/* elab_meet.c: the rule for numbers among integers */
DTypeClass value_class(const Value *v); /* of a number or tensor */
bool value_is_strong(const Value *v);
/* The element type in which operands meet. */
DType math_meet(Elab *e, const Value *v, int n, bool *weak);
/* Is it certain that the type holds all values of v, exactly if they are integers? */
bool math_holds(const Elab *e, DType to, const Value *v);
/* Is it certain that it does not? */
bool math_misfits(const Elab *e, DType to, const Value *v);
/* In a loop being tried, numbers become tensors; as numbers they would not wrap.  Might the
 * result of this operator? */
bool math_may_wrap(const Elab *e, OpCode op, const Value v[2]);
/* Is `from` only added to, and so little that it stays an integer of 2^53 over that many rounds? */
bool math_counts(const Elab *e, const Node *after, const Node *from, const Value *before,
                 int64_t rounds);
/* A comparison of values, whatever their types; one of the two is a tensor. */
Node *math_compare(Elab *e, Builder *b, OpCode op, const Value v[2], SrcRange at);

/* builtin_init.c */
bool dist_from(Elab *e, const Value *v, SrcRange at, Dist *out);
/* The first value of a state in the current (init) graph. */
Node *dist_value(Elab *e, const Dist *d, const char *state, const Type *type);
/* The same, another one for each `step`: i64[]. */
Node *dist_drawn(Elab *e, const Dist *d, const char *path, const Type *type, Node *step);
/* builtin_random.c: strong values of the program's real type */
Node *random_bits(Elab *e, const char *path, const Shape *shape, Node *step);
Value random_uniform(Elab *e, const char *path, const Shape *shape, Node *step);
Value random_normal(Elab *e, const char *path, const Shape *shape, Node *step);
/* Steps that the model has done: i64[]. */
Node *steps_done(Elab *e);
/* The number of the draws of random values: i64[]; another one in each batch. */
Node *random_step(Elab *e);

/* elab_model.c: statements of the model's body */
void exec_input(Elab *e, const Ast *s);
void exec_objective(Elab *e, const Ast *s);
void exec_output(Elab *e, const Ast *s);
const Named *named_find(Elab *e, AstKind kind, const char *name);

/* entries.c */
bool entries_build(Elab *e);
void entry_add_faults(Elab *e);
/* A state of the train section's own, first 0. */
void train_state(Elab *e, const char *name, const Type *type, StateRole role,
                 const char *parameter);
/* An expression with the names of the model as it was run last. */
Value eval_in_model(Elab *e, const Ast *t);
/* Copies what `n` depends on from its graph into the current one; stop gives the replacement of a
 * node, or NULL.  NULL after a report if it depends on inputs or states; `what` is the subject. */
Node *graph_copy(Elab *e, const Graph *from, const Node *n,
                 Node *(*stop)(void *ctx, const Node *n), void *ctx, SrcRange at,
                 const char *what);

/* builtin_rearrange.c: a permutation and a sum. */
Value einsum_of_one(const Call *c, const char *spec);

/* train.c */
void train_statement(Elab *e, const Ast *s);
bool train_build(Elab *e);
/* Reads batch, epochs and accumulate before any graph is built. */
bool train_sizes(Elab *e);

#define BUILTIN(name, params, handler, op) Value builtin_##handler(const Call *c);
#include "frontend/builtins/builtins.def"

#endif
