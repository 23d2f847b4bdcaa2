// Writes one bit pattern to all elements. grid: the number of elements.
#pragma once

#include "runtime/abi/library/table.h"

namespace dtc::abi::library {

struct FillScalars {
  static constexpr std::string_view kernel = "fill";

  int64_t bits;  ///< of an element; what is above them is ignored
  int64_t bytes; ///< of an element

  DTC_SCALARS(bits, bytes)
};

template <>
inline constexpr auto operandsOf<FillScalars> = std::to_array<Operand>({
    {"out", "grid", movedBy(&FillScalars::bytes), Access::Written},
});

} // namespace dtc::abi::library
