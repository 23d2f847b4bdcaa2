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
  for (Operation &op : function.front()) {
    auto factorOp = dyn_cast<FactorOpInterface>(op);
    if (!factorOp || op.getNumOperands() == 0)
      continue;
    if (auto tag = dyn_cast<TagOp>(op)) {
      names[tag.getResult()] = namesFrom(tag.getDimNames());
      continue;
    }
    FactorRule rule = factorOp.getFactorRule();
    SmallVector<StringAttr> byFactor;
    for (size_t factor = 0; factor < rule.factors.size(); ++factor)
      byFactor.push_back(nameOf(&op, rule, factor));
    for (auto [result, dims] : llvm::zip_equal(op.getResults(), rule.results))
      for (ArrayRef<int> factors : dims)
        names[result].push_back(factors.empty() ? StringAttr() : byFactor[factors.front()]);
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
