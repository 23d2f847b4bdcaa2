#include "runtime/comm/local/weighted_rows.h"

#include "runtime/abi/element_type.h"
#include "runtime/comm/local/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace dtc {

int64_t rowCountOf(const abi::Collective &collective, int64_t index, int64_t count) {
  int64_t rows = collective.outer();
  if (collective.kind() == abi::Collective::REDUCE_SCATTER)
    return rows;
  return rows * (index + 1) / count - rows * index / count;
}

WeightedRows rowsOf(const abi::Collective &collective, std::byte *values, std::byte *logs, int64_t index,
                    int64_t count) {
  WeightedRows rows = denseRows(collective, values, logs);
  if (collective.kind() == abi::Collective::ALL_REDUCE)
    return rows.from(collective.outer() * index / count);
  rows = rows.from(index);
  return {rows.values, rows.valueStride * count, rows.logs, rows.logStride * count};
}

WeightedRows denseRows(const abi::Collective &collective, std::byte *values, std::byte *logs) {
  return {values, collective.chunk() * FloatBytes, logs, FloatBytes};
}

/// Replaces logarithms of weights by the rows' shares of the total weight, in place; returns the logarithm of the
/// total. The largest weight is scaled to 1 in between, so that no exponential overflows; a NaN makes everything NaN.
static double sharesOf(std::span<double> logs) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  double largest = none, sum = 0;
  for (double log : logs)
    largest = std::isnan(log) || log > largest ? log : largest;
  if (largest == none) {
    std::ranges::fill(logs, 0);
    return none;
  }
  for (double &log : logs)
    sum += log = std::exp(log - largest);
  for (double &share : logs)
    share /= sum;
  return largest + std::log(sum);
}

/// Elements [begin, begin + count) of one row.
static void mergeBlock(std::span<const WeightedRows> targets, std::span<const WeightedRows> sources, int64_t row,
                       std::span<const double> shares, int64_t begin, int64_t count) {
  std::array<double, BlockElements> sums;
  std::array<float, BlockElements> rounded;
  auto at = [&](const WeightedRows &rows) { return rows.values + row * rows.valueStride + begin * FloatBytes; };
  std::fill_n(sums.begin(), count, 0.0);
  for (size_t source = 0; source < sources.size(); ++source) {
    const auto *terms = reinterpret_cast<const float *>(at(sources[source]));
    double share = shares[source];
    if (share != 0) // otherwise not even an infinity counts
      for (int64_t i = 0; i < count; ++i)
        sums[i] += share * static_cast<double>(terms[i]);
  }
  for (int64_t i = 0; i < count; ++i)
    rounded[i] = static_cast<float>(sums[i]);
  for (const WeightedRows &target : targets)
    std::memcpy(at(target), rounded.data(), count * FloatBytes);
}

void mergeRows(std::span<const WeightedRows> targets, std::span<const WeightedRows> sources, int64_t rows,
               int64_t chunk) {
  std::vector<double> shares(sources.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t source = 0; source < sources.size(); ++source)
      shares[source] = *reinterpret_cast<const float *>(sources[source].logs + row * sources[source].logStride);
    auto log = static_cast<float>(sharesOf(shares));
    for (int64_t begin = 0; begin < chunk; begin += BlockElements)
      mergeBlock(targets, sources, row, shares, begin, std::min(BlockElements, chunk - begin));
    for (const WeightedRows &target : targets)
      std::memcpy(target.logs + row * target.logStride, &log, sizeof(log));
  }
}

} // namespace dtc
