/* Code uses the instructions of x86-64-v3 or x86-64-v4, nothing in between, and the processor's
 * name only for scheduling: so the features that model.so asks for are known exactly, and two
 * processors of one level give the same bits. */
#include "codegen/cpu/target.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <stdbool.h>
#include <string.h>

#include "codegen/codegen.h"

enum {
    LEVEL_OLD = 2,
    LEVEL_AVX2,
    LEVEL_AVX512
};

typedef struct March {
    const char *name;
    int level;
} March;

static const March march_list[] = {
    {"x86-64", LEVEL_OLD},
    {"x86-64-v2", LEVEL_OLD},
    {"nehalem", LEVEL_OLD},
    {"westmere", LEVEL_OLD},
    {"sandybridge", LEVEL_OLD},
    {"ivybridge", LEVEL_OLD},
    {"x86-64-v3", LEVEL_AVX2},
    {"haswell", LEVEL_AVX2},
    {"broadwell", LEVEL_AVX2},
    {"skylake", LEVEL_AVX2},
    {"alderlake", LEVEL_AVX2},
    {"raptorlake", LEVEL_AVX2},
    {"meteorlake", LEVEL_AVX2},
    {"arrowlake", LEVEL_AVX2},
    {"lunarlake", LEVEL_AVX2},
    {"znver1", LEVEL_AVX2},
    {"znver2", LEVEL_AVX2},
    {"znver3", LEVEL_AVX2},
    {"x86-64-v4", LEVEL_AVX512},
    {"skylake-avx512", LEVEL_AVX512},
    {"cascadelake", LEVEL_AVX512},
    {"cooperlake", LEVEL_AVX512},
    {"icelake-client", LEVEL_AVX512},
    {"icelake-server", LEVEL_AVX512},
    {"tigerlake", LEVEL_AVX512},
    {"rocketlake", LEVEL_AVX512},
    {"sapphirerapids", LEVEL_AVX512},
    {"emeraldrapids", LEVEL_AVX512},
    {"graniterapids", LEVEL_AVX512},
    {"znver4", LEVEL_AVX512},
    {"znver5", LEVEL_AVX512},
};

#define FEATURES_V3 "ssse3 sse4_1 sse4_2 popcnt movbe avx f16c fma abm bmi1 bmi2 avx2"
#define FEATURES_V4 FEATURES_V3 " avx512f avx512dq avx512cd avx512bw avx512vl"

/* Does LLVM's list "+avx2,-sse4a,..." have the feature? */
static bool has_feature(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = list; (p = strstr(p, name)); p += n)
        if (p > list && p[-1] == '+' && (p[n] == ',' || !p[n]))
            return true;
    return false;
}

static int host_level(void)
{
    static const char *const avx2[] = {"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"};
    static const char *const avx512[] = {"avx512f", "avx512dq", "avx512cd", "avx512bw",
                                         "avx512vl"};
    char *list = LLVMGetHostCPUFeatures();
    int level = LEVEL_AVX512;
    for (size_t i = 0; i < sizeof avx512 / sizeof *avx512; i++)
        if (!has_feature(list, avx512[i]))
            level = LEVEL_AVX2;
    for (size_t i = 0; i < sizeof avx2 / sizeof *avx2; i++)
        if (!has_feature(list, avx2[i]))
            level = LEVEL_OLD;
    LLVMDisposeMessage(list);
    return level;
}

static const March *march_find(const char *name)
{
    for (size_t i = 0; i < sizeof march_list / sizeof *march_list; i++)
        if (!strcmp(march_list[i].name, name))
            return &march_list[i];
    return NULL;
}

static const char *host_name(Arena *a)
{
    char *host = LLVMGetHostCPUName();
    const char *name = arena_strdup(a, host);
    LLVMDisposeMessage(host);
    return name;
}

static const char *known_names(Arena *a)
{
    const char *text = "native";
    for (size_t i = 0; i < sizeof march_list / sizeof *march_list; i++)
        if (march_list[i].level > LEVEL_OLD)
            text = arena_printf(a, "%s, %s", text, march_list[i].name);
    return text;
}

int cpu_target_find(Arena *a, const char *march, CpuTarget *out, const char **error)
{
    const bool native = !strcmp(march, "native");
    const March *row = native ? NULL : march_find(march);
    if (!native && !row) {
        *error = arena_printf(a, "unknown processor \"%s\" for -march (known: %s)", march,
                              known_names(a));
        return 0;
    }
    const int level = native ? host_level() : row->level;
    if (level == LEVEL_OLD) {
        *error = arena_printf(
            a, "-march=%s has no AVX2 and FMA, which hftac needs (at least x86-64-v3)", march);
        return 0;
    }
    const bool generic = !strncmp(march, "x86-64", 6);
    *out = (CpuTarget){.cpu = level == LEVEL_AVX512 ? "x86-64-v4" : "x86-64-v3",
                       .tune = generic  ? ""
                               : native ? host_name(a)
                                        : row->name,
                       .features = level == LEVEL_AVX512 ? FEATURES_V4 : FEATURES_V3,
                       .vector_bytes =
                           level == LEVEL_AVX512 ? VECTOR_BYTES_512 : VECTOR_BYTES_256};
    return 1;
}

int cpu_vector_bytes(Arena *a, const char *march, const char **error)
{
    CpuTarget t;
    return cpu_target_find(a, march, &t, error) ? t.vector_bytes : 0;
}

LLVMTargetMachineRef cpu_target_machine(Arena *a, const CpuTarget *t, int optimize,
                                        const char **error)
{
    /* Kernels are in their final form already: on them "less" makes the same loops in two thirds
     * of the time. */
    static const LLVMCodeGenOptLevel level[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess,
                                                LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault};
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    const char *triple = "x86_64-unknown-linux-gnu";
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(triple, &target, &message)) {
        *error = arena_printf(a, "LLVM cannot make code for %s: %s", triple, message);
        LLVMDisposeMessage(message);
        return NULL;
    }
    const int o = optimize < 0 ? 0 : optimize > 3 ? 3 : optimize;
    return LLVMCreateTargetMachine(target, triple, t->cpu, "", level[o], LLVMRelocPIC,
                                   LLVMCodeModelDefault);
}
