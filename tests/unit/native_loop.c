/* A loop with one phi, the block number; memory is read and written without demands on alignment.
 */
#include "tests/unit/native_loop.h"

#include <stdbool.h>

#include "codegen/cpu/scalar.h"

static LLVMTypeRef memory_type(LLVMContextRef c, DType t)
{
    return t == DT_BOOL ? LLVMInt8TypeInContext(c) : scalar_llvm_type(c, t);
}

static LLVMTypeRef spread(LLVMTypeRef t, unsigned lanes)
{
    return lanes ? LLVMVectorType(t, lanes) : t;
}

Loop native_loop_begin(Native *n, const char *name)
{
    LLVMTypeRef p = LLVMPointerTypeInContext(n->context, 0);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(n->context);
    LLVMTypeRef args[] = {p, p, p, p, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(n->context), args, 5, false);
    Loop l = {.b = LLVMCreateBuilderInContext(n->context),
              .fn = LLVMAddFunction(n->module, name, type)};
    l.entry = LLVMAppendBasicBlockInContext(n->context, l.fn, "entry");
    l.body = LLVMAppendBasicBlockInContext(n->context, l.fn, "body");
    LLVMPositionBuilderAtEnd(l.b, l.entry);
    LLVMBuildBr(l.b, l.body);
    LLVMPositionBuilderAtEnd(l.b, l.body);
    l.i = LLVMBuildPhi(l.b, i64, "i");
    return l;
}

void native_loop_end(Native *n, Loop *l)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(n->context);
    LLVMValueRef next = LLVMBuildAdd(l->b, l->i, LLVMConstInt(i64, 1, false), "");
    LLVMValueRef from[] = {LLVMConstInt(i64, 0, false), next};
    LLVMBasicBlockRef blocks[] = {l->entry, LLVMGetInsertBlock(l->b)};
    LLVMAddIncoming(l->i, from, blocks, 2);
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(n->context, l->fn, "done");
    LLVMValueRef more = LLVMBuildICmp(l->b, LLVMIntSLT, next, LLVMGetParam(l->fn, 4), "");
    LLVMBuildCondBr(l->b, more, l->body, done);
    LLVMPositionBuilderAtEnd(l->b, done);
    LLVMBuildRetVoid(l->b);
    LLVMDisposeBuilder(l->b);
}

static LLVMValueRef address(Loop *l, unsigned param, LLVMTypeRef block)
{
    return LLVMBuildGEP2(l->b, block, LLVMGetParam(l->fn, param), &l->i, 1, "");
}

LLVMValueRef native_load(Native *n, Loop *l, unsigned param, DType t, unsigned lanes)
{
    LLVMTypeRef block = spread(memory_type(n->context, t), lanes);
    LLVMValueRef v = LLVMBuildLoad2(l->b, block, address(l, param, block), "");
    LLVMSetAlignment(v, 1);
    LLVMTypeRef value = spread(scalar_llvm_type(n->context, t), lanes);
    return t == DT_BOOL ? LLVMBuildTrunc(l->b, v, value, "") : v;
}

void native_store(Native *n, Loop *l, DType t, unsigned lanes, LLVMValueRef v)
{
    LLVMTypeRef block = spread(memory_type(n->context, t), lanes);
    if (t == DT_BOOL)
        v = LLVMBuildZExt(l->b, v, block, "");
    LLVMSetAlignment(LLVMBuildStore(l->b, v, address(l, 3, block)), 1);
}
