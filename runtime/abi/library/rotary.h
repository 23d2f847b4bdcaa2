// Rotary embedding, half-split convention: pairs (i, i + n) of the first 2n elements are rotated by sign times position
// times rotaryFrequency(theta, n, scaling, i) of runtime/abi/rotary.h, and multiplied by the amplitude; the others
// stay. grid: outer * S.
#pragma once

#include "runtime/abi/library/table.h"
#include "runtime/abi/rotary.h"

namespace dtc::abi::library {

struct RotaryScalars {
  int64_t outer, S, inner, E;
  double theta;
  int64_t sign; ///< 1 forward, -1 backward
  RowStrides x, out;
  int64_t element; ///< of x and out
  int64_t pairs;   ///< n
  RotaryScaling scaling;

  [[gnu::always_inline]] constexpr int64_t grid() const { return outer * S; }
};

namespace detail {

inline constexpr std::array rotaryFields = {
    DTC_SCALAR(RotaryScalars, outer),
    DTC_SCALAR(RotaryScalars, S),
    DTC_SCALAR(RotaryScalars, inner),
    DTC_SCALAR(RotaryScalars, E),
    DTC_SCALAR(RotaryScalars, theta),
    DTC_SCALAR(RotaryScalars, sign),
    DTC_SCALAR(RotaryScalars, x.outer),
    DTC_SCALAR(RotaryScalars, x.s),
    DTC_SCALAR(RotaryScalars, x.inner),
    DTC_SCALAR(RotaryScalars, out.outer),
    DTC_SCALAR(RotaryScalars, out.s),
    DTC_SCALAR(RotaryScalars, out.inner),
    DTC_SCALAR(RotaryScalars, element),
    DTC_SCALAR(RotaryScalars, pairs),
    DTC_SCALAR(RotaryScalars, scaling.factor),
    DTC_SCALAR(RotaryScalars, scaling.perFrequency),
    DTC_SCALAR(RotaryScalars, scaling.perPair),
    DTC_SCALAR(RotaryScalars, scaling.constant),
    DTC_SCALAR(RotaryScalars, scaling.amplitude),
};
static_assert(describes<RotaryScalars>(rotaryFields));

inline constexpr Operand rotaryOperands[] = {
    {"x", "outer S inner E", toldBy(&RotaryScalars::element), Access::Read},
    {"positions", "S", i32, Access::Read},
    {"out", "outer S inner E", toldBy(&RotaryScalars::element), Access::Written}, // may be x
};

} // namespace detail

template <>
inline constexpr KernelTable tableOf<RotaryScalars> = {"rotary", detail::rotaryFields, detail::rotaryOperands};

} // namespace dtc::abi::library
