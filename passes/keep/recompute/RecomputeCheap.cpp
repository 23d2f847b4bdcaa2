// Recomputes cheap values for late readers instead of keeping them; see Passes.td.
#include "passes/keep/Passes.h"
#include "passes/keep/recompute/RecomputePlan.h"

#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/IRMapping.h"
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/StoredValues.h"
#include "llvm/ADT/SetVector.h"

#include <limits>

namespace dtc {
#define GEN_PASS_DEF_RECOMPUTECHEAP
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::isKernelOp;
using dtc::StoredValues;

namespace {

bool isBackward(Operation *op) {
  DirectionAttr direction = marksOf(op).direction;
  return direction && direction.getValue() != Direction::Forward;
}

int64_t elements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

/// Positions of operations, and the final readers of values: elementwise operations are followed to their readers.
class Lifetimes {
public:
  explicit Lifetimes(func::FuncOp function) {
    known.reserve(function.front().getOperations().size());
    for (auto [position, op] : llvm::enumerate(function.front())) {
      known[&op] = {static_cast<unsigned>(position), 0, isKernelOp(&op)};
      if (isBackward(&op))
        backward = std::min<unsigned>(backward, position);
    }
    for (Operation &op : llvm::reverse(function.front()))
      if (Known &own = known.find(&op)->second; own.runsInKernel)
        own.furthest = furthestReader(op.getResult(0));
  }

  unsigned positionOf(Operation *op) const { return known.lookup(op).position; }
  /// isKernelOp, computed once.
  bool runsInKernel(Operation *op) const { return known.lookup(op).runsInKernel; }

  /// Whether the backward pass stores something it made from `value`, not counting what `without` feeds. Looks only
  /// where such a reader is: a residual stream has as many readers as the model has layers.
  bool isReadBackward(Value value, Operation *without) const {
    llvm::SmallSetVector<Value, 8> reached;
    reached.insert(value);
    for (size_t next = 0; next < reached.size(); ++next) {
      Value at = reached[next];
      for (Operation *user : at.getUsers()) {
        if (user == without)
          continue;
        Known own = known.lookup(user);
        if (own.position >= backward)
          return true;
        if (furthestThrough(own, user, at) >= backward)
          reached.insert(user->getResult(0));
      }
    }
    return false;
  }

  /// `copy`, made for readers at `position`, takes over readers of `op`.
  void addCopy(Operation *copy, Operation *op, unsigned position) {
    known[copy] = {position, known.lookup(op).furthest, isKernelOp(copy)};
  }

private:
  struct Known {
    unsigned position = 0;
    unsigned furthest = 0; ///< at least the position of the last reader of what the operation makes
    bool runsInKernel = false;
  };

  /// The last of those that read what a reader of `value` passes on; 0 where it passes nothing on.
  static unsigned furthestThrough(const Known &own, Operation *user, Value value) {
    return own.runsInKernel && elements(user->getResult(0)) >= elements(value) ? own.furthest : 0;
  }

  unsigned furthestReader(Value value) const {
    unsigned last = 0;
    for (Operation *user : value.getUsers()) {
      Known own = known.lookup(user);
      last = std::max({last, own.position, furthestThrough(own, user, value)});
    }
    return last;
  }

  unsigned backward = std::numeric_limits<unsigned>::max(); ///< where the backward pass begins
  DenseMap<Operation *, Known> known;
};

/// Recomputes a value right before a late reader.
class LateRemaking {
public:
  LateRemaking(Operation *reader, Operation *op, Lifetimes &lifetimes, StoredValues &stored)
      : builder(reader), direction(marksOf(reader).direction), layer(marksOf(reader).layer),
        position(lifetimes.positionOf(reader)), original(op), lifetimes(lifetimes), stored(stored),
        size(elements(op->getResult(0))) {}

  Operation *remake(Operation *op) {
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, again(operand));
    return record(builder.clone(*op, operands));
  }

private:
  Value again(Value value) {
    if (isMadeOnTheWay(value))
      return remake(value.getDefiningOp())->getResult(0);
    // Small values are kept.
    return dtc::isLarge(elements(value), size) ? behindBarrier(value) : value;
  }

  /// Whether a value is computed within the kernel that makes the original from it.
  bool isMadeOnTheWay(Value value) {
    Operation *producer = value.getDefiningOp();
    return producer && stored.isLight(producer) && elements(value) == size;
  }

  Value behindBarrier(Value value) { return record(BarrierOp::create(builder, value.getLoc(), value))->getResult(0); }

  Operation *record(Operation *op) {
    op->setAttr(directionAttr, direction);
    if (layer && !op->hasAttr(layerAttr))
      op->setAttr(layerAttr, layer);
    op->setLoc(dtc::madeAgain(op->getLoc()));
    lifetimes.addCopy(op, original, position);
    return op;
  }

  OpBuilder builder;
  DirectionAttr direction; ///< of the reader, which waits for it
  LayerAttr layer;         ///< likewise, for operations that have none of their own
  unsigned position;
  Operation *original;
  Lifetimes &lifetimes;
  StoredValues &stored;
  int64_t size;
};

struct RecomputeCheap : dtc::impl::RecomputeCheapBase<RecomputeCheap> {
  using RecomputeCheapBase::RecomputeCheapBase;

  void runOnOperation() override {
    FailureOr<dtc::RecomputePlan> plan = dtc::RecomputePlan::of(getOperation(), ArrayRef<std::string>(rules));
    if (failed(plan))
      return signalPassFailure();
    Lifetimes lifetimes(getOperation());
    StoredValues stored;
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (lifetimes.runsInKernel(&op) && !op.getResult(0).hasOneUse() && isLeftToThis(plan->howOf(marksOf(&op).layer)))
        recomputeForLateReaders(&op, lifetimes, stored);
  }

  /// Whether no rule says more exactly what stays.
  static bool isLeftToThis(const dtc::abi::Recompute &how) {
    using Kind = dtc::abi::Recompute::Kind;
    return how.kind != Kind::None && how.kind != Kind::Named;
  }

  /// State is kept, whoever reads it: a weight that was converted to 16 bits is converted again.
  static bool isState(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    PortAttr port = argument ? portOf(argument) : PortAttr();
    return port && port.isState();
  }

  /// Whether an operation reads a value to gather it: dt-share-gathers decides how often that is done.
  static bool isForGather(Operation *op) {
    if (dtc::isView(op))
      return !op->use_empty() && llvm::all_of(op->getUsers(), isForGather);
    return dtc::findGatheredState(op).has_value();
  }

  void recomputeForLateReaders(Operation *op, Lifetimes &lifetimes, StoredValues &stored) {
    SmallVector<Operation *> readers;
    for (Operation *user : op->getUsers())
      if (!lifetimes.runsInKernel(user) && !isForGather(user))
        readers.push_back(user);
    if (readers.size() < 2)
      return;
    llvm::sort(readers, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    auto *found = llvm::find_if(readers, isBackward);
    if (found == readers.begin() || found == readers.end())
      return;
    Operation *late = *found;
    SmallVector<Value> inputs = stored.largeInputsOf(op);
    if (inputs.size() != 1 || elements(inputs.front()) > elements(op->getResult(0)))
      return;
    // Only worth it when what it is computed from is kept for others anyway.
    if (!isState(inputs.front()) && !lifetimes.isReadBackward(inputs.front(), op))
      return;
    Operation *again = LateRemaking(late, op, lifetimes, stored).remake(op);
    op->getResult(0).replaceUsesWithIf(again->getResult(0),
                                       [&](OpOperand &use) { return !use.getOwner()->isBeforeInBlock(late); });
  }
};

} // namespace
