// Builds @micro_next: a micro-batch whose gradients and sums are added to those of the micro-batches before it.
#include "dialect/IR/Locations.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_BUILDACCUMULATION
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

struct BuildAccumulation : dtc::impl::BuildAccumulationBase<BuildAccumulation> {
  void runOnOperation() override {
    func::FuncOp micro = requireFunction(getOperation(), dt::function::micro);
    if (!micro)
      return signalPassFailure();
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(micro);
    auto next = cast<func::FuncOp>(builder.clone(*micro));
    next.setName(dt::function::microNext);
    next->setLoc(NameLoc::get(builder.getStringAttr(dt::function::microNext)));

    Operation *terminator = next.getBody().front().getTerminator();
    for (unsigned index = 0; index < next.getNumResults(); ++index)
      accumulate(builder, next, terminator->getOpOperand(index), next.getResultAttrDict(index));
  }

  /// Gives `next` an argument like this result and adds it to the result.
  void accumulate(OpBuilder &builder, func::FuncOp next, OpOperand &result, DictionaryAttr attributes) {
    Value value = result.get();
    unsigned index = next.getNumArguments();
    (void)next.insertArgument(index, value.getType(), attributes, value.getLoc());
    Location loc = withPurpose(value.getLoc(), "accumulate");
    builder.setInsertionPointAfterValue(value); // the sum replaces the value, which need not live longer
    auto sum = dt::AddOp::create(builder, loc, next.getArgument(index), value);
    dt::mark(sum, dt::marksOf(value));
    result.set(sum);
  }
};

} // namespace
