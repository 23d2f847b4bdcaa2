// An interval of numbers that a setting may lie in.
#pragma once

#include <string_view>

namespace dtc::abi {

struct Interval {
  std::string_view text; ///< as in mathematics: "[0, 1)"; without an end: "[0, inf)"
  double minimum, maximum;

  constexpr bool contains(double value) const { // every comparison with NaN is false
    return (text.front() == '(' ? value > minimum : value >= minimum) &&
           (text.back() == ')' ? value < maximum : value <= maximum);
  }
  constexpr bool operator==(const Interval &) const = default;
};

} // namespace dtc::abi
