#include "timing/plans/relatives.h"

#include "timing/timetables/named.h"
#include "timing/timetables/simulate.h"

#include <algorithm>
#include <utility>

namespace dtc::plans {

void Relatives::add(const Evaluated &evaluated) {
  if (!evaluated.passes.empty())
    known.push_back({evaluated.busy, evaluated.passes});
}

double Relatives::busy() const {
  double most = 0;
  for (const Known &each : known)
    most = std::max(most, each.busy);
  return most;
}

double Relatives::stepOf(size_t number, const Candidate &candidate) {
  auto ranks = static_cast<int32_t>(candidate.sizeOf("pp"));
  const timetables::Named *named = timetables::findNamed(candidate.timetable);
  const std::vector<StagePasses> &passes = known[number].passes;
  if (ranks == 1 || !named || passes.size() != static_cast<size_t>(ranks) * static_cast<size_t>(named->leastPerRank))
    return 0;
  auto [entry, isNew] = steps.try_emplace({number, candidate.timetable});
  if (!isNew)
    return entry->second;
  timetables::Shape shape = {ranks, named->leastPerRank, static_cast<int32_t>(candidate.microBatches)};
  if (!timetables::findMisfit(*named, shape).empty())
    return 0;
  timetables::Costs costs;
  for (const StagePasses &each : passes)
    costs.stages.push_back({each.forward, each.input, each.weight, each.input + each.weight, 0, 0, 0});
  timetables::Timetable timetable = timetables::withSplitBackward(timetables::generate(*named, shape));
  for (std::vector<timetables::Entry> &rank : timetable.ranks)
    for (timetables::Entry &each : rank)
      each.withNext = false; // programs do co-scheduled entries one after the other
  return entry->second = timetables::stepSeconds(timetable, costs);
}

double Relatives::boundOf(const Candidate &candidate, double update) {
  constexpr double rounding = 1 - 1e-9; // sums in another order
  double most = known.empty() ? 0 : busy() + update;
  for (size_t number = 0; number < known.size(); ++number)
    most = std::max(most, stepOf(number, candidate));
  return rounding * most;
}

} // namespace dtc::plans
