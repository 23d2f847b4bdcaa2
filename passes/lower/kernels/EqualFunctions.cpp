// Comparison of functions.
#include "passes/lower/kernels/EqualFunctions.h"

#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace dtc;

static DictionaryAttr attributesWithoutName(Operation *function) {
  NamedAttrList attributes(function->getAttrDictionary());
  attributes.erase(SymbolTable::getSymbolAttrName());
  return attributes.getDictionary(function->getContext());
}

static bool areEqual(Operation *a, Operation *b) {
  return attributesWithoutName(a) == attributesWithoutName(b) &&
         OperationEquivalence::isRegionEquivalentTo(&a->getRegion(0), &b->getRegion(0),
                                                    OperationEquivalence::IgnoreLocations);
}

Operation *EqualFunctions::findOrAdd(Operation *function) {
  int64_t size = 0;
  function->walk([&](Operation *) { ++size; });
  auto &candidates = bySize[size];
  auto same = llvm::find_if(candidates, [&](Operation *other) { return areEqual(function, other); });
  if (same != candidates.end())
    return *same;
  candidates.push_back(function);
  return nullptr;
}
