/* The inside of an hftac_data. */
#ifndef HFTAC_RUNTIME_DATA_DATA_H
#define HFTAC_RUNTIME_DATA_DATA_H

#include "runtime/array.h"
#include "runtime/files/safetensors.h"

/* A tensor as found, before it is known to fit. */
typedef struct Source {
    const char *name;
    const char *type_name; /* as the file spells it */
    int32_t type;          /* hftac_type, or -1 for one that hftac does not know */
    int32_t rank;
    int64_t dims[HFTAC_MAX_DIMS];
    const unsigned char *values; /* may be unaligned; NULL: they stand in a file */
    const ReadFile *file;
    uint64_t begin; /* of the values in the file */
} Source;

/* What the data set has for one input: `copies` blocks (1, or one per slot), each a row per
 * sample. */
typedef struct DataInput {
    const unsigned char *values; /* in the input's type; NULL: the data set lacks it */
    unsigned char *owned;        /* what was read or converted */
    int32_t copies;              /* 0: the data set lacks it */
    size_t copy_bytes;
    uint64_t number; /* as hft_device_number_tensor; 0: the caller's memory, which may change */
} DataInput;

/* A file of the .npy format. */
typedef struct NpyFile {
    ReadFile file;
    Source source;
    char type_name[16];
    char path[4096];
} NpyFile;

struct hftac_data {
    const Model *m;
    int32_t n_models, n_inputs;
    int64_t first, samples;
    DataInput *inputs; /* [n_inputs] */
};

/* Finds each input's tensor among n sources and puts its values into the new, empty data set, which
 * the caller closes, after a failure too.  `path` stands in messages. */
hftac_status hft_data_bind(const hftac_array *a, hftac_data *d, const char *path,
                           const hftac_data_options *options, const Source *sources, int32_t n);

/* Converts n elements where no value is lost.  HFTAC_OK, or false and *bad is the first
 * element that does not fit. hft_can_convert: whether there is such a conversion at all. */
bool hft_can_convert(int32_t from, hftac_type to);
bool hft_convert(int32_t from, const unsigned char *values, hftac_type to, unsigned char *out,
                 size_t n, size_t *bad);
/* One element of an integer type. */
int64_t hft_integer_at(int32_t type, const unsigned char *values, size_t i);

/* Reads the header; source's name is `name`; `path` and `file` must stay where they are. */
hftac_status hft_npy_open(const char *path, const char *name, NpyFile *file);

#endif
