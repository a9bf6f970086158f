/* Contractions on registers: which tiles, and what is emitted for one.  Internal to
 * codegen/cpu/contract*.c. */
#ifndef HFTAC_CODEGEN_CPU_CONTRACT_H
#define HFTAC_CODEGEN_CPU_CONTRACT_H

#include "codegen/cpu/emit.h"
#include "ir/contract.h"

/* `many` tiles of `size` and then `fewer` tiles of size - 1: n_hi * size + n_lo * (size - 1) ==
 * extent. */
typedef struct Split {
    int64_t size, n_hi, n_lo;
} Split;

/* As few tiles of at most `most` as possible, sizes as equal as possible. */
Split split_evenly(int64_t extent, int64_t most);

/* Tile sizes: rows[i] along letter[i] of the contraction if that is an "m" letter, else 1;
 * vectors of W lanes along the vector letter. */
typedef struct TileShape {
    int64_t rows[MAX_RANK];
    int64_t vectors;
} TileShape;

/* The shape of least cost for registers of that many bytes and W lanes of `bytes` bytes per
 * vector.  Does not change bits: any shape gives the same. */
TileShape tile_choose(const Contraction *c, int vector_bytes, int lanes, int bytes);

/* An operand: read through strides where its value is a buffer seen through affine views, or a
 * packed copy; else evaluated element by element. */
typedef struct Operand {
    const Node *node;
    /* operand 0 or 1 of the einsum */
    int which;
    bool direct;
    /* NULL for a packed copy */
    const Buffer *buffer;
    /* by letter, in elements */
    int64_t stride[2 * MAX_RANK];
    int64_t offset;
    /* pointer at the tile's first element with the summed letters 0 */
    LLVMValueRef base;
} Operand;

typedef struct Contract {
    Emit *e;
    Contraction c;
    DType type;
    /* the broadcast and the vector operand */
    Operand scalar, vector;
    /* By letter: where the current tile (and step of the sum) starts. */
    Affine at[2 * MAX_RANK];
    /* by letter: the rows that are gone through for each panel */
    Affine block_start[MAX_RANK];
    int64_t block_extent[MAX_RANK];
    TileShape shape;
    bool heavy_epilogue;
    /* Chunks may be the outermost loop of all; then each adds its sums to what the ones before it
     * have stored. */
    bool chunks_outside;
    /* along the letter that is cut */
    Affine chunk_start;
    int64_t chunk_steps;
    /* is this the first one? */
    LLVMValueRef first_chunk;
    /* The loop that is cut into parts of the kernel's work: over a letter outside the tiles, over
     * tiles of rows along a letter or of columns; -1: none of these.  Or over blocks of rows. */
    int shared_letter;
    bool shares_blocks;
    /* room for a packed panel of the vector operand; NULL: not packed */
    LLVMValueRef panel;
} Contract;

/* One tile that is being emitted: rows[i] as in TileShape; the last vector has `active` lanes. */
typedef struct Tile {
    int64_t rows[MAX_RANK];
    int n_rows, n_vectors, active;
    /* [n_rows * n_vectors] allocas; total NULL without chunks */
    LLVMValueRef *sum, *total;
} Tile;

/* Offset of row r of the tile along letter l. */
int64_t tile_row_offset(const Contract *x, const Tile *t, int r, int l);
/* The operands as seen from the tile at x->at. */
void tile_set_base(Contract *x, Operand *o);
/* Vector v of the tile, `step` steps of the last letter from x->at on; `pointer` from
 * tile_step_pointer. */
LLVMValueRef tile_load_vector(Contract *x, const Tile *t, LLVMValueRef pointer, int v,
                              int64_t step);
/* Element of a direct operand for the summed letters at x->at. */
LLVMValueRef tile_step_pointer(Contract *x, const Operand *o);
/* Emits the sums of the tile at x->at into t->sum (or t->total). */
void tile_emit_sums(Contract *x, Tile *t);

LLVMValueRef tile_load_total(Contract *x, LLVMValueRef place);
/* Is it worth a copy of each panel of the vector operand? */
bool pack_pays(const Contract *x);
/* Copies the panel of a tile's columns at x->at into x->panel; returns the operand that reads it.
 */
Operand pack_panel(Contract *x, const Tile *t);

#endif
