// Writes one bit pattern to all elements. grid: these.
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct FillScalars {
  int64_t bits;  ///< of an element; what is above them is ignored
  int64_t bytes; ///< of an element
};

namespace detail {

inline constexpr std::array fillFields = {
    DTC_SCALAR(FillScalars, bits),
    DTC_SCALAR(FillScalars, bytes),
};
static_assert(describes<FillScalars>(fillFields));

inline constexpr Operand fillOperands[] = {{"out", "grid", movedBy(&FillScalars::bytes), Access::Written}};

} // namespace detail

template <> inline constexpr KernelTable tableOf<FillScalars> = {"fill", detail::fillFields, detail::fillOperands};

} // namespace dtc::abi::library
