// Which functions begin to receive what a pass reads, and wait for what it sends: they are found by their ports.
#pragma once

#include "dialect/IR/Names.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <tuple>

namespace dtc {

/// The results of a pass that other stages receive.
inline llvm::SmallVector<unsigned> sentBy(mlir::func::FuncOp function) {
  llvm::SmallVector<unsigned> indices;
  for (unsigned index = 0; index < function.getNumResults(); ++index)
    if (mlir::dt::PortAttr port = mlir::dt::resultPort(function, index); port && port.isSent())
      indices.push_back(index);
  return indices;
}

/// The arguments that a pass waits for. What one pass has received is still there for those behind it.
inline llvm::SmallVector<unsigned> receivedFor(mlir::func::FuncOp function) {
  using namespace mlir::dt;
  llvm::SmallVector<unsigned> indices;
  DutyAttr duty = dutyOf(function);
  for (unsigned index = 0; duty && index < function.getNumArguments(); ++index)
    if (PortAttr port = argumentPort(function, index);
        port && port.isReceived() &&
        (port.getKind() == PortKind::Received ? duty.getTask() == Task::Forward
                                              : duty.getTask() == Task::Backward ||
                                                    duty.getTask() == Task::InputGradients))
      indices.push_back(index);
  return indices;
}

class TransferFunctions {
public:
  explicit TransferFunctions(mlir::ModuleOp module) {
    for (auto function : module.getOps<mlir::func::FuncOp>())
      if (mlir::dt::DutyAttr duty = mlir::dt::dutyOf(function); duty && duty.getTask() == mlir::dt::Task::Transfer)
        add(function);
  }

  void add(mlir::func::FuncOp function) {
    Ports ports; // of a copy between two stages of a rank: what it receives
    for (unsigned index = 0; index < function.getNumResults(); ++index)
      ports.push_back(mlir::dt::resultPort(function, index));
    bool takes = ports.empty();
    for (unsigned index = 0; takes && index < function.getNumArguments(); ++index)
      ports.push_back(mlir::dt::argumentPort(function, index));
    bool isDrop = takes && !ports.empty() && ports.front().isReceived();
    known[{mlir::dt::dutyOf(function).getStage(), isDrop, keyOf(ports)}] = function;
  }

  /// What begins to receive, or copies what another stage of the rank has sent. Null if there is none.
  mlir::func::FuncOp receiveOf(mlir::func::FuncOp function) const {
    Ports ports;
    for (unsigned index : receivedFor(function))
      ports.push_back(mlir::dt::argumentPort(function, index));
    return find(function, ports);
  }
  /// What waits until it is sent. Null if there is none.
  mlir::func::FuncOp sentOf(mlir::func::FuncOp function) const {
    Ports ports;
    for (unsigned index : sentBy(function))
      ports.push_back(mlir::dt::resultPort(function, index));
    return find(function, ports);
  }

  /// What waits for what a pass receives and does not read it. Null if there is none.
  mlir::func::FuncOp dropOf(mlir::func::FuncOp function) const {
    Ports ports;
    for (unsigned index : receivedFor(function))
      ports.push_back(mlir::dt::argumentPort(function, index));
    return find(function, ports, /*isDrop=*/true);
  }

private:
  using Ports = llvm::SmallVector<mlir::dt::PortAttr>;

  static std::string keyOf(const Ports &ports) {
    std::string key;
    for (mlir::dt::PortAttr port : ports)
      key += port.describe() + "\n";
    return key;
  }
  mlir::func::FuncOp find(mlir::func::FuncOp function, const Ports &ports, bool isDrop = false) const {
    auto found = known.find({mlir::dt::dutyOf(function).getStage(), isDrop, keyOf(ports)});
    return ports.empty() || found == known.end() ? mlir::func::FuncOp() : found->second;
  }

  /// By stage, whether it drops what it takes, and ports.
  std::map<std::tuple<int64_t, bool, std::string>, mlir::func::FuncOp> known;
};

} // namespace dtc
