/* A stand-in for CUDA and cuBLAS, for tests: with this header the text that hftac prints for
 * --target=cuda is C++ of the host.
 *
 * Blocks run one after the other, and the threads of one block too: those that wait for each
 * other are fibers that take turns at each barrier.  Everything can be run in ascending or
 * descending order; what depends on the order is a race.  A product is computed by plain loops,
 * after its arguments have been checked against what cuBLAS documents. */
#ifndef HFTAC_TESTS_CUDA_STANDIN_H
#define HFTAC_TESTS_CUDA_STANDIN_H

#include <climits>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <math.h>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __shared__ static

struct StandinIndex {
    unsigned x, y, z;
};
static StandinIndex threadIdx, blockIdx, blockDim;

static inline float __int_as_float(int bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline double __longlong_as_double(long long bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

[[noreturn]] static void standin_fail(const char *where, const char *what)
{
    printf("FAILED: %s: %s\n", where, what);
    exit(1);
}

/* ---- threads ---- */

static bool standin_descending;
static const char *standin_kernel = "";

struct StandinFiber {
    jmp_buf at;
    ucontext_t start;
    std::vector<char> stack;
    bool started, done;
};

static jmp_buf standin_scheduler;
static StandinFiber *standin_current;
static const std::function<void()> *standin_body;

static void standin_fiber_main()
{
    (*standin_body)();
    standin_current->done = true;
    _longjmp(standin_scheduler, 1);
}

static void __attribute__((noinline)) __syncthreads()
{
    if (!standin_current)
        standin_fail(standin_kernel,
                     "a barrier in a kernel whose threads do not wait for each other");
    if (!_setjmp(standin_current->at))
        _longjmp(standin_scheduler, 1);
}

static void __attribute__((noinline)) standin_resume(StandinFiber *f)
{
    standin_current = f;
    if (_setjmp(standin_scheduler))
        return;
    if (f->started)
        _longjmp(f->at, 1);
    f->started = true;
    setcontext(&f->start);
}

static StandinFiber *standin_fibers(unsigned n)
{
    static std::vector<StandinFiber> *store = new std::vector<StandinFiber>(256);
    if (n > store->size())
        standin_fail(standin_kernel, "more than 256 threads in a block");
    for (unsigned i = 0; i < n; i++) {
        StandinFiber *f = &(*store)[i];
        f->stack.resize(64 << 10);
        getcontext(&f->start);
        f->start.uc_stack.ss_sp = f->stack.data();
        f->start.uc_stack.ss_size = f->stack.size();
        f->start.uc_link = nullptr;
        makecontext(&f->start, standin_fiber_main, 0);
        f->started = f->done = false;
    }
    return store->data();
}

/* From barrier to barrier, until all are done at once. */
static void standin_block_together(unsigned threads)
{
    StandinFiber *fiber = standin_fibers(threads);
    for (unsigned done = 0; done < threads;) {
        done = 0;
        for (unsigned i = 0; i < threads; i++) {
            threadIdx.x = standin_descending ? threads - 1 - i : i;
            standin_resume(&fiber[threadIdx.x]);
            done += fiber[threadIdx.x].done;
        }
        if (done != 0 && done != threads)
            standin_fail(standin_kernel,
                         "some threads of a block end while others wait at a barrier");
    }
    standin_current = nullptr;
}

static void standin_launch(const char *name, long long grid, unsigned threads, unsigned models,
                           bool together, const std::function<void()> &body)
{
    standin_kernel = name;
    standin_body = &body;
    if (grid < 1 || grid > INT_MAX || threads < 1 || threads > 1024 || models < 1 ||
        models > 65535)
        standin_fail(name, "the grid or the block has a size that CUDA does not allow");
    blockDim = {threads, 1, 1};
    const unsigned long long blocks = (unsigned long long)grid * models;
    for (unsigned long long n = 0; n < blocks; n++) {
        const unsigned long long at = standin_descending ? blocks - 1 - n : n;
        blockIdx = {(unsigned)(at % (unsigned long long)grid),
                    (unsigned)(at / (unsigned long long)grid), 0};
        if (together) {
            standin_block_together(threads);
            continue;
        }
        for (unsigned i = 0; i < threads; i++) {
            threadIdx.x = standin_descending ? threads - 1 - i : i;
            body();
        }
    }
}

/* ---- memory that kernels and calls may touch ---- */

struct StandinBlock {
    const char *name;
    unsigned char *memory; /* behind a guard, and before one */
    size_t bytes;
};

enum {
    STANDIN_GUARD = 4096,
    STANDIN_MARK = 0xa5
};
static std::vector<StandinBlock> standin_blocks;

static unsigned char *standin_allocate(const char *name, size_t bytes)
{
    const size_t whole = (bytes + 2 * STANDIN_GUARD + 63) & ~(size_t)63;
    unsigned char *p = (unsigned char *)aligned_alloc(64, whole);
    if (!p)
        standin_fail(name, "out of memory");
    memset(p, STANDIN_MARK, whole);
    memset(p + STANDIN_GUARD, 0, bytes);
    standin_blocks.push_back({name, p + STANDIN_GUARD, bytes});
    return p + STANDIN_GUARD;
}

static void standin_check_guards()
{
    for (const StandinBlock &b : standin_blocks)
        for (int i = 0; i < STANDIN_GUARD; i++)
            if (b.memory[-1 - i] != STANDIN_MARK ||
                b.memory[b.bytes + (size_t)i] != STANDIN_MARK)
                standin_fail(b.name, "something was written outside of this memory");
}

static bool standin_inside(const void *p, long long bytes)
{
    for (const StandinBlock &b : standin_blocks)
        if (p >= b.memory && (const unsigned char *)p + bytes <= b.memory + b.bytes)
            return true;
    return false;
}

/* ---- cuBLAS ---- */

template <class T> struct StandinMatrix {
    T *p;
    long long rows, columns, ld, stride; /* as stored, column-major */
    long long extent() const
    {
        return ld * (columns - 1) + rows;
    }
    T &at(long long i, long long j, long long batch) const
    {
        return p[i + j * ld + batch * stride];
    }
};

template <class T>
static void standin_check_matrix(const char *what, const StandinMatrix<T> &m, int batch,
                                 bool written)
{
    if (m.ld < 1 || m.ld < m.rows || m.ld > INT_MAX)
        standin_fail(what,
                     "cuBLAS needs a leading dimension of at least the stored matrix' rows");
    if (m.stride < 0 || (written && batch > 1 && m.stride < m.extent()))
        standin_fail(what, "results of one strided batch overlap");
    if (!standin_inside(m.p, (m.stride * (batch - 1) + m.extent()) * (long long)sizeof(T)))
        standin_fail(what, "a matrix does not lie in the program's memory");
    if ((uintptr_t)m.p % sizeof(T))
        standin_fail(what, "a matrix is not aligned");
}

template <class T>
static bool standin_apart(const StandinMatrix<T> &a, const StandinMatrix<T> &c, int batch)
{
    const T *a_end = a.p + a.stride * (batch - 1) + a.extent(),
            *c_end = c.p + c.stride * (batch - 1) + c.extent();
    if (a.stride == c.stride && batch > 1) { /* in one scratch: compare within a model */
        a_end = a.p + a.extent();
        c_end = c.p + c.extent();
    }
    return a_end <= c.p || c_end <= a.p;
}

/* C = op(A) op(B): op(A) is m x k, op(B) k x n, C m x n, all column-major. */
template <class T>
static void standin_gemm(char opA, char opB, long long m, long long n, long long k,
                         const void *A, long long lda, long long strideA, const void *B,
                         long long ldb, long long strideB, void *C, long long ldc,
                         long long strideC, int batch)
{
    const bool tA = opA == 'T', tB = opB == 'T';
    if ((opA != 'N' && !tA) || (opB != 'N' && !tB) || m < 1 || n < 1 || k < 1 || m > INT_MAX ||
        n > INT_MAX || k > INT_MAX || batch < 1)
        standin_fail("gemm", "an argument is not what cuBLAS takes");
    const StandinMatrix<T> a = {(T *)A, tA ? k : m, tA ? m : k, lda, strideA},
                           b = {(T *)B, tB ? n : k, tB ? k : n, ldb, strideB},
                           c = {(T *)C, m, n, ldc, strideC};
    standin_check_matrix("gemm: A", a, batch, false);
    standin_check_matrix("gemm: B", b, batch, false);
    standin_check_matrix("gemm: C", c, batch, true);
    if (!standin_apart(a, c, batch) || !standin_apart(b, c, batch))
        standin_fail("gemm", "the result overlaps with an operand");
    for (int s = 0; s < batch; s++)
        for (long long j = 0; j < n; j++)
            for (long long i = 0; i < m; i++) {
                T sum = 0;
                for (long long l = 0; l < k; l++)
                    sum = fma(tA ? a.at(l, i, s) : a.at(i, l, s),
                              tB ? b.at(j, l, s) : b.at(l, j, s), sum);
                c.at(i, j, s) = sum;
            }
}

typedef float StandinTypeS;
typedef double StandinTypeD;

/* ---- the macros of the text's end ---- */

struct StandinState {
    const char *name;
    long long offset, bytes;
};

#define HF_STEPS
#define HF_ENTRY(name) static void standin_entry_##name(const Frame f)
#define HF_LAUNCH(kernel, grid, threads, models, together, ...) \
    standin_launch(#kernel, grid, threads, models, together, [=] { kernel(__VA_ARGS__); })
#define HF_GEMM(type, opA, opB, ...) \
    standin_gemm<StandinType##type>(#opA[0], #opB[0], __VA_ARGS__)
#define HF_ENTRIES                  \
    struct StandinEntry {           \
        const char *name;           \
        void (*run)(const Frame f); \
    };                              \
    static const StandinEntry standin_entries[] =
#define HF_HAS(name)                \
    {                               \
#name, standin_entry_##name \
    }
#define HF_STATES static const StandinState standin_states[] =
#define HF_MODEL(models, hypers, results, state_bytes)                       \
    static const long long standin_models = models, standin_hypers = hypers, \
                           standin_results = results, standin_state_bytes = state_bytes;

#endif
