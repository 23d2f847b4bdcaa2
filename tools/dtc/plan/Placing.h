// A model as candidates need it: after *what* for each number of micro-batches, and after *where* for each mesh and
// strategy.
#pragma once

#include "passes/pipelines/search/Planner.h"
#include "timing/plans/search.h"
#include "tools/dtc/CompileModel.h"

#include <memory>
#include <optional>
#include <string>

namespace dtc {

/// Keeps the first error that passes report; nothing is printed.
class FirstError {
public:
  explicit FirstError(mlir::MLIRContext &context);
  /// Throws Error with it, and says if the compiler itself is to blame. `module` is the one that failed.
  [[noreturn]] void fail(mlir::ModuleOp module) const;

private:
  std::string first;
  mlir::ScopedDiagnosticHandler handler;
};

/// Takes from a module that the compiler itself is to blame for a failure, and returns whether it said so: it is good
/// for other candidates, whose clones must not say it, too.
bool forgiveFailure(mlir::ModuleOp module);

/// A step over whole tensors.
struct LogicalStep {
  abi::Training training;
  Model model; ///< its module is after *what*
  double flopsPerToken = 0;
  int64_t operations = 0; ///< of the module
};

/// The settings with that many micro-batches. Throws Error where they do not fit together.
abi::Training settingsFor(const CompileRequest &request, int64_t microBatches);

/// What the phases are asked for. `request` is the user's, the rest the candidate's.
void setOptionsFor(CompileOptions &options, const CompileRequest &request, const plans::Candidate &candidate,
                   const abi::Training &training);

/// `model` is in Form 0. Throws Error. Only the candidate's micro-batches count, and whether its steps overlap.
std::unique_ptr<LogicalStep> stepOf(Model model, const CompileRequest &request, const plans::Candidate &candidate,
                                    const abi::Training &training);

/// A step on the ranks of a mesh.
struct PlacedStep {
  std::shared_ptr<LogicalStep> step;
  abi::Mesh mesh;
  CompileOptions options;
  /// Its devices and nodes have less memory by the share that is to stay free.
  std::optional<timing::Layout> layout;
  std::unique_ptr<Planner> planner; ///< refers to all the others
  bool isUneven = false;            ///< ranks have different devices
};

/// Throws Error where the mesh, the strategy or the cluster makes it impossible.
std::unique_ptr<PlacedStep> placeStep(std::shared_ptr<LogicalStep> step, const CompileRequest &request,
                                      const timing::Cluster &cluster, double margin,
                                      const plans::Candidate &candidate);

/// "dp=1" where there is no axis.
abi::Mesh meshOf(const plans::Candidate &candidate);

/// Whether it is a pipeline.
bool hasStages(const plans::Candidate &candidate);

/// The candidate's choices; all others are the request's. Where ranks have different devices, with the cut by costs.
Choices choicesFor(PlacedStep &placed, const plans::Problem &problem, const plans::Candidate &candidate);

} // namespace dtc
