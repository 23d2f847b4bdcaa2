#include "tools/dtc/report/Series.h"

#include <algorithm>
#include <cmath>

namespace dtc {

void Series::add(int64_t step, double value) {
  steps.push_back(step);
  values.push_back(value);
}

void Series::forgetFrom(int64_t step) {
  auto kept = std::ranges::lower_bound(steps, step) - steps.begin();
  steps.resize(static_cast<size_t>(kept));
  values.resize(static_cast<size_t>(kept));
}

Series thinned(const Series &series, size_t most) {
  size_t size = series.steps.size();
  if (size <= most)
    return series;
  Series result;
  auto add = [&](size_t at) { result.add(series.steps[at], series.values[at]); };
  // Numbers compare before NaN: a NaN is drawn only where a part has nothing else.
  auto isLess = [&](size_t a, size_t b) {
    double left = series.values[a], right = series.values[b];
    return !std::isnan(left) && (std::isnan(right) || left < right);
  };
  auto isMore = [&](size_t a, size_t b) {
    double left = series.values[a], right = series.values[b];
    return !std::isnan(left) && (std::isnan(right) || left > right);
  };
  size_t parts = (most - 2) / 2, between = size - 2;
  add(0);
  for (size_t part = 0; part < parts; ++part) {
    size_t begin = 1 + part * between / parts, end = 1 + (part + 1) * between / parts;
    size_t smallest = begin, largest = begin;
    for (size_t at = begin + 1; at < end; ++at) {
      smallest = isLess(at, smallest) ? at : smallest;
      largest = isMore(at, largest) ? at : largest;
    }
    add(std::min(smallest, largest));
    if (smallest != largest)
      add(std::max(smallest, largest));
  }
  add(size - 1);
  return result;
}

} // namespace dtc
