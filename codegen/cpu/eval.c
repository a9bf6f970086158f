/* Evaluating a node at an index: reads the operands as ir/reading.h says, and applies the kind.
 *
 * Values are remembered by (node, index, active lanes, guards) and emitted at the innermost level
 * whose counter the index depends on; a value is forgotten when its level is closed.
 *
 * Guards.  An operand is evaluated at its index even where that lies outside: loads in that
 * evaluation are masked (or read element 0) by the guards, and the value is chosen afterwards.  So
 * indices stay affine and rows stay vector loads.  A guard holds for those offsets that depend on
 * its variables; a value hoisted above them cannot be outside. */
#include "codegen/cpu/emit.h"

#include "codegen/cpu/philox.h"
#include "ir/reading.h"

enum {
    MEMO_BUCKETS = 256,
    NO_VAR = -1
};

typedef struct MemoEntry MemoEntry;
struct MemoEntry {
    MemoEntry *next;
    const Node *node;
    bool as_index; /* what is remembered is a variable: the node's value, clamped */
    uint64_t guards;
    int active;
    uint64_t hash;
    int rank;
    Affine *at;
    Level *level;
    LLVMValueRef value;
    int var;
};

struct Memo {
    MemoEntry *bucket[MEMO_BUCKETS];
};

/* What is evaluated now is needed only where this holds. */
typedef struct Guard Guard;
struct Guard {
    Guard *up;
    const ReadGuard *read;
    int hidden; /* by reductions whose lanes are others */
};

/* Evaluation nests as deep as the kernel's values do (CODE_DEPTH of passes/fuse/work.h), and an
 * index is large: it is not on the stack. */
typedef struct HeldReading HeldReading;
struct HeldReading {
    Reading reading;
    HeldReading *next;
};

static Reading *take_reading(Emit *e)
{
    HeldReading *held = e->held;
    if (!held)
        return &((HeldReading *)arena_alloc(e->arena, sizeof *held))->reading;
    e->held = held->next;
    return &held->reading;
}

static void give_back(Emit *e, Reading *r)
{
    HeldReading *held = (HeldReading *)r; /* its first member */
    held->next = e->held;
    e->held = held;
}

static Reading *hold_broadcast(Emit *e, const Node *n, const Index *i)
{
    Reading *r = take_reading(e);
    index_broadcast_to(&r->at, &n->type.shape, i);
    return r;
}

void emit_memo_init(Emit *e)
{
    e->held = NULL;
    e->memo = arena_alloc(e->arena, sizeof *e->memo);
    e->guard = NULL;
}

const Buffer *emit_readable(const Emit *e, const Node *n)
{
    return kernel_read(e->entry, e->kernel, n);
}

static bool guard_lanes(const Emit *e, const Guard *g)
{
    return affine_lanes(&e->space, &g->read->at);
}

/* A reduction that was hoisted stands beside the loop of the guard's variable, not inside. */
static bool encloses(const Level *outer, const Level *inner)
{
    while (inner->depth > outer->depth)
        inner = inner->up;
    return inner == outer;
}

static bool guard_applies(Emit *e, const Guard *g, const Level *level, bool lanes)
{
    return !g->hidden && encloses(emit_level_of(e, &g->read->at), level) &&
           (lanes || !guard_lanes(e, g));
}

void emit_hide_lane_guards(Emit *e, bool hide)
{
    for (Guard *g = e->guard; g; g = g->up)
        if (guard_lanes(e, g))
            g->hidden += hide ? 1 : -1;
}

static uint64_t guards_key(Emit *e, const Level *level, bool lanes)
{
    uint64_t key = 0;
    for (const Guard *g = e->guard; g; g = g->up)
        if (guard_applies(e, g, level, lanes))
            key += read_guard_key(g->read);
    return key;
}

static LLVMValueRef compare(Emit *e, LLVMIntPredicate p, LLVMValueRef v, int64_t with)
{
    LLVMValueRef c = emit_int_like(e, LLVMInt64TypeInContext(e->context), (uint64_t)with, v);
    return LLVMBuildICmp(e->builder, p, v, c, "");
}

static LLVMValueRef both(Emit *e, LLVMValueRef a, LLVMValueRef b)
{
    if (!a || !b)
        return a ? a : b;
    if (emit_is_vector(a) || emit_is_vector(b)) {
        a = emit_splat(e, a);
        b = emit_splat(e, b);
    }
    return LLVMBuildAnd(e->builder, a, b, "");
}

/* Is it inside?  NULL: always. */
static LLVMValueRef guard_bounds(Emit *e, const ReadGuard *g)
{
    int64_t lo, hi;
    LLVMValueRef ok = NULL;
    affine_range(&e->space, &g->at, &lo, &hi);
    if (lo < 0 || hi >= g->extent) {
        LLVMValueRef at = emit_affine(e, &g->at);
        if (lo < 0)
            ok = compare(e, LLVMIntSGE, at, 0);
        if (hi >= g->extent)
            ok = both(e, ok, compare(e, LLVMIntSLE, at, g->extent - 1));
    }
    return ok;
}

static LLVMValueRef guard_value(Emit *e, const ReadGuard *g)
{
    LLVMValueRef ok = guard_bounds(e, g);
    if (g->rest.n || g->rest.base)
        ok = both(e, ok, compare(e, LLVMIntEQ, emit_affine(e, &g->rest), 0));
    return ok;
}

LoadGuard emit_guard(Emit *e, const Affine *offset)
{
    LoadGuard inside = {NULL, NULL};
    if (!e->guard)
        return inside;
    const Level *level = emit_level_of(e, offset);
    const bool lanes = affine_lanes(&e->space, offset);
    for (const Guard *g = e->guard; g; g = g->up) {
        LLVMValueRef ok = guard_applies(e, g, level, lanes) ? guard_bounds(e, g->read) : NULL;
        LLVMValueRef *part = ok && emit_is_vector(ok) ? &inside.lanes : &inside.all;
        *part = both(e, *part, ok);
    }
    return inside;
}

static bool same_index(const MemoEntry *m, const Index *i)
{
    for (int k = 0; k < i->rank; k++)
        if (!affine_equal(&m->at[k], &i->at[k]))
            return false;
    return true;
}

static uint64_t key_of(Emit *e, const Node *n, const Index *i, bool as_index, MemoEntry *key)
{
    const bool lanes = index_lanes(&e->space, i);
    *key = (MemoEntry){.node = n, .as_index = as_index, .rank = i->rank, .var = NO_VAR};
    key->level = emit_level_of_index(e, i);
    key->active = lanes ? e->active : 0;
    key->guards = guards_key(e, key->level, lanes);
    key->hash = index_hash(i) + (uint64_t)n->id * UINT64_C(0x9e3779b97f4a7c15);
    return (key->hash >> 20 ^ key->hash) % MEMO_BUCKETS;
}

static MemoEntry *memo_find(Emit *e, uint64_t bucket, const MemoEntry *key, const Index *i)
{
    for (MemoEntry *m = e->memo->bucket[bucket]; m; m = m->next)
        if (m->level->open && m->hash == key->hash && m->node == key->node &&
            m->as_index == key->as_index && m->active == key->active &&
            m->guards == key->guards && m->rank == key->rank && same_index(m, i))
            return m;
    return NULL;
}

static void memo_add(Emit *e, uint64_t bucket, const MemoEntry *key, const Index *i)
{
    MemoEntry *m = arena_alloc(e->arena, sizeof *m);
    *m = *key;
    m->at = arena_array(e->arena, (size_t)i->rank, sizeof *m->at);
    for (int k = 0; k < i->rank; k++)
        m->at[k] = i->at[k];
    m->next = e->memo->bucket[bucket];
    e->memo->bucket[bucket] = m;
}

void emit_bind(Emit *e, const Node *n, const Index *i, LLVMValueRef v)
{
    Reading *r = hold_broadcast(e, n, i);
    MemoEntry key;
    const uint64_t bucket = key_of(e, n, &r->at, false, &key);
    key.value = v;
    memo_add(e, bucket, &key, &r->at);
    give_back(e, r);
}

/* ---- operands ---- */

static Affine value_as_index(void *emit, Node *index, const Index *at, int64_t extent)
{
    return emit_eval_as_index(emit, index, at, extent);
}

/* Adds the guards to those that hold from now on; where all of them hold, NULL: everywhere. */
static LLVMValueRef add_guards(Emit *e, const Reading *r)
{
    LLVMValueRef ok = NULL;
    for (const ReadGuard *g = r->guards; g; g = g->next) {
        Guard *added = arena_alloc(e->arena, sizeof *added);
        ok = both(e, ok, guard_value(e, g));
        *added = (Guard){.up = e->guard, .read = g};
        e->guard = added;
    }
    return ok;
}

static LLVMValueRef choose(Emit *e, LLVMValueRef ok, LLVMValueRef v, DType t, double outside)
{
    if (emit_is_vector(ok) || emit_is_vector(v)) {
        ok = emit_splat(e, ok);
        v = emit_splat(e, v);
    }
    return LLVMBuildSelect(e->builder, ok, v, emit_const_like(e, t, outside, v), "");
}

/* What element i of n reads of operand k. */
static LLVMValueRef eval_operand(Emit *e, const Node *n, int k, const Index *i)
{
    const Reader reader = {&e->space, value_as_index, e};
    Reading *r = take_reading(e);
    Guard *outer = e->guard;
    node_read(&reader, n, k, i, r);
    LLVMValueRef ok = add_guards(e, r);
    LLVMValueRef v = emit_eval(e, n->in[k], &r->at);
    e->guard = outer;
    if (ok)
        v = choose(e, ok, v, n->type.dtype, r->outside);
    give_back(e, r);
    return v;
}

/* ---- kinds ---- */

static LLVMValueRef eval_leaf(Emit *e, const Node *n)
{
    if (n->op == OP_CONST && n->attrs.value.data.n == 1)
        return emit_const(e, n->type.dtype, n->attrs.value.data.v[0]);
    diag_internal(NULL, "leaf %%%s has no buffer in @%s", n->name, e->entry->graph->name);
}

static LLVMValueRef eval_expr(Emit *e, const Node *n, const Index *i)
{
    LLVMValueRef x[4];
    for (int k = 0; k < n->n_in; k++)
        x[k] = eval_operand(e, n, k, i);
    return emit_scalar_fn(e, (ScalarFn)op_info(n->op)->data, n->in[n->n_in - 1]->type.dtype,
                          n->type.dtype, n->n_in, x);
}

/* The hash of a random node's path is data of the model, so that layers of equal shape share the
 * code that draws. */
static LLVMValueRef path_hash(Emit *e, const Node *n)
{
    LLVMValueRef word[2];
    LLVMTypeRef i64 = LLVMInt64TypeInContext(e->context);
    const Buffer *b = places_path(e->places, n);
    Level *old = emit_level_to(e, e->root);
    for (int k = 0; k < 2; k++) {
        const Affine at = affine_const(k);
        word[k] = emit_load(e, b, &at);
    }
    LLVMValueRef high = LLVMBuildShl(e->builder, word[1], LLVMConstInt(i64, 32, 0), "");
    LLVMValueRef hash = LLVMBuildOr(e->builder, high, word[0], "");
    emit_level_back(e, old);
    return hash;
}

static LLVMValueRef eval_random(Emit *e, const Node *n, const Index *i)
{
    const PhiloxKey key = {.seed = eval_operand(e, n, 0, i),
                           .step = eval_operand(e, n, 1, i),
                           .path = path_hash(e, n)};
    const Affine element = index_flatten(&e->space, &n->type.shape, i);
    return emit_philox_at(e, &key, &element);
}

/* min(max(v, 0), n - 1) as i64. */
static LLVMValueRef clamped(Emit *e, DType from, LLVMValueRef v, int64_t n)
{
    if (from != DT_I64)
        v = emit_scalar_fn(e, SC_CAST, from, DT_I64, 1, &v);
    LLVMTypeRef type = LLVMTypeOf(v), i64 = LLVMInt64TypeInContext(e->context);
    LLVMValueRef low[2] = {v, emit_int_like(e, i64, 0, v)};
    v = emit_intrinsic(e, "llvm.smax", 1, &type, 2, low);
    LLVMValueRef high[2] = {v, emit_int_like(e, i64, (uint64_t)(n - 1), v)};
    return emit_intrinsic(e, "llvm.smin", 1, &type, 2, high);
}

Affine emit_eval_as_index(Emit *e, const Node *n, const Index *i, int64_t extent)
{
    Reading *r = hold_broadcast(e, n, i);
    MemoEntry key;
    const uint64_t bucket = key_of(e, n, &r->at, true, &key);
    const MemoEntry *known = memo_find(e, bucket, &key, &r->at);
    if (known && e->space.var[known->var].hi == extent - 1) {
        give_back(e, r);
        return affine_var(known->var);
    }
    Level *old = emit_level_to(e, key.level);
    LLVMValueRef v = clamped(e, n->type.dtype, emit_eval(e, n, &r->at), extent);
    key.var = emit_value_var(e, v, 0, extent - 1);
    emit_level_back(e, old);
    memo_add(e, bucket, &key, &r->at);
    give_back(e, r);
    return affine_var(key.var);
}

static LLVMValueRef eval_index(Emit *e, const Node *n, const Index *i)
{
    switch ((IndexKind)op_info(n->op)->data) {
    case INDEX_IOTA:
        return emit_affine(e, &i->at[n->attrs.iota.dim]);
    case INDEX_RANDOM:
        return eval_random(e, n, i);
    case INDEX_PAD:
    case INDEX_UNWINDOW:
    case INDEX_GATHER:
        break;
    }
    return eval_operand(e, n, 0, i);
}

static __attribute__((noinline)) LLVMValueRef load_at(Emit *e, const Buffer *b, const Index *i)
{
    const Affine offset = index_offset(&e->space, &b->shape, b->stride, i);
    return emit_load(e, b, &offset);
}

/* Emits the value at the current level. */
static LLVMValueRef compute(Emit *e, const Node *n, const Index *i)
{
    const bool immediate = n->op == OP_CONST && n->attrs.value.data.n == 1;
    const Buffer *b = immediate ? NULL : emit_readable(e, n);
    if (b) {
        LLVMValueRef v = load_at(e, b, i);
        return b->dtype == n->type.dtype
                   ? v
                   : emit_scalar_fn(e, SC_CAST, b->dtype, n->type.dtype, 1, &v);
    }
    switch (op_info(n->op)->kind) {
    case KIND_LEAF:
        return eval_leaf(e, n);
    case KIND_EXPR:
        return eval_expr(e, n, i);
    case KIND_VIEW:
    case KIND_SCATTER:
        return eval_operand(e, n, 0, i);
    case KIND_INDEX:
        return eval_index(e, n, i);
    case KIND_REDUCE:
        return emit_reduce(e, n, i);
    case KIND_CONTRACT:
    case KIND_LOOP:
    case KIND_META:
        break;
    }
    diag_internal(NULL, "%%%s (%s) cannot be computed inside kernel %s of @%s", n->name,
                  op_info(n->op)->text, e->kernel->name, e->entry->graph->name);
}

/* The code stands in the level's loops; with lanes it is of several elements. */
static void tell_computed(const Emit *e, const Node *n, const MemoEntry *key)
{
    double elements = key->active ? key->active : 1;
    if (!e->options->computed || emit_readable(e, n))
        return;
    for (const Level *l = key->level; l; l = l->up)
        elements *= (double)l->count;
    e->options->computed(e->options->context, e->kernel, n, elements);
}

LLVMValueRef emit_eval(Emit *e, const Node *n, const Index *i)
{
    Reading *r = hold_broadcast(e, n, i);
    MemoEntry key;
    const uint64_t bucket = key_of(e, n, &r->at, false, &key);
    const MemoEntry *known = memo_find(e, bucket, &key, &r->at);
    key.value = known ? known->value : NULL;
    if (!known) {
        Level *old = emit_level_to(e, key.level);
        key.value = compute(e, n, &r->at);
        tell_computed(e, n, &key);
        emit_level_back(e, old);
        memo_add(e, bucket, &key, &r->at);
    }
    give_back(e, r);
    return key.value;
}
