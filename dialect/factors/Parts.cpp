// Parts of the operations whose elements depend on their place: what each element is must not depend on how many parts
// there are. Random numbers count the samples of a batch along their first dimension from the key's third word on, so a
// part along that has a key of its own.
#include "dialect/factors/Support.h"

using namespace mlir;
using namespace mlir::dt;

static bool isSplit(std::optional<ShardingAttr> sharding, int64_t dim) {
  return sharding && !sharding->getDimAxes(dim).empty();
}

/// A key whose first sample is `samples` further on.
static Value buildLaterKey(OpBuilder &builder, Location loc, Value key, int64_t samples) {
  if (samples == 0)
    return key;
  RankedTensorType type = tensorType(key);
  auto splat = [&](int64_t value) -> Value {
    return ConstantOp::create(builder, loc, type, static_cast<double>(value));
  };
  constexpr int64_t firstSample = 2; // a word of the key
  Value word = IotaOp::create(builder, loc, type, uint64_t(0), ShardingAttr());
  Value isFirstSample =
      CompareOp::create(builder, loc, type.clone(builder.getI1Type()), CompareDirection::EQ, word, splat(firstSample));
  Value more = SelectOp::create(builder, loc, isFirstSample, splat(samples), splat(0));
  return AddOp::create(builder, loc, type, key, more);
}

/// The operation with such a key. Null unless the part is along the samples (`isOfSamples`), and the ranks do not split
/// these further.
static Operation *buildDrawing(Operation *op, OpBuilder &builder, ValueRange operands, TypeRange results,
                               bool isOfSamples, std::optional<ShardingAttr> sharding, unsigned key, int64_t offset) {
  if (!isOfSamples || isSplit(sharding, 0))
    return nullptr;
  SmallVector<Value> all(operands);
  all[key] = buildLaterKey(builder, op->getLoc(), all[key], offset);
  return cloneOnto(op, builder, all, results);
}

Operation *ConstantOp::buildPart(OpBuilder &builder, ValueRange operands, TypeRange results, int, int64_t) {
  return getSplat() ? buildLocal(builder, operands, results, {}, {}) : nullptr;
}

Operation *IotaOp::buildPart(OpBuilder &builder, ValueRange operands, TypeRange results, int, int64_t) {
  auto sizeIn = [&](Type type) { return cast<RankedTensorType>(type).getDimSize(getDim()); };
  bool isAlong = sizeIn(results[0]) != sizeIn(getType());
  return isAlong ? nullptr : cloneOnto(getOperation(), builder, operands, results);
}

Operation *RandomOp::buildPart(OpBuilder &builder, ValueRange operands, TypeRange results, int factor, int64_t offset) {
  bool isOfSamples = llvm::is_contained(getFactorRule().results[0].front(), factor);
  return buildDrawing(getOperation(), builder, operands, results, isOfSamples, getSharding(),
                      getKeyMutable().getOperandNumber(), offset);
}

Operation *GatherOp::buildPart(OpBuilder &builder, ValueRange operands, TypeRange results, int, int64_t) {
  return cloneOnto(getOperation(), builder, operands, results); // its rows are no parallel factor
}

Operation *ScatterAddOp::buildPart(OpBuilder &builder, ValueRange operands, TypeRange results, int factor, int64_t) {
  bool isOfRows = llvm::is_contained(getFactorRule().results[0].front(), factor);
  return isOfRows ? nullptr : cloneOnto(getOperation(), builder, operands, results);
}

/// Only which elements are dropped depends on a place.
template <typename Op>
static Operation *buildAttentionPart(Op op, OpBuilder &builder, ValueRange operands, TypeRange results, int factor,
                                     int64_t offset) {
  if (op.getDropout().isZero())
    return cloneOnto(op.getOperation(), builder, operands, results);
  bool isOfSamples = llvm::is_contained(op.getFactorRule().operands[0].front(), factor);
  return buildDrawing(op.getOperation(), builder, operands, results, isOfSamples, op.getSharding(),
                      op.getKeyMutable().getOperandNumber(), offset);
}

Operation *AttentionOp::buildPart(OpBuilder &builder, ValueRange operands, TypeRange results, int factor,
                                  int64_t offset) {
  return buildAttentionPart(*this, builder, operands, results, factor, offset);
}

Operation *AttentionGradOp::buildPart(OpBuilder &builder, ValueRange operands, TypeRange results, int factor,
                                      int64_t offset) {
  return buildAttentionPart(*this, builder, operands, results, factor, offset);
}
