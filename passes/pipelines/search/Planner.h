// The planner: what a program's lists, memory and work would be, for any choices, without making the program.
//
// A module is taken through *what* and *where* once. Each answer works on a clone of it, so that none leaves anything
// behind, and generates no code. What choices of stages and gathers lead to is lowered and kept as plain numbers
// (passes/schedule/FlatStep.h) for as long as somebody has a plan of it, or a while: of another order of the same
// commands a plan then touches no IR. compile() goes the same way.
#pragma once

#include "passes/pipelines/Compile.h"
#include "passes/schedule/StepPlanner.h"

#include "mlir/IR/OwningOpRef.h"

#include <deque>
#include <map>
#include <memory>
#include <set>

namespace dtc {

/// What commands of one part of a step cost a rank.
struct PlannedWork {
  double flops = 0, bytesRead = 0, bytesWritten = 0;
  double sent = 0; ///< bytes to other ranks, in collectives
  PlannedWork &operator+=(const PlannedWork &other);
};

/// What the ranks of one stage would do, and in which memory.
struct PlannedRole {
  std::shared_ptr<const FlatRole> role; ///< with all others of its step
  std::vector<FlatOrder> orders;        ///< of the commands of each function
  ArenaExtent arena;
  std::vector<std::pair<std::string, uint64_t>> memory; ///< bytes by category, as in the manifest
  std::vector<uint64_t> portOffsets;                    ///< of each port
  std::vector<std::vector<uint64_t>> offsets;           ///< of each function's values
  std::map<abi::Direction, PlannedWork> work;           ///< of a training step
};

/// A layer of the model.
struct PlannedLayer {
  std::string list; ///< "h"
  size_t stage;
};

struct Plan {
  std::vector<PlannedRole> roles;
  std::vector<ParameterRule> rows; ///< what Choices::rows left open, as it was decided
  std::vector<BucketRule> buckets; ///< all that go together, by choice or by costs
};

class Planner {
public:
  /// Clones `model`, which is in Form 0, and takes the clone through *what* and *where*. Null after errors, which are
  /// diagnostics of the module's context; where the compiler itself is to blame, `model` has `dt.broken`, the only
  /// trace that is left on it. Both outlive the planner.
  static std::unique_ptr<Planner> create(mlir::ModuleOp model, const CompileOptions &options);

  /// What these choices lead to. Of the options' choices none counts. The contracts of *keep* and *how* are checked
  /// only once a program is compiled.
  mlir::FailureOr<Plan> plan(const Choices &choices);

  /// Of the module after *where*.
  abi::Mesh mesh();
  /// Whether parameters are stored in pieces and gathered, so that how far ahead is a choice.
  bool gathersState();
  mlir::MLIRContext *context() { return model.getContext(); }
  /// In the order of the forward pass. Of the choices those of stages count.
  std::vector<PlannedLayer> layers(const Choices &choices) const;
  /// Lists of layers that gather parameters of their own of which these choices do not say how.
  std::set<std::string> gatheringLists(const Choices &choices) const;

  /// The module as *keep* has it when it decides what is computed again.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> beforeRecompute(const Choices &choices);

  /// Emits an error that blames the model and what was asked of it.
  mlir::InFlightDiagnostic emitError() { return model.emitError(); }

  /// The same by way of the IR, to the end. With `isLast` the planner is of no use afterwards: a clone is saved, and
  /// takeLast() gives the module as it is then.
  mlir::FailureOr<CompiledProgram> compile(const Choices &choices, bool generateCode, bool isLast = false);
  mlir::OwningOpRef<mlir::ModuleOp> takeLast() { return std::move(placed); }

private:
  /// One stage of what was lowered.
  struct Role {
    explicit Role(FlatRole read) : flat(std::move(read)), planner(flat) {}
    FlatRole flat;
    StepPlanner planner;
  };
  struct Step {
    std::vector<std::unique_ptr<Role>> roles;
    std::vector<ParameterRule> rows; ///< see Plan
    std::vector<BucketRule> buckets;
    size_t commands() const;
  };

  Planner(mlir::ModuleOp model, const CompileOptions &options);
  mlir::LogicalResult check(const Choices &choices);
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> lower(const Choices &choices, bool isLast, bool isForProgram);
  mlir::FailureOr<std::shared_ptr<Step>> stepFor(const Choices &choices);
  void remember(std::shared_ptr<Step> step);
  mlir::LogicalResult markBroken(mlir::ModuleOp clone);

  mlir::ModuleOp model;
  const CompileOptions &options;
  mlir::OwningOpRef<mlir::ModuleOp> placed; ///< after *where*; in the end, after all
  double flopsPerToken = 0;
  /// By choices but for the order: those of which there are plans, and those remembered.
  std::map<std::string, std::weak_ptr<Step>> steps;
  /// The last ones: a search with another limit of memory needs most of them again.
  std::deque<std::shared_ptr<Step>> remembered;
  size_t commandsRemembered = 0;
};

} // namespace dtc
