// The kinds of reductions.
#include "dialect/IR/Reductions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::dt;

static bool isReal(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

static Value emitSum(OpBuilder &builder, Location loc, Value a, Value b) {
  if (isReal(a))
    return arith::AddFOp::create(builder, loc, a, b);
  return arith::AddIOp::create(builder, loc, a, b);
}

/// b where it is NaN: one machine instruction.
static Value emitMaximum(OpBuilder &builder, Location loc, Value a, Value b) {
  if (!isReal(a))
    return arith::MaxSIOp::create(builder, loc, a, b);
  Value greater = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OGT, a, b);
  return arith::SelectOp::create(builder, loc, greater, a, b);
}

/// In the order of ReductionKind.
static const Reduction reductions[] = {
    {ReductionKind::Sum, dtc::abi::SUM, 0, [](double a, double b) { return a + b; },
     /*isLinear=*/true, /*isIdempotent=*/false, /*losesNan=*/false, vector::CombiningKind::ADD,
     vector::CombiningKind::ADD, emitSum},
    {ReductionKind::Max, dtc::abi::MAX, -std::numeric_limits<double>::infinity(),
     [](double a, double b) { return std::isnan(b) || b > a ? b : a; },
     /*isLinear=*/false, /*isIdempotent=*/true, /*losesNan=*/true, vector::CombiningKind::MAXNUMF,
     vector::CombiningKind::MAXSI, emitMaximum},
};

const Reduction &dt::reductionOf(ReductionKind kind) { return reductions[static_cast<size_t>(kind)]; }

const Reduction &dt::reductionOf(dtc::abi::Reduction collective) {
  for (const Reduction &each : reductions)
    if (each.collective == collective)
      return each;
  llvm_unreachable("the manifest has been validated");
}

TypedAttr dt::identityOf(const Reduction &reduction, Type element) {
  if (isa<FloatType>(element))
    return FloatAttr::get(element, reduction.identity);
  APInt least = APInt::getSignedMinValue(element.getIntOrFloatBitWidth());
  bool isFinite = std::isfinite(reduction.identity);
  return IntegerAttr::get(element, isFinite ? APInt(least.getBitWidth(), int64_t(reduction.identity)) : least);
}
