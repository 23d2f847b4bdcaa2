// A number with a bound of how far code in f32 may be from it: a running error analysis (Higham, Accuracy and Stability
// of Numerical Algorithms, 2nd edition, section 3.3) to first order. References that are templates of their number type
// give such bounds when they run on this type.
//
// Sums are kept open until they are used: their terms may be added in any order, by any tree of additions, fused with
// products or not.
#pragma once

#include <cmath>
#include <limits>

namespace dtc::verify {

class Estimate {
public:
  /// A value that is known exactly: an element of memory, zero.
  Estimate(double value = 0) : value(value), magnitude(std::abs(value)) {}
  Estimate(double value, double error) : value(value), terms(error), magnitude(std::abs(value)) {}

  double value;

  /// How far a result may be off.
  double error() const { return std::isfinite(value) ? terms + additions * magnitude * unit : 0; }

  Estimate &operator+=(const Estimate &other) {
    value += other.value;
    terms += other.terms, magnitude += other.magnitude, additions += other.additions + 1;
    return *this;
  }

  /// The relative error of one rounding to f32.
  static constexpr double unit = 0x1p-24;

private:
  double terms = 0;     ///< errors of what was added
  double magnitude;     ///< the sum of their magnitudes
  double additions = 0; ///< how many
};

inline double valueOf(const Estimate &number) { return number.value; }

inline Estimate operator+(Estimate a, const Estimate &b) { return a += b; }

inline Estimate operator-(const Estimate &a) { return {-a.value, a.error()}; }

inline Estimate operator-(const Estimate &a, const Estimate &b) { return a + -b; }

inline Estimate operator*(const Estimate &a, const Estimate &b) {
  double value = a.value * b.value, errors = std::abs(a.value) * b.error() + std::abs(b.value) * a.error();
  return {value, errors + a.error() * b.error() + std::abs(value) * Estimate::unit};
}

/// By a constant, which code rounds first.
inline Estimate operator*(double constant, const Estimate &a) {
  return Estimate(constant, std::abs(constant) * Estimate::unit) * a;
}
inline Estimate operator*(const Estimate &a, double constant) { return constant * a; }

/// The library's exponential is off by fewer units; results too small for an f32 may become zero.
inline Estimate exp(const Estimate &a) {
  constexpr double units = 4;
  double value = std::exp(a.value), relative = std::expm1(a.error()) + units * Estimate::unit;
  return {value, value * relative + std::numeric_limits<float>::min()};
}

/// Steepest at zero, where the slope is one.
inline Estimate tanh(const Estimate &a) {
  constexpr double units = 8;
  double value = std::tanh(a.value);
  return {value, a.error() + units * std::abs(value) * Estimate::unit};
}

inline Estimate log(const Estimate &a) {
  double value = std::log(a.value);
  return {value, a.error() / a.value + 2 * std::abs(value) * Estimate::unit};
}

} // namespace dtc::verify
