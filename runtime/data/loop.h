/* Going through a data set batch by batch. */
#ifndef HFTAC_RUNTIME_DATA_LOOP_H
#define HFTAC_RUNTIME_DATA_LOOP_H

#include "runtime/data/data.h"

/* Model b's samples are order[b * stride ...]. */
typedef struct Loop {
    hftac_array *a;
    const hftac_data *data;
    /* HFTAC_ENTRY_* that the batches are for. */
    int entry;
    int64_t *order;
    size_t n_order;
    /* 0: one order for all. */
    size_t stride;
    /* Samples done. */
    int64_t at;
} Loop;

/* The data set belongs to the array, and the array has the entry point. */
hftac_status hft_loop_check(const hftac_array *a, const hftac_data *data, int entry,
                            const char *what);
/* Starts with samples in the order that the options say (NULL: the data set's).  After a failure
 * too, hft_loop_close. */
hftac_status hft_loop_open(Loop *l, hftac_array *a, const hftac_data *data, int entry,
                           const hftac_train_options *options);
void hft_loop_close(Loop *l);
/* Samples of the next batch, and the feeding of them; the caller then runs the step and adds
 * n to l->at. */
int64_t hft_loop_next(const Loop *l);
hftac_status hft_loop_feed(Loop *l, int64_t n);

#endif
