// The knapsack problem with several choices: each item is packed in one of some ways.
#pragma once

#include <cstddef>
#include <vector>

namespace dtc {

struct Way {
  double bytes = 0, seconds = 0;
};

struct Mix {
  double bytes = 0, seconds = 0; ///< of all items
  std::vector<size_t> ways;      ///< of each item, in their order
};

/// All mixes than which none takes both fewer bytes and less time, that of most bytes first; `most` of them at most,
/// evenly over the seconds. `items`: the ways of each.
std::vector<Mix> bestMixes(const std::vector<std::vector<Way>> &items, size_t most);

} // namespace dtc
