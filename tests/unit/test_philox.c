/* Philox as machine code: known answers of the Random123 library, and all forms against the
 * scalar one. `test_philox -v` prints times. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "codegen/cpu/philox.h"
#include "tests/unit/native_loop.h"

static int failures;
static bool verbose;

#define CHECK(ok, ...)                                    \
    do {                                                  \
        if (!(ok) && failures++ < 20) {                   \
            printf("FAILED %s:%d: ", __FILE__, __LINE__); \
            printf(__VA_ARGS__);                          \
            printf("\n");                                 \
        }                                                 \
    } while (0)

/* params: elements in (i64), seed and step behind y, out i64 */
static void add_philox(Native *n, const char *name, uint64_t path, unsigned lanes, bool as_run)
{
    Loop l = native_loop_begin(n, name);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(n->context);
    LLVMValueRef seed_step[2];
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef at = LLVMConstInt(i64, i, false);
        LLVMValueRef p = LLVMBuildGEP2(l.b, i64, LLVMGetParam(l.fn, 1), &at, 1, "");
        seed_step[i] = LLVMBuildLoad2(l.b, i64, p, "");
    }
    const PhiloxKey key = {seed_step[0], seed_step[1], LLVMConstInt(i64, path, false)};
    LLVMValueRef element = native_load(n, &l, 0, DT_I64, lanes);
    LLVMValueRef first = element;
    if (lanes)
        first = LLVMBuildExtractElement(l.b, element, LLVMConstInt(i64, 0, false), "");
    native_store(n, &l, DT_I64, lanes,
                 as_run ? philox_emit_run(l.b, &key, first, lanes)
                        : philox_emit(l.b, &key, element));
    native_loop_end(n, &l);
}

static void check_philox(Native *n)
{
    static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    static const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    static const char *const names[] = {"philox_0", "philox_8", "philox_16", "philox_run_8",
                                        "philox_run_16"};
    static const int64_t lanes[] = {1, 8, 16, 8, 16};
    LoopFn *k;
    int64_t element[1024], got[1024], want[1024];
    const uint64_t zero_key[2] = {0, 0}, one_key[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 1024; i++)
        element[i] = i;
    *(void **)&k = native_symbol(n, "philox_zero");
    k(element, zero_key, NULL, got, 4);
    for (int i = 0; i < 4; i++)
        CHECK(got[i] == zeros[i], "philox of zeros, word %d", i);
    *(void **)&k = native_symbol(n, "philox_ones");
    int64_t last[4];
    for (int i = 0; i < 4; i++)
        last[i] = (int64_t)0x3fffffffc + i; /* element / 4 has all its 32 bits set */
    k(last, one_key, NULL, got, 4);
    for (int i = 0; i < 4; i++)
        CHECK(got[i] == ones[i], "philox of ones, word %d", i);
    for (int v = 0; v < 5; v++) {
        *(void **)&k = native_symbol(n, names[v]);
        const uint64_t key[2] = {0x123456789abcdef0u, 42};
        const double start = native_now();
        for (int r = 0; r < (verbose ? 200 : 1); r++)
            k(element, key, NULL, v ? got : want, 1024 / lanes[v]);
        if (verbose)
            printf("  %-24s %6.2f ns per element\n", names[v],
                   (native_now() - start) * 1e9 / 1024 / 200);
        CHECK(v == 0 || !memcmp(got, want, sizeof got), "%s differs from the scalar", names[v]);
    }
}

static void check_all(const char *march)
{
    Native n = native_new(march);
    Native *const p = &n;
    add_philox(p, "philox_zero", 0, 0, false);
    add_philox(p, "philox_ones", UINT64_MAX, 0, false);
    const uint64_t path = philox_path_hash("a.dropout");
    add_philox(p, "philox_0", path, 0, false);
    add_philox(p, "philox_8", path, 8, false);
    add_philox(p, "philox_16", path, 16, false);
    add_philox(p, "philox_run_8", path, 8, true);
    add_philox(p, "philox_run_16", path, 16, true);
    native_link(&n);
    if (verbose)
        printf("-march=%s\n", march);
    check_philox(&n);
    native_free(&n);
}

int main(int argc, char **argv)
{
    verbose = argc > 1 && !strcmp(argv[1], "-v");
    if (!native_can_run()) {
        printf("skipped: this processor has no AVX2\n");
        return 77;
    }
    check_all("x86-64-v3");
    check_all("native");
    printf("test_philox: %s\n", failures ? "FAILED" : "passed");
    return failures ? 1 : 0;
}
