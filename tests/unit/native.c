/* Object, link, dlopen; the files live in a directory of their own that is gone afterwards. */
#include "tests/unit/native.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/cpu/target.h"

_Noreturn static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "native: %s: %s\n", what, detail ? detail : "?");
    exit(1);
}

Native native_new(const char *march)
{
    Arena *arena = arena_new();
    CpuTarget target;
    const char *error = NULL;
    if (!cpu_target_find(arena, march, &target, &error))
        fail("no target", error);
    Native n = {.context = LLVMContextCreate(), .vector_bytes = target.vector_bytes};
    n.module = LLVMModuleCreateWithNameInContext("test", n.context);
    n.machine = cpu_target_machine(arena, &target, 2, &error);
    if (!n.machine)
        fail("no machine", error);
    char *triple = LLVMGetTargetMachineTriple(n.machine);
    LLVMSetTarget(n.module, triple);
    LLVMDisposeMessage(triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(n.machine);
    LLVMSetModuleDataLayout(n.module, layout);
    LLVMDisposeTargetData(layout);
    arena_free(arena);
    return n;
}

/* Kernels ask for registers as wide as the target's; by itself LLVM would stay at 256 bits. */
static void prefer_wide(Native *n)
{
    LLVMAttributeRef wide =
        LLVMCreateStringAttribute(n->context, "prefer-vector-width", 19, "512", 3);
    for (LLVMValueRef f = LLVMGetFirstFunction(n->module); f; f = LLVMGetNextFunction(f))
        if (!LLVMIsDeclaration(f))
            LLVMAddAttributeAtIndex(f, (unsigned)LLVMAttributeFunctionIndex, wide);
}

static void optimise(Native *n)
{
    char *error = NULL;
    if (LLVMVerifyModule(n->module, LLVMReturnStatusAction, &error)) {
        LLVMDumpModule(n->module);
        fail("invalid module", error);
    }
    LLVMDisposeMessage(error);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMPassBuilderOptionsSetLoopVectorization(options, 0);
    LLVMPassBuilderOptionsSetSLPVectorization(options, 0);
    LLVMErrorRef bad = LLVMRunPasses(n->module, "default<O2>", n->machine, options);
    if (bad)
        fail("passes", LLVMGetErrorMessage(bad));
    LLVMDisposePassBuilderOptions(options);
}

static void link_object(const char *object, const char *library)
{
    const pid_t pid = fork();
    if (pid == 0) {
        execlp("ld", "ld", "-shared", "--no-undefined", "-o", library, object, (char *)NULL);
        _exit(127);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        fail("ld -shared --no-undefined", object);
}

void native_link(Native *n)
{
    prefer_wide(n);
    optimise(n);
    char dir[] = "/tmp/hftac-unit-XXXXXX", object[64], library[64], *error = NULL;
    if (!mkdtemp(dir))
        fail("mkdtemp", dir);
    snprintf(object, sizeof object, "%s/t.o", dir);
    snprintf(library, sizeof library, "%s/t.so", dir);
    if (LLVMTargetMachineEmitToFile(n->machine, n->module, object, LLVMObjectFile, &error))
        fail("emit", error);
    const char *keep = getenv("NATIVE_ASM"); /* a path: also writes the assembly there */
    if (keep && LLVMTargetMachineEmitToFile(n->machine, n->module, (char *)keep,
                                            LLVMAssemblyFile, &error))
        fail("emit", error);
    link_object(object, library);
    n->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        fail("dlopen", dlerror());
    unlink(object);
    unlink(library);
    rmdir(dir);
}

void *native_symbol(const Native *n, const char *name)
{
    void *p = dlsym(n->library, name);
    if (!p)
        fail("no symbol", name);
    return p;
}

void native_free(Native *n)
{
    if (n->library)
        dlclose(n->library);
    LLVMDisposeTargetMachine(n->machine);
    LLVMDisposeModule(n->module);
    LLVMContextDispose(n->context);
}

int native_can_run(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

double native_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
