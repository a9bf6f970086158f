/* Worker threads.
 *
 * Every worker has a ticket on a cache line of its own: the caller raises it to start the
 * worker, the worker lowers the common `pending` when it is done.  Who waits spins for about
 * 50 us - a step of a small array is shorter than a trip into the kernel - and then sleeps in
 * a futex.  A waiter says that it sleeps before it looks at the value again, so that the
 * other side either sees the flag or has changed the value already (both sequentially
 * consistent).
 *
 * Workers take over the mode that the caller computes in (door.h) with each job: a result must
 * not depend on the thread.  A child after fork has the pool but not its threads: closing it
 * there waits for nobody. */
#include "runtime/cpu/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "runtime/error.h"

enum {
    LINE = 128,
    SPIN_NS = 50000,
    SPINS_PER_LOOK = 64
};

typedef struct Gate {
    _Alignas(LINE) atomic_uint value;
    atomic_uint sleeping;
} Gate;

typedef struct Worker {
    Gate ticket;
    Pool *pool;
    pthread_t thread;
    int index;
} Worker;

struct Pool {
    Gate pending; /* workers of this job that are not done */
    PoolJob *job;
    void *context;
    unsigned float_mode;
    bool closing;
    pid_t process; /* whose threads they are: a child that was forked has none */
    int n_threads, n_started;
    Worker *workers; /* [n_threads], 0 unused */
};

int hft_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < INT_MAX ? (int)n : 1;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Waits until gate->value is no longer `old` and returns it. */
static unsigned gate_wait_change(Gate *gate, unsigned old)
{
    const int64_t until = now_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPINS_PER_LOOK; i++) {
            const unsigned v = atomic_load_explicit(&gate->value, memory_order_acquire);
            if (v != old)
                return v;
            _mm_pause();
        }
    } while (now_ns() < until);
    atomic_store(&gate->sleeping, 1);
    unsigned v;
    while ((v = atomic_load(&gate->value)) == old)
        syscall(SYS_futex, &gate->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_store(&gate->sleeping, 0);
    return v;
}

static void gate_wake(Gate *gate)
{
    if (atomic_load(&gate->sleeping))
        syscall(SYS_futex, &gate->value, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *worker_main(void *argument)
{
    Worker *w = argument;
    Pool *pool = w->pool;
    for (unsigned seen = 0;;) {
        seen = gate_wait_change(&w->ticket, seen);
        if (pool->closing)
            return NULL;
        _mm_setcsr(pool->float_mode);
        pool->job(pool->context, w->index);
        if (atomic_fetch_sub(&pool->pending.value, 1) == 1)
            gate_wake(&pool->pending);
    }
}

static void start_worker(Worker *w)
{
    atomic_fetch_add(&w->ticket.value, 1);
    gate_wake(&w->ticket);
}

void hft_pool_run(Pool *pool, int n, PoolJob *job, void *context)
{
    if (n > 1) {
        pool->job = job;
        pool->context = context;
        pool->float_mode = _mm_getcsr();
        atomic_store(&pool->pending.value, (unsigned)n - 1);
        for (int i = 1; i < n; i++)
            start_worker(&pool->workers[i]);
    }
    job(context, 0);
    if (n > 1)
        for (unsigned left = atomic_load(&pool->pending.value); left;)
            left = gate_wait_change(&pool->pending, left);
}

/* Signals stay with the program's own threads. */
static int create_quietly(Worker *w)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int error = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

hftac_status hft_pool_open(int n_threads, Pool **out)
{
    *out = NULL;
    Pool *pool = aligned_alloc(LINE, (sizeof *pool + LINE - 1) / LINE * LINE);
    if (!pool)
        return hft_fail_memory("the thread pool", sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pool->n_threads = n_threads;
    pool->process = getpid();
    const size_t bytes = (size_t)n_threads * sizeof(Worker);
    pool->workers = aligned_alloc(LINE, bytes);
    if (!pool->workers) {
        free(pool);
        return hft_fail_memory("the thread pool", bytes);
    }
    memset(pool->workers, 0, bytes);
    for (int i = 1; i < n_threads; i++) {
        Worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        const int error = create_quietly(w);
        if (error) {
            char text[128];
            hft_pool_close(pool);
            return hft_fail(HFTAC_THREADS, "cannot start thread %d of %d: %s", i + 1, n_threads,
                            strerror_r(error, text, sizeof text));
        }
        pool->n_started = i;
    }
    *out = pool;
    return HFTAC_OK;
}

void hft_pool_close(Pool *pool)
{
    if (!pool)
        return;
    pool->closing = true;
    for (int i = 1; i <= pool->n_started && pool->process == getpid(); i++) {
        start_worker(&pool->workers[i]);
        pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool->workers);
    free(pool);
}
