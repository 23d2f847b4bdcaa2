// Finds rows that are added late to a gradient, and moves them instead of the whole gradient.
#include "passes/keep/rows/LateRows.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Reductions.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/analysis/GatheredState.h"
#include "runtime/abi/volume.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

std::optional<Addition> Addition::find(Operation *op) {
  auto factorOp = dyn_cast<FactorOpInterface>(op);
  if (!factorOp || op->getNumResults() != 1 || op->getNumOperands() < 2)
    return std::nullopt;
  Addition found{factorOp, factorOp.getFactorRule()};
  auto *table = llvm::find(found.rule.operands, found.rule.results.front());
  found.table = static_cast<unsigned>(table - found.rule.operands.begin());
  if (table == found.rule.operands.end() || factorOp.getLinearity(found.table) != Linearity::Additive)
    return std::nullopt;
  for (auto [factor, info] : llvm::enumerate(found.rule.factors))
    if (info.kind == FactorKind::Reduction && reductionOf(info.reduction).isLinear && found.allAddAlong(factor)) {
      found.rows = static_cast<int>(factor);
      return found;
    }
  return std::nullopt;
}

bool Addition::allAddAlong(int factor) const {
  return llvm::all_of(llvm::enumerate(rule.operands), [&](const auto &operand) {
    return (dimOf(operand.value(), factor) < 0) == (operand.index() == table);
  });
}

int Addition::factorOf(int64_t dim) const {
  const auto &factors = rule.results.front()[dim];
  return factors.size() == 1 ? factors.front() : -1;
}

bool Addition::isOfTableAlone(int64_t dim) const {
  return llvm::all_of(llvm::enumerate(rule.operands), [&](const auto &operand) {
    return operand.index() == table || dimOf(operand.value(), factorOf(dim)) < 0;
  });
}

std::optional<LateRows> LateRows::find(Operation *op, MeshAttr mesh) {
  std::optional<Addition> addition = Addition::find(op);
  if (!addition)
    return std::nullopt;
  LateRows found(std::move(*addition), mesh);
  if (!found.followReductions())
    return std::nullopt;
  found.parameter = findParameter(found.reductions.back()->getResult(0));
  return found.parameter ? std::optional(std::move(found)) : std::nullopt;
}

/// Whether an operation sums up over ranks, or only cuts or pads what is summed up before or after it.
static bool isStep(Operation *op) {
  if (auto collective = dyn_cast<CollectiveOpInterface>(op); isa<AllReduceOp, ReduceScatterOp>(op))
    return collective.isLinear() && collective.getGroupMembers().empty();
  return isa<ShardSliceOp, PadOp>(op);
}

bool LateRows::followReductions() {
  ShardingAttr placed = addition.op.getRecordedSharding();
  for (int64_t dim = 0, rank = typeOf(op->getResult(0)).getRank(); dim < rank; ++dim)
    split.push_back(placed ? placed.getDimAxes(dim) : SmallVector<AxisRefAttr>());
  for (Value value = op->getResult(0); value.hasOneUse() && isStep(*value.user_begin());) {
    reductions.push_back(*value.user_begin());
    value = reductions.back()->getResult(0);
  }
  while (!reductions.empty() && !isa<CollectiveOpInterface>(reductions.back()))
    reductions.pop_back();
  return !reductions.empty() && llvm::all_of(reductions, [&](Operation *step) { return follow(step); });
}

/// Determines what a step means for the rows, and for where the table's piece is in the whole; false if rows would have
/// to be padded or cut.
bool LateRows::follow(Operation *step) {
  if (auto reduce = dyn_cast<AllReduceOp>(step)) {
    planMoves(reduce, -1);
    return true;
  }
  if (auto scatter = dyn_cast<ReduceScatterOp>(step)) {
    auto dim = static_cast<int64_t>(scatter.getDim());
    if (addition.isOfTableAlone(dim))
      llvm::append_range(split[dim], scatter.getAxes().getAsRange<AxisRefAttr>());
    planMoves(scatter, dim);
    return true;
  }
  auto slice = dyn_cast<ShardSliceOp>(step);
  RankedTensorType before = typeOf(step->getOperand(0)), after = typeOf(step->getResult(0));
  for (int64_t dim = 0; dim < before.getRank(); ++dim) {
    int64_t from = before.getDimSize(dim), to = after.getDimSize(dim);
    bool isEven = slice && from % to == 0;
    // Unequal pieces of pieces are not where equal pieces of the whole are.
    if (from != to && !(addition.isOfTableAlone(dim) && (split[dim].empty() || isEven)))
      return false;
    if (slice && static_cast<int64_t>(slice.getDim()) == dim)
      llvm::append_range(split[dim], slice.getAxes().getAsRange<AxisRefAttr>());
  }
  auto pad = dyn_cast<PadOp>(step);
  return !pad || llvm::all_of(pad.getOffsets(), [](int64_t offset) { return offset == 0; });
}

/// Where a rank keeps a part of the result, it needs that part of everybody's rows.
void LateRows::planMoves(CollectiveOpInterface reduction, int64_t scattered) {
  SmallVector<AxisRefAttr> axes = reduction.getCollectiveAxes();
  for (auto [operand, dims] : llvm::enumerate(addition.rule.operands)) {
    if (operand == addition.table)
      continue;
    RankedTensorType type = typeOf(op->getOperand(operand));
    for (const Move &move : moves)
      if (move.operand == operand)
        type = move.type;
    int64_t rows = dimOf(dims, addition.rows), cut = scattered < 0 ? -1 : dimOf(dims, addition.factorOf(scattered));
    SmallVector<int64_t> shape(type.getShape());
    shape[rows] *= ranksAlong(axes, mesh);
    if (cut >= 0)
      shape[cut] /= ranksAlong(axes, mesh);
    moves.push_back({static_cast<unsigned>(operand), rows, cut, axes, type.clone(shape)});
  }
}

StringAttr findParameter(Value gradient) {
  llvm::SetVector<Value> open; // a residual stream leads everywhere on many paths
  open.insert(gradient);
  for (size_t next = 0; next < open.size(); ++next) {
    Value value = open[next];
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>()) {
        PortAttr port = resultPort(cast<func::FuncOp>(user->getParentOp()), use.getOperandNumber());
        if (port && port.isGradient())
          return port.getName();
      } else if (user->getNumResults() == 1 && typeOf(user->getResult(0)).getRank() == typeOf(value).getRank()) {
        open.insert(user->getResult(0));
      }
    }
  }
  return nullptr;
}

SentBytes LateRows::sentBytes() const {
  SentBytes bytes;
  for (Operation *step : reductions)
    if (auto collective = dyn_cast<CollectiveOpInterface>(step)) {
      auto kind = static_cast<abi::Collective::Kind>(collective.getCollectiveShape().kind);
      uint64_t whole = std::max(bytesOf(step->getOperand(0).getType()), bytesOf(step->getResult(0).getType()));
      bytes.whole += abi::sentBytes(kind, static_cast<double>(whole), ranksAlong(collective.getCollectiveAxes(), mesh));
    }
  for (const Move &move : moves)
    bytes.rows += abi::sentBytes(move.cut < 0 ? abi::Collective::ALL_GATHER : abi::Collective::ALL_TO_ALL,
                                 static_cast<double>(bytesOf(move.type)), ranksAlong(move.axes, mesh));
  return bytes;
}

/// Zeros need no reduction.
Value LateRows::reduceTable(OpBuilder &builder) const {
  Value table = op->getOperand(addition.table);
  if (matchPattern(table, m_AnyZeroFloat()))
    return ConstantOp::create(builder, op->getLoc(), typeOf(reductions.back()->getResult(0)), 0.0);
  builder.setInsertionPointAfterValue(table);
  for (Operation *step : reductions) {
    Operation *copy = cloneOnto(step, builder, table, step->getResultTypes());
    if (auto reason = copy->getAttrOfType<StringAttr>("reason"))
      copy->setAttr("reason", builder.getStringAttr(reason.getValue() + "; without the rows of " +
                                                    op->getName().getStringRef() + ", which are gathered"));
    table = copy->getResult(0);
  }
  return table;
}

Value LateRows::build(OpBuilder &builder, const Move &move, Value value) const {
  builder.setInsertionPointAfterValue(value);
  StringAttr reason = builder.getStringAttr("rows of " + op->getName().getStringRef() + " for the gradient of " +
                                            parameter.getValue() + ": fewer bytes than all of it");
  ArrayAttr axes = builder.getArrayAttr(SmallVector<Attribute>(move.axes.begin(), move.axes.end()));
  Value moved = value;
  if (move.cut < 0)
    moved = AllGatherOp::create(builder, op->getLoc(), move.type, value, axes, move.rows, reason, StringAttr());
  else
    moved =
        AllToAllOp::create(builder, op->getLoc(), move.type, value, axes, move.cut, move.rows, reason, StringAttr());
  mark(moved.getDefiningOp(), marksOf(op));
  return moved;
}

/// Whether other ranks wait for what an operation makes, or it moves something between ranks; state does not count, as
/// it is there early.
static bool isAwaited(Operation *op) {
  auto isMoved = [](Operation *each) { return isa<CollectiveOpInterface>(each) && !isOfState(each->getOperand(0)); };
  return isMoved(op) || llvm::any_of(op->getUsers(), isMoved);
}

/// Moves operations that make only a gradient to where their operands are ready. The gradient of the head's input,
/// which differentiation put before them, comes after: nothing hides a table's reduction better than all of the
/// backward pass. But where ranks split the head, the other ranks would wait.
static void makeEarly(Operation *maker) {
  DirectionAttr direction = marksOf(maker).direction;
  if (!direction || direction.getValue() != Direction::WeightGradient)
    return;
  Operation *last = nullptr;
  for (Value operand : maker->getOperands())
    if (Operation *producer = operand.getDefiningOp()) {
      makeEarly(producer);
      if (!last || last->isBeforeInBlock(producer))
        last = producer;
    }
  if (last && std::none_of(std::next(last->getIterator()), maker->getIterator(),
                           [](Operation &between) { return isAwaited(&between); }))
    maker->moveAfter(last);
}

void LateRows::rewrite() {
  OpBuilder builder(op);
  SmallVector<Value> operands(op->getOperands());
  Operation *before = operands[addition.table].getDefiningOp();
  if (before)
    makeEarly(before);
  operands[addition.table] = reduceTable(builder);
  for (const Move &move : moves)
    operands[move.operand] = build(builder, move, operands[move.operand]);
  builder.setInsertionPoint(reductions.back());
  Operation *last = reductions.back();
  SmallVector<ShardingAttr> placed = llvm::map_to_vector(operands, [&](Value operand) {
    return ShardingAttr::replicated(builder.getContext(), typeOf(operand).getRank());
  });
  placed[addition.table] = ShardingAttr::get(builder.getContext(), split);
  Operation *local = addition.op.buildLocal(builder, operands, last->getResultTypes(), placed, placed[addition.table]);
  last->getResult(0).replaceAllUsesWith(local->getResult(0));
  for (Operation *step : llvm::reverse(reductions))
    step->erase();
  op->erase();
  if (before && isOpTriviallyDead(before)) // zeros
    before->erase();
}

} // namespace dtc
