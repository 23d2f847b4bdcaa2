// The Gaussian error linear unit and its derivative, as they are written.
#pragma once

#include <cmath>

namespace mlir::dt {

// Hendrycks and Gimpel, arXiv:1606.08415: x Φ(x), and its approximation by tanh.
inline double geluErf(double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }
inline double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x))); }

// Their derivatives: Φ(x) + x φ(x), and with t = tanh(u): (1 + t)/2 + x/2 (1 - t²) du/dx.
inline double geluErfDerivative(double x) {
  return 0.5 * (1 + std::erf(x * M_SQRT1_2)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}
inline double geluTanhDerivative(double x) {
  double t = std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(M_2_PI) * (1 + 3 * 0.044715 * x * x);
}

} // namespace mlir::dt
