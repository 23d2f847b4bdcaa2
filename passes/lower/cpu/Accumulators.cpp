// What accumulators are made of, set to, combined with and read as.
#include "passes/lower/cpu/Accumulators.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace dtc;

Accumulator Accumulators::make(CodeBuilder &builder, dt::ReductionOpInterface reduce, bool wide, int64_t vectors) {
  Value operand = reduce->getOperand(0);
  Accumulator result{operand,
                     reduce->getResult(0),
                     plan.reductionSpan(reduce),
                     &dt::reductionOf(reduce.getReductionKind()),
                     computedType(getElementTypeOrSelf(operand.getType())),
                     {},
                     {}};
  if (wide && result.element.isF32() && result.reduction->isLinear)
    result.element = builder.getF64Type();
  result.memory = makeAccumulatorMemory(builder, identity(builder, result, values.vectorType(result.element)), vectors);
  if (result.reduction->losesNan && result.element.isF32())
    result.poison = makeAccumulatorMemory(
        builder, builder.splatConstant(values.vectorType(result.element), builder.getF32FloatAttr(0)), vectors);
  return result;
}

/// Some vectors on the stack of the whole call, set to `initial` here.
Value Accumulators::makeAccumulatorMemory(CodeBuilder &builder, Value initial, int64_t vectors) {
  CodeBuilder atEntry(&entry->front(), builder.loc);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext()), type = initial.getType();
  Value memory = LLVM::AllocaOp::create(atEntry, builder.loc, pointer, type, atEntry.integer(vectors), 64);
  for (int64_t i = 0; i < vectors; ++i)
    builder.store(initial, LLVM::GEPOp::create(builder, builder.loc, pointer, type, memory,
                                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)}));
  return memory;
}

/// What a reduction of nothing gives.
Value Accumulators::identity(CodeBuilder &builder, const Accumulator &accumulator, Type type) {
  return builder.splatConstant(type, dt::identityOf(*accumulator.reduction, getElementTypeOrSelf(type)));
}

/// Accumulators come second and are never NaN where that would be lost.
Value Accumulators::combine(CodeBuilder &builder, const Accumulator &accumulator, Value a, Value b) {
  return accumulator.reduction->emit(builder, builder.loc, a, b);
}

void Accumulators::accumulate(CodeBuilder &builder, const Accumulator &accumulator, SmallVector<Value> terms,
                              Value offset) {
  if (accumulator.poison)
    recordNan(builder, accumulator, terms, offset);
  for (size_t width = terms.size(); width > 1; width /= 2) {
    for (size_t i = 0; i < width / 2; ++i)
      terms[i] = combine(builder, accumulator, terms[2 * i], terms[2 * i + 1]);
    terms.resize(width / 2);
  }
  VectorType type = values.vectorType(accumulator.element);
  Value value = terms.front();
  if (accumulator.isWide())
    value = arith::ExtFOp::create(builder, builder.loc, type, value);
  Value memory = elementOf(builder, accumulator, accumulator.memory, offset);
  builder.store(combine(builder, accumulator, value, builder.load(type, memory)), memory);
}

/// One comparison finds a NaN in two vectors.
void Accumulators::recordNan(CodeBuilder &builder, const Accumulator &accumulator, ArrayRef<Value> terms,
                             Value offset) {
  VectorType type = values.vectorType(accumulator.element);
  Value memory = elementOf(builder, accumulator, accumulator.poison, offset), poison = builder.load(type, memory);
  Value nan = builder.splatConstant(type, builder.getF32FloatAttr(std::numeric_limits<float>::quiet_NaN()));
  for (size_t i = 0; i < terms.size(); i += 2) {
    Value other = terms[std::min(i + 1, terms.size() - 1)];
    Value isNan = arith::CmpFOp::create(builder, builder.loc, arith::CmpFPredicate::UNO, terms[i], other);
    poison = arith::SelectOp::create(builder, builder.loc, isNan, nan, poison);
  }
  builder.store(poison, memory);
}

void Accumulators::accumulate(MutableArrayRef<ColumnContext> contexts, const Accumulator &accumulator) {
  SmallVector<Value> terms;
  for (ColumnContext &context : contexts) {
    Value &value = terms.emplace_back(values.vector(accumulator.operand, plan.fullSpan(), context));
    CodeBuilder &builder = context.builder;
    if (context.mask)
      value = arith::SelectOp::create(builder, builder.loc, context.mask, value,
                                      identity(builder, accumulator, value.getType()));
  }
  accumulate(contexts.front().builder, accumulator, std::move(terms), {});
}

Value Accumulators::narrow(CodeBuilder &builder, const Accumulator &accumulator, Value value) {
  if (accumulator.isWide()) {
    Type type = builder.getF32Type();
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      type = vector.clone(type);
    value = arith::TruncFOp::create(builder, builder.loc, type, value);
  }
  return values.rounded(builder, value, accumulator.result);
}

Value Accumulators::total(CodeBuilder &builder, const Accumulator &accumulator, Value offset) {
  VectorType type = values.vectorType(accumulator.element);
  Value result = builder.load(type, elementOf(builder, accumulator, accumulator.memory, offset));
  if (!accumulator.poison)
    return result;
  Value poison = builder.load(type, elementOf(builder, accumulator, accumulator.poison, offset));
  return arith::AddFOp::create(builder, builder.loc, result, poison);
}

Value Accumulators::finish(CodeBuilder &builder, const Accumulator &accumulator) {
  VectorType type = values.vectorType(accumulator.element);
  auto reduce = [&](vector::CombiningKind kind, Value memory, arith::FastMathFlags flags) -> Value {
    return vector::ReductionOp::create(builder, builder.loc, kind, builder.load(type, memory), flags);
  };
  // A tree over the lanes rather than one after the other.
  constexpr auto tree = arith::FastMathFlags::reassoc;
  bool isReal = isa<FloatType>(accumulator.element);
  auto kind = isReal ? accumulator.reduction->realLanes : accumulator.reduction->integerLanes;
  if (!accumulator.poison)
    return narrow(builder, accumulator, reduce(kind, accumulator.memory, isReal ? tree : arith::FastMathFlags::none));
  Value combined = reduce(kind, accumulator.memory, arith::FastMathFlags::nnan);
  Value poison = reduce(vector::CombiningKind::ADD, accumulator.poison, arith::FastMathFlags::reassoc);
  return arith::AddFOp::create(builder, builder.loc, combined, poison);
}

/// The address `offset` elements (null: none) from the memory of an accumulator's values or poison.
Value Accumulators::elementOf(CodeBuilder &builder, const Accumulator &accumulator, Value memory, Value offset) {
  if (!offset)
    return memory;
  return LLVM::GEPOp::create(builder, builder.loc, memory.getType(), accumulator.element, memory,
                             ArrayRef<LLVM::GEPArg>{offset});
}
