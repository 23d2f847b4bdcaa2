// dt-narrow-reduction: gradients that were added up over micro-batches travel in 16 bits; see Passes.td.
#include "passes/analysis/FirstUser.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_NARROWREDUCTION
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

struct NarrowReduction : dtc::impl::NarrowReductionBase<NarrowReduction> {
  using NarrowReductionBase::NarrowReductionBase;

  void runOnOperation() override {
    func::FuncOp reduce = requireFunction(getOperation(), dt::function::reduce);
    FailureOr<Type> type = parseFloatType(getOperation(), gradients);
    if (!reduce || failed(type))
      return signalPassFailure();
    for (BlockArgument argument : reduce.getArguments())
      if (dt::argumentPort(reduce, argument.getArgNumber()).getKind() == dt::PortKind::Gradient)
        roundAtRead(argument, *type);
  }

  /// Gives all readers the value rounded to `element`, in its own type.
  static void roundAtRead(BlockArgument argument, Type element) {
    auto type = cast<RankedTensorType>(argument.getType());
    Operation *first = firstUser(argument);
    if (!first || type.getElementType() == element)
      return;
    OpBuilder builder(first);
    Value narrow = dt::ConvertOp::create(builder, argument.getLoc(), type.clone(element), argument);
    Value wide = dt::ConvertOp::create(builder, argument.getLoc(), type, narrow);
    argument.replaceAllUsesExcept(wide, narrow.getDefiningOp());
    for (Value made : {narrow, wide})
      dt::mark(made.getDefiningOp(), dt::marksOf(first));
  }
};

} // namespace
