// Finds the values that stay by the rules of a plan.
#include "passes/keep/recompute/KeptValues.h"
#include "passes/keep/cut/StageHomes.h"

#include "dialect/IR/Marks.h"
#include "passes/analysis/GatheredState.h"
#include "passes/analysis/StoredValues.h"
#include "runtime/support/suggest.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

using Kind = abi::Recompute::Kind;

/// Whether an operation multiplies with weights or communicates with other ranks.
static bool isDear(Operation *op) {
  return isa<CollectiveOpInterface>(op) || llvm::any_of(op->getOperands(), isOfState);
}

static int64_t elements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

/// Whether other ranks add to what an operation takes: keeping that takes less memory than keeping what it makes.
static bool isGather(Operation *op) {
  return isa<CollectiveOpInterface>(op) && elements(op->getResult(0)) > elements(op->getOperand(0));
}

KeptValues::KeptValues(Block &block, const RecomputePlan &plan) : plan(plan), names(block) {
  StoredValues stored;
  for (Operation &op : block)
    if (isForward(&op) && (isView(&op) || stored.isLight(&op)))
      passing.insert(&op);
  for (Operation &op : block)
    if (isForward(&op)) {
      keepForOthers(&op);
      keepByRule(&op);
    }
}

LogicalResult KeptValues::check(Block &block) const {
  auto isOfBackwardPass = [](Operation &op) { return marksOf(&op).direction && !isForward(&op); };
  if (llvm::none_of(block, isOfBackwardPass)) // an evaluation has no masks
    return success();
  llvm::MapVector<LayerAttr, std::vector<std::string>> known;
  for (Operation &op : block)
    if (StringRef name = names.nameOf(&op); !name.empty())
      known[marksOf(&op).layer].push_back(name.str());
  for (const auto &[layer, values] : known)
    for (const std::string &name : plan.howOf(layer).kept)
      if (!llvm::is_contained(values, name))
        return block.getParentOp()->emitError("recompute: no value of ")
               << layer.getList().getValue() << ".* is called '" << name << "'" << didYouMean(name, values);
  return success();
}

bool KeptValues::isLost(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isForward(op))
    return false;
  if (!isPassing(op))
    return plan.groupOf(op) && !kept.contains(value);
  auto [known, isNew] = lost.try_emplace(op);
  if (isNew) {
    bool any = llvm::any_of(op->getOperands(), [&](Value operand) { return isLost(operand); });
    return lost[op] = any;
  }
  return known->second;
}

void KeptValues::forEachStored(Value value, function_ref<void(Value, Operation *)> visit) {
  Operation *op = value.getDefiningOp();
  if (op && isPassing(op))
    for (Value operand : op->getOperands())
      forEachStored(operand, visit);
  else if (op)
    visit(value, op);
}

/// Keeps what the forward pass hands from one group to another, or to what is in no layer: groups begin with that.
void KeptValues::keepForOthers(Operation *reader) {
  std::optional<size_t> own = plan.groupOf(reader);
  for (Value operand : reader->getOperands())
    forEachStored(operand, [&](Value value, Operation *op) {
      if (std::optional<size_t> group = plan.groupOf(op); group && group != own)
        kept.insert(value);
    });
}

void KeptValues::keepByRule(Operation *op) {
  const abi::Recompute &how = plan.howOf(marksOf(op).layer);
  if (how.kind == Kind::Named && llvm::is_contained(how.kept, names.nameOf(op)))
    for (Value result : op->getResults()) // if it is not stored, what it is made from
      forEachStored(result, [&](Value value, Operation *) { kept.insert(value); });
  bool isCheap = isPassing(op) || isKernelOp(op) || llvm::any_of(op->getResults(), isOfState);
  if (!isCheap && ((how.kind == Kind::Selective && isDear(op)) || (how.kind == Kind::Regather && !isGather(op))))
    kept.insert_range(op->getResults());
}

} // namespace dtc
