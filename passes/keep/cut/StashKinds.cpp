// How long what a pass keeps for a later one of its stage stays there.
#include "passes/keep/cut/StashKinds.h"

#include "dialect/IR/Attributes.h"
#include "dialect/IR/Names.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

using namespace mlir;
using namespace mlir::dt;

namespace dtc {

namespace {

class StashKinds {
public:
  explicit StashKinds(ModuleOp module) : module(module) {}

  void run() {
    for (auto function : module.getOps<func::FuncOp>())
      if (DutyAttr duty = dutyOf(function); duty && duty.getTask() == Task::WeightGradients)
        for (unsigned index = 0; index < function.getNumArguments(); ++index)
          if (PortAttr port = argumentPort(function, index); isStash(port))
            kinds[{duty.getStage(), port.getName().getValue()}] = PortKind::WeightStash;
    for (auto function : module.getOps<func::FuncOp>())
      if (DutyAttr duty = dutyOf(function); duty && duty.getTask() == Task::InputGradients)
        for (unsigned index = 0; index < function.getNumResults(); ++index)
          if (PortAttr port = resultPort(function, index); isStash(port))
            kinds[{duty.getStage(), port.getName().getValue()}] = PortKind::GradientStash;
    for (auto function : module.getOps<func::FuncOp>())
      setIn(function);
  }

private:
  static bool isStash(PortAttr port) { return port && port.getKind() == PortKind::Stash; }

  void setIn(func::FuncOp function) {
    for (unsigned index = 0; index < function.getNumArguments(); ++index)
      if (PortAttr port = argumentPort(function, index); isStash(port))
        function.setArgAttr(index, portAttr, port.withKind(kindOf(function, port)));
    for (unsigned index = 0; index < function.getNumResults(); ++index)
      if (PortAttr port = resultPort(function, index); isStash(port))
        function.setResultAttr(index, portAttr, port.withKind(kindOf(function, port)));
  }

  PortKind kindOf(func::FuncOp function, PortAttr port) const {
    auto kind = kinds.find({dutyOf(function).getStage(), port.getName().getValue()});
    return kind == kinds.end() ? PortKind::Stash : kind->second;
  }

  ModuleOp module;
  std::map<std::pair<int64_t, StringRef>, PortKind> kinds; ///< of a stage, by name; the others are a `stash`
};

} // namespace

void setStashKinds(ModuleOp module) { StashKinds(module).run(); }

} // namespace dtc
