// Sends what stages of a pipeline hand on, and receives it; see Passes.td.
#include "passes/schedule/Passes.h"
#include "passes/schedule/TransferFunctions.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SetVector.h"

namespace dtc {
#define GEN_PASS_DEF_INSERTTRANSFERS
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// Activations go on to the next stage, gradients back.
int64_t shiftOf(PortAttr port) {
  return port.getKind() == PortKind::Sent || port.getKind() == PortKind::ReceivedGradient ? 1 : -1;
}

ArrayAttr stageAxis(OpBuilder &builder) {
  return builder.getArrayAttr({AxisRefAttr::whole(builder.getStringAttr(pipelineAxis))});
}

struct InsertTransfers : dtc::impl::InsertTransfersBase<InsertTransfers> {
  void runOnOperation() override {
    dtc::TransferFunctions known(getOperation());
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (dtc::sentBy(function).empty() && dtc::receivedFor(function).empty())
        continue;
      await(function);
      send(function);
      meetBehindSends(function);
      if (!dtc::receivedFor(function).empty() && !known.receiveOf(function))
        known.add(makeReceive(function));
      if (!dtc::sentBy(function).empty() && !known.sentOf(function))
        known.add(makeSent(function));
    }
  }

  /// Awaits a received value where it is first read. The await has the location and the marks of its reader, since what
  /// it reads is another stage's.
  static void await(func::FuncOp function) {
    for (unsigned index : dtc::receivedFor(function)) {
      BlockArgument argument = function.getArgument(index);
      Operation *first = function.front().getTerminator();
      for (Operation *user : argument.getUsers())
        if (user->isBeforeInBlock(first))
          first = user;
      OpBuilder builder(first);
      auto arrived =
          AwaitOp::create(builder, first->getLoc(), argument.getType(), argument, argumentPort(function, index));
      mark(arrived, marksOf(first));
      argument.replaceAllUsesExcept(arrived, arrived);
    }
  }

  static void send(func::FuncOp function) {
    Operation *end = function.front().getTerminator();
    for (unsigned index : dtc::sentBy(function)) {
      Value value = end->getOperand(index);
      OpBuilder builder(function.getContext());
      builder.setInsertionPointAfterValue(value);
      PortAttr port = resultPort(function, index);
      auto sent = SendOp::create(builder, value.getLoc(), value, port, stageAxis(builder), shiftOf(port));
      mark(sent, marksOf(value));
    }
  }

  /// A stage meets others only once it has sent what they wait for. Since ranks begin what they share in one order, it
  /// could otherwise not get past the meeting before, for example to what its own send needs. What is made from a
  /// meeting's result moves with it.
  static void meetBehindSends(func::FuncOp function) {
    Block &block = function.front();
    Operation *last = nullptr;
    for (SendOp sent : block.getOps<SendOp>())
      last = sent;
    if (!last)
      return;
    llvm::SetVector<Operation *> held;
    for (Operation &op : llvm::make_range(block.begin(), last->getIterator())) {
      if (auto collective = dyn_cast<CollectiveOpInterface>(op); collective && isAmongStages(collective))
        held.insert(&op);
      if (held.contains(&op))
        for (Operation *user : op.getUsers())
          if (Operation *here = block.findAncestorOpInBlock(*user); here->isBeforeInBlock(last))
            held.insert(here);
    }
    for (SendOp sent : block.getOps<SendOp>())
      if (llvm::any_of(sent->getOperands(), [&](Value value) { return held.contains(value.getDefiningOp()); }))
        return; // it sends the result of a meeting
    SmallVector<Operation *> ordered = held.takeVector();
    llvm::sort(ordered, [](Operation *one, Operation *other) { return one->isBeforeInBlock(other); });
    for (Operation *op : llvm::reverse(ordered))
      op->moveAfter(last);
  }

  static bool isAmongStages(CollectiveOpInterface collective) {
    return llvm::any_of(collective.getCollectiveAxes(),
                        [](AxisRefAttr axis) { return axis.getAxis().getValue() == pipelineAxis; });
  }

  static func::FuncOp makeFunction(func::FuncOp function, StringRef what, TypeRange arguments, TypeRange results) {
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfter(function);
    std::string name = (function.getName() + what).str();
    auto made = func::FuncOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name,
                                     builder.getFunctionType(arguments, results));
    DutyAttr duty = dutyOf(function);
    made->setAttr(dutyAttr, DutyAttr::get(builder.getContext(), Task::Transfer, duty.getStage(), duty.getTimetable(),
                                          MicroBatches::None));
    made.addEntryBlock();
    return made;
  }

  static func::FuncOp makeReceive(func::FuncOp function) {
    SmallVector<unsigned> indices = dtc::receivedFor(function);
    auto types = llvm::map_to_vector(indices, [&](unsigned index) { return function.getArgumentTypes()[index]; });
    auto attributes = llvm::map_to_vector(indices, [&](unsigned index) { return function.getArgAttrDict(index); });
    func::FuncOp receive = makeFunction(function, ".receive", {}, types);
    OpBuilder builder = OpBuilder::atBlockEnd(&receive.front());
    SmallVector<Value> results;
    for (unsigned index : indices) {
      PortAttr port = argumentPort(function, index);
      Operation *await = *function.getArgument(index).user_begin();
      auto received = RecvOp::create(builder, await->getLoc(), function.getArgumentTypes()[index], port,
                                     stageAxis(builder), shiftOf(port));
      mark(received, marksOf(await));
      results.push_back(received);
    }
    func::ReturnOp::create(builder, receive.getLoc(), results);
    receive.setAllResultAttrs(attributes);
    return receive;
  }

  static func::FuncOp makeSent(func::FuncOp function) {
    SmallVector<unsigned> indices = dtc::sentBy(function);
    auto types = llvm::map_to_vector(indices, [&](unsigned index) { return function.getResultTypes()[index]; });
    auto attributes = llvm::map_to_vector(indices, [&](unsigned index) { return function.getResultAttrDict(index); });
    func::FuncOp sent = makeFunction(function, ".sent", types, {});
    sent.setAllArgAttrs(attributes);
    OpBuilder builder = OpBuilder::atBlockEnd(&sent.front());
    for (auto [argument, index] : llvm::zip_equal(sent.getArguments(), indices)) {
      Value value = function.front().getTerminator()->getOperand(index);
      auto over = AwaitOp::create(builder, value.getLoc(), argument.getType(), argument, resultPort(function, index));
      mark(over, marksOf(value));
    }
    func::ReturnOp::create(builder, sent.getLoc());
    return sent;
  }
};

} // namespace
