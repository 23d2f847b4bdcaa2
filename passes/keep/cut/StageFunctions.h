// The functions that one function of a step becomes when it is cut: the passes of each stage, and what each rank along
// the pipeline does once when these are done (exchanges and the update).
//
// What a pass reads reaches it in one of these ways:
//
//   made in it            as it is
//   on demand             made again
//   from an earlier pass  as a `stash` (StashKinds.h); where the stage received it, it is still there
//                         (views, and what kernels make on the way from one stored tensor or from small ones, are made
//                         again from these)
//   from another stage    along the stages between them: `sent` by each, `received` by the next; in the backward pass
//                         `sent_gradient` and `received_gradient`. Where it crosses a cut in parts (Crossings.h), each
//                         rank sends its slice, and the next stage gathers them where it reads the first
//
// What is done once reads what the passes return: a summand of each of the rank's stages.
//
// Where stages update by themselves (StageCut::asynchronous), parameters may have changed between the two passes. So a
// forward pass stashes the parameters that its backward pass reads, except in the last stage, where nothing comes
// between the two.
//
// Where ranks update early (StageCut::earlyUpdate), the step's count of tokens reaches each rank with the last
// micro-batch's gradient.
#pragma once

#include "passes/analysis/StoredValues.h"
#include "passes/keep/cut/Crossings.h"
#include "passes/keep/cut/StageHomes.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/Builders.h"

#include <compare>
#include <map>

namespace dtc {

class StageFunctions {
public:
  /// Adds to `parameters` the stages whose passes read each parameter. `gradients`: the stages that have a summand of
  /// each.
  StageFunctions(mlir::func::FuncOp original, const StageCut &cut, const StageHomes &homes, ParameterStages &parameters,
                 const ParameterStages &gradients, Crossings &crossings);

  /// Builds them before the original.
  mlir::LogicalResult build();

private:
  /// Weights: only where the backward pass is split; otherwise Backward computes both kinds of gradients.
  enum Pass { Forward, Backward, Weights, Once };
  /// A pass of a stage, or what a rank does once.
  struct Place {
    int64_t number; ///< of the stage, or of the rank
    Pass pass;
    auto operator<=>(const Place &) const = default;
  };
  /// A function under construction. It gets its type and attributes at the end, all at once.
  struct Part {
    mlir::func::FuncOp function;
    llvm::DenseMap<mlir::Value, mlir::Value> values, exchanged; ///< the original's, here
    llvm::DenseMap<mlir::Value, mlir::Value> pieces;            ///< of the original's: what was received of them
    llvm::DenseMap<mlir::dt::PortIdentity, mlir::Value> arguments;
    llvm::SmallVector<mlir::DictionaryAttr> argumentAttributes;
    llvm::SmallVector<mlir::Value> results;
    llvm::SmallVector<mlir::DictionaryAttr> resultAttributes;
    llvm::DenseSet<mlir::dt::PortIdentity> returned;
  };

  Pass passOf(mlir::Operation *op) const;
  void findWeights();
  Part &partOf(Place place);
  mlir::func::FuncOp makeFunction(Place place);
  Home homeAt(Place place, mlir::Value value) const;
  mlir::FailureOr<mlir::Value> get(mlir::Value value, Place place);
  mlir::FailureOr<mlir::Value> getFromElsewhere(mlir::Value value, Place place);
  mlir::FailureOr<mlir::Value> getFromEarlier(mlir::Value value, Place place, Pass earlier);
  mlir::FailureOr<mlir::Value> getStashedParameter(mlir::BlockArgument parameter, int64_t stage);
  mlir::FailureOr<mlir::Value> getFromPasses(mlir::Value value, int64_t rank);
  mlir::FailureOr<mlir::Value> getFromFirstStage(mlir::Value value, int64_t rank);
  mlir::DictionaryAttr shareOf(mlir::Value value);
  mlir::FailureOr<mlir::Value> getFromNeighbour(mlir::Value value, Place place, int64_t from);
  mlir::FailureOr<mlir::Value> getOperand(mlir::OpOperand &operand, Place place);
  bool isMadeOnTheWay(mlir::Operation *maker);
  mlir::Value missingParts(mlir::Operation *op, unsigned &index, Place place);
  bool isMissing(mlir::OpOperand &operand, Place place) const;
  mlir::OpOperand *onlySummand(mlir::Operation *op, Place place) const;
  mlir::Value addArgument(Part &part, mlir::Type type, mlir::DictionaryAttr attributes, mlir::Location loc);
  mlir::Value takeOver(Part &part, mlir::Value value, mlir::Type type, mlir::dt::PortKind kind);
  void handOn(Part &part, mlir::Value value, mlir::Value original, mlir::dt::PortKind kind);
  void addResult(Part &part, mlir::Value value, mlir::DictionaryAttr attributes);
  mlir::DictionaryAttr returnedAs(mlir::Value value, int64_t stage);
  mlir::DictionaryAttr ofStage(mlir::DictionaryAttr attributes, int64_t stage) const;
  mlir::LogicalResult clone(mlir::Operation *op, Place place);
  mlir::FailureOr<mlir::Value> contribution(mlir::Value value, int64_t rank, mlir::OpBuilder &builder);
  mlir::LogicalResult exchange(mlir::Value value);
  bool comesBackTo(mlir::OpOperand &result);
  mlir::LogicalResult returnAll();
  mlir::LogicalResult returnFromEachStage(mlir::OpOperand &result);
  void finish();
  /// Names of values, of which each has one.
  struct Names {
    llvm::DenseMap<mlir::Value, mlir::StringAttr> of;
    llvm::StringMap<int> uses; ///< of places in the model
  };
  static mlir::StringAttr nameOf(mlir::Value value, Names &names);
  mlir::Value zeros(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type);

  mlir::func::FuncOp original;
  mlir::dt::DutyAttr duty; ///< the original's
  const StageCut &cut;
  const StageHomes &homes;
  StoredValues stored; ///< of the original
  ParameterStages &parameters;
  const ParameterStages &gradients;
  Crossings &crossings;
  llvm::DenseSet<mlir::Operation *> weights; ///< of the original: what the pass Weights does
  std::map<Place, Part> parts;
  /// Of what passes hand on, and of what they leave for the end of the step: apart, so that what is handed on is called
  /// the same in all micro-batches. The passes of a micro-batch may belong to functions of different ones.
  Names handedOn, shares;
};

} // namespace dtc
