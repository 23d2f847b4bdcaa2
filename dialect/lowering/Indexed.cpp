// Code of the operations whose elements depend on their place: counting, and random numbers.
#include "dialect/IR/Ops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::dt;

namespace {

/// Arithmetic on integers of some width, or vectors of them.
struct IntegerCode {
  OpBuilder &builder;
  Location loc;
  Type type;

  Value constant(int64_t value) {
    TypedAttr element = IntegerAttr::get(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      element = DenseElementsAttr::get(vector, element);
    return arith::ConstantOp::create(builder, loc, element);
  }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }
  Value bitOr(Value a, Value b) { return arith::OrIOp::create(builder, loc, a, b); }
  Value exclusiveOr(Value a, Value b) { return arith::XOrIOp::create(builder, loc, a, b); }
  Value shiftLeft(Value a, int64_t bits) { return arith::ShLIOp::create(builder, loc, a, constant(bits)); }
  Value shiftRight(Value a, int64_t bits) { return arith::ShRUIOp::create(builder, loc, a, constant(bits)); }
  Value splat(Value scalar) {
    return isa<VectorType>(type) ? vector::BroadcastOp::create(builder, loc, type, scalar).getResult() : scalar;
  }
  /// 0, stride, 2 stride, ... for the lanes.
  Value laneNumbers(int64_t stride) {
    SmallVector<int32_t> numbers;
    for (int64_t lane = 0; lane < cast<VectorType>(type).getNumElements(); ++lane)
      numbers.push_back(static_cast<int32_t>(lane * stride));
    return arith::ConstantOp::create(builder, loc, builder.getI32VectorAttr(numbers));
  }
  /// The low half of a 64-bit integer.
  Value low(Value wide) { return arith::TruncIOp::create(builder, loc, builder.getI32Type(), wide); }

  /// dtc::random::mix.
  Value mix(Value x) {
    x = exclusiveOr(x, shiftRight(x, 16));
    x = mul(x, constant(0x7feb352d));
    x = exclusiveOr(x, shiftRight(x, 15));
    x = mul(x, constant(static_cast<int32_t>(0x846ca68bu)));
    return exclusiveOr(x, shiftRight(x, 16));
  }
};

IntegerCode wide(OpBuilder &builder, Location loc) { return {builder, loc, builder.getI64Type()}; }

/// Integers of 32 bits, as many as `like` has elements.
IntegerCode narrow(OpBuilder &builder, Location loc, Type like) {
  Type type = builder.getI32Type();
  if (auto vector = dyn_cast<VectorType>(like))
    type = vector.clone(type);
  return {builder, loc, type};
}

} // namespace

// Counting

SmallVector<int64_t> IotaOp::getIndexStrides() {
  SmallVector<int64_t> strides(getType().getRank(), 0);
  strides[getDim()] = 1;
  return strides;
}

/// Where the dimension is cut, the first index.
SmallVector<LaunchScalar> IotaOp::getIndexScalars() {
  if (!getSharding())
    return {};
  int64_t dim = getDim();
  return {LaunchScalar::rankIndex(getSharding()->getDimAxes(dim), getType().getDimSize(dim))};
}

IndexedCode IotaOp::emitOnce(OpBuilder &, Location, const KernelCall &call) {
  return {getSharding() ? call.scalar(0) : Value(), {}};
}

Value IotaOp::emitIndexed(OpBuilder &builder, Location loc, const IndexedCode &, Value first, int64_t stride,
                          Type type) {
  IntegerCode code = narrow(builder, loc, type);
  Value number = code.splat(code.low(first));
  return isa<VectorType>(type) && stride != 0 ? code.add(number, code.laneNumbers(stride)) : number;
}

// Random numbers; the arithmetic is that of runtime/abi/random.h

/// The numbers of the whole tensor's elements are row-major.
SmallVector<int64_t> RandomOp::getIndexStrides() {
  SmallVector<int64_t> strides(getGlobalShape().size());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0; stride *= getGlobalShape()[i])
    strides[i] = stride;
  return strides;
}

/// The site and, where the tensor is cut, each dimension's first index times stride.
SmallVector<LaunchScalar> RandomOp::getIndexScalars() {
  SmallVector<LaunchScalar> scalars{LaunchScalar::site(static_cast<int64_t>(getSite()))};
  if (getSharding())
    for (auto [dim, stride] : llvm::enumerate(getIndexStrides()))
      scalars.push_back(LaunchScalar::rankIndex(getSharding()->getDimAxes(dim), getType().getDimSize(dim) * stride));
  return scalars;
}

/// The number of the piece's first element, counted from the batch's first sample, and the stream.
IndexedCode RandomOp::emitOnce(OpBuilder &builder, Location loc, const KernelCall &call) {
  IntegerCode number = wide(builder, loc), bits = narrow(builder, loc, builder.getI32Type());
  Value origin = number.constant(0);
  SmallVector<int64_t> strides = getIndexStrides();
  for (size_t i = 0; getSharding() && i < strides.size(); ++i)
    origin = number.add(origin, call.scalar(1 + i));
  if (!strides.empty()) {
    Value sample = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), call.element(0, 2));
    origin = number.add(origin, number.mul(sample, number.constant(strides.front())));
  }
  Value seed = bits.add(bits.mix(call.element(0, 0)), bits.constant(static_cast<int32_t>(0x9e3779b9u)));
  Value step = bits.add(bits.mix(bits.add(seed, call.element(0, 1))), bits.constant(static_cast<int32_t>(0x85ebca6bu)));
  return {origin, bits.mix(bits.add(step, bits.low(call.scalar(0))))};
}

Value RandomOp::emitIndexed(OpBuilder &builder, Location loc, const IndexedCode &once, Value first, int64_t stride,
                            Type type) {
  IntegerCode number = wide(builder, loc), scalar = narrow(builder, loc, builder.getI32Type()),
              code = narrow(builder, loc, type);
  Value high = code.splat(scalar.low(number.shiftRight(first, 32)));
  Value low = code.splat(scalar.low(first));
  if (isa<VectorType>(type)) {
    Value offsets = code.laneNumbers(stride);
    low = code.add(low, offsets);
    // Lanes whose low half wrapped around carry into the high half.
    Value carry = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, low, offsets);
    high = code.add(high, arith::ExtUIOp::create(builder, loc, code.type, carry));
  }
  Value twice = code.splat(scalar.bitOr(scalar.shiftLeft(once.shared, 1), scalar.constant(1)));
  Value bits = code.mix(code.exclusiveOr(low, code.splat(once.shared)));
  bits = code.mix(code.add(code.add(bits, high), twice));
  Value uniform = arith::SIToFPOp::create(builder, loc, type, code.shiftRight(bits, 8)); // 24 bits: positive
  TypedAttr ulp = builder.getF32FloatAttr(0x1p-24f);
  if (auto vector = dyn_cast<VectorType>(type))
    ulp = DenseElementsAttr::get(vector, ulp);
  return arith::MulFOp::create(builder, loc, uniform, arith::ConstantOp::create(builder, loc, ulp));
}
