// On which stages of a pipeline each value of a function is computed.
//
//   layers      an operation of a layer belongs to the stage of its layer
//   forward     outside the layers: to the last of the stages that made its operands (the head), else to the first (the
//               embeddings)
//   backward    outside the layers: to the first of the stages that made its operands
//   update      done once a step, so it belongs to ranks along the pipeline, which may have several stages each: to
//               those that have its operands (those of a parameter), or to all
//   on demand   what depends on parameters alone, or on what the host fills alone (masks, conversions, random numbers),
//               belongs to nobody: who reads it makes it
//
// Where a sum joins what several stages have, each of them has a summand: the value is partial over these stages.
// Examples are the gradient of a parameter that several stages read (tied embeddings) and a vector of all parameters'
// norms. What is linear in a partial value stays partial; whatever else reads one reads the result of an exchange
// between the ranks. Exchanges come after the passes, when all stages are done with the step's last micro-batch.
//
// Where stages update by themselves (PipeDream), their passes for one step are far apart in time. Then nothing that all
// gradients are needed for exists. What the last stage's forward pass makes for after the passes (loss and tokens) goes
// back through all stages with the gradients, and is exchanged once the first stage has it.
#pragma once

#include "passes/analysis/StageSet.h"

#include "dialect/IR/Marks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace dtc {

/// How the model's layers are cut into stages, and which rank along the pipeline has which.
struct StageCut {
  llvm::SmallVector<int64_t> rankOf = {0}; ///< of each stage
  int64_t ranks = 1;
  bool splitsBackward = false; ///< gradients of inputs and of weights are computed in passes of their own
  bool asynchronous = false;   ///< each stage updates by itself after each backward pass
  bool earlyUpdate = false;    ///< ranks update before they know what the others have
  llvm::MapVector<mlir::dt::LayerAttr, int64_t> stageOf;

  int64_t stages() const { return static_cast<int64_t>(rankOf.size()); }
  StageSet allStages() const { return StageSet::below(stages()); }
  StageSet allRanks() const { return StageSet::below(ranks); }
  /// The ranks that have these stages.
  StageSet ranksOf(StageSet stages) const;
  /// The stages of a rank.
  StageSet stagesOf(int64_t rank) const;
};

/// The stages that have each parameter.
using ParameterStages = llvm::DenseMap<mlir::StringAttr, StageSet>;

struct Home {
  StageSet where = {};  ///< stages, or ranks for what is done once a step; none: it is made on demand, ...
  bool ofState = false; ///< ... from parameters or gradients, ...
  bool ofInput = false; ///< ... or from what the host fills
  bool partial = false; ///< each of them has a summand
  bool isOnDemand() const { return where.isEmpty(); }
};

/// Whether an operation belongs to the forward pass, as do those without a direction.
bool isForward(mlir::Operation *op);
/// Whether it is done once a step, with all gradients.
bool isUpdate(mlir::Operation *op);

class StageHomes {
public:
  /// `parameters`: used where operations of the update read them. `gradients`: the stages that have a summand of each,
  /// as the function that begins the sum returned them; a function that continues it takes them so. All must outlive
  /// this object.
  StageHomes(const StageCut &cut, const ParameterStages &parameters, ParameterStages &gradients)
      : cut(cut), parameters(parameters), gradients(gradients) {}

  /// Places all operations; emits an error where one reads what no stage has together.
  mlir::LogicalResult place(mlir::func::FuncOp function);

  /// The home before an exchange.
  Home of(mlir::Operation *op) const { return homes.lookup(op); }
  /// Whether an operation belongs to a pass of a stage: of the update, what only moves or converts one gradient does.
  bool isOfPasses(mlir::Operation *op) const { return !isUpdate(op) || early.contains(op); }
  /// The home of what a pass takes or makes, in stages; of what is done once a step, in ranks.
  Home of(mlir::Value value) const;
  /// The same in ranks, whoever made it.
  Home amongRanks(mlir::Value value) const;
  /// Whether what is done after the passes has the value from the first stage, whichever has made it.
  bool comesBack(mlir::Value value) const;
  /// The ranks that have a result after an exchange; empty where there is none.
  StageSet exchangedOver(mlir::Value value) const { return exchanged.lookup(value); }
  /// Whether an operation, or the return, reads the result of this operand's exchange.
  bool readsExchanged(mlir::OpOperand &operand) const { return fromExchange.contains(&operand); }

private:
  bool isEarly(mlir::Operation *op) const;
  Home homeFor(mlir::OpOperand &operand, mlir::dt::Direction reader);
  Home homeOfArgument(mlir::dt::PortAttr port, mlir::dt::Direction reader) const;
  Home placeOnDemand(mlir::Operation *op, llvm::ArrayRef<Home> operands) const;
  void convertBeforeCut(mlir::Operation *op) const;
  mlir::FailureOr<Home> placeOperation(mlir::Operation *op);
  mlir::FailureOr<Home> join(mlir::Operation *op, llvm::ArrayRef<Home> operands, StageSet all);
  void exchangeReturned(mlir::Operation *op);

  const StageCut &cut;
  const ParameterStages &parameters;
  ParameterStages &gradients;
  llvm::DenseMap<mlir::Operation *, Home> homes;
  llvm::DenseSet<mlir::Operation *> early; ///< of the update, in passes
  llvm::DenseMap<mlir::Value, StageSet> exchanged;
  llvm::DenseSet<mlir::OpOperand *> fromExchange;
};

} // namespace dtc
