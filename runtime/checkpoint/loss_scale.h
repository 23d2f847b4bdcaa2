// The factor that keeps gradients of f16 away from zero and from infinity: it multiplies the mean loss over the tokens
// of a step, those that do not count among them, and the update divides by it. torch.amp.GradScaler's rule: a step
// whose gradients overflow is not applied and halves it, and after a number of steps in a row that were applied it is
// doubled. Unlike there, it has a floor.
#pragma once

#include <cstdint>

namespace dtc {

struct LossScale {
  static constexpr double Floor = 1, Most = 0x1p+100;

  double value = Floor;
  int64_t goodSteps = 0; ///< applied since it last changed
  int64_t skipped = 0;   ///< steps that were not applied, in all

  /// Whether a step that overflows can be answered by a smaller scale.
  bool canShrink() const { return value > Floor; }

  /// After each step; `window` steps in a row that were applied double it.
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
