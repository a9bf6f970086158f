/* hftrun's parts: options, hyper-parameter lists, and what it tells (progress, logs, table). */
#ifndef HFTAC_TOOLS_HFTRUN_H
#define HFTAC_TOOLS_HFTRUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/hftac.h"
#include "tools/options.h"
#include "tools/program.h"

enum {
    MAX_MODELS = 1 << 20,
    MAX_THREADS = 1024,
    MAX_EPOCHS = 1000000000
};

typedef enum Progress {
    PROGRESS_AUTO,
    PROGRESS_BAR,
    PROGRESS_PLAIN,
    PROGRESS_NONE
} Progress;

typedef struct Options {
    const char *model, *train, *valid, *test, *load, *save, *predict, *log, *csv, *hypers_table,
        *sort, *seeds;
    OptionList specs; /* --hyper NAME=... */
    int epochs;       /* -1: the program's */
    int models, threads, only;
    const char *device; /* "cpu", "cuda", "cuda:N"; NULL: the CPU */
    uint64_t seed;
    bool grid, info, json, quiet, profile, perf_map;
    hftac_shuffle shuffle;
    Progress progress;
} Options;

/* Ends the program if status is not OK, with the library's sentence and the exit code that fits. */
void check(hftac_status status);
/* The exit code that fits a status. */
int exit_code(hftac_status status);
void *allocate(size_t count, size_t size);

/* ---- hftrun_options.c ---- */

/* The table of options. */
extern const OptionTable hftrun_table;
/* Ends the program after --help, --version, or with exit code 2 on mistakes. */
Options hftrun_options_read(int argc, char **argv);

/* ---- hftrun_signals.c ---- */

/* SIGINT, SIGTERM, SIGHUP and SIGPIPE end the program at once, with exit code 128 + signal ... */
void signals_begin(void);
/* ... and from here on ask it to stop; a second Ctrl-C still ends it at once. */
void signals_defer(void);
/* The signal that asked first, or 0. */
int signals_asked(void);

/* ---- hftrun_outputs.c ---- */

/* Dies if what --save, --log, --csv or --predict name cannot be written, or is read from.  Leaves
 * everything as it is. */
void outputs_try(const Options *o);

/* ---- hftrun_hypers.c ---- */

/* Values of every hyper-parameter for every model. */
typedef struct HyperTable {
    int n_models, n_hypers;
    double *value; /* [n_models][n_hypers] */
    bool *given;   /* [n_hypers]: set on the command line or in the table */
} HyperTable;

/* Number of models that the lists, the grid or the table ask for; 0: they do not say. */
int hypers_count(const Options *o, const hftac_array *a);
/* Reads lists, ranges and the table for n models; dies with exit code 2 or 3 on mistakes. */
HyperTable hypers_read(const Options *o, const hftac_array *a, int n_models);
/* Sets them, with a warning for values outside their domain. */
void hypers_apply(const HyperTable *t, hftac_array *a, bool quiet);
void hypers_free(HyperTable *t);
/* --seeds: a list of 1 or n numbers. */
void seeds_apply(const Options *o, hftac_array *a, int n_models);

/* ---- hftrun_profile.c ---- */

/* The table of kernels that have run, on stderr. */
void profile_print(const hftac_array *a);

/* ---- hftrun_report.c ---- */

typedef struct Report Report;

/* What is known of each model at some point; NaN where not. */
typedef enum Split {
    SPLIT_TRAIN,
    SPLIT_VALID,
    SPLIT_TEST,
    N_SPLITS
} Split;

Report *report_open(const Options *o, hftac_array *a, const HyperTable *h, int argc,
                    char **argv);
void report_close(Report *r);
/* Something failed that does not end the run: says so, and remembers the first one's exit code. */
void report_problem(Report *r, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* That exit code, or 0. */
int report_code(const Report *r);
/* Called after each batch: at most 10 bars a second, a plain line every few seconds. */
void report_progress(Report *r, const char *what, const hftac_progress *p, int64_t epochs);
/* An epoch is over: reads each running model's mean loss, logs it. */
void report_epoch(Report *r, int64_t epoch, double seconds, int64_t samples);
/* Reads the metrics of an evaluation that has just ended. */
void report_evaluation(Report *r, Split split, int64_t epoch);
/* Ends the progress line. */
void report_quiet(Report *r);

/* ---- hftrun_table.c ---- */

/* Dies if --sort names no metric. */
void table_check_sort(const Options *o, const hftac_array *a);
/* The final table, best model first, or JSON. */
void report_table(Report *r, const char *interrupted);

/* ---- hftrun_info.c ---- */

/* --info. */
void report_info(const hftac_array *a, bool json);

#endif
