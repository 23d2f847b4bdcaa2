// Functions, loops and elements of the GPU library.
#include "passes/lower/cuda/library/GpuLibraryCode.h"
#include "runtime/abi/kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dtc {

gpu::GPUFuncOp addLibraryFunction(gpu::GPUModuleOp module, StringRef name, unsigned buffers, unsigned scalars) {
  OpBuilder atEnd = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  SmallVector<Type> types(buffers, LLVM::LLVMPointerType::get(module.getContext()));
  types.append(scalars + 2, atEnd.getI64Type());
  auto function = gpu::GPUFuncOp::create(atEnd, loc, name, atEnd.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), atEnd.getUnitAttr());
  function.setKnownBlockSizeAttr(atEnd.getDenseI32ArrayAttr({libraryThreads, 1, 1}));
  atEnd.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(atEnd, loc);
  return function;
}

CodeBuilder codeOf(gpu::GPUFuncOp function) { return {function.getBody().front().getTerminator(), function.getLoc()}; }

void forEachInTurn(CodeBuilder &builder, gpu::GPUFuncOp function, Value count,
                   const std::function<void(CodeBuilder &inner, Value number)> &body) {
  auto number = [&](Operation *id) {
    return arith::IndexCastUIOp::create(builder, builder.loc, builder.getI64Type(), id->getResult(0)).getResult();
  };
  Value thread = number(gpu::ThreadIdOp::create(builder, builder.loc, gpu::Dimension::x));
  Value block = number(gpu::BlockIdOp::create(builder, builder.loc, gpu::Dimension::x));
  Value first = builder.add(builder.mul(block, builder.integer(libraryThreads)), thread);
  auto loop = scf::ForOp::create(builder, builder.loc, first, count, function.getArguments().back());
  CodeBuilder inner(loop.getBody()->getTerminator(), builder.loc);
  body(inner, loop.getInductionVar());
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static Value isEqual(CodeBuilder &builder, Value number, int64_t element) {
  return arith::CmpIOp::create(builder, builder.loc, arith::CmpIPredicate::eq, number, builder.integer(element));
}

static unsigned widthOf(Type type) { return type.getIntOrFloatBitWidth() / 8; }

static Value addressOf(OpBuilder &builder, Location loc, Type type, Value base, Value index) {
  return LLVM::GEPOp::create(builder, loc, base.getType(), type, base, ArrayRef<LLVM::GEPArg>{index});
}

LibraryElements::LibraryElements(CodeBuilder &builder, Value number)
    : isWide(isEqual(builder, number, dtc_f32)), isBf16(isEqual(builder, number, dtc_bf16)) {}

Value LibraryElements::load(CodeBuilder &builder, Value base, Value index) const {
  auto read = [&](Type type, OpBuilder &inner, Location loc) {
    return LLVM::LoadOp::create(inner, loc, type, addressOf(inner, loc, type, base, index), widthOf(type)).getResult();
  };
  auto wide = [&](OpBuilder &inner, Location loc) {
    scf::YieldOp::create(inner, loc, read(inner.getF32Type(), inner, loc));
  };
  auto narrow = [&](OpBuilder &inner, Location loc) {
    Value bits = read(inner.getI16Type(), inner, loc);
    auto as = [&](Type type) {
      Value value = arith::BitcastOp::create(inner, loc, type, bits);
      return arith::ExtFOp::create(inner, loc, inner.getF32Type(), value).getResult();
    };
    Value value = arith::SelectOp::create(inner, loc, isBf16, as(inner.getBF16Type()), as(inner.getF16Type()));
    scf::YieldOp::create(inner, loc, value);
  };
  return scf::IfOp::create(builder, builder.loc, isWide, wide, narrow).getResult(0);
}

void LibraryElements::store(CodeBuilder &builder, Value value, Value base, Value index) const {
  auto write = [&](Value bits, OpBuilder &inner, Location loc) {
    Type type = bits.getType();
    LLVM::StoreOp::create(inner, loc, bits, addressOf(inner, loc, type, base, index), widthOf(type));
    scf::YieldOp::create(inner, loc);
  };
  auto wide = [&](OpBuilder &inner, Location loc) { write(value, inner, loc); };
  auto narrow = [&](OpBuilder &inner, Location loc) {
    auto as = [&](Type type) {
      Value rounded = arith::TruncFOp::create(inner, loc, type, value);
      return arith::BitcastOp::create(inner, loc, inner.getI16Type(), rounded).getResult();
    };
    write(arith::SelectOp::create(inner, loc, isBf16, as(inner.getBF16Type()), as(inner.getF16Type())), inner, loc);
  };
  scf::IfOp::create(builder, builder.loc, isWide, wide, narrow);
}

} // namespace dtc
