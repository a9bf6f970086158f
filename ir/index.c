/* Affine forms as sorted lists of terms.  A quotient is resolved exactly when the part of the
 * form that is no multiple of the divisor stays within one block of it; before a DIV or MOD
 * variable is made, a common factor of divisor and coarse terms is taken out, so that (8 * block
 * + lane) / 16 becomes block / 2 and stays the same in all lanes. */
#include "ir/index.h"

#include <string.h>

#include "ir/shape.h"

void index_space_init(IndexSpace *s, Arena *a, int n_lanes)
{
    *s = (IndexSpace){.arena = a};
    index_var(s, AFFINE_VAR_LANE, 0, n_lanes - 1, true);
}

void index_space_init_fixed(IndexSpace *s, AffineVar *var, int n)
{
    *s = (IndexSpace){.var = var, .cap = n};
    index_var(s, AFFINE_VAR_LANE, 0, 0, true);
}

int index_var(IndexSpace *s, AffineVarKind kind, int64_t lo, int64_t hi, bool lanes)
{
    if (s->n == s->cap && !s->arena)
        diag_internal(NULL, "a reading has more than %d variables", s->cap);
    if (s->n == s->cap)
        s->var = arena_grow(s->arena, s->var, &s->cap, sizeof *s->var);
    s->var[s->n] = (AffineVar){.kind = kind, .lo = lo, .hi = hi, .lanes = lanes};
    return s->n++;
}

/* Terms behind the last one are not set: forms and indices are large, and mostly empty. */
Affine affine_const(int64_t c)
{
    Affine a;
    a.base = c;
    a.n = 0;
    return a;
}

Affine affine_var(int var)
{
    Affine a = affine_const(0);
    a.n = 1;
    a.term[0] = (AffineTerm){.var = var, .coef = 1};
    return a;
}

static void add_term(Affine *a, int var, int64_t coef)
{
    if (coef == 0)
        return;
    if (a->n == AFFINE_MAX_TERMS)
        diag_internal(NULL, "an index form has more than %d variables", AFFINE_MAX_TERMS);
    a->term[a->n++] = (AffineTerm){.var = var, .coef = coef};
}

Affine affine_add(const Affine *a, const Affine *b)
{
    Affine sum = affine_const(a->base + b->base);
    int i = 0, j = 0;
    while (i < a->n || j < b->n) {
        if (j == b->n || (i < a->n && a->term[i].var < b->term[j].var)) {
            add_term(&sum, a->term[i].var, a->term[i].coef);
            i++;
        } else if (i == a->n || b->term[j].var < a->term[i].var) {
            add_term(&sum, b->term[j].var, b->term[j].coef);
            j++;
        } else {
            add_term(&sum, a->term[i].var, a->term[i].coef + b->term[j].coef);
            i++;
            j++;
        }
    }
    return sum;
}

Affine affine_scale(const Affine *a, int64_t by)
{
    Affine r = affine_const(a->base * by);
    for (int i = 0; i < a->n; i++)
        add_term(&r, a->term[i].var, a->term[i].coef * by);
    return r;
}

Affine affine_plus(const Affine *a, int64_t c)
{
    Affine r = *a;
    r.base += c;
    return r;
}

bool affine_equal(const Affine *a, const Affine *b)
{
    if (a->base != b->base || a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var != b->term[i].var || a->term[i].coef != b->term[i].coef)
            return false;
    return true;
}

bool affine_is_const(const Affine *a)
{
    return a->n == 0;
}

int64_t affine_coef(const Affine *a, int var)
{
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var == var)
            return a->term[i].coef;
    return 0;
}

Affine affine_without(const Affine *a, int var)
{
    Affine r = affine_const(a->base);
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var != var)
            add_term(&r, a->term[i].var, a->term[i].coef);
    return r;
}

void affine_range(const IndexSpace *s, const Affine *a, int64_t *lo, int64_t *hi)
{
    *lo = *hi = a->base;
    for (int i = 0; i < a->n; i++) {
        const AffineVar *v = &s->var[a->term[i].var];
        const int64_t c = a->term[i].coef;
        *lo += c > 0 ? c * v->lo : c * v->hi;
        *hi += c > 0 ? c * v->hi : c * v->lo;
    }
}

bool affine_lanes(const IndexSpace *s, const Affine *a)
{
    for (int i = 0; i < a->n; i++)
        if (s->var[a->term[i].var].lanes)
            return true;
    return false;
}

bool affine_lane_linear(const IndexSpace *s, const Affine *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->term[i].var != AFFINE_LANE && s->var[a->term[i].var].lanes)
            return false;
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t gcd(int64_t a, int64_t b)
{
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* a = g * coarse + fine, where fine takes the terms that are no multiples of g. */
static void part(const Affine *a, int64_t g, Affine *coarse, Affine *fine)
{
    const int64_t q = floor_div(a->base, g);
    *coarse = affine_const(q);
    *fine = affine_const(a->base - q * g);
    for (int i = 0; i < a->n; i++) {
        const AffineTerm t = a->term[i];
        if (t.coef % g == 0)
            add_term(coarse, t.var, t.coef / g);
        else
            add_term(fine, t.var, t.coef);
    }
}

/* The variable of / by or of % by, the same one for the same form.  The lane's range may have
 * grown since the form was first seen (a tail has fewer lanes), so the variable's range grows
 * with it. */
static int opaque_var(IndexSpace *s, AffineVarKind kind, const Affine *of, int64_t by)
{
    int64_t lo, hi;
    affine_range(s, of, &lo, &hi);
    lo = kind == AFFINE_VAR_DIV ? floor_div(lo, by) : 0;
    hi = kind == AFFINE_VAR_DIV ? floor_div(hi, by) : by - 1;
    for (int i = 0; i < s->n; i++) {
        AffineVar *v = &s->var[i];
        if (v->kind != kind || v->by != by || !affine_equal(&v->of, of))
            continue;
        v->lo = lo < v->lo ? lo : v->lo;
        v->hi = hi > v->hi ? hi : v->hi;
        return i;
    }
    const int v = index_var(s, kind, lo, hi, affine_lanes(s, of));
    s->var[v].of = *of;
    s->var[v].by = by;
    return v;
}

/* The largest g > 1 dividing d such that the terms that are no multiples of g stay within 0 ..
 * g-1; 1: none. */
static int64_t common_factor(const IndexSpace *s, const Affine *a, int64_t d)
{
    int64_t best = 1;
    for (int i = 0; i < a->n; i++) {
        const int64_t g = gcd(a->term[i].coef, d);
        if (g <= best)
            continue;
        Affine coarse, fine;
        int64_t lo, hi;
        part(a, g, &coarse, &fine);
        affine_range(s, &fine, &lo, &hi);
        if (lo >= 0 && hi < g)
            best = g;
    }
    return best;
}

void affine_split(IndexSpace *s, const Affine *a, int64_t d, Affine *quotient, Affine *rest)
{
    Affine coarse, fine;
    int64_t lo, hi;
    part(a, d, &coarse, &fine);
    affine_range(s, &fine, &lo, &hi);
    if (floor_div(lo, d) == floor_div(hi, d)) {
        const int64_t block = floor_div(lo, d);
        *quotient = affine_plus(&coarse, block);
        *rest = affine_plus(&fine, -block * d);
        return;
    }
    if (lo < 0) { /* quotients of negative numbers are not computed */
        const int64_t up = -floor_div(lo, d);
        fine = affine_plus(&fine, up * d);
        coarse = affine_plus(&coarse, -up);
    }
    const int64_t g = common_factor(s, &fine, d);
    Affine q, r;
    if (g > 1) {
        Affine big, small;
        part(&fine, g, &big, &small);
        affine_split(s, &big, d / g, &q, &r);
        r = affine_scale(&r, g);
        r = affine_add(&r, &small);
    } else {
        q = affine_var(opaque_var(s, AFFINE_VAR_DIV, &fine, d));
        r = affine_var(opaque_var(s, AFFINE_VAR_MOD, &fine, d));
    }
    *quotient = affine_add(&coarse, &q);
    *rest = r;
}

/* The DIV variable that belongs to a MOD variable, if it stands in a with by times the
 * coefficient. */
static int matching_div(const IndexSpace *s, const Affine *a, const AffineTerm *mod)
{
    const AffineVar *m = &s->var[mod->var];
    for (int i = 0; i < a->n; i++) {
        const AffineVar *d = &s->var[a->term[i].var];
        if (d->kind == AFFINE_VAR_DIV && d->by == m->by &&
            a->term[i].coef == mod->coef * m->by && affine_equal(&d->of, &m->of))
            return a->term[i].var;
    }
    return -1;
}

Affine affine_join(const IndexSpace *s, const Affine *a)
{
    Affine r = *a;
    for (int i = 0; i < r.n; i++) {
        const AffineTerm t = r.term[i];
        if (s->var[t.var].kind != AFFINE_VAR_MOD)
            continue;
        const int div = matching_div(s, &r, &t);
        if (div < 0)
            continue;
        const Affine whole = affine_scale(&s->var[t.var].of, t.coef);
        r = affine_without(&r, t.var);
        r = affine_without(&r, div);
        r = affine_add(&r, &whole);
        i = -1;
    }
    return r;
}

bool index_equal(const Index *a, const Index *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (!affine_equal(&a->at[i], &b->at[i]))
            return false;
    return true;
}

bool index_lanes(const IndexSpace *s, const Index *i)
{
    for (int k = 0; k < i->rank; k++)
        if (affine_lanes(s, &i->at[k]))
            return true;
    return false;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * UINT64_C(0x100000001b3);
}

uint64_t index_hash(const Index *i)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int k = 0; k < i->rank; k++) {
        const Affine *a = &i->at[k];
        h = mix(h, (uint64_t)a->base);
        for (int t = 0; t < a->n; t++)
            h = mix(mix(h, (uint64_t)a->term[t].var), (uint64_t)a->term[t].coef);
    }
    return h;
}

Affine index_offset(const IndexSpace *s, const Shape *shape, const int64_t *stride,
                    const Index *i)
{
    Affine sum = affine_const(0);
    for (int k = 0; k < shape->rank; k++) {
        if (shape->dim[k] <= 1)
            continue;
        const Affine step = affine_scale(&i->at[k], stride[k]);
        sum = affine_add(&sum, &step);
    }
    return affine_join(s, &sum);
}

Affine index_flatten(const IndexSpace *s, const Shape *shape, const Index *i)
{
    int64_t stride[MAX_RANK];
    shape_strides(shape, stride);
    return index_offset(s, shape, stride, i);
}

void affine_copy(Affine *to, const Affine *from)
{
    to->base = from->base;
    to->n = from->n;
    for (int k = 0; k < from->n; k++)
        to->term[k] = from->term[k];
}

void index_copy(Index *to, const Index *from)
{
    to->rank = from->rank;
    for (int k = 0; k < from->rank; k++)
        affine_copy(&to->at[k], &from->at[k]);
}

void index_broadcast_to(Index *to, const Shape *operand, const Index *i)
{
    const int skip = i->rank - operand->rank;
    to->rank = operand->rank;
    for (int k = 0; k < operand->rank; k++) {
        to->at[k].base = to->at[k].n = 0;
        if (operand->dim[k] != 1)
            affine_copy(&to->at[k], &i->at[skip + k]);
    }
}

Index index_broadcast(const Shape *operand, const Index *i)
{
    Index r;
    index_broadcast_to(&r, operand, i);
    return r;
}

Index index_unflatten(IndexSpace *s, const Shape *shape, const int *order, Affine flat)
{
    Index r;
    r.rank = shape->rank;
    int first = 0;
    while (first < shape->rank && shape->dim[order ? order[first] : first] == 1)
        first++;
    for (int k = shape->rank - 1; k >= 0; k--) {
        const int axis = order ? order[k] : k;
        Affine quotient;
        if (k <= first || shape->dim[axis] == 1) {
            r.at[axis] = k == first ? flat : affine_const(0);
            continue;
        }
        affine_split(s, &flat, shape->dim[axis], &quotient, &r.at[axis]);
        flat = quotient;
    }
    return r;
}
