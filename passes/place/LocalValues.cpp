// Pieces of values and their versions.
#include "passes/place/LocalValues.h"
#include "dialect/IR/Reductions.h"
#include "mlir/IR/Matchers.h"

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
    : placements(function.getContext()), builder(builder), axes(axes), loops(loops),
      reasons(function, axes, loops, names) {
  values.reserve(function.front().getOperations().size() + function.getNumArguments());
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
                            reasons.describe(value, local, source, wanted, consumer));
  // Collectives of zeros are zeros, and whatever pads a piece on the way pads with zeros.
  bool zero = !axes.isPadded(local.global.getShape(), *source.placement) || source.padding == 0.0;
  return {&wanted, made, zero ? std::optional<double>(0) : std::nullopt};
}
