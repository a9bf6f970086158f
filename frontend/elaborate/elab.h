/* Running a program: names, expressions, statements, calls, layers, loops and operators on
 * values.
 *
 * The files elab_*.c in this folder implement it; built-in functions and the train section build
 * on it.  What stands above this folder - the built-in functions and the statements of the train
 * section - is reached through tables that the driver (frontend/elaborate.c) hands in:
 * builtin_rows and Elab.train_statement. */
#ifndef HFTAC_FRONTEND_ELABORATE_ELAB_H
#define HFTAC_FRONTEND_ELABORATE_ELAB_H

#include "frontend/values/value.h"

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
LayerRecord *layer_record(Elab *e, const char *path);
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
Node *state_new_value(Elab *e, Node *v);
/* As if nothing had been written. */
void state_unwrite(Elab *e, const char *name);
void layers_check_called(Elab *e);
StateRecord *state_record(Elab *e, const char *name);

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
/* elab_scalars.c: the operator brings the scalar v, as that node, together with a tensor. */
void scalars_note(Elab *e, OpCode op, const Value *v, Node *as, SrcRange at);
/* Around a statement: what it makes is called so in reports, inside what makes `outer` outer.name;
 * NULL: like what is around it. */
int making_begin(Elab *e, const char *name);
/* outer: what making_begin has returned. */
void making_end(Elab *e, int outer);
/* x where it is real; else in the program's real type (weak: f64). */
Value math_real(Elab *e, Value v);

/* elab_promote.c: the rule for numbers among integers */
DTypeClass value_class(const Value *v); /* of a number or tensor */
bool value_is_strong(const Value *v);
/* The element type in which operands meet. */
DType math_promote(Elab *e, const Value *v, int n, bool *weak);
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

/* elab_dist.c */
Dist dist_constant(Value v, SrcRange at);
/* Does the built-in, called without arguments, give a distribution?  (builtins/builtin_init.c) */
bool builtin_is_family(const Builtin *b);
bool dist_from(Elab *e, const Value *v, SrcRange at, Dist *out);
/* The first value of a state in the current (init) graph. */
Node *dist_value(Elab *e, const Dist *d, const char *state, const Type *type);
/* The same, another one for each `step`: i64[]. */
Node *dist_drawn(Elab *e, const Dist *d, const char *path, const Type *type, Node *step);
/* elab_random.c: strong values of the program's real type */
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
const ModelValue *model_value_find(Elab *e, AstKind kind, const char *name);

/* One more scalar that must be finite in this update. */
void scalars_add(Elab *e, const char *label, Node *n);

/* elab_model.c: the checks of the current graph's indices as its outputs. */
void entry_add_index_checks(Elab *e);

/* elab_copy.c */
/* Copies what `n` depends on from its graph into the current one; stop gives the replacement of a
 * node, or NULL.  NULL after a report if it depends on inputs or states; `what` is the subject. */
Node *graph_copy(Elab *e, const Graph *from, const Node *n,
                 Node *(*stop)(void *ctx, const Node *n), void *ctx, SrcRange at,
                 const char *what);

#endif
