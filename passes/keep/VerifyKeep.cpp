// dt-verify-keep: what the phases after this one rely on; the numbers are those of the pass's description.
#include "passes/keep/Passes.h"

#include "mlir/IR/Threading.h"

#include "dialect/IR/Marks.h"
#include "dialect/IR/Names.h"
#include "dialect/IR/Ops.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>

namespace dtc {
#define GEN_PASS_DEF_VERIFYKEEP
#include "passes/keep/Passes.h.inc"
} // namespace dtc

using namespace mlir;
using namespace mlir::dt;

namespace {

/// A port of a stage, and how functions of that stage have it.
struct Use {
  func::FuncOp function;
  Type type;
};
using Uses = std::map<std::tuple<int64_t, PortKind, StringRef>, Use>; // by stage, kind and name

struct VerifyKeep : dtc::impl::VerifyKeepBase<VerifyKeep> {
  void runOnOperation() override {
    taken.clear();
    made.clear();
    types.clear();
    auto functions = llvm::to_vector(getOperation().getOps<func::FuncOp>());
    if (failed(failableParallelForEach(&getContext(), functions, checkBody)))
      return signalPassFailure();
    for (func::FuncOp function : functions)
      if (failed(checkDuty(function)) || failed(collectPorts(function)))
        return signalPassFailure();
    if (failed(checkHandedOn()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  int64_t stages() {
    auto cut = getOperation()->getAttrOfType<ArrayAttr>(module_attr::stages);
    return cut ? static_cast<int64_t>(cut.size()) : 1;
  }

  static LogicalResult checkBody(func::FuncOp function) {
    bool hasMarks = llvm::any_of(function.front(), [](Operation &op) { return bool(marksOf(&op).direction); });
    for (Operation &op : function.front().without_terminator()) {
      if (isa<TagOp>(op))
        return op.emitOpError("K1: is only a name, which must not tell equal layers apart");
      if (hasMarks && !op.use_empty() && !op.hasTrait<OpTrait::ConstantLike>() && !marksOf(&op).direction)
        return op.emitOpError("K2: belongs to no part of the step; run dt-complete-marks");
    }
    return success();
  }

  LogicalResult checkDuty(func::FuncOp function) {
    DutyAttr duty = dutyOf(function);
    if (stages() == 1)
      return success();
    if (!duty || duty.getStage() < 0 || duty.getStage() >= stages())
      return function.emitError("K3: of a model in ") << stages() << " stages, does not say of which it is";
    if (duty.getTask() == Task::Both)
      return function.emitError("K3: does both passes of a micro-batch, between which other stages come");
    return success();
  }

  LogicalResult collectPorts(func::FuncOp function) {
    int64_t stage = dutyOf(function) ? dutyOf(function).getStage() : 0;
    auto add = [&](Uses &uses, PortAttr port, Type type) -> LogicalResult {
      if (!port || !port.isOfMicroBatch())
        return success();
      std::tuple key(stage, port.getKind(), port.getName().getValue());
      Type known = types.try_emplace(key, Use{function, type}).first->second.type;
      if (known != type)
        return function.emitError("K4: has the ")
               << port.describe() << " as " << type << ", another function of stage " << stage << " as " << known;
      uses.try_emplace(key, Use{function, type});
      return success();
    };
    for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
      if (failed(add(taken, argumentPort(function, index), type)))
        return failure();
    for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
      if (failed(add(made, resultPort(function, index), type)))
        return failure();
    return success();
  }

  /// Which stage must have made what a function takes: the same stage, or a neighbour.
  static std::optional<std::pair<int64_t, PortKind>> makerOf(PortKind kind, int64_t stage) {
    switch (kind) {
    case PortKind::Stash:
    case PortKind::WeightStash:
    case PortKind::GradientStash:
      return std::pair(stage, kind);
    case PortKind::Received:
      return std::pair(stage - 1, PortKind::Sent);
    case PortKind::ReceivedGradient:
      return std::pair(stage + 1, PortKind::SentGradient);
    default:
      return std::nullopt;
    }
  }

  LogicalResult checkHandedOn() {
    Uses needed;
    for (const auto &[key, use] : taken) {
      auto [stage, kind, name] = key;
      std::optional<std::pair<int64_t, PortKind>> maker = makerOf(kind, stage);
      if (!maker)
        continue;
      std::tuple wanted(maker->first, maker->second, name);
      auto found = made.find(wanted);
      if (found == made.end() || found->second.type != use.type)
        return func::FuncOp(use.function).emitError("K5: takes the ")
               << stringifyPortKind(kind) << " " << name << ", which stage " << maker->first
               << (found == made.end() ? " does not pass on" : " passes on with another type");
      needed.emplace(wanted, use);
    }
    for (const auto &[key, use] : made)
      if (!needed.contains(key))
        return func::FuncOp(use.function).emitError("K6: makes the ")
               << stringifyPortKind(std::get<1>(key)) << " " << std::get<2>(key) << ", which nobody takes";
    return success();
  }

  Uses taken, made, types;
};

} // namespace
