// The functions that one function of a step becomes when it is cut: each stage's forward and backward pass.
//
// What a pass reads reaches it in one of these ways:
//
//   made in it            as it is
//   on demand             made again
//   from the forward pass as a `stash`; where the stage received it, it is still there
//                         (views, and what kernels make on the way from one stored tensor, are made again from that)
//   from another stage    along the stages between them: `sent` by each, `received` by the next; in the backward pass
//                         `sent_gradient` and `received_gradient`
#pragma once

#include "passes/analysis/StoredValues.h"
#include "passes/keep/StageHomes.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/Builders.h"

#include <map>

namespace dtc {

class StageFunctions {
public:
  /// Adds to `parameters` the stages whose passes read each parameter.
  StageFunctions(mlir::func::FuncOp original, const StageCut &cut, const StageHomes &homes,
                 ParameterStages &parameters);

  /// Builds them before the original.
  mlir::LogicalResult build();

private:
  enum Pass { Forward, Backward };
  /// A pass of a stage, under construction.
  struct Part {
    mlir::func::FuncOp function;
    llvm::DenseMap<mlir::Value, mlir::Value> values, exchanged; ///< the original's, here
    llvm::DenseMap<mlir::dt::PortIdentity, mlir::Value> arguments;
    llvm::SmallVector<mlir::Value> results;
    llvm::SmallVector<mlir::DictionaryAttr> resultAttributes;
    llvm::DenseSet<mlir::dt::PortIdentity> returned;
  };

  static Pass passOf(mlir::Operation *op) { return isForward(op) ? Forward : Backward; }
  bool hasPasses() const { return duty.getTask() == mlir::dt::Task::Both; }
  Part &partOf(int64_t stage, Pass pass);
  mlir::FailureOr<mlir::Value> get(mlir::Value value, int64_t stage, Pass pass);
  mlir::FailureOr<mlir::Value> getFromElsewhere(mlir::Value value, int64_t stage, Pass pass);
  mlir::FailureOr<mlir::Value> getFromForward(mlir::Value value, int64_t stage);
  bool isMadeOnTheWay(mlir::Operation *maker);
  mlir::FailureOr<mlir::Value> getFromNeighbour(mlir::Value value, int64_t stage, int64_t from, Pass pass);
  mlir::FailureOr<mlir::Value> getOperand(mlir::OpOperand &operand, int64_t stage, Pass pass);
  mlir::Value missingParts(mlir::Operation *op, unsigned &index, int64_t stage, Pass pass);
  bool isMissing(mlir::OpOperand &operand, int64_t stage) const;
  mlir::OpOperand *onlySummand(mlir::Operation *op, int64_t stage) const;
  mlir::Value addArgument(Part &part, mlir::Type type, mlir::DictionaryAttr attributes, mlir::Location loc);
  mlir::Value takeOver(Part &part, mlir::Value value, mlir::dt::PortKind kind);
  void handOn(Part &part, mlir::Value value, mlir::Value original, mlir::dt::PortKind kind);
  void addResult(Part &part, mlir::Value value, mlir::DictionaryAttr attributes);
  mlir::LogicalResult clone(mlir::Operation *op, int64_t stage, Pass pass);
  mlir::FailureOr<mlir::Value> contribution(mlir::Value value, int64_t stage, mlir::OpBuilder &builder);
  mlir::LogicalResult exchange(mlir::Value value);
  mlir::LogicalResult returnAll();
  void finish();
  mlir::StringAttr nameOf(mlir::Value value);
  mlir::Value zeros(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type);

  mlir::func::FuncOp original;
  mlir::dt::DutyAttr duty; ///< the original's
  const StageCut &cut;
  const StageHomes &homes;
  StoredValues stored; ///< of the original
  ParameterStages &parameters;
  std::map<std::pair<int64_t, Pass>, Part> parts;
  llvm::DenseMap<mlir::Value, mlir::StringAttr> names; ///< of what is handed on
  llvm::StringMap<int> uses;                           ///< of names
};

} // namespace dtc
