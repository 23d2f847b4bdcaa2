// Dimension names, forward along factors.
#include "passes/place/DimNames.h"
#include "dialect/IR/Names.h"

using namespace mlir;
using namespace mlir::dt;
using namespace dtc;

static SmallVector<StringAttr, 4> namesFrom(ArrayAttr array) {
  return SmallVector<StringAttr, 4>(llvm::map_range(array, [](Attribute name) { return cast<StringAttr>(name); }));
}

DimNames::DimNames(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (auto dims = function.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), dimsAttr))
      names[argument] = namesFrom(dims);
}

void DimNames::follow(Operation *op, const FactorRule &rule) {
  if (auto tag = dyn_cast<TagOp>(op)) {
    names[tag.getResult()] = namesFrom(tag.getDimNames());
    return;
  }
  SmallVector<StringAttr> byFactor;
  for (size_t factor = 0; factor < rule.factors.size(); ++factor)
    byFactor.push_back(nameOf(op, rule, factor));
  if (llvm::none_of(byFactor, [](StringAttr name) { return name != nullptr; }))
    return;
  for (auto [result, dims] : llvm::zip_equal(op->getResults(), rule.results)) {
    SmallVector<StringAttr, 4> &ofResult = names[result];
    for (ArrayRef<int> factors : dims)
      ofResult.push_back(factors.empty() ? StringAttr() : byFactor[factors.front()]);
  }
}

StringAttr DimNames::nameOf(Value value, int64_t dim) const {
  auto found = names.find(value);
  return found != names.end() && dim < static_cast<int64_t>(found->second.size()) ? found->second[dim] : StringAttr();
}

StringAttr DimNames::nameOf(Operation *op, const FactorRule &rule, int factor) const {
  for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    for (auto [dim, factors] : llvm::enumerate(dims))
      if (!factors.empty() && factors.front() == factor)
        if (StringAttr name = nameOf(operand, dim))
          return name;
  return {};
}
