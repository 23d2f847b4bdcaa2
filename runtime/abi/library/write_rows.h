// out[o, positions[s], i, :] = rows[o, s, i, :]; positions outside [0, T) are skipped. grid: outer * S.
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct WriteRowsScalars {
  static constexpr std::string_view kernel = "write_rows";

  int64_t outer, S, inner, E; ///< of the rows
  int64_t T;                  ///< the number of positions in out
  RowStrides strides;         ///< of the rows
  int64_t bytes;              ///< of an element

  [[gnu::always_inline]] constexpr int64_t grid() const { return outer * S; }

  DTC_SCALARS(outer, S, inner, E, T, strides.outer, strides.s, strides.inner, bytes)
};

template <>
inline constexpr auto operandsOf<WriteRowsScalars> = std::to_array<Operand>({
    {"rows", "outer S inner E", movedBy(&WriteRowsScalars::bytes), Access::Read},
    {"positions", "S", i32, Access::Read},
    {"out", "outer T inner E", movedBy(&WriteRowsScalars::bytes), Access::Updated},
});

} // namespace dtc::abi::library
