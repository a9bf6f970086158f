/* Worker threads that spin briefly, then sleep.
 *
 * One job at a time, run by the calling thread as worker 0 and by workers 1 .. n - 1;
 * hft_pool_run returns when all are done.  No lock is taken and nothing allocated by a run. */
#ifndef HFTAC_RUNTIME_CPU_POOL_H
#define HFTAC_RUNTIME_CPU_POOL_H

#include "runtime/hftac.h"

typedef struct Pool Pool;
typedef void PoolJob(void *context, int worker);

/* CPUs that this process may use. */
int hft_cpu_count(void);
/* n threads in all, the caller's included; 1 starts none. */
hftac_status hft_pool_open(int n_threads, Pool **pool);
void hft_pool_close(Pool *pool);
/* job(context, w) for 0 <= w < n; n <= n_threads. */
void hft_pool_run(Pool *pool, int n, PoolJob *job, void *context);

#endif
