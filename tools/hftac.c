/* hftac: compiles a model description into a shared object that trains B models at once.
 *
 * Options, then phases in order: read, elaborate, passes, plan, code, link.  Each phase can be
 * looked at (--emit, --dump-after) and is timed (--time-report). */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/print.h"
#include "ir/read.h"
#include "ir/support/input.h"
#include "ir/verify.h"
#include "passes/plan/plan_build.h"
#include "tools/hftac_output.h"

typedef enum Stage {
    STAGE_AST,
    STAGE_HDL,
    STAGE_IR,
    STAGE_GRAD,
    STAGE_FUSED,
    STAGE_LOWERED,
    STAGE_PLAN,
    STAGE_LLVM,
    STAGE_ASM,
    STAGE_OBJ,
    STAGE_SO,
    STAGE_CUDA,
    STAGE_DOT,
    STAGE_COUNT
} Stage;

/* suffix: of the file that --emit writes where -o does not say; after: the pass after which a
 * stage stands. */
static const struct {
    const char *name, *suffix, *after;
} stages[STAGE_COUNT] = {
    [STAGE_AST] = {"ast", ".ast", NULL},
    [STAGE_HDL] = {"hdl", ".out.hdl", NULL},
    [STAGE_IR] = {"ir", ".ir.hir", NULL},
    [STAGE_GRAD] = {"grad", ".grad.hir", "autodiff"},
    [STAGE_FUSED] = {"fused", ".fused.hir", "hfuse"},
    [STAGE_LOWERED] = {"lowered", ".lowered.txt", NULL},
    [STAGE_PLAN] = {"plan", ".plan.txt", NULL},
    [STAGE_LLVM] = {"llvm", ".ll", NULL},
    [STAGE_ASM] = {"asm", ".s", NULL},
    [STAGE_OBJ] = {"obj", ".o", NULL},
    [STAGE_SO] = {"so", ".so", NULL},
    [STAGE_CUDA] = {"cuda", ".cu", NULL},
    [STAGE_DOT] = {"dot", ".dot", NULL},
};

typedef struct Options {
    const char *input, *output;
    int n_models, loop_from, jobs;
    Define *defines;
    int n_defines;
    const char **include_dirs;
    int n_include_dirs;
    bool emit[STAGE_COUNT];
    bool emit_any;
    const char *dump_after;
    int optimize;
    bool cuda;
    const char *march, *gpu_arch;
    DType precision;
    long long max_memory;
    bool time_report, mem_report, work_report, verbose, quiet, depend;
    DiagOptions diag;
} Options;

typedef struct Timing {
    const char *name;
    double seconds;
} Timing;

typedef struct Compiler {
    Options o;
    Arena *arena;
    Diag *diag;
    Timing times[64];
    int n_times;
    double started;
    Inputs inputs;
} Compiler;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void phase_begin(Compiler *c)
{
    c->started = now();
}

static void phase_end(Compiler *c, const char *name)
{
    if (c->n_times < (int)(sizeof c->times / sizeof c->times[0]))
        c->times[c->n_times++] = (Timing){name, now() - c->started};
    c->started = now();
}

static const char help_text[] =
    "Usage: hftac [options] model.hdl\n"
    "Compiles a model description into a shared object that trains B models at once.\n"
    "\n"
    "  -o FILE              output (default model.so; with --emit, `-o -` prints)\n"
    "  -B N                 number of models, the array's capacity (default 1)\n"
    "  -D NAME=VALUE        set a const, an arch or a dim (batch N too)\n"
    "  -I DIR               also look for included files in DIR\n"
    "  --emit=STAGE[,...]   ast, hdl, ir, grad, fused, lowered, plan, llvm, asm, obj, so, "
    "cuda, dot\n"
    "  --dump-after=PASS    print the graphs after a pass: frontend, autodiff, mask_batch, "
    "simplify, hfuse, lower\n"
    "  -O0 .. -O3           optimisation (default -O2); results are the same bits at every "
    "level\n"
    "  --target=cpu|cuda    what to generate code for (default cpu; cuda: --emit=cuda)\n"
    "  --loop-from=N        a repeat of at least N rounds stays a loop if it can (default 8)\n"
    "  -march=ARCH          x86-64-v3 (default), x86-64-v4, native, ...\n"
    "  --gpu-arch=ARCH,...  with --target=cuda: also compile the text with NVRTC, e.g. "
    "sm_80,sm_90\n"
    "  --precision=TYPE     fp32 (default), fp64\n"
    "  --max-memory=SIZE    refuse a program whose state for B models needs more, e.g. 8G\n"
    "  --time-report        where the time went, to stderr\n"
    "  --mem-report         the memory plan, to stderr\n"
    "  --work-report        how much each entry computes, and how often, to stderr\n"
    "  -w, -Werror          no warnings; warnings are errors\n"
    "  -fdiagnostics-color=auto|always|never\n"
    "  -MD                  write a make rule with the files read to OUTPUT.d\n"
    "  -j N                 threads that compile (default: one per processor)\n"
    "  --list-ops           the operators of the IR\n"
    "  -v, -q               say more, say less\n"
    "  --help, --version\n"
    "\n"
    "A file that ends in .hir is read as IR text. `-` is standard input; `--` ends the "
    "options.\n"
    "An output appears whole or not at all, and none may be one of the files read.\n"
    "Exit codes: 0 ok, 1 errors in the input, 2 usage, 3 file or OS error, 4 tool missing, 70 "
    "internal error.\n";

_Noreturn static void usage(const char *fmt, const char *what)
{
    fputs("hftac: error: ", stderr);
    fprintf(stderr, fmt, what); /* every caller passes a literal with at most one %s */
    fputs("\nTry 'hftac --help'.\n", stderr);
    exit(EXIT_USAGE);
}

static bool parse_emit(Options *o, const char *list)
{
    char copy[256];
    if (strlen(list) >= sizeof copy)
        return false;
    strcpy(copy, list);
    for (char *save = NULL, *s = strtok_r(copy, ",", &save); s;
         s = strtok_r(NULL, ",", &save)) {
        int i = 0;
        while (i < STAGE_COUNT && strcmp(stages[i].name, s))
            i++;
        if (i == STAGE_COUNT)
            return false;
        o->emit[i] = o->emit_any = true;
    }
    return o->emit_any;
}

static bool parse_size(const char *s, long long *out)
{
    char *end;
    errno = 0;
    const double v = strtod(s, &end);
    const char *units = "KMGT";
    double scale = 1;
    if (*end) {
        const char *u = strchr(units, *end >= 'a' ? *end - 32 : *end);
        if (!u || end[1])
            return false;
        for (const char *p = units; p <= u; p++)
            scale *= 1024;
    }
    *out = (long long)(v * scale);
    return end != s && !errno && v > 0 && v * scale < 9e18;
}

static int parse_count(const char *s, const char *option, int max)
{
    char *end;
    errno = 0;
    const long v = strtol(s, &end, 10);
    if (errno || end == s || *end || v < 1 || v > max) {
        char text[160];
        snprintf(text, sizeof text, "%s needs a whole number from 1 to %d", option, max);
        usage("%s", text);
    }
    return (int)v;
}

static void add_define(Compiler *c, const char *arg)
{
    Options *o = &c->o;
    const char *eq = strchr(arg, '=');
    if (!eq || eq == arg || !eq[1])
        usage("-D needs NAME=VALUE, got '%s'", arg);
    Define *d = arena_array(c->arena, (size_t)o->n_defines + 1, sizeof *d);
    if (o->n_defines)
        memcpy(d, o->defines, (size_t)o->n_defines * sizeof *d);
    d[o->n_defines++] = (Define){arena_strndup(c->arena, arg, (size_t)(eq - arg)), eq + 1};
    o->defines = d;
}

static void add_include(Compiler *c, const char *dir)
{
    Options *o = &c->o;
    const char **d = arena_array(c->arena, (size_t)o->n_include_dirs + 1, sizeof *d);
    if (o->n_include_dirs)
        memcpy(d, o->include_dirs, (size_t)o->n_include_dirs * sizeof *d);
    d[o->n_include_dirs++] = dir;
    o->include_dirs = d;
}

enum {
    OPT_EMIT = 256,
    OPT_DUMP,
    OPT_TARGET,
    OPT_MARCH,
    OPT_LOOP_FROM,
    OPT_GPU_ARCH,
    OPT_PRECISION,
    OPT_MAX_MEMORY,
    OPT_TIME,
    OPT_MEM,
    OPT_WORK,
    OPT_LIST,
    OPT_HELP,
    OPT_VERSION,
    OPT_DETERMINISTIC
};

static const struct option long_options[] = {
    {"emit", required_argument, NULL, OPT_EMIT},
    {"dump-after", required_argument, NULL, OPT_DUMP},
    {"target", required_argument, NULL, OPT_TARGET},
    {"march", required_argument, NULL, OPT_MARCH},
    {"loop-from", required_argument, NULL, OPT_LOOP_FROM},
    {"gpu-arch", required_argument, NULL, OPT_GPU_ARCH},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"max-memory", required_argument, NULL, OPT_MAX_MEMORY},
    {"time-report", no_argument, NULL, OPT_TIME},
    {"mem-report", no_argument, NULL, OPT_MEM},
    {"work-report", no_argument, NULL, OPT_WORK},
    {"list-ops", no_argument, NULL, OPT_LIST},
    {"deterministic", no_argument, NULL, OPT_DETERMINISTIC},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {"output", required_argument, NULL, 'o'},
    {"models", required_argument, NULL, 'B'},
    {"define", required_argument, NULL, 'D'},
    {"include", required_argument, NULL, 'I'},
    {"jobs", required_argument, NULL, 'j'},
    {"verbose", no_argument, NULL, 'v'},
    {"quiet", no_argument, NULL, 'q'},
    {NULL, 0, NULL, 0},
};

static void list_ops(Arena *a)
{
    Text t;
    text_init(&t, a);
    op_list_print(&t);
    fputs(t.s, stdout);
    output_flush();
}

static void parse_color(Options *o, const char *when)
{
    if (!strcmp(when, "auto"))
        o->diag.color = isatty(STDERR_FILENO);
    else if (!strcmp(when, "always") || !strcmp(when, "never"))
        o->diag.color = when[0] == 'a';
    else
        usage("-fdiagnostics-color is auto, always or never, not '%s'", when);
}

/* -march=X, -Werror, -MD and -fdiagnostics-color=X are single-dash words as in cc. */
static bool parse_word(Compiler *c, const char *arg)
{
    Options *o = &c->o;
    if (!strncmp(arg, "-march=", 7))
        o->march = arg + 7;
    else if (!strncmp(arg, "-fdiagnostics-color=", 20))
        parse_color(o, arg + 20);
    else if (!strcmp(arg, "-Werror"))
        o->diag.werror = true;
    else if (!strcmp(arg, "-Wall"))
        o->diag.no_warnings = false;
    else if (!strcmp(arg, "-MD"))
        o->depend = true;
    else
        return false;
    return true;
}

static void parse_option(Compiler *c, int opt, const char *arg)
{
    Options *o = &c->o;
    switch (opt) {
    case 'o':
        o->output = arg;
        break;
    case 'B':
        o->n_models = parse_count(arg, "-B", 1 << 20);
        break;
    case 'D':
        add_define(c, arg);
        break;
    case 'I':
        add_include(c, arg);
        break;
    case 'j':
        o->jobs = parse_count(arg, "-j", 1 << 16);
        break;
    case 'v':
        o->verbose = true;
        break;
    case 'q':
        o->quiet = true;
        break;
    case 'w':
        o->diag.no_warnings = true;
        break;
    case 'O':
        if (strlen(arg) != 1 || arg[0] < '0' || arg[0] > '3')
            usage("-O is 0 to 3, not '%s'", arg);
        o->optimize = arg[0] - '0';
        break;
    case OPT_EMIT:
        if (!parse_emit(o, arg))
            usage("unknown stage in --emit=%s (ast, hdl, ir, grad, fused, lowered, plan, llvm, "
                  "asm, obj, so, cuda, dot)",
                  arg);
        break;
    case OPT_DUMP:
        o->dump_after = arg;
        break;
    case OPT_TARGET:
        if (strcmp(arg, "cpu") && strcmp(arg, "cuda"))
            usage("--target is cpu or cuda, not '%s'", arg);
        o->cuda = !strcmp(arg, "cuda");
        break;
    case OPT_LOOP_FROM:
        o->loop_from = parse_count(arg, "--loop-from", INT_MAX);
        break;
    case OPT_MARCH:
        o->march = arg;
        break;
    case OPT_GPU_ARCH:
        o->gpu_arch = arg;
        break;
    case OPT_PRECISION:
        if (strcmp(arg, "fp32") && strcmp(arg, "fp64"))
            usage(
                "--precision is fp32 or fp64, not '%s' (tf32, bf16 and fp16 are not there yet)",
                arg);
        o->precision = !strcmp(arg, "fp64") ? DT_F64 : DT_F32;
        break;
    case OPT_MAX_MEMORY:
        if (!parse_size(arg, &o->max_memory))
            usage("--max-memory needs a size such as 8G, not '%s'", arg);
        break;
    case OPT_TIME:
        o->time_report = true;
        break;
    case OPT_MEM:
        o->mem_report = true;
        break;
    case OPT_WORK:
        o->work_report = true;
        break;
    case OPT_DETERMINISTIC:
        break; /* the CPU always is */
    case OPT_LIST:
        list_ops(c->arena);
        exit(0);
    case OPT_HELP:
        fputs(help_text, stdout);
        output_flush();
        exit(0);
    case OPT_VERSION:
        puts("hftac " HFTAC_VERSION);
        output_flush();
        exit(0);
    default:
        fputs("Try 'hftac --help'.\n", stderr);
        exit(EXIT_USAGE);
    }
}

static void check_dump(const Options *o)
{
    bool known = !o->dump_after || !strcmp(o->dump_after, "frontend");
    for (int i = 0; i < pass_count && !known; i++)
        known = !strcmp(pass_list[i].name, o->dump_after);
    if (!known)
        usage("no pass is called '%s'", o->dump_after);
}

static void parse_options(Compiler *c, int argc, char **argv)
{
    Options *o = &c->o;
    *o = (Options){.n_models = 1, .optimize = 2, .march = "x86-64-v3", .precision = DT_F32};
    o->diag.color = isatty(STDERR_FILENO);
    int n = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--")) {
            memmove(&argv[n], &argv[i], (size_t)(argc - i) * sizeof *argv);
            n += argc - i;
            break;
        }
        if (!parse_word(c, argv[i]))
            argv[n++] = argv[i];
    }
    argc = n;
    for (int opt; (opt = getopt_long(argc, argv, "o:B:D:I:O:j:vqw", long_options, NULL)) != -1;)
        parse_option(c, opt, optarg);
    if (optind >= argc)
        usage("%s", "no input file");
    if (optind + 1 < argc)
        usage("one input file, please; '%s' is a second", argv[optind + 1]);
    o->input = argv[optind];
    check_dump(o);
    if (o->emit[STAGE_CUDA] && !o->cuda)
        usage("%s", "--emit=cuda needs --target=cuda");
    if (o->cuda && (!o->emit_any || o->emit[STAGE_LLVM] || o->emit[STAGE_ASM] ||
                    o->emit[STAGE_OBJ] || o->emit[STAGE_SO]))
        usage("%s", "--target=cuda can be looked at with --emit=cuda (ast, hdl, ir, grad, "
                    "fused, lowered, plan); "
                    "running it is not there yet");
}

/* The input's name without directory and suffix, in the current directory, plus `suffix`. */
static const char *output_name(Compiler *c, const char *suffix)
{
    const char *base = strrchr(c->o.input, '/');
    base = base ? base + 1 : c->o.input;
    if (!strcmp(base, "-"))
        base = "stdin";
    const char *dot = strrchr(base, '.');
    return arena_printf(c->arena, "%.*s%s",
                        dot && dot != base ? (int)(dot - base) : (int)strlen(base), base,
                        suffix);
}

/* -o names the one stage asked for; with several, each has its own name. */
static const char *stage_path(Compiler *c, Stage s)
{
    int n = 0;
    for (int i = 0; i < STAGE_COUNT; i++)
        n += c->o.emit[i];
    if (c->o.output && (n <= 1 || !strcmp(c->o.output, "-")))
        return c->o.output;
    return output_name(c, stages[s].suffix);
}

static void write_text(Compiler *c, const char *path, const Text *text)
{
    output_write(c->arena, &c->inputs, path, text);
}

static void emit_module(Compiler *c, const Module *m, Stage s)
{
    if (!c->o.emit[s])
        return;
    Text t;
    text_init(&t, c->arena);
    (s == STAGE_DOT ? module_print_dot : module_print)(&t, m);
    write_text(c, stage_path(c, s), &t);
}

static void dump_after(Compiler *c, const Module *m, const char *pass)
{
    if (!c->o.dump_after || strcmp(c->o.dump_after, pass))
        return;
    Text t;
    text_init(&t, c->arena);
    module_print(&t, m);
    write_text(c, "-", &t);
}

static int finish_report(Compiler *c)
{
    if (c->o.time_report) {
        double total = 0;
        for (int i = 0; i < c->n_times; i++) {
            fprintf(stderr, "%-12s %9.3f ms\n", c->times[i].name, 1e3 * c->times[i].seconds);
            total += c->times[i].seconds;
        }
        fprintf(stderr, "%-12s %9.3f ms, compiler memory %.1f MiB\n", "total", 1e3 * total,
                (double)arena_used(c->arena) / 1048576.0);
    }
    return 0;
}

/* True if a later stage than `s` was asked for. */
static bool wants_beyond(const Compiler *c, Stage s)
{
    if (!c->o.emit_any)
        return true;
    for (int i = s + 1; i < STAGE_COUNT; i++)
        if (c->o.emit[i])
            return true;
    return false;
}

static void write_depend(Compiler *c, const Program *p, const char *target)
{
    Text t;
    text_init(&t, c->arena);
    text_printf(&t, "%s:", target);
    for (int i = 0; i < p->n_files; i++)
        text_printf(&t, " %s", p->files[i]->name);
    text_add(&t, "\n");
    write_text(c, arena_printf(c->arena, "%s.d", target), &t);
}

static Module *load_hir(Compiler *c)
{
    struct stat st;
    const bool is_stdin = !strcmp(c->o.input, "-");
    const int fd = is_stdin ? STDIN_FILENO : input_open(c->o.input, &st);
    size_t n = 0;
    const char *text = fd < 0 ? NULL : input_read(c->arena, fd, &n);
    if (!text)
        file_error(
            arena_printf(c->arena, "cannot read '%s': %s", c->o.input, input_error(errno)));
    if (!is_stdin)
        close(fd);
    return module_read(c->arena, c->diag, diag_add_source(c->diag, c->o.input, text, n, false));
}

static void note_inputs(Compiler *c, const Program *p)
{
    const char **paths = arena_array(c->arena, (size_t)p->n_files + 1, sizeof *paths);
    for (int i = 0; i < p->n_files; i++)
        paths[i] = p->files[i]->name;
    c->inputs = (Inputs){.paths = paths, .n = p->n_files};
}

/* Text to module; exits where the text has mistakes or no later stage is wanted. */
static Module *front(Compiler *c)
{
    const size_t len = strlen(c->o.input);
    if (len > 4 && !strcmp(c->o.input + len - 4, ".hir")) {
        c->inputs = (Inputs){.paths = &c->o.input, .n = 1};
        Module *m = load_hir(c);
        phase_end(c, "read");
        return m;
    }
    const FrontendOptions fo = {.defines = c->o.defines,
                                .n_defines = c->o.n_defines,
                                .include_dirs = c->o.include_dirs,
                                .n_include_dirs = c->o.n_include_dirs,
                                .n_models = c->o.n_models,
                                .loop_from = c->o.loop_from,
                                .precision = c->o.precision};
    Program p = {0};
    bool not_found = false;
    const bool loaded = program_load(c->arena, c->diag, c->o.input, &fo, &p, &not_found);
    phase_end(c, "parse");
    if (!loaded || diag_errors(c->diag))
        exit(not_found ? EXIT_FILE : EXIT_INPUT);
    note_inputs(c, &p);
    if (c->o.emit[STAGE_AST]) {
        Text t;
        text_init(&t, c->arena);
        for (int i = 0; i < p.n_files; i++)
            ast_print(&t, p.files[i]);
        write_text(c, stage_path(c, STAGE_AST), &t);
        if (!wants_beyond(c, STAGE_AST))
            exit(finish_report(c));
    }
    phase_begin(c);
    Module *m = program_elaborate(c->arena, c->diag, &p, &fo);
    phase_end(c, "elaborate");
    if (m && c->o.emit[STAGE_HDL]) {
        Text t;
        text_init(&t, c->arena);
        program_print_hdl(&t, &p, m);
        write_text(c, stage_path(c, STAGE_HDL), &t);
    }
    if (m && c->o.depend)
        write_depend(c, &p, c->o.output ? c->o.output : "model.so");
    return m;
}

/* A .hir text may stand after any pass: the ones that are done are not run again. */
static int first_pass(const Module *m)
{
    for (int i = pass_count; i-- > 0;)
        if (!strcmp(m->stage, pass_list[i].stage))
            return i + 1;
    return 0;
}

/* Prints the stage that stands after this pass, if it was asked for; ends there if nothing later
 * was. */
static void emit_after(Compiler *c, const Module *m, const char *pass)
{
    dump_after(c, m, pass);
    for (int s = 0; s < STAGE_COUNT; s++)
        if (stages[s].after && !strcmp(stages[s].after, pass)) {
            emit_module(c, m, (Stage)s);
            if (c->o.emit[s] && !wants_beyond(c, (Stage)s))
                exit(finish_report(c));
        }
}

static bool run_passes(Compiler *c, Module *m, const Target *t)
{
    if (first_pass(m))
        emit_after(c, m, pass_list[first_pass(m) - 1].name);
    for (int i = first_pass(m); i < pass_count; i++) {
        phase_begin(c);
        if (!pass_list[i].run(m, c->o.n_models, t) || diag_errors(c->diag))
            return false;
        module_verify(m, pass_list[i].name);
        phase_end(c, pass_list[i].name);
        emit_after(c, m, pass_list[i].name);
    }
    return true;
}

static void check_memory(Compiler *c, const Plan *p)
{
    const double bytes = (double)p->state_bytes * c->o.n_models + (double)p->shared_bytes +
                         (double)p->scratch_bytes;
    if (c->o.max_memory && bytes > (double)c->o.max_memory) {
        fprintf(stderr,
                "hftac: error: %d models need %.0f bytes, more than --max-memory=%lld\n",
                c->o.n_models, bytes, c->o.max_memory);
        exit(EXIT_INPUT);
    }
}

static void check_cuda(Compiler *c, const char *source)
{
    char *list = arena_strdup(c->arena, c->o.gpu_arch);
    for (char *save = NULL, *arch = strtok_r(list, ",", &save); arch;
         arch = strtok_r(NULL, ",", &save)) {
        const char *log = "";
        const int r = cuda_check(c->arena, source, arch, &log);
        if (r < 0) {
            fprintf(stderr, "hftac: error: %s\n", log);
            exit(EXIT_TOOL);
        }
        if (r > 0)
            diag_internal(source, "NVRTC refused the generated text for %s:\n%s", arch, log);
        if (!c->o.quiet)
            fprintf(stderr, "hftac: NVRTC compiled the text for %s\n", arch);
    }
}

static void emit_cuda(Compiler *c, const Plan *p)
{
    Text t;
    text_init(&t, c->arena);
    cuda_print(c->arena, p, &t);
    if (c->o.gpu_arch)
        check_cuda(c, t.s);
    if (c->o.emit[STAGE_CUDA])
        write_text(c, stage_path(c, STAGE_CUDA), &t);
}

static void print_report(Compiler *c, const Plan *p, bool wanted,
                         void (*print)(Text *out, const Plan *p))
{
    Text t;
    if (!wanted)
        return;
    text_init(&t, c->arena);
    print(&t, p);
    fputs(t.s, stderr);
}

static void emit_plan(Compiler *c, const Plan *p)
{
    for (int s = STAGE_LOWERED; s <= STAGE_PLAN; s++)
        if (c->o.emit[s]) {
            Text t;
            text_init(&t, c->arena);
            plan_print(&t, p, s == STAGE_PLAN);
            write_text(c, stage_path(c, (Stage)s), &t);
        }
    print_report(c, p, c->o.mem_report, plan_print_memory);
    print_report(c, p, c->o.work_report, plan_print_work);
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
            file_error(error);
        write_text(c, stage_path(c, STAGE_ASM), &t);
    }
    if (c->o.emit[STAGE_OBJ]) {
        Text t;
        text_init(&t, c->arena);
        if (!cpu_emit_object(code, &t, &error))
            file_error(error);
        write_text(c, stage_path(c, STAGE_OBJ), &t);
    }
}

static void link_code(Compiler *c, CpuModule *code)
{
    const char *so = c->o.emit_any ? stage_path(c, STAGE_SO)
                     : c->o.output ? c->o.output
                                   : "model.so";
    if (!strcmp(so, "-"))
        usage("%s", "a shared object is not printed; name a file with -o");
    if (is_special(so))
        file_error(arena_printf(c->arena, "cannot write '%s': it is no regular file", so));
    output_check(c->arena, &c->inputs, so);
    const int n = cpu_part_count(code);
    Text *object = arena_array(c->arena, (size_t)n, sizeof *object), linked;
    text_init(&linked, c->arena);
    for (int i = 0; i < n; i++)
        text_init(&object[i], c->arena);
    const char *error = NULL;
    bool tool_missing = false;
    const bool emitted = c->o.emit_any ? cpu_emit_object(code, &object[0], &error)
                                       : cpu_emit_objects(code, object, c->o.jobs, &error);
    if (!emitted)
        file_error(error);
    phase_end(c, "object");
    if (!link_objects(c->arena, n, object, c->o.verbose, &linked, &error, &tool_missing)) {
        fprintf(stderr, "hftac: error: %s\n", error);
        exit(tool_missing ? EXIT_TOOL : EXIT_FILE);
    }
    write_text(c, so, &linked);
    phase_end(c, "link");
}

static void generate(Compiler *c, const Plan *p)
{
    const CodegenOptions co = {.march = c->o.march,
                               .optimize = c->o.optimize,
                               .verbose = c->o.verbose,
                               .version = HFTAC_VERSION,
                               .split = !c->o.emit_any};
    const char *error = NULL;
    phase_begin(c);
    CpuModule *code = cpu_generate(c->arena, p, &co, &error);
    if (!code)
        diag_internal(NULL, "code generation failed: %s", error);
    phase_end(c, "codegen");
    print_code(c, code);
    if (!c->o.emit_any || c->o.emit[STAGE_SO])
        link_code(c, code);
    cpu_free(code);
}

static void say_counts(const Compiler *c, const Module *m)
{
    int64_t n = 0;
    for (int i = 0; i < m->n_states; i++)
        if (m->states[i].role == ROLE_PARAM)
            n += shape_count(&m->states[i].type.shape);
    if (c->o.quiet || c->o.emit_any)
        return;
    fprintf(stderr, "hftac: %s: %lld parameters, %d model%s\n", m->name, (long long)n,
            m->n_models, m->n_models == 1 ? "" : "s");
    for (int i = 0; i < m->n_graphs; i++)
        if (m->graphs[i]->whole)
            fprintf(stderr, "hftac: @%s takes whole batches only: %s\n", m->graphs[i]->name,
                    m->graphs[i]->whole);
}

int main(int argc, char **argv)
{
    output_begin();
    cpu_watch_memory();
    Compiler c = {.arena = arena_new()};
    parse_options(&c, argc, argv);
    c.diag = diag_new(c.arena, &c.o.diag);
    const char *error = NULL;
    const Target target = {.name = c.o.cuda ? "cuda" : "cpu", .optimize = c.o.optimize};
    if (!c.o.cuda && !cpu_vector_bytes(c.arena, c.o.march, &error))
        usage("%s", error);
    phase_begin(&c);
    Module *m = front(&c);
    if (!m || diag_errors(c.diag))
        return EXIT_INPUT;
    module_verify(m, "frontend");
    if (m->n_models)
        c.o.n_models = m->n_models; /* a .hir after horizontal fusion */
    dump_after(&c, m, "frontend");
    if (!first_pass(m))
        emit_module(&c, m, STAGE_IR);
    if (!wants_beyond(&c, STAGE_IR) && !c.o.dump_after)
        return finish_report(&c);
    if (!run_passes(&c, m, &target))
        return EXIT_INPUT;
    emit_module(&c, m, STAGE_DOT);
    phase_begin(&c);
    const Plan *plan = plan_build(m, &target);
    phase_end(&c, "plan");
    check_memory(&c, plan);
    emit_plan(&c, plan);
    if (c.o.cuda)
        emit_cuda(&c, plan);
    else if (!c.o.emit_any || c.o.emit[STAGE_LLVM] || c.o.emit[STAGE_ASM] ||
             c.o.emit[STAGE_OBJ] || c.o.emit[STAGE_SO])
        generate(&c, plan);
    say_counts(&c, m);
    finish_report(&c);
    arena_free(c.arena);
    return 0;
}
