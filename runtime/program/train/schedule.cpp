#include "runtime/program/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtc {

double learningRate(const abi::Training &training, int64_t step) {
  double full = training.learning_rate(), minimum = training.minimum_learning_rate();
  int64_t warmup = training.warmup_steps();
  if (step < warmup)
    return full * static_cast<double>(step + 1) / static_cast<double>(warmup);
  double span = static_cast<double>(std::max<int64_t>(training.steps() - warmup, 1));
  double x = std::min(static_cast<double>(step - warmup) / span, 1.0);
  if (training.schedule() == "linear")
    return minimum + (full - minimum) * (1 - x);
  if (training.schedule() == "cosine")
    return minimum + (full - minimum) * (1 + std::cos(std::numbers::pi * x)) / 2;
  return full;
}

} // namespace dtc
