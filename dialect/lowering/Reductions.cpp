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

constexpr double infinity = std::numeric_limits<double>::infinity();

static void add(MutableArrayRef<double> into, ArrayRef<double> other) { into[0] += other[0]; }

/// A NaN on either side wins.
static double larger(double a, double b) { return std::isnan(b) || b > a ? b : a; }

static void takeLarger(MutableArrayRef<double> into, ArrayRef<double> other) { into[0] = larger(into[0], other[0]); }

/// A value and the logarithm of its weight: the weighted mean, and the logarithm of both weights' sum. What has no
/// weight does not count, whatever its value.
static void mergeWeighted(MutableArrayRef<double> into, ArrayRef<double> other) {
  double largest = larger(into[1], other[1]);
  if (largest == -infinity) {
    into[0] = 0;
    return;
  }
  double weight = std::exp(into[1] - largest), added = std::exp(other[1] - largest); // the larger one counts 1
  auto counted = [](double value, double share) { return share == 0 ? 0 : share * value; };
  into[0] = counted(into[0], weight / (weight + added)) + counted(other[0], added / (weight + added));
  into[1] = largest + std::log(weight + added);
}

static constexpr double zero[] = {0}, least[] = {-infinity}, weightless[] = {0, -infinity};

/// Those that operations have come first, in the order of ReductionKind.
static const Reduction reductions[] = {
    {.name = "sum",
     .collective = dtc::abi::SUM,
     .identities = zero,
     .combineTuples = add,
     .kind = ReductionKind::Sum,
     .isLinear = true,
     .realLanes = vector::CombiningKind::ADD,
     .integerLanes = vector::CombiningKind::ADD,
     .emit = emitSum},
    {.name = "max",
     .collective = dtc::abi::MAX,
     .identities = least,
     .combineTuples = takeLarger,
     .kind = ReductionKind::Max,
     .isIdempotent = true,
     .losesNan = true,
     .realLanes = vector::CombiningKind::MAXNUMF,
     .integerLanes = vector::CombiningKind::MAXSI,
     .emit = emitMaximum},
    {.name = "log_sum_exp",
     .collective = dtc::abi::LOG_SUM_EXP,
     .identities = weightless,
     .combineTuples = mergeWeighted},
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
    return FloatAttr::get(element, reduction.identity());
  APInt least = APInt::getSignedMinValue(element.getIntOrFloatBitWidth());
  bool isFinite = std::isfinite(reduction.identity());
  return IntegerAttr::get(element, isFinite ? APInt(least.getBitWidth(), int64_t(reduction.identity())) : least);
}
