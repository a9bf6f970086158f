/* The descriptor of a loaded model.so (model_abi.h): its tables, once they have been checked. */
#ifndef HFTAC_RUNTIME_MODEL_MODEL_H
#define HFTAC_RUNTIME_MODEL_MODEL_H

#include "runtime/model/loader.h"

/* Rows of one section. */
typedef struct Table {
    const unsigned char *rows;
    uint32_t n, row_bytes;
} Table;

typedef struct Model {
    const unsigned char *block;    /* in the mapping */
    Table table[HFTAC_N_SECTIONS]; /* by tag */
    const HftacInfo *info;
    const HftacVariant *variant; /* of all models */
    const HftacCode *code;       /* that this CPU runs */
} Model;

/* Finds the descriptor of a loaded file, checks every number in it that later code relies on, and
 * chooses the code for this CPU.  HFTAC_MODEL, HFTAC_CPU. */
hftac_status hft_model_find(const ElfFile *f, const Mapping *mapping, Model *m);
/* The CPU has every one of the space-separated features, named as in /proc/cpuinfo. */
hftac_status hft_cpu_check(const char *path, const char *features);

/* Row i of a section; what the section holds is the caller's knowledge. */
const void *hft_model_row(const Model *m, int tag, uint32_t i);
const char *hft_model_text(const Model *m, HftacText text);
const HftacInput *hft_model_input(const Model *m, uint32_t i);
const HftacHyper *hft_model_hyper(const Model *m, uint32_t i);
const HftacState *hft_model_state(const Model *m, uint32_t i);
/* The first state of a role HFTAC_ROLE_*; -1: there is none. */
int32_t hft_state_of_role(const Model *m, uint32_t role);
const HftacOutput *hft_model_output(const Model *m, uint32_t i);
/* The entry of a kind HFTAC_ENTRY_*; NULL: not compiled. */
const HftacEntry *hft_model_entry(const Model *m, uint32_t kind);
const HftacResult *hft_entry_result(const Model *m, const HftacEntry *e, uint32_t i);
const HftacStep *hft_entry_step(const Model *m, const HftacEntry *e, uint32_t i);
/* Address `number` of the code that runs: of anything, of a run's function, of a kernel's. */
const void *hft_model_address(const Model *m, uint32_t number);
HftacRegionFn *hft_model_run(const Model *m, uint32_t number);
HftacKernelFn *hft_model_kernel(const Model *m, uint32_t number);

/* Elements and bytes of a shape; false if they do not fit. */
bool hft_shape_bytes(const HftacShape *shape, uint64_t *bytes);

#endif
