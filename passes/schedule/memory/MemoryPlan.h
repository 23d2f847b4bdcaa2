// Where every tensor of a module is in a rank's arena: the planner's answer (StepPlanner.h) in terms of the IR.
#pragma once

#include "passes/schedule/ReadStep.h"
#include "passes/schedule/StepPlanner.h"

#include "mlir/IR/BuiltinOps.h"

namespace dtc {

class MemoryPlan {
public:
  /// Plans the functions of one role (Stages.h) of a module in Form 5, whose operations are launches, library calls, views,
  /// collectives, transfers and waits. `kernels`: of the module, all described.
  static mlir::FailureOr<MemoryPlan> compute(mlir::ModuleOp module, Kernels &kernels, int64_t role,
                                             llvm::ArrayRef<mlir::func::FuncOp> functions);

  uint64_t arenaBytes() const { return planner->arena().bytes; }
  uint64_t sharedBegin() const { return planner->arena().shared; }
  uint64_t hostBytes() const { return planner->arena().host; }
  /// Spaces of several places; others have none.
  llvm::ArrayRef<PlacedSpace> spaces() const { return planner->arena().spaces; }
  Layouts &layoutsOf(mlir::func::FuncOp function) { return *read->functions[numberOf(function)].layouts; }
  /// Bytes from the arena's beginning to a tensor that functions hand to each other, and to a value with memory of its
  /// own.
  uint64_t offsetOf(mlir::dt::PortAttr port) const { return planner->offsetOfPort(ports.lookup(port.identity())); }
  uint64_t offsetOf(mlir::func::FuncOp function, mlir::Value root) const;

  struct AtThePeak {
    uint64_t bytes;
    mlir::Value value; ///< one of the values that the temporary holds
  };
  /// The temporaries alive when the most bytes are alive, the largest first.
  llvm::SmallVector<AtThePeak> atThePeak() const;

private:
  size_t numberOf(mlir::func::FuncOp function) const { return functions.lookup(function); }

  std::unique_ptr<ReadRole> read;
  std::unique_ptr<StepPlanner> planner;
  llvm::DenseMap<mlir::dt::PortIdentity, int> ports;
  llvm::DenseMap<mlir::Operation *, size_t> functions;
};

} // namespace dtc
