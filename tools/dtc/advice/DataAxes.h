// Over which ranks a program splits its batch: what lints about data parallelism ask. No strategy is known by name
// here: the tokens' sharding says it.
#pragma once

#include "runtime/abi/manifest.pb.h"

#include <cstdint>
#include <vector>

namespace dtc {

/// The axes that split the rows of the tokens, and those that split their columns. Empty where nothing does.
struct DataAxes {
  std::vector<abi::AxisRef> rows, columns;

  /// Ranks with samples of their own.
  int64_t rowRanks() const;
  /// Ranks that would hold the same parameters if nothing split these: rows and columns together.
  int64_t ranks() const;
  /// Whether one of the axes, or a part of it, splits a dimension.
  bool split(const abi::Sharding &sharding) const;
};

DataAxes dataAxesOf(const abi::Manifest &program);

} // namespace dtc
