// Splits each collective into a start and a wait.
#include "passes/schedule/Passes.h"

namespace dtc {
#define GEN_PASS_DEF_SPLITCOLLECTIVES
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// The user that comes first in the block.
Operation *firstUser(Operation *op) {
  Operation *first = op->getBlock()->getTerminator();
  for (Operation *user : op->getUsers())
    if (user->isBeforeInBlock(first))
      first = user;
  return first;
}

struct SplitCollectives : dtc::impl::SplitCollectivesBase<SplitCollectives> {
  void runOnOperation() override {
    SmallVector<CollectiveOpInterface> collectives;
    getOperation().walk([&](CollectiveOpInterface op) {
      if (!isa<FutureType>(op->getResult(0).getType()))
        collectives.push_back(op);
    });
    for (CollectiveOpInterface op : collectives) {
      OpBuilder builder(op);
      RankedTensorType type = op.getValueType();
      Operation *start = op.cloneWithType(builder, FutureType::get(&getContext(), type));
      builder.setInsertionPoint(firstUser(op));
      auto wait = WaitOp::create(builder, op.getLoc(), type, start->getResult(0));
      op->getResult(0).replaceAllUsesWith(wait.getResult());
      op.erase();
    }
  }
};

} // namespace
