/* Types, constants and small instructions of the CPU emitter. */
#include "codegen/cpu/emit.h"

#include <string.h>

static LLVMTypeRef scalar_type(LLVMContextRef c, DType t)
{
    switch (t) {
    case DT_BOOL:
        return LLVMInt1TypeInContext(c);
    case DT_U8:
        return LLVMInt8TypeInContext(c);
    case DT_I32:
        return LLVMInt32TypeInContext(c);
    case DT_I64:
        return LLVMInt64TypeInContext(c);
    case DT_F32:
        return LLVMFloatTypeInContext(c);
    case DT_F64:
        return LLVMDoubleTypeInContext(c);
    case DT_COUNT:
        break;
    }
    diag_internal(NULL, "element type %d has no machine type", (int)t);
}

LLVMTypeRef emit_type(Emit *e, DType t)
{
    return scalar_type(e->context, t);
}

LLVMTypeRef emit_vector_type(Emit *e, DType t)
{
    return LLVMVectorType(emit_type(e, t), (unsigned)e->lanes);
}

bool emit_is_vector(LLVMValueRef v)
{
    return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

LLVMTypeRef emit_type_like(Emit *e, DType t, LLVMValueRef v)
{
    if (!emit_is_vector(v))
        return emit_type(e, t);
    return LLVMVectorType(emit_type(e, t), LLVMGetVectorSize(LLVMTypeOf(v)));
}

LLVMTypeRef emit_memory_type(Emit *e, DType t)
{
    return t == DT_BOOL ? LLVMInt8TypeInContext(e->context) : emit_type(e, t);
}

LLVMValueRef emit_const(Emit *e, DType t, double v)
{
    LLVMTypeRef type = emit_type(e, t);
    switch (dtype_class(t)) {
    case DTC_BOOL:
        return LLVMConstInt(type, v != 0, 0);
    case DTC_INT:
        /* Only 2^63 itself rounds up to a double that int64_t does not hold. */
        return LLVMConstInt(type, v >= 0x1p63 ? INT64_MAX : (uint64_t)(int64_t)v, 1);
    case DTC_REAL:
        break;
    }
    return LLVMConstReal(type, v);
}

LLVMValueRef emit_const_i64(Emit *e, int64_t v)
{
    return LLVMConstInt(LLVMInt64TypeInContext(e->context), (uint64_t)v, 1);
}

static LLVMValueRef const_splat(LLVMValueRef c, unsigned n)
{
    LLVMValueRef lane[MAX_LANES];
    if (n > MAX_LANES)
        diag_internal(NULL, "a vector of %u lanes", n);
    for (unsigned i = 0; i < n; i++)
        lane[i] = c;
    return LLVMConstVector(lane, n);
}

static LLVMValueRef const_like(LLVMValueRef c, LLVMValueRef like)
{
    return emit_is_vector(like) ? const_splat(c, LLVMGetVectorSize(LLVMTypeOf(like))) : c;
}

LLVMValueRef emit_const_like(Emit *e, DType t, double v, LLVMValueRef like)
{
    return const_like(emit_const(e, t, v), like);
}

LLVMValueRef emit_int_like(Emit *e, LLVMTypeRef scalar, uint64_t v, LLVMValueRef like)
{
    (void)e;
    return const_like(LLVMConstInt(scalar, v, 0), like);
}

LLVMValueRef emit_splat(Emit *e, LLVMValueRef v)
{
    if (emit_is_vector(v))
        return v;
    if (LLVMIsConstant(v))
        return const_splat(v, (unsigned)e->lanes);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(e->context);
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(v), (unsigned)e->lanes);
    LLVMValueRef one =
        LLVMBuildInsertElement(e->builder, LLVMGetPoison(type), v, LLVMConstInt(i32, 0, 0), "");
    LLVMValueRef mask = LLVMConstNull(LLVMVectorType(i32, (unsigned)e->lanes));
    return LLVMBuildShuffleVector(e->builder, one, LLVMGetPoison(type), mask, "");
}

LLVMValueRef emit_lane_numbers(Emit *e)
{
    LLVMValueRef lane[MAX_LANES];
    for (int i = 0; i < e->lanes; i++)
        lane[i] = emit_const_i64(e, i);
    return LLVMConstVector(lane, (unsigned)e->lanes);
}

LLVMValueRef emit_intrinsic(Emit *e, const char *name, int n_types, LLVMTypeRef *types, int n,
                            LLVMValueRef *args)
{
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (id == 0)
        diag_internal(NULL, "LLVM has no intrinsic %s", name);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, types, (size_t)n_types);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, types, (size_t)n_types);
    return LLVMBuildCall2(e->builder, type, fn, args, (unsigned)n, "");
}

LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef type, const char *name)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderAtEnd(e->builder, e->allocas);
    LLVMValueRef v = LLVMBuildAlloca(e->builder, type, name);
    LLVMPositionBuilderAtEnd(e->builder, here);
    return v;
}
