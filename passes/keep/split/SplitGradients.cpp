// Makes and reduces the gradient of a weight by rows, so that some of it moves while the rest is computed; see
// Passes.td.
#include "passes/keep/Passes.h"
#include "passes/keep/rows/LateRows.h"
#include "passes/keep/split/PartRules.h"
#include "passes/keep/split/SplitPlan.h"

#include "dialect/IR/Marks.h"
#include "passes/analysis/FirstUser.h"

namespace dtc {
#define GEN_PASS_DEF_SPLITGRADIENTS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;
using dtc::Split;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A product, and a sum of it over ranks that nothing else reads.
struct Gradient {
  FactorOpInterface product;
  CollectiveOpInterface sum;
  Split split;

  static std::optional<Gradient> find(Operation *op, const dtc::PartRules &rules);
  void rewrite() const;

private:
  Value partOf(OpBuilder &builder, Value value, int64_t dim, int64_t begin, int64_t end) const;
};

/// Whether each element of a result is a sum of the elements at its place.
bool sumsInPlace(CollectiveOpInterface op) {
  return op && op.canBeInPlace() && op.isLinear() && op.getGroupMembers().empty();
}

std::optional<Gradient> Gradient::find(Operation *op, const dtc::PartRules &rules) {
  auto sum = dyn_cast<CollectiveOpInterface>(op);
  if (!sumsInPlace(sum) || !sum->getOperand(0).hasOneUse())
    return std::nullopt;
  auto product = sum->getOperand(0).getDefiningOp<FactorOpInterface>();
  auto cost = product ? dyn_cast<CostOpInterface>(product.getOperation()) : CostOpInterface();
  if (!cost || cost.getWorkClass() != WorkClass::Product || typeOf(product->getResult(0)).getRank() == 0)
    return std::nullopt;
  StringAttr parameter = dtc::findParameter(sum->getResult(0));
  int64_t parts = parameter ? rules.of(parameter.getValue()) : 1;
  FactorRule rule = product.getFactorRule();
  const auto &rows = rule.results.front().front();
  if (parts < 2 || rows.empty() || !Split::isIndependent(rule, rows.front()) || rule.factors[rows.front()].size < parts)
    return std::nullopt;
  int factor = rows.front();
  return Gradient{product, sum, Split{std::move(rule), factor, parts}};
}

Value Gradient::partOf(OpBuilder &builder, Value value, int64_t dim, int64_t begin, int64_t end) const {
  RankedTensorType type = typeOf(value);
  SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0);
  int64_t factorSize = split.rule.factors[split.factor].size, step = shape[dim] / factorSize;
  offsets[dim] = begin * step;
  shape[dim] = (end - begin) * step;
  return SliceOp::create(builder, value.getLoc(), type.clone(shape), value, offsets);
}

void Gradient::rewrite() const {
  MarkListener listener(marksOf(product));
  OpBuilder builder(product->getContext(), &listener);
  builder.setInsertionPoint(sum);
  int64_t rows = split.rule.factors[split.factor].size;
  SmallVector<Value> sums;
  for (int64_t part = 0; part < split.parts; ++part) {
    int64_t begin = rows * part / split.parts, end = rows * (part + 1) / split.parts;
    SmallVector<Value> operands;
    for (auto [number, operand] : llvm::enumerate(product->getOperands())) {
      int64_t dim = split.dimOfOperand(number);
      operands.push_back(dim < 0 ? operand : partOf(builder, operand, dim, begin, end));
    }
    RankedTensorType whole = typeOf(product->getResult(0));
    SmallVector<int64_t> shape(whole.getShape());
    shape.front() = shape.front() / rows * (end - begin);
    Type type = whole.clone(shape);
    Operation *made = FactorOpInterface(product).buildPart(builder, operands, {type}, split.factor, begin);
    sums.push_back(cloneOnto(sum, builder, {made->getResult(0)}, {type})->getResult(0));
  }
  listener.setMarks(marksOf(sum));
  builder.setInsertionPoint(dtc::firstUser(sum->getResult(0))); // which is when they are waited for
  sum->getResult(0).replaceAllUsesWith(
      ConcatOp::create(builder, sum->getLoc(), typeOf(sum->getResult(0)), sums, /*dim=*/0));
  sum->erase();
  product->erase();
}

struct SplitGradients : dtc::impl::SplitGradientsBase<SplitGradients> {
  using SplitGradientsBase::SplitGradientsBase;

  void runOnOperation() override {
    FailureOr<dtc::PartRules> parts = dtc::PartRules::read(getOperation(), rules);
    if (failed(parts))
      return signalPassFailure();
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (std::optional<Gradient> found = Gradient::find(&op, *parts))
        found->rewrite();
  }
};

} // namespace
