/* From the plan to code: CUDA's text, LLVM's stages, the shared object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hftac.h"

static void check_cuda(Compiler *c, const char *source)
{
    char *list = arena_strdup(c->arena, c->o.gpu_arch);
    for (char *save = NULL, *arch = strtok_r(list, ",", &save); arch;
         arch = strtok_r(NULL, ",", &save)) {
        const char *log = "";
        const int r = cuda_check(c->arena, source, arch, &log);
        if (r < 0)
            die(EXIT_MISSING, "%s", log);
        if (r > 0)
            diag_internal(source, "NVRTC refused the generated text for %s:\n%s", arch, log);
        if (!c->o.quiet)
            fprintf(stderr, "hftac: NVRTC compiled the text for %s\n", arch);
    }
}

void emit_cuda(Compiler *c, const Plan *p)
{
    Text t;
    text_init(&t, c->arena);
    cuda_print(c->arena, p, &t);
    if (c->o.gpu_arch)
        check_cuda(c, t.s);
    if (c->o.emit[STAGE_CUDA])
        write_text(c, stage_path(c, STAGE_CUDA), &t);
}

static void print_code(Compiler *c, CpuModule *code)
{
    const char *error = NULL;
    if (c->o.emit[STAGE_LLVM]) {
        Text t;
        text_init(&t, c->arena);
        cpu_print_llvm(code, &t);
        write_text(c, stage_path(c, STAGE_LLVM), &t);
    }
    if (c->o.emit[STAGE_ASM]) {
        Text t;
        text_init(&t, c->arena);
        if (!cpu_emit_asm(code, &t, &error))
            die(EXIT_FILE, "%s", error);
        write_text(c, stage_path(c, STAGE_ASM), &t);
    }
    if (c->o.emit[STAGE_OBJ]) {
        Text t;
        text_init(&t, c->arena);
        if (!cpu_emit_object(code, &t, &error))
            die(EXIT_FILE, "%s", error);
        write_text(c, stage_path(c, STAGE_OBJ), &t);
    }
}

static void link_code(Compiler *c, CpuModule *code)
{
    const char *so = emits_any(&c->o) ? stage_path(c, STAGE_SO)
                     : c->o.output    ? c->o.output
                                      : default_output;
    if (!strcmp(so, "-"))
        die(EXIT_USAGE, "a shared object is not printed; name a file with -o");
    if (is_special(so))
        die(EXIT_FILE, "cannot write '%s': it is not a regular file", so);
    output_check(&c->inputs, so);
    const int n = cpu_part_count(code);
    Text *object = arena_array(c->arena, (size_t)n, sizeof *object), linked;
    text_init(&linked, c->arena);
    for (int i = 0; i < n; i++)
        text_init(&object[i], c->arena);
    const char *error = NULL;
    bool tool_missing = false;
    const bool emitted = emits_any(&c->o) ? cpu_emit_object(code, &object[0], &error)
                                          : cpu_emit_objects(code, object, c->o.jobs, &error);
    if (!emitted)
        die(EXIT_FILE, "%s", error);
    phase_end(c, "object");
    if (!link_objects(c->arena, n, object, c->o.verbose, &linked, &error, &tool_missing))
        die(tool_missing ? EXIT_MISSING : EXIT_FILE, "%s", error);
    write_text(c, so, &linked);
    phase_end(c, "link");
}

void generate(Compiler *c, const Plan *p)
{
    const CodegenOptions co = {.march = c->o.march,
                               .optimize = c->o.optimize,
                               .verbose = c->o.verbose,
                               .version = HFTAC_VERSION,
                               .split = !emits_any(&c->o)};
    const char *error = NULL;
    phase_begin(c);
    CpuModule *code = cpu_generate(c->arena, p, &co, &error);
    if (!code)
        diag_internal(NULL, "code generation failed: %s", error);
    phase_end(c, "codegen");
    print_code(c, code);
    if (!emits_any(&c->o) || c->o.emit[STAGE_SO])
        link_code(c, code);
    cpu_free(code);
}
