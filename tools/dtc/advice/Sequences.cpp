#include "tools/dtc/advice/Sequences.h"

#include "runtime/abi/random.h"
#include "runtime/data/sampler.h"
#include "tools/dtc/text/Balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtc {

std::vector<double> attentionOfWindows(std::span<const double> documents, int64_t sequence, double heldOut) {
  double tokens = std::accumulate(documents.begin(), documents.end(), 0.0);
  tokens -= std::floor(tokens * heldOut);
  double length = static_cast<double>(sequence);
  // Neighbouring windows share a token, and the last one needs it, too.
  auto windows = static_cast<size_t>(std::max(0.0, std::floor((tokens - 1) / length)));
  std::vector<double> costs(windows);
  size_t window = 0;
  double room = length; // of the current window
  for (double left : documents)
    while (left > 0 && window < windows) {
      double piece = std::min(left, room);
      costs[window] += piece * piece;
      left -= piece;
      room -= piece;
      if (room == 0) {
        ++window;
        room = length;
      }
    }
  return costs;
}

namespace {

/// The samples of the first epochs, as the sampler orders those of its first source.
class SampleOrder {
public:
  SampleOrder(int64_t windows, uint64_t seed) : windows(windows), seed(seed) {}

  size_t windowOf(int64_t sample) const {
    int64_t pass = sample / windows;
    uint32_t key = random::stream(static_cast<uint32_t>(seed), static_cast<uint32_t>(pass) | 1u << 31, 0);
    return Permutation(static_cast<uint64_t>(windows), key)(static_cast<uint64_t>(sample % windows));
  }

private:
  int64_t windows;
  uint64_t seed;
};

} // namespace

/// The attention of each rank in the step that begins with sample `first`.
static std::vector<double> attentionOfRanks(const std::vector<double> &costs, const SampleOrder &order,
                                            const BatchShape &shape, int64_t first) {
  std::vector<double> ofRanks(static_cast<size_t>(shape.ranks));
  int64_t rows = shape.batch / std::max<int64_t>(shape.microBatches, 1);
  for (int64_t row = 0; row < shape.batch; ++row) {
    int64_t rank = row % rows * shape.ranks / rows; // of a micro-batch, consecutive rows
    ofRanks[static_cast<size_t>(rank)] += costs[order.windowOf(first + row)];
  }
  return ofRanks;
}

AttentionSpread attentionSpread(std::span<const double> documents, const BatchShape &shape, int64_t steps) {
  std::vector<double> costs = attentionOfWindows(documents, shape.sequence, shape.heldOut);
  auto windows = static_cast<int64_t>(costs.size());
  if (windows == 0 || shape.batch < shape.ranks * std::max<int64_t>(shape.microBatches, 1))
    return {};
  AttentionSpread spread;
  SampleOrder order(windows, shape.seed);
  spread.steps = std::clamp<int64_t>(windows / shape.batch, 1, steps);
  for (int64_t step = 0; step < spread.steps; ++step) {
    std::vector<double> ofRanks = attentionOfRanks(costs, order, shape, step * shape.batch);
    auto count = static_cast<double>(ofRanks.size());
    double mean = std::accumulate(ofRanks.begin(), ofRanks.end(), 0.0) / count, squares = 0;
    for (double each : ofRanks)
      squares += (each - mean) * (each - mean);
    spread.variation += std::sqrt(squares / count) / mean;
    spread.excess += *std::ranges::max_element(ofRanks) / mean - 1;
  }
  spread.variation /= static_cast<double>(spread.steps);
  spread.excess /= static_cast<double>(spread.steps);
  return spread;
}

std::vector<double> packedByAttention(std::span<const double> documents, int64_t sequence) {
  constexpr size_t most = 1 << 14; // whose spread is that of all
  auto window = static_cast<size_t>(sequence);
  std::vector<size_t> lengths;
  for (double document : documents.first(std::min(most, documents.size())))
    for (auto left = static_cast<size_t>(document); left > 0; left -= lengths.back())
      lengths.push_back(std::min(left, window));
  std::vector<double> packed;
  for (const std::vector<size_t> &sample : balancedSamples(lengths, window)) {
    size_t room = window;
    for (size_t number : sample) {
      packed.push_back(static_cast<double>(lengths[number]));
      room -= lengths[number];
    }
    if (room > 0)
      packed.push_back(static_cast<double>(room));
  }
  packed.push_back(1); // that the last window shares with the next
  return packed;
}

} // namespace dtc
