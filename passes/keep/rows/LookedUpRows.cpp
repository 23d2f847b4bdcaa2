// Finds rows that are looked up in a gathered table, and moves them instead of the table.
#include "passes/keep/rows/LookedUpRows.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Names.h"
#include "passes/analysis/GatheredState.h"
#include "runtime/abi/volume.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

std::optional<LookedUpRows> LookedUpRows::find(Operation *op, MeshAttr mesh) {
  auto gather = dyn_cast<AllGatherOp>(op);
  std::optional<GatheredState> state = gather ? findGatheredState(op) : std::nullopt;
  if (!state || !gather.getGroupMembers().empty() || op->use_empty())
    return std::nullopt;
  PortAttr port = portOf(state->stored);
  LookedUpRows found(gather, ranksAlong(gather.getCollectiveAxes(), mesh));
  found.parameter = port.getName();
  for (OpOperand &use : op->getUses()) {
    std::optional<Lookup> lookup = found.understand(use);
    if (!lookup)
      return std::nullopt;
    found.lookups.push_back(*lookup);
  }
  return found;
}

/// Indices have no gradient, and are small: a product with a gathered parameter is left alone.
std::optional<LookedUpRows::Lookup> LookedUpRows::understand(OpOperand &use) {
  auto op = dyn_cast<FactorOpInterface>(use.getOwner());
  if (!op || op->getNumOperands() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  Lookup lookup{op, use.getOperandNumber(), 1 - use.getOperandNumber(), -1, -1, -1, {}, {}};
  FactorRule rule = op.getFactorRule();
  RankedTensorType ids = typeOf(op->getOperand(lookup.ids)), result = typeOf(op->getResult(0));
  if (!ids.getElementType().isInteger())
    return std::nullopt;
  const auto &part = rule.operands[lookup.table][gather.getDim()];
  if (part.size() != 1 || dimOf(rule.operands[lookup.ids], part.front()) >= 0)
    return std::nullopt;
  lookup.partDim = dimOf(rule.results.front(), part.front());
  for (auto [dim, factors] : llvm::enumerate(rule.operands[lookup.ids]))
    if (int64_t row = factors.size() == 1 ? dimOf(rule.results.front(), factors.front()) : -1;
        row >= 0 && lookup.rowDim < 0 && dimOf(rule.operands[lookup.table], factors.front()) < 0) {
      lookup.idsDim = static_cast<int64_t>(dim);
      lookup.rowDim = row;
    }
  if (lookup.partDim < 0 || lookup.rowDim < 0)
    return std::nullopt;
  SmallVector<int64_t> allIds(ids.getShape()), parts(result.getShape());
  allIds[lookup.idsDim] *= ranks;
  parts[lookup.rowDim] *= ranks;
  parts[lookup.partDim] /= ranks;
  lookup.allIds = ids.clone(allIds);
  lookup.parts = result.clone(parts);
  return lookup;
}

SentBytes LookedUpRows::sentBytes() {
  auto sent = [&](abi::Collective::Kind kind, Type type) {
    return abi::sentBytes(kind, static_cast<double>(bytesOf(type)), ranks);
  };
  SentBytes bytes{sent(abi::Collective::ALL_GATHER, gather.getType()), 0};
  for (Lookup &lookup : lookups)
    bytes.rows += sent(abi::Collective::ALL_GATHER, lookup.allIds) + sent(abi::Collective::ALL_TO_ALL, lookup.parts);
  return bytes;
}

void LookedUpRows::rewrite() {
  OpBuilder builder(gather);
  for (Lookup &lookup : lookups)
    rewrite(builder, lookup);
  gather.erase();
}

void LookedUpRows::rewrite(OpBuilder &builder, Lookup &lookup) {
  Operation *op = lookup.op;
  builder.setInsertionPoint(op);
  StringAttr reason = builder.getStringAttr("rows of " + op->getName().getStringRef() + " in " + parameter.getValue() +
                                            ": fewer bytes than all of it");
  SmallVector<Value> operands(op->getOperands());
  operands[lookup.table] = gather.getOperand();
  operands[lookup.ids] = AllGatherOp::create(builder, op->getLoc(), lookup.allIds, operands[lookup.ids],
                                             gather.getAxes(), lookup.idsDim, reason, StringAttr());
  mark(operands[lookup.ids].getDefiningOp(), marksOf(op));

  SmallVector<SmallVector<AxisRefAttr>, 2> table, result(lookup.parts.getRank());
  ShardingAttr placed = lookup.op.getRecordedSharding();
  for (int64_t dim = 0, rank = typeOf(gather.getResult()).getRank(); dim < rank; ++dim)
    table.push_back(placed ? placed.getDimAxes(dim) : SmallVector<AxisRefAttr>());
  llvm::append_range(table[gather.getDim()], gather.getAxes().getAsRange<AxisRefAttr>());
  llvm::append_range(result[lookup.partDim], gather.getAxes().getAsRange<AxisRefAttr>());
  SmallVector<ShardingAttr> of(2);
  of[lookup.table] = ShardingAttr::get(builder.getContext(), table);
  of[lookup.ids] = ShardingAttr::replicated(builder.getContext(), lookup.allIds.getRank());
  Operation *parts =
      lookup.op.buildLocal(builder, operands, lookup.parts, of, ShardingAttr::get(builder.getContext(), result));

  auto rows = AllToAllOp::create(builder, op->getLoc(), typeOf(op->getResult(0)), parts->getResult(0), gather.getAxes(),
                                 lookup.rowDim, lookup.partDim, reason, StringAttr());
  mark(rows, marksOf(op));
  op->getResult(0).replaceAllUsesWith(rows.getResult());
  op->erase();
}

} // namespace dtc
