/* The descriptor inside model.so: what the compiler writes and libhftac reads.
 *
 * model.so is an ELF shared object.  An ELF note, HftacNote, says where its descriptor lies: a
 * block of bytes that begins with an HftacModel and a table of tagged sections, and that has no
 * pointers.  Rows of one section name rows of another one by position, texts by their place in
 * the section TEXT, code by its distance from the block.  So one writer serves every target
 * (codegen/model_file.c), and every reference is checked against the block's bounds.
 *
 * Versions.  The major one must match.  A reader skips sections whose tag it does not know, unless
 * the tag says that nobody may, and takes rows that are longer than it knows as they are: fields
 * are only ever appended.  All numbers are little-endian and aligned. */
#ifndef HFTAC_RUNTIME_MODEL_ABI_H
#define HFTAC_RUNTIME_MODEL_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define HFTAC_ABI_MAGIC  "hftacso" /* 8 bytes with the NUL */
#define HFTAC_ABI_MAJOR  5u
#define HFTAC_ABI_MINOR  0u
#define HFTAC_ABI_SYMBOL "hftac_model" /* exported: the descriptor, for people and debuggers */

/* The ELF note of section .note.hftac: name, type, and as its description an HftacNote, which
 * begins at no particular alignment. */
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
    HFTAC_MAX_RANK = 8,
    HFTAC_MAX_INPUTS = 128
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

/* ---- what a function sees ---- */

/* A model's clock: frame->clocks[b * HFTAC_N_CLOCK + ..].  Its steps are a state, "$step". */
enum {
    HFTAC_CLOCK_EPOCH,           /* from 0 */
    HFTAC_CLOCK_EPOCHS,          /* planned number */
    HFTAC_CLOCK_STEPS_PER_EPOCH, /* optimizer steps */
    HFTAC_N_CLOCK
};
/* What belongs to the batch: frame->scalars[..]. */
enum {
    HFTAC_SCALAR_N_VALID, /* valid samples, eval and predict */
    HFTAC_N_SCALARS
};

typedef struct HftacFrame {
    uint64_t size;          /* sizeof(HftacFrame) */
    unsigned char *state;   /* 64-byte aligned */
    unsigned char *shared;  /* 64-byte aligned */
    unsigned char *scratch; /* the calling thread's, 64-byte aligned */
    const void *const
        *inputs;           /* [n_inputs]; one batch; `each` inputs: model b at + b * bytes */
    const double *hypers;  /* [B][n_hypers] */
    const double *clocks;  /* [B][HFTAC_N_CLOCK] */
    const double *scalars; /* [HFTAC_N_SCALARS] */
    const uint64_t *seeds; /* [B] */
    double *results;       /* [B][n_results] */
    void *const *outputs;  /* [n_outputs]; model b at + b * bytes */
} HftacFrame;

/* Models lo <= b < hi; for what all models share: called once, with 0, 0. */
typedef void HftacRegionFn(const HftacFrame *frame, int64_t lo, int64_t hi);
/* One kernel, for one model: a pointer for each of its places, in their order, and of its work
 * the parts lo <= i < hi, 0 <= lo < hi <= HftacKernel.n_work.  Parts write different memory, none
 * reads what another one writes, and each value is computed as in the whole: any cut of the work,
 * in any order or at the same time, gives the same bits.  Kernels that differ only in where their
 * values lie are one function. */
typedef void HftacKernelFn(void *const *places, int64_t lo, int64_t hi);

/* ---- the block ---- */

/* At the block's beginning; the table of sections follows. */
typedef struct HftacModel {
    char magic[8];
    uint32_t abi_major, abi_minor;
    uint64_t bytes; /* of the block */
    uint32_t n_sections, section_bytes;
} HftacModel;

/* n = bytes / row_bytes rows at `offset` from the block's beginning, a multiple of 8. */
typedef struct HftacSection {
    uint32_t tag, row_bytes;
    uint64_t offset, bytes;
} HftacSection;

/* Tags.  A section stands at most once; one that is not there has no rows. */
enum {
    HFTAC_SECTION_INFO = 1,  /* one HftacInfo */
    HFTAC_SECTION_TEXT,      /* bytes; the first and the last are NUL; plain (plain.h) */
    HFTAC_SECTION_REALS,     /* double */
    HFTAC_SECTION_INPUTS,    /* HftacInput */
    HFTAC_SECTION_HYPERS,    /* HftacHyper */
    HFTAC_SECTION_STATES,    /* HftacState */
    HFTAC_SECTION_OUTPUTS,   /* HftacOutput */
    HFTAC_SECTION_RESULTS,   /* HftacResult */
    HFTAC_SECTION_ENTRIES,   /* HftacEntry */
    HFTAC_SECTION_STEPS,     /* HftacStep */
    HFTAC_SECTION_VARIANTS,  /* HftacVariant */
    HFTAC_SECTION_CODE,      /* HftacCode */
    HFTAC_SECTION_KERNELS,   /* HftacKernel */
    HFTAC_SECTION_PLACES,    /* HftacPlace */
    HFTAC_SECTION_LISTS,     /* uint32_t: positions in PLACES */
    HFTAC_SECTION_ADDRESSES, /* int64_t: address of a function or a constant less the block's */
    HFTAC_N_SECTIONS
};
/* A bit of tags: who does not know the section cannot run the file, and must refuse it. */
#define HFTAC_SECTION_NEEDED UINT32_C(0x80000000)
/* Tags that are spoken for, so that files and readers to come agree; nothing writes them yet.
 *   SHARED_STATES  HftacState, one for all models, in memory of its own: a frozen base.  A reader
 *                  that left them out would train something else
 *   HYPER_CHECKS   what values of hypers must fulfil besides their domains, to be asked before a
 *                  step: a position in HYPERS, a comparison, a number or another position, a text
 *   DIRECTIONS     of metrics: a name as in RESULTS, and whether more or less of it is better
 *   GPU_CODE       images for kinds of GPUs, as CODE is for CPUs; the same KERNELS and STEPS */
#define HFTAC_SECTION_SHARED_STATES (HFTAC_SECTION_NEEDED | UINT32_C(64))
enum {
    HFTAC_SECTION_HYPER_CHECKS = 65,
    HFTAC_SECTION_DIRECTIONS,
    HFTAC_SECTION_GPU_CODE
};

/* Position of a NUL-terminated string in the section TEXT; 0: the empty one. */
typedef uint32_t HftacText;

typedef struct HftacInfo {
    HftacText version, name; /* of hftac; of the model */
    int64_t n_models, batch, epochs;
    uint64_t shared_bytes, scratch_bytes; /* scratch: of a thread */
    uint32_t n_results;                   /* of the entry that has most */
    uint32_t reserved;
} HftacInfo;

typedef struct HftacShape {
    uint32_t dtype, rank;
    int64_t dim[HFTAC_MAX_RANK];
} HftacShape;

typedef struct HftacInput {
    HftacText name;
    int32_t batch_axis; /* the axis that is N, or -1 */
    HftacShape shape;   /* one batch */
    uint32_t is_target, is_each, is_drawn, reserved;
    uint64_t bytes;
} HftacInput;

/* Domains of hypers: hftac_domain of hftac.h, DomainKind of ir/graph.h. */
enum {
    HFTAC_DOMAIN_KIND_NONE,
    HFTAC_DOMAIN_KIND_RANGE,
    HFTAC_DOMAIN_KIND_LOG,
    HFTAC_DOMAIN_KIND_INT,
    HFTAC_DOMAIN_KIND_SET
};

typedef struct HftacHyper {
    HftacText name;
    uint32_t is_integer, domain;         /* HFTAC_DOMAIN_KIND_* */
    uint32_t first_set, n_set, reserved; /* in REALS */
    double value, lo, hi, step;
} HftacHyper;

/* StateRole of ir/graph.h.  The library reads and writes COUNTER and BATCH_COUNTER (i64[]),
 * EPOCH_METRIC (f64[], all at most once) and METRIC by their roles. */
enum {
    HFTAC_ROLE_PARAM,
    HFTAC_ROLE_BUFFER,
    HFTAC_ROLE_OPTIM,
    HFTAC_ROLE_COUNTER,
    HFTAC_ROLE_METRIC,
    HFTAC_ROLE_GRADIENT,
    HFTAC_ROLE_BATCH_COUNTER,
    HFTAC_ROLE_SCHEDULE,
    HFTAC_ROLE_EPOCH_METRIC,
    HFTAC_N_ROLES
};

typedef struct HftacState {
    HftacText name;
    uint32_t role;
    HftacShape shape; /* logical */
    /* Stored order of the axes, outermost first; the identity for plain ones. */
    uint32_t layout[HFTAC_MAX_RANK];
    /* Model b's is at frame->state + offset + b * model_bytes. */
    uint64_t offset, bytes, model_bytes;
} HftacState;

/* An output of predict. */
typedef struct HftacOutput {
    HftacText name;
    int32_t batch_axis; /* the axis that comes from N, or -1 */
    HftacShape shape;
    int64_t per_sample; /* elements of that axis per sample */
    uint64_t bytes;
} HftacOutput;

/* A result for the host, rank 0, at results[b * n_results + index].  Kinds:
 *   VALUE   a loss or metric
 *   OK      1: the model's state was written; 0: it was left as it was (non-finite loss or
 *   gradient, or a fault)
 *   FAULT   position of the first bad index in the checked operand, or -1; the next result is the
 *   bad value
 *   FACTOR  the schedule's factor in this step
 *   CAUSE   a scalar of the update, called `name`: if it is not finite, that is why OK is 0
 *   KEPT    not 0: the state `name` kept elements whose new value was not finite, in a step that
 *   was written otherwise */
enum {
    HFTAC_RESULT_VALUE,
    HFTAC_RESULT_OK,
    HFTAC_RESULT_FAULT,
    HFTAC_RESULT_FAULT_VALUE,
    HFTAC_RESULT_FACTOR,
    HFTAC_RESULT_CAUSE,
    HFTAC_RESULT_KEPT
};

typedef struct HftacResult {
    HftacText name; /* "loss", "acc", "schedule": for people, the kind says what it is */
    uint32_t kind, index;
    uint32_t has_ignore;
    int32_t input; /* FAULT: the checked input, in INPUTS; -1: the index comes from elsewhere */
    uint32_t is_loss;       /* VALUE: training minimizes it */
    int64_t lo, hi, ignore; /* FAULT: allowed are lo <= v < hi, and ignore if has_ignore */
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
    uint32_t kind; /* HFTAC_ENTRY_*; each at most once in a variant */
    uint32_t first_result, n_results;
    uint32_t first_step, n_steps;
    /* Why it is right for whole batches only, with the place in the source; 0: n_valid may be
     * less. */
    HftacText whole;
    uint64_t input_mask[HFTAC_MAX_INPUTS / 64]; /* bit i: reads input i */
} HftacEntry;

/* What an entry does, in order.  Kinds:
 *   SHARED   one call of `function` for what all models share
 *   MODELS   `function` for each model that runs, by any thread, in any number of calls
 *   BARRIER  what stands before is done before what stands behind begins
 *   KERNEL   kernel number `kernel` alone
 *   LOOP     its list `count` times
 * SHARED and MODELS have a list too: KERNELs and LOOPs, which one after the other do just what
 * `function` does. */
enum {
    HFTAC_STEP_SHARED,
    HFTAC_STEP_MODELS,
    HFTAC_STEP_BARRIER,
    HFTAC_STEP_KERNEL,
    HFTAC_STEP_LOOP
};

typedef struct HftacStep {
    uint32_t kind;
    /* SHARED, MODELS: a HftacRegionFn of the code that runs: its first_address + this. */
    uint32_t function;
    uint32_t kernel;
    uint32_t first_step, n_steps; /* the list; it stands behind this row */
    uint32_t reserved;
    int64_t count;
} HftacStep;

enum {
    HFTAC_MAX_LOOPS = 32 /* in loops */
};

typedef struct HftacKernel {
    HftacText name, source; /* source: "model.hdl:12" */
    uint32_t kind;          /* KernelKind of ir/plan.h */
    uint32_t is_per_model;
    uint32_t function; /* a HftacKernelFn of the code that runs: its first_address + this */
    uint32_t first_place, n_places; /* in LISTS */
    uint32_t reserved;
    int64_t n_work; /* into how many parts its work can be cut */
    /* Of one call for one model: floating-point operations, a multiply-add being two, and bytes
     * of the values that it reads and writes, each counted once. */
    double operations, bytes_read, bytes_written;
} HftacKernel;

/* Where a value is: BufferSpace of ir/plan.h. */
enum {
    HFTAC_PLACE_STATE,   /* frame->state */
    HFTAC_PLACE_INPUT,   /* frame->inputs[index] */
    HFTAC_PLACE_HYPER,   /* frame->hypers */
    HFTAC_PLACE_CLOCK,   /* frame->clocks */
    HFTAC_PLACE_SCALAR,  /* frame->scalars */
    HFTAC_PLACE_SEED,    /* frame->seeds */
    HFTAC_PLACE_CONST,   /* an address of the code that runs: its first_address + index */
    HFTAC_PLACE_SHARED,  /* frame->shared */
    HFTAC_PLACE_SCRATCH, /* frame->scratch */
    HFTAC_PLACE_RESULT,  /* frame->results */
    HFTAC_PLACE_OUTPUT,  /* frame->outputs[index] */
    HFTAC_PLACE_PART     /* a part of another place */
};

/* In bytes: that memory + offset + b * model_bytes for model b.  PART: in round s of the loop
 * that is `depth` loops deep (1: the outermost) place number `base`, or in odd rounds number
 * `odd_base` if it is another one, + offset + s * step.  Both stand in front of the part. */
typedef struct HftacPlace {
    uint32_t space, index;
    uint32_t base, odd_base, depth, reserved;
    int64_t offset, model_bytes, step;
} HftacPlace;

/* Models lo <= b < hi have these states and entries; all together are the models of the file.
 * One for now. */
typedef struct HftacVariant {
    int64_t lo, hi;
    uint32_t first_state, n_states, first_entry, n_entries;
    uint64_t state_bytes; /* of one model; a multiple of 64 */
} HftacVariant;

/* The functions and constants compiled for one kind of machine.  Where several can run, the last
 * of them is best. */
typedef struct HftacCode {
    HftacText march;    /* as compiled */
    HftacText features; /* space separated, names as in /proc/cpuinfo: "avx2 fma bmi2" */
    uint32_t first_address, n_addresses;
} HftacCode;

static_assert(sizeof(HftacNote) == 32 && sizeof(HftacFrame) == 88 && sizeof(HftacShape) == 72,
              "layout");
static_assert(sizeof(HftacModel) == 32 && sizeof(HftacSection) == 24 && sizeof(HftacInfo) == 56,
              "layout");
static_assert(sizeof(HftacInput) == 104 && sizeof(HftacHyper) == 56 &&
                  sizeof(HftacState) == 136,
              "layout");
static_assert(sizeof(HftacOutput) == 96 && sizeof(HftacResult) == 48 &&
                  sizeof(HftacEntry) == 40,
              "layout");
static_assert(sizeof(HftacStep) == 32 && sizeof(HftacKernel) == 64 &&
                  sizeof(HftacPlace) == 48 && sizeof(HftacVariant) == 40 &&
                  sizeof(HftacCode) == 16,
              "layout");

#endif
