// out[i] = table[indices[i] - first] where that is within [0, rows), else zeros. grid: the count of indices.
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct GatherScalars {
  int64_t rows, width; ///< of the table
  int64_t first;       ///< the index of its first row
  int64_t bytes;       ///< of an element of the table
};

namespace detail {

inline constexpr std::array gatherFields = {
    DTC_SCALAR(GatherScalars, rows),
    DTC_SCALAR(GatherScalars, width),
    DTC_SCALAR(GatherScalars, first),
    DTC_SCALAR(GatherScalars, bytes),
};
static_assert(describes<GatherScalars>(gatherFields));

inline constexpr Operand gatherOperands[] = {
    {"table", "rows width", movedBy(&GatherScalars::bytes), Access::Read},
    {"indices", "grid", i32, Access::Read},
    {"out", "grid width", movedBy(&GatherScalars::bytes), Access::Written},
};

} // namespace detail

template <>
inline constexpr KernelTable tableOf<GatherScalars> = {"gather", detail::gatherFields, detail::gatherOperands};

} // namespace dtc::abi::library
