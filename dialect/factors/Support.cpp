// What the factor rules and the generic passes share: cloning onto pieces, bytes, iterations, rank indices.
#include "dialect/factors/Support.h"

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

double dt::operandAndResultBytes(Operation *op) {
  auto bytesOf = [](Type type) -> double {
    auto tensor = dyn_cast<RankedTensorType>(type);
    // Masks are kept in four bytes like every other element of a compiled program.
    return tensor ? 4.0 * static_cast<double>(tensor.getNumElements()) : 0.0;
  };
  double bytes = 0;
  for (Type type : op->getOperandTypes())
    bytes += bytesOf(type);
  for (Type type : op->getResultTypes())
    bytes += bytesOf(type);
  return bytes;
}

double dt::iterations(const FactorRule &rule) {
  double product = 1;
  for (const Factor &factor : rule.factors)
    product *= static_cast<double>(factor.size);
  return product;
}

int64_t RankContext::indexIn(ArrayRef<AxisRefAttr> axes) const {
  if (!mesh)
    return 0;
  int64_t index = 0;
  for (AxisRefAttr ref : axes) {
    // The coordinate along the axis: ranks are row-major, so the axes after it are its stride.
    int64_t stride = 1, length = 1;
    bool found = false;
    for (AxisAttr axis : mesh.getAxes()) {
      if (found)
        stride *= axis.getSize();
      if (axis.getName() == ref.getAxis()) {
        found = true;
        length = axis.getSize();
      }
    }
    int64_t coordinate = rank / stride % length;
    int64_t size = ref.getSizeIn(mesh);
    int64_t post = length / (ref.getPre() * size);
    index = index * size + coordinate / post % size;
  }
  return index;
}
