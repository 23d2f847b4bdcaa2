// How the samples of several sources take turns in an epoch: so many of each, evenly spread, in an order that is
// computed for any position on its own.
//
// Sources are halved again and again, as a binary tree. Where a node's two sides have l and r samples, the first p
// samples below it hold floor((p l + (l + r) / 2) / (l + r)) of the left side. That gives all l when p is l + r, grows
// by no more than one a sample, and strays from p's share of l by at most one half. So an epoch has each source's
// samples exactly, and of the first p samples of an epoch each source has its share to within one half for each level
// of the tree.
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

  std::vector<int64_t> ends; ///< samples of the sources up to and with each
};

/// Parts of `total` in proportion to the weights, which are positive: each is its share rounded down or up, and
/// together they are `total`. Those with the largest remainders are rounded up, the first among equals.
std::vector<int64_t> apportion(int64_t total, const std::vector<double> &weights);

} // namespace dtc
