// Sends what stages of a pipeline hand on, and receives it; see Passes.td.
#include "passes/analysis/Stages.h"
#include "passes/schedule/Passes.h"
#include "passes/schedule/TransferFunctions.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Ops.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/abi/timetables.h"

namespace dtc {
#define GEN_PASS_DEF_INSERTTRANSFERS
#include "passes/schedule/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// How many places along the pipeline after this rank the other one is.
int64_t shiftOf(func::FuncOp function, PortAttr port) {
  dtc::Route route = dtc::routeOf(function, port);
  return port.isSent() ? route.to - route.from : route.from - route.to;
}

/// Whether the other stage is on this rank, too. Then what it has made is copied.
bool isLocal(func::FuncOp function, PortAttr port) { return dtc::routeOf(function, port).isLocal(); }

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
      if (SmallVector<unsigned> received = dtc::receivedFor(function); !received.empty() && !known.receiveOf(function))
        known.add(isLocal(function, argumentPort(function, received.front())) ? makeCopy(function)
                                                                              : makeReceive(function));
      if (SmallVector<unsigned> sent = dtc::sentBy(function);
          !sent.empty() && !isLocal(function, resultPort(function, sent.front())) && !known.sentOf(function))
        known.add(makeSent(function));
      if (needsDrop(function, known))
        known.add(makeDrop(function));
    }
  }

  /// Forward passes may have been begun with parameters that are undone; then what they have sent is not read.
  static bool needsDrop(func::FuncOp function, const dtc::TransferFunctions &known) {
    SmallVector<unsigned> received = dtc::receivedFor(function);
    return function->getParentOp()->hasAttr(module_attr::earlyUpdate) && dutyOf(function).getTask() == Task::Forward &&
           dutyOf(function).getTimetable() == StringRef(dtc::abi::stepTimetable) && !received.empty() &&
           !isLocal(function, argumentPort(function, received.front())) && !known.dropOf(function);
  }

  /// Awaits a received value where it is first read. The await has the location and the marks of its reader, since what
  /// it reads is another stage's.
  static void await(func::FuncOp function) {
    for (unsigned index : dtc::receivedFor(function)) {
      if (isLocal(function, argumentPort(function, index)))
        continue;
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
      PortAttr port = resultPort(function, index);
      if (isLocal(function, port))
        continue;
      Value value = end->getOperand(index);
      OpBuilder builder(function.getContext());
      builder.setInsertionPointAfterValue(value);
      auto sent = SendOp::create(builder, value.getLoc(), value, port, stageAxis(builder), shiftOf(function, port));
      mark(sent, marksOf(value));
    }
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
                                     stageAxis(builder), shiftOf(function, port));
      mark(received, marksOf(await));
      results.push_back(received);
    }
    func::ReturnOp::create(builder, receive.getLoc(), results);
    receive.setAllResultAttrs(attributes);
    return receive;
  }

  /// Copies what another stage of this rank has sent to where this one finds what it receives.
  static func::FuncOp makeCopy(func::FuncOp function) {
    SmallVector<unsigned> indices = dtc::receivedFor(function);
    auto types = llvm::map_to_vector(indices, [&](unsigned index) { return function.getArgumentTypes()[index]; });
    func::FuncOp copy = makeFunction(function, ".copy", types, types);
    OpBuilder builder = OpBuilder::atBlockEnd(&copy.front());
    SmallVector<Value> results;
    for (auto [number, index] : llvm::enumerate(indices)) {
      PortAttr port = argumentPort(function, index);
      PortKind sent = port.getKind() == PortKind::Received ? PortKind::Sent : PortKind::SentGradient;
      copy.setArgAttrs(number, portAttributes(port.withKind(sent)));
      Location loc = function.getArgument(index).getLoc();
      results.push_back(CopyOp::create(builder, loc, copy.getArgument(number)));
      Operation *reader = *function.getArgument(index).user_begin();
      mark(results.back().getDefiningOp(), {{}, marksOf(reader).direction});
    }
    func::ReturnOp::create(builder, copy.getLoc(), results);
    copy.setAllResultAttrs(
        llvm::map_to_vector(indices, [&](unsigned index) { return function.getArgAttrDict(index); }));
    return copy;
  }

  /// Waits for what was begun to be received, and leaves it there unread.
  static func::FuncOp makeDrop(func::FuncOp function) {
    SmallVector<unsigned> indices = dtc::receivedFor(function);
    auto types = llvm::map_to_vector(indices, [&](unsigned index) { return function.getArgumentTypes()[index]; });
    auto attributes = llvm::map_to_vector(indices, [&](unsigned index) { return function.getArgAttrDict(index); });
    func::FuncOp drop = makeFunction(function, ".drop", types, {});
    drop.setAllArgAttrs(attributes);
    OpBuilder builder = OpBuilder::atBlockEnd(&drop.front());
    for (auto [argument, index] : llvm::zip_equal(drop.getArguments(), indices)) {
      Operation *await = *function.getArgument(index).user_begin();
      auto over =
          AwaitOp::create(builder, await->getLoc(), argument.getType(), argument, argumentPort(function, index));
      mark(over, marksOf(await));
    }
    func::ReturnOp::create(builder, drop.getLoc());
    return drop;
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
