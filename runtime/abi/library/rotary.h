// Rotary embedding, half-split convention: pairs (i, i + n) of the first 2n elements are rotated by sign times position
// times rotaryFrequency(theta, n, scaling, i) of runtime/abi/rotary.h, and multiplied by the amplitude; the others are
// unchanged. grid: outer * S.
#pragma once

#include "runtime/abi/library/table.h"
#include "runtime/abi/rotary.h"

namespace dtc::abi::library {

struct RotaryScalars {
  static constexpr std::string_view kernel = "rotary";

  int64_t outer, S, inner, E;
  double theta;
  int64_t sign; ///< 1 forward, -1 backward
  RowStrides x, out;
  int64_t element; ///< of x and out
  int64_t pairs;   ///< n
  RotaryScaling scaling;

  [[gnu::always_inline]] constexpr int64_t grid() const { return outer * S; }

  DTC_SCALARS(outer, S, inner, E, theta, sign, x.outer, x.s, x.inner, out.outer, out.s, out.inner, element, pairs,
              scaling.factor, scaling.perFrequency, scaling.perPair, scaling.constant, scaling.amplitude)
};

template <>
inline constexpr auto operandsOf<RotaryScalars> = std::to_array<Operand>({
    {"x", "outer S inner E", toldBy(&RotaryScalars::element), Access::Read},
    {"positions", "S", i32, Access::Read},
    {"out", "outer S inner E", toldBy(&RotaryScalars::element), Access::Written}, // may be x
});

} // namespace dtc::abi::library
