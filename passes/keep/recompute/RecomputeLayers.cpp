// Recomputes what a layer's backward pass reads from its forward pass; see Passes.td.
#include "passes/keep/Passes.h"
#include "passes/keep/cut/StageHomes.h"
#include "passes/keep/recompute/KeptValues.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "mlir/IR/IRMapping.h"
#include "passes/analysis/StoredValues.h"
#include "llvm/ADT/SetVector.h"

namespace dtc {
#define GEN_PASS_DEF_RECOMPUTELAYERS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::isForward;
using dtc::KeptValues;
using dtc::RecomputePlan;

namespace {

/// Redirects the backward pass of groups to copies of what they lack.
class GroupRemaking {
public:
  GroupRemaking(KeptValues &values, const RecomputePlan &plan) : values(values), plan(plan) {}

  /// Recomputes lost values before their first reader; whatever is made for one reader also serves later ones.
  void serve(Operation *reader) {
    for (OpOperand &operand : reader->getOpOperands())
      if (values.isLost(operand.get())) {
        OpBuilder builder(reader);
        operand.set(again(operand.get(), groupOf(operand.get()), builder, marksOf(reader).layer));
      }
  }

  /// Still rounds 16-bit numbers that were rounded when they were stored, where nothing stores them any more: otherwise
  /// their readers would see digits that they did not see before.
  void storeWhatWasRounded() {
    dtc::StoredValues stored;
    for (Operation *op : rounded)
      if (!op->use_empty() && stored.isLight(op)) {
        OpBuilder builder(op->getContext());
        builder.setInsertionPointAfter(op);
        Value value = op->getResult(0);
        Operation *barrier = record(BarrierOp::create(builder, op->getLoc(), value), marksOf(op));
        value.replaceAllUsesExcept(barrier->getResult(0), barrier);
      }
  }

  /// For storeWhatWasRounded: notes an operation of the forward pass, before anything is recomputed.
  void noteRounded(Operation *op) {
    if (!values.isPassing(op) && dtc::isKernelOp(op) && plan.groupOf(op) &&
        elementTypeOf(op->getResult(0).getType()).bytes == 2)
      rounded.insert(op);
  }

private:
  /// The group of a lost value: the group of the first recomputed operation among those that make it.
  size_t groupOf(Value value) {
    Operation *op = value.getDefiningOp();
    if (!values.isPassing(op))
      return *plan.groupOf(op);
    for (Value operand : op->getOperands())
      if (values.isLost(operand))
        return groupOf(operand);
    llvm_unreachable("a value is lost with one that it is made of");
  }

  Value again(Value value, size_t group, OpBuilder &builder, LayerAttr layer) {
    Operation *op = value.getDefiningOp();
    if (op && op->hasTrait<OpTrait::ConstantLike>())
      return value;
    if (Value known = copies.lookup({group, value}))
      return known;
    bool isOwn = op && (values.isPassing(op) || (values.isLost(value) && plan.groupOf(op) == group));
    if (!isOwn)
      return copies[{group, value}] =
                 record(BarrierOp::create(builder, value.getLoc(), value), {layer, {}})->getResult(0);
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, again(operand, group, builder, layer));
    Operation *copy = record(builder.clone(*op, operands), {layer, {}});
    for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults()))
      copies[{group, from}] = to;
    if (rounded.contains(op))
      rounded.insert(copy);
    return copies.lookup({group, value});
  }

  /// Records an operation for which the backward pass waits.
  static Operation *record(Operation *op, Marks marks) {
    DirectionAttr direction = DirectionAttr::get(op->getContext(), Direction::InputGradient);
    op->setAttr(directionAttr, marks.direction ? marks.direction : direction);
    if (marks.layer && !op->hasAttr(layerAttr))
      op->setAttr(layerAttr, marks.layer);
    op->setLoc(dtc::madeAgain(op->getLoc()));
    return op;
  }

  KeptValues &values;
  const RecomputePlan &plan;
  DenseMap<std::pair<size_t, Value>, Value> copies;
  llvm::SetVector<Operation *> rounded; ///< results of 16 bits that the original program stores, and copies of them
};

struct RecomputeLayers : dtc::impl::RecomputeLayersBase<RecomputeLayers> {
  using RecomputeLayersBase::RecomputeLayersBase;

  void runOnOperation() override {
    FailureOr<RecomputePlan> plan = RecomputePlan::of(getOperation(), ArrayRef<std::string>(rules));
    if (failed(plan))
      return signalPassFailure();
    Block &block = getOperation().front();
    KeptValues values(block, *plan);
    if (failed(values.check(block)))
      return signalPassFailure();
    GroupRemaking remaking(values, *plan);
    SmallVector<Operation *> readers;
    for (Operation &op : block)
      if (isForward(&op))
        remaking.noteRounded(&op);
      else
        readers.push_back(&op);
    llvm::for_each(readers, [&](Operation *reader) { remaking.serve(reader); });
    remaking.storeWhatWasRounded();
  }
};

} // namespace
