/* Evaluating a node at an index: one case per kind of operator.
 *
 * Values are remembered by (node, index, active lanes, guards) and emitted at the innermost level
 * whose counter the index depends on; a value is forgotten when its level is closed.
 *
 * Guards.  A `pad` reads its operand at t = (i - start) / step, which lies outside for some i.
 * The operand is evaluated at t all the same, under the guard 0 <= t < extent: loads in that
 * evaluation are masked (or read element 0), and the pad selects.  So t stays affine and rows
 * stay vector loads.  A guard holds for those offsets that depend on its variables; a value
 * hoisted above them cannot be outside. */
#include "codegen/cpu/emit.h"

#include "codegen/cpu/philox.h"
#include "ir/shape.h"

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

/* lo <= at <= hi and, if rest is not the constant 0, rest == 0.  What is read is inside if the
 * first holds, so only that matters to loads. */
typedef struct Guard Guard;
struct Guard {
    Guard *up;
    Affine at, rest;
    int64_t lo, hi;
    int hidden; /* by reductions whose lanes are others */
};

/* Evaluation nests as deep as the kernel's values do (CODE_DEPTH of passes/fuse/work.h), and an
 * index is large: it is not on the stack. */
typedef struct HeldIndex HeldIndex;
struct HeldIndex {
    Index at;
    HeldIndex *next;
};

static Index *take_index(Emit *e)
{
    HeldIndex *held = e->held;
    if (!held)
        return &((HeldIndex *)arena_alloc(e->arena, sizeof *held))->at;
    e->held = held->next;
    return &held->at;
}

static void give_index(Emit *e, Index *i)
{
    HeldIndex *held = (HeldIndex *)i; /* its first member */
    held->next = e->held;
    e->held = held;
}

/* Not inlined: the copies that they make would be on the stack of who goes deeper. */
static __attribute__((noinline)) Index *hold_copy(Emit *e, const Index *i)
{
    Index *at = take_index(e);
    *at = *i;
    return at;
}

static __attribute__((noinline)) Index *hold_broadcast(Emit *e, const Node *n, const Index *i)
{
    Index *at = take_index(e);
    *at = index_broadcast(&n->type.shape, i);
    return at;
}

static __attribute__((noinline)) Index *hold_view(Emit *e, const Node *n, const Index *i)
{
    Index *at = take_index(e);
    *at = index_view(&e->space, n, i);
    return at;
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
    return affine_lanes(&e->space, &g->at);
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
    return !g->hidden && encloses(emit_level_of(e, &g->at), level) &&
           (lanes || !guard_lanes(e, g));
}

void emit_hide_lane_guards(Emit *e, bool hide)
{
    for (Guard *g = e->guard; g; g = g->up)
        if (guard_lanes(e, g))
            g->hidden += hide ? 1 : -1;
}

/* Guards are told apart by what they say. */
static uint64_t guard_key(const Guard *g)
{
    const Index i = {.rank = 1, .at = {g->at}};
    return (index_hash(&i) ^ (uint64_t)g->lo * 31 ^ (uint64_t)g->hi) *
               UINT64_C(0x9e3779b97f4a7c15) |
           1;
}

static uint64_t guards_key(Emit *e, const Level *level, bool lanes)
{
    uint64_t key = 0;
    for (const Guard *g = e->guard; g; g = g->up)
        if (guard_applies(e, g, level, lanes))
            key += guard_key(g);
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

/* NULL: always true. */
static LLVMValueRef guard_bounds(Emit *e, const Guard *g)
{
    int64_t lo, hi;
    LLVMValueRef ok = NULL;
    affine_range(&e->space, &g->at, &lo, &hi);
    if (lo < g->lo || hi > g->hi) {
        LLVMValueRef at = emit_affine(e, &g->at);
        if (lo < g->lo)
            ok = compare(e, LLVMIntSGE, at, g->lo);
        if (hi > g->hi)
            ok = both(e, ok, compare(e, LLVMIntSLE, at, g->hi));
    }
    return ok;
}

static LLVMValueRef guard_value(Emit *e, const Guard *g)
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
        LLVMValueRef ok = guard_applies(e, g, level, lanes) ? guard_bounds(e, g) : NULL;
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
    Index *at = hold_broadcast(e, n, i);
    MemoEntry key;
    const uint64_t bucket = key_of(e, n, at, false, &key);
    key.value = v;
    memo_add(e, bucket, &key, at);
    give_index(e, at);
}

static LLVMValueRef eval_leaf(Emit *e, const Node *n)
{
    if (n->op == OP_CONST && n->attrs.value.data.n == 1)
        return emit_const(e, n->type.dtype, n->attrs.value.data.v[0]);
    diag_internal(NULL, "leaf %%%s has no buffer in @%s", n->name, e->entry->graph->name);
}

static LLVMValueRef eval_expr(Emit *e, const Node *n, const Index *i)
{
    LLVMValueRef x[4];
    for (int k = 0; k < n->n_in; k++) {
        Index *at = hold_broadcast(e, n->in[k], i);
        x[k] = emit_eval(e, n->in[k], at);
        give_index(e, at);
    }
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

static __attribute__((noinline)) LLVMValueRef eval_random(Emit *e, const Node *n,
                                                          const Index *i)
{
    const Index none = {0};
    const PhiloxKey key = {.seed = emit_eval(e, n->in[0], &none),
                           .step = emit_eval(e, n->in[1], &none),
                           .path = path_hash(e, n)};
    const Affine element = index_flatten(&e->space, &n->type.shape, i);
    return emit_philox_at(e, &key, &element);
}

/* t = i / step, and the condition under which that is one of `extent` elements. */
static Guard quotient_guard(Emit *e, const Affine *i, int64_t step, int64_t extent)
{
    Guard g = {.at = *i, .lo = 0, .hi = extent - 1};
    if (step < 0) {
        g.at = affine_scale(i, -1);
        step = -step;
    }
    if (step == 1)
        return g;
    int64_t lo, hi;
    affine_range(&e->space, &g.at, &lo, &hi);
    const int64_t shift = lo < 0 ? (-lo + step - 1) / step : 0;
    const Affine up = affine_plus(&g.at, shift * step);
    affine_split(&e->space, &up, step, &g.at, &g.rest);
    g.at = affine_plus(&g.at, -shift);
    return g;
}

/* The operand at the guards' places where all of them hold (axes without one: as `at` says), else
 * `value`. */
static LLVMValueRef eval_guarded(Emit *e, const Node *n, Index *at, Guard *guard, int first,
                                 double value)
{
    Guard *outer = e->guard;
    LLVMValueRef ok = NULL;
    for (int k = first; k < at->rank; k++) {
        at->at[k] = guard[k].at;
        LLVMValueRef g = guard_value(e, &guard[k]);
        if (!g)
            continue;
        ok = both(e, ok, g);
        guard[k].up = e->guard;
        e->guard = &guard[k];
    }
    LLVMValueRef v = emit_eval(e, n->in[0], at);
    e->guard = outer;
    if (!ok)
        return v;
    if (emit_is_vector(ok) || emit_is_vector(v)) {
        ok = emit_splat(e, ok);
        v = emit_splat(e, v);
    }
    LLVMValueRef rest = emit_const_like(e, n->type.dtype, value, v);
    return LLVMBuildSelect(e->builder, ok, v, rest, "");
}

static __attribute__((noinline)) LLVMValueRef eval_pad(Emit *e, const Node *n, const Index *i)
{
    Guard *guard = arena_array(e->arena, MAX_RANK, sizeof *guard);
    Index *at = hold_copy(e, i);
    for (int k = 0; k < i->rank; k++) {
        const Affine from = affine_plus(&i->at[k], -n->attrs.pad.start.v[k]);
        guard[k] =
            quotient_guard(e, &from, n->attrs.pad.step.v[k], n->in[0]->type.shape.dim[k]);
    }
    LLVMValueRef v = eval_guarded(e, n, at, guard, 0, n->attrs.pad.value);
    give_index(e, at);
    return v;
}

/* In front the axes of taps, as they are; then i = (p - start - dilation * t) / step. */
static __attribute__((noinline)) LLVMValueRef eval_unwindow(Emit *e, const Node *n,
                                                            const Index *i)
{
    const Attrs *a = &n->attrs;
    Guard *guard = arena_array(e->arena, MAX_RANK, sizeof *guard);
    Index *at = hold_copy(e, i);
    int tap[MAX_RANK];
    const int taps = window_taps(a, a->window.size.n, tap);
    for (int k = 0; k < a->window.size.n; k++) {
        Affine from = affine_plus(&at->at[taps + k], -a->window.start.v[k]);
        if (tap[k] >= 0) {
            const Affine back = affine_scale(&i->at[tap[k]], -a->window.dilation.v[k]);
            from = affine_add(&from, &back);
        }
        guard[taps + k] =
            quotient_guard(e, &from, a->window.step.v[k], n->in[0]->type.shape.dim[taps + k]);
    }
    LLVMValueRef v = eval_guarded(e, n, at, guard, taps, 0);
    give_index(e, at);
    return v;
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
    Index *at = hold_broadcast(e, n, i);
    MemoEntry key;
    const uint64_t bucket = key_of(e, n, at, true, &key);
    const MemoEntry *known = memo_find(e, bucket, &key, at);
    if (known && e->space.var[known->var].hi == extent - 1) {
        give_index(e, at);
        return affine_var(known->var);
    }
    Level *old = emit_level_to(e, key.level);
    LLVMValueRef v = clamped(e, n->type.dtype, emit_eval(e, n, at), extent);
    key.var = emit_value_var(e, v, 0, extent - 1);
    emit_level_back(e, old);
    memo_add(e, bucket, &key, at);
    give_index(e, at);
    return affine_var(key.var);
}

static __attribute__((noinline)) LLVMValueRef eval_gather(Emit *e, const Node *n,
                                                          const Index *i)
{
    const int64_t dim = n->attrs.axis.dim;
    Index *at = hold_copy(e, i);
    at->at[dim] = emit_eval_as_index(e, n->in[1], i, n->in[0]->type.shape.dim[dim]);
    LLVMValueRef v = emit_eval(e, n->in[0], at);
    give_index(e, at);
    return v;
}

static LLVMValueRef eval_index(Emit *e, const Node *n, const Index *i)
{
    switch (op_info(n->op)->data) {
    case INDEX_IOTA:
        return emit_affine(e, &i->at[n->attrs.iota.dim]);
    case INDEX_RANDOM:
        return eval_random(e, n, i);
    case INDEX_PAD:
        return eval_pad(e, n, i);
    case INDEX_UNWINDOW:
        return eval_unwindow(e, n, i);
    case INDEX_GATHER:
        return eval_gather(e, n, i);
    default:
        diag_internal(NULL, "%%%s has an unknown index map", n->name);
    }
}

static LLVMValueRef eval_view(Emit *e, const Node *n, const Index *i)
{
    Index *at = hold_view(e, n, i);
    LLVMValueRef v = emit_eval(e, n->in[0], at);
    give_index(e, at);
    return v;
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
        return eval_view(e, n, i);
    case KIND_INDEX:
        return eval_index(e, n, i);
    case KIND_REDUCE:
        return emit_reduce(e, n, i);
    case KIND_SCATTER: /* before anything is added */
        return emit_eval(e, n->in[0], i);
    default:
        diag_internal(NULL, "%%%s (%s) cannot be computed inside kernel %s of @%s", n->name,
                      op_info(n->op)->text, e->kernel->name, e->entry->graph->name);
    }
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
    Index *at = hold_broadcast(e, n, i);
    MemoEntry key;
    const uint64_t bucket = key_of(e, n, at, false, &key);
    const MemoEntry *known = memo_find(e, bucket, &key, at);
    key.value = known ? known->value : NULL;
    if (!known) {
        Level *old = emit_level_to(e, key.level);
        key.value = compute(e, n, at);
        tell_computed(e, n, &key);
        emit_level_back(e, old);
        memo_add(e, bucket, &key, at);
    }
    give_index(e, at);
    return key.value;
}
