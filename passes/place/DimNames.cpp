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
  FunctionOpInterface interface = function;
  for (BlockArgument argument : function.getArguments())
    if (auto dims = interface.getArgAttrOfType<ArrayAttr>(argument.getArgNumber(), dimsAttr))
      names[argument] = keep(namesFrom(dims));
}

void DimNames::follow(Operation *op, const FactorRule &rule) {
  if (auto tag = dyn_cast<TagOp>(op)) {
    names[tag.getResult()] = keep(namesFrom(tag.getDimNames()));
    return;
  }
  Known known{&rule};
  bool isNamed = false;
  for (Value operand : op->getOperands()) {
    known.push_back(names.lookup(operand));
    isNamed |= known.back() != nullptr;
  }
  if (!isNamed)
    return;
  auto [entry, isNew] = ofResults.try_emplace(std::move(known));
  if (isNew)
    entry->second = namesOfResults(op, rule);
  for (auto [result, list] : llvm::zip(op->getResults(), entry->second))
    if (list)
      names[result] = list;
}

SmallVector<const DimNames::Names *, 1> DimNames::namesOfResults(Operation *op, const FactorRule &rule) {
  SmallVector<StringAttr> byFactor;
  for (size_t factor = 0; factor < rule.factors.size(); ++factor)
    byFactor.push_back(nameOf(op, rule, factor));
  if (llvm::none_of(byFactor, [](StringAttr name) { return name != nullptr; }))
    return {};
  SmallVector<const Names *, 1> lists;
  for (const DimFactors &dims : rule.results) {
    Names list;
    for (ArrayRef<int> factors : dims)
      list.push_back(factors.empty() ? StringAttr() : byFactor[factors.front()]);
    lists.push_back(keep(list));
  }
  return lists;
}

StringAttr DimNames::nameOf(Value value, int64_t dim) const {
  const Names *list = names.lookup(value);
  return list && dim < static_cast<int64_t>(list->size()) ? (*list)[dim] : StringAttr();
}

StringAttr DimNames::nameOf(Operation *op, const FactorRule &rule, int factor) const {
  for (auto [operand, dims] : llvm::zip_equal(op->getOperands(), rule.operands))
    for (auto [dim, factors] : llvm::enumerate(dims))
      if (!factors.empty() && factors.front() == factor)
        if (StringAttr name = nameOf(operand, dim))
          return name;
  return {};
}
