#include "timing/timetables/search.h"
#include "runtime/support/error.h"
#include "timing/timetables/greedy.h"
#include "timing/timetables/named.h"

#include <algorithm>
#include <fmt/format.h>
#include <random>
#include <set>

namespace dtc::timetables {

static constexpr double tolerance = 1e-9; // relative: sums of stashes are rounded

namespace {

class Search {
public:
  explicit Search(const SearchRequest &request)
      : request(request), stages(static_cast<int32_t>(request.costs.stages.size())), left(request.effort) {
    limit = request.memoryLimit ? *request.memoryLimit * (1 + tolerance) : std::numeric_limits<double>::infinity();
  }

  SearchResult run() {
    requireRoom();
    tryNamed();
    tryPolicies();
    improve();
    result.timetable.name = "auto";
    return std::move(result);
  }

private:
  std::vector<Placement> placements() const {
    if (stages == 2 * request.ranks)
      return {Placement::Loop, Placement::V};
    return {Placement::Loop};
  }

  Timetable frame(Placement placement) const {
    return {"auto", request.microBatches, placeStages(placement, request.ranks, stages),
            std::vector<std::vector<Entry>>(static_cast<size_t>(request.ranks))};
  }

  /// The stashes of one micro-batch, on the rank that needs most for it.
  double leastMemory(const std::vector<int32_t> &rankOf) const {
    std::vector<double> needed(static_cast<size_t>(request.ranks), 0);
    for (size_t stage = 0; stage < rankOf.size(); ++stage)
      needed[static_cast<size_t>(rankOf[stage])] +=
          request.costs.stages[stage].stash + request.costs.stages[stage].gradientStash;
    return *std::ranges::max_element(needed);
  }

  void requireRoom() const {
    double least = std::numeric_limits<double>::infinity();
    for (Placement placement : placements())
      least = std::min(least, leastMemory(frame(placement).rankOf));
    if (least > limit)
      throw Error(ExitCode::BadInput,
                  fmt::format("no timetable fits in a memory limit of {}: one micro-batch's stashes take {}",
                              *request.memoryLimit, least));
  }

  void offer(Timetable timetable, double seconds) {
    left -= static_cast<int64_t>(countEntries(timetable));
    if (!result.timetable.ranks.empty() && seconds >= result.seconds)
      return;
    result.timetable = std::move(timetable);
    result.seconds = seconds;
  }

  void tryNamed() {
    for (const Named &named : allNamed()) {
      Shape shape{request.ranks, stages / request.ranks, request.microBatches};
      if (!findMisfit(named, shape).empty())
        continue;
      Timetable timetable = generate(named, shape);
      double peak = std::ranges::max(peakMemory(timetable, request.costs));
      if (peak > limit)
        continue;
      peaks.insert(peak);
      double seconds = stepSeconds(timetable, request.costs);
      if (result.bestNamed.empty() || seconds < result.namedSeconds) {
        result.bestNamed = named.name;
        result.namedSeconds = seconds;
      }
      offer(std::move(timetable), seconds);
    }
  }

  /// All policies that differ, the likeliest first. With one stage a rank there is no later one.
  std::vector<Policy> policies() const {
    std::vector<Policy> all;
    std::vector<bool> both{true, false}, later = stages > request.ranks ? both : std::vector<bool>{true};
    for (int32_t most : {std::numeric_limits<int32_t>::max(), request.ranks, 1, 2})
      for (double patience : {0.0, 0.5, 1.0})
        for (bool forwardFirst : {false, true})
          for (bool laterForward : later)
            for (bool laterInput : later)
              all.push_back({forwardFirst, laterForward, laterInput, patience, most});
    return all;
  }

  /// Under the limit itself, and as much as named timetables take: with less memory ranks run less far ahead.
  void tryPolicies() {
    std::vector<double> limits(peaks.begin(), peaks.end());
    limits.push_back(limit);
    int64_t reserved = left / 2; // for improve()
    for (const Policy &policy : policies())
      for (double most : limits)
        for (Placement placement : placements()) {
          Timetable empty = frame(placement);
          if (left < reserved || leastMemory(empty.rankOf) > most)
            continue;
          Timetable timetable = scheduleGreedily(std::move(empty), request.costs, most * (1 + tolerance), policy);
          double seconds = stepSeconds(timetable, request.costs);
          offer(std::move(timetable), seconds);
        }
  }

  /// Moves one entry after the other to another place of its rank's list.
  void improve() {
    std::mt19937_64 random(0); // the same numbers everywhere
    auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
    auto entries = static_cast<int64_t>(countEntries(result.timetable));
    Timetable &best = result.timetable;
    for (; left > 0; left -= entries) {
      std::vector<Entry> &list = best.ranks[below(best.ranks.size())];
      constexpr size_t farthest = 6;
      size_t from = below(list.size()), to = from + 1 + below(farthest);
      if (to >= list.size() || !mayMove(list, from, to))
        continue;
      bool isForward = below(2) == 0;
      rotate(list, from, to, isForward);
      double seconds =
          isInOrder(list, from, to) ? stepSeconds(best, request.costs) : std::numeric_limits<double>::infinity();
      if (seconds <= result.seconds && std::ranges::max(peakMemory(best, request.costs)) <= limit)
        result.seconds = seconds;
      else
        rotate(list, from, to, !isForward);
    }
  }

  static bool mayMove(const std::vector<Entry> &list, size_t from, size_t to) {
    bool isInPair = from > 0 && list[from - 1].withNext;
    for (size_t at = from; at <= to; ++at)
      isInPair |= list[at].withNext;
    return !isInPair;
  }

  static void rotate(std::vector<Entry> &list, size_t from, size_t to, bool isForward) {
    auto begin = list.begin() + static_cast<ptrdiff_t>(from), end = list.begin() + static_cast<ptrdiff_t>(to) + 1;
    std::rotate(begin, isForward ? begin + 1 : end - 1, end);
  }

  /// Whether stages still take their micro-batches in ascending order.
  static bool isInOrder(const std::vector<Entry> &list, size_t from, size_t to) {
    for (size_t first = from; first < to; ++first)
      for (size_t second = first + 1; second <= to; ++second)
        if (list[first].stage == list[second].stage && list[first].kind == list[second].kind &&
            list[first].microBatch > list[second].microBatch)
          return false;
    return true;
  }

  const SearchRequest &request;
  int32_t stages;
  int64_t left; ///< of the effort
  double limit = 0;
  std::set<double> peaks; ///< memory that named timetables take
  SearchResult result;
};

} // namespace

SearchResult searchTimetable(const SearchRequest &request) { return Search(request).run(); }

} // namespace dtc::timetables
