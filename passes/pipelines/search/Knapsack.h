// The knapsack problem with several choices: each item is packed in one of several ways.
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

/// All mixes for which no other takes both fewer bytes and less time, the one with the most bytes first; at most `most`
/// of them, spread evenly over the seconds. `items`: the ways of each item.
std::vector<Mix> bestMixes(const std::vector<std::vector<Way>> &items, size_t most);

} // namespace dtc
