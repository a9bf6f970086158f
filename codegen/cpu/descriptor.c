/* Every word that depends on where things lie is a distance between two symbols of the file,
 * which the linker knows: nothing is left for the loader to relocate. */
#include "codegen/cpu/descriptor.h"

#include "runtime/model_abi.h"

enum {
    BLOCK_ALIGNMENT = 64
};

typedef struct Emitter {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMTypeRef byte, i32, i64;
} Emitter;

static LLVMValueRef number(LLVMTypeRef type, uint64_t v)
{
    return LLVMConstInt(type, v, 0);
}

/* Address of `to` less address of `from`. */
static LLVMValueRef distance(const Emitter *e, LLVMValueRef to, LLVMValueRef from)
{
    return LLVMConstSub(LLVMConstPtrToInt(to, e->i64), LLVMConstPtrToInt(from, e->i64));
}

static LLVMValueRef field_of(const Emitter *e, LLVMTypeRef type, LLVMValueRef global,
                             unsigned field)
{
    LLVMValueRef at[2] = {number(e->i32, 0), number(e->i32, field)};
    return LLVMConstInBoundsGEP2(type, global, at, 2);
}

static LLVMValueRef constant(const Emitter *e, LLVMTypeRef type, const char *name,
                             unsigned alignment)
{
    LLVMValueRef g = LLVMAddGlobal(e->module, type, name);
    LLVMSetGlobalConstant(g, 1);
    LLVMSetAlignment(g, alignment);
    LLVMSetLinkage(g, LLVMInternalLinkage);
    return g;
}

/* The written bytes and one word for each address. */
static LLVMValueRef emit_block(const Emitter *e, const ModelFile *file, LLVMValueRef *addresses)
{
    const uint64_t n = (uint64_t)file->n_addresses;
    LLVMTypeRef fields[2] = {LLVMArrayType2(e->byte, file->n), LLVMArrayType2(e->i64, n)};
    LLVMTypeRef type = LLVMStructTypeInContext(e->context, fields, 2, 0);
    LLVMValueRef block = constant(e, type, "model", BLOCK_ALIGNMENT);
    for (int i = 0; i < file->n_addresses; i++)
        addresses[i] = distance(e, addresses[i], block);
    LLVMValueRef value[2] = {
        LLVMConstStringInContext(e->context, (const char *)file->bytes, (unsigned)file->n, 1),
        LLVMConstArray2(e->i64, addresses, n)};
    LLVMSetInitializer(block, LLVMConstStructInContext(e->context, value, 2, 0));
    LLVMAddAlias2(e->module, type, 0, block, HFTAC_ABI_SYMBOL);
    return block;
}

/* The hash is filled in after linking (codegen/stamp.c). */
static void emit_note(const Emitter *e, LLVMValueRef block)
{
    enum {
        MODEL_FIELD = 6,
        N_FIELDS = 8
    };
    static const char name[8] = HFTAC_NOTE_NAME;
    LLVMTypeRef hash = LLVMArrayType2(e->byte, HFTAC_HASH_BYTES);
    LLVMTypeRef fields[N_FIELDS] = {
        e->i32, e->i32, e->i32, LLVMArrayType2(e->byte, sizeof name),
        e->i32, e->i32, e->i64, hash};
    LLVMTypeRef type = LLVMStructTypeInContext(e->context, fields, N_FIELDS, 1);
    LLVMValueRef note = constant(e, type, "note", 4);
    LLVMValueRef value[N_FIELDS] = {
        number(e->i32, sizeof HFTAC_NOTE_NAME),
        number(e->i32, sizeof(HftacNote)),
        number(e->i32, HFTAC_NOTE_TYPE),
        LLVMConstStringInContext(e->context, name, sizeof name, 1),
        number(e->i32, HFTAC_ABI_MAJOR),
        number(e->i32, HFTAC_ABI_MINOR),
        distance(e, block, field_of(e, type, note, MODEL_FIELD)),
        LLVMConstNull(hash),
    };
    LLVMSetInitializer(note, LLVMConstStructInContext(e->context, value, N_FIELDS, 1));
    LLVMSetSection(note, HFTAC_NOTE_SECTION);
    /* Nothing refers to it. */
    LLVMSetLinkage(note, LLVMExternalLinkage);
    LLVMSetVisibility(note, LLVMHiddenVisibility);
}

void descriptor_emit(LLVMModuleRef module, const ModelFile *file, LLVMValueRef *addresses)
{
    LLVMContextRef c = LLVMGetModuleContext(module);
    const Emitter e = {module, c, LLVMInt8TypeInContext(c), LLVMInt32TypeInContext(c),
                       LLVMInt64TypeInContext(c)};
    emit_note(&e, emit_block(&e, file, addresses));
}
