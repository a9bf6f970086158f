/* The frontend for its callers, the tools: from the text of .hdl files to a module of graphs. */
#ifndef HFTAC_FRONTEND_FRONTEND_H
#define HFTAC_FRONTEND_FRONTEND_H

#include "frontend/syntax/ast.h"
#include "ir/graph.h"

typedef struct Define {
    const char *name, *value; /* -DNAME=VALUE; value is parsed as an .hdl expression */
} Define;

typedef struct FrontendOptions {
    const Define *defines;
    int n_defines;
    const char *const *include_dirs;
    int n_include_dirs;
    int n_models;  /* B: the number of values an arch may be given */
    int loop_from; /* a `repeat` of at least so many rounds becomes a loop if it can; 0: a few */
    DType precision; /* what f32 in the source means: DT_F32, or DT_F64 for gradient checks */
} FrontendOptions;

/* The files of a program: the root and what it includes, each once, in order of first use. */
typedef struct Program {
    Ast **files;
    int n_files;
} Program;

/* Reads and parses path ("-": stdin) and its includes.  false after reporting; *not_found is set
 * if a file could not be read (exit code 3). */
bool program_load(Arena *a, Diag *d, const char *path, const FrontendOptions *o, Program *out,
                  bool *not_found);
/* Elaborates: evaluates what is known at compile time, expands layers, builds the graphs init,
 * train, eval, eval_end, predict (those that the program has).  NULL after reporting. */
Module *program_elaborate(Arena *a, Diag *d, const Program *p, const FrontendOptions *o);
/* --emit=hdl: canonical text of the root file, with types filled in at model level. */
void program_print_hdl(Text *out, const Program *p, const Module *m);

#endif
