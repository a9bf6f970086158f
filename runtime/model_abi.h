/* The descriptor inside model.so: what the compiler writes and libhftac reads.
 *
 * model.so is an ELF shared object with an ELF note, HftacNote, that says where its const HftacModel lies; the same
 * is exported as `hftac_model`, for people and debuggers.  Versioned: major must match; sizes stand in
 * every table, so that an old reader skips what it does not know.  Fields are only ever appended. */
#ifndef HFTAC_RUNTIME_MODEL_ABI_H
#define HFTAC_RUNTIME_MODEL_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define HFTAC_ABI_MAGIC  "hftacso" /* 8 bytes with the NUL */
#define HFTAC_ABI_MAJOR  2u
#define HFTAC_ABI_MINOR  0u
#define HFTAC_ABI_SYMBOL "hftac_model"

/* The ELF note of section .note.hftac: name, type, and as its description an HftacNote, which begins at no
 * particular alignment. */
#define HFTAC_NOTE_SECTION ".note.hftac"
#define HFTAC_NOTE_NAME    "hftac"
enum {
    HFTAC_NOTE_TYPE = 1,
    HFTAC_HASH_BYTES = 16
};

typedef struct HftacNote {
    uint32_t abi_major, abi_minor;
    int64_t model; /* address of the HftacModel less the address of this field */
    /* XXH3-128, in canonical form, of the whole file with these bytes zero. */
    unsigned char hash[HFTAC_HASH_BYTES];
} HftacNote;

enum {
    HFTAC_MAX_RANK = 8
};

/* Element types: positions in ir/dtypes.def. */
enum {
    HFTAC_DT_BOOL,
    HFTAC_DT_U8,
    HFTAC_DT_I32,
    HFTAC_DT_I64,
    HFTAC_DT_F32,
    HFTAC_DT_F64
};

/* Run-time scalars, shared by all models: frame->scalars[..]. */
enum {
    HFTAC_SCALAR_EPOCH,           /* from 0 */
    HFTAC_SCALAR_EPOCHS,          /* planned number */
    HFTAC_SCALAR_STEPS_PER_EPOCH, /* optimizer steps */
    HFTAC_SCALAR_N_VALID,         /* valid samples of this batch, eval and predict */
    HFTAC_N_SCALARS
};

/* What a kernel sees.  Model b's state is at state + b * state_bytes. */
typedef struct HftacFrame {
    uint64_t size;          /* sizeof(HftacFrame) */
    unsigned char *state;   /* 64-byte aligned */
    unsigned char *shared;  /* 64-byte aligned */
    unsigned char *scratch; /* the calling thread's, 64-byte aligned */
    const void *const
        *inputs;           /* [n_inputs]; one batch; `each` inputs: model b at + b * bytes */
    const double *hypers;  /* [B][n_hypers] */
    const double *scalars; /* [HFTAC_N_SCALARS] */
    const uint64_t *seeds; /* [B] */
    double *results;       /* [B][n_results] */
    void *const *outputs;  /* [n_outputs]; model b at + b * bytes */
} HftacFrame;

/* Models lo <= b < hi.  A shared region is called once with 0, 0. */
typedef void HftacRegionFn(const HftacFrame *frame, int64_t lo, int64_t hi);

typedef struct HftacShape {
    uint32_t dtype, rank;
    int64_t dim[HFTAC_MAX_RANK];
} HftacShape;

typedef struct HftacInput {
    const char *name;
    HftacShape shape;   /* one batch */
    int32_t batch_axis; /* the axis that is N, or -1 */
    uint32_t is_target, is_each, is_drawn;
    uint64_t bytes;
} HftacInput;

typedef struct HftacHyper {
    const char *name;
    double value;
    uint32_t is_integer, domain; /* DomainKind of ir/graph.h */
    double lo, hi, step;
    uint64_t n_set;
    const double *set;
} HftacHyper;

enum {
    HFTAC_ROLE_PARAM,
    HFTAC_ROLE_BUFFER,
    HFTAC_ROLE_OPTIM,
    HFTAC_ROLE_COUNTER,
    HFTAC_ROLE_METRIC
};

typedef struct HftacState {
    const char *name;
    HftacShape shape; /* logical */
    uint32_t role;
    uint32_t layout
        [HFTAC_MAX_RANK]; /* stored order of the axes, outermost first; identity for plain */
    uint32_t reserved;
    uint64_t offset, bytes; /* in one model's block */
} HftacState;

/* An output of predict. */
typedef struct HftacOutput {
    const char *name;
    HftacShape shape;
    int32_t batch_axis; /* the axis that comes from N, or -1 */
    uint32_t reserved;
    int64_t per_sample; /* elements of that axis per sample */
    uint64_t bytes;
} HftacOutput;

/* A result for the host, rank 0, at results[b * n_results + index].  Kinds:
 *   VALUE   a loss or metric
 *   OK      1: the model's state was written; 0: it was left as it was (non-finite loss or gradient, or a fault)
 *   FAULT   position of the first bad index in the checked operand, or -1; the next result is the bad value
 *   FACTOR  the schedule's factor in this step */
enum {
    HFTAC_RESULT_VALUE,
    HFTAC_RESULT_OK,
    HFTAC_RESULT_FAULT,
    HFTAC_RESULT_FAULT_VALUE,
    HFTAC_RESULT_FACTOR
};

typedef struct HftacResult {
    const char
        *name; /* "loss", "acc", "ok", the checked input's name for a fault, "schedule" */
    uint32_t kind, index;
    int64_t lo, hi, ignore; /* FAULT: allowed are lo <= v < hi, and ignore if has_ignore */
    uint32_t has_ignore, reserved;
} HftacResult;

enum {
    HFTAC_ENTRY_INIT,
    HFTAC_ENTRY_TRAIN,
    HFTAC_ENTRY_EVAL,
    HFTAC_ENTRY_EVAL_END,
    HFTAC_ENTRY_PREDICT,
    HFTAC_N_ENTRIES
};

typedef struct HftacEntry {
    uint32_t present, n_results;
    HftacRegionFn *shared; /* NULL: nothing shared to do */
    HftacRegionFn *models;
    const HftacResult *results;
    uint64_t input_mask[2]; /* bit i: reads input i (up to 128 inputs) */
} HftacEntry;

typedef struct HftacModel {
    char magic[8];
    uint32_t abi_major, abi_minor;
    uint64_t size;            /* sizeof(HftacModel) */
    const char *version;      /* of hftac */
    const char *name;         /* of the model */
    const char *march;        /* as compiled */
    const char *cpu_features; /* space separated, names as in /proc/cpuinfo: "avx2 fma bmi2" */
    int64_t n_models, batch, epochs;
    uint64_t state_bytes; /* one model's block; a multiple of 64 */
    uint64_t shared_bytes, scratch_bytes;
    uint32_t n_inputs, n_hypers, n_states, n_outputs, n_results, n_entries;
    uint32_t input_size, hyper_size, state_size, output_size, result_size,
        entry_size; /* sizeof of each row */
    const HftacInput *inputs;
    const HftacHyper *hypers;
    const HftacState *states;
    const HftacOutput *outputs;
    const HftacEntry *entries; /* by HFTAC_ENTRY_* */
} HftacModel;

static_assert(sizeof(HftacNote) == 32, "HftacNote");
static_assert(sizeof(HftacFrame) == 80, "HftacFrame");
static_assert(sizeof(HftacShape) == 72, "HftacShape");

#endif
