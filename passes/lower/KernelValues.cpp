// Values of a kernel: loads, stores, elementwise code, indices, random numbers.
#include "passes/lower/KernelValues.h"
#include "dialect/IR/ElementTypes.h"
#include "passes/lower/KernelDomain.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace dtc;

// CodeBuilder

/// What kernels load and store is aligned to its elements; accumulators on the stack to more.
static unsigned alignmentOf(Type type) {
  constexpr unsigned most = abi::elementType(abi::F32).bytes, bitsOfByte = 8;
  return std::min(most, getElementTypeOrSelf(type).getIntOrFloatBitWidth() / bitsOfByte);
}

Value CodeBuilder::splatConstant(Type type, TypedAttr element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return constant(DenseElementsAttr::get(vector, element));
  return constant(element);
}

Value CodeBuilder::element(Type type, Value base, Value index) {
  return LLVM::GEPOp::create(*this, loc, base.getType(), type, base, ArrayRef<LLVM::GEPArg>{index});
}

Value CodeBuilder::load(Type type, Value pointer) {
  return LLVM::LoadOp::create(*this, loc, type, pointer, alignmentOf(type));
}

void CodeBuilder::store(Value value, Value pointer) {
  LLVM::StoreOp::create(*this, loc, value, pointer, alignmentOf(value.getType()));
}

Value CodeBuilder::maskedLoad(VectorType type, Value pointer, Value mask) {
  Value zeros = constant(cast<TypedAttr>(getZeroAttr(type)));
  return LLVM::MaskedLoadOp::create(*this, loc, type, pointer, mask, zeros, alignmentOf(type));
}

void CodeBuilder::maskedStore(Value value, Value pointer, Value mask) {
  LLVM::MaskedStoreOp::create(*this, loc, value, pointer, mask, alignmentOf(value.getType()));
}

void CodeBuilder::prefetch(Value pointer, bool toWrite) {
  constexpr unsigned nearest = 3, data = 1;
  LLVM::Prefetch::create(*this, loc, pointer, toWrite, nearest, data);
}

Value CodeBuilder::splat(Value scalar, unsigned lanes) {
  return vector::BroadcastOp::create(*this, loc, VectorType::get({lanes}, scalar.getType()), scalar);
}

/// How many vectors ahead a line of a stream is asked for. Kernels compute long enough with each line that processors
/// themselves do not look as far ahead as memory takes.
static constexpr int64_t vectorsAhead = 16;

// Numbers of elements, and the random numbers made of them

Value dtc::laneNumbers(CodeBuilder &builder, int64_t stride, unsigned lanes) {
  SmallVector<int32_t> numbers;
  for (unsigned lane = 0; lane < lanes; ++lane)
    numbers.push_back(static_cast<int32_t>(lane * stride));
  return builder.constant(builder.getI32VectorAttr(numbers));
}

namespace {
/// Arithmetic of runtime/abi/random.h on 32-bit integers or vectors of them.
struct Mixer {
  CodeBuilder &builder;
  Type type;

  Value constant(uint32_t value) { return builder.splatConstant(type, builder.getI32IntegerAttr(int32_t(value))); }
  Value add(Value a, Value b) { return builder.add(a, b); }
  Value exclusiveOr(Value a, Value b) { return arith::XOrIOp::create(builder, builder.loc, a, b); }
  Value shiftRight(Value a, uint32_t bits) { return arith::ShRUIOp::create(builder, builder.loc, a, constant(bits)); }
  Value mix(Value x) {
    x = exclusiveOr(x, shiftRight(x, 16));
    x = builder.mul(x, constant(0x7feb352du));
    x = exclusiveOr(x, shiftRight(x, 15));
    x = builder.mul(x, constant(0x846ca68bu));
    return exclusiveOr(x, shiftRight(x, 16));
  }
};
} // namespace

/// dtc::random::uniform of the elements first, first + stride, ...: a vector, or a scalar for one lane.
static Value emitUniform(CodeBuilder &builder, Value stream, Value first, int64_t stride, unsigned lanes) {
  Location loc = builder.loc;
  Type i32 = builder.getI32Type(), f32 = builder.getF32Type();
  Value shift = builder.integer(32);
  Value low = arith::TruncIOp::create(builder, loc, i32, first);
  Value high = arith::TruncIOp::create(builder, loc, i32, arith::ShRUIOp::create(builder, loc, first, shift));
  Value odd = builder.constant(builder.getI32IntegerAttr(1));
  Value streamTwice = arith::OrIOp::create(builder, loc, arith::ShLIOp::create(builder, loc, stream, odd), odd);
  if (lanes > 1) {
    i32 = VectorType::get({lanes}, i32);
    f32 = VectorType::get({lanes}, f32);
    Value offsets = laneNumbers(builder, stride, lanes);
    low = builder.add(builder.splat(low, lanes), offsets);
    // Lanes whose low half wrapped around carry into the high half.
    Value carry = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, low, offsets);
    high = builder.add(builder.splat(high, lanes), arith::ExtUIOp::create(builder, loc, i32, carry));
    stream = builder.splat(stream, lanes);
    streamTwice = builder.splat(streamTwice, lanes);
  }
  Mixer mixer{builder, i32};
  Value bits = mixer.mix(mixer.exclusiveOr(low, stream));
  bits = mixer.mix(mixer.add(mixer.add(bits, high), streamTwice));
  Value number = arith::SIToFPOp::create(builder, loc, f32, mixer.shiftRight(bits, 8)); // 24 bits: positive
  return arith::MulFOp::create(builder, loc, number, builder.splatConstant(f32, builder.getF32FloatAttr(0x1p-24f)));
}

// KernelValues

KernelValues::KernelValues(const KernelPlan &plan, CodeBuilder kernelBuilder, SmallVector<Value> buffers, Value scalars,
                           unsigned lanes)
    : lanes(lanes), plan(plan), kernel(kernelBuilder), buffers(std::move(buffers)), scalars(scalars) {
  unsigned next = plan.kind == KernelKind::Flat ? 1 : 0;
  for (Operation *op : plan.ops) {
    firstScalar[op] = next;
    next += indexScalars(op).size();
  }
}

Value KernelValues::launchScalar(unsigned index) {
  Value pointer = LLVM::GEPOp::create(kernel, kernel.loc, scalars.getType(), kernel.getI64Type(), scalars,
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  return LLVM::LoadOp::create(kernel, kernel.loc, kernel.getI64Type(), pointer, 8);
}

static Type elementType(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

Type dtc::computedType(Type element) {
  // Sums are formed in f64, which no tensor has.
  return isa<BFloat16Type, Float16Type>(element) ? Type(Float32Type::get(element.getContext())) : element;
}

/// The type of an element in memory: masks are i32, and bf16, which processors lack, the upper half of an f32.
static Type storedType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 32);
  return isa<BFloat16Type>(element) ? IntegerType::get(element.getContext(), 16) : element;
}

/// `like` itself, or a vector of as many elements.
static Type withShapeOf(Value like, Type element) {
  auto vector = dyn_cast<VectorType>(like.getType());
  return vector ? Type(vector.clone(element)) : element;
}

namespace {
/// The bits of bf16 and f32 as integers: one instruction more than a processor's own conversion would need, but the
/// same rounding everywhere, of subnormals too.
struct UpperHalf {
  CodeBuilder &builder;
  Type whole, half; ///< integers

  UpperHalf(CodeBuilder &builder, Value like)
      : builder(builder), whole(withShapeOf(like, builder.getI32Type())),
        half(withShapeOf(like, builder.getI16Type())) {}

  Value constant(uint32_t value) { return builder.splatConstant(whole, builder.getI32IntegerAttr(int32_t(value))); }
  Value upper(Value bits) { return arith::ShRUIOp::create(builder, builder.loc, bits, constant(16)); }

  Value widen(Value bits) {
    Value wide = arith::ExtUIOp::create(builder, builder.loc, whole, bits);
    wide = arith::ShLIOp::create(builder, builder.loc, wide, constant(16));
    return arith::BitcastOp::create(builder, builder.loc, withShapeOf(bits, builder.getF32Type()), wide);
  }

  /// To the nearest, ties to even; a NaN becomes the quiet one of its upper half.
  Value narrow(Value number) {
    Location loc = builder.loc;
    Value bits = arith::BitcastOp::create(builder, loc, whole, number), truncated = upper(bits);
    Value odd = arith::AndIOp::create(builder, loc, truncated, constant(1));
    Value rounded = upper(builder.add(bits, builder.add(odd, constant(0x7fff))));
    Value quiet = arith::OrIOp::create(builder, loc, truncated, constant(0x40));
    Value isNan = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO, number, number);
    return arith::TruncIOp::create(builder, loc, half, arith::SelectOp::create(builder, loc, isNan, quiet, rounded));
  }
};
} // namespace

static Value fromStored(CodeBuilder &builder, Value value, Type element) {
  if (isa<BFloat16Type>(element))
    return UpperHalf(builder, value).widen(value);
  if (computedType(element) != element)
    return arith::ExtFOp::create(builder, builder.loc, withShapeOf(value, computedType(element)), value);
  if (!element.isInteger(1))
    return value;
  Value zero = builder.constant(cast<TypedAttr>(builder.getZeroAttr(value.getType())));
  return arith::CmpIOp::create(builder, builder.loc, arith::CmpIPredicate::ne, value, zero);
}

static Value toStored(CodeBuilder &builder, Value value, Type element) {
  if (isa<BFloat16Type>(element))
    return UpperHalf(builder, value).narrow(value);
  if (computedType(element) != element)
    return arith::TruncFOp::create(builder, builder.loc, withShapeOf(value, element), value);
  if (!element.isInteger(1))
    return value;
  return arith::ExtUIOp::create(builder, builder.loc, withShapeOf(value, builder.getI32Type()), value);
}

unsigned KernelValues::inputBuffer(Value value) const { return llvm::find(plan.inputs, value) - plan.inputs.begin(); }

/// Of its elements in memory.
Type KernelValues::bufferType(unsigned buffer) const {
  size_t inputs = plan.inputs.size();
  return storedType(elementType(buffer < inputs ? plan.inputs[buffer] : plan.outputs[buffer - inputs]));
}

/// Where a row's elements of a buffer begin.
Value KernelValues::rowPointer(unsigned buffer, Span span, RowContext &context) {
  Value &pointer = context.pointers[{buffer, span}];
  if (pointer)
    return pointer;
  Value offset;
  for (unsigned dim : dimsOf(plan.merge(span))) {
    bool isColumn = dim + 1 == plan.rank();
    if (offset)
      offset = context.builder.mul(offset, context.builder.integer(plan.sizes[dim]));
    if (!isColumn)
      offset = offset ? context.builder.add(offset, context.index[dim]) : context.index[dim];
  }
  pointer = offset ? context.builder.element(bufferType(buffer), buffers[buffer], offset) : buffers[buffer];
  return pointer;
}

void KernelValues::prefetchAhead(Type type, Value pointer, ColumnContext &context, bool toWrite) {
  if (plan.kind != KernelKind::Flat && plan.kind != KernelKind::Rows)
    return;
  Value ahead = context.builder.integer(vectorsAhead * lanes);
  context.builder.prefetch(context.builder.element(type, pointer, ahead), toWrite);
}

Value KernelValues::loadVector(Value value, unsigned buffer, Span span, ColumnContext &context) {
  Value base = rowPointer(buffer, span, context.row);
  Value pointer = context.builder.element(bufferType(buffer), base, context.column);
  Type element = elementType(value);
  VectorType type = VectorType::get({lanes}, storedType(element));
  if (context.mask)
    return fromStored(context.builder, context.builder.maskedLoad(type, pointer, context.mask), element);
  if (plan.numSweeps == 1)
    prefetchAhead(bufferType(buffer), pointer, context, /*toWrite=*/false);
  return fromStored(context.builder, context.builder.load(type, pointer), element);
}

Value KernelValues::vector(Value value, Span span, ColumnContext &context) {
  if (Value known = context.values.lookup({value, span}))
    return known;
  Value result;
  if (plan.scopeOf(value, span) == Scope::Column) {
    result = computeVector(value, span, context);
  } else {
    Value number = scalar(value, span, context.row);
    Value &splat = context.row.splats[{value, span}];
    if (!splat)
      splat = context.row.builder.splat(number, lanes);
    result = splat;
  }
  return context.values[{value, span}] = result;
}

Value KernelValues::computeVector(Value value, Span span, ColumnContext &context) {
  if (plan.isInput(value))
    return loadVector(value, inputBuffer(value), span, context);
  if (int output = plan.storedBefore(value, span, context.sweep); output >= 0)
    return loadVector(value, outputBuffer(output), span, context);
  Operation *op = value.getDefiningOp();
  CodeBuilder &builder = context.builder;
  if (auto iota = dyn_cast<dt::IotaOp>(op)) {
    Value first = builder.add(iotaBase(iota, span, context.row), context.column);
    Value narrow = arith::TruncIOp::create(builder, builder.loc, builder.getI32Type(), first);
    return builder.add(builder.splat(narrow, lanes), laneNumbers(builder, 1, lanes));
  }
  if (auto random = dyn_cast<dt::RandomOp>(op)) {
    int64_t stride = mergedStrides(random, span).back();
    Value first =
        builder.add(randomBase(random, span, context.row), builder.mul(context.column, builder.integer(stride)));
    return emitUniform(builder, randomStream(random), first, stride, lanes);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(vector(operand, operandSpan(op, span, plan), context));
  if (auto elementwise = dyn_cast<dt::ElementwiseOpInterface>(op))
    return elementwise.emitElement(builder, builder.loc, operands, vectorType(elementType(value)));
  return operands[0]; // dt.broadcast, a dt.reduce of dimensions of size 1
}

Value KernelValues::scalar(Value value, Span span, RowContext &context) {
  bool once = plan.scopeOf(value, span) == Scope::Kernel;
  auto &values = once ? kernelValues : context.values;
  if (Value known = values.lookup({value, span}))
    return known;
  if (!once)
    return context.values[{value, span}] = computeScalar(value, span, context);
  // Kernel values are computed by a row of their own that has no index and stands before all rows.
  RowContext whole(kernel, {});
  return kernelValues[{value, span}] = computeScalar(value, span, whole);
}

/// The element of a splat, as it is computed with.
static TypedAttr splatOf(dt::ConstantOp constant) {
  auto element = cast<TypedAttr>(cast<DenseElementsAttr>(constant.getValue()).getSplatValue<Attribute>());
  if (auto number = dyn_cast<FloatAttr>(element))
    return FloatAttr::get(computedType(number.getType()), number.getValueAsDouble());
  return element;
}

Value KernelValues::computeScalar(Value value, Span span, RowContext &context) {
  CodeBuilder &builder = context.builder;
  if (plan.isInput(value)) {
    Value pointer = rowPointer(inputBuffer(value), span, context);
    return fromStored(builder, builder.load(storedType(elementType(value)), pointer), elementType(value));
  }
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<dt::ConstantOp>(op))
    return builder.constant(splatOf(constant));
  if (auto iota = dyn_cast<dt::IotaOp>(op))
    return arith::TruncIOp::create(builder, builder.loc, builder.getI32Type(), iotaBase(iota, span, context));
  if (auto random = dyn_cast<dt::RandomOp>(op))
    return emitUniform(builder, randomStream(random), randomBase(random, span, context), 0, 1);
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(scalar(operand, operandSpan(op, span, plan), context));
  if (auto elementwise = dyn_cast<dt::ElementwiseOpInterface>(op))
    return elementwise.emitElement(builder, builder.loc, operands, computedType(elementType(value)));
  return operands[0];
}

void KernelValues::storeVector(unsigned output, ColumnContext &context) {
  Value value = plan.outputs[output];
  Span span = plan.outputSpans[output];
  Value stored = toStored(context.builder, vector(value, span, context), elementType(value));
  Value base = rowPointer(outputBuffer(output), span, context.row);
  Type type = bufferType(outputBuffer(output));
  Value pointer = context.builder.element(type, base, context.column);
  if (context.mask)
    return context.builder.maskedStore(stored, pointer, context.mask);
  context.builder.store(stored, pointer);
  prefetchAhead(type, pointer, context, /*toWrite=*/true);
}

void KernelValues::prefetchNextRow(Value input, ColumnContext &context) {
  unsigned buffer = inputBuffer(input);
  Type type = bufferType(buffer);
  Value base = rowPointer(buffer, plan.fullSpan(), context.row);
  Value column = context.builder.add(context.column, context.builder.integer(plan.columns()));
  context.builder.prefetch(context.builder.element(type, base, column), /*toWrite=*/false);
}

void KernelValues::storeScalar(unsigned output, RowContext &context) {
  Span span = plan.outputSpans[output];
  Value value = plan.outputs[output];
  Value stored = toStored(context.builder, scalar(value, span, context), elementType(value));
  context.builder.store(stored, rowPointer(outputBuffer(output), span, context));
}

/// The index that a dt.iota gives to a row's first column.
Value KernelValues::iotaBase(dt::IotaOp op, Span span, RowContext &context) {
  int merged = plan.mergedDim[dimsOf(span)[op.getDim()]];
  bool isOuter = merged >= 0 && merged + 1 < static_cast<int>(plan.rank());
  Value index = isOuter ? context.index[merged] : Value();
  if (!op.getSharding())
    return index ? index : context.builder.integer(0);
  Value first = launchScalar(firstScalar[op]);
  return index ? context.builder.add(first, index) : first;
}

SmallVector<int64_t> KernelValues::mergedStrides(dt::RandomOp op, Span span) const {
  SmallVector<int64_t> strides(std::max(1u, plan.rank()), 0);
  for (auto [dim, stride] : llvm::zip(dimsOf(span), globalStrides(op)))
    if (plan.mergedDim[dim] >= 0)
      strides[plan.mergedDim[dim]] = stride; // the last dimension that merged counts
  return strides;
}

/// The number in the whole tensor of a row's first element.
Value KernelValues::randomBase(dt::RandomOp op, Span span, RowContext &context) {
  Value &base = randomOrigins[op];
  if (!base) { // of the piece's first element
    base = kernel.integer(0);
    if (op.getSharding())
      for (size_t i = 0; i < op.getGlobalShape().size(); ++i)
        base = kernel.add(base, launchScalar(firstScalar[op] + 1 + i));
    if (!op.getGlobalShape().empty()) {
      Value sample = arith::ExtSIOp::create(kernel, kernel.loc, kernel.getI64Type(), keyElement(op, 2));
      base = kernel.add(base, kernel.mul(sample, kernel.integer(globalStrides(op).front())));
    }
  }
  Value result = base;
  SmallVector<int64_t> strides = mergedStrides(op, span);
  for (auto [dim, index] : llvm::enumerate(context.index))
    if (index && strides[dim] != 0)
      result = context.builder.add(result, context.builder.mul(index, context.builder.integer(strides[dim])));
  return result;
}

Value KernelValues::keyElement(dt::RandomOp op, int64_t index) {
  return kernel.load(kernel.getI32Type(),
                     kernel.element(kernel.getI32Type(), buffers[inputBuffer(op.getKey())], kernel.integer(index)));
}

/// dtc::random::stream of the key and the site.
Value KernelValues::randomStream(dt::RandomOp op) {
  Value &stream = streams[op];
  if (stream)
    return stream;
  Mixer mixer{kernel, kernel.getI32Type()};
  Value site = arith::TruncIOp::create(kernel, kernel.loc, kernel.getI32Type(), launchScalar(firstScalar[op]));
  Value seed = mixer.add(mixer.mix(keyElement(op, 0)), mixer.constant(0x9e3779b9u));
  Value step = mixer.add(mixer.mix(mixer.add(seed, keyElement(op, 1))), mixer.constant(0x85ebca6bu));
  stream = mixer.mix(mixer.add(step, site));
  return stream;
}
