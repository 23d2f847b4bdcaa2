// out[indices[i] - first] += updates[i] for indices within the rows, in the order of i. grid: width (threads divide
// columns).
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct ScatterAddScalars {
  static constexpr std::string_view kernel = "scatter_add";

  int64_t rows, width; ///< of out
  int64_t first;       ///< the index of its first row
  int64_t count;       ///< of indices

  [[gnu::always_inline]] constexpr int64_t grid() const { return width; }

  DTC_SCALARS(rows, width, first, count)
};

template <>
inline constexpr auto operandsOf<ScatterAddScalars> = std::to_array<Operand>({
    {"updates", "count width", f32, Access::Read},
    {"indices", "count", i32, Access::Read},
    {"out", "rows width", f32, Access::Updated},
});

} // namespace dtc::abi::library
