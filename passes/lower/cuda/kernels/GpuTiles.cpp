// What all kinds of tiles share.
#include "passes/lower/cuda/kernels/GpuTiles.h"
#include "passes/lower/cuda/GpuModule.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace dtc;

gpu::GPUFuncOp dtc::makeGpuTilesFunction(const GpuTilesFunction &stated, int64_t threads) {
  auto [name, pointers, integers, width, columns, element, module] = stated;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<Type> types(pointers, LLVM::LLVMPointerType::get(builder.getContext()));
  types.append(integers, builder.getI64Type());
  Location loc = module.getLoc();
  auto function = gpu::GPUFuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  function.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
  builder.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(builder, loc);
  return function;
}

GpuTiles::GpuTiles(gpu::GPUFuncOp function, const GpuTilesFunction &stated, int64_t atOnce)
    : CodeBuilder(function.getBody().front().getTerminator(), function.getLoc()), width(stated.width),
      columns(stated.columns), element(stated.element), function(function), atOnce(atOnce) {
  auto number = [&](Operation *id) {
    return arith::IndexCastUIOp::create(*this, loc, getI64Type(), id->getResult(0)).getResult();
  };
  thread = number(gpu::ThreadIdOp::create(*this, loc, gpu::Dimension::x));
  block = number(gpu::BlockIdOp::create(*this, loc, gpu::Dimension::x));
}

// Numbers

static bool isReal(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

Value GpuTiles::plus(Value a, Value b) {
  return isReal(a) ? arith::AddFOp::create(*this, loc, a, b).getResult() : add(a, b);
}

Value GpuTiles::minus(Value a, Value b) {
  return isReal(a) ? arith::SubFOp::create(*this, loc, a, b).getResult()
                   : arith::SubIOp::create(*this, loc, a, b).getResult();
}

Value GpuTiles::times(Value a, Value b) {
  return isReal(a) ? arith::MulFOp::create(*this, loc, a, b).getResult() : mul(a, b);
}

Value GpuTiles::fma(Value a, Value b, Value c) { return math::FmaOp::create(*this, loc, a, b, c); }

Value GpuTiles::powerOfTwo(Value a) {
  return LLVM::CallIntrinsicOp::create(*this, loc, a.getType(), getStringAttr(gpuPowerOfTwo), a).getResult(0);
}

Value GpuTiles::less(Value a, Value b) {
  return isReal(a) ? arith::CmpFOp::create(*this, loc, arith::CmpFPredicate::OLT, a, b).getResult()
                   : arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::slt, a, b).getResult();
}

Value GpuTiles::equal(Value a, Value b) {
  return isReal(a) ? arith::CmpFOp::create(*this, loc, arith::CmpFPredicate::OEQ, a, b).getResult()
                   : arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::eq, a, b).getResult();
}

Value GpuTiles::both(Value a, Value b) { return arith::AndIOp::create(*this, loc, a, b); }

Value GpuTiles::choose(Value condition, Value a, Value b) {
  return arith::SelectOp::create(*this, loc, condition, a, b);
}

Value GpuTiles::quotient(Value a, Value b) { return arith::DivUIOp::create(*this, loc, a, b); }

Value GpuTiles::rest(Value a, Value b) { return arith::RemUIOp::create(*this, loc, a, b); }

Value GpuTiles::lane(Value vector, int64_t number) { return vector::ExtractOp::create(*this, loc, vector, number); }

Value GpuTiles::join(ArrayRef<Value> lanes) {
  auto type = VectorType::get({static_cast<int64_t>(lanes.size())}, lanes.front().getType());
  return vector::FromElementsOp::create(*this, loc, type, lanes);
}

// Threads

Value GpuTiles::acrossThreads(Value value, int64_t count, Combine combine) {
  constexpr int32_t warp = 32;
  for (int64_t distance = count / 2; distance > 0; distance /= 2) {
    auto other = gpu::ShuffleOp::create(*this, loc, value, static_cast<int32_t>(distance), warp, gpu::ShuffleMode::XOR);
    value = combine(value, other.getShuffleResult());
  }
  return value;
}

void GpuTiles::barrier() { gpu::BarrierOp::create(*this, loc); }

// Control

GpuTiles::Values GpuTiles::loop(Value from, Value to, ValueRange initial,
                                llvm::function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(*this, loc, from, to, integer(1), initial);
  InsertionGuard guard(*this);
  if (initial.empty())
    loop.getBody()->getTerminator()->erase();
  setInsertionPointToEnd(loop.getBody());
  Values results = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(*this, loc, results);
  return Values(loop.getResults());
}

void GpuTiles::when(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(*this, loc, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
}

GpuTiles::Values GpuTiles::whenElse(Value condition, llvm::function_ref<Values()> then,
                                    llvm::function_ref<Values()> otherwise) {
  auto region = [&](llvm::function_ref<Values()> body) {
    return [this, body](OpBuilder &inner, Location) {
      InsertionGuard guard(*this);
      setInsertionPoint(inner.getInsertionBlock(), inner.getInsertionPoint());
      Values results = body();
      scf::YieldOp::create(*this, loc, results);
    };
  };
  return Values(scf::IfOp::create(*this, loc, condition, region(then), region(otherwise)).getResults());
}

GpuTiles::Values GpuTiles::walk(const GpuWalk &walk, ValueRange initial, Step body) {
  return loop(integer(0), walk.count, initial, [&](Value number, ValueRange before) {
    auto step = [&] { return body(number, walk.tiles(number), before); };
    return walk.isHidden ? whenElse(walk.isHidden(number), [&] { return Values(before); }, step) : step();
  });
}

// Buffers

GpuRows GpuTiles::rows(Value data, Value stride, Value count) {
  Value bytesOfRow = mul(stride, integer(bytes()));
  Value address = LLVM::PtrToIntOp::create(*this, loc, getI64Type(), data);
  Value bits = arith::OrIOp::create(*this, loc, address, bytesOfRow);
  return {data, stride, count, equal(rest(bits, integer(atOnce * bytes())), integer(0))};
}

Value GpuTiles::widened(Value value) {
  if (element.isF32())
    return value;
  Type wide = getF32Type();
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    wide = vector.clone(wide);
  return arith::ExtFOp::create(*this, loc, wide, value);
}

Value GpuTiles::narrowed(Value value) {
  if (element.isF32())
    return value;
  Type narrow = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    narrow = vector.clone(narrow);
  return arith::TruncFOp::create(*this, loc, narrow, value);
}

Value GpuTiles::loadElement(Value data, Value index) {
  return widened(load(element, CodeBuilder::element(element, data, index)));
}

void GpuTiles::storeElement(Value value, Value data, Value index) {
  store(narrowed(value), CodeBuilder::element(element, data, index));
}

// Workgroup memory

Value GpuTiles::workgroupMemory(Type element, int64_t count) {
  // Functions that compute keep much in registers.
  function->setAttr(blocksAtOnce, getI32IntegerAttr(1));
  auto space = gpu::AddressSpaceAttr::get(getContext(), gpu::AddressSpace::Workgroup);
  return function.addWorkgroupAttribution(MemRefType::get({count}, element, MemRefLayoutAttrInterface(), space), loc);
}

Value GpuTiles::fromMemory(Value memory, Value index) {
  return memref::LoadOp::create(*this, loc, memory, asIndex(index));
}

Value GpuTiles::addressOf(Value memory, Value index) {
  Value begin = memref::ExtractAlignedPointerAsIndexOp::create(*this, loc, memory);
  constexpr unsigned workgroupSpace = 3; // the pointers' address space once lowered
  Type pointer = LLVM::LLVMPointerType::get(getContext(), workgroupSpace);
  Value number = arith::IndexCastUIOp::create(*this, loc, getI64Type(), begin);
  Value address = LLVM::IntToPtrOp::create(*this, loc, pointer, number);
  return CodeBuilder::element(cast<MemRefType>(memory.getType()).getElementType(), address, index);
}

void GpuTiles::toMemory(Value value, Value memory, Value index) {
  memref::StoreOp::create(*this, loc, value, memory, asIndex(index));
}
