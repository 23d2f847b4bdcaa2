// Splits each collective into a start and a wait.
#include "dialect/IR/ElementTypes.h"
#include "passes/FirstUser.h"
#include "passes/schedule/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace dtc {
#define GEN_PASS_DEF_SPLITCOLLECTIVES
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// Bytes that a collective reads, and that must stay until it has been waited for.
uint64_t sourceBytes(Operation *start) { return bytesOf(start->getOperand(0).getType()); }

bool isStart(Operation &op) { return isa<CollectiveOpInterface>(op) && isa<FutureType>(op.getResult(0).getType()); }

/// What is under way keeps its source. Before it would keep more than the largest collective needs by itself, the
/// oldest are waited for.
void boundUnderWay(Block &block) {
  uint64_t most = 0, bytes = 0;
  for (Operation &op : block)
    if (isStart(op))
      most = std::max(most, sourceBytes(&op));
  llvm::MapVector<Operation *, uint64_t> underWay; // by their waits, oldest first
  for (Operation &op : block) {
    if (auto *entry = underWay.find(&op); entry != underWay.end()) {
      bytes -= entry->second;
      underWay.erase(entry);
    }
    if (!isStart(op) || op.use_empty())
      continue;
    while (!underWay.empty() && bytes + sourceBytes(&op) > most) {
      auto [wait, held] = underWay.front();
      wait->moveBefore(&op);
      bytes -= held;
      underWay.erase(underWay.begin());
    }
    bytes += sourceBytes(&op);
    underWay.insert({*op.user_begin(), sourceBytes(&op)});
  }
}

/// A view is no use of what it views: it goes to its own first reader, so that a wait need not come before it.
void sinkViews(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<ViewOpInterface>(op) && op.getNumOperands() == 1)
      if (Operation *user = dtc::firstUser(op.getResult(0)))
        op.moveBefore(user);
}

struct SplitCollectives : dtc::impl::SplitCollectivesBase<SplitCollectives> {
  void runOnOperation() override {
    sinkViews(getOperation().front());
    SmallVector<CollectiveOpInterface> collectives;
    getOperation().walk([&](CollectiveOpInterface op) {
      if (!isa<FutureType>(op->getResult(0).getType()))
        collectives.push_back(op);
    });
    for (CollectiveOpInterface op : collectives) {
      OpBuilder builder(op);
      RankedTensorType type = op.getValueType();
      Operation *start = op.cloneWithType(builder, FutureType::get(&getContext(), type));
      Operation *user = dtc::firstUser(op->getResult(0));
      builder.setInsertionPoint(user ? user : op->getBlock()->getTerminator());
      auto wait = WaitOp::create(builder, op.getLoc(), type, start->getResult(0));
      op->getResult(0).replaceAllUsesWith(wait.getResult());
      op.erase();
    }
    boundUnderWay(getOperation().front());
  }
};

} // namespace
