#include "tools/dtc/plan/PlanFigures.h"

#include "passes/choices/PipelineTimetable.h"
#include "passes/pipelines/search/MemoryLack.h"
#include "passes/pipelines/search/PlannedStep.h"
#include "runtime/support/error.h"
#include "timing/events/forecast.h"
#include "tools/dtc/plan/PlanFloor.h"
#include "tools/dtc/plan/SurePasses.h"

#include <algorithm>

namespace dtc {

/// What memory a plan takes, and by how much that is too much. A limit is for arenas; devices and nodes also have room
/// for the scratch memory of kernels.
static void addMemory(Plan &plan, const PlacedStep &placed, const plans::Problem &problem,
                      plans::Evaluated &evaluated) {
  evaluated.lack = findMemoryLack(plan, placed.mesh, problem.memoryLimit, /*layout=*/nullptr).bytes;
  uint64_t most = 0;
  for (PlannedRole &role : plan.roles) {
    role.arena.bytes += plan.scratch;
    most = std::max(most, role.arena.bytes);
  }
  double lack = findMemoryLack(plan, placed.mesh, /*limit=*/0, &*placed.layout).bytes;
  for (PlannedRole &role : plan.roles)
    role.arena.bytes -= plan.scratch;
  evaluated.bytes = static_cast<double>(most);
  evaluated.lack = std::max(evaluated.lack, lack);
}

/// The parts of a step, as means over ranks: they add up to it.
static void addTimes(const timing::Forecast &forecast, plans::Evaluated &evaluated) {
  evaluated.seconds = forecast.seconds;
  evaluated.band = forecast.band;
  evaluated.compute = forecast.compute();
  evaluated.exposed = forecast.moving() + forecast.stolen();
  evaluated.bubble = forecast.idle();
  evaluated.host = forecast.host();
  evaluated.mfu = forecast.mfu();
  for (const timing::RankForecast &rank : forecast.ranks) {
    double sent = 0;
    for (double level : rank.sent)
      sent += level;
    evaluated.sent = std::max(evaluated.sent, sent);
  }
}

/// As timing::forecast has it, without what takes longer than the simulation: bounds and culprits.
static timing::Forecast forecastOf(const Plan &plan, const PlacedStep &placed, double modelFlops) {
  timing::Step step = plannedStep(plan, placed.mesh);
  timing::Simulator simulator(step, *placed.layout);
  timing::Simulated simulated = simulator.run();
  timing::Forecast forecast;
  forecast.seconds = simulated.seconds;
  forecast.band = placed.layout->cluster().uncertainty();
  forecast.ranks = timing::rankForecasts(step, simulator.classes(), simulated);
  forecast.peakFlops = timing::peakFlopsOf(step, *placed.layout, simulator.classes());
  forecast.modelFlops = modelFlops;
  return forecast;
}

/// Of a step among others that overlap with it.
static timing::Forecast forecastInARow(PlacedStep &placed, const Choices &choices, double modelFlops) {
  FirstError errors(*placed.planner->context());
  mlir::FailureOr<CompiledProgram> program = placed.planner->compile(choices, /*generateCode=*/false);
  if (failed(program))
    errors.fail(*placed.step->model.module);
  timing::Forecast forecast = timing::forecastStep(program->manifest, *placed.layout);
  forecast.modelFlops = modelFlops;
  return forecast;
}

plans::Evaluated evaluateChoices(PlacedStep &placed, const plans::Problem &problem, const plans::Candidate &candidate,
                                 const Choices &choices) {
  FirstError errors(*placed.planner->context());
  mlir::FailureOr<Plan> plan = placed.planner->plan(choices);
  if (failed(plan))
    errors.fail(*placed.step->model.module);
  plans::Evaluated evaluated;
  evaluated.candidate = candidate;
  addMemory(*plan, placed, problem, evaluated);
  double modelFlops = placed.step->flopsPerToken * problem.model.tokens();
  if (overlapsSteps(choices.timetable)) {
    addTimes(forecastInARow(placed, choices, modelFlops), evaluated);
    return evaluated;
  }
  evaluated.floor = floorOf(*plan, *placed.layout);
  addPasses(*plan, *placed.layout, placed.planner->mesh(), evaluated);
  addTimes(forecastOf(*plan, placed, modelFlops), evaluated);
  return evaluated;
}

uint64_t roomOfArena(const PlacedStep &placed, const plans::Problem &problem, uint64_t scratch) {
  auto room = static_cast<double>(problem.memoryLimit);
  for (int64_t rank = 0; rank < placed.layout->ranks(); ++rank) {
    double has = roomOfRank(rank, /*limit=*/0, *placed.layout);
    if (has == 0)
      continue;
    double left = std::max(1.0, has - static_cast<double>(scratch)); // 0 would be no limit
    room = room > 0 ? std::min(room, left) : left;
  }
  return static_cast<uint64_t>(room);
}

} // namespace dtc
