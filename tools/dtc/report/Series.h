// A metric over the steps of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtc {

struct Series {
  std::vector<int64_t> steps; ///< ascending
  std::vector<double> values; ///< one for each; NaN: none

  void add(int64_t step, double value);
  /// Removes all points from this step on; new ones follow.
  void forgetFrom(int64_t step);
};

/// At most `most` points (4 or more) that look the same when drawn: the first and the last, and from each of equal
/// parts between them the smallest and the largest, in their order. A series that is short enough stays as it is.
Series thinned(const Series &series, size_t most);

} // namespace dtc
