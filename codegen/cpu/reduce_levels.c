/* The loops of a reduction, level by level, as ir/sum_order.h orders them.
 *
 * A level is a loop over rounds, with the code of an item there once for each partial, or once in
 * all, and one over what is left.  After each block of rounds, in the same loop, a branch puts
 * the block's sum into a tree: place t of the tree's row holds the sum of 2^t blocks, as digit t
 * of the number of blocks so far is 1, and adding one is the carry of a binary counter.
 *
 * What gives the same in any order (reductions.def) needs no blocks: its partials go through all
 * levels. */
#include "codegen/cpu/reduce.h"

static LLVMBasicBlockRef new_block(Emit *e, const char *name)
{
    return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

static Group group_at(Emit *e, const Reduction *r, const Bank *b, int number)
{
    return group_load(e, r, b, emit_const_i64(e, number));
}

/* Partials n / 2 .. n - 1 are added to those before, and so on. */
static Group fold_partials(Emit *e, const Reduction *r, const Bank *b, int n)
{
    Group g[SUM_MAX_PARTIALS];
    for (int k = 0; k < n; k++)
        g[k] = group_at(e, r, b, k);
    for (int half = n / 2; half >= 1; half /= 2)
        for (int k = 0; k < half; k++)
            g[k] = group_join(e, r, &g[k], &g[k + half]);
    return g[0];
}

static void set_identity(Emit *e, const Reduction *r, const Bank *b, int n)
{
    const Group none = group_identity(e, r);
    for (int k = 0; k < n; k++)
        group_store(e, r, b, emit_const_i64(e, k), &none);
}

static LLVMValueRef phi_of(Emit *e, LLVMValueRef first, LLVMBasicBlockRef from)
{
    LLVMValueRef phi = LLVMBuildPhi(e->builder, LLVMTypeOf(first), "");
    LLVMAddIncoming(phi, &first, &from, 1);
    return phi;
}

/* Block `number`, whose sum is g, joins the tree; the builder stands in a block of its own, and
 * so it does afterwards. */
static void add_block(Emit *e, const Reduction *r, const Bank *tree, LLVMValueRef number,
                      const Group *g)
{
    LLVMBuilderRef B = e->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(B), head = new_block(e, "digit"),
                      carry = new_block(e, "carry"), done = new_block(e, "placed");
    LLVMBuildBr(B, head);
    LLVMPositionBuilderAtEnd(B, head);
    LLVMValueRef rest = phi_of(e, number, before),
                 digit = phi_of(e, emit_const_i64(e, 0), before);
    Group sum;
    for (int v = 0; v < r->width; v++)
        sum.part[v] = (Partial){.value = phi_of(e, g->part[v].value, before)};
    LLVMValueRef odd = LLVMBuildTrunc(B, rest, LLVMInt1TypeInContext(e->context), "");
    LLVMBuildCondBr(B, odd, carry, done);
    LLVMPositionBuilderAtEnd(B, carry);
    LLVMValueRef one = emit_const_i64(e, 1);
    const Group earlier = group_load(e, r, tree, digit);
    const Group both = group_join(e, r, &earlier, &sum);
    LLVMValueRef next_rest = LLVMBuildLShr(B, rest, one, ""),
                 next_digit = LLVMBuildAdd(B, digit, one, "");
    LLVMAddIncoming(rest, &next_rest, &carry, 1);
    LLVMAddIncoming(digit, &next_digit, &carry, 1);
    for (int v = 0; v < r->width; v++)
        LLVMAddIncoming(sum.part[v].value, (LLVMValueRef[]){both.part[v].value}, &carry, 1);
    LLVMBuildBr(B, head);
    LLVMPositionBuilderAtEnd(B, done);
    group_store(e, r, tree, digit, &sum);
}

/* At the end of round `step` of a level's loop: is it the last of a block?  Then the partials
 * start anew. */
static void end_step(Emit *e, const Reduction *r, const SumLevel *l, const Bank *partials,
                     const Bank *tree, const Affine *step)
{
    if (!r->info->rounded || !l->blocks)
        return;
    LLVMBuilderRef B = e->builder;
    LLVMBasicBlockRef full = new_block(e, "block"), next = new_block(e, "next");
    LLVMValueRef number = emit_affine(e, step), last = emit_const_i64(e, SUM_ROUNDS - 1);
    LLVMValueRef in_block = LLVMBuildAnd(B, number, last, "");
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntEQ, in_block, last, ""), full, next);
    LLVMPositionBuilderAtEnd(B, full);
    const Group sum = fold_partials(e, r, partials, l->partials);
    set_identity(e, r, partials, l->partials);
    add_block(e, r, tree, LLVMBuildUDiv(B, number, emit_const_i64(e, SUM_ROUNDS), ""), &sum);
    LLVMBuildBr(B, next);
    LLVMPositionBuilderAtEnd(B, next);
    e->level->block = next;
}

/* What is left of the level, and then the tree's sums, the smallest first. */
static Group level_result(Emit *e, const Reduction *r, const SumLevel *l, const Bank *partials,
                          const Bank *tree)
{
    Group g = fold_partials(e, r, partials, l->partials);
    for (int digit = 0; r->info->rounded && l->blocks >> digit; digit++)
        if (l->blocks >> digit & 1) {
            const Group earlier = group_at(e, r, tree, digit);
            g = group_join(e, r, &earlier, &g);
        }
    return g;
}

static Bank tree_new(Emit *e, const Reduction *r, const SumLevel *l)
{
    int digits = 0;
    while (l->blocks >> digits)
        digits++;
    return r->info->rounded && digits ? bank_new(e, r, digits, "tree") : (Bank){0};
}

static void add_item(Emit *e, Reduction *r, const SumLevel *l, const Bank *partials,
                     const Affine *number, LLVMValueRef partial, int lanes)
{
    if (l->lanes)
        r->lane_base = affine_scale(number, SUM_LANES);
    else
        r->at.at[l->axis] = *number;
    item_add(e, r, partials, partial, lanes);
}

/* One round: an item for each partial.  Of long items only two have code of their own, which is
 * then in a loop. */
static void add_round(Emit *e, Reduction *r, const SumLevel *l, const Bank *partials,
                      const Affine *first)
{
    const int step = r->looped && l->partials > 2 ? 2 : l->partials;
    const Affine pair = emit_loop_begin(e, l->partials / step),
                 base = affine_scale(&pair, step);
    for (int u = 0; u < step; u++) {
        const Affine partial = affine_plus(&base, u), number = affine_add(first, &partial);
        add_item(e, r, l, partials, &number, emit_affine(e, &partial), r->order.item_lanes);
    }
    emit_loop_end(e);
}

/* A loop over rounds, and one over what is left. */
static void add_whole(Emit *e, Reduction *r, const SumLevel *l, const Bank *partials,
                      const Bank *tree)
{
    const Affine round = emit_loop_begin(e, l->rounds),
                 first = affine_scale(&round, l->partials);
    add_round(e, r, l, partials, &first);
    end_step(e, r, l, partials, tree, &round);
    emit_loop_end(e);
    if (!l->rest)
        return;
    const Affine k = emit_loop_begin(e, l->rest),
                 number = affine_plus(&k, l->rounds * l->partials);
    add_item(e, r, l, partials, &number, emit_const_i64(e, 0), r->order.item_lanes);
    emit_loop_end(e);
}

/* All items of the innermost level. */
static void add_items(Emit *e, Reduction *r, const SumLevel *l, const Bank *partials,
                      const Bank *tree)
{
    add_whole(e, r, l, partials, tree);
    if (l->tail) {
        const Affine number = affine_const(l->whole);
        add_item(e, r, l, partials, &number, emit_const_i64(e, 0), l->tail);
    }
}

static int most_partials(const Reduction *r)
{
    return r->order.n ? r->order.level[r->order.n - 1].partials : 1;
}

/* The innermost level, or the only item. */
static Group innermost(Emit *e, Reduction *r, const Bank *partials)
{
    if (!r->order.n) {
        item_add(e, r, partials, emit_const_i64(e, 0), r->order.item_lanes);
        return group_at(e, r, partials, 0);
    }
    const SumLevel *l = &r->order.level[r->order.n - 1];
    const Bank tree = tree_new(e, r, l);
    add_items(e, r, l, partials, &tree);
    return level_result(e, r, l, partials, &tree);
}

/* Sums of sums: what level k adds up to. */
static Group sum_level(Emit *e, Reduction *r, int k, const Bank *partials)
{
    if (k >= r->order.n - 1) {
        set_identity(e, r, partials, most_partials(r));
        return innermost(e, r, partials);
    }
    const SumLevel *l = &r->order.level[k];
    const Bank own = bank_new(e, r, 1, "sum"), tree = tree_new(e, r, l);
    set_identity(e, r, &own, 1);
    r->at.at[l->axis] = emit_loop_begin(e, l->whole);
    const Affine round = r->at.at[l->axis];
    const Group part = sum_level(e, r, k + 1, partials);
    Group sum = group_at(e, r, &own, 0);
    sum = group_join(e, r, &sum, &part);
    group_store(e, r, &own, emit_const_i64(e, 0), &sum);
    end_step(e, r, l, &own, &tree, &round);
    emit_loop_end(e);
    return level_result(e, r, l, &own, &tree);
}

Group reduce_levels(Emit *e, Reduction *r)
{
    const Bank partials = bank_new(e, r, most_partials(r), "acc");
    if (r->info->rounded)
        return sum_level(e, r, 0, &partials);
    set_identity(e, r, &partials, most_partials(r));
    for (int k = 0; k < r->order.n - 1; k++)
        r->at.at[r->order.level[k].axis] = emit_loop_begin(e, r->order.level[k].whole);
    innermost(e, r, &partials);
    for (int k = 0; k < r->order.n - 1; k++)
        emit_loop_end(e);
    return fold_partials(e, r, &partials, most_partials(r));
}
