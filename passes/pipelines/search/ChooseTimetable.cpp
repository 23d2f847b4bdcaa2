// Searches by the figures of stages, then simulates programs.
#include "passes/pipelines/search/ChooseTimetable.h"

#include "passes/choices/PipelineTimetable.h"
#include "passes/pipelines/search/BalanceStages.h"
#include "passes/pipelines/search/CommandSeconds.h"
#include "passes/pipelines/search/MemoryLack.h"
#include "passes/pipelines/search/PlannedStep.h"
#include "passes/schedule/Spaces.h"
#include "runtime/support/error.h"
#include "timing/cost/cost.h"
#include "timing/events/simulate.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/search.h"

#include "dialect/IR/Names.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>
#include <map>

using namespace mlir;

namespace dtc {

namespace {

/// Named timetables of a shape that are simulated.
constexpr size_t mostNamed = 2;

struct StageShape {
  timetables::Placement placement;
  int32_t perRank; ///< stages
  std::string_view text;
};
constexpr StageShape stageShapes[] = {{timetables::Placement::Loop, 1, "1 stage a rank"},
                                      {timetables::Placement::Loop, 2, "2 stages a rank in a loop"},
                                      {timetables::Placement::V, 2, "2 stages a rank in a V"}};

/// The lowest rank of each role.
std::vector<int64_t> firstRanks(const abi::Mesh &mesh, size_t roles) {
  std::vector<int> roleOf = rolesOfRanks(mesh, roles);
  std::vector<int64_t> first;
  for (size_t role = 0; role < roles; ++role)
    first.push_back(std::ranges::find(roleOf, static_cast<int>(role)) - roleOf.begin());
  return first;
}

/// Bytes of one place of a space on a rank, of its stage that needs the most there.
double placeOf(const FlatRole &role, Space space) {
  std::map<int64_t, double> bytes;
  for (const FlatPort &port : role.ports)
    if (port.isOfMicroBatch && port.spaces[0] == space)
      for (int64_t stage : port.stages.numbers())
        bytes[stage] += static_cast<double>(port.bytes);
  double most = 0;
  for (auto [stage, each] : bytes)
    most = std::max(most, each);
  return most;
}

/// Bytes of all places of all stashes.
double stashesIn(const ArenaExtent &arena) {
  double bytes = 0;
  for (const PlacedSpace &space : arena.spaces)
    if (spaceCategories[space.number] == stash)
      bytes += static_cast<double>(space.end() - space.base);
  return bytes;
}

/// Seconds of what the ranks send at most between two neighbours along the pipeline.
double transferSeconds(const Plan &plan, const std::vector<int64_t> &ranks, const timing::Layout &layout) {
  double bytes = 0, seconds = 0;
  for (const PlannedRole &planned : plan.roles)
    for (const FlatFunction &function : planned.role->functions)
      for (const FlatCommand &command : function.commands)
        if (command.kind == FlatCommand::Kind::Send && command.move >= 0)
          bytes = std::max(bytes, planned.role->moves[static_cast<size_t>(command.move)].payload);
  for (size_t role = 0; bytes > 0 && role + 1 < ranks.size(); ++role)
    seconds = std::max(
        seconds,
        timing::transferCost(layout.cluster(), layout.levelBetween(ranks[role], ranks[role + 1]), bytes).seconds);
  return seconds;
}

class TimetableSearch {
public:
  TimetableSearch(Planner &planner, const Choices &given, int64_t microBatches, uint64_t limit,
                  const timing::Layout &layout)
      : planner(planner), given(given), microBatches(microBatches), limit(limit), layout(layout), mesh(planner.mesh()) {
    for (const abi::Axis &axis : mesh.axes())
      if (axis.name() == mlir::dt::pipelineAxis)
        ranks = static_cast<int32_t>(axis.size());
    if (this->given.recompute.empty())
      this->given.recompute = {{"*", {{abi::Recompute{abi::Recompute::Kind::Full}}}, ""}};
  }

  FailureOr<ChosenTimetable> run() {
    std::string problem;
    {
      ScopedDiagnosticHandler keep(planner.context(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error && problem.empty())
          problem = diagnostic.str();
        return success();
      });
      for (const StageShape &shape : stageShapes)
        tryShape(shape);
    }
    if (best.simulated == 0)
      return planner.emitError() << "--timetable auto: no timetable can be planned"
                                 << (problem.empty() ? "" : ": " + problem);
    if (best.text.empty())
      return planner.emitError() << "--timetable auto: none of the " << best.simulated
                                 << " timetables that were tried fits into the memory; the least lacks "
                                 << static_cast<uint64_t>(leastLack)
                                 << " bytes; more accumulation makes micro-batches smaller, and with more ranks each "
                                    "holds less";
    return std::move(best);
  }

private:
  timetables::Shape shapeOf(const StageShape &shape) const {
    return {ranks, shape.perRank, static_cast<int32_t>(microBatches)};
  }

  /// With backward passes in two, and few micro-batches under way where there is such a timetable.
  Choices plainChoices(const StageShape &shape) const {
    timetables::Timetable plain =
        timetables::generate(shape.placement == timetables::Placement::V ? "zbv" : "naive", shapeOf(shape));
    Choices choices = given;
    choices.timetable = timetables::writeCsv(withSplitBackward(plain));
    return choices;
  }

  void tryShape(const StageShape &shape) {
    auto stages = static_cast<size_t>(ranks) * static_cast<size_t>(shape.perRank);
    Choices plain = plainChoices(shape);
    if ((!given.layers.empty() && given.layers.size() != stages) || planner.layers(plain).size() < stages)
      return;
    FailureOr<std::optional<BalancedStages>> balanced = balanceStages(planner, plain, limit, layout);
    if (failed(balanced))
      return;
    if (*balanced)
      plain.layers = (*balanced)->chosen.layers;
    FailureOr<PlannedCut> cut = planner.cut(plain);
    if (failed(cut) || cut->layers.size() != stages)
      return;
    plain.layers = cut->layers; // named timetables then have as many stages
    FailureOr<Plan> plan = planner.plan(plain);
    if (failed(plan))
      return;
    timetables::Costs costs = timetableCosts(*plan, cut->rankOf, mesh, layout);
    std::optional<double> room = roomForStashes(*plan);
    for (std::string_view name : fastestNamed(shape, costs, room))
      simulate(plain, std::string(name), std::string(name), /*isNamed=*/true);
    tryFound(shape, plain, costs, room);
  }

  /// What remains for stashes on the rank with the least; nothing: there is no limit.
  std::optional<double> roomForStashes(const Plan &plan) const {
    std::optional<double> least;
    for (auto [rank, planned] : llvm::zip_equal(firstRanks(mesh, plan.roles.size()), plan.roles)) {
      double room = roomOfRank(rank, limit, layout);
      if (room == 0)
        continue;
      double others = static_cast<double>(planned.arena.bytes) - stashesIn(planned.arena);
      least = std::min(least.value_or(std::numeric_limits<double>::infinity()), std::max(0.0, room - others));
    }
    return least;
  }

  /// 1f1b always: it is what others are compared with.
  std::vector<std::string_view> fastestNamed(const StageShape &shape, const timetables::Costs &costs,
                                             std::optional<double> room) const {
    std::vector<std::pair<double, std::string_view>> fitting;
    for (const timetables::Named &named : timetables::allNamed()) {
      if (named.placement != shape.placement || !timetables::findMisfit(named, shapeOf(shape)).empty())
        continue;
      timetables::Timetable timetable = timetables::generate(named, shapeOf(shape));
      if (!room || std::ranges::max(timetables::peakMemory(timetable, costs)) <= *room)
        fitting.push_back({timetables::stepSeconds(timetable, costs), named.name});
    }
    std::ranges::sort(fitting);
    std::vector<std::string_view> names;
    for (auto [seconds, name] : fitting)
      if (names.size() < mostNamed)
        names.push_back(name);
    if (shape.perRank == 1 && !llvm::is_contained(names, "1f1b"))
      names.push_back("1f1b");
    return names;
  }

  /// The plan of a timetable that was found may take somewhat more than figures say: then once more, with less.
  void tryFound(const StageShape &shape, const Choices &plain, const timetables::Costs &costs,
                std::optional<double> room) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      timetables::SearchRequest request{ranks, static_cast<int32_t>(microBatches), costs, room};
      double lack = 0;
      try {
        timetables::SearchResult found = timetables::searchTimetable(request);
        if (!found.bestNamed.empty() && found.seconds >= found.namedSeconds)
          return;
        lack = simulate(plain, timetables::writeCsv(found.timetable), "found by search, " + std::string(shape.text),
                        /*isNamed=*/false);
      } catch (const Error &) {
        return; // nothing can keep the limit
      }
      if (lack == 0 || !room || *room <= lack)
        return;
      *room -= lack;
    }
  }

  /// Returns the bytes that it lacks.
  double simulate(Choices choices, std::string timetable, std::string text, bool isNamed) {
    choices.timetable = std::move(timetable);
    FailureOr<Plan> plan = planner.plan(choices);
    if (failed(plan))
      return 0;
    ++best.simulated;
    if (double lack = findMemoryLack(*plan, mesh, limit, &layout).bytes; lack > 0) {
      leastLack = std::min(leastLack, lack);
      return lack;
    }
    double seconds = timing::simulate(plannedStep(*plan, mesh), layout).seconds;
    if (isNamed && (best.bestNamed.empty() || seconds < best.namedSeconds)) {
      best.bestNamed = text;
      best.namedSeconds = seconds;
    }
    if (best.text.empty() || seconds < best.seconds) {
      best.choices = std::move(choices);
      best.text = std::move(text);
      best.seconds = seconds;
    }
    return 0;
  }

  Planner &planner;
  Choices given;
  int64_t microBatches;
  uint64_t limit;
  const timing::Layout &layout;
  const abi::Mesh mesh;
  int32_t ranks = 1; ///< along the pipeline
  double leastLack = std::numeric_limits<double>::infinity();
  ChosenTimetable best;
};

} // namespace

timetables::Costs timetableCosts(const Plan &plan, const std::vector<int64_t> &rankOf, const abi::Mesh &mesh,
                                 const timing::Layout &layout) {
  timetables::Costs costs;
  costs.stages.assign(rankOf.size(), {0, 0, 0, 0, 0, 0, 0});
  std::vector<int64_t> first = firstRanks(mesh, plan.roles.size());
  for (auto [number, planned] : llvm::enumerate(plan.roles)) {
    const FlatRole &role = *planned.role;
    CommandSeconds seconds(layout.deviceOf(first[number]), &layout, mesh);
    for (auto [function, runs] : llvm::zip_equal(role.functions, runsOfFunctions(role)))
      for (const FlatCommand &command : function.commands) {
        timetables::StageCosts &stage = costs.stages[static_cast<size_t>(function.stage)];
        double each = runs * seconds.ofCommand(role, command);
        if (command.direction == abi::FORWARD)
          stage.forward += each;
        else if (command.direction == abi::INPUT_GRADIENT)
          stage.input += each;
        else if (command.direction == abi::WEIGHT_GRADIENT)
          stage.weight += each;
      }
    for (auto [stage, rank] : llvm::enumerate(rankOf))
      if (rank == static_cast<int64_t>(number)) {
        costs.stages[stage].stashForWeight = placeOf(role, weightStashSpace);
        costs.stages[stage].stash = placeOf(role, stashSpace) + costs.stages[stage].stashForWeight;
        costs.stages[stage].gradientStash = placeOf(role, gradientStashSpace);
      }
  }
  for (timetables::StageCosts &stage : costs.stages)
    stage.backward = stage.input + stage.weight;
  costs.transfer = transferSeconds(plan, first, layout);
  return costs;
}

FailureOr<ChosenTimetable> chooseTimetable(Planner &planner, const Choices &given, int64_t microBatches, uint64_t limit,
                                           const timing::Layout &layout) {
  FailureOr<ChosenTimetable> chosen = TimetableSearch(planner, given, microBatches, limit, layout).run();
  if (succeeded(chosen))
    chosen->choices.recompute = given.recompute;
  return chosen;
}

} // namespace dtc
