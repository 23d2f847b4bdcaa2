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

Operation *dt::cloneOnto(Operation *op, OpBuilder &builder, ValueRange operands, TypeRange results) {
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  for (auto [result, type] : llvm::zip_equal(clone->getResults(), results))
    result.setType(type);
  return clone;
}

double dt::iterations(const FactorRule &rule) {
  double product = 1;
  for (const Factor &factor : rule.factors)
    product *= static_cast<double>(factor.size);
  return product;
}
