/* The header of a safetensors file: JSON of one known form. */
#ifndef HFTAC_RUNTIME_FILES_ST_HEADER_H
#define HFTAC_RUNTIME_FILES_ST_HEADER_H

#include "runtime/files/safetensors.h"

/* Reads `n` bytes of JSON at `text`, which the names of the tensors then lie in (it is changed
 * and must stay), into the file's tensors and metadata.  HFTAC_DATA: it is not of that form, has
 * a key twice, or is not UTF-8. */
hftac_status hft_st_parse(StFile *f, const char *path, char *text, size_t n);

#endif
