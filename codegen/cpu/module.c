/* A plan as LLVM code: a function for all kernels that are equal, the functions that run an
 * entry's kernels (one for those of all models, one for those of each), the descriptor.
 *
 * It is one LLVM module, or, split, several in contexts of their own: the first has the regions
 * and the descriptor, and each kernel goes to the part that has least so far.  Kernels call
 * nothing and use no globals, so that a part needs nothing of the others; threads then take part
 * after part through LLVM's passes and its back end. */
#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/cpu/descriptor.h"
#include "codegen/cpu/emit.h"
#include "codegen/cpu/region.h"
#include "codegen/cpu/target.h"

enum {
    MAX_PARTS = 8,
    KERNELS_PER_PART = 12 /* fewer are not worth a part */
};

typedef struct Part {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    int64_t size; /* instructions */
} Part;

struct CpuModule {
    Arena *arena;
    Part parts[MAX_PARTS];
    int n_parts;
    CpuTarget target;
    const CodegenOptions *options; /* while code is generated */
    int optimize;
    KernelFunction *known; /* of kernels */
    int n_known, cap_known;
    Map *known_numbers;      /* by signature */
    LLVMValueRef *addresses; /* functions and constants that the descriptor names, by number */
    int n_addresses, cap_addresses;
    Map *address_numbers;
    int max_places; /* of a kernel */
};

/* Values are vectors already and kernels are specialised, so this is cleaning up: registers for
 * allocas, common subexpressions, loop invariants, index arithmetic. */
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
    add_attribute(f, "prefer-vector-width",
                  m->target.vector_bytes == VECTOR_BYTES_512 ? "512" : "256");
}

static Part *smallest_part(CpuModule *m)
{
    Part *best = &m->parts[0];
    for (int i = 1; i < m->n_parts; i++)
        if (m->parts[i].size < best->size)
            best = &m->parts[i];
    return best;
}

static int64_t instructions_of(LLVMValueRef f)
{
    int64_t n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            n++;
    return n;
}

/* What the first part calls: the function itself, or its declaration. */
static LLVMValueRef callable_in_first(CpuModule *m, const Part *part, LLVMValueRef f)
{
    if (part == &m->parts[0])
        return f;
    size_t length;
    const char *name = LLVMGetValueName2(f, &length);
    LLVMValueRef declared =
        LLVMAddFunction(m->parts[0].module, name, emit_kernel_type(m->parts[0].context));
    LLVMSetLinkage(f, LLVMExternalLinkage);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    LLVMSetVisibility(declared, LLVMHiddenVisibility);
    return declared;
}

static KernelFunction generate_kernel(CpuModule *m, const Plan *p, const EntryPlan *entry,
                                      const Kernel *k, const Places *places)
{
    Part *part = smallest_part(m);
    Emit e = {.arena = arena_new(),
              .context = part->context,
              .module = part->module,
              .plan = p,
              .vector_bytes = m->target.vector_bytes,
              .optimize = m->optimize,
              .options = m->options};
    e.builder = LLVMCreateBuilderInContext(part->context);
    const char *name = arena_printf(m->arena, "%s.%s", entry->graph->name, k->name);
    if (m->n_parts > 1) /* no two are alike, whatever part they are in */
        name = arena_printf(m->arena, "%s.%d", name, m->n_known);
    LLVMValueRef f = emit_kernel(&e, entry, k, places, name);
    set_attributes(m, f);
    LLVMDisposeBuilder(e.builder);
    arena_free(e.arena);
    part->size += instructions_of(f);
    return (KernelFunction){callable_in_first(m, part, f), e.n_work};
}

/* The function of an equal kernel that was generated before, or a new one. */
static KernelFunction kernel_function(CpuModule *m, const Plan *p, const EntryPlan *entry,
                                      const Kernel *k, const Places *places)
{
    const int same = map_get(m->known_numbers, places->signature);
    if (same >= 0)
        return m->known[same];
    const KernelFunction f = generate_kernel(m, p, entry, k, places);
    if (m->n_known == m->cap_known)
        m->known = arena_grow(m->arena, m->known, &m->cap_known, sizeof *m->known);
    map_set(m->known_numbers, places->signature, m->n_known);
    m->known[m->n_known++] = f;
    return f;
}

/* The functions of all kernels of an entry or a loop's body. */
static KernelCall *generate_calls(CpuModule *m, const Plan *p, const EntryPlan *entry)
{
    KernelCall *call = arena_array(m->arena, (size_t)entry->n_kernels + 1, sizeof *call);
    int *number = arena_array(m->arena, (size_t)entry->graph->n_nodes + 1, sizeof *number);
    for (int i = 0; i < entry->n_kernels; i++) {
        const Kernel *k = &entry->kernels[i];
        if (k->kind == KERNEL_LOOP) {
            call[i].loop = k->loop;
            call[i].body = generate_calls(m, p, k->loop->body);
            continue;
        }
        Places *places = arena_alloc(m->arena, sizeof *places);
        kernel_places(m->arena, entry, k, number, places);
        call[i].places = places;
        m->max_places = places->n > m->max_places ? places->n : m->max_places;
        call[i].function = kernel_function(m, p, entry, k, places);
    }
    return call;
}

/* The number of a function or a constant. */
static int address_number(CpuModule *m, LLVMValueRef v)
{
    const int same = map_get(m->address_numbers, v);
    if (same >= 0)
        return same;
    if (m->n_addresses == m->cap_addresses)
        m->addresses =
            arena_grow(m->arena, m->addresses, &m->cap_addresses, sizeof *m->addresses);
    map_set(m->address_numbers, v, m->n_addresses);
    m->addresses[m->n_addresses] = v;
    return m->n_addresses++;
}

static void set_part_attributes(void *context, LLVMValueRef f)
{
    set_attributes(context, f);
}

static const Buffer *root_of(const Buffer *b)
{
    while (b->base)
        b = b->base;
    return b;
}

static void describe_places(CpuModule *m, const RegionInput *in, const Places *places,
                            KernelCode *out)
{
    out->operations = places->operations;
    out->n_places = places->n;
    out->places = arena_array(m->arena, (size_t)places->n + 1, sizeof *out->places);
    for (int i = 0; i < places->n; i++) {
        const Place *p = &places->place[i];
        const Buffer *root = root_of(p->buffer);
        out->places[i] = (PlaceCode){.buffer = p->buffer};
        if (root->space == BUF_CONST)
            out->places[i].address = address_number(m, region_constant(in, root));
        out->bytes_read += p->read ? (double)p->buffer->bytes : 0;
        out->bytes_written += p->written ? (double)p->buffer->bytes : 0;
    }
}

/* Each kernel of an entry, or of a loop's body, by itself. */
static const KernelCode *describe_kernels(CpuModule *m, const RegionInput *in)
{
    const int n = in->entry->n_kernels;
    KernelCode *code = arena_array(m->arena, (size_t)n + 1, sizeof *code);
    for (int i = 0; i < n; i++) {
        const KernelCall *call = &in->calls[i];
        if (call->loop) {
            RegionInput body = *in;
            body.entry = call->loop->body;
            body.calls = call->body;
            body.path = region_loop_path(m->arena, in->path, call->loop);
            code[i].body = describe_kernels(m, &body);
            continue;
        }
        code[i].function = address_number(m, call->function.value);
        code[i].n_work = call->function.n_work;
        describe_places(m, in, call->places, &code[i]);
    }
    return code;
}

static void generate_entry(CpuModule *m, const Plan *p, const EntryPlan *entry, EntryCode *out)
{
    static const char *const names[] = {[STEP_SHARED] = "shared", [STEP_MODELS] = "models"};
    RegionInput in = {.arena = m->arena,
                      .set_attributes = set_part_attributes,
                      .context = m,
                      .module = m->parts[0].module,
                      .plan = p,
                      .entry = entry,
                      .path = entry->graph->name,
                      .calls = generate_calls(m, p, entry),
                      .max_places = m->max_places};
    int *run = arena_array(m->arena, (size_t)entry->n_steps + 1, sizeof *run);
    for (int i = 0; i < entry->n_steps; i++) {
        in.run = &entry->steps[i];
        if (!step_is_run(in.run))
            continue;
        LLVMValueRef f =
            region_run(&in, arena_printf(m->arena, "%s.%s", in.path, names[in.run->kind]));
        set_attributes(m, f);
        run[i] = address_number(m, f);
    }
    *out = (EntryCode){.run = run, .kernels = describe_kernels(m, &in)};
}

static void verify(const CpuModule *m)
{
    for (int i = 0; i < m->n_parts; i++) {
        char *message = NULL;
        if (LLVMVerifyModule(m->parts[i].module, LLVMReturnStatusAction, &message)) {
            char *text = LLVMPrintModuleToString(m->parts[i].module);
            diag_internal(text, "invalid LLVM code generated: %s", message);
        }
        LLVMDisposeMessage(message);
    }
}

/* NULL, or LLVM's message, to be disposed of with LLVMDisposeErrorMessage. */
static char *run_passes(const Part *part)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failed = LLVMRunPasses(part->module, pass_text, part->machine, o);
    LLVMDisposePassBuilderOptions(o);
    return failed ? LLVMGetErrorMessage(failed) : NULL;
}

static bool passes_failed(CpuModule *m, char *message, const char **error)
{
    if (!message)
        return false;
    *error = arena_printf(m->arena, "LLVM's passes failed: %s", message);
    LLVMDisposeErrorMessage(message);
    return true;
}

static bool generate(CpuModule *m, const Plan *p, const CodegenOptions *o, const char **error)
{
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m->parts[0].machine);
    EntryCode *entries = arena_array(m->arena, (size_t)p->n_entries, sizeof *entries);
    for (int i = 0; i < m->n_parts; i++) {
        LLVMSetModuleDataLayout(m->parts[i].module, layout);
        LLVMSetTarget(m->parts[i].module, "x86_64-unknown-linux-gnu");
    }
    for (int i = 0; i < p->n_entries; i++)
        generate_entry(m, p, &p->entries[i], &entries[i]);
    LLVMDisposeTargetData(layout);
    const CodeVersion code = {o->march, m->target.features, m->n_addresses};
    const ModelFile file = model_file_write(m->arena, p, o->version, entries, 1, &code);
    descriptor_emit(m->parts[0].module, &file, m->addresses);
    verify(m);
    return o->split || m->optimize == 0 || !passes_failed(m, run_passes(&m->parts[0]), error);
}

/* By the program alone, so that the same input gives the same bytes everywhere. */
static int count_parts(const Plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_entries; i++)
        n += p->entries[i].n_kernels;
    n = n / KERNELS_PER_PART + 1;
    return n < MAX_PARTS ? n : MAX_PARTS;
}

CpuModule *cpu_generate(Arena *a, const Plan *p, const CodegenOptions *o, const char **error)
{
    CpuModule *m = arena_alloc(a, sizeof *m);
    *m = (CpuModule){.arena = a,
                     .options = o,
                     .optimize = o->optimize,
                     .known_numbers = map_of_texts(a),
                     .address_numbers = map_of_addresses(a)};
    if (!cpu_target_find(a, o->march, &m->target, error))
        return NULL;
    const int n = o->split ? count_parts(p) : 1;
    for (int i = 0; i < n; i++) {
        Part *part = &m->parts[i];
        part->machine = cpu_target_machine(a, &m->target, o->optimize, error);
        if (!part->machine) {
            cpu_free(m);
            return NULL;
        }
        part->context = LLVMContextCreate();
        part->module = LLVMModuleCreateWithNameInContext(p->module->name, part->context);
        m->n_parts++;
    }
    if (generate(m, p, o, error))
        return m;
    cpu_free(m);
    return NULL;
}

void cpu_print_llvm(const CpuModule *m, Text *out)
{
    char *text = LLVMPrintModuleToString(m->parts[0].module);
    text_add(out, text);
    LLVMDisposeMessage(text);
}

/* LLVM writes into memory, so that no full disk meets code that does not expect one. */
static void take_buffer(LLVMMemoryBufferRef buffer, Text *out)
{
    text_addn(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
    LLVMDisposeMemoryBuffer(buffer);
}

/* From a copy: LLVM's back end rewrites the module that it is given. */
static bool emit_code(CpuModule *m, Text *out, LLVMCodeGenFileType type, const char **error)
{
    char *message = NULL;
    LLVMMemoryBufferRef buffer;
    LLVMModuleRef copy = LLVMCloneModule(m->parts[0].module);
    const bool failed =
        LLVMTargetMachineEmitToMemoryBuffer(m->parts[0].machine, copy, type, &message, &buffer);
    LLVMDisposeModule(copy);
    if (failed)
        *error = arena_printf(m->arena, "LLVM cannot emit code: %s", message);
    else
        take_buffer(buffer, out);
    LLVMDisposeMessage(message);
    return !failed;
}

bool cpu_emit_asm(CpuModule *m, Text *out, const char **error)
{
    return emit_code(m, out, LLVMAssemblyFile, error);
}

bool cpu_emit_object(CpuModule *m, Text *out, const char **error)
{
    return emit_code(m, out, LLVMObjectFile, error);
}

/* ---- all parts at once ---- */

typedef struct Work {
    const CpuModule *module;
    LLVMMemoryBufferRef object[MAX_PARTS];
    char *passes_message[MAX_PARTS], *emit_message[MAX_PARTS];
    bool failed[MAX_PARTS];
    atomic_int next;
} Work;

static void compile_part(Work *w, int i)
{
    const Part *part = &w->module->parts[i];
    if (w->module->optimize > 0)
        w->passes_message[i] = run_passes(part);
    w->failed[i] = w->passes_message[i] || LLVMTargetMachineEmitToMemoryBuffer(
                                               part->machine, part->module, LLVMObjectFile,
                                               &w->emit_message[i], &w->object[i]);
}

static void *compile_parts(void *context)
{
    Work *w = context;
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->module->n_parts;)
        compile_part(w, i);
    return NULL;
}

/* The calling thread works too; a thread that cannot be made is done without. */
static void work_in_threads(Work *w, int n_threads)
{
    pthread_t thread[MAX_PARTS];
    int n = 0;
    while (n + 1 < n_threads && n + 1 < w->module->n_parts &&
           !pthread_create(&thread[n], NULL, compile_parts, w))
        n++;
    compile_parts(w);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

int cpu_part_count(const CpuModule *m)
{
    return m->n_parts;
}

bool cpu_emit_objects(CpuModule *m, Text *out, int n_threads, const char **error)
{
    Work w = {.module = m};
    atomic_init(&w.next, 0);
    work_in_threads(&w, n_threads ? n_threads : (int)sysconf(_SC_NPROCESSORS_ONLN));
    bool ok = true;
    for (int i = 0; i < m->n_parts; i++) {
        if (!passes_failed(m, w.passes_message[i], error) && w.failed[i])
            *error = arena_printf(m->arena, "LLVM cannot emit code: %s", w.emit_message[i]);
        LLVMDisposeMessage(w.emit_message[i]);
        if (!w.failed[i])
            take_buffer(w.object[i], &out[i]);
        ok &= !w.failed[i];
    }
    return ok;
}

void cpu_free(CpuModule *m)
{
    if (!m)
        return;
    for (int i = 0; i < MAX_PARTS; i++) {
        Part *part = &m->parts[i];
        if (part->module)
            LLVMDisposeModule(part->module);
        if (part->context)
            LLVMContextDispose(part->context);
        if (part->machine)
            LLVMDisposeTargetMachine(part->machine);
    }
}
