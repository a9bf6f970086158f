/* hftac's parts: options, what is written of each stage, code and link. */
#ifndef HFTAC_TOOLS_HFTAC_H
#define HFTAC_TOOLS_HFTAC_H

#include <stdbool.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "passes/plan/plan_build.h"
#include "tools/hftac_output.h"
#include "tools/options.h"
#include "tools/program.h"

/* What --emit shows, in the order in which it is reached: its name, the suffix of the file that is
 * written where -o does not say, and the pass after which it stands, if that decides. */
#define STAGE_TABLE(ROW)                          \
    ROW(AST, "ast", ".ast", NULL)                 \
    ROW(HDL, "hdl", ".out.hdl", NULL)             \
    ROW(IR, "ir", ".ir.hir", NULL)                \
    ROW(GRAD, "grad", ".grad.hir", "autodiff")    \
    ROW(FUSED, "fused", ".fused.hir", "hfuse")    \
    ROW(LOWERED, "lowered", ".lowered.txt", NULL) \
    ROW(PLAN, "plan", ".plan.txt", NULL)          \
    ROW(LLVM, "llvm", ".ll", NULL)                \
    ROW(ASM, "asm", ".s", NULL)                   \
    ROW(OBJ, "obj", ".o", NULL)                   \
    ROW(SO, "so", ".so", NULL)                    \
    ROW(CUDA, "cuda", ".cu", NULL)                \
    ROW(DOT, "dot", ".dot", NULL)

typedef enum Stage {
#define STAGE_ROW(NAME, name, suffix, after) STAGE_##NAME,
    STAGE_TABLE(STAGE_ROW)
#undef STAGE_ROW
    STAGE_COUNT
} Stage;

typedef struct StageRow {
    const char *name, *suffix, *after;
} StageRow;
/* By Stage (hftac_options.c). */
extern const StageRow stages[STAGE_COUNT];

/* The words of --target, --precision and -fdiagnostics-color, in the table's order. */
typedef enum TargetKind {
    TARGET_CPU,
    TARGET_CUDA
} TargetKind;

typedef enum Precision {
    PRECISION_FP32,
    PRECISION_FP64
} Precision;

typedef enum Color {
    COLOR_AUTO,
    COLOR_ALWAYS,
    COLOR_NEVER
} Color;

typedef struct Options {
    const char *input, *output;
    /* NAME=VALUE of -D, folders of -I. */
    OptionList defines, include_dirs;
    const char *march, *gpu_arch;
    /* 0: the frontend, i: the i-th pass; -1: none. */
    int dump_after;
    int n_models, loop_from, jobs, optimize;
    TargetKind target;
    Precision precision;
    Color color;
    long long max_memory;
    bool emit[STAGE_COUNT];
    bool time_report, mem_report, work_report, verbose, quiet, depend, deterministic;
    bool no_warnings, werror;
} Options;

typedef struct Timing {
    const char *name;
    double seconds;
} Timing;

enum {
    MAX_TIMINGS = 64, /* phases; there are about 20 */
    MAX_MODELS = 1 << 20,
    MAX_JOBS = 1 << 16
};

typedef struct Compiler {
    Options o;
    Arena *arena;
    Diag *diag;
    Timing times[MAX_TIMINGS];
    int n_times;
    double started;
    Inputs inputs;
} Compiler;

/* ---- hftac_options.c ---- */

extern const OptionTable hftac_table;
/* What -o is where nothing says it. */
extern const char default_output[];
/* Ends the program after --help and the like, or with exit code 2 on mistakes. */
Options hftac_options_read(int argc, char **argv);

/* Whether any stage was asked for by --emit, ... */
bool emits_any(const Options *o);
/* ... one that LLVM's code is needed for, or none, which means a shared object, ... */
bool wants_code(const Options *o);
/* ... or a later one than `s`. */
bool wants_beyond(const Options *o, Stage s);

/* ---- hftac_emit.c ---- */

/* The file that a stage is written to: -o names the one stage asked for; with several, each has
 * its own name. */
const char *stage_path(Compiler *c, Stage s);
void write_text(Compiler *c, const char *path, const Text *text);
/* Writes the graphs as stage `s`, if it was asked for. */
void emit_module(Compiler *c, const Module *m, Stage s);
/* Prints the graphs if this pass was asked for by --dump-after. */
void dump_after(Compiler *c, const Module *m, const char *pass);
/* The stages of the plan and the reports on it. */
void emit_plan(Compiler *c, const Plan *p);
/* A make rule: `target` depends on the files read. */
void write_depend(Compiler *c, const Program *p, const char *target);

/* ---- hftac_code.c ---- */

/* CUDA text, checked by NVRTC with --gpu-arch. */
void emit_cuda(Compiler *c, const Plan *p);
/* LLVM's stages, or the shared object. */
void generate(Compiler *c, const Plan *p);

/* ---- hftac.c ---- */

void phase_begin(Compiler *c);
void phase_end(Compiler *c, const char *name);

#endif
