// Dynamic programming over sums that no other beats.
#include "passes/pipelines/search/Knapsack.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

/// A best mix of the first few items: the sums, how the last item is packed, and the mix of those before it.
struct Partial {
  double bytes = 0, seconds = 0;
  size_t before = 0, way = 0;
};

/// Those that take the least time among all with as few bytes, most bytes first. Ones that differ only by rounding
/// count as one.
std::vector<Partial> undominated(std::vector<Partial> partials) {
  std::ranges::sort(partials, [](const Partial &a, const Partial &b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  constexpr double rounding = 1e-12;
  std::vector<Partial> kept;
  for (const Partial &each : partials)
    if (kept.empty() || each.seconds < kept.back().seconds - rounding * std::abs(kept.back().seconds))
      kept.push_back(each);
  std::ranges::reverse(kept);
  return kept;
}

/// The first and the last stay; seconds ascend.
std::vector<Partial> thinOut(const std::vector<Partial> &partials, size_t most) {
  if (partials.size() <= most)
    return partials;
  double first = partials.front().seconds, step = (partials.back().seconds - first) / static_cast<double>(most - 1);
  std::vector<Partial> kept;
  for (const Partial &each : partials)
    if (each.seconds >= first + step * static_cast<double>(kept.size()) || &each == &partials.back())
      kept.push_back(each);
  return kept;
}

} // namespace

std::vector<Mix> bestMixes(const std::vector<std::vector<Way>> &items, size_t most) {
  constexpr size_t mostPartials = 1024;
  std::vector<std::vector<Partial>> best{{Partial()}};
  for (const std::vector<Way> &ways : items) {
    std::vector<Partial> next;
    for (size_t before = 0; before < best.back().size(); ++before)
      for (size_t way = 0; way < ways.size(); ++way)
        next.push_back({best.back()[before].bytes + ways[way].bytes, best.back()[before].seconds + ways[way].seconds,
                        before, way});
    best.push_back(thinOut(undominated(std::move(next)), mostPartials));
  }
  std::vector<Mix> mixes;
  for (const Partial &each : thinOut(best.back(), most)) {
    Mix &mix = mixes.emplace_back(Mix{each.bytes, each.seconds, std::vector<size_t>(items.size())});
    Partial at = each;
    for (size_t item = items.size(); item-- > 0; at = best[item][at.before])
      mix.ways[item] = at.way;
  }
  return mixes;
}

} // namespace dtc
