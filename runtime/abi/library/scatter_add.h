// out[indices[i] - first] += updates[i] for indices within the rows, in the order of i. grid: width (threads divide
// columns).
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct ScatterAddScalars {
  int64_t rows, width; ///< of out
  int64_t first;       ///< the index of its first row
  int64_t count;       ///< of indices

  [[gnu::always_inline]] constexpr int64_t grid() const { return width; }
};

namespace detail {

inline constexpr std::array scatterAddFields = {
    DTC_SCALAR(ScatterAddScalars, rows),
    DTC_SCALAR(ScatterAddScalars, width),
    DTC_SCALAR(ScatterAddScalars, first),
    DTC_SCALAR(ScatterAddScalars, count),
};
static_assert(describes<ScatterAddScalars>(scatterAddFields));

inline constexpr Operand scatterAddOperands[] = {
    {"updates", "count width", f32, Access::Read},
    {"indices", "count", i32, Access::Read},
    {"out", "rows width", f32, Access::Updated},
};

} // namespace detail

template <>
inline constexpr KernelTable tableOf<ScatterAddScalars> = {"scatter_add", detail::scatterAddFields,
                                                           detail::scatterAddOperands};

} // namespace dtc::abi::library
