// Finds what can be done in parts of the batch.
#include "passes/keep/split/SplitPlan.h"

#include "dialect/IR/Marks.h"
#include "passes/analysis/GatheredState.h"

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

int64_t Split::dimOf(const DimFactors &dims, int factor) {
  for (auto [dim, factors] : llvm::enumerate(dims))
    if (!factors.empty() && factors.front() == factor)
      return static_cast<int64_t>(dim);
  return -1;
}

/// Whether a factor comes after others in a dimension, so that its parts are not contiguous.
static bool isMinorIn(const DimFactors &dims, int factor) {
  return llvm::any_of(dims, [&](ArrayRef<int> factors) {
    return factors.size() > 1 && llvm::is_contained(factors.drop_front(), factor);
  });
}

bool Split::isIndependent(const FactorRule &rule, int factor) {
  auto isMinor = [&](const DimFactors &dims) { return isMinorIn(dims, factor); };
  return rule.factors[factor].kind == FactorKind::Parallel && llvm::none_of(rule.operands, isMinor) &&
         llvm::none_of(rule.results, isMinor) &&
         llvm::all_of(rule.results, [&](const DimFactors &dims) { return dimOf(dims, factor) >= 0; });
}

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A collective does the same to each index along a dimension that it leaves as it is.
FactorRule ruleOf(CollectiveOpInterface op) {
  FactorRule rule;
  DimFactors from, to;
  for (auto [before, after] : llvm::zip_equal(typeOf(op->getOperand(0)).getShape(), op.getValueType().getShape())) {
    FactorKind kind = before == after ? FactorKind::Parallel : FactorKind::NeedsReplication;
    int factor = rule.addFactor(before, kind);
    from.push_back({factor});
    to.push_back({before == after ? factor : rule.addFactor(after, kind)});
  }
  rule.operands = {from};
  rule.results = {to};
  return rule;
}

class SplitFinder {
public:
  SplitFinder(func::FuncOp function, const PartRules &rules) : rules(rules) {
    for (Operation &op : function.front())
      if (isa<CollectiveOpInterface>(op) && typeOf(op.getOperand(0)).getRank() > 0)
        take(&op, &FactorRule::operands, 0, /*dim=*/0);
    while (!open.empty()) {
      auto [value, dim] = open.pop_back_val();
      if (Operation *producer = value.getDefiningOp())
        take(producer, &FactorRule::results, cast<OpResult>(value).getResultNumber(), dim);
      for (OpOperand &use : value.getUses())
        take(use.getOwner(), &FactorRule::operands, use.getOperandNumber(), dim);
    }
  }

  DenseMap<Operation *, Split> found;

private:
  int64_t partsOf(LayerAttr layer) const { return layer ? rules.of(layer.getList().getValue().str() + ".*") : 1; }

  bool maySplit(Operation *op) const {
    Marks marks = marksOf(op);
    if (partsOf(marks.layer) < 2 || !marks.direction ||
        (marks.direction.getValue() != Direction::Forward && marks.direction.getValue() != Direction::InputGradient))
      return false;
    return isa<CollectiveOpInterface>(op) ? !isOfState(op->getOperand(0)) : isa<FactorOpInterface>(op);
  }

  /// Takes an operation along a dimension of an operand or of a result.
  template <typename Side> void take(Operation *op, Side side, unsigned number, int64_t dim) {
    if (found.contains(op) || !maySplit(op))
      return;
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    FactorRule rule = collective ? ruleOf(collective) : cast<FactorOpInterface>(op).getFactorRule();
    const auto &factors = (rule.*side)[number][dim];
    if (factors.empty())
      return;
    int factor = factors.front();
    int64_t parts = partsOf(marksOf(op).layer);
    if (!Split::isIndependent(rule, factor) || rule.factors[factor].size % parts != 0)
      return;
    reach(op->getOperands(), rule.operands, factor);
    reach(op->getResults(), rule.results, factor);
    found.try_emplace(op, Split{std::move(rule), factor, parts});
  }

  void reach(ValueRange values, ArrayRef<DimFactors> all, int factor) {
    for (auto [value, dims] : llvm::zip_equal(values, all))
      if (int64_t dim = Split::dimOf(dims, factor); dim >= 0)
        open.push_back({value, dim});
  }

  const PartRules &rules;
  SmallVector<std::pair<Value, int64_t>> open;
};

} // namespace

DenseMap<Operation *, Split> findSplits(func::FuncOp function, const PartRules &rules) {
  return std::move(SplitFinder(function, rules).found);
}

} // namespace dtc
