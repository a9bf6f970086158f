/* A model.so in memory: its file is checked before it is loaded, and its descriptor before it is
 * believed. */
#ifndef HFTAC_RUNTIME_IMAGE_H
#define HFTAC_RUNTIME_IMAGE_H

#include <stdbool.h>

#include "runtime/loader.h"
#include "runtime/symbols.h"

/* An open model.so. */
typedef struct Image {
    ElfFile file; /* its bytes too, for debuggers */
    Mapping mapping;
    const HftacModel *model;
    DebugEntry *symbols; /* NULL: debuggers know nothing of the file */
} Image;

/* Loads `path`.  Nothing in the file runs. */
hftac_status hft_image_open(const char *path, Image *image);
void hft_image_close(Image *image);

/* The descriptor's magic, version, sizes, pointers and numbers. */
hftac_status hft_model_check(const char *path, const Image *image);
/* The CPU has every one of the space-separated features, named as in /proc/cpuinfo. */
hftac_status hft_cpu_check(const char *path, const char *features);

/* Rows of the descriptor's tables, whose size the file states. */
const HftacInput *hft_model_input(const HftacModel *m, uint32_t i);
const HftacHyper *hft_model_hyper(const HftacModel *m, uint32_t i);
const HftacState *hft_model_state(const HftacModel *m, uint32_t i);
const HftacOutput *hft_model_output(const HftacModel *m, uint32_t i);
const HftacEntry *hft_model_entry(const HftacModel *m, uint32_t i); /* NULL: not compiled */
const HftacResult *hft_entry_result(const HftacModel *m, const HftacEntry *e, uint32_t i);

/* Elements and bytes of a shape; false if they do not fit. */
bool hft_shape_bytes(const HftacShape *shape, uint64_t *bytes);

#endif
