// How the samples of several sources are interleaved in an epoch: a given number of each, evenly spread, in an order
// that can be computed independently for any position.
//
// Sources are the leaves of a binary tree, split in half at each node. If a node's two sides have l and r samples, the
// first p samples below it hold floor((p l + (l + r) / 2) / (l + r)) of the left side. That gives all l when p is l +
// r, grows by at most one per sample, and differs from p's share of l by at most one half. So an epoch holds exactly
// each source's number of samples, and among the first p samples of an epoch each source has its share to within one
// half per level of the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

class Interleaving {
public:
  struct Turn {
    size_t source;
    int64_t index; ///< among the samples of this source in the epoch
  };

  Interleaving() = default;
  /// `counts`: how many samples of each source an epoch has; not negative.
  explicit Interleaving(const std::vector<int64_t> &counts);

  int64_t size() const { return ends.empty() ? 0 : ends.back(); }
  int64_t count(size_t source) const { return samplesOf(source, source + 1); }
  /// For a position in [0, size()).
  Turn at(int64_t position) const;

private:
  int64_t samplesOf(size_t first, size_t last) const { return ends[last - 1] - (first ? ends[first - 1] : 0); }

  std::vector<int64_t> ends; ///< samples of the sources up to and including each
};

/// Parts of `total` in proportion to the weights, which are positive: each is its share rounded down or up, and
/// they add up to `total`. The largest remainders are rounded up, the first among equals.
std::vector<int64_t> apportion(int64_t total, const std::vector<double> &weights);

} // namespace dtc
