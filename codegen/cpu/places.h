/* What a kernel reads and writes, and what it computes: the table of pointers that its function
 * gets, and its signature.
 *
 * A kernel's function gets one pointer for each place, so that kernels which differ only in where
 * their values lie are one function: layers of equal shape, and the forward passes of train, eval
 * and predict, are emitted once. */
#ifndef HFTAC_CODEGEN_CPU_PLACES_H
#define HFTAC_CODEGEN_CPU_PLACES_H

#include "ir/plan.h"

typedef struct Place {
    const Buffer *buffer;
    /* the first place with which this one shares memory; itself: none before it */
    int scope;
    bool read, written;
    /* It holds the hash of that node's path: i64[2], low word, high word; else NULL. */
    const Node *random;
} Place;

typedef struct Places {
    /* in the order of first use */
    Place *place;
    int n, cap;
    /* kernels of equal signature have equal code */
    const char *signature;
    /* floating-point operations, a multiply-add being two */
    double operations;
} Places;

/* Where the hash of a random node's path lies. */
const Buffer *places_path(const Places *p, const Node *random);
/* number: by node id, all 0, and so again when it returns. */
void kernel_places(Arena *a, const EntryPlan *e, const Kernel *k, int *number, Places *out);

#endif
