// Does layers in parts of the batch, so that one part's communication runs during another's products; see Passes.td.
#include "passes/keep/Passes.h"
#include "passes/keep/split/SplitPlan.h"

#include "dialect/IR/Marks.h"
#include "passes/analysis/FirstUser.h"
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/StoredValues.h"

namespace dtc {
#define GEN_PASS_DEF_SPLITPRODUCTS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::Split;

namespace {

RankedTensorType typeOfPart(Value whole, int64_t dim, int64_t parts) {
  auto type = cast<RankedTensorType>(whole.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] /= parts;
  return type.clone(shape);
}

/// Puts parts in place of the operations that were found.
class Splitter {
public:
  Splitter(func::FuncOp function, DenseMap<Operation *, Split> found) : function(function), found(std::move(found)) {
    dtc::StoredValues stored;
    for (auto &[op, split] : this->found)
      if (dtc::isView(op) || stored.isLight(op))
        light.insert(op);
  }

  void run() {
    SmallVector<Operation *> whole;
    for (Operation &op : function.front())
      if (found.contains(&op))
        whole.push_back(&op);
    for (Operation *op : whole)
      split(op, found.find(op)->second);
    for (Operation *op : llvm::reverse(whole))
      finish(op);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
      if (marksOf(&op).part && isOpTriviallyDead(&op)) // only the whole was read
        op.erase();
  }

private:
  struct Parts {
    int64_t dim;
    SmallVector<Value> values;
  };

  void split(Operation *op, const Split &split) {
    SmallVector<Operation *> made;
    for (int64_t part = 0; part < split.parts; ++part) {
      Operation *each = build(op, split, part);
      if (!each)
        return; // it stays whole, and its readers take parts of it
      made.push_back(each);
    }
    for (OpResult result : op->getResults()) {
      Parts &own = parts[result];
      own.dim = split.dimOfResult(result.getResultNumber());
      for (Operation *each : made)
        own.values.push_back(each->getResult(result.getResultNumber()));
    }
  }

  Operation *build(Operation *op, const Split &split, int64_t part) {
    Marks marks = marksOf(op);
    marks.part = IntegerAttr::get(IntegerType::get(op->getContext(), 64), part);
    MarkListener listener(marks);
    OpBuilder builder(op->getContext(), &listener);
    builder.setInsertionPoint(op);
    SmallVector<Value> operands;
    for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
      int64_t dim = split.dimOfOperand(number);
      operands.push_back(dim < 0 ? operand : partOf(builder, operand, dim, part, split.parts));
    }
    SmallVector<Type> types;
    for (OpResult result : op->getResults())
      types.push_back(typeOfPart(result, split.dimOfResult(result.getResultNumber()), split.parts));
    if (isa<CollectiveOpInterface>(op))
      return cloneOnto(op, builder, operands, types);
    int64_t offset = split.rule.factors[split.factor].size / split.parts * part;
    return cast<FactorOpInterface>(op).buildPart(builder, operands, types, split.factor, offset);
  }

  Value partOf(OpBuilder &builder, Value value, int64_t dim, int64_t part, int64_t count) {
    if (auto known = parts.find(value);
        known != parts.end() && known->second.dim == dim && static_cast<int64_t>(known->second.values.size()) == count)
      return known->second.values[part];
    RankedTensorType type = typeOfPart(value, dim, count);
    Operation *producer = value.getDefiningOp();
    if (producer && producer->hasTrait<OpTrait::ConstantLike>())
      if (Operation *own = cast<FactorOpInterface>(producer).buildPart(builder, {}, {type}, 0, 0))
        return own->getResult(0);
    SmallVector<int64_t> offsets(type.getRank(), 0);
    offsets[dim] = part * type.getDimSize(dim);
    return SliceOp::create(builder, value.getLoc(), type, value, offsets);
  }

  /// Concatenates the parts of what is read whole; a value that is computed where it is read is kept whole, too.
  void finish(Operation *op) {
    if (!parts.contains(op->getResult(0)) || (!op->use_empty() && light.contains(op)))
      return;
    for (OpResult result : op->getResults())
      if (!result.use_empty())
        result.replaceAllUsesWith(assemble(result));
    op->erase();
  }

  Value assemble(OpResult result) {
    OpBuilder builder(dtc::firstUser(result));
    const Parts &own = parts[result];
    auto whole = ConcatOp::create(builder, result.getLoc(), result.getType(), own.values, own.dim);
    Marks marks = marksOf(result.getOwner());
    mark(whole, {marks.layer, marks.direction});
    return whole;
  }

  func::FuncOp function;
  DenseMap<Operation *, Split> found;
  DenseSet<Operation *> light; ///< which are computed where they are read
  DenseMap<Value, Parts> parts;
};

struct SplitProducts : dtc::impl::SplitProductsBase<SplitProducts> {
  using SplitProductsBase::SplitProductsBase;

  void runOnOperation() override {
    FailureOr<dtc::PartRules> parts = dtc::PartRules::read(getOperation(), rules);
    if (failed(parts))
      return signalPassFailure();
    Splitter(getOperation(), dtc::findSplits(getOperation(), *parts)).run();
  }
};

} // namespace
