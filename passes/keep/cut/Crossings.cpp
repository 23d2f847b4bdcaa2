// Which values ranks have in common, and whether it pays to send one part of them each.
#include "passes/keep/cut/Crossings.h"
#include "passes/keep/cut/StageHomes.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

VaryingAxes::Mask VaryingAxes::bitOf(AxisRefAttr axis) const {
  for (auto [index, each] : llvm::enumerate(mesh.getAxes().take_front(mostAxes)))
    if (each.getName() == axis.getAxis())
      return Mask(1) << index;
  return 0;
}

/// All axes that an attribute names, however deep.
VaryingAxes::Mask VaryingAxes::axesIn(Attribute attribute) const {
  Mask mask = 0;
  attribute.walk([&](AxisRefAttr axis) { mask |= bitOf(axis); });
  return mask;
}

/// A sum or a gather over a whole axis, or over all parts of it, makes a value the same along that axis. Every other
/// operation that names an axis may depend on the rank's place there.
VaryingAxes::Mask VaryingAxes::resultOf(Operation *op) const {
  Mask mask = 0;
  for (Value operand : op->getOperands())
    mask |= of(operand);
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective || !isa<AllReduceOp, AllGatherOp>(op) || !collective.getGroupMembers().empty())
    return mask | axesIn(op->getAttrDictionary());
  llvm::DenseMap<StringAttr, int64_t> ranks; // that take part, along each axis
  for (AxisRefAttr axis : collective.getCollectiveAxes())
    ranks.try_emplace(axis.getAxis(), 1).first->second *= axis.getSizeIn(mesh);
  for (auto [axis, count] : ranks) {
    Mask bit = bitOf(AxisRefAttr::whole(axis));
    mask = count == mesh.getAxisSize(axis) ? mask & ~bit : mask | bit;
  }
  return mask;
}

void VaryingAxes::add(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    PortAttr port = portOf(argument);
    masks[argument] = port && port.isPlaced() ? axesIn(port.getStored()) : ~Mask(0);
  }
  for (Operation &op : function.front().without_terminator()) {
    Mask mask = resultOf(&op);
    for (Value result : op.getResults())
      masks[result] = mask;
  }
}

RankedTensorType CrossingParts::partOf(RankedTensorType whole) const {
  SmallVector<int64_t> shape(whole.getShape());
  shape[dim] /= count;
  return whole.clone(shape);
}

std::optional<CrossingParts> findParts(RankedTensorType type, ArrayRef<AxisRefAttr> axes, MeshAttr mesh) {
  for (; !axes.empty(); axes = axes.drop_front()) {
    int64_t count = 1;
    for (AxisRefAttr axis : axes)
      count *= axis.getSizeIn(mesh);
    for (auto [dim, size] : llvm::enumerate(type.getShape()))
      if (size > 0 && size % count == 0)
        return CrossingParts{SmallVector<AxisRefAttr>(axes), count, static_cast<int64_t>(dim)};
  }
  return std::nullopt;
}

static ArrayAttr axesOf(const CrossingParts &parts, Builder &builder) {
  return builder.getArrayAttr(SmallVector<Attribute>(parts.axes.begin(), parts.axes.end()));
}

Value slice(Value whole, const CrossingParts &parts, const Marks &marks) {
  OpBuilder builder(whole.getContext());
  builder.setInsertionPointAfterValue(whole);
  RankedTensorType type = parts.partOf(cast<RankedTensorType>(whole.getType()));
  auto part = ShardSliceOp::create(builder, whole.getLoc(), type, whole, parts.dim, axesOf(parts, builder));
  mark(part, marks);
  return part.getResult();
}

Value gatherParts(OpBuilder &builder, Value part, Value of, const CrossingParts &parts, bool isForward) {
  std::string axes =
      llvm::join(llvm::map_range(parts.axes, [](AxisRefAttr axis) { return axis.getAxis().getValue().str(); }), ", ");
  std::string reason = "the same on all ranks over " + axes + ", so each of them in the " +
                       (isForward ? "stage before" : "next stage") + " sent one part over the cut";
  StringRef place = stringifyPortKind(isForward ? PortKind::Received : PortKind::ReceivedGradient);
  auto whole =
      AllGatherOp::create(builder, NameLoc::get(builder.getStringAttr(place)), cast<RankedTensorType>(of.getType()),
                          part, axesOf(parts, builder), parts.dim, builder.getStringAttr(reason), StringAttr());
  mark(whole, {{}, marksOf(of).direction});
  return whole.getResult();
}

Crossings::Crossings(ModuleOp module, const StageCut &cut, CrossingCosts known)
    : mesh(module->getAttrOfType<MeshAttr>(module_attr::mesh)), cut(cut), costs(std::move(known)), varying(mesh),
      ways(cut.stages() - 1, Way::Open) {
  for (AxisAttr axis : mesh ? mesh.getAxes().take_front(VaryingAxes::mostAxes) : ArrayRef<AxisAttr>())
    if (axis.getSize() > 1 && axis.getName().getValue() != pipelineAxis)
      axes.push_back(AxisRefAttr::whole(axis.getName()));
  if (auto said = module->getAttrOfType<ArrayAttr>(module_attr::crossing))
    for (auto [way, text] : llvm::zip(ways, said.getAsRange<StringAttr>()))
      way = text.getValue() == "sliced" ? Way::Sliced : Way::Whole;
}

void Crossings::add(func::FuncOp function) {
  if (!axes.empty())
    varying.add(function);
}

/// Slicing copies a part, which costs next to nothing; a gather at least its latency.
bool Crossings::isFaster(const CrossingParts &parts, RankedTensorType whole, int64_t from, int64_t to) const {
  if (!costs.send)
    return false;
  auto bytes = static_cast<double>(bytesOf(whole));
  return costs.send(from, to, bytes / static_cast<double>(parts.count)) + costs.gather(parts.axes, whole) <
         costs.send(from, to, bytes);
}

std::optional<CrossingParts> Crossings::partsOf(Value value, int64_t from, int64_t to) {
  int64_t sender = cut.rankOf[from], receiver = cut.rankOf[to];
  Way &way = ways[std::min(from, to)];
  if (axes.empty() || sender == receiver || way == Way::Whole)
    return std::nullopt;
  VaryingAxes::Mask mask = varying.of(value);
  SmallVector<AxisRefAttr> common;
  for (AxisRefAttr axis : axes)
    if ((mask & varying.bitOf(axis)) == 0)
      common.push_back(axis);
  auto type = cast<RankedTensorType>(value.getType());
  std::optional<CrossingParts> parts = findParts(type, common, mesh);
  if (parts && way == Way::Open)
    way = isFaster(*parts, type, sender, receiver) ? Way::Sliced : Way::Whole;
  return way == Way::Sliced ? parts : std::nullopt;
}

void Crossings::write(ModuleOp module) const {
  if (llvm::all_of(ways, [](Way way) { return way == Way::Open; }))
    return;
  SmallVector<StringRef> texts;
  for (Way way : ways)
    texts.push_back(way == Way::Sliced ? "sliced" : "whole");
  module->setAttr(module_attr::crossing, Builder(module.getContext()).getStrArrayAttr(texts));
}

} // namespace dtc
