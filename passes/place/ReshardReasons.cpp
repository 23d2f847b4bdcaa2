// The sentences that say why a value is resharded, and which entry of a strategy would remove the reshard.
#include "passes/place/ReshardReasons.h"
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "passes/analysis/FirstUser.h"
#include "passes/place/Attributes.h"

#include <set>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

ReshardReasons::ReshardReasons(func::FuncOp function, const AxisTable &axes, LoopTable &loops, const DimNames &names)
    : axes(axes), loops(loops), names(names) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    PortAttr port = argumentPort(function, i);
    auto dims = function.getArgAttrOfType<ArrayAttr>(i, dimsAttr);
    if (port.getKind() != PortKind::Input || !dims || !port.isPlaced())
      continue;
    for (auto [dim, name] : llvm::enumerate(dims))
      if (!port.getComputed().getDimAxes(dim).empty())
        splitInputDims.insert(name);
  }
}

PartialOrigin ReshardReasons::originOf(const LocalValue &local) {
  PartialOrigin origin;
  origin.cause = describePartial(local, origin.remedy);
  return origin;
}

static std::string describeOp(Operation *op) {
  std::string name = placeOf(op->getLoc());
  return op->getName().getStringRef().str() + (name.empty() ? "" : " at " + name);
}

/// "h.3.attn.*" for "h.3.attn.c_proj.weight": the block of layers whose parameters go together.
static std::string blockPattern(StringRef parameter) {
  StringRef block = parameter.rsplit('.').first.rsplit('.').first;
  return block == parameter || block.empty() ? parameter.str() : block.str() + ".*";
}

static const std::string inputsEntry = "[inputs] \"*\"";

/// Which section and pattern of a strategy splits the dimension of this name in `op`: that of the parameter that `op`
/// reads along it, or of the inputs of the function; or "".
std::string ReshardReasons::findAnnotation(Operation *op, const FactorRule &rule, int factor, StringAttr name) {
  auto function = cast<func::FuncOp>(op->getParentOp());
  for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule.operands)) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (!argument || !Iteration::contains(dims, factor))
      continue;
    if (PortAttr port = argumentPort(function, argument.getArgNumber()); port.getKind() == PortKind::Parameter)
      return "[parameters] \"" + blockPattern(port.getName()) + "\"";
  }
  return splitInputDims.contains(name) ? inputsEntry : "";
}

/// Names the dimensions over which the value is partial. The remedy is one entry of a strategy that unsplits all of
/// them; where they come from several, there is none.
std::string ReshardReasons::describePartial(const LocalValue &local, std::string &remedy) {
  Operation *op = local.partialBy;
  if (!op) {
    remedy = local.origin ? local.origin->remedy : "";
    return local.origin ? local.origin->cause : "";
  }
  Iteration iteration(loops.of(cast<FactorOpInterface>(op)));
  Placement split = axes.placementOf(op->getAttrOfType<ShardingAttr>(iterationAttr));
  std::string over, unsplit;
  std::set<std::string> annotations;
  for (auto [factor, info] : llvm::enumerate(iteration.rule.factors)) {
    if (info.kind != FactorKind::Reduction || split.dims[factor].empty())
      continue;
    StringAttr name = names.nameOf(op, iteration.rule, factor);
    std::string text = name ? name.str() : "dimension " + std::to_string(factor);
    over += (over.empty() ? " over " : ", ") + text;
    unsplit += (unsplit.empty() ? "" : ", ") + text + " = []";
    annotations.insert(name ? findAnnotation(op, iteration.rule, factor, name) : "");
  }
  if (annotations.size() == 1 && !annotations.begin()->empty())
    remedy = *annotations.begin() + " = { " + unsplit + " }";
  return " (" + describeOp(op) + over + ")";
}

/// The state that a value on one side of a reshard belongs to: an argument, or a result that it goes on to; null for
/// other values. Conversions and sums may lie between.
static PortAttr stateOf(Value value, ReshardOp reshard) {
  if (Operation *op = value.getDefiningOp(); op && op->getNumOperands() == 1)
    value = op->getOperand(0);
  if (auto argument = dyn_cast<BlockArgument>(value))
    return portOf(argument);
  Value made = reshard.getResult();
  while (made.hasOneUse() && (*made.user_begin())->getNumResults() == 1)
    made = (*made.user_begin())->getResult(0);
  if (!made.hasOneUse() || !isa<func::ReturnOp>(*made.user_begin()))
    return {};
  OpOperand &returned = *made.use_begin();
  return resultPort(cast<func::FuncOp>(returned.getOwner()->getParentOp()), returned.getOperandNumber());
}

/// The entry without which state would lie as it is computed with, and the reshard would go; "" where there is none.
static std::string findPlacement(Value value, ReshardOp reshard) {
  PortAttr port = stateOf(value, reshard);
  if (!port || !port.isPlaced() || port.getComputed() == port.getStored())
    return "";
  switch (port.getKind()) {
  case PortKind::Parameter:
    return "[storage] \"*\" = { any = [] }";
  case PortKind::Gradient:
    return "[gradients] \"*\" = { any = [] }";
  default:
    return "";
  }
}

ReshardNote ReshardReasons::describe(Value value, const LocalValue &local, const Version &source,
                                     const Placement &wanted, Operation *consumer) {
  std::string placement;
  if (auto reshard = dyn_cast<ReshardOp>(consumer); reshard && !reshard.use_empty()) {
    placement = findPlacement(value, reshard);
    consumer = firstUser(reshard.getResult());
  }
  Operation *producer = value.getDefiningOp();
  ReshardNote note{producer ? producer->getLoc() : consumer->getLoc(), marksOf(producer ? producer : consumer), "", ""};
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (PortAttr port = portOf(argument))
      note.loc = NameLoc::get(port.getName());
  if (AtomMask resolved = source.placement->partial.without(wanted.partial).mask())
    note.reason = "partial over " + axes.name(resolved) + describePartial(local, note.remedy);
  if (!placement.empty())
    note.remedy = placement;
  for (auto [dim, list] : llvm::enumerate(source.placement->dims)) {
    if (list.empty() || list == wanted.dims[dim])
      continue;
    StringAttr name = names.nameOf(value, dim);
    note.reason += (note.reason.empty() ? "split over " : "; split over ") + axes.name(list) + " along " +
                   (name ? name.str() : "dimension " + std::to_string(dim));
    if (note.remedy.empty() && wanted.dims[dim].empty() && splitInputDims.contains(name))
      note.remedy = inputsEntry + " = { " + name.str() + " = [] }";
  }
  std::string how;
  for (auto [dim, list] : llvm::enumerate(wanted.dims))
    if (!list.empty() && list != source.placement->dims[dim]) {
      StringAttr name = names.nameOf(value, dim);
      how += (how.empty() ? "split over " : ", ") + axes.name(list) + " along " +
             (name ? name.str() : "dimension " + std::to_string(dim));
    }
  note.reason += ", needed " + (how.empty() ? "whole" : how) + " by " + describeOp(consumer);
  return note;
}
