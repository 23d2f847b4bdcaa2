// What the factor rules and the generic passes share: cloning onto pieces, bytes, iterations.
#include "dialect/factors/Support.h"

#include "dialect/IR/ElementTypes.h"

using namespace mlir;
using namespace mlir::dt;

DimFactors dt::addFactorPerDim(FactorRule &rule, RankedTensorType type, FactorKind kind) {
  DimFactors dims;
  for (int64_t size : type.getShape())
    appendDim(dims, size == 1 ? -1 : rule.addFactor(size, kind), size);
  return dims;
}

void dt::appendDim(DimFactors &dims, int factor, int64_t size) {
  dims.emplace_back();
  if (size != 1)
    dims.back().push_back(factor);
}

/// Created directly: a clone would first become one more reader of all that the operation reads.
Operation *dt::cloneOnto(Operation *op, OpBuilder &builder, ValueRange operands, TypeRange results) {
  return builder.insert(Operation::create(op->getLoc(), op->getName(), results, operands, op->getRawDictionaryAttrs(),
                                          op->getPropertiesStorage(), BlockRange(), /*numRegions=*/0));
}

double dt::iterations(const FactorRule &rule) {
  double product = 1;
  for (const Factor &factor : rule.factors)
    product *= static_cast<double>(factor.size);
  return product;
}
