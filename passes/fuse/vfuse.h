/* Vertical fusion and planning, private to passes/: what its files hand each other.
 *
 * plan_build goes over one graph at a time:
 *
 *   vfuse_choose   which values are stored: results, contractions with the elementwise chain
 *                  behind them, reductions, operands that must lie in memory, and what is
 *                  expensive to compute again
 *   vfuse_groups   one group for each stored value, with its edges
 *   vfuse_merge    groups become kernels; what is then read by its own kernel only is stored no
 *                  more
 *   vfuse_kernels  order, loops, buffers
 *   memory_plan    offsets */
#ifndef HFTAC_PASSES_FUSE_VFUSE_H
#define HFTAC_PASSES_FUSE_VFUSE_H

#include "ir/plan.h"
#include "ir/reading.h"
#include "ir/strides.h"
#include "ir/support/idset.h"

/* One evaluation of a node inside a kernel. */
typedef struct Visit {
    Node *node;
    /* Per axis of the node: the axes of the space that the index component depends on, and
     * VISIT_REDUCED. */
    uint16_t component[MAX_RANK];
    /* inside a reduction: what the result's index depends on, and VISIT_REDUCED */
    uint16_t outer;
    /* the node has the space's shape and is read at the space's own index */
    bool exact;
    /* read from memory */
    bool external;
    /* next visit of the same node, -1: none */
    int next;
} Visit;

enum {
    VISIT_REDUCED = 1 << MAX_RANK
};

typedef struct VisitList {
    Visit *v;
    int n, cap;
    /* by node id, -1: not visited */
    int *first;
} VisitList;

/* All evaluations that stores of `roots` over `space` need.  A contraction's or scatter's
 * operands are visited through their views, at no index. */
void visit_kernel(VisitList *out, Arena *a, const Graph *g, int n_roots, Node *const *roots,
                  const Shape *space, ReadFromMemory *external, const void *context);
/* Union of the components. */
unsigned visit_mask(const Visit *v);
/* The last axis of the operand that is longer than 1 is reduced: the reduction is vectorised
 * along it, in partials. Else: one chain per result.  Depends on logical axes only, so that no
 * plan changes bits. */
bool reduces_inner(const Node *reduce);
/* Is each axis of the space that is outside the innermost one in mask itself in mask (or of
 * extent 1)? Else a value of that mask is computed again in some loop. */
bool mask_is_prefix(unsigned mask, const Shape *space, const int *order);

/* A leaf with a place; a constant with one value is written into the code instead. */
bool leaf_in_memory(const Node *n);
bool node_is_leaf(const Node *n);
bool node_is_splat(const Node *n);
OpKind node_kind(const Node *n);

/* One store of a group: to NULL: the place of the value itself, which is found when all is
 * merged. */
typedef struct Item {
    Node *value;
    Buffer *to;
    /* of the Store */
    Buffer *flag;
    /* Only a reader of value: another group computes it, or it is a leaf, or cheap. */
    bool copy;
} Item;

typedef struct Group {
    KernelKind kind;
    /* merged into another one, or not needed */
    bool dead;
    bool per_model;
    Node *anchor;
    Item *items;
    int n_items;
    Shape space;
    int order[MAX_RANK];
    int vector;
    /* that it needs, counted when its loop nest was found */
    int evaluations;
    /* nodes: leaves in memory and values of other groups */
    IdSet reads;
    /* groups that must come before, and ... */
    IdSet before;
    /* ... those that must come after this one */
    IdSet after;
    /* vfuse_order.c: ascending along all edges */
    int64_t label;
    /* in the order of labels, -1: none */
    int prev, next;
    /* scalar operations that it does above once per element */
    double again;
    /* KERNEL_LOOP: the anchor is the loop, the items are its results */
    LoopPlan *loop;
} Group;

/* One end of a search for a path (vfuse_order.c). */
typedef struct OrderSide {
    /* by group: the last search that met it */
    int *met_in;
    /* met[0]: where it began */
    int *met;
    /* of met */
    int n;
    /* the next edge to look at: that one of met[at] */
    int at, edge;
} OrderSide;

/* A loop's body lies as a whole in one region. */
typedef enum Region {
    REGION_BY_TYPE,
    REGION_SHARED,
    REGION_MODELS
} Region;

typedef struct Fuse {
    /* of the plan */
    Arena *arena;
    /* of the pass */
    Arena *scratch;
    Plan *plan;
    EntryPlan *entry;
    Graph *graph;
    bool optimize;
    Region region;
    /* nodes */
    int n;
    /* distinct readers by node id, outputs included */
    int *users;
    /* by node id */
    bool *stored;
    /* By node id: to be stored, as its readers' kernels would compute it too often. */
    bool *too_often;
    /* By node id: the contraction that the value is elementwise computed from, inside its
     * kernel. */
    Node **anchor;
    /* by node id: of the values that are computed to compute it (passes/fuse/work.h) */
    int *depth;
    /* by node id: to compute one element from what is in memory */
    double *cost;
    /* by node id: the group that stores it, -1 */
    int *owner;
    /* By node id: a value of its own place is stored with these strides; NULL: natural ones. */
    const Buffer **strides_like;
    /* by position in graph->outputs: where it goes; NULL: nowhere */
    Buffer **output;
    Buffer **output_value2;
    /* of states that are guarded */
    Buffer **output_flag;
    Group *groups;
    int n_groups, cap_groups;
    /* by node id: groups that have read it; some may do so no more */
    IdSet *readers;
    /* for a merge */
    IdSet candidates;
    int first_group, last_group;
    OrderSide side[2];
    int search, exhausted;
    /* of the last group that was looked at */
    VisitList visits;
    struct Work *work;
    /* Of the last group for which no nest was found: what it computes too often; or NULL. */
    const Node *excess;
} Fuse;

/* Everything below, and memory. */
void vfuse_graph(Fuse *f);
/* The buffer of a leaf from outside. */
Buffer *place_leaf(const Fuse *f, const Node *n);
Buffer *place_state(const Fuse *f, const char *name);
/* A value in row-major order, at no place yet. */
Buffer place_buffer(const char *name, BufferSpace space, const Type *t);
/* Is what is of each model if its type says so, computed once for each model? */
bool vfuse_per_model(const Fuse *f, bool by_type);
void vfuse_choose(Fuse *f);
/* false: a group computes something too often; that is noted, and the values are to be chosen
 * again. */
bool vfuse_groups(Fuse *f);
/* false: as vfuse_groups. */
bool vfuse_merge(Fuse *f);
/* Fills kernels, buffer, results of the entry. */
void vfuse_kernels(Fuse *f);

/* vfuse_group.c: the primitives of merging. */
/* Makes b of a and b if the result is a kernel that can be, without a cycle. */
bool group_try_merge(Fuse *f, int a, int b);
/* Finds space, loops, reads of a group; false if no loop nest does it. */
bool group_find_nest(Fuse *f, int g);
/* Do all of them together compute nothing too often? */
bool groups_fit(Fuse *f);
int group_new(Fuse *f, KernelKind kind, bool per_model);
void group_add_item(Fuse *f, Group *g, Item item);
/* Is a value read by a group other than a and b? */
bool read_elsewhere(const Fuse *f, const Node *n, int a, int b);
bool group_reads(const Group *g, const Node *n);
/* Adds what is read to before (data edges only). */
void group_edges(Fuse *f, int g);
/* All reads of the state in the group that also writes it are at the index that is written. */
bool group_in_place(Fuse *f, int g, const Buffer *state);
/* Is the item a store that somebody outside group g needs: a place outside, or a value that
 * another group reads? */
bool item_kept(const Fuse *f, const Item *i, int g);
void item_strides(const Fuse *f, const Item *i, int64_t *stride);

/* vfuse_order.c. */
void order_init(Fuse *f);
/* A new group, behind all others. */
void order_append(Fuse *f, int g);
/* a must come before b from now on. */
void order_precede(Fuse *f, int a, int b);
/* Must a come before b? */
bool order_reaches(Fuse *f, int a, int b);
/* Must a third group stand between a and b, whichever comes first? */
bool order_between(Fuse *f, int a, int b);
/* Right after order_between said no: b takes a's edges and place in the order too. */
void order_join(Fuse *f, int a, int b);

/* vfuse_loop.c. */
LoopPlan *loop_plan_new(Fuse *f, const Group *g);
/* Where a carried value is after the last round; NULL: the result is a stacked one. */
Buffer *loop_final_place(const LoopPlan *l, const Node *result);
/* Plans the body of a group whose operands and results have their buffers. */
void loop_plan_body(Fuse *outer, const Group *g);

/* Offsets of all scratch and shared buffers of an entry. */
void memory_plan(EntryPlan *e, bool reuse);
/* May store s of kernel k write over buffer `old`, which k reads for the last time?  visits: of
 * this graph, for the time being. */
bool store_in_place(const EntryPlan *e, const Kernel *k, const Store *s, const Buffer *old,
                    VisitList *visits, Arena *a);

#endif
