/* Files of named tensors in the safetensors format: 8 bytes length, a JSON header, the
 * tensors' bytes.
 *
 * Reading trusts nothing: sizes are checked against the file before anything is allocated,
 * every tensor's shape against its bytes, and all of them must fill the data part without a
 * gap or an overlap.  A tensor of a type that hftac does not know, or of more dims than it
 * has, is no mistake of the file: its offsets alone say how large it is, and only who wants
 * that tensor refuses it.  Values are read tensor by tensor, when they are asked for.
 * Writing goes to an AtomicFile. */
#ifndef HFTAC_RUNTIME_FILES_SAFETENSORS_H
#define HFTAC_RUNTIME_FILES_SAFETENSORS_H

#include "runtime/files/atomic_file.h"
#include "runtime/files/read_file.h"

typedef struct StTensor {
    const char *name;
    const char *type_name; /* as in the file: "F32", also types that hftac does not know */
    int32_t type;          /* hftac_type, or -1 */
    int32_t rank;          /* may be over HFTAC_MAX_DIMS: then dims are the first of them */
    int64_t dims[HFTAC_MAX_DIMS];
    uint64_t begin, bytes; /* in the data part */
    uint64_t elements;     /* product of the dims; UINT64_MAX if it overflows */
} StTensor;

typedef struct StPair {
    const char *key, *value;
} StPair;

typedef struct StFile {
    ReadFile file;
    uint64_t data_begin;
    char *text; /* the header, in which all names lie */
    StTensor *tensors;
    const StTensor **sorted; /* by name */
    int32_t n_tensors;
    StPair *metadata; /* sorted by key */
    size_t n_metadata;
} StFile;

/* Reads the header alone; `path` must stay. */
hftac_status hft_st_open(const char *path, StFile *file);
/* All of a tensor's values into memory that malloc gives (NULL on failure). */
hftac_status hft_st_read(const StFile *file, const StTensor *tensor, unsigned char **values);
void hft_st_close(StFile *file);
const StTensor *hft_st_find(const StFile *file, const char *name);
/* A value of __metadata__, or NULL. */
const char *hft_st_metadata(const StFile *file, const char *key);

/* ---- Writing ---- */

typedef struct StWriter StWriter;

/* Starts a file of these tensors in `file`, which the writer then owns, also on failure (name,
 * type, rank, dims; `begin` and `bytes` are set). `metadata`: n pairs of key and value. Then
 * every byte of every tensor is written, in any order, then commit or abort. */
hftac_status hft_st_create(AtomicFile *file, StTensor *tensors, int32_t n_tensors,
                           const char *const (*metadata)[2], int n_metadata, StWriter **writer);
/* `bytes` bytes of a tensor, from its byte `offset` on. */
hftac_status hft_st_write(StWriter *writer, const StTensor *tensor, uint64_t offset,
                          const void *values, uint64_t bytes);
/* Both free the writer.  After a failed commit the target is as it was. */
hftac_status hft_st_commit(StWriter *writer);
void hft_st_abort(StWriter *writer); /* accepts NULL */

#endif
