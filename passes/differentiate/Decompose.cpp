// Rewrites composites as primitives.
#include "dialect/IR/Locations.h"
#include "passes/differentiate/Passes.h"
#include "passes/differentiate/Signature.h"

namespace dtc {
#define GEN_PASS_DEF_DECOMPOSE
#include "passes/differentiate/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace dtc;

namespace {

struct Decompose : dtc::impl::DecomposeBase<Decompose> {
  void runOnOperation() override {
    PurposeListener listener;
    OpBuilder builder(&getContext(), &listener);
    getOperation().walk([&](dt::DecomposableOpInterface composite) {
      Operation *op = composite;
      listener.setMarks(dt::marksOf(op));
      listener.setPurpose(purposeOf(op));
      builder.setInsertionPoint(op);
      op->replaceAllUsesWith(composite.decompose(builder));
      op->erase();
    });
  }
};

} // namespace
