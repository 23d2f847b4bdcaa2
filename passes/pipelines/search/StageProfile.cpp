// Measured seconds, moved from rank to rank.
#include "passes/pipelines/search/StageProfile.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace dtc {

std::vector<double> StageProfile::ofRanks() const {
  std::vector<double> seconds = outside;
  for (size_t rank = 0; rank < layers.size(); ++rank)
    for (const auto &[name, ofLayer] : layers[rank])
      seconds[rank] += ofLayer;
  return seconds;
}

std::string findMismatch(const StageProfile &profile, const std::vector<std::string> &layers, size_t ranks) {
  if (profile.layers.size() != ranks)
    return "the profile is of a pipeline of " + std::to_string(profile.layers.size()) + " ranks, and this one has " +
           std::to_string(ranks) + "; profile a run with the same size of the mesh axis pp";
  std::set<std::string> measured;
  for (const auto &ofRank : profile.layers)
    for (const auto &[name, seconds] : ofRank)
      measured.insert(name);
  std::string remedy = "; profile a run of this model";
  if (measured.size() != layers.size())
    return "the profile is of another model: it has " + std::to_string(measured.size()) + " layers, and this one " +
           std::to_string(layers.size()) + remedy;
  for (const std::string &layer : layers)
    if (!measured.contains(layer))
      return "the profile is of another model: it has no layer " + layer + remedy;
  return "";
}

/// Seconds of a layer on a rank; 0 where it computed nothing of it.
static double secondsOn(const StageProfile &profile, size_t rank, const std::string &layer) {
  auto found = profile.layers[rank].find(layer);
  return found == profile.layers[rank].end() ? 0 : found->second;
}

std::vector<int64_t> ownersOf(const StageProfile &profile, const std::vector<std::string> &layers) {
  std::vector<int64_t> owners;
  for (const std::string &layer : layers) {
    size_t owner = 0;
    for (size_t rank = 1; rank < profile.layers.size(); ++rank)
      if (secondsOn(profile, rank, layer) > secondsOn(profile, owner, layer))
        owner = rank;
    owners.push_back(static_cast<int64_t>(owner));
  }
  return owners;
}

std::vector<int64_t> cutOfOwners(const std::vector<int64_t> &owners, const std::vector<int64_t> &rankOf) {
  std::vector<int64_t> layers;
  auto next = owners.begin();
  for (int64_t rank : rankOf) {
    auto end = std::find_if(next, owners.end(), [&](int64_t owner) { return owner != rank; });
    if (end == next)
      return {};
    layers.push_back(end - next);
    next = end;
  }
  return next == owners.end() ? layers : std::vector<int64_t>();
}

/// How many times the predicted seconds each rank took for its layers; one without layers is as slow as all together.
static std::vector<double> slownessOf(const StageProfile &profile, const std::vector<std::string> &layers,
                                      const std::vector<int64_t> &owners, const StageCutCosts &predicted) {
  size_t ranks = predicted.layers.size();
  std::vector<double> took(ranks), expected(ranks);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    auto owner = static_cast<size_t>(owners[layer]);
    took[owner] += secondsOn(profile, owner, layers[layer]);
    expected[owner] += predicted.layers[owner][layer];
  }
  auto ratio = [](double seconds, double of) { return seconds > 0 && of > 0 ? seconds / of : 1; };
  double ofAll =
      ratio(std::accumulate(took.begin(), took.end(), 0.0), std::accumulate(expected.begin(), expected.end(), 0.0));
  std::vector<double> slowness;
  for (size_t rank = 0; rank < ranks; ++rank)
    slowness.push_back(took[rank] > 0 && expected[rank] > 0 ? ratio(took[rank], expected[rank]) : ofAll);
  return slowness;
}

/// Divides among its stages what a rank does outside its layers.
static void divideOutside(const StageCutCosts &predicted, StageCutCosts &costs, size_t rank, double seconds) {
  double expected = 0;
  auto first = costs.rankOf.size();
  for (size_t stage = costs.rankOf.size(); stage-- > 0;)
    if (costs.rankOf[stage] == static_cast<int64_t>(rank)) {
      expected += predicted.outside[stage];
      first = stage;
    }
  for (size_t stage = 0; stage < costs.rankOf.size(); ++stage)
    if (costs.rankOf[stage] == static_cast<int64_t>(rank))
      costs.outside[stage] = seconds * (expected > 0 ? predicted.outside[stage] / expected : stage == first);
}

StageCutCosts measuredCosts(const StageProfile &profile, const std::vector<std::string> &layers,
                            const StageCutCosts &predicted) {
  std::vector<int64_t> owners = ownersOf(profile, layers);
  std::vector<double> slowness = slownessOf(profile, layers, owners, predicted);
  StageCutCosts costs{predicted.rankOf, std::vector<double>(predicted.rankOf.size()), {}};
  std::vector<double> outside = profile.ofRanks();
  for (size_t rank = 0; rank < predicted.layers.size(); ++rank) {
    std::vector<double> &ofRank = costs.layers.emplace_back();
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      auto owner = static_cast<size_t>(owners[layer]);
      double measured = secondsOn(profile, owner, layers[layer]), on = predicted.layers[rank][layer],
             onOwner = predicted.layers[owner][layer];
      double device = on > 0 && onOwner > 0 ? on / onOwner : 1;
      ofRank.push_back(rank == owner ? measured : measured * device * slowness[rank] / slowness[owner]);
      if (rank == owner)
        outside[rank] -= measured;
    }
    divideOutside(predicted, costs, rank, std::max(outside[rank], 0.0));
  }
  return costs;
}

} // namespace dtc
