#include "tools/verify/RoundingBounds.h"

#include "dialect/IR/ElementTypes.h"
#include "dialect/IR/Reductions.h"
#include "dialect/reference/Interpreter.h"
#include "dialect/reference/Strided.h"
#include "mlir/IR/Matchers.h"

#include <cmath>
#include <limits>
#include <unordered_map>

using namespace mlir::dt;

namespace dtc::verify {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<float>::max();
/// Results of this size may be lost: subnormal results, and quotients whose divisor overflows.
constexpr double smallest = 1e-35;
constexpr double unit = 0x1p-24; ///< the relative error of one rounding

/// The element of a constant; constants in kernels are splats.
Bounds splatOf(mlir::DenseElementsAttr constant) {
  double value =
      mlir::isa<mlir::FloatType>(constant.getElementType()) ? constant.getSplatValue<mlir::APFloat>().convertToDouble()
      : constant.getElementType().isInteger(1) ? double(constant.getSplatValue<mlir::APInt>().getZExtValue())
                                               : double(constant.getSplatValue<mlir::APInt>().getSExtValue());
  return {value, value};
}

/// The bounds after an operation whose own error is `error`. Infinity stays infinite.
Bounds widen(Bounds bounds, double error) {
  auto move = [](double x, double by) {
    double moved = std::isinf(x) ? x : x + by;
    return std::abs(moved) > largest ? std::copysign(infinite, moved) : moved;
  };
  return {move(bounds.low, -error - smallest), move(bounds.high, error + smallest)};
}

/// The smallest interval around the values of a function at some corners.
class Hull {
public:
  void add(double value) {
    std::isnan(value) ? ++nans : (low = std::min(low, value), high = std::max(high, value));
    ++count;
  }
  Bounds bounds() const {
    if (nans == 0)
      return {low, high};
    double nan = std::numeric_limits<double>::quiet_NaN();
    return nans == count ? Bounds{nan, nan} : Bounds{-infinite, infinite};
  }

private:
  double low = infinite, high = -infinite;
  int nans = 0, count = 0;
};

/// Maps an element's number to its offset along strides, index by index.
struct Walk {
  llvm::ArrayRef<int64_t> shape;
  llvm::SmallVector<int64_t> strides;

  int64_t operator()(int64_t element) const {
    int64_t result = 0;
    for (size_t dim = shape.size(); dim-- > 0; element /= shape[dim])
      result += element % shape[dim] * strides[dim];
    return result;
  }
};

} // namespace

RoundingBounds::RoundingBounds(KernelOp kernel, const RankContext &rank, Input input, int64_t flatSize)
    : kernel(kernel), rank(rank), input(std::move(input)), flatSize(flatSize) {}

const std::vector<Bounds> &RoundingBounds::of(mlir::Value value, const Elements &elements) {
  Key key = {value.getAsOpaquePointer(), elements.get()};
  if (auto it = known.find(key); it != known.end())
    return it->second;
  kept.push_back(elements);
  std::vector<Bounds> bounds = compute(value, elements);
  if (isRounded(value))
    for (Bounds &one : bounds)
      one = {abi::roundTo(elementTypeOf(value.getType()), one.low),
             abi::roundTo(elementTypeOf(value.getType()), one.high)};
  return known[key] = std::move(bounds);
}

/// A value that is stored, or converted to a narrower type, is rounded for all its readers.
bool RoundingBounds::isRounded(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  const abi::ElementType &type = elementTypeOf(value.getType());
  if (!op || !type.isFloating() || type.type == abi::F32)
    return false;
  bool isConverted = op->getNumOperands() == 1 && elementTypeOf(op->getOperand(0).getType()).type != type.type;
  return isConverted || llvm::is_contained(kernel.getYield()->getOperands(), value);
}

std::vector<Bounds> RoundingBounds::compute(mlir::Value value, const Elements &elements) {
  if (auto argument = mlir::dyn_cast<mlir::BlockArgument>(value)) {
    std::vector<Bounds> result;
    for (int64_t element : *elements) {
      double x = input(argument.getArgNumber(), element);
      result.push_back({x, x});
    }
    return result;
  }
  mlir::Operation *op = value.getDefiningOp();
  if (auto one = mlir::dyn_cast<ElementwiseOpInterface>(op))
    return elementwise(one, elements);
  if (auto reduce = mlir::dyn_cast<ReductionOpInterface>(op))
    return reduction(reduce, elements);
  if (mlir::DenseElementsAttr constant; mlir::matchPattern(op, mlir::m_Constant(&constant)))
    return std::vector<Bounds>(elements->size(), splatOf(constant));
  if (auto indexed = mlir::dyn_cast<IndexedOpInterface>(op))
    return counted(indexed, elements);
  return handedOn(op, elements);
}

/// Evaluates every corner of the operands' intervals; only one corner where all are exact.
std::vector<Bounds> RoundingBounds::elementwise(ElementwiseOpInterface op, const Elements &elements) {
  llvm::SmallVector<const std::vector<Bounds> *, 3> operands;
  for (mlir::Value operand : op->getOperands())
    operands.push_back(&of(operand, elements));
  bool isReal = elementTypeOf(op->getResult(0).getType()).isFloating();
  std::vector<Bounds> result;
  llvm::SmallVector<double, 3> corner(operands.size());
  for (size_t i = 0; i < elements->size(); ++i) {
    unsigned wide = 0; // bit o: operand o has two ends
    for (size_t o = 0; o < operands.size(); ++o)
      wide |= unsigned((*operands[o])[i].low < (*operands[o])[i].high) << o;
    Hull hull;
    double error = 0;
    for (unsigned ends = 0; ends < 1u << operands.size(); ++ends) {
      if (ends & ~wide)
        continue;
      for (size_t o = 0; o < operands.size(); ++o)
        corner[o] = ends >> o & 1 ? (*operands[o])[i].high : (*operands[o])[i].low;
      double value = op.evaluateElement(corner);
      hull.add(value);
      if (isReal && std::isfinite(value))
        error = std::max(error, op.getCodeError(corner, value));
    }
    result.push_back(isReal ? widen(hull.bounds(), error) : hull.bounds());
  }
  return result;
}

/// How long a chain of f32 additions may be: each of at least eight lanes adds up to 2048 terms before f64 takes over
/// (passes/lower/cpu), and a GPU's threads as many.
static double longestChain(double terms) { return std::min(terms, 2048.0) / 8 + 16; }

std::vector<Bounds> RoundingBounds::reduction(ReductionOpInterface op, const Elements &elements) {
  const Reduction &kind = reductionOf(op.getReductionKind());
  llvm::ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  llvm::SmallVector<int64_t> dense = denseStrides(shape), keptStrides, reducedShape, reducedStrides;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (llvm::is_contained(op.getReducedDims(), int64_t(dim)))
      reducedShape.push_back(shape[dim]), reducedStrides.push_back(dense[dim]);
    else
      keptStrides.push_back(dense[dim]);
  Walk first{shapeOf(op->getResult(0)), keptStrides};
  auto &terms = projections[{op.getOperation(), elements.get()}];
  int64_t count = HostTensor::numElements(reducedShape);
  if (flatSize >= 0)
    count = std::min(count, flatSize);
  if (!terms) {
    auto list = std::make_shared<std::vector<int64_t>>();
    Walk walk{reducedShape, reducedStrides};
    for (int64_t element : *elements)
      for (int64_t i = 0; i < count; ++i)
        list->push_back(first(element) + walk(i));
    terms = list;
  }
  const std::vector<Bounds> &values = of(op->getOperand(0), terms);
  bool isReal = elementTypeOf(op->getResult(0).getType()).isFloating();
  std::vector<Bounds> result;
  for (size_t i = 0; i < elements->size(); ++i) {
    double low = kind.identity(), high = kind.identity(), magnitudes = 0;
    for (int64_t j = 0; j < count; ++j) {
      const Bounds &term = values[i * count + j];
      low = kind.combine(low, term.low), high = kind.combine(high, term.high);
      magnitudes += std::max(std::abs(term.low), std::abs(term.high));
    }
    bool isUnknown = std::isnan(low) != std::isnan(high);
    Bounds bounds = isUnknown ? Bounds{-infinite, infinite} : Bounds{low, high};
    result.push_back(isReal && kind.isLinear ? widen(bounds, magnitudes * longestChain(double(count)) * unit) : bounds);
  }
  return result;
}

/// Counts and draws: exact.
std::vector<Bounds> RoundingBounds::counted(IndexedOpInterface op, const Elements &elements) {
  HostTensors operands;
  for (mlir::Value operand : op->getOperands()) {
    HostTensor &tensor = operands.emplace_back(shapeOf(operand));
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor[i] = input(mlir::cast<mlir::BlockArgument>(operand).getArgNumber(), i);
  }
  Walk number{shapeOf(op->getResult(0)), op.getIndexStrides()};
  std::vector<Bounds> result;
  for (int64_t element : *elements) {
    double x = op.evaluateNumber(operands, rank, number(element));
    result.push_back({x, x});
  }
  return result;
}

/// Broadcasts and the like: evaluates each element of the operand once, however often it is read.
std::vector<Bounds> RoundingBounds::handedOn(mlir::Operation *op, const Elements &elements) {
  llvm::SmallVector<int64_t> strides(shapeOf(op->getResult(0)).size(), 0);
  auto dims = mlir::cast<FusibleOpInterface>(op).getOperandDims(0);
  for (auto [dim, stride] : llvm::zip_equal(*dims, denseStrides(shapeOf(op->getOperand(0)))))
    strides[dim] = stride;
  Walk walk{shapeOf(op->getResult(0)), strides};
  std::unordered_map<int64_t, size_t> places;
  std::vector<int64_t> list;
  std::vector<size_t> at;
  for (int64_t element : *elements) {
    auto [place, isNew] = places.try_emplace(walk(element), list.size());
    if (isNew)
      list.push_back(place->first);
    at.push_back(place->second);
  }
  Elements &operandElements = projections[{op, elements.get()}];
  if (!operandElements)
    operandElements = std::make_shared<std::vector<int64_t>>(std::move(list));
  const std::vector<Bounds> &values = of(op->getOperand(0), operandElements);
  std::vector<Bounds> result;
  for (size_t place : at)
    result.push_back(values[place]);
  return result;
}

} // namespace dtc::verify
