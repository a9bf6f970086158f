/* Levels (straight-line code and the loops inside it) and the values of index variables.
 *
 * A level's block gets its branch into an inner loop only when that loop is closed: until then
 * code may still be added in front of the loop.  A loop that runs once is no level: its counter
 * is the constant 0.
 *
 * A loop that is shared out runs over those of its numbers that are among the parts lo .. hi - 1
 * which the function is asked for: not 0 .. count - 1, but from .. to - 1, and perhaps nothing. A
 * tail, done by whoever does the last part, is such a loop of one round, and a level. */
#include "codegen/cpu/emit.h"

/* Of an index variable: its value, NULL until made, and the level where that stands. */
typedef struct EmitVar {
    LLVMValueRef value;
    Level *level;
} EmitVar;

static EmitVar *var_at(Emit *e, int var)
{
    while (e->n_vars <= var) {
        if (e->n_vars == e->cap_vars)
            e->vars = arena_grow(e->arena, e->vars, &e->cap_vars, sizeof *e->vars);
        e->vars[e->n_vars++] = (EmitVar){0};
    }
    return &e->vars[var];
}

static void stand_at(Emit *e, Level *l)
{
    e->level = l;
    LLVMPositionBuilderAtEnd(e->builder, l->block);
}

static Level *open_level(Emit *e, int64_t count)
{
    Level *l = arena_alloc(e->arena, sizeof *l);
    *l = (Level){.up = e->level, .depth = e->level->depth + 1, .open = true, .count = count};
    l->first = l->block = LLVMAppendBasicBlockInContext(e->context, e->function, "loop");
    stand_at(e, l);
    l->counter = LLVMBuildPhi(e->builder, LLVMInt64TypeInContext(e->context), "i");
    return l;
}

static Affine counter_of(Emit *e, Level *l)
{
    const int var = index_var(&e->space, AFFINE_VAR_LOOP, 0, l->count - 1, false);
    *var_at(e, var) = (EmitVar){.value = l->counter, .level = l};
    return affine_var(var);
}

Affine emit_loop_begin(Emit *e, int64_t count)
{
    e->once = e->once << 1 | (count == 1);
    return count == 1 ? affine_const(0) : counter_of(e, open_level(e, count));
}

static LLVMValueRef choose(Emit *e, LLVMIntPredicate less_or_greater, LLVMValueRef a, int64_t b)
{
    LLVMValueRef limit = emit_const_i64(e, b);
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, less_or_greater, a, limit, ""),
                           a, limit, "");
}

static LLVMValueRef minus(Emit *e, LLVMValueRef a, int64_t b)
{
    return b ? LLVMBuildSub(e->builder, a, emit_const_i64(e, b), "") : a;
}

Affine emit_shared_begin(Emit *e, bool shared, int64_t first, int64_t count)
{
    if (!shared || e->n_work == 1)
        return emit_loop_begin(e, count);
    const bool begins = first == 0, ends = first + count == e->n_work;
    Level *old = emit_level_to(e, e->root);
    LLVMValueRef from = minus(e, LLVMGetParam(e->function, 1), first),
                 to = minus(e, LLVMGetParam(e->function, 2), first);
    from = begins ? from : choose(e, LLVMIntSGT, from, 0);
    to = ends ? to : choose(e, LLVMIntSLT, to, count);
    emit_level_back(e, old);
    e->once <<= 1;
    Level *l = open_level(e, count);
    l->from = from;
    l->to = to;
    l->may_be_empty = !begins || !ends;
    if (count > 1)
        return counter_of(e, l);
    e->floor = l;
    return affine_const(0);
}

void emit_loop_end(Emit *e)
{
    const bool once = e->once & 1;
    e->once >>= 1;
    if (once)
        return;
    Level *l = e->level, *up = l->up;
    LLVMBasicBlockRef exit = LLVMAppendBasicBlockInContext(e->context, e->function, "done");
    LLVMValueRef from = l->from ? l->from : emit_const_i64(e, 0),
                 to = l->to ? l->to : emit_const_i64(e, l->count);
    LLVMPositionBuilderAtEnd(e->builder, up->block);
    if (l->may_be_empty)
        LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, from, to, ""),
                        l->first, exit);
    else
        LLVMBuildBr(e->builder, l->first);
    LLVMPositionBuilderAtEnd(e->builder, l->block);
    LLVMValueRef next = LLVMBuildNUWAdd(e->builder, l->counter, emit_const_i64(e, 1), "");
    LLVMValueRef more = LLVMBuildICmp(e->builder, LLVMIntULT, next, to, "");
    LLVMBuildCondBr(e->builder, more, l->first, exit);
    LLVMValueRef value[2] = {from, next};
    LLVMBasicBlockRef before[2] = {up->block, l->block};
    LLVMAddIncoming(l->counter, value, before, 2);
    l->open = false;
    if (e->floor == l)
        e->floor = e->root;
    up->block = exit;
    stand_at(e, up);
}

Level *emit_level_to(Emit *e, Level *to)
{
    Level *old = e->level;
    stand_at(e, to);
    return old;
}

void emit_level_back(Emit *e, Level *old)
{
    stand_at(e, old);
}

static Level *deeper(Level *a, Level *b)
{
    return b->depth > a->depth ? b : a;
}

Level *emit_level_of(Emit *e, const Affine *a)
{
    Level *l = e->floor;
    for (int i = 0; i < a->n; i++) {
        const int var = a->term[i].var;
        const AffineVar *v = &e->space.var[var];
        if (v->kind == AFFINE_VAR_DIV || v->kind == AFFINE_VAR_MOD)
            l = deeper(l, emit_level_of(e, &v->of));
        else if (v->kind != AFFINE_VAR_LANE)
            l = deeper(l, var_at(e, var)->level);
    }
    return l;
}

Level *emit_level_of_index(Emit *e, const Index *i)
{
    Level *l = e->floor;
    for (int k = 0; k < i->rank; k++)
        l = deeper(l, emit_level_of(e, &i->at[k]));
    return l;
}

int emit_set_active(Emit *e, int lanes)
{
    const int old = e->active;
    e->active = lanes;
    e->space.var[AFFINE_LANE].hi = lanes - 1;
    return old;
}

int emit_value_var(Emit *e, LLVMValueRef v, int64_t lo, int64_t hi)
{
    const int var = index_var(&e->space, AFFINE_VAR_VALUE, lo, hi, emit_is_vector(v));
    *var_at(e, var) = (EmitVar){.value = v, .level = e->level};
    return var;
}

static LLVMValueRef var_value(Emit *e, int var)
{
    if (var == AFFINE_LANE)
        return emit_lane_numbers(e);
    if (var_at(e, var)->value)
        return var_at(e, var)->value;
    const AffineVar v = e->space.var[var];
    Level *level = emit_level_of(e, &v.of);
    Level *old = emit_level_to(e, level);
    LLVMValueRef of = emit_affine(e, &v.of);
    LLVMValueRef by = emit_int_like(e, LLVMInt64TypeInContext(e->context), (uint64_t)v.by, of);
    LLVMValueRef value = v.kind == AFFINE_VAR_DIV ? LLVMBuildUDiv(e->builder, of, by, "")
                                                  : LLVMBuildURem(e->builder, of, by, "");
    emit_level_back(e, old);
    *var_at(e, var) = (EmitVar){.value = value, .level = level};
    return value;
}

/* sum + coef * v; sum NULL: 0.  Widens the scalar one of the two. */
static LLVMValueRef add_scaled(Emit *e, LLVMValueRef sum, LLVMValueRef v, int64_t coef)
{
    if (sum && emit_is_vector(sum))
        v = emit_splat(e, v);
    if (sum && emit_is_vector(v))
        sum = emit_splat(e, sum);
    if (coef != 1) {
        LLVMValueRef c =
            emit_int_like(e, LLVMInt64TypeInContext(e->context), (uint64_t)coef, v);
        v = LLVMBuildMul(e->builder, v, c, "");
    }
    return sum ? LLVMBuildAdd(e->builder, sum, v, "") : v;
}

/* Terms with lanes after those without, so that the scalar part is added up as a scalar. */
static LLVMValueRef sum_terms(Emit *e, const Affine *a, bool with_lanes, LLVMValueRef sum)
{
    for (int i = 0; i < a->n; i++)
        if (e->space.var[a->term[i].var].lanes == with_lanes)
            sum = add_scaled(e, sum, var_value(e, a->term[i].var), a->term[i].coef);
    return sum;
}

LLVMValueRef emit_affine(Emit *e, const Affine *a)
{
    LLVMValueRef sum = sum_terms(e, a, false, NULL);
    if (a->base || !sum)
        sum = sum ? LLVMBuildAdd(e->builder, sum, emit_const_i64(e, a->base), "")
                  : emit_const_i64(e, a->base);
    return sum_terms(e, a, true, sum);
}

LLVMValueRef emit_affine_first(Emit *e, const Affine *a)
{
    const Affine first = affine_without(a, AFFINE_LANE);
    return emit_affine(e, &first);
}
