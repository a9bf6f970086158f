/* A plan as one LLVM module: a function per kernel, two region functions per entry, the descriptor. */
#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cpu/descriptor.h"
#include "codegen/cpu/emit.h"
#include "codegen/cpu/target.h"
#include "runtime/model_abi.h"

struct CpuModule {
    Arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    CpuTarget target;
    int optimize;
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

static LLVMTypeRef kernel_type(LLVMContextRef c)
{
    LLVMTypeRef ptr = LLVMPointerTypeInContext(c, 0);
    LLVMTypeRef params[4] = {ptr, ptr, ptr, LLVMInt64TypeInContext(c)};
    return LLVMFunctionType(LLVMVoidTypeInContext(c), params, 4, 0);
}

static LLVMValueRef region_function(const CpuModule *m, const char *name)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(m->context);
    LLVMTypeRef params[3] = {LLVMPointerTypeInContext(m->context, 0), i64, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->context), params, 3, 0);
    LLVMValueRef f = LLVMAddFunction(m->module, name, type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    set_attributes(m, f);
    return f;
}

static LLVMValueRef frame_pointer(const CpuModule *m, LLVMBuilderRef b, LLVMValueRef frame,
                                  size_t offset)
{
    LLVMValueRef at = LLVMConstInt(LLVMInt64TypeInContext(m->context), offset, 0);
    at = LLVMBuildInBoundsGEP2(b, LLVMInt8TypeInContext(m->context), frame, &at, 1, "");
    return LLVMBuildLoad2(b, LLVMPointerTypeInContext(m->context, 0), at, "");
}

static void call_kernels(const CpuModule *m, LLVMBuilderRef b, LLVMValueRef *kernel, int n,
                         LLVMValueRef *args)
{
    for (int i = 0; i < n; i++)
        LLVMBuildCall2(b, kernel_type(m->context), kernel[i], args, 4, "");
}

static LLVMValueRef shared_region(const CpuModule *m, const char *name, LLVMValueRef *kernel, int n)
{
    LLVMValueRef f = region_function(m, name), frame = LLVMGetParam(f, 0);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(m->context);
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(m->context, f, "entry"));
    LLVMValueRef args[4] = {frame, frame_pointer(m, b, frame, offsetof(HftacFrame, state)),
                            frame_pointer(m, b, frame, offsetof(HftacFrame, scratch)),
                            LLVMConstInt(LLVMInt64TypeInContext(m->context), 0, 0)};
    call_kernels(m, b, kernel, n, args);
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
    return f;
}

/* for (b = lo; b < hi; b++) all kernels of model b. */
static LLVMValueRef models_region(const CpuModule *m, const char *name, LLVMValueRef *kernel,
                                  int n, int64_t state_bytes)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(m->context);
    LLVMValueRef f = region_function(m, name), frame = LLVMGetParam(f, 0);
    LLVMBuilderRef b = LLVMCreateBuilderInContext(m->context);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(m->context, f, "entry");
    LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(m->context, f, "model");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(m->context, f, "done");
    LLVMPositionBuilderAtEnd(b, entry);
    LLVMValueRef states = frame_pointer(m, b, frame, offsetof(HftacFrame, state));
    LLVMValueRef scratch = frame_pointer(m, b, frame, offsetof(HftacFrame, scratch));
    LLVMValueRef lo = LLVMGetParam(f, 1), hi = LLVMGetParam(f, 2);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, lo, hi, ""), loop, done);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef model = LLVMBuildPhi(b, i64, "b");
    LLVMValueRef at = LLVMBuildMul(b, model, LLVMConstInt(i64, (uint64_t)state_bytes, 0), "");
    LLVMValueRef state =
        LLVMBuildInBoundsGEP2(b, LLVMInt8TypeInContext(m->context), states, &at, 1, "");
    LLVMValueRef args[4] = {frame, state, scratch, model};
    call_kernels(m, b, kernel, n, args);
    LLVMValueRef next = LLVMBuildAdd(b, model, LLVMConstInt(i64, 1, 0), "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, hi, ""), loop, done);
    LLVMValueRef value[2] = {lo, next};
    LLVMBasicBlockRef from[2] = {entry, loop};
    LLVMAddIncoming(model, value, from, 2);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMBuildRetVoid(b);
    LLVMDisposeBuilder(b);
    return f;
}

/* NULL and *error if a kernel is of a kind that cannot be emitted. */
static LLVMValueRef generate_kernel(CpuModule *m, const Plan *p, const EntryPlan *entry,
                                    const Kernel *k, const char **error)
{
    Emit e = {.arena = arena_new(), .context = m->context, .module = m->module, .plan = p,
              .vector_bytes = m->target.vector_bytes, .optimize = m->optimize, .failed_kind = -1};
    e.builder = LLVMCreateBuilderInContext(m->context);
    LLVMValueRef f =
        emit_kernel(&e, entry, k, arena_printf(m->arena, "%s.%s", entry->graph->name, k->name));
    set_attributes(m, f);
    for (unsigned i = 0; i < 3; i++)
        add_flag(f, 1 + i, "nocapture");
    if (e.failed_kind >= 0) {
        *error = arena_printf(m->arena, "%s of @%s: %s are not supported on the CPU yet", k->name,
                              entry->graph->name,
                              e.failed_kind == KERNEL_SCATTER ? "indexed accumulations" : "loops");
        f = NULL;
    }
    LLVMDisposeBuilder(e.builder);
    arena_free(e.arena);
    return f;
}

static bool generate_entry(CpuModule *m, const Plan *p, const EntryPlan *entry, Regions *out,
                           const char **error)
{
    LLVMValueRef *kernel = arena_array(m->arena, (size_t)entry->n_kernels, sizeof *kernel);
    for (int i = 0; i < entry->n_kernels; i++)
        if (!(kernel[i] = generate_kernel(m, p, entry, &entry->kernels[i], error)))
            return false;
    const char *name = entry->graph->name;
    const int n_models = entry->n_kernels - entry->n_shared;
    *out = (Regions){0};
    if (entry->n_shared)
        out->shared = shared_region(m, arena_printf(m->arena, "%s.shared", name), kernel,
                                    entry->n_shared);
    out->models = models_region(m, arena_printf(m->arena, "%s.models", name),
                                kernel + entry->n_shared, n_models, p->state_bytes);
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
                        &(DescriptorInput){.plan = p, .options = o, .regions = regions,
                                           .features = m->target.features, .layout = layout});
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
static bool emit_file(CpuModule *m, const char *path, LLVMCodeGenFileType type, const char **error)
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
