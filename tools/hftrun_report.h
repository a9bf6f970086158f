/* What is known of a run while it goes on, for the files that tell of it: hftrun_report.c (progress
 * and logs) and hftrun_table.c (the table at the end). */
#ifndef HFTAC_TOOLS_HFTRUN_REPORT_H
#define HFTAC_TOOLS_HFTRUN_REPORT_H

#include <jansson.h>

#include "tools/hftrun.h"

struct Report {
    const Options *o;
    hftac_array *a;
    const HyperTable *h;
    const hftac_description *about;
    FILE *log, *csv;
    /* [N_SPLITS][models][n_metrics], NaN: not known. */
    double *metric;
    bool seen[N_SPLITS];
    double started, pass_started, last_shown;
    Progress progress;
    /* The bar stands on the current line. */
    bool line_open;
    /* Exit code of the first problem, or 0. */
    int code;
    /* What the models are that still ran at the end; NULL before it. */
    const char *ended;
};

/* "train", "valid", "test". */
extern const char *const split_text[N_SPLITS];

double *report_cell(const Report *r, Split s, int model, int metric);
/* "running", "diverged", ... */
const char *report_state(const Report *r, int model);
/* Whether --only leaves the model in. */
bool report_shows(const Report *r, int model);
/* The metric "loss", else the first; -1: there is none. */
int report_loss(const Report *r);
json_t *report_hypers(const Report *r, int model);
/* Writes the object to --log, if there is one, and frees it. */
void report_log(Report *r, json_t *object);

#endif
