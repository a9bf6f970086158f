/* Which group comes before which: edges, one order of all groups that agrees with them, and the
 * question whether a path leads from one group to another.
 *
 * Groups stand in a list with ascending labels, every edge forward.  A path from a to b lies
 * between the two, so it is looked for from both ends at once, edge by edge in turn, and only
 * there: most questions are about neighbours.  When one end has no edge left there is no path,
 * and what was met from that end can move past the other one: so two groups become one, and an
 * edge that runs backward becomes a forward one. */
#include "passes/fuse/vfuse.h"

#include <stdlib.h>

enum {
    LABEL_STEP = 1 << 30
};

/* ---- the list ---- */

static void relabel(Fuse *f)
{
    int64_t label = 0;
    for (int g = f->first_group; g >= 0; g = f->groups[g].next)
        f->groups[g].label = label += LABEL_STEP;
}

/* Behind `after`; -1: in front of all. */
static void insert(Fuse *f, int g, int after)
{
    Group *groups = f->groups, *x = &groups[g];
    x->prev = after;
    x->next = after < 0 ? f->first_group : groups[after].next;
    *(after < 0 ? &f->first_group : &groups[after].next) = g;
    *(x->next < 0 ? &f->last_group : &groups[x->next].prev) = g;
    const int64_t lo = after < 0 ? 0 : groups[after].label;
    const int64_t hi = x->next < 0 ? lo + 2 * (int64_t)LABEL_STEP : groups[x->next].label;
    x->label = lo + (hi - lo) / 2;
    if (x->label == lo)
        relabel(f);
}

static void take_out(Fuse *f, int g)
{
    const Group *x = &f->groups[g];
    *(x->prev < 0 ? &f->first_group : &f->groups[x->prev].next) = x->next;
    *(x->next < 0 ? &f->last_group : &f->groups[x->next].prev) = x->prev;
}

void order_init(Fuse *f)
{
    f->first_group = f->last_group = -1;
    for (int i = 0; i < 2; i++) {
        f->side[i].met_in =
            arena_array(f->scratch, (size_t)f->cap_groups + 1, sizeof *f->side[i].met_in);
        f->side[i].met =
            arena_array(f->scratch, (size_t)f->cap_groups + 1, sizeof *f->side[i].met);
    }
}

void order_append(Fuse *f, int g)
{
    insert(f, g, f->last_group);
}

/* ---- paths ---- */

enum {
    BACKWARD, /* from the end against the edges */
    FORWARD
};

typedef enum Found {
    FOUND_NOTHING, /* yet */
    FOUND_END,     /* this side has no edge left */
    FOUND_PATH
} Found;

static void start(Fuse *f, int side, int from)
{
    OrderSide *s = &f->side[side];
    s->met[0] = from;
    s->n = 1;
    s->at = s->edge = 0;
    s->met_in[from] = f->search;
}

/* Looks at one edge. */
static Found step(Fuse *f, int side, bool direct)
{
    OrderSide *s = &f->side[side];
    const OrderSide *other = &f->side[1 - side];
    if (s->at == s->n)
        return FOUND_END;
    const Group *g = &f->groups[s->met[s->at]];
    const IdSet *edges = side == FORWARD ? &g->after : &g->before;
    if (s->edge == edges->n) {
        s->at++;
        s->edge = 0;
        return FOUND_NOTHING;
    }
    const int x = edges->v[s->edge++], goal = other->met[0];
    if (x == goal)
        return s->at > 0 || direct ? FOUND_PATH : FOUND_NOTHING;
    const int64_t way = f->groups[goal].label - f->groups[x].label;
    if ((side == FORWARD ? way : -way) < 0 || s->met_in[x] == f->search)
        return FOUND_NOTHING;
    if (other->met_in[x] == f->search)
        return FOUND_PATH;
    s->met_in[x] = f->search;
    s->met[s->n++] = x;
    return FOUND_NOTHING;
}

/* a stands before b.  f->exhausted: the side that found no edge left. */
static bool path_between(Fuse *f, int a, int b, bool direct)
{
    f->search++;
    start(f, FORWARD, a);
    start(f, BACKWARD, b);
    for (;;)
        for (int side = 0; side < 2; side++) {
            const Found found = step(f, side, direct);
            f->exhausted = side;
            if (found != FOUND_NOTHING)
                return found == FOUND_PATH;
        }
}

static bool stands_before(const Fuse *f, int a, int b)
{
    return f->groups[a].label < f->groups[b].label;
}

bool order_reaches(Fuse *f, int a, int b)
{
    return stands_before(f, a, b) && path_between(f, a, b, true);
}

bool order_between(Fuse *f, int a, int b)
{
    return stands_before(f, a, b) ? path_between(f, a, b, false) : path_between(f, b, a, false);
}

/* ---- changes ---- */

typedef struct Labelled {
    int64_t label;
    int group;
} Labelled;

static int by_label(const void *a, const void *b)
{
    const Labelled *x = a, *y = b;
    return (x->label > y->label) - (x->label < y->label);
}

/* What the exhausted side has met, from number `first` on, moves past the other end, in the order
 * it stands in. */
static void move_met(Fuse *f, int first)
{
    const OrderSide *s = &f->side[f->exhausted];
    const int end = f->side[1 - f->exhausted].met[0], n = s->n - first;
    if (n == 0)
        return;
    Labelled *moved = arena_array(f->scratch, (size_t)n, sizeof *moved);
    for (int i = 0; i < n; i++)
        moved[i] = (Labelled){f->groups[s->met[first + i]].label, s->met[first + i]};
    qsort(moved, (size_t)n, sizeof *moved, by_label);
    int after = f->exhausted == FORWARD ? end : f->groups[end].prev;
    for (int i = 0; i < n; i++) {
        take_out(f, moved[i].group);
        insert(f, moved[i].group, after);
        after = moved[i].group;
    }
}

void order_precede(Fuse *f, int a, int b)
{
    /* A path back makes a cycle, which the kernels' order reports. */
    if (stands_before(f, b, a) && !path_between(f, b, a, true))
        move_met(f, 0);
    idset_add(f->scratch, &f->groups[b].before, a);
    idset_add(f->scratch, &f->groups[a].after, b);
}

/* All edges of a are b's. */
static void take_edges(Fuse *f, int a, int b, int side)
{
    Group *from = &f->groups[a], *to = &f->groups[b];
    IdSet *own = side == FORWARD ? &from->after : &from->before;
    IdSet *all = side == FORWARD ? &to->after : &to->before;
    for (int i = 0; i < own->n; i++) {
        Group *x = &f->groups[own->v[i]];
        IdSet *back = side == FORWARD ? &x->before : &x->after;
        idset_remove(back, a);
        if (x != to)
            idset_add(f->scratch, back, b);
    }
    idset_take(f->scratch, all, own);
    idset_remove(all, a);
    idset_remove(all, b);
    *own = (IdSet){0};
}

void order_join(Fuse *f, int a, int b)
{
    const int goal = f->side[1 - f->exhausted].met[0];
    move_met(f, 1);
    if (goal == b) {
        take_out(f, a);
    } else {
        take_out(f, b);
        insert(f, b, a);
        take_out(f, a);
    }
    take_edges(f, a, b, BACKWARD);
    take_edges(f, a, b, FORWARD);
}
