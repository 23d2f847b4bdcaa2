// Dynamic programming over prefixes of the model.
#include "passes/pipelines/search/StageCuts.h"

#include "passes/analysis/Stages.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>
#include <utility>

namespace dtc {

double LayerCut::slowest() const { return *std::ranges::max_element(seconds); }

double LayerCut::mean() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

LayerCut costOfCut(const StageCutCosts &costs, std::vector<int64_t> layers) {
  LayerCut cut{std::move(layers), std::vector<double>(costs.layers.size())};
  size_t next = 0;
  for (size_t stage = 0; stage < cut.layers.size(); ++stage) {
    auto rank = static_cast<size_t>(costs.rankOf[stage]);
    cut.seconds[rank] += costs.outside[stage];
    for (int64_t each = 0; each < cut.layers[stage]; ++each)
      cut.seconds[rank] += costs.layers[rank][next++];
  }
  return cut;
}

namespace {

/// Cuts that are kept for each place.
constexpr size_t mostPartials = 256;

/// A cut of the first layers into the first stages. Times are whole numbers, so that equal ones are equal in any order
/// of addition; what ranks do outside the layers counts from the beginning.
struct PartialCut {
  int64_t slowest = 0, squares = 0, squaresOfLayers = 0;
  int64_t layers = 0; ///< of the last stage
  size_t before = 0;  ///< the partial cut without that stage

  auto operator<=>(const PartialCut &) const = default;
};

class CutSearch {
public:
  explicit CutSearch(const StageCutCosts &costs)
      : costs(costs), ranks(costs.layers.size()), stages(costs.rankOf.size()), count(costs.layers.front().size()) {
    takeUnits();
  }

  std::vector<LayerCut> run(size_t most) {
    std::vector<std::vector<PartialCut>> before(count + 1);
    Loads loads(count + 1);
    std::vector<int64_t> none(ranks);
    for (size_t stage = 0; stage < stages; ++stage)
      none[rankOf(stage)] += toUnits(costs.outside[stage]);
    before[0] = {partialOf(none)};
    loads[0] = none;
    for (size_t stage = 0; stage < stages; ++stage) {
      std::vector<std::vector<PartialCut>> next(count + 1);
      Loads nextLoads(count + 1);
      size_t behind = stages - 1 - stage; // stages, each of which needs a layer
      for (size_t end = behind == 0 ? count : stage + 1; end + behind <= count; ++end)
        extend(stage, end, before, loads, next[end], nextLoads[end]);
      all.push_back(next);
      before = std::move(next);
      loads = std::move(nextLoads);
    }
    return cuts(most);
  }

private:
  /// Of each number of layers, the ranks' times for each partial cut, one after the other.
  using Loads = std::vector<std::vector<int64_t>>;

  size_t rankOf(size_t stage) const { return static_cast<size_t>(costs.rankOf[stage]); }

  /// So that squares of all times together fit into 64 bits.
  void takeUnits() {
    double total = std::accumulate(costs.outside.begin(), costs.outside.end(), 0.0);
    for (size_t layer = 0; layer < count; ++layer) {
      double most = 0;
      for (const std::vector<double> &ofRank : costs.layers)
        most = std::max(most, ofRank[layer]);
      total += most;
    }
    units = total > 0 ? double(int64_t(1) << 30) / total : 1;
    for (const std::vector<double> &ofRank : costs.layers) {
      std::vector<int64_t> &sums = until.emplace_back(1);
      for (double seconds : ofRank)
        sums.push_back(sums.back() + toUnits(seconds));
    }
    bound = 2 * partialOf(loadsOf(evenCut(static_cast<int64_t>(count), costs.rankOf))).slowest;
  }

  int64_t toUnits(double seconds) const { return std::llround(seconds * units); }

  static PartialCut partialOf(const std::vector<int64_t> &loads) {
    PartialCut partial;
    for (int64_t load : loads) {
      partial.slowest = std::max(partial.slowest, load);
      partial.squares += load * load;
    }
    return partial;
  }

  std::vector<int64_t> loadsOf(const std::vector<int64_t> &layers) const {
    std::vector<int64_t> loads(ranks);
    size_t end = 0;
    for (size_t stage = 0; stage < stages; ++stage) {
      size_t begin = end, rank = rankOf(stage);
      end += static_cast<size_t>(layers[stage]);
      loads[rank] += toUnits(costs.outside[stage]) + until[rank][end] - until[rank][begin];
    }
    return loads;
  }

  /// The best partial cuts whose last stage ends before layer `end`.
  void extend(size_t stage, size_t end, const std::vector<std::vector<PartialCut>> &before, const Loads &loads,
              std::vector<PartialCut> &best, std::vector<int64_t> &bestLoads) const {
    size_t rank = rankOf(stage);
    for (size_t begin = end; begin-- > stage;) {
      int64_t work = until[rank][end] - until[rank][begin];
      if (work > bound)
        break;
      auto layers = static_cast<int64_t>(end - begin);
      for (size_t number = 0; number < before[begin].size(); ++number) {
        const PartialCut &partial = before[begin][number];
        int64_t load = loads[begin][number * ranks + rank];
        if (load + work <= bound)
          best.push_back({std::max(partial.slowest, load + work), partial.squares + work * (2 * load + work),
                          partial.squaresOfLayers + layers * layers, layers, number});
      }
    }
    size_t kept = std::min(best.size(), mostPartials);
    std::ranges::partial_sort(best, best.begin() + static_cast<ptrdiff_t>(kept));
    best.resize(kept);
    for (const PartialCut &partial : best) {
      size_t begin = end - static_cast<size_t>(partial.layers);
      auto from = loads[begin].begin() + static_cast<ptrdiff_t>(partial.before * ranks);
      bestLoads.insert(bestLoads.end(), from, from + static_cast<ptrdiff_t>(ranks));
      bestLoads[bestLoads.size() - ranks + rank] += until[rank][end] - until[rank][begin];
    }
  }

  /// Those that were found for the whole model, and the even one, which may have been crowded out.
  std::vector<LayerCut> cuts(size_t most) const {
    std::vector<std::pair<PartialCut, std::vector<int64_t>>> found;
    for (const PartialCut &last : all.back()[count]) {
      std::vector<int64_t> layers(stages);
      const PartialCut *partial = &last;
      for (size_t stage = stages, end = count; stage-- > 0;) {
        layers[stage] = partial->layers;
        end -= static_cast<size_t>(partial->layers);
        if (stage > 0)
          partial = &all[stage - 1][end][partial->before];
      }
      found.push_back({PartialCut{last.slowest, last.squares, last.squaresOfLayers, 0, 0}, std::move(layers)});
    }
    std::vector<int64_t> even = evenCut(static_cast<int64_t>(count), costs.rankOf);
    if (std::ranges::find(found, even, &std::pair<PartialCut, std::vector<int64_t>>::second) == found.end()) {
      PartialCut partial = partialOf(loadsOf(even));
      for (int64_t layers : even)
        partial.squaresOfLayers += layers * layers;
      found.push_back({partial, even});
    }
    std::ranges::sort(found);
    std::vector<LayerCut> best;
    for (auto &[partial, layers] : found)
      if (best.size() < most)
        best.push_back(costOfCut(costs, std::move(layers)));
    return best;
  }

  const StageCutCosts &costs;
  size_t ranks, stages, count;
  double units = 1;                                   ///< in a second
  std::vector<std::vector<int64_t>> until;            ///< of each rank: units of the first layers
  int64_t bound = 0;                                  ///< of a rank
  std::vector<std::vector<std::vector<PartialCut>>> all; ///< by stage and the number of layers up to its end
};

} // namespace

std::vector<LayerCut> bestCuts(const StageCutCosts &costs, size_t most) { return CutSearch(costs).run(most); }

} // namespace dtc
