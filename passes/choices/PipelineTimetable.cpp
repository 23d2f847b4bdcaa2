// The timetable of a pipeline, as a choice says it.
#include "passes/choices/PipelineTimetable.h"

#include "runtime/support/error.h"
#include "timing/timetables/check.h"
#include "timing/timetables/csv.h"
#include "timing/timetables/named.h"
#include "timing/timetables/pipedream.h"

#include <fmt/ranges.h>
#include <ranges>

namespace dtc {

using namespace timetables;

std::string findUnknownTimetable(std::string_view chosen) {
  if (isCsv(chosen) || findNamed(chosen) || overlapsSteps(chosen))
    return "";
  return fmt::format("timetable: there is no '{}'; there are {} and {}", chosen,
                     fmt::join(allNamed() | std::views::transform(&Named::name), ", "), pipedream::name);
}

bool overlapsSteps(std::string_view chosen) { return chosen == pipedream::name; }

std::string findOverlapMisfit(std::string_view chosen, const PipelineShape &shape) {
  if (shape.ranks < 2)
    return fmt::format("{} overlaps the steps of a pipeline, and there is none: give the mesh an axis pp, or leave the "
                       "timetable out",
                       chosen);
  if (shape.stages != 0 && shape.stages != shape.ranks)
    return fmt::format("{} takes one stage a rank, and there are {} stages on {} ranks: say how many layers each of {} "
                       "stages has",
                       chosen, shape.stages, shape.ranks, shape.ranks);
  if (shape.microBatches != 1)
    return fmt::format(
        "{} updates the parameters after each micro-batch, and a step has {} of them: set accumulation = "
        "1, and global_batch to what a micro-batch has",
        chosen, shape.microBatches);
  return "";
}

/// One that was read fits the program that it is for.
static void requireShape(const Timetable &timetable, const PipelineShape &shape) {
  auto require = [&](int64_t has, int64_t wanted, const char *what, const char *remedy) {
    if (has != wanted)
      throw Error(ExitCode::BadInput, fmt::format("{} has {} {}, and there are {}; {}", timetable.name, has, what, wanted,
                                                  remedy));
  };
  require(static_cast<int64_t>(timetable.ranks.size()), shape.ranks, "rows, one for each rank along the pipeline",
          "take as many rows as the mesh axis pp is long");
  require(timetable.microBatches, shape.microBatches, "micro-batches", "set accumulation to as many");
  if (shape.stages != 0)
    require(timetable.stages(), shape.stages, "stages", "say how many layers each of its stages has");
}

Timetable timetableFor(std::string_view chosen, const PipelineShape &shape) {
  Timetable timetable;
  if (isCsv(chosen)) {
    timetable = readCsv(chosen, "the timetable");
    if (std::string fault = findFault(timetable); !fault.empty())
      throw Error(ExitCode::BadInput, fmt::format("the timetable: {}", fault));
    requireShape(timetable, shape);
    return timetable;
  }
  if (std::string problem = findUnknownTimetable(chosen); !problem.empty())
    throw Error(ExitCode::BadInput, problem);
  const Named *named = findNamed(chosen);
  if (!named)
    throw Error(ExitCode::BadInput, fmt::format("{} has no step by itself: its steps overlap", chosen));
  if (shape.stages % shape.ranks != 0)
    throw Error(ExitCode::BadInput, fmt::format("{} stages on {} ranks: each rank takes equally many stages; say how many "
                                                "layers each of {} or {} stages has",
                                                shape.stages, shape.ranks, shape.ranks, 2 * shape.ranks));
  auto perRank = shape.stages == 0 ? named->leastPerRank : static_cast<int32_t>(shape.stages / shape.ranks);
  return generate(*named, {.ranks = static_cast<int32_t>(shape.ranks),
                           .stagesPerRank = perRank,
                           .microBatches = static_cast<int32_t>(shape.microBatches)});
}

std::string findSumsOutOfOrder(const Timetable &timetable) {
  if (std::string gradients = findWeightsOutOfOrder(timetable); !gradients.empty())
    return gradients;
  int32_t rank = timetable.rankOf.back(); // of the stage that computes losses
  const Entry *last = nullptr;
  for (const Entry &entry : timetable.ranks[static_cast<size_t>(rank)]) {
    if (entry.kind != Kind::Forward || entry.stage + 1 != timetable.stages())
      continue;
    if (last && last->microBatch > entry.microBatch)
      return fmt::format("rank {}: {} adds its loss after {}, not in ascending order of micro-batches", rank,
                         describe(entry), textOf(*last));
    last = &entry;
  }
  return "";
}

} // namespace dtc
