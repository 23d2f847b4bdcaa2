#include "timing/timetables/named.h"
#include "runtime/support/error.h"
#include "timing/timetables/families.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>

namespace dtc::timetables {

static std::string roundsMisfit(const Shape &shape) {
  int32_t rounds = std::max(1, shape.microBatches / shape.ranks);
  if (shape.microBatches % rounds == 0)
    return "";
  return fmt::format("interleaved takes {} micro-batches on {} ranks in {} rounds, which must be equally long: take {} "
                     "or {} micro-batches",
                     shape.microBatches, shape.ranks, rounds, shape.ranks * rounds, shape.ranks * (rounds + 1));
}

static std::string dualMisfit(const Shape &shape) {
  if (shape.microBatches >= 2 * shape.ranks)
    return "";
  return fmt::format("dualpipev takes at least as many micro-batches as there are stages, {}, and there are {}: take "
                     "more, or zbv",
                     2 * shape.ranks, shape.microBatches);
}

static constexpr int32_t any = std::numeric_limits<int32_t>::max();
static constexpr std::array<Named, 10> table = {{
    {"naive", Placement::Loop, 1, any, fillNaive, nullptr},
    {"gpipe", Placement::Loop, 1, any, fillGpipe, nullptr},
    {"1f1b", Placement::Loop, 1, 1, fillOneForwardOneBackward, nullptr},
    {"interleaved", Placement::Loop, 2, any, fillInterleaved, roundsMisfit},
    {"zb-h1", Placement::Loop, 1, 1, fillZeroBubbleH1, nullptr},
    {"zb-h2", Placement::Loop, 1, 1, fillZeroBubbleH2, nullptr},
    {"zbv", Placement::V, 2, 2, fillZeroBubbleV, nullptr},
    {"v-half", Placement::V, 2, 2, fillVHalf, nullptr},
    {"v-min", Placement::V, 2, 2, fillVMin, nullptr},
    {"dualpipev", Placement::V, 2, 2, fillDualPipeV, dualMisfit},
}};

std::span<const Named> allNamed() { return table; }

const Named *findNamed(std::string_view name) {
  const auto *found = std::ranges::find(table, name, &Named::name);
  return found == table.end() ? nullptr : found;
}

std::string findMisfit(const Named &named, const Shape &shape) {
  if (shape.ranks < 1 || shape.stagesPerRank < 1 || shape.microBatches < 1)
    return fmt::format("there are {} ranks with {} stages each, and {} micro-batches: take at least one of each",
                       shape.ranks, shape.stagesPerRank, shape.microBatches);
  constexpr int64_t mostPasses = int64_t(1) << 28;
  if (int64_t(shape.ranks) * shape.stagesPerRank > mostPasses / shape.microBatches)
    return fmt::format("{} ranks with {} stages each and {} micro-batches are more than the {} passes that a timetable "
                       "may have",
                       shape.ranks, shape.stagesPerRank, shape.microBatches, mostPasses);
  if (shape.stagesPerRank < named.leastPerRank || shape.stagesPerRank > named.mostPerRank) {
    std::string takes = named.leastPerRank == named.mostPerRank ? fmt::format("{}", named.leastPerRank)
                                                                : fmt::format("at least {}", named.leastPerRank);
    return fmt::format("{} takes {} stage{} a rank, and there {} {}", named.name, takes,
                       named.leastPerRank == 1 ? "" : "s", shape.stagesPerRank == 1 ? "is" : "are",
                       shape.stagesPerRank);
  }
  return named.misfit ? named.misfit(shape) : "";
}

Timetable generate(const Named &named, const Shape &shape) {
  std::string misfit = findMisfit(named, shape);
  if (!misfit.empty())
    throw Error(ExitCode::BadInput, misfit);
  Timetable timetable{std::string(named.name), shape.microBatches,
                      placeStages(named.placement, shape.ranks, shape.ranks * shape.stagesPerRank),
                      std::vector<std::vector<Entry>>(static_cast<size_t>(shape.ranks))};
  named.fill(timetable, shape);
  return timetable;
}

Timetable generate(std::string_view name, const Shape &shape) {
  const Named *named = findNamed(name);
  if (!named)
    throw Error(ExitCode::BadInput, fmt::format("there is no timetable '{}'", name));
  return generate(*named, shape);
}

} // namespace dtc::timetables
