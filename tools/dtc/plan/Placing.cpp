#include "tools/dtc/plan/Placing.h"

#include "dialect/IR/Locations.h"
#include "dialect/IR/Names.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/choices/PipelineTimetable.h"
#include "passes/pipelines/Phases.h"
#include "runtime/config/training_config.h"
#include "runtime/support/error.h"

#include <fmt/format.h>

#include <cmath>

namespace dtc {

FirstError::FirstError(mlir::MLIRContext &context)
    : handler(&context, [this](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && first.empty()) {
          std::string place = placeOf(diagnostic.getLocation());
          first = (place.empty() ? "" : place + ": ") + diagnostic.str();
        }
        return mlir::success();
      }) {}

void FirstError::fail(mlir::ModuleOp module) const {
  std::string text = first.empty() ? "it cannot be compiled" : first;
  if (forgiveFailure(module))
    throw Error(ExitCode::Internal, "internal error: " + text);
  throw Error(ExitCode::BadInput, text);
}

bool forgiveFailure(mlir::ModuleOp module) {
  return static_cast<bool>(module->removeAttr(mlir::dt::module_attr::broken));
}

abi::Training settingsFor(const CompileRequest &request, int64_t microBatches) {
  std::vector<std::string> assignments = request.assignments;
  assignments.push_back(fmt::format("accumulation={}", microBatches));
  return readTraining(request.configFile, assignments);
}

void setOptionsFor(CompileOptions &options, const CompileRequest &request, const plans::Candidate &candidate,
                   const abi::Training &training) {
  CompileRequest own = request;
  own.mesh = candidate.meshText();
  own.strategy = candidate.strategyText();
  own.strategyText.clear();
  own.timetable = candidate.timetable;
  own.overlapSteps = false;
  own.memoryLimit = 0; // plans are compared with it, whether they fit or not
  own.layout = nullptr;
  setCompileOptions(options, own, training);
  options.choices.timetable = candidate.timetable; // whatever a file of choices says
  options.choices.overlapSteps = false;
  options.what.asynchronous = overlapsSteps(candidate.timetable);
  options.what.earlyUpdate = false;
}

std::unique_ptr<LogicalStep> stepOf(Model model, const CompileRequest &request, const plans::Candidate &candidate,
                                    const abi::Training &training) {
  auto step = std::make_unique<LogicalStep>();
  step->training = training;
  step->model = std::move(model);
  mlir::ModuleOp module = *step->model.module;
  CompileOptions options;
  setOptionsFor(options, request, candidate, training);
  FirstError errors(*module.getContext());
  mlir::FailureOr<double> flops = flopsPerToken(module);
  if (failed(flops) ||
      failed(runPhases(module, options, options.choices, Phase::What, Phase::What, /*isForProgram=*/true)))
    errors.fail(module);
  step->flopsPerToken = *flops;
  module.walk([&](mlir::Operation *) { ++step->operations; });
  return step;
}

abi::Mesh meshOf(const plans::Candidate &candidate) {
  abi::Mesh mesh;
  auto add = [&](const std::string &name, int64_t size) {
    abi::Axis &axis = *mesh.add_axes();
    axis.set_name(name);
    axis.set_size(size);
  };
  for (const plans::MeshAxis &axis : candidate.mesh)
    add(axis.name, axis.size);
  if (candidate.mesh.empty())
    add("dp", 1);
  return mesh;
}

/// The cluster with that share less memory.
static timing::Cluster withMargin(timing::Cluster cluster, double margin) {
  auto less = [&](uint64_t bytes) {
    return static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * (1 - margin)));
  };
  for (timing::Device &device : *cluster.mutable_devices())
    device.set_memory_bytes(less(device.memory_bytes()));
  for (timing::Nodes &nodes : *cluster.mutable_nodes())
    nodes.set_memory_bytes(less(nodes.memory_bytes()));
  return cluster;
}

std::unique_ptr<PlacedStep> placeStep(std::shared_ptr<LogicalStep> step, const CompileRequest &request,
                                      const timing::Cluster &cluster, double margin,
                                      const plans::Candidate &candidate) {
  auto placed = std::make_unique<PlacedStep>();
  placed->step = std::move(step);
  placed->mesh = meshOf(candidate);
  placed->layout.emplace(withMargin(cluster, margin), placed->mesh);
  for (int64_t rank = 1; rank < placed->layout->ranks(); ++rank)
    placed->isUneven |= placed->layout->deviceIndexOf(rank) != placed->layout->deviceIndexOf(0);
  setOptionsFor(placed->options, request, candidate, placed->step->training);
  placed->options.layout = &*placed->layout;
  mlir::ModuleOp module = *placed->step->model.module;
  FirstError errors(*module.getContext());
  placed->planner = Planner::place(module, placed->step->flopsPerToken, placed->options);
  if (!placed->planner)
    errors.fail(module);
  return placed;
}

bool hasStages(const plans::Candidate &candidate) {
  return candidate.sizeOf(std::string_view(mlir::dt::pipelineAxis)) > 1;
}

Choices choicesFor(PlacedStep &placed, const plans::Problem &problem, const plans::Candidate &candidate) {
  Choices choices = placed.options.choices;
  choices.timetable = candidate.timetable;
  std::optional<abi::Recompute> recompute = abi::parseRecompute(candidate.recompute);
  if (!recompute)
    throw Error(ExitCode::Internal, fmt::format("'{}' is no way to recompute", candidate.recompute));
  choices.recompute = {{"*", {{*recompute}}, ""}};
  if (!placed.isUneven || !hasStages(candidate) || overlapsSteps(candidate.timetable))
    return choices;
  FirstError errors(*placed.planner->context());
  mlir::FailureOr<std::optional<BalancedStages>> balanced =
      balanceStages(*placed.planner, choices, problem.memoryLimit, *placed.layout);
  if (failed(balanced))
    errors.fail(*placed.step->model.module);
  return *balanced ? (*balanced)->choices : choices;
}

} // namespace dtc
