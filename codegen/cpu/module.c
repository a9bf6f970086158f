/* A plan as one LLVM module: a function per kernel, two region functions per entry, the descriptor. */
#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cpu/descriptor.h"
#include "codegen/cpu/emit.h"
#include "codegen/cpu/region.h"
#include "codegen/cpu/target.h"

typedef struct KnownKernel {
    const char *signature;
    LLVMValueRef function;
} KnownKernel;

struct CpuModule {
    Arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    CpuTarget target;
    int optimize;
    KnownKernel *known;
    int n_known, cap_known;
};

/* Values are vectors already and kernels are specialised, so this is cleaning up: registers for allocas, common
 * subexpressions, loop invariants, index arithmetic. */
static const char pass_text[] =
    "function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm),early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)";

static void add_attribute(LLVMValueRef f, const char *name, const char *value)
{
    LLVMContextRef c = LLVMGetModuleContext(LLVMGetGlobalParent(f));
    LLVMAttributeRef a = LLVMCreateStringAttribute(c, name, (unsigned)strlen(name), value,
                                                   (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, a);
}

static void add_flag(LLVMValueRef f, LLVMAttributeIndex at, const char *name)
{
    LLVMContextRef c = LLVMGetModuleContext(LLVMGetGlobalParent(f));
    const unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(f, at, LLVMCreateEnumAttribute(c, kind, 0));
}

/* no-builtins: LLVM must not turn a loop into a call of memset: model.so imports nothing. */
static void set_attributes(const CpuModule *m, LLVMValueRef f)
{
    add_flag(f, LLVMAttributeFunctionIndex, "nounwind");
    add_attribute(f, "no-builtins", "");
    add_attribute(f, "target-cpu", m->target.cpu);
    if (*m->target.tune)
        add_attribute(f, "tune-cpu", m->target.tune);
    add_attribute(f, "prefer-vector-width", m->target.vector_bytes == 64 ? "512" : "256");
}

static LLVMValueRef generate_kernel(CpuModule *m, const Plan *p, const EntryPlan *entry,
                                    const Kernel *k, const Places *places, const char **error)
{
    Emit e = {.arena = arena_new(),
              .context = m->context,
              .module = m->module,
              .plan = p,
              .vector_bytes = m->target.vector_bytes,
              .optimize = m->optimize,
              .failed_kind = -1};
    e.builder = LLVMCreateBuilderInContext(m->context);
    LLVMValueRef f = emit_kernel(&e, entry, k, places,
                                 arena_printf(m->arena, "%s.%s", entry->graph->name, k->name));
    set_attributes(m, f);
    if (e.failed_kind >= 0) {
        *error =
            arena_printf(m->arena, "%s of @%s: %s are not supported on the CPU yet", k->name,
                         entry->graph->name,
                         "loops");
        f = NULL;
    }
    LLVMDisposeBuilder(e.builder);
    arena_free(e.arena);
    return f;
}

/* The function of an equal kernel that was generated before, or a new one; NULL and *error if its kind cannot be
 * emitted. */
static LLVMValueRef kernel_function(CpuModule *m, const Plan *p, const EntryPlan *entry,
                                    const Kernel *k, const Places *places, const char **error)
{
    for (int i = 0; i < m->n_known; i++)
        if (!strcmp(m->known[i].signature, places->signature))
            return m->known[i].function;
    LLVMValueRef f = generate_kernel(m, p, entry, k, places, error);
    if (m->n_known == m->cap_known)
        m->known = arena_grow(m->arena, m->known, &m->cap_known, sizeof *m->known);
    m->known[m->n_known++] = (KnownKernel){places->signature, f};
    return f;
}

/* The functions of all kernels of an entry or a loop's body; NULL and *error if one cannot be emitted. */
static KernelCall *generate_calls(CpuModule *m, const Plan *p, const EntryPlan *entry,
                                  const char **error)
{
    KernelCall *call = arena_array(m->arena, (size_t)entry->n_kernels + 1, sizeof *call);
    for (int i = 0; i < entry->n_kernels; i++) {
        const Kernel *k = &entry->kernels[i];
        if (k->kind == KERNEL_LOOP) {
            call[i].loop = k->loop;
            call[i].body = generate_calls(m, p, k->loop->body, error);
            if (!call[i].body)
                return NULL;
            continue;
        }
        Places *places = arena_alloc(m->arena, sizeof *places);
        kernel_places(m->arena, entry, k, places);
        call[i].places = places;
        call[i].function = kernel_function(m, p, entry, k, places, error);
        if (!call[i].function)
            return NULL;
    }
    return call;
}

static bool generate_entry(CpuModule *m, const Plan *p, const EntryPlan *entry, Regions *out,
                           const char **error)
{
    KernelCall *call = generate_calls(m, p, entry, error);
    if (!call)
        return false;
    const char *name = entry->graph->name;
    RegionInput in = {.arena = m->arena,
                      .module = m->module,
                      .plan = p,
                      .entry = entry,
                      .calls = call,
                      .n = entry->n_shared};
    *out = (Regions){0};
    if (in.n)
        out->shared = region_shared(&in, arena_printf(m->arena, "%s.shared", name));
    in.calls = call + entry->n_shared;
    in.n = entry->n_kernels - entry->n_shared;
    out->models = region_models(&in, arena_printf(m->arena, "%s.models", name));
    set_attributes(m, out->models);
    if (out->shared)
        set_attributes(m, out->shared);
    return true;
}

static void verify(const CpuModule *m, const char *when)
{
    char *message = NULL;
    if (LLVMVerifyModule(m->module, LLVMReturnStatusAction, &message)) {
        char *text = LLVMPrintModuleToString(m->module);
        diag_internal(text, "invalid LLVM code %s: %s", when, message);
    }
    LLVMDisposeMessage(message);
}

static bool run_passes(CpuModule *m, const char **error)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failed = LLVMRunPasses(m->module, pass_text, m->machine, o);
    LLVMDisposePassBuilderOptions(o);
    if (!failed)
        return true;
    char *text = LLVMGetErrorMessage(failed);
    *error = arena_printf(m->arena, "LLVM's passes failed: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static bool generate(CpuModule *m, const Plan *p, const CodegenOptions *o, const char **error)
{
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m->machine);
    LLVMSetModuleDataLayout(m->module, layout);
    LLVMSetTarget(m->module, "x86_64-unknown-linux-gnu");
    Regions *regions = arena_array(m->arena, (size_t)p->n_entries, sizeof *regions);
    bool ok = true;
    for (int i = 0; ok && i < p->n_entries; i++)
        ok = generate_entry(m, p, &p->entries[i], &regions[i], error);
    if (ok)
        descriptor_emit(m->arena, m->module,
                        &(DescriptorInput){.plan = p,
                                           .options = o,
                                           .regions = regions,
                                           .features = m->target.features,
                                           .layout = layout});
    LLVMDisposeTargetData(layout);
    if (!ok)
        return false;
    verify(m, "generated");
    return m->optimize == 0 || run_passes(m, error);
}

CpuModule *cpu_generate(Arena *a, const Plan *p, const CodegenOptions *o, const char **error)
{
    CpuModule *m = arena_alloc(a, sizeof *m);
    *m = (CpuModule){.arena = a, .optimize = o->optimize};
    if (!cpu_target_find(a, o->march, &m->target, error))
        return NULL;
    m->machine = cpu_target_machine(a, &m->target, o->optimize, error);
    if (!m->machine)
        return NULL;
    m->context = LLVMContextCreate();
    m->module = LLVMModuleCreateWithNameInContext(p->module->name, m->context);
    if (generate(m, p, o, error))
        return m;
    cpu_free(m);
    return NULL;
}

void cpu_print_llvm(const CpuModule *m, Text *out)
{
    char *text = LLVMPrintModuleToString(m->module);
    text_add(out, text);
    LLVMDisposeMessage(text);
}

/* From a copy: LLVM's back end rewrites the module that it is given. */
static bool emit_file(CpuModule *m, const char *path, LLVMCodeGenFileType type,
                      const char **error)
{
    char *message = NULL;
    LLVMModuleRef copy = LLVMCloneModule(m->module);
    const bool failed = LLVMTargetMachineEmitToFile(
        m->machine, copy, arena_strdup(m->arena, path), type, &message);
    LLVMDisposeModule(copy);
    if (failed) {
        *error = arena_printf(m->arena, "cannot write %s: %s", path, message);
        remove(path);
    }
    LLVMDisposeMessage(message);
    return !failed;
}

bool cpu_emit_asm(CpuModule *m, const char *path, const char **error)
{
    return emit_file(m, path, LLVMAssemblyFile, error);
}

bool cpu_emit_object(CpuModule *m, const char *path, const char **error)
{
    return emit_file(m, path, LLVMObjectFile, error);
}

void cpu_free(CpuModule *m)
{
    if (!m)
        return;
    LLVMDisposeModule(m->module);
    LLVMContextDispose(m->context);
    LLVMDisposeTargetMachine(m->machine);
}
