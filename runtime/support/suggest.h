// "did you mean": wherever a name is not found, the error offers the nearest one that exists.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

/// Levenshtein's distance: the fewest insertions, deletions and replacements of a character that turn one name into the
/// other.
inline size_t editDistance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      size_t replaced = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// The candidate nearest to `name`, or an empty string when none is near enough to be what was meant: more than half of
/// the longer name would have to change. Candidates are any range of things a string_view can be made of.
template <typename Range> std::string nearest(std::string_view name, const Range &candidates) {
  constexpr size_t longestCompared = 256; // a hostile name costs no more than a long one
  std::string best;
  size_t bestDistance = std::string::npos;
  name = name.substr(0, longestCompared);
  for (const auto &each : candidates) {
    std::string_view candidate(each);
    size_t distance = editDistance(name, candidate.substr(0, longestCompared));
    if (distance < bestDistance && 2 * distance <= std::max(name.size(), candidate.size())) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/// "; did you mean 'x'?", or nothing: to be appended to a message about a name that was not found.
template <typename Range> std::string didYouMean(std::string_view name, const Range &candidates) {
  std::string found = nearest(name, candidates);
  return found.empty() ? "" : "; did you mean '" + found + "'?";
}

} // namespace dtc
