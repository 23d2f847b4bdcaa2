// The factor that keeps f16 gradients from underflow and overflow. It multiplies the mean loss over all tokens of a
// step, including ignored ones, and the update divides by it. The rule is torch.amp.GradScaler's: a step whose
// gradients overflow is skipped and halves the factor, and a number of consecutive applied steps doubles it. Unlike
// GradScaler's, the factor has a floor.
#pragma once

#include <cstdint>

namespace dtc {

struct LossScale {
  static constexpr double Floor = 1, Most = 0x1p+100;

  double value = Floor;
  int64_t goodSteps = 0; ///< steps applied since it last changed
  int64_t skipped = 0;   ///< total steps skipped

  /// Whether the scale can still shrink after an overflow.
  bool canShrink() const { return value > Floor; }

  /// Call after each step; `window` consecutive applied steps double the scale.
  void update(bool applied, int64_t window) {
    if (!applied) {
      ++skipped;
      value /= 2;
      goodSteps = 0;
    } else if (++goodSteps == window) {
      goodSteps = 0;
      if (value < Most)
        value *= 2;
    }
  }
};

} // namespace dtc
