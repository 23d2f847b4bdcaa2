// Values of a kernel: loads, stores, code of operations.
#include "passes/lower/kernels/KernelValues.h"
#include "dialect/IR/ElementTypes.h"
#include "passes/lower/kernels/KernelPlan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace dtc;

// CodeBuilder

/// What kernels load and store is aligned to its elements; accumulators on the stack are aligned more.
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

Value CodeBuilder::load(Type type, Value pointer, unsigned alignment) {
  return LLVM::LoadOp::create(*this, loc, type, pointer, alignment ? alignment : alignmentOf(type));
}

void CodeBuilder::store(Value value, Value pointer, unsigned alignment) {
  LLVM::StoreOp::create(*this, loc, value, pointer, alignment ? alignment : alignmentOf(value.getType()));
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

Value dtc::laneNumbers(CodeBuilder &builder, int64_t stride, unsigned lanes) {
  SmallVector<int32_t> numbers;
  for (unsigned lane = 0; lane < lanes; ++lane)
    numbers.push_back(static_cast<int32_t>(lane * stride));
  return builder.constant(builder.getI32VectorAttr(numbers));
}

// KernelValues

KernelValues::KernelValues(const KernelPlan &plan, CodeBuilder kernelBuilder, KernelEnvironment environment)
    : lanes(environment.lanes), plan(plan), kernel(kernelBuilder), environment(std::move(environment)) {
  unsigned next = plan.kind == KernelKind::Flat ? 1 : 0;
  for (Operation *op : plan.ops) {
    firstScalar[op] = next;
    if (auto numbered = dyn_cast<dt::IndexedOpInterface>(op))
      next += numbered.getIndexScalars().size();
  }
}

static Type elementType(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

Type dtc::computedType(Type element) {
  // Sums are formed in f64, which no tensor has.
  return isa<BFloat16Type, Float16Type>(element) ? Type(Float32Type::get(element.getContext())) : element;
}

/// The type of an element in memory: masks are i32, and bf16, where processors lack it, the upper half of an f32.
Type KernelValues::storedType(Type element) const {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 32);
  bool isHalf = isa<BFloat16Type>(element) && !environment.convertsBf16;
  return isHalf ? IntegerType::get(element.getContext(), 16) : element;
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

Value KernelValues::fromStored(CodeBuilder &builder, Value value, Type element) {
  if (computedType(element) != element) {
    bool hasNoInstruction = isa<BFloat16Type>(element) && !environment.convertsBf16;
    Value wide = hasNoInstruction
                     ? UpperHalf(builder, value).widen(value)
                     : arith::ExtFOp::create(builder, builder.loc, withShapeOf(value, computedType(element)), value);
    storedForms[wide] = value;
    return wide;
  }
  if (!element.isInteger(1))
    return value;
  Value zero = builder.constant(cast<TypedAttr>(builder.getZeroAttr(value.getType())));
  return arith::CmpIOp::create(builder, builder.loc, arith::CmpIPredicate::ne, value, zero);
}

Value KernelValues::toStored(CodeBuilder &builder, Value value, Type element) {
  if (Value stored = storedForms.lookup(value); stored && getElementTypeOrSelf(stored) == storedType(element))
    return stored;
  if (isa<BFloat16Type>(element) && !environment.convertsBf16)
    return UpperHalf(builder, value).narrow(value);
  if (computedType(element) != element)
    return arith::TruncFOp::create(builder, builder.loc, withShapeOf(value, element), value);
  if (!element.isInteger(1))
    return value;
  return arith::ExtUIOp::create(builder, builder.loc, withShapeOf(value, builder.getI32Type()), value);
}

Value KernelValues::rounded(CodeBuilder &builder, Value number, Value value) {
  Type element = elementType(value);
  Operation *op = value.getDefiningOp();
  bool isConverted = op->getNumOperands() == 1 && elementType(op->getOperand(0)) != element;
  bool keepsDigits = computedType(element) == element || !(isConverted || llvm::is_contained(plan.outputs, value));
  return keepsDigits ? number : fromStored(builder, toStored(builder, number, element), element);
}

unsigned KernelValues::inputBuffer(Value value) const { return llvm::find(plan.inputs, value) - plan.inputs.begin(); }

/// The type of the buffer's elements in memory.
Type KernelValues::bufferType(unsigned buffer) const {
  size_t inputs = plan.inputs.size();
  return storedType(elementType(buffer < inputs ? plan.inputs[buffer] : plan.outputs[buffer - inputs]));
}

/// The alignment of vectors of these stored elements in memory; 0: that of their elements.
unsigned KernelValues::vectorAlignment(Type element) const {
  constexpr unsigned bitsOfByte = 8;
  return environment.alignsVectors ? lanes * element.getIntOrFloatBitWidth() / bitsOfByte : 0;
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
  pointer = offset ? context.builder.element(bufferType(buffer), environment.buffers[buffer], offset)
                   : environment.buffers[buffer];
  return pointer;
}

void KernelValues::prefetchAhead(Type type, Value pointer, ColumnContext &context, bool toWrite) {
  if (environment.vectorsAhead == 0 || (plan.kind != KernelKind::Flat && plan.kind != KernelKind::Rows))
    return;
  Value ahead = context.builder.integer(environment.vectorsAhead * lanes);
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
  unsigned alignment = vectorAlignment(type.getElementType());
  return fromStored(context.builder, context.builder.load(type, pointer, alignment), element);
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
  if (auto numbered = dyn_cast<dt::IndexedOpInterface>(op)) {
    int64_t stride = mergedStrides(numbered, span).back();
    Value row = rowNumber(numbered, span, context.row);
    Value first = builder.add(row, builder.mul(context.column, builder.integer(stride)));
    return numbered.emitIndexed(builder, builder.loc, onceOf(numbered), first, stride, vectorType(elementType(value)));
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(vector(operand, operandSpan(op, span, plan), context));
  Value number = operands[0]; // passed on: a broadcast, a reduction of dimensions of size 1
  if (auto elementwise = dyn_cast<dt::ElementwiseOpInterface>(op))
    number = elementwise.emitElement(builder, builder.loc, operands, vectorType(elementType(value)));
  return rounded(builder, number, value);
}

Value KernelValues::scalar(Value value, Span span, RowContext &context) {
  bool once = plan.scopeOf(value, span) == Scope::Kernel;
  auto &values = once ? kernelValues : context.values;
  if (Value known = values.lookup({value, span}))
    return known;
  if (!once)
    return context.values[{value, span}] = computeScalar(value, span, context);
  // Values of the whole kernel are computed by a row of their own, which has no index and comes before all rows.
  RowContext whole(kernel, {});
  return kernelValues[{value, span}] = computeScalar(value, span, whole);
}

/// The element of a splat, in the type that is computed with.
static TypedAttr splatOf(DenseElementsAttr constant) {
  auto element = cast<TypedAttr>(constant.getSplatValue<Attribute>());
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
  if (DenseElementsAttr constant; matchPattern(op, m_Constant(&constant)))
    return builder.constant(splatOf(constant));
  if (auto numbered = dyn_cast<dt::IndexedOpInterface>(op))
    return numbered.emitIndexed(builder, builder.loc, onceOf(numbered), rowNumber(numbered, span, context), 0,
                                computedType(elementType(value)));
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(scalar(operand, operandSpan(op, span, plan), context));
  Value number = operands[0];
  if (auto elementwise = dyn_cast<dt::ElementwiseOpInterface>(op))
    number = elementwise.emitElement(builder, builder.loc, operands, computedType(elementType(value)));
  return rounded(builder, number, value);
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
  context.builder.store(stored, pointer, vectorAlignment(type));
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

/// What a numbered operation computes once per call.
const dt::IndexedCode &KernelValues::onceOf(dt::IndexedOpInterface op) {
  auto [it, isNew] = indexed.try_emplace(op);
  if (isNew) {
    unsigned first = firstScalar[op];
    auto scalar = [&](unsigned index) { return environment.launchScalar(kernel, first + index); };
    auto element = [&](unsigned operand, int64_t index) {
      Value whole = op->getOperand(operand);
      Type type = storedType(elementType(whole));
      Value base = environment.buffers[inputBuffer(whole)];
      return fromStored(kernel, kernel.load(type, kernel.element(type, base, kernel.integer(index))),
                        elementType(whole));
    };
    dt::IndexedCode code = op.emitOnce(kernel, kernel.loc, {scalar, element});
    if (!code.origin)
      code.origin = kernel.integer(0);
    indexed[op] = code;
  }
  return indexed[op];
}

/// By how much the number grows along each merged dimension: the stride of the last of the dimensions that were merged.
SmallVector<int64_t> KernelValues::mergedStrides(dt::IndexedOpInterface op, Span span) const {
  SmallVector<int64_t> strides(std::max(1u, plan.rank()), 0);
  for (auto [dim, stride] : llvm::enumerate(domainStrides(op, span, plan)))
    if (plan.mergedDim[dim] >= 0)
      strides[plan.mergedDim[dim]] = stride;
  return strides;
}

/// The number of a row's first element.
Value KernelValues::rowNumber(dt::IndexedOpInterface op, Span span, RowContext &context) {
  Value result = onceOf(op).origin;
  SmallVector<int64_t> strides = mergedStrides(op, span);
  for (auto [dim, index] : llvm::enumerate(context.index))
    if (index && strides[dim] != 0)
      result = context.builder.add(result, context.builder.mul(index, context.builder.integer(strides[dim])));
  return result;
}
