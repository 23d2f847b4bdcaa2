#include "timing/timetables/simulate.h"
#include "timing/timetables/walk.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dtc::timetables {

Costs equalCosts(int32_t stages, double forward, double input, double weight, double transfer) {
  StageCosts each;
  each.forward = forward;
  each.input = input;
  each.weight = weight;
  each.backward = input + weight;
  Costs costs;
  costs.stages.assign(static_cast<size_t>(stages), each);
  costs.transfer = transfer;
  return costs;
}

double Simulated::meanWork() const {
  return work.empty() ? 0 : std::accumulate(work.begin(), work.end(), 0.0) / static_cast<double>(work.size());
}

static double secondsOf(const Entry &entry, const Costs &costs) {
  const StageCosts &stage = costs.stages[static_cast<size_t>(entry.stage)];
  switch (entry.kind) {
  case Kind::Forward:
    return stage.forward;
  case Kind::Backward:
    return stage.backward;
  case Kind::BackwardInput:
    return stage.input;
  case Kind::BackwardWeight:
    return stage.weight;
  }
  return 0;
}

namespace {

/// When passes end, of one step.
class Clock {
public:
  Clock(const Timetable &timetable, const Costs &costs)
      : timetable(timetable), costs(costs),
        forwardEnds(timetable.rankOf.size() * static_cast<size_t>(timetable.microBatches), 0),
        inputEnds(forwardEnds.size(), 0), free(timetable.ranks.size(), 0), work(timetable.ranks.size(), 0) {}

  /// Runs entries [begin, end) of a rank's list, at once.
  Interval run(size_t rank, size_t begin, size_t end) {
    const std::vector<Entry> &list = timetable.ranks[rank];
    Interval interval{free[rank], 0};
    double seconds = 0;
    for (size_t at = begin; at < end; ++at) {
      interval.begin = std::max(interval.begin, inputsOf(list[at]));
      seconds += secondsOf(list[at], costs);
    }
    if (end > begin + 1)
      seconds *= costs.coScheduled;
    interval.end = interval.begin + seconds;
    for (size_t at = begin; at < end; ++at)
      if (list[at].kind == Kind::Forward)
        forwardEnds[timetable.index(list[at])] = interval.end;
      else if (givesInputGradient(list[at].kind))
        inputEnds[timetable.index(list[at])] = interval.end;
    free[rank] = interval.end;
    work[rank] += seconds;
    return interval;
  }

  const Timetable &timetable;
  const Costs &costs;
  std::vector<double> forwardEnds, inputEnds; ///< by stage and micro-batch
  std::vector<double> free, work;             ///< of ranks: when it has ended what it began; in which it computed

private:
  /// When what an entry needs is there. What its own rank computes is there when the rank is free.
  double inputsOf(const Entry &entry) const {
    bool isForward = entry.kind == Kind::Forward;
    int32_t giver = entry.stage + (isForward ? -1 : 1);
    if (entry.kind == Kind::BackwardWeight || giver < 0 || giver == timetable.stages())
      return 0;
    const std::vector<double> &ends = isForward ? forwardEnds : inputEnds;
    bool isSent =
        timetable.rankOf[static_cast<size_t>(giver)] != timetable.rankOf[static_cast<size_t>(entry.stage)];
    return ends[timetable.index(giver, entry.microBatch)] + (isSent ? costs.transfer : 0);
  }
};

} // namespace

/// What a rank's stashes take at most.
static double peakOf(const std::vector<Entry> &list, const Costs &costs) {
  double held = 0, peak = 0;
  auto begin = [&](const Entry &entry) {
    const StageCosts &stage = costs.stages[static_cast<size_t>(entry.stage)];
    if (entry.kind == Kind::Forward)
      held += stage.stash;
    else if (entry.kind == Kind::BackwardInput)
      held += stage.gradientStash;
  };
  auto end = [&](const Entry &entry) {
    const StageCosts &stage = costs.stages[static_cast<size_t>(entry.stage)];
    if (entry.kind == Kind::Backward)
      held -= stage.stash;
    else if (entry.kind == Kind::BackwardInput)
      held -= stage.stash - stage.stashForWeight;
    else if (entry.kind == Kind::BackwardWeight)
      held -= stage.stashForWeight + stage.gradientStash;
  };
  for (size_t at = 0; at < list.size();) {
    size_t behind = at + (list[at].withNext ? 2 : 1);
    std::for_each(list.begin() + static_cast<ptrdiff_t>(at), list.begin() + static_cast<ptrdiff_t>(behind), begin);
    peak = std::max(peak, held);
    std::for_each(list.begin() + static_cast<ptrdiff_t>(at), list.begin() + static_cast<ptrdiff_t>(behind), end);
    at = behind;
  }
  return peak;
}

std::vector<double> peakMemory(const Timetable &timetable, const Costs &costs) {
  std::vector<double> peaks;
  for (const std::vector<Entry> &list : timetable.ranks)
    peaks.push_back(peakOf(list, costs));
  return peaks;
}

double stepSeconds(const Timetable &timetable, const Costs &costs) {
  Clock clock(timetable, costs);
  std::vector<size_t> stopped =
      walk(timetable, [&](size_t rank, size_t begin, size_t end) { clock.run(rank, begin, end); });
  for (size_t rank = 0; rank < stopped.size(); ++rank)
    if (stopped[rank] < timetable.ranks[rank].size())
      return std::numeric_limits<double>::infinity();
  return *std::ranges::max_element(clock.free);
}

Simulated simulate(const Timetable &timetable, const Costs &costs) {
  Simulated result;
  for (const std::vector<Entry> &list : timetable.ranks)
    result.entries.emplace_back(list.size());
  result.peakMemory = peakMemory(timetable, costs);
  Clock clock(timetable, costs);
  walk(timetable, [&](size_t rank, size_t begin, size_t end) {
    Interval interval = clock.run(rank, begin, end);
    std::fill(result.entries[rank].begin() + static_cast<ptrdiff_t>(begin),
              result.entries[rank].begin() + static_cast<ptrdiff_t>(end), interval);
  });
  result.seconds = *std::ranges::max_element(clock.free);
  result.work = clock.work;
  for (double work : result.work)
    result.idle.push_back(result.seconds - work);
  return result;
}

std::vector<size_t> begunBeforeEnd(const Timetable &timetable, const Costs &costs, int32_t steps) {
  Clock clock(timetable, costs);
  for (int32_t step = 0; step < steps; ++step)
    walk(timetable, [&](size_t rank, size_t begin, size_t end) { clock.run(rank, begin, end); });
  double ended = *std::ranges::max_element(clock.free);
  std::vector<size_t> begun(timetable.ranks.size(), 0);
  walk(timetable, [&](size_t rank, size_t begin, size_t end) {
    if (clock.run(rank, begin, end).begin < ended)
      begun[rank] = end;
  });
  return begun;
}

SteadyState simulateSteps(const Timetable &timetable, const Costs &costs, int32_t steps) {
  Clock clock(timetable, costs);
  SteadyState steady;
  std::vector<double> ended(timetable.ranks.size(), 0), worked(timetable.ranks.size(), 0);
  for (int32_t step = 0; step < steps; ++step) {
    ended = clock.free;
    worked = clock.work;
    walk(timetable, [&](size_t rank, size_t begin, size_t end) { clock.run(rank, begin, end); });
  }
  steady.seconds = *std::ranges::max_element(clock.free) - *std::ranges::max_element(ended);
  for (size_t rank = 0; rank < ended.size(); ++rank)
    steady.rankBubble.push_back(clock.free[rank] - ended[rank] - (clock.work[rank] - worked[rank]));
  return steady;
}

} // namespace dtc::timetables
