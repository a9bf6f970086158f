/* Philox 4x32-10 (Salmon et al., SC'11).
 *
 * Each word is held in the low half of a 64 bit lane, the high half may hold anything: a 32 x 32
 * multiplication of low halves is one instruction (pmuludq) and gives both result words, so that
 * a round of four words is two multiplications, two shifts and four exclusive ors. */
#include "codegen/cpu/philox.h"

#include <assert.h>

#include "codegen/cpu/emit.h"
#include "codegen/cpu/scalar_build.h"

enum {
    ROUNDS = 10,
    COUNTER_WORDS = 4 /* of 32 bits, that one counter gives */
};
static_assert(MAX_LANES % COUNTER_WORDS == 0, "a run of lanes is whole counters");

static const uint64_t multiplier[2] = {0xD2511F53, 0xCD9E8D57};
static const uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};
static const uint64_t low_half = 0xFFFFFFFF;

uint64_t philox_path_hash(const char *path)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const unsigned char *p = (const unsigned char *)path; *p; p++)
        h = (h ^ *p) * 0x100000001b3u;
    return h;
}

static Val low(LLVMBuilderRef b, Val x)
{
    return LLVMBuildAnd(b, x, fm_splat_int(LLVMTypeOf(x), low_half), "");
}

static Val high(LLVMBuilderRef b, Val x)
{
    return LLVMBuildLShr(b, x, fm_splat_int(LLVMTypeOf(x), 32), "");
}

static Val spread(LLVMBuilderRef b, Val scalar, unsigned lanes)
{
    if (!lanes)
        return scalar;
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
    Val zero = LLVMConstInt(LLVMInt32TypeInContext(LLVMGetTypeContext(type)), 0, false);
    Val v = LLVMBuildInsertElement(b, LLVMGetPoison(type), scalar, zero, "");
    return LLVMBuildShuffleVector(b, v, LLVMGetPoison(type),
                                  LLVMConstNull(LLVMVectorType(LLVMTypeOf(zero), lanes)), "");
}

static Val product(LLVMBuilderRef b, Val x, int which)
{
    Val m = fm_splat_int(LLVMTypeOf(x), multiplier[which]);
    return LLVMBuildMul(b, low(b, x), m, "");
}

static void philox_round(LLVMBuilderRef b, Val c[COUNTER_WORDS], Val key0, Val key1)
{
    Val p0 = product(b, c[0], 0), p1 = product(b, c[2], 1);
    c[0] = LLVMBuildXor(b, LLVMBuildXor(b, high(b, p1), key0, ""), c[1], "");
    c[2] = LLVMBuildXor(b, LLVMBuildXor(b, high(b, p0), key1, ""), c[3], "");
    c[1] = p1;
    c[3] = p0;
}

/* Key word of a round, in every lane. */
static Val round_key(LLVMBuilderRef b, Val word, int round, int which, unsigned lanes)
{
    const uint64_t add = (uint64_t)weyl[which] * (uint64_t)round;
    return spread(b, LLVMBuildAdd(b, word, fm_splat_int(LLVMTypeOf(word), add), ""), lanes);
}

void philox_emit_block(LLVMBuilderRef b, const PhiloxKey *k, LLVMValueRef block,
                       LLVMValueRef word[4])
{
    const unsigned lanes = fm_lanes(block);
    Val key[2] = {k->seed, high(b, k->seed)};
    Val c[COUNTER_WORDS] = {block, spread(b, k->step, lanes), spread(b, low(b, k->path), lanes),
                            spread(b, high(b, k->path), lanes)};
    for (int i = 0; i < ROUNDS; i++)
        philox_round(b, c, round_key(b, key[0], i, 0, lanes),
                     round_key(b, key[1], i, 1, lanes));
    for (int w = 0; w < 4; w++)
        word[w] = low(b, c[w]);
}

/* Word element % 4 of each lane, by two choices. */
static Val choose(LLVMBuilderRef b, Val element, Val word[COUNTER_WORDS])
{
    LLVMTypeRef type = LLVMTypeOf(element);
    Val zero = fm_splat_int(type, 0);
    Val odd = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, element, fm_splat_int(type, 1), ""),
                            zero, "");
    Val upper = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, element, fm_splat_int(type, 2), ""),
                              zero, "");
    Val lo = LLVMBuildSelect(b, odd, word[1], word[0], "");
    Val hi = LLVMBuildSelect(b, odd, word[3], word[2], "");
    return LLVMBuildSelect(b, upper, hi, lo, "");
}

LLVMValueRef philox_emit(LLVMBuilderRef b, const PhiloxKey *k, LLVMValueRef element)
{
    Val word[COUNTER_WORDS];
    philox_emit_block(b, k, LLVMBuildLShr(b, element, fm_splat_int(LLVMTypeOf(element), 2), ""),
                      word);
    return choose(b, element, word);
}

/* Lane i takes element order[i] of the two vectors side by side. */
static Val shuffle(LLVMBuilderRef b, Val x, Val y, const unsigned *order, unsigned n)
{
    Val index[MAX_LANES];
    LLVMTypeRef i32 = LLVMInt32TypeInContext(LLVMGetTypeContext(LLVMTypeOf(x)));
    for (unsigned i = 0; i < n; i++)
        index[i] = LLVMConstInt(i32, order[i], false);
    return LLVMBuildShuffleVector(b, x, y, LLVMConstVector(index, n), "");
}

/* x0 y0 x1 y1 ... */
static Val interleave(LLVMBuilderRef b, Val x, Val y, unsigned lanes)
{
    unsigned order[MAX_LANES];
    for (unsigned i = 0; i < 2 * lanes; i++)
        order[i] = i / 2 + (i % 2 ? lanes : 0);
    return shuffle(b, x, y, order, 2 * lanes);
}

/* Counters first / 4 + 0, 1, ... */
static Val run_counters(LLVMBuilderRef b, Val first, unsigned counters)
{
    Val start = LLVMBuildLShr(b, first, fm_splat_int(LLVMTypeOf(first), 2), "");
    Val number[MAX_LANES / COUNTER_WORDS];
    for (unsigned i = 0; i < counters; i++)
        number[i] = LLVMConstInt(LLVMTypeOf(first), i, false);
    return LLVMBuildAdd(b, spread(b, start, counters), LLVMConstVector(number, counters), "");
}

LLVMValueRef philox_emit_run(LLVMBuilderRef b, const PhiloxKey *k, LLVMValueRef first,
                             unsigned lanes)
{
    const unsigned counters = lanes / COUNTER_WORDS;
    Val word[COUNTER_WORDS];
    philox_emit_block(b, k, run_counters(b, first, counters), word);
    /* words w of all counters -> counter by counter: interleave 0 with 2, 1 with 3, then those
     * two */
    Val even = interleave(b, word[0], word[2], counters);
    Val odd = interleave(b, word[1], word[3], counters);
    return interleave(b, even, odd, 2 * counters);
}

/* Lane i is element first + i, and first is a multiple of 4 whatever the other variables are. */
static bool is_aligned_run(const Emit *e, const Affine *element)
{
    if (!affine_lane_linear(&e->space, element) || affine_coef(element, AFFINE_LANE) != 1 ||
        element->base % COUNTER_WORDS != 0)
        return false;
    for (int i = 0; i < element->n; i++)
        if (element->term[i].var != AFFINE_LANE && element->term[i].coef % COUNTER_WORDS != 0)
            return false;
    return true;
}

LLVMValueRef emit_philox_at(Emit *e, const PhiloxKey *key, const Affine *element)
{
    if (!is_aligned_run(e, element))
        return philox_emit(e->builder, key, emit_affine(e, element));
    return philox_emit_run(e->builder, key, emit_affine_first(e, element), (unsigned)e->lanes);
}
