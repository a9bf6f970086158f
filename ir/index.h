/* Indices as affine forms, for everything that has to know which element of a value is meant: the
 * reading rule (ir/reading.h), and with it the planner and the back ends.
 *
 * A component of an index is c0 + sum coef_k * var_k, and of each variable the range is known.  A
 * variable is the counter of a loop, the lane number of a vectorised loop (AFFINE_LANE), a
 * quotient or remainder that ranges do not resolve (of a reshape that splits an axis), or a value
 * that only the running program knows (a gather's index).  So sums, multiples, quotients and
 * remainders of forms are forms again: a client only has to know how to compute each variable,
 * and strides are coefficients.
 *
 * A vectorised axis is W * block + lane.  Variables are numbers into an IndexSpace. */
#ifndef HFTAC_IR_INDEX_H
#define HFTAC_IR_INDEX_H

#include "ir/graph.h"

enum {
    AFFINE_MAX_TERMS = 16,
    AFFINE_LANE = 0
};

typedef struct AffineTerm {
    int var;
    /* never 0 */
    int64_t coef;
} AffineTerm;

/* Terms stand in ascending order of var, so that equal forms are equal term by term. */
typedef struct Affine {
    int64_t base;
    int n;
    AffineTerm term[AFFINE_MAX_TERMS];
} Affine;

typedef struct Index {
    int rank;
    Affine at[MAX_RANK];
} Index;

typedef enum AffineVarKind {
    AFFINE_VAR_LANE,
    AFFINE_VAR_LOOP,
    AFFINE_VAR_DIV,  /* of / by, rounded down; of >= 0 */
    AFFINE_VAR_MOD,  /* of % by */
    AFFINE_VAR_VALUE /* known to the back end */
} AffineVarKind;

typedef struct AffineVar {
    AffineVarKind kind;
    /* lo <= value <= hi */
    int64_t lo, hi;
    /* may differ between lanes */
    bool lanes;
    /* DIV, MOD */
    Affine of;
    int64_t by;
} AffineVar;

typedef struct IndexSpace {
    Arena *arena;
    AffineVar *var;
    int n, cap;
} IndexSpace;

/* Makes a space whose variable 0 is AFFINE_LANE with 0 <= lane < n_lanes. */
void index_space_init(IndexSpace *s, Arena *a, int n_lanes);
/* A space for one reading, of at most n variables in memory of the caller's and without lanes.
 * It has no arena: what is read through it keeps no guards. */
void index_space_init_fixed(IndexSpace *s, AffineVar *var, int n);
int index_var(IndexSpace *s, AffineVarKind kind, int64_t lo, int64_t hi, bool lanes);

Affine affine_const(int64_t c);
Affine affine_var(int var);
Affine affine_add(const Affine *a, const Affine *b);
Affine affine_scale(const Affine *a, int64_t by);
Affine affine_plus(const Affine *a, int64_t c);
bool affine_equal(const Affine *a, const Affine *b);
bool affine_is_const(const Affine *a);
/* 0 if var does not occur. */
int64_t affine_coef(const Affine *a, int var);
/* The same without one variable. */
Affine affine_without(const Affine *a, int var);
/* Range of values, both ends included. */
void affine_range(const IndexSpace *s, const Affine *a, int64_t *lo, int64_t *hi);
/* May its value differ between lanes? */
bool affine_lanes(const IndexSpace *s, const Affine *a);
/* The lane coefficient is the whole dependence on lanes: no other variable has lanes. */
bool affine_lane_linear(const IndexSpace *s, const Affine *a);
/* a / d and a % d for a >= 0, d > 0; makes DIV and MOD variables where ranges do not resolve it. */
void affine_split(IndexSpace *s, const Affine *a, int64_t d, Affine *quotient, Affine *rest);

/* Puts q * d + r back together where q = x / d and r = x % d both occur. */
Affine affine_join(const IndexSpace *s, const Affine *a);

bool index_equal(const Index *a, const Index *b);
bool index_lanes(const IndexSpace *s, const Index *i);
uint64_t index_hash(const Index *i);
/* The row-major number of element i of a value of that shape. */
Affine index_flatten(const IndexSpace *s, const Shape *shape, const Index *i);
/* sum i_k * stride_k over axes whose extent is above 1. */
Affine index_offset(const IndexSpace *s, const Shape *shape, const int64_t *stride,
                    const Index *i);
/* The index of a value of that shape whose number is `flat`, counting in that order of the axes,
 * outermost first (NULL: row-major). */
Index index_unflatten(IndexSpace *s, const Shape *shape, const int *order, Affine flat);
/* Forms and indices are large and mostly empty: these copy what is in use. */
void affine_copy(Affine *to, const Affine *from);
void index_copy(Index *to, const Index *from);
/* Index into an operand of that shape that broadcasts: aligned to the right, 0 where its extent
 * is 1. */
Index index_broadcast(const Shape *operand, const Index *i);
void index_broadcast_to(Index *to, const Shape *operand, const Index *i);

#endif
