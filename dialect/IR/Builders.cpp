// Builders that infer result types, and small accessors.
#include "dialect/IR/Ops.h"
#include "dialect/IR/Reductions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::dt;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static RankedTensorType like(Value value, ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, typeOf(value).getElementType());
}

void ConstantOp::build(OpBuilder &builder, OperationState &state, RankedTensorType type, double splat) {
  Attribute element;
  if (isa<FloatType>(type.getElementType()))
    element = FloatAttr::get(type.getElementType(), splat);
  else
    element = IntegerAttr::get(type.getElementType(), static_cast<int64_t>(splat));
  build(builder, state, type, DenseElementsAttr::get(type, element));
}

std::optional<double> ConstantOp::getSplat() {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  if (!dense || !dense.isSplat())
    return std::nullopt;
  if (isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>().convertToDouble();
  APInt value = dense.getSplatValue<APInt>();
  return static_cast<double>(value.getBitWidth() == 1 ? value.getZExtValue() : value.getSExtValue());
}

void ReduceOp::build(OpBuilder &builder, OperationState &state, ReductionKind kind, Value operand,
                     ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept;
  for (auto [dim, size] : llvm::enumerate(typeOf(operand).getShape()))
    if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
      kept.push_back(size);
  build(builder, state, like(operand, kept), kind, operand, dims);
}

std::optional<ContractSpec> mlir::dt::parseContractSpec(StringRef spec) {
  auto [operands, out] = spec.split("->");
  auto [lhs, rhs] = operands.split(',');
  auto isLetters = [](StringRef text) { return llvm::all_of(text, llvm::isAlpha); };
  if (!spec.contains("->") || !operands.contains(',') || !isLetters(lhs) || !isLetters(rhs) || !isLetters(out))
    return std::nullopt;
  return ContractSpec{lhs, rhs, out};
}

void ContractOp::build(OpBuilder &builder, OperationState &state, StringRef spec, Value lhs, Value rhs) {
  std::optional<ContractSpec> parts = parseContractSpec(spec);
  SmallVector<int64_t> shape;
  if (parts)
    for (char letter : parts->out) {
      size_t inLhs = parts->lhs.find(letter), inRhs = parts->rhs.find(letter);
      shape.push_back(inLhs != StringRef::npos ? typeOf(lhs).getDimSize(inLhs) : typeOf(rhs).getDimSize(inRhs));
    }
  build(builder, state, like(lhs, shape), spec, lhs, rhs);
}

void LayerNormOp::build(OpBuilder &builder, OperationState &state, Value operand, Value scale, Value bias,
                        double epsilon) {
  RankedTensorType rows = like(operand, typeOf(operand).getShape().drop_back());
  build(builder, state, {operand.getType(), rows, rows}, operand, scale, bias, builder.getF64FloatAttr(epsilon));
}

void RmsNormOp::build(OpBuilder &builder, OperationState &state, Value operand, Value scale, double epsilon) {
  RankedTensorType rows = like(operand, typeOf(operand).getShape().drop_back());
  build(builder, state, {operand.getType(), rows}, operand, scale, builder.getF64FloatAttr(epsilon));
}

void SoftmaxCrossEntropyOp::build(OpBuilder &builder, OperationState &state, Value logits, Value targets,
                                  int64_t ignoreIndex) {
  RankedTensorType rows = like(logits, typeOf(logits).getShape().drop_back());
  build(builder, state, {rows, rows}, logits, targets, builder.getI64IntegerAttr(ignoreIndex));
}

Value dt::buildCopy(OpBuilder &builder, Location loc, Value value) { return CopyOp::create(builder, loc, value); }

Value dt::buildSpread(OpBuilder &builder, Location loc, Value number, ArrayRef<int64_t> shape) {
  return BroadcastOp::create(builder, loc, like(number, shape), number, ArrayRef<int64_t>());
}

/// A tensor that holds this number at every index.
static Value buildSplat(OpBuilder &builder, Location loc, RankedTensorType type, TypedAttr number) {
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, Attribute(number)));
}

Value dt::buildLonger(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  int64_t more = size - std::exchange(shape[dim], size);
  RankedTensorType result = like(value, shape);
  shape[dim] = more;
  auto zero = cast<TypedAttr>(builder.getZeroAttr(result.getElementType()));
  Value zeros = buildSplat(builder, loc, like(value, shape), zero);
  return ConcatOp::create(builder, loc, result, ValueRange{value, zeros}, dim);
}

Value dt::buildFirst(OpBuilder &builder, Location loc, Value value, RankedTensorType type) {
  return SliceOp::create(builder, loc, type, value, SmallVector<int64_t>(type.getRank(), 0));
}

Value dt::buildNeutralPadding(OpBuilder &builder, Location loc, Value value, ArrayRef<Extent> extents,
                              const Reduction &reduction, ShardingAttr sharding) {
  RankedTensorType type = typeOf(value);
  RankedTensorType integers = RankedTensorType::get(type.getShape(), builder.getI32Type());
  RankedTensorType booleans = RankedTensorType::get(type.getShape(), builder.getI1Type());
  Value neutral = buildSplat(builder, loc, type, identityOf(reduction, type.getElementType()));
  for (Extent extent : extents) {
    Value index = IotaOp::create(builder, loc, integers, static_cast<uint64_t>(extent.dim), sharding);
    Value end = buildSplat(builder, loc, integers, builder.getI32IntegerAttr(static_cast<int32_t>(extent.size)));
    Value counts = CompareOp::create(builder, loc, booleans, CompareDirection::LT, index, end);
    value = SelectOp::create(builder, loc, counts, value, neutral);
  }
  return value;
}
