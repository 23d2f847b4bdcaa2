// Exponentials with the instruction that GPUs have for powers of two.
#include "passes/lower/cuda/GpuModule.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/lower/kernels/KernelValues.h"

#include <numbers>

using namespace mlir;
using namespace dtc;

static Value powerOfTwo(CodeBuilder &builder, Value exponent) {
  auto vector = dyn_cast<VectorType>(exponent.getType());
  if (!vector)
    return LLVM::CallIntrinsicOp::create(builder, builder.loc, exponent.getType(), builder.getStringAttr(gpuPowerOfTwo),
                                         exponent)
        .getResult(0);
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane)
    lanes.push_back(powerOfTwo(builder, vector::ExtractOp::create(builder, builder.loc, exponent, lane)));
  return vector::FromElementsOp::create(builder, builder.loc, vector, lanes);
}

/// e^x = 2^y e^r where y is x / ln 2 rounded and r the remainder, for which 1 + r is exact enough. Beyond the range of
/// results the instruction gives the limits, and the remainder, if there is one, is not a rounding error.
static Value exponential(CodeBuilder &builder, Value x) {
  Location loc = builder.loc;
  Type type = x.getType();
  auto number = [&](double value) {
    return builder.splatConstant(type, builder.getF32FloatAttr(static_cast<float>(value)));
  };
  constexpr double exact = std::numbers::log2e;
  constexpr auto high = static_cast<float>(exact);
  Value y = arith::MulFOp::create(builder, loc, x, number(high));
  Value rest = math::FmaOp::create(builder, loc, x, number(high), arith::NegFOp::create(builder, loc, y));
  rest = math::FmaOp::create(builder, loc, x, number(exact - high), rest);
  Value factor = math::FmaOp::create(builder, loc, rest, number(std::numbers::ln2), number(1));
  constexpr double beyond = 256;
  // As an intrinsic, which becomes part of the comparison; the conversion to NVVM would call a library.
  Value size = LLVM::CallIntrinsicOp::create(builder, loc, type, builder.getStringAttr("llvm.fabs"), y).getResult(0);
  Value isWithin = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT, size, number(beyond));
  factor = arith::SelectOp::create(builder, loc, isWithin, factor, number(1));
  return arith::MulFOp::create(builder, loc, powerOfTwo(builder, y), factor);
}

void dtc::expandExponentials(gpu::GPUFuncOp function) {
  function.walk([](math::ExpOp op) {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return;
    CodeBuilder builder(op, op.getLoc());
    op.getResult().replaceAllUsesWith(exponential(builder, op.getOperand()));
    op.erase();
  });
}
