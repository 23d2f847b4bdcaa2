// dt-partition: functions over whole tensors become functions over one rank's pieces.
#include "dialect/IR/Names.h"
#include "dialect/IR/Reductions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Threading.h"
#include "passes/place/Attributes.h"
#include "passes/place/Boundary.h"
#include "passes/place/Deferral.h"
#include "passes/place/Padding.h"
#include "passes/place/Passes.h"

namespace dtc {
#define GEN_PASS_DEF_PARTITION
#include "passes/place/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

namespace {

/// How a value that functions hand to each other is placed, by its port's identity, and why it is partial.
struct CarriedValue {
  const Placement *placement; ///< kept by the axis table
  PartialOrigin origin;
};
using Carried = llvm::DenseMap<PortIdentity, CarriedValue>;

/// How an operation's operands and results are placed.
struct OpPlacement {
  SmallVector<const Placement *> operands, results; ///< kept by the axis table
  SmallVector<ShardingAttr> operandShardings, resultShardings;
  SmallVector<Type> types; ///< of the results' pieces
};

/// Partitions one function: its operations are rebuilt in a second block, which then replaces the first.
class FunctionPartitioner {
public:
  FunctionPartitioner(Boundary &&ports, const AxisTable &axes, LoopTable &loops, Carried &carried)
      : function(ports.function), boundary(std::move(ports)), axes(axes), loops(loops), carried(carried),
        builder(function.getContext()), names(function), values(function, builder, axes, loops, names) {}

  LogicalResult run() {
    Block &whole = function.front();
    auto *local = new Block();
    function.getBody().push_back(local);
    builder.setInsertionPointToEnd(local);
    if (failed(placeArguments(whole, *local)))
      return failure();
    for (Operation &op : whole.without_terminator())
      if (failed(partition(&op)))
        return failure();
    if (failed(placeResults(whole.getTerminator())))
      return failure();
    function.getBody().getBlocks().remove(&whole);
    old.reset(&whole);
    function.setType(
        FunctionType::get(function.getContext(), local->getArgumentTypes(), local->getTerminator()->getOperandTypes()));
    return success();
  }

  /// What is left to be done when all functions have been partitioned.
  Boundary takeBoundary() { return std::move(boundary); }
  std::unique_ptr<Block> takeOldBlock() { return std::move(old); }

private:
  LogicalResult placeArguments(Block &whole, Block &local) {
    for (BlockArgument argument : whole.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto type = cast<RankedTensorType>(argument.getType());
      PortAttr &port = boundary.arguments[i];
      PartialOrigin origin;
      if (!port.isPlaced()) {
        auto found = carried.find(port.identity());
        if (found == carried.end())
          return function.emitError()
                 << "argument " << i << " (" << port.describe()
                 << ") has no placement; run dt-annotate, and put the function that returns it first";
        port = port.placedAs(axes.shardingOf(*found->second.placement), type);
        origin = found->second.origin;
      }
      const Placement &placement = axes.placementOf(port.getStored());
      Value piece = local.addArgument(axes.localType(type, placement), argument.getLoc());
      std::optional<double> padding = port.isOfParameter() ? std::optional<double>(0) : std::nullopt;
      const Placement &home = placement.isPartial() ? axes.kept(placement.withPartial(0)) : placement;
      values.define(argument, home, {&placement, piece, padding});
      if (placement.isPartial())
        values[argument].origin = std::make_unique<PartialOrigin>(std::move(origin));
    }
    return success();
  }

  LogicalResult partition(Operation *op) {
    auto factorOp = dyn_cast<FactorOpInterface>(op);
    auto split = op->getAttrOfType<ShardingAttr>(iterationAttr);
    auto homes = op->getAttrOfType<ArrayAttr>(shardingsAttr);
    if (!factorOp || !split || !homes)
      return op->emitOpError() << "lacks FactorOpInterface, " << iterationAttr << " or " << shardingsAttr
                               << "; run dt-propagate";
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      names.follow(op, loops.of(factorOp).rule);
      const Placement &placement = axes.placementOf(reshard.getSharding());
      values.define(reshard.getResult(), placement, values.makeAnew(reshard.getOperand(), placement, op));
      return success();
    }
    if (op->getNumOperands() == 0) { // built where it is needed, in the form that is needed
      for (OpResult result : op->getResults())
        values.define(result, homeOf(homes, result.getResultNumber()), Version());
      return success();
    }
    const Loops &own = loops.of(factorOp);
    names.follow(op, own.rule);
    const OpPlacement *plain = plainPlacement(factorOp, own, split);
    if (!plain)
      return partitionSums(factorOp, own, split, homes);
    SmallVector<Value> pieces;
    for (auto [operand, wanted] : llvm::zip_equal(op->getOperands(), plain->operands))
      pieces.push_back(values.get(operand, *wanted, op).value);
    Operation *local = build(factorOp, *plain, pieces);
    for (auto [i, placement] : llvm::enumerate(plain->results))
      values.define(op->getResult(i), homeOf(homes, i), {placement, local->getResult(i), {}});
    return success();
  }

  /// The placement of an operation that is fully determined by its loops and how they are split: no sum over devices,
  /// no padding. Null for others.
  const OpPlacement *plainPlacement(FactorOpInterface op, const Loops &own, ShardingAttr split) {
    if (llvm::any_of(op->getOperands(), [&](Value operand) { return values.pendingSum(operand).mask() != 0; }))
      return nullptr;
    auto [entry, isNew] = plainPlacements.try_emplace({&own, split});
    if (isNew) {
      Iteration iteration(own);
      iteration.splitAs(axes.placementOf(split));
      if (isPlain(iteration))
        entry->second = std::make_unique<const OpPlacement>(place(op, iteration, Deferral{}));
    }
    return entry->second.get();
  }

  bool isPlain(const Iteration &iteration) const {
    for (auto [factor, info] : llvm::enumerate(iteration.rule.factors))
      if (!iteration.atoms[factor].empty() &&
          (info.kind == FactorKind::Reduction || isPaddedFactor(iteration, axes, factor)))
        return false;
    return true;
  }

  LogicalResult partitionSums(FactorOpInterface op, const Loops &own, ShardingAttr split, ArrayAttr homes) {
    Iteration iteration(own);
    iteration.splitAs(axes.placementOf(split));
    Deferral deferral = decideDeferral(op, iteration, axes, values, accumulations);
    OpPlacement placement = place(op, iteration, deferral);
    SmallVector<Version> operands = placeOperands(op, iteration, placement);
    Operation *local =
        build(op, placement, llvm::map_to_vector(operands, [](const Version &operand) { return operand.value; }));
    for (auto [i, lies] : llvm::enumerate(placement.results)) {
      Operation *cause = lies->isPartial() ? op.getOperation() : nullptr;
      if (cause && !iteration.partialOf(i).mask())
        cause = causeOf(op, deferral);
      values.define(op->getResult(i), homeOf(homes, i),
                    {lies, local->getResult(i), paddingOfResult(op, iteration, axes, operands, i)}, cause);
    }
    return success();
  }

  const Placement &homeOf(ArrayAttr homes, unsigned result) const {
    return axes.placementOf(cast<ShardingAttr>(homes[result]));
  }

  Operation *causeOf(Operation *op, const Deferral &deferral) {
    for (auto [operand, taken] : llvm::zip_equal(op->getOperands(), deferral.operands))
      if (taken)
        return values[operand].partialBy;
    return nullptr;
  }

  OpPlacement place(FactorOpInterface op, const Iteration &iteration, const Deferral &deferral) {
    OpPlacement placement;
    for (auto [i, dims] : llvm::enumerate(iteration.rule.operands)) {
      Placement wanted = iteration.placementOf(dims);
      if (deferral.mask && deferral.operands[i])
        wanted.partial = values.pendingSum(op->getOperand(i));
      placement.operands.push_back(&axes.kept(wanted));
      placement.operandShardings.push_back(axes.shardingOf(wanted));
    }
    for (auto [i, dims] : llvm::enumerate(iteration.rule.results)) {
      Placement made = iteration.placementOf(dims);
      made.partial = iteration.partialOf(i);
      made.partial[ReductionKind::Sum] |= deferral.mask;
      placement.results.push_back(&axes.kept(made));
      placement.resultShardings.push_back(axes.shardingOf(made));
      placement.types.push_back(axes.localType(cast<RankedTensorType>(op->getResult(i).getType()), made));
    }
    return placement;
  }

  /// The operands' pieces, with the identity of the reduction in the padding of reduced dimensions.
  SmallVector<Version> placeOperands(Operation *op, const Iteration &iteration, const OpPlacement &placement) {
    SmallVector<Version> operands;
    for (auto [i, dims] : llvm::enumerate(iteration.rule.operands)) {
      const Placement &wanted = *placement.operands[i];
      const Reduction *reduction = nullptr;
      for (auto [factor, info] : llvm::enumerate(iteration.rule.factors))
        if (info.kind == FactorKind::Reduction && Iteration::contains(dims, factor) &&
            isPaddedFactor(iteration, axes, factor))
          reduction = &reductionOf(info.reduction);
      Value operand = op->getOperand(i);
      if (!reduction) {
        operands.push_back(values.get(operand, wanted, op));
        continue;
      }
      Value filled = values.getFilled(operand, wanted, *reduction, op);
      operands.push_back({&wanted, filled, reduction->identity()});
    }
    return operands;
  }

  Operation *build(FactorOpInterface op, const OpPlacement &placement, ArrayRef<Value> pieces) {
    Operation *local =
        op.buildLocal(builder, pieces, placement.types, placement.operandShardings, placement.resultShardings);
    values.placements.drop(local);
    return local;
  }

  LogicalResult placeResults(Operation *terminator) {
    SmallVector<Value> pieces;
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      PortAttr &port = boundary.results[i];
      const Placement *placement = placementOfResult(port, value);
      if (!placement)
        return failure();
      if (!port.isPlaced())
        port = port.placedAs(axes.shardingOf(*placement), cast<RankedTensorType>(value.getType()));
      pieces.push_back(port.isOfParameter() // zeros: what a sum passes over
                           ? values.getFilled(value, *placement, reductionOf(ReductionKind::Sum), terminator)
                           : values.get(value, *placement, terminator).value);
    }
    func::ReturnOp::create(builder, terminator->getLoc(), pieces);
    return success();
  }

  /// The annotated placement; or the one with which an earlier function returned it; or else the one found here,
  /// including partial sums where the port may have them. Null after an error.
  const Placement *placementOfResult(PortAttr port, Value value) {
    if (port.isPlaced())
      return &axes.placementOf(port.getStored());
    LocalValue &local = values[value];
    const Placement *found = local.versions.empty() ? local.home : local.versions.front().placement;
    if (!port.getMayBePartial() && found->isPartial())
      found = &axes.kept(found->withPartial(0));
    auto [entry, isNew] = carried.try_emplace(port.identity(), CarriedValue{found, {}});
    if (isNew && found->isPartial())
      entry->second.origin = values.originOf(value);
    const Placement *placement = entry->second.placement;
    if (AtomMask whole = placement->partial.without(found->partial).mask()) {
      function.emitError() << "the result " << port.describe() << " is whole over " << axes.name(whole)
                           << ", but an earlier function returns it partial";
      return nullptr;
    }
    return placement;
  }

  func::FuncOp function;
  std::unique_ptr<Block> old; ///< of the whole function
  Boundary boundary;
  const AxisTable &axes;
  LoopTable &loops;
  Carried &carried;
  OpBuilder builder;
  DimNames names;
  LocalValues values;
  Accumulations accumulations;
  llvm::DenseMap<std::pair<const Loops *, Attribute>, std::unique_ptr<const OpPlacement>> plainPlacements;
};

class PartitionPass : public dtc::impl::PartitionBase<PartitionPass> {
public:
  using PartitionBase::PartitionBase;

  void runOnOperation() override {
    FailureOr<AxisTable> axes = AxisTable::ofModule(getOperation());
    if (failed(axes))
      return signalPassFailure();
    auto partition = [&](Group &group) -> LogicalResult {
      AxisTable ownAxes = *axes; // which caches its answers
      Carried carried;
      LoopTable loops;
      for (Boundary &boundary : group.boundaries) {
        FunctionPartitioner partitioner(std::move(boundary), ownAxes, loops, carried);
        if (failed(partitioner.run()))
          return failure();
        boundary = partitioner.takeBoundary();
        group.old.push_back(partitioner.takeOldBlock());
      }
      return success();
    };
    SmallVector<Group> groups = independentFunctions();
    if (failed(failableParallelForEach(&getContext(), groups, partition)))
      return signalPassFailure();
    finish(groups);
  }

private:
  struct Group {
    std::vector<Boundary> boundaries;        ///< of its functions
    std::vector<std::unique_ptr<Block>> old; ///< of those that have been partitioned
  };

  /// Boundaries are written one after the other: threads that make attributes wait for each other more than they gain.
  /// Meanwhile another thread destroys the old blocks.
  void finish(MutableArrayRef<Group> groups) {
    parallelFor(&getContext(), 0, 2, [&](size_t task) {
      Boundary::Written written;
      for (Group &group : groups) {
        if (task == 0)
          for (Boundary &boundary : group.boundaries)
            boundary.write(written);
        else
          for (std::unique_ptr<Block> &block : group.old)
            block.reset();
      }
    });
  }

  /// Groups of functions that do not depend on each other. Functions with ports that are not placed yet form one group,
  /// the first, in their order; each other function is a group of its own.
  SmallVector<Group> independentFunctions() {
    SmallVector<Group> groups(1);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      Boundary boundary(function);
      bool isPlaced = llvm::all_of(llvm::concat<PortAttr>(boundary.arguments, boundary.results),
                                   [](PortAttr port) { return port && port.isPlaced(); });
      (isPlaced ? groups.emplace_back() : groups.front()).boundaries.push_back(std::move(boundary));
    }
    return groups;
  }
};
} // namespace
