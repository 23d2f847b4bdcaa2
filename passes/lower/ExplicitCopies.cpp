// Inserts copies where a value cannot be a view; see Passes.td.
#include "passes/lower/Passes.h"
#include "passes/lower/Targets.h"
#include "passes/lower/kernels/Layouts.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"

namespace dtc {
#define GEN_PASS_DEF_EXPLICITCOPIES
#include "passes/lower/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

Value copyBefore(Operation *op, Value value) {
  OpBuilder builder(op);
  return buildCopy(builder, op->getLoc(), value);
}

/// Rewrites operations that have another form in memory.
void rewriteInMemory(func::FuncOp function) {
  function.walk([](MemoryFormOpInterface op) {
    OpBuilder builder(op);
    op->getResult(0).replaceAllUsesWith(op.buildInMemory(builder));
    op->erase();
  });
}

/// Copies operands of concatenations that cannot be written in place.
void copyIntoConcatenations(func::FuncOp function) {
  for (Operation &op : llvm::reverse(function.front())) {
    auto view = dyn_cast<ViewOpInterface>(op);
    auto dense = [](Value value) { return StridedLayout::dense(cast<RankedTensorType>(value.getType()).getShape()); };
    if (!view || view.getResultView(dense(op.getOperand(0))))
      continue;
    for (auto [operand, place] : llvm::zip_equal(op.getOpOperands(), view.getOperandViews(dense(op.getResult(0)))))
      if (!dtc::canWriteInto(operand.get(), place))
        operand.set(copyBefore(&op, operand.get()));
  }
}

/// Whether `op` can work on operand `index` with its layout.
bool acceptsOperand(Operation *op, unsigned index, const StridedLayout &layout) {
  if (layout.isDense())
    return true;
  if (auto library = dyn_cast<LibraryOpInterface>(op))
    return library.acceptsStrided(index);
  if (auto view = dyn_cast<ViewOpInterface>(op))
    return view.getResultView(layout).has_value();
  return false;
}

/// Whether a kernel's operand is aligned as the target's kernels need: a part of a tensor may begin anywhere.
bool isAligned(Operation *op, unsigned index, dtc::Layouts &layouts, uint64_t alignment) {
  if (!dtc::mustBeAligned(op, index))
    return true;
  Value operand = op->getOperand(index);
  dtc::abi::DataType type = elementTypeOf(operand.getType()).type;
  return dtc::abi::bytesOf(type, layouts.placeOf(operand).view.offset) % alignment == 0;
}

/// Whether a function returns a value as the argument's new value.
bool takesPlaceOf(OpResult result, BlockArgument argument) {
  return llvm::any_of(result.getUses(), [&](OpOperand &use) {
    auto end = dyn_cast<func::ReturnOp>(use.getOwner());
    PortAttr port = end ? resultPort(end->getParentOfType<func::FuncOp>(), use.getOperandNumber()) : PortAttr();
    return port && portOf(argument) && port.identity() == portOf(argument).identity();
  });
}

/// Whether anything reads `value`, or may read it, after the operation that makes `result`: what the caller owns must
/// not be overwritten, unless its new value is returned.
bool isNeededAfter(Value value, OpResult result) {
  Operation *op = result.getOwner();
  auto argument = dyn_cast<BlockArgument>(value);
  return (argument && !takesPlaceOf(result, argument)) ||
         llvm::any_of(value.getUsers(), [&](Operation *user) { return user != op && op->isBeforeInBlock(user); });
}

/// Whether `value` is only a part of another value's elements: then its buffer is too large to become the result's.
bool isPart(Value value) {
  auto view = value.getDefiningOp<ViewOpInterface>();
  return view && view->getNumOperands() == 1 &&
         cast<RankedTensorType>(value.getType()).getNumElements() !=
             cast<RankedTensorType>(view->getOperand(0).getType()).getNumElements();
}

/// Gives operations their own operand to overwrite: a copy, or, for a constant, which needs no reading, another
/// constant.
void ownOverwrittenOperands(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.front())) {
    auto library = dyn_cast<LibraryOpInterface>(op);
    for (unsigned result = 0; library && result < op.getNumResults(); ++result) {
      if (!library.mustBeInPlace(result))
        continue;
      OpOperand &operand = op.getOpOperand(library.getInPlaceOperand(result));
      if (!isNeededAfter(operand.get(), op.getResult(result)) && !isPart(operand.get()))
        continue;
      Operation *producer = operand.get().getDefiningOp();
      bool isConstant = producer && producer->hasTrait<OpTrait::ConstantLike>();
      operand.set(isConstant ? OpBuilder(&op).clone(*producer)->getResult(0) : copyBefore(&op, operand.get()));
    }
  }
}

struct ExplicitCopies : dtc::impl::ExplicitCopiesBase<ExplicitCopies> {
  void runOnOperation() override {
    rewriteInMemory(getOperation());
    ownOverwrittenOperands(getOperation());
    copyIntoConcatenations(getOperation());
    dtc::Layouts layouts(getOperation());
    MeshAttr mesh = getMesh(getOperation());
    uint64_t alignment = dtc::targetOf(getOperation()).getBufferAlignment();
    for (Operation &op : llvm::make_early_inc_range(getOperation().front())) {
      copyOperands(&op, layouts, alignment);
      auto library = dyn_cast<LibraryOpInterface>(op);
      if (library && failed(library.getLibraryCall(layouts.layoutsOf(&op), mesh)) &&
          failed(densify(library, layouts, mesh)))
        return signalPassFailure();
    }
  }

  /// Copies the operands that `op` cannot read with their layout.
  static void copyOperands(Operation *op, dtc::Layouts &layouts, uint64_t alignment) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (layouts.ownsBuffer(operand.get())) // dense, and at the beginning of its buffer
        continue;
      if (isa<FutureType>(operand.get().getType()) || isAssembled(op))
        continue;
      if (!acceptsOperand(op, operand.getOperandNumber(), layouts.layoutOf(operand.get())) ||
          !isAligned(op, operand.getOperandNumber(), layouts, alignment))
        operand.set(copyBefore(op, operand.get()));
    }
  }

  /// Concatenations take their operands wherever they are written.
  static bool isAssembled(Operation *op) { return isa<ViewOpInterface>(op) && op->getNumOperands() != 1; }

  /// Last resort: all operands dense.
  static LogicalResult densify(LibraryOpInterface op, dtc::Layouts &layouts, MeshAttr mesh) {
    for (OpOperand &operand : op->getOpOperands())
      if (!layouts.layoutOf(operand.get()).isDense())
        operand.set(copyBefore(op, operand.get()));
    if (failed(op.getLibraryCall(layouts.layoutsOf(op), mesh)))
      return op.emitError("no library kernel supports '")
             << op->getName() << "' with dimensions in this order; transpose an operand in the model";
    return success();
  }
};

} // namespace
