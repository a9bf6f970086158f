/* A model.so in memory: its file is checked before it is loaded, and its descriptor before it is
 * believed. */
#ifndef HFTAC_RUNTIME_MODEL_IMAGE_H
#define HFTAC_RUNTIME_MODEL_IMAGE_H

#include "runtime/model/model.h"
#include "runtime/model/symbols.h"

/* An open model.so. */
typedef struct Image {
    ElfFile file; /* its bytes too, for debuggers */
    Mapping mapping;
    Model model;
    DebugEntry *symbols; /* NULL: debuggers know nothing of the file */
} Image;

/* Loads `path`.  Nothing in the file runs. */
hftac_status hft_image_open(const char *path, Image *image);
void hft_image_close(Image *image);

#endif
