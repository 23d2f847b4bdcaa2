// Moves what layers keep to the host's memory meanwhile; see Passes.td.
#include "passes/keep/Passes.h"
#include "passes/keep/cut/StageHomes.h"
#include "passes/keep/recompute/RecomputePlan.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/IRMapping.h"
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/StoredValues.h"

namespace dtc {
#define GEN_PASS_DEF_OFFLOADLAYERS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::isForward;
using dtc::RecomputePlan;
using Kind = dtc::abi::Recompute::Kind;

namespace {

/// A value smaller than this fraction of the largest one that its layer keeps is not worth a copy: statistics of rows,
/// such as a norm's or attention's.
constexpr uint64_t leastPart = 16;

/// What the forward pass stores and the backward pass reads in layers that are offloaded.
class Offloaded {
public:
  Offloaded(Block &block, const RecomputePlan &plan) : plan(plan) {
    dtc::StoredValues stored;
    LayerAttr last; // its backward pass comes at once
    for (Operation &op : block)
      if (isForward(&op)) {
        if (dtc::isView(&op) || stored.isLight(&op))
          passing.insert(&op);
        if (LayerAttr layer = marksOf(&op).layer; layer && layer != last && layers.insert(layer).second)
          last = layer;
      }
    for (Operation &op : block)
      if (LayerAttr layer = marksOf(&op).layer; isForward(&op) && layer && layer != last)
        consider(&op, layer);
    llvm::erase_if(found, [&](Value value) {
      return leastPart * bytesOf(value.getType()) < largest.lookup(marksOf(value).layer);
    });
  }

  /// In the order in which they are made.
  ArrayRef<Value> values() const { return found; }

  /// Whether an operation's result is not stored: it is a view of another tensor, or is computed where it is read.
  bool isPassing(Operation *op) const { return op && passing.contains(op); }

private:
  void consider(Operation *op, LayerAttr layer) {
    if (plan.howOf(layer).kind != Kind::Offload || isPassing(op) || op->hasTrait<OpTrait::ConstantLike>())
      return;
    for (Value value : op->getResults()) {
      Reads reads;
      collectReads(value, reads);
      if (!reads.isBackward || reads.isReturned || dtc::isOfState(value))
        continue;
      found.push_back(value);
      uint64_t &most = largest[layer];
      most = std::max(most, bytesOf(value.getType()));
    }
  }

  struct Reads {
    bool isBackward = false, isReturned = false;
  };
  void collectReads(Value value, Reads &reads) const {
    for (Operation *user : value.getUsers())
      if (user->hasTrait<OpTrait::IsTerminator>())
        reads.isReturned = true;
      else if (!isForward(user))
        reads.isBackward = true;
      else if (isPassing(user))
        for (Value result : user->getResults())
          collectReads(result, reads);
  }

  const RecomputePlan &plan;
  DenseSet<Operation *> passing;
  DenseSet<LayerAttr> layers; ///< met before
  SmallVector<Value> found;
  DenseMap<LayerAttr, uint64_t> largest; ///< bytes
};

/// Redirects the backward pass to what comes back.
class Fetches {
public:
  explicit Fetches(const Offloaded &offloaded) : offloaded(offloaded) {}

  /// Right after what makes a value.
  void offload(Value value) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto out = OffloadOp::create(builder, value.getLoc(), value.getType(), value);
    mark(out, {marksOf(value).layer, DirectionAttr::get(value.getContext(), Direction::Forward)});
    outOf[value] = out.getResult();
  }

  /// Fetches before the first reader of each value; later readers share it.
  void serve(Operation *reader) {
    for (OpOperand &operand : reader->getOpOperands())
      if (isMadeOfFetched(operand.get()))
        operand.set(fetched(operand.get(), reader));
  }

private:
  bool isMadeOfFetched(Value value) {
    if (outOf.contains(value))
      return true;
    Operation *op = value.getDefiningOp();
    if (!offloaded.isPassing(op))
      return false;
    auto [known, isNew] = made.try_emplace(op);
    if (isNew) {
      bool any = llvm::any_of(op->getOperands(), [&](Value operand) { return isMadeOfFetched(operand); });
      return made[op] = any;
    }
    return known->second;
  }

  Value fetched(Value value, Operation *reader) {
    if (!isMadeOfFetched(value))
      return value;
    if (Value known = copies.lookup(value))
      return known;
    auto direction = DirectionAttr::get(value.getContext(), Direction::InputGradient);
    OpBuilder builder(reader);
    if (Value out = outOf.lookup(value)) {
      auto back = FetchOp::create(builder, value.getLoc(), value.getType(), out);
      mark(back, {marksOf(value).layer, direction});
      return copies[value] = back.getResult();
    }
    Operation *op = value.getDefiningOp();
    IRMapping operands;
    for (Value operand : op->getOperands())
      operands.map(operand, fetched(operand, reader));
    builder.setInsertionPoint(reader);
    Operation *copy = builder.clone(*op, operands);
    copy->setAttr(directionAttr, direction); // the backward pass waits for it
    for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults()))
      copies[from] = to;
    return copies.lookup(value);
  }

  const Offloaded &offloaded;
  DenseMap<Value, Value> outOf;     ///< by value that leaves: its copy in the host's memory
  DenseMap<Value, Value> copies;    ///< by value that leaves or is made from one: what is read instead
  DenseMap<Operation *, bool> made; ///< for passing operations: whether they are made from what leaves
};

struct OffloadLayers : dtc::impl::OffloadLayersBase<OffloadLayers> {
  using OffloadLayersBase::OffloadLayersBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() && failed(offload(function)))
        return signalPassFailure();
  }

  LogicalResult offload(func::FuncOp function) {
    FailureOr<RecomputePlan> plan = RecomputePlan::of(function, ArrayRef<std::string>(rules));
    if (failed(plan))
      return failure();
    if (!plan->offloads())
      return success();
    Block &block = function.front();
    Offloaded offloaded(block, *plan);
    if (offloaded.values().empty())
      return success();
    auto mesh = getOperation()->getAttrOfType<MeshAttr>(module_attr::mesh);
    if (int64_t stages = mesh ? mesh.getAxisSize(pipelineAxis) : 1; stages > 1)
      return function.emitError("recompute: offload is not supported in a pipeline of ")
             << stages
             << " stages, where micro-batches in flight would share the host's memory; use selective or full, "
             << "or leave out the axis '" << pipelineAxis << "'";
    Fetches fetches(offloaded);
    for (Value value : offloaded.values())
      fetches.offload(value);
    for (Operation &op : block.without_terminator())
      if (!isForward(&op))
        fetches.serve(&op);
    return success();
  }
};

} // namespace
