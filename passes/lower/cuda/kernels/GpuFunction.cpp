// The building blocks of GPU kernels' functions.
#include "passes/lower/cuda/kernels/GpuFunction.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dtc;

// GpuReduction

GpuReduction::GpuReduction(const KernelPlan &plan, dt::ReductionOpInterface op)
    : operand(op->getOperand(0)), result(op->getResult(0)), span(plan.reductionSpan(op)),
      kind(&dt::reductionOf(op.getReductionKind())), element(computedType(getElementTypeOrSelf(operand.getType()))),
      partial(element), number(llvm::find(plan.reductions, op) - plan.reductions.begin()) {
  if (kind->isLinear && element.isF32())
    partial = Float64Type::get(element.getContext());
}

Value GpuReduction::combine(CodeBuilder &builder, Value a, Value b) const {
  vector::CombiningKind how = isa<FloatType>(element) ? kind->realLanes : kind->integerLanes;
  if (how == vector::CombiningKind::MAXNUMF) // GPUs have a maximum that keeps NaN
    how = vector::CombiningKind::MAXIMUMF;
  return vector::makeArithReduction(builder, builder.loc, how, a, b);
}

Value GpuReduction::combine(CodeBuilder &builder, SmallVector<Value> values) const {
  for (size_t width = values.size(); width > 1; width = (width + 1) / 2) {
    for (size_t i = 0; i < width / 2; ++i)
      values[i] = combine(builder, values[2 * i], values[2 * i + 1]);
    if (width % 2)
      values[width / 2] = values[width - 1];
  }
  return values.front();
}

Value GpuReduction::combineLanes(CodeBuilder &builder, Value vector) const {
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < cast<VectorType>(vector.getType()).getNumElements(); ++lane)
    lanes.push_back(vector::ExtractOp::create(builder, builder.loc, vector, lane));
  return combine(builder, std::move(lanes));
}

Value GpuReduction::identity(CodeBuilder &builder, Type type) const {
  return builder.splatConstant(type, dt::identityOf(*kind, getElementTypeOrSelf(type)));
}

Value GpuReduction::widen(CodeBuilder &builder, Value value) const {
  return partial == element ? value : arith::ExtFOp::create(builder, builder.loc, partial, value);
}

Value GpuReduction::narrow(CodeBuilder &builder, Value value) const {
  return partial == element ? value : arith::TruncFOp::create(builder, builder.loc, element, value);
}

// GpuFunction

static gpu::GPUFuncOp makeFunction(const KernelPlan &plan, const GpuShape &shape, const GpuPass &pass, StringRef name,
                                   gpu::GPUModuleOp module, Location loc) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  size_t pointers = plan.inputs.size() + plan.outputs.size() + (shape.scratchBytes > 0);
  SmallVector<Type> arguments(pointers, LLVM::LLVMPointerType::get(builder.getContext()));
  size_t scalars = plan.kind == KernelKind::Flat ? 1 : 0;
  for (Operation *op : plan.ops)
    if (auto numbered = dyn_cast<dt::IndexedOpInterface>(op))
      scalars += numbered.getIndexScalars().size();
  arguments.append(scalars, builder.getI64Type());
  auto function = gpu::GPUFuncOp::create(builder, loc, name, builder.getFunctionType(arguments, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  SmallVector<Value> buffers(plan.inputs);
  llvm::append_range(buffers, plan.outputs);
  for (size_t i = 0; i < pointers; ++i) // scalars may be anywhere
    if (i == buffers.size() || cast<RankedTensorType>(buffers[i].getType()).getNumElements() > 1)
      function.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                          builder.getI64IntegerAttr(GpuShape::bufferAlignment));
  function.setKnownBlockSizeAttr(builder.getDenseI32ArrayAttr({static_cast<int32_t>(pass.threads), 1, 1}));
  builder.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(builder, loc);
  return function;
}

GpuFunction::GpuFunction(const KernelPlan &plan, const GpuShape &shape, const GpuPass &pass, StringRef name,
                         gpu::GPUModuleOp module, Location loc)
    : function(makeFunction(plan, shape, pass, name, module, loc)),
      builder(function.getBody().front().getTerminator(), loc), plan(plan), shape(shape), threads(pass.threads) {
  thread = number(gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x));
  block = number(gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x));
  SmallVector<Value> arguments(function.getArguments().begin(), function.getArguments().end());
  size_t buffers = plan.inputs.size() + plan.outputs.size();
  size_t pointers = buffers + (shape.scratchBytes > 0);
  if (shape.scratchBytes > 0)
    scratch = arguments[buffers];
  auto launchScalar = [arguments, pointers](CodeBuilder &, unsigned index) { return arguments[pointers + index]; };
  if (plan.kind == KernelKind::Flat)
    count = launchScalar(builder, 0);
  // Values of the whole call come before this marker, the threads' own after it.
  Operation *marker = builder.integer(0).getDefiningOp();
  KernelEnvironment environment{SmallVector<Value>(ArrayRef(arguments).take_front(buffers)), launchScalar, shape.lanes,
                                /*alignsVectors=*/true, /*convertsBf16=*/true};
  wide.emplace(plan, CodeBuilder(marker, loc), environment);
  environment.lanes = 1;
  single.emplace(plan, CodeBuilder(marker, loc), environment);
}

Value GpuFunction::number(Operation *id) {
  return arith::IndexCastUIOp::create(builder, builder.loc, builder.getI64Type(), id->getResult(0));
}

// Threads together

Value GpuFunction::combineThreads(CodeBuilder &builder, const GpuReduction &reduction, Value value, int64_t size) {
  Location loc = builder.loc;
  auto shuffle = [&](Value value, int64_t width) {
    for (int64_t distance = width / 2; distance > 0; distance /= 2) {
      auto other = gpu::ShuffleOp::create(builder, loc, value, static_cast<int32_t>(distance),
                                          static_cast<int32_t>(GpuShape::warp), gpu::ShuffleMode::XOR);
      value = reduction.combine(builder, value, other.getShuffleResult());
    }
    return value;
  };
  value = shuffle(value, std::min(size, GpuShape::warp));
  if (size <= GpuShape::warp)
    return value;
  // The warps' results, in a row; every warp reads all of them.
  int64_t warps = size / GpuShape::warp;
  Value memory = workgroupMemory(value.getType(), warps);
  Division place = divide(builder, thread, GpuShape::warp, threads);
  when(builder, equal(builder, place.remainder, 0),
       [&](CodeBuilder &inner) { storeShared(inner, value, memory, place.quotient); });
  barrier(builder);
  return shuffle(loadShared(builder, memory, divide(builder, thread, warps, threads).remainder), warps);
}

Value GpuFunction::workgroupMemory(Type element, int64_t size) {
  auto space = gpu::AddressSpaceAttr::get(builder.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({size}, element, MemRefLayoutAttrInterface(), space);
  return function.addWorkgroupAttribution(type, builder.loc);
}

void GpuFunction::storeShared(CodeBuilder &builder, Value value, Value memory, Value index) {
  memref::StoreOp::create(builder, builder.loc, value, memory, builder.asIndex(index));
}

Value GpuFunction::loadShared(CodeBuilder &builder, Value memory, Value index) {
  return memref::LoadOp::create(builder, builder.loc, memory, builder.asIndex(index));
}

void GpuFunction::barrier(CodeBuilder &builder) { gpu::BarrierOp::create(builder, builder.loc); }

Value GpuFunction::partialAddress(CodeBuilder &builder, const GpuReduction &reduction, Value total, Value index) {
  Value number = builder.add(builder.mul(total, builder.integer(reduction.number)), index);
  return builder.element(builder.getI64Type(), scratch, number);
}

// Numbers

Division GpuFunction::divide(CodeBuilder &builder, Value number, int64_t size, int64_t bound) {
  if (size == 1)
    return {number, builder.integer(0)};
  Location loc = builder.loc;
  bool isNarrow = bound <= std::numeric_limits<int32_t>::max();
  Value divisor = isNarrow ? builder.constant(builder.getI32IntegerAttr(size)) : builder.integer(size);
  if (isNarrow)
    number = arith::TruncIOp::create(builder, loc, builder.getI32Type(), number);
  Division result{arith::DivUIOp::create(builder, loc, number, divisor),
                  arith::RemUIOp::create(builder, loc, number, divisor)};
  for (Value *each : {&result.quotient, &result.remainder})
    if (isNarrow)
      *each = arith::ExtUIOp::create(builder, loc, builder.getI64Type(), *each);
  return result;
}

void GpuFunction::decompose(CodeBuilder &builder, Value number, Span dims, SmallVectorImpl<Value> &index) {
  SmallVector<unsigned> order = dimsOf(dims);
  int64_t bound = plan.product(dims);
  for (unsigned dim : llvm::reverse(order)) {
    if (dim == order.front()) {
      index[dim] = number;
      break;
    }
    Division division = divide(builder, number, plan.sizes[dim], bound);
    index[dim] = division.remainder;
    number = division.quotient;
    bound /= plan.sizes[dim];
  }
}

Value GpuFunction::less(CodeBuilder &builder, Value a, Value b) {
  return arith::CmpIOp::create(builder, builder.loc, arith::CmpIPredicate::slt, a, b);
}

Value GpuFunction::equal(CodeBuilder &builder, Value a, int64_t b) {
  return arith::CmpIOp::create(builder, builder.loc, arith::CmpIPredicate::eq, a, builder.integer(b));
}

Value GpuFunction::choose(CodeBuilder &builder, Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, builder.loc, condition, a, b);
}

// Control

void GpuFunction::when(CodeBuilder &builder, Value condition, Body then, Body otherwise) {
  auto branch = scf::IfOp::create(builder, builder.loc, condition, /*withElseRegion=*/bool(otherwise));
  builder.setInsertionPoint(branch);
  CodeBuilder inner(branch.thenBlock()->getTerminator(), builder.loc);
  then(inner);
  if (otherwise) {
    CodeBuilder other(branch.elseBlock()->getTerminator(), builder.loc);
    otherwise(other);
  }
  builder.setInsertionPointAfter(branch);
}

SmallVector<Value> GpuFunction::loop(CodeBuilder &builder, Value from, Value to, int64_t step, ValueRange initial,
                                     LoopBody body) {
  return loop(builder, from, to, builder.integer(step), initial, body);
}

SmallVector<Value> GpuFunction::loop(CodeBuilder &builder, Value from, Value to, Value step, ValueRange initial,
                                     LoopBody body) {
  auto loop = scf::ForOp::create(builder, builder.loc, from, to, step, initial);
  if (initial.empty())
    loop.getBody()->getTerminator()->erase();
  builder.setInsertionPoint(loop);
  OpBuilder atEnd = OpBuilder::atBlockEnd(loop.getBody());
  auto yield = scf::YieldOp::create(atEnd, builder.loc, initial);
  CodeBuilder inner(yield, builder.loc);
  SmallVector<Value> results = body(inner, loop.getInductionVar(), loop.getRegionIterArgs());
  yield->setOperands(results);
  builder.setInsertionPointAfter(loop);
  return SmallVector<Value>(loop.getResults());
}
