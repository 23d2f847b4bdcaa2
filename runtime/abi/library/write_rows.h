// out[o, positions[s], i, :] = rows[o, s, i, :]; positions outside [0, T) are skipped. grid: outer * S.
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct WriteRowsScalars {
  int64_t outer, S, inner, E; ///< of the rows
  int64_t T;                  ///< how many positions out has
  RowStrides strides;         ///< of the rows
  int64_t bytes;              ///< of an element

  [[gnu::always_inline]] constexpr int64_t grid() const { return outer * S; }
};

namespace detail {

inline constexpr std::array writeRowsFields = {
    DTC_SCALAR(WriteRowsScalars, outer),     DTC_SCALAR(WriteRowsScalars, S),
    DTC_SCALAR(WriteRowsScalars, inner),     DTC_SCALAR(WriteRowsScalars, E),
    DTC_SCALAR(WriteRowsScalars, T),         DTC_SCALAR(WriteRowsScalars, strides.outer),
    DTC_SCALAR(WriteRowsScalars, strides.s), DTC_SCALAR(WriteRowsScalars, strides.inner),
    DTC_SCALAR(WriteRowsScalars, bytes),
};
static_assert(describes<WriteRowsScalars>(writeRowsFields));

inline constexpr Operand writeRowsOperands[] = {
    {"rows", "outer S inner E", movedBy(&WriteRowsScalars::bytes), Access::Read},
    {"positions", "S", i32, Access::Read},
    {"out", "outer T inner E", movedBy(&WriteRowsScalars::bytes), Access::Updated},
};

} // namespace detail

template <>
inline constexpr KernelTable tableOf<WriteRowsScalars> = {"write_rows", detail::writeRowsFields,
                                                          detail::writeRowsOperands};

} // namespace dtc::abi::library
