// Pieces of values and their versions.
#include "passes/place/LocalValues.h"
#include "dialect/IR/Locations.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Reductions.h"
#include "mlir/IR/Matchers.h"
#include "passes/analysis/FirstUser.h"

#include "passes/place/Attributes.h"
#include <set>

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

static std::optional<double> splatOf(Value value) {
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return static_cast<double>(elements.getSplatValue<APInt>().getSExtValue());
}

bool dtc::isSplat(Value value, double number) { return splatOf(value) == number; }

LocalValues::LocalValues(func::FuncOp function, OpBuilder &builder, const AxisTable &axes, LoopTable &loops,
                         const DimNames &names)
    : placements(function.getContext()), builder(builder), axes(axes), loops(loops), names(names) {
  values.reserve(function.front().getOperations().size() + function.getNumArguments());
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

void LocalValues::define(Value value, const Placement &home, Version produced, Operation *partialBy) {
  LocalValue *&slot = values[value];
  if (!slot)
    slot = &storage.emplace_back();
  LocalValue &local = *slot;
  local.global = cast<RankedTensorType>(value.getType());
  local.home = &home;
  local.partialBy = partialBy;
  if (produced.value)
    local.versions.push_back(produced);
}

Partials LocalValues::pendingSum(Value value) {
  LocalValue &local = (*this)[value];
  if (local.versions.empty())
    return {};
  const Placement &produced = *local.versions.front().placement;
  bool resolved = llvm::any_of(local.versions, [](const Version &version) { return !version.placement->isPartial(); });
  return resolved || !produced.partial.areLinear() ? Partials() : produced.partial;
}

Version &LocalValues::get(Value value, const Placement &wanted, Operation *consumer) {
  LocalValue &local = (*this)[value];
  auto *found = llvm::find_if(local.versions, [&](const Version &version) { return version.placement == &wanted; });
  if (found != local.versions.end())
    return *found;
  // What depends on nothing is built where and as it is needed.
  if (Operation *op = value.getDefiningOp(); op && op->getNumOperands() == 0)
    return local.versions.emplace_back(build(value, wanted));
  bool pending = llvm::all_of(local.versions, [](const Version &version) { return version.placement->isPartial(); });
  if (pending && !wanted.isPartial() && !value.hasOneUse() && &wanted != local.home) {
    Version home = reshard(value, local, local.versions.front(), *local.home, consumer);
    local.versions.push_back(home);
  }
  Version made = reshard(value, local, cheapest(local, wanted), wanted, consumer);
  return local.versions.emplace_back(made);
}

Version LocalValues::makeAnew(Value value, const Placement &wanted, Operation *consumer) {
  LocalValue &local = (*this)[value];
  if (local.versions.empty()) // depends on nothing
    return build(value, wanted);
  return reshard(value, local, cheapest(local, wanted), wanted, consumer);
}

/// The version from which `wanted` is made by moving the fewest bytes.
const Version &LocalValues::cheapest(LocalValue &local, const Placement &wanted) {
  const Version *best = nullptr;
  double bestBytes = 0;
  for (const Version &version : local.versions) {
    if (wanted.partial.without(version.placement->partial).mask())
      continue;
    if (local.versions.size() == 1)
      return version;
    double bytes = reshardBytes(axes, local.global, *version.placement,
                                planReshard(axes, local.global.getShape(), *version.placement, wanted));
    if (!best || bytes < bestBytes) {
      best = &version;
      bestBytes = bytes;
    }
  }
  if (!best)
    llvm::report_fatal_error("a whole value cannot become partial again");
  return *best;
}

Value LocalValues::getFilled(Value value, const Placement &wanted, const Reduction &reduction, Operation *consumer) {
  Version &version = get(value, wanted, consumer);
  SmallVector<Extent> extents;
  for (auto [dim, size] : llvm::enumerate((*this)[value].global.getShape()))
    if (axes.isPadded(size, wanted.dims[dim]))
      extents.push_back({static_cast<int64_t>(dim), size});
  if (extents.empty() || version.padding == reduction.identity())
    return version.value;
  Value filled = buildNeutralPadding(builder, consumer->getLoc(), version.value, extents, reduction,
                                     axes.shardingOf(wanted).withoutPartial());
  if (reduction.identity() == 0) {
    version.value = filled;
    version.padding = 0;
  }
  return filled;
}

/// Builds a value without operands directly in its place, or whole where its operation cannot be split so.
Version LocalValues::build(Value value, const Placement &wanted) {
  Operation *op = value.getDefiningOp();
  auto factorOp = cast<FactorOpInterface>(op);
  Iteration iteration(loops.of(factorOp));
  unsigned number = cast<OpResult>(value).getResultNumber();
  Placement placement = Placement::replicated(wanted.dims.size());
  for (auto [dim, factors] : llvm::enumerate(iteration.rule.results[number]))
    if (!factors.empty() && iteration.canSplit[factors.front()])
      placement.dims[dim] = wanted.dims[dim];
  RankedTensorType global = (*this)[value].global;
  ShardingAttr sharding = axes.shardingOf(placement);
  Type type = axes.localType(global, placement);
  Operation *local = factorOp.buildLocal(builder, {}, type, {}, sharding);
  placements.drop(local);
  Version built{&axes.kept(placement), local->getResult(number), splatOf(value)};
  return placement == wanted.withPartial(0) ? built : reshard(value, (*this)[value], built, wanted, op);
}

Version LocalValues::reshard(Value value, LocalValue &local, const Version &source, const Placement &wanted,
                             Operation *consumer) {
  SmallVector<ReshardStep> steps = planReshard(axes, local.global.getShape(), *source.placement, wanted);
  Value made = buildReshard(builder, axes, source.value, local.global, steps,
                            describe(value, local, source, wanted, consumer));
  // Collectives of zeros are zeros, and whatever pads a piece on the way pads with zeros.
  bool zero = !axes.isPadded(local.global.getShape(), *source.placement) || source.padding == 0.0;
  return {&wanted, made, zero ? std::optional<double>(0) : std::nullopt};
}

// Messages

PartialOrigin LocalValues::originOf(Value value) {
  PartialOrigin origin;
  origin.cause = describePartial((*this)[value], origin.remedy);
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
std::string LocalValues::findAnnotation(Operation *op, const FactorRule &rule, int factor, StringAttr name) {
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
std::string LocalValues::describePartial(const LocalValue &local, std::string &remedy) {
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

ReshardNote LocalValues::describe(Value value, const LocalValue &local, const Version &source, const Placement &wanted,
                                  Operation *consumer) {
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
