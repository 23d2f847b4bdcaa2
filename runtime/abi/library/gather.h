// out[i] = table[indices[i] - first] where that is within [0, rows), else zeros. grid: the number of indices.
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct GatherScalars {
  static constexpr std::string_view kernel = "gather";

  int64_t rows, width; ///< of the table
  int64_t first;       ///< the index of its first row
  int64_t bytes;       ///< of an element of the table

  DTC_SCALARS(rows, width, first, bytes)
};

template <>
inline constexpr auto operandsOf<GatherScalars> = std::to_array<Operand>({
    {"table", "rows width", movedBy(&GatherScalars::bytes), Access::Read},
    {"indices", "grid", i32, Access::Read},
    {"out", "grid width", movedBy(&GatherScalars::bytes), Access::Written},
});

} // namespace dtc::abi::library
