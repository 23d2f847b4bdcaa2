// dt-narrow-gradients: the type in which gradients leave a micro-batch; see Passes.td.
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_NARROWGRADIENTS
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

Value convert(OpBuilder &builder, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  Operation *made = dt::ConvertOp::create(builder, value.getLoc(), type.clone(element), value);
  dt::mark(made, dt::marksOf(value));
  return made->getResult(0);
}

/// Lets sums that are only widened afterwards give f32 directly: the sums that `value` is added up from.
void widenSums(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse())
    return;
  if (auto conversion = dyn_cast<dt::ConvertOp>(op)) {
    auto sum = conversion.getOperand().getDefiningOp<dt::PrecisionOpInterface>();
    if (sum && sum.canWidenResults() && sum->hasOneUse()) {
      sum->getResult(0).setType(value.getType());
      value.replaceAllUsesWith(sum->getResult(0));
      conversion.erase();
    }
    return;
  }
  if (auto rule = dyn_cast<dt::FactorOpInterface>(op))
    for (OpOperand &operand : op->getOpOperands())
      if (rule.getLinearity(operand.getOperandNumber()) == dt::Linearity::Additive)
        widenSums(operand.get());
}

struct NarrowGradients : dtc::impl::NarrowGradientsBase<NarrowGradients> {
  using NarrowGradientsBase::NarrowGradientsBase;

  void runOnOperation() override {
    func::FuncOp micro = requireFunction(getOperation(), dt::function::micro);
    FailureOr<Type> type = parseFloatType(getOperation(), gradients);
    if (!micro || failed(type))
      return signalPassFailure();
    Operation *terminator = micro.getBody().front().getTerminator();
    OpBuilder builder(terminator);
    for (OpOperand &result : terminator->getOpOperands()) {
      if (dt::resultPort(micro, result.getOperandNumber()).getKind() != dt::PortKind::Gradient)
        continue;
      if (*type == builder.getF32Type()) {
        widenSums(result.get());
        continue;
      }
      builder.setInsertionPointAfterValue(result.get());
      Value narrow = convert(builder, result.get(), *type);
      // Several micro-batches add up in f32.
      result.set(accumulates ? convert(builder, narrow, builder.getF32Type()) : narrow);
    }
    micro.setType(builder.getFunctionType(micro.getArgumentTypes(), terminator->getOperandTypes()));
  }
};

} // namespace
