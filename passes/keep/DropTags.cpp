// Replaces every dt.tag by its operand; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/Ops.h"

namespace dtc {
#define GEN_PASS_DEF_DROPTAGS
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

struct DropTags : dtc::impl::DropTagsBase<DropTags> {
  void runOnOperation() override {
    getOperation().walk([](TagOp tag) {
      tag.replaceAllUsesWith(tag.getOperand());
      tag.erase();
    });
  }
};

} // namespace
