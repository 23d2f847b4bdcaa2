#include "timing/plans/pool.h"

#include "runtime/abi/recompute.h"
#include "runtime/support/error.h"
#include "timing/plans/relatives.h"
#include "timing/timetables/named.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

namespace dtc::plans {

void PruneCounts::add(size_t bound, double value) {
  PrunedBy &by = counts[bound];
  by.closest = by.candidates == 0 ? value : std::min(by.closest, value);
  ++by.candidates;
}

std::vector<PrunedBy> PruneCounts::list() const {
  constexpr std::array<std::string_view, 5> ofRelatives = {floorName, kernelsName, fewerName, lighterName, holdingName};
  std::vector<PrunedBy> list;
  for (size_t number = 0; number < counts.size(); ++number)
    if (PrunedBy by = counts[number]; by.candidates > 0) {
      by.bound = number < bounds().size() ? bounds()[number].name : ofRelatives[number - bounds().size()];
      list.push_back(by);
    }
  return list;
}

/// Where stages are: one a rank, several in a loop, or in a V; 0 without a pipeline. PipeDream, which has no entry in
/// the table of timetables, is a family of its own.
static int stagesOf(const Candidate &candidate) {
  const timetables::Named *named = timetables::findNamed(candidate.timetable);
  if (candidate.sizeOf("pp") == 1 || !named)
    return 0;
  return 2 * named->leastPerRank + (named->placement == timetables::Placement::V);
}

/// See PoolEntry::recomputes.
static uint8_t recomputesOf(const std::optional<abi::Recompute> &how) {
  using Kind = abi::Recompute::Kind;
  if (how && how->kind == Kind::None)
    return 0;
  return how && how->kind == Kind::Cheap ? 1 : 2;
}

Pool::Pool(const Problem &problem, const std::vector<Constraint> &constraints) : problem(problem), context(problem) {
  if (problem.devices < 1)
    return;
  BoundInputs inputs(context);
  forEachCandidate(problem, constraints, [&](const Candidate &candidate) {
    inputs.set(candidate);
    add(candidate, inputs);
  });
  findFewer();
}

void Pool::findFewer() {
  using AllButMicroBatches = std::tuple<uint32_t, bool, int, uint16_t, bool>;
  std::map<AllButMicroBatches, std::map<int64_t, uint32_t>> alike; // groups by micro-batches
  for (uint32_t group = 0; group < groups.size(); ++group) {
    auto [family, recompute, splits] = groups[group];
    auto [mesh, splitsSequence, microBatches, stages] = families[family];
    alike[{mesh, splitsSequence, stages, recompute, splits}][microBatches] = group;
  }
  fewer.resize(groups.size());
  for (const auto &[key, byMicroBatches] : alike)
    for (auto [many, group] : byMicroBatches)
      for (auto [few, other] : byMicroBatches)
        if (few < many && many % few == 0)
          fewer[group].push_back(other);
}

static bool areVariants(const Candidate &a, const Candidate &b) {
  return a.timetable == b.timetable && a.microBatches == b.microBatches && a.state == b.state &&
         a.splitsSequence == b.splitsSequence && a.mesh == b.mesh;
}

void Pool::begin(const Candidate &candidate, const BoundInputs &inputs) {
  last = candidate;
  splitsBackward = inputs.timetable && inputs.timetable->splitsBackward;
  shared = {};
  shared.family = families.numberOf(
      {meshes.numberOf(candidate.mesh), candidate.splitsSequence, candidate.microBatches, stagesOf(candidate)});
  shared.state = static_cast<uint16_t>(states.numberOf(candidate.state));
  shared.timetable = static_cast<uint16_t>(timetables.numberOf(candidate.timetable));
  shared.variant = static_cast<uint32_t>(variants.size());
  variants.push_back({static_cast<uint32_t>(entries.size()),
                      axes.numberOf({inputs.tp, inputs.cp, inputs.pp, inputs.dp}), Holding(inputs)});
}

void Pool::add(const Candidate &candidate, const BoundInputs &inputs) {
  ++considered;
  Least least = leastOf(inputs);
  if (inputs.room > 0 && least.bytes > inputs.room)
    return pruned.add(PruneCounts::numberOf(least.ofBytes), least.bytes);
  if (entries.size() == none)
    throw Error(ExitCode::BadInput, fmt::format("there are more than {} plans; fix some of their parts, as in --fix "
                                                "tp=8",
                                                entries.size()));
  if (!last || !areVariants(*last, candidate))
    begin(candidate, inputs);
  PoolEntry &entry = entries.emplace_back(shared);
  entry.bytes = least.bytes;
  entry.seconds = least.seconds;
  entry.expected = static_cast<float>(expectedSeconds(inputs));
  entry.bound = static_cast<uint8_t>(PruneCounts::numberOf(least.ofSeconds));
  entry.recompute = static_cast<uint16_t>(recomputations.numberOf(candidate.recompute));
  if (entry.recompute == recomputeKinds.size())
    recomputeKinds.push_back(Holding(inputs).recompute);
  entry.recomputes = recomputesOf(inputs.recompute);
  entry.group = groups.numberOf({entry.family, entry.recompute, splitsBackward});
}

std::array<uint32_t, 2> Pool::lighterThan(uint32_t number) const {
  std::array<uint32_t, 2> lighter = {none, none};
  const PoolEntry &entry = entries[number];
  for (uint32_t other = variants[entry.variant].first;
       other < entries.size() && entries[other].variant == entry.variant; ++other)
    if (entries[other].recomputes < entry.recomputes)
      lighter[entries[other].recomputes] = other;
  return lighter;
}

Holding Pool::holdingOf(uint32_t number) const {
  const PoolEntry &entry = entries[number];
  Holding holding = variants[entry.variant].holding;
  holding.recompute = recomputeKinds[entry.recompute];
  return holding;
}

Candidate Pool::candidateOf(uint32_t number) const {
  const PoolEntry &entry = entries[number];
  auto [mesh, splitsSequence, microBatches, stages] = families[entry.family];
  Candidate candidate;
  candidate.mesh = meshes[mesh];
  candidate.splitsSequence = splitsSequence;
  candidate.microBatches = microBatches;
  candidate.state = states[entry.state];
  candidate.timetable = timetables[entry.timetable];
  candidate.recompute = recomputations[entry.recompute];
  return candidate;
}

} // namespace dtc::plans
