#include "runtime/data/interleave.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtc {

Interleaving::Interleaving(const std::vector<int64_t> &counts) : ends(counts.size()) {
  std::partial_sum(counts.begin(), counts.end(), ends.begin());
}

/// How many of the first `position` samples belong to the left side, if the two sides have `left` and `all - left`
/// samples.
static int64_t ofLeft(int64_t position, int64_t left, int64_t all) {
  __extension__ typedef __int128 Wide; // samples times samples
  return static_cast<int64_t>((Wide(position) * left + all / 2) / all);
}

Interleaving::Turn Interleaving::at(int64_t position) const {
  size_t first = 0, last = ends.size();
  while (last - first > 1) {
    size_t middle = first + (last - first + 1) / 2;
    int64_t left = samplesOf(first, middle), all = samplesOf(first, last);
    int64_t before = ofLeft(position, left, all);
    if (ofLeft(position + 1, left, all) > before) {
      position = before;
      last = middle;
    } else {
      position -= before;
      first = middle;
    }
  }
  return {first, position};
}

std::vector<int64_t> apportion(int64_t total, const std::vector<double> &weights) {
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> parts;
  std::vector<double> remainders;
  for (double weight : weights) {
    double share = static_cast<double>(total) * (weight / sum);
    parts.push_back(static_cast<int64_t>(std::floor(share)));
    remainders.push_back(share - std::floor(share));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return remainders[a] != remainders[b] ? remainders[a] > remainders[b] : a < b;
  });
  int64_t rest = total - std::accumulate(parts.begin(), parts.end(), int64_t(0));
  for (size_t i = 0; rest > 0; i = (i + 1) % order.size(), --rest)
    ++parts[order[i]];
  return parts;
}

} // namespace dtc
