// dt-partition: functions over whole tensors become functions over one rank's pieces.
#include "dialect/IR/Names.h"
#include "dialect/IR/Reductions.h"
#include "mlir/IR/BuiltinOps.h"
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

/// How what functions hand to each other lies, by its port's identity, and why it is partial.
struct CarriedValue {
  Placement placement;
  PartialOrigin origin;
};
using Carried = llvm::DenseMap<PortIdentity, CarriedValue>;

/// Partitions one function: its operations are rebuilt in a second block, which then replaces the first.
class FunctionPartitioner {
public:
  FunctionPartitioner(func::FuncOp function, const AxisTable &axes, Carried &carried)
      : function(function), boundary(function), axes(axes), carried(carried), builder(function.getContext()),
        names(function), values(function, builder, axes, names) {}

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
    whole.dropAllDefinedValueUses();
    whole.erase();
    boundary.write();
    function.setType(
        FunctionType::get(function.getContext(), local->getArgumentTypes(), local->getTerminator()->getOperandTypes()));
    return success();
  }

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
        port = port.placedAs(axes.shardingOf(found->second.placement));
        origin = found->second.origin;
      }
      Placement placement = axes.placementOf(port.getStored());
      port = port.withWhole(type);
      Value piece = local.addArgument(axes.localType(type, placement), argument.getLoc());
      std::optional<double> padding = port.isOfParameter() ? std::optional<double>(0) : std::nullopt;
      values.define(argument, placement.withPartial(0), {placement, piece, padding});
      values[argument].origin = std::move(origin);
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
    auto home = [&](unsigned result) { return axes.placementOf(cast<ShardingAttr>(homes[result])); };
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      names.follow(op, factorOp.getFactorRule());
      Placement placement = axes.placementOf(reshard.getSharding());
      values.define(reshard.getResult(), placement, values.makeAnew(reshard.getOperand(), placement, op));
      return success();
    }
    if (op->getNumOperands() == 0) { // built where and as it is needed
      for (OpResult result : op->getResults())
        values.define(result, home(result.getResultNumber()), {});
      return success();
    }
    Iteration iteration(factorOp);
    names.follow(op, iteration.rule);
    iteration.atoms = axes.placementOf(split).dims;
    Deferral deferral = decideDeferral(factorOp, iteration, axes, values);
    SmallVector<Version> operands = placeOperands(op, iteration, deferral);
    SmallVector<Placement> results = placementsOfResults(iteration, deferral);
    Operation *local = build(factorOp, iteration, operands, results);
    for (OpResult result : op->getResults()) {
      unsigned i = result.getResultNumber();
      Operation *cause = results[i].partial == 0 ? nullptr : op;
      ReductionKind kind;
      if (cause && !iteration.partialMask(i, kind))
        cause = causeOf(op, deferral);
      values.define(result, home(i),
                    {results[i], local->getResult(i), paddingOfResult(factorOp, iteration, axes, operands, i)}, cause);
    }
    return success();
  }

  Operation *causeOf(Operation *op, const Deferral &deferral) {
    for (auto [operand, taken] : llvm::zip_equal(op->getOperands(), deferral.operands))
      if (taken)
        return values[operand].partialBy;
    return nullptr;
  }

  /// The operands' pieces as the factors say, with the identity of the reduction in the padding of reduced dimensions.
  SmallVector<Version> placeOperands(Operation *op, const Iteration &iteration, const Deferral &deferral) {
    SmallVector<Version> operands;
    for (auto [i, dims] : llvm::enumerate(iteration.rule.operands)) {
      Placement wanted = iteration.placementOf(dims);
      if (deferral.operands[i])
        wanted.partial = values.pendingSum(op->getOperand(i));
      std::optional<double> identity;
      for (auto [factor, info] : llvm::enumerate(iteration.rule.factors))
        if (info.kind == FactorKind::Reduction && Iteration::contains(dims, factor) &&
            isPaddedFactor(iteration, axes, factor))
          identity = reductionOf(info.reduction).identity;
      Value operand = op->getOperand(i);
      if (!identity) {
        operands.push_back(values.get(operand, wanted, op));
        continue;
      }
      Value filled = values.getFilled(operand, wanted, *identity, op);
      operands.push_back({wanted, filled, identity});
    }
    return operands;
  }

  SmallVector<Placement> placementsOfResults(const Iteration &iteration, const Deferral &deferral) {
    SmallVector<Placement> placements;
    for (auto [i, dims] : llvm::enumerate(iteration.rule.results)) {
      Placement &placement = placements.emplace_back(iteration.placementOf(dims));
      placement.partial = iteration.partialMask(i, placement.reduction) | deferral.mask;
    }
    return placements;
  }

  Operation *build(FactorOpInterface op, const Iteration &iteration, ArrayRef<Version> operands,
                   ArrayRef<Placement> results) {
    SmallVector<Value> pieces;
    SmallVector<ShardingAttr> operandShardings, resultShardings;
    for (const Version &operand : operands) {
      pieces.push_back(operand.value);
      operandShardings.push_back(axes.shardingOf(operand.placement));
    }
    SmallVector<Type> types;
    for (auto [result, placement] : llvm::zip_equal(op->getResults(), results)) {
      types.push_back(axes.localType(cast<RankedTensorType>(result.getType()), placement));
      resultShardings.push_back(axes.shardingOf(placement));
    }
    Operation *local = op.buildLocal(builder, pieces, types, operandShardings, resultShardings);
    values.placements.drop(local);
    return local;
  }

  LogicalResult placeResults(Operation *terminator) {
    SmallVector<Value> pieces;
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      PortAttr &port = boundary.results[i];
      FailureOr<Placement> placement = placementOfResult(port, value);
      if (failed(placement))
        return failure();
      if (!port.isPlaced())
        port = port.placedAs(axes.shardingOf(*placement));
      port = port.withWhole(cast<RankedTensorType>(value.getType()));
      pieces.push_back(port.isOfParameter() ? values.getFilled(value, *placement, 0, terminator)
                                            : values.get(value, *placement, terminator).value);
    }
    func::ReturnOp::create(builder, terminator->getLoc(), pieces);
    return success();
  }

  /// As annotated; as an earlier function returned it; or else as it was found, partial sums included.
  FailureOr<Placement> placementOfResult(PortAttr port, Value value) {
    if (port.isPlaced())
      return axes.placementOf(port.getStored());
    LocalValue &local = values[value];
    Placement found = local.versions.empty() ? local.home : local.versions.front().placement;
    PartialOrigin origin = found.partial ? values.originOf(value) : PartialOrigin();
    auto [entry, isNew] = carried.try_emplace(port.identity(), CarriedValue{found, std::move(origin)});
    const Placement &placement = entry->second.placement;
    if (placement.partial & ~found.partial)
      return function.emitError() << "the result " << port.describe() << " is whole over "
                                  << axes.name(placement.partial & ~found.partial)
                                  << ", but an earlier function returns it partial";
    return placement;
  }

  func::FuncOp function;
  Boundary boundary;
  const AxisTable &axes;
  Carried &carried;
  OpBuilder builder;
  DimNames names;
  LocalValues values;
};

class PartitionPass : public dtc::impl::PartitionBase<PartitionPass> {
public:
  using PartitionBase::PartitionBase;

  void runOnOperation() override {
    FailureOr<AxisTable> axes = AxisTable::ofModule(getOperation());
    if (failed(axes))
      return signalPassFailure();
    Carried carried;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() && failed(FunctionPartitioner(function, *axes, carried).run()))
        return signalPassFailure();
  }
};
} // namespace
