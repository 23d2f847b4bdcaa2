// The planner: what a program's lists, memory and work would be, for any choices, without making the program.
//
// A module is taken through *what* and *where* once. Each answer works on a clone of it, so that none leaves anything
// behind, and generates no code. What choices of stages and gathers lead to is lowered and kept as plain numbers
// (passes/schedule/FlatStep.h) for as long as somebody has a plan of it, and for a while after: a plan with another
// order of the same commands then touches no IR. compile() goes the same way.
#pragma once

#include "passes/pipelines/Compile.h"
#include "passes/schedule/StepPlanner.h"

#include "mlir/IR/OwningOpRef.h"

#include <deque>
#include <map>
#include <memory>
#include <set>

namespace dtc {

/// What the commands of one part of a step cost a rank.
struct PlannedWork {
  double flops = 0, bytesRead = 0, bytesWritten = 0;
  double sent = 0; ///< bytes to other ranks, in collectives
  PlannedWork &operator+=(const PlannedWork &other);
};

/// What the ranks of one stage would do, and in which memory.
struct PlannedRole {
  std::shared_ptr<const FlatRole> role; ///< together with all others of its step
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
  size_t stage; ///< the role that has it: of ranks with several stages
  int64_t number = 0; ///< in its list
};

/// How the layers are cut into stages.
struct PlannedCut {
  std::vector<int64_t> rankOf; ///< of each stage: its rank along the pipeline
  std::vector<int64_t> layers; ///< of each stage; none where the choices or the strategy say what cannot be
  bool isSaid = false;         ///< the choices or the strategy say it
};

struct Plan {
  std::vector<PlannedRole> roles;
  std::vector<ParameterRule> rows; ///< what was decided where Choices::rows left it open
  std::vector<BucketRule> buckets; ///< all that go together, by choice or by costs
  uint64_t scratch = 0;            ///< bytes outside the arena in which kernels work, one after the other
};

class Planner {
public:
  /// Clones `model`, which is in Form 0, and takes the clone through *what* and *where*. Null after errors, which are
  /// diagnostics of the module's context; if the compiler itself is to blame, `model` gets `dt.broken`, the only trace
  /// left on it. Both must outlive the planner.
  static std::unique_ptr<Planner> create(mlir::ModuleOp model, const CompileOptions &options);

  /// Likewise for a module after *what*, so that many meshes and strategies share one. `flopsPerToken`: of the model
  /// that it was made from (Compile.h).
  static std::unique_ptr<Planner> place(mlir::ModuleOp step, double flopsPerToken, const CompileOptions &options);

  /// The plan with these choices. The options' choices do not count. The contracts of *keep* and *how* are checked only
  /// once a program is compiled.
  mlir::FailureOr<Plan> plan(const Choices &choices);

  /// Lets go of what was lowered for earlier plans, but for plans that somebody has.
  void forget();

  /// The mesh of the module after *where*.
  abi::Mesh mesh();
  /// Whether parameters are stored in pieces and gathered, so that there is a choice of how far ahead.
  bool gathersState();
  mlir::MLIRContext *context() { return model.getContext(); }
  /// The layers in the order of the forward pass. Only the choices about stages count.
  std::vector<PlannedLayer> layers(const Choices &choices) const;
  /// Likewise; fails, with a diagnostic, where there is no such timetable.
  mlir::FailureOr<PlannedCut> cut(const Choices &choices) const;
  /// Lists of layers that gather parameters of their own for which these choices do not say how.
  std::set<std::string> gatheringLists(const Choices &choices) const;

  /// The module as *keep* has it when it decides what is recomputed.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> beforeRecompute(const Choices &choices);

  /// Emits an error about the model and what was requested for it.
  mlir::InFlightDiagnostic emitError() { return model.emitError(); }

  /// The same through the IR, to the end. With `isLast` the planner cannot be used afterwards: this saves a clone, and
  /// takeLast() returns the final module.
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
    uint64_t scratch = 0;
    size_t commands() const;
  };

  Planner(mlir::ModuleOp model, const CompileOptions &options);
  bool runPlacing(Phase first);
  mlir::LogicalResult check(const Choices &choices);
  mlir::OwningOpRef<mlir::ModuleOp> stagesFor(const Choices &choices) const;
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> lower(const Choices &choices, bool isLast, bool isForProgram);
  mlir::FailureOr<std::shared_ptr<Step>> stepFor(const Choices &choices);
  void remember(std::shared_ptr<Step> step);
  mlir::LogicalResult markBroken(mlir::ModuleOp clone);

  mlir::ModuleOp model;
  const CompileOptions &options;
  mlir::OwningOpRef<mlir::ModuleOp> placed; ///< after *where*; in the end, after all phases
  double flopsPerToken = 0;
  /// By choices without the order: steps that have plans, and those remembered.
  std::map<std::string, std::weak_ptr<Step>> steps;
  /// The last steps: a search with another memory limit needs most of them again.
  std::deque<std::shared_ptr<Step>> remembered;
  size_t commandsRemembered = 0;
};

} // namespace dtc
