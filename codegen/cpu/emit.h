/* Inside the CPU emitter: one kernel at a time becomes one LLVM function.
 *
 * Values.  A value is an LLVMValueRef of type T or <W x T>, where W = lanes of the kernel =
 * vector_bytes / 4 for every element type (an f64 vector is two registers).  T: bool i1, u8 i8,
 * i32, i64, float, double.  A value that is the same in all lanes may be (and usually is) the
 * scalar: mix freely, emit_splat widens.
 *
 * Places.  Code is emitted into levels: level 0 is the function's straight-line part, and each
 * open loop is a level inside its parent.  A level's block stays open (without terminator) while
 * loops inside it are open, so anything that depends on outer variables only is emitted outside
 * the inner loops, whenever it is first needed.  emit_loop_begin makes the level current,
 * emit_loop_end closes it; between two calls e->builder stands at the end of the current level's
 * block. */
#ifndef HFTAC_CODEGEN_CPU_EMIT_H
#define HFTAC_CODEGEN_CPU_EMIT_H

#include <llvm-c/Core.h>

#include "codegen/codegen.h"
#include "codegen/cpu/places.h"
#include "codegen/cpu/target.h"
#include "ir/index.h"
#include "ir/plan.h"

typedef struct Level Level;
typedef struct Memo Memo;
typedef struct MemoryMap MemoryMap;

struct Level {
    Level *up;
    int depth;
    bool open;
    /* first: the loop's header; block: where code of this level goes now */
    LLVMBasicBlockRef first, block;
    /* phi in first, or NULL: runs once */
    LLVMValueRef counter;
    int64_t count;
    /* Of a loop that is shared out: what this call does of it; NULL: all. */
    LLVMValueRef from, to;
    /* that may be nothing */
    bool may_be_empty;
};

typedef struct Emit {
    Arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    const Plan *plan;
    const EntryPlan *entry;
    const Kernel *kernel;
    /* VECTOR_BYTES_* */
    int vector_bytes;
    /* W, MAX_LANES at most */
    int lanes;
    int optimize;

    /* the kernel's function: void (ptr table, i64 lo, i64 hi) */
    LLVMValueRef function;
    const Places *places;
    /* by place */
    LLVMValueRef *pointer;
    /* entry block */
    LLVMBasicBlockRef allocas;

    IndexSpace space;
    /* by variable: its value and level (level.c) */
    struct EmitVar *vars;
    int n_vars, cap_vars;

    Level *root, *level;
    /* Code that depends on no loop stands here: the root, but for what one part does alone. */
    Level *floor;
    /* Into how many parts the kernel's work can be cut: the numbers of a loop that is shared out
     * (emit_shared_begin).  Its function does the parts lo .. hi - 1, all of them if it is 1. */
    int64_t n_work;
    /* stack of bits, the last emit_loop_begin lowest: made no loop */
    uint64_t once;
    /* lanes that count, 1..W: fewer than W in the tail block of a vectorised axis */
    int active;
    /* Conditions under which the index that is being evaluated is inside (eval.c). */
    struct Guard *guard;
    /* for use again (eval.c) */
    struct HeldReading *held;
    Memo *memo;
    MemoryMap *memory;
    const CodegenOptions *options;
} Emit;

/* Types and constants. */
LLVMTypeRef emit_type(Emit *e, DType t);        /* T */
LLVMTypeRef emit_vector_type(Emit *e, DType t); /* <W x T> */
LLVMTypeRef emit_type_like(Emit *e, DType t,
                           LLVMValueRef v);     /* T or <W x T>, as v is a vector or not */
LLVMTypeRef emit_memory_type(Emit *e, DType t); /* as T, but bool is i8 */
bool emit_is_vector(LLVMValueRef v);
LLVMValueRef emit_const(Emit *e, DType t, double v); /* scalar constant */
LLVMValueRef emit_const_i64(Emit *e, int64_t v);
LLVMValueRef emit_const_like(Emit *e, DType t, double v,
                             LLVMValueRef like); /* splat if `like` is a vector */
LLVMValueRef emit_int_like(Emit *e, LLVMTypeRef scalar, uint64_t v,
                           LLVMValueRef like);    /* same for any integer type: bit patterns */
LLVMValueRef emit_splat(Emit *e, LLVMValueRef v); /* v itself if it is a vector */
LLVMValueRef emit_lane_numbers(Emit *e);          /* <0, 1, .. W-1> of i64 */
/* Calls an overloaded intrinsic, e.g. emit_intrinsic(e, "llvm.fma", 1, &type, 3, args). */
LLVMValueRef emit_intrinsic(Emit *e, const char *name, int n_types, LLVMTypeRef *types, int n,
                            LLVMValueRef *args);
/* In the entry block; SROA turns it into registers when it is only loaded and stored whole. */
LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef type, const char *name);

/* Loops.  The counter runs 0 .. count-1; count == 1 makes no loop and gives the constant 0.
 * Returns the counter as an index.  Phis of your own may be added through e->level->first, or use
 * emit_alloca. */
Affine emit_loop_begin(Emit *e, int64_t count);
void emit_loop_end(Emit *e);
/* The same for parts first .. first + count - 1 of the kernel's work, e->n_work, if `shared`: of
 * these the ones that the function is to do.  A piece of the work that is no loop has count 1. */
Affine emit_shared_begin(Emit *e, bool shared, int64_t first, int64_t count);
/* Emits at an enclosing level: sets the current level to `to`; returns the old one, to be given
 * to emit_level_back. */
Level *emit_level_to(Emit *e, Level *to);
void emit_level_back(Emit *e, Level *old);
/* The innermost level whose counter a (or an index) depends on. */
Level *emit_level_of(Emit *e, const Affine *a);
Level *emit_level_of_index(Emit *e, const Index *i);
/* How many lanes count from now on; returns the old number. */
int emit_set_active(Emit *e, int lanes);
/* A variable of kind AFFINE_VAR_VALUE for an i64 that is known at the current level. */
int emit_value_var(Emit *e, LLVMValueRef v, int64_t lo, int64_t hi);

/* The value of an index form as i64: scalar, or vector if it differs between lanes. */
LLVMValueRef emit_affine(Emit *e, const Affine *a);
/* ... with LANE = 0, always scalar (the form must be lane linear). */
LLVMValueRef emit_affine_first(Emit *e, const Affine *a);

/* Memory.  Pointer to element 0 of a buffer of the current model: a parameter. */
LLVMValueRef emit_buffer(Emit *e, const Buffer *b);
/* base + elements * size of an element: elements is an i64 value. */
LLVMValueRef emit_element(Emit *e, LLVMValueRef base, LLVMValueRef elements, DType t);
/* Value of b at an offset in elements (loads a vector, a broadcast or lane by lane, only active
 * lanes). */
LLVMValueRef emit_load(Emit *e, const Buffer *b, const Affine *offset);
/* Stores v, of type `from`, converted to the buffer's element type. */
void emit_store(Emit *e, const Buffer *b, const Affine *offset, DType from, LLVMValueRef v);
/* The lanes that count, as a constant <W x i1>. */
LLVMValueRef emit_active_mask(Emit *e);
/* One vector (active lanes only) or one scalar at a pointer; b tells the alias scope (may be
 * NULL). */
LLVMValueRef emit_load_vector(Emit *e, const Buffer *b, LLVMValueRef pointer, DType t);
LLVMValueRef emit_load_scalar(Emit *e, const Buffer *b, LLVMValueRef pointer, DType t);

/* The value of n at index i: element type n->type.dtype. */
LLVMValueRef emit_eval(Emit *e, const Node *n, const Index *i);
/* The value of n at i, an integer, clamped to 0 .. extent-1, as an index. */
Affine emit_eval_as_index(Emit *e, const Node *n, const Index *i, int64_t extent);
/* From now on n at index i is v (while the current level is open, with the current number of
 * active lanes). */
void emit_bind(Emit *e, const Node *n, const Index *i, LLVMValueRef v);
/* Evaluates all stores of the kernel at index i of its space, then stores them. */
void emit_stores_at(Emit *e, const Index *i);
/* kernel_read of this kernel. */
const Buffer *emit_readable(const Emit *e, const Node *n);
/* Under which conditions an offset lies inside its buffer: for all lanes (i1), and for each (<W x
 * i1>); NULL: always. */
typedef struct LoadGuard {
    LLVMValueRef all, lanes;
} LoadGuard;
LoadGuard emit_guard(Emit *e, const Affine *offset);
/* While a reduction along lanes of its own is inside: what the lanes outside must fulfil says
 * nothing of them. */
void emit_hide_lane_guards(Emit *e, bool hide);
/* Forgets nothing of other kernels: starts the tables of a new function (eval.c, memory.c). */
void emit_memo_init(Emit *e);
void emit_memory_init(Emit *e);
/* Reductions, for eval.c: n has kind REDUCE. */
LLVMValueRef emit_reduce(Emit *e, const Node *n, const Index *i);

/* scalar.c: fn of operands of `operand` giving `result`; x[k] are scalars or vectors, mixed.  For
 * SC_WHERE x[0] is bool and `operand` is the type of the others.  SC_CAST converts operand to
 * result.  Scalars in, scalar out. */
LLVMValueRef emit_scalar_fn(Emit *e, ScalarFn fn, DType operand, DType result, int n,
                            LLVMValueRef *x);
/* contract.c: e->kernel is a KERNEL_CONTRACT; e->level is the function's level 0. */
void emit_contract_kernel(Emit *e);

/* scatter.c: e->kernel is a KERNEL_SCATTER; a scatter_add's result holds its first operand
 * already. */
void emit_scatter_kernel(Emit *e);

/* stores.c.  How many loops stand round a store: up to its innermost axis that is not 1. */
int emit_store_depth(const Kernel *k, const Store *s);
/* The first code of a kernel. */
void emit_flags_clear(Emit *e);
/* The values of the stores at that depth, to be written later: together with those of further
 * blocks, at other indices. */
typedef struct StoreBlock StoreBlock;
StoreBlock *emit_stores_evaluate(Emit *e, const Index *i, int depth);
void emit_stores_write(Emit *e, int n, StoreBlock *const *block);
/* Writes v as that store does. */
void emit_guarded_store(Emit *e, const Store *s, const Affine *offset, LLVMValueRef v);

/* transpose.c: emits the kernel if it is a copy to another order of axes; false: it is not. */
bool emit_transpose(Emit *e);
/* kernel.c: the type of all kernels' functions, HftacKernelFn; the function of one kernel. */
LLVMTypeRef emit_kernel_type(LLVMContextRef c);
LLVMValueRef emit_kernel(Emit *e, const EntryPlan *entry, const Kernel *k, const Places *places,
                         const char *name);
/* Does the kernel write nothing twice where parts of its work are done at the same time, that are
 * parts of the space's axis?  */
bool emit_parts_apart(const Kernel *k, int axis);

#endif
