// Moves what a stage of a pipeline sends in front of what it keeps to itself; see Passes.td.
#include "passes/keep/Passes.h"

#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"

namespace dtc {
#define GEN_PASS_DEF_SENDFIRST
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

struct SendFirst : dtc::impl::SendFirstBase<SendFirst> {
  void runOnOperation() override {
    Operation *end = getOperation().front().getTerminator();
    SmallVector<Value> sent;
    for (auto [index, value] : llvm::enumerate(end->getOperands()))
      if (PortAttr port = resultPort(getOperation(), index); port && port.isSent())
        sent.push_back(value);
    DenseSet<Operation *> way = findWay(std::move(sent));
    if (way.empty() || llvm::any_of(way, llvm::IsaPred<CollectiveOpInterface>))
      return;
    Operation *last = end->getPrevNode();
    while (!way.contains(last))
      last = last->getPrevNode();
    Operation *behind = last->getNextNode();
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (&op == last)
        break;
      else if (!way.contains(&op))
        op.moveBefore(behind);
  }

  /// All operations that make these values.
  static DenseSet<Operation *> findWay(SmallVector<Value> values) {
    DenseSet<Operation *> way;
    while (!values.empty())
      if (Operation *op = values.pop_back_val().getDefiningOp(); op && way.insert(op).second)
        llvm::append_range(values, op->getOperands());
    return way;
  }
};

} // namespace
