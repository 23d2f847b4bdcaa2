// How often a run that may fail should write checkpoints.
//
// With failures that are M seconds apart in the mean (exponentially distributed), a checkpoint that costs C seconds
// every T seconds of work, a run takes so many times as long as its work (Daly, "A higher order estimate of the optimum
// checkpoint interval for restart dumps", 2006; the time of a restart, which does not depend on T, is left out):
//
//   M / T (exp((T + C) / M) - 1)
//
// The best T is about sqrt(2 C M) (Young, "A first order approximation to the optimum checkpoint interval", 1974), and
// closer, for C < 2 M (Daly 2006):
//
//   sqrt(2 C M) (1 + sqrt(C / (2 M)) / 3 + C / (18 M)) - C
#pragma once

#include <cmath>

namespace dtc {

/// What a checkpoint costs. Training stops for `stop` seconds. The checkpoint is on disk `write` seconds later, while
/// training goes on; the next one waits for that.
struct CheckpointCost {
  double stop = 0, write = 0;

  /// Seconds for which training stands still, where a checkpoint is due after `interval` seconds.
  double at(double interval) const { return stop + std::fmax(0.0, write - interval); }
};

/// Seconds of work between checkpoints, for `stop` and `between` (failures) above 0.
inline double bestInterval(double stop, double between) {
  if (stop >= 2 * between)
    return between;
  double ratio = stop / (2 * between);
  return std::sqrt(2 * stop * between) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - stop;
}

/// How many times as long as its work a run takes; infinite where it hardly ever gets from one checkpoint to the next.
inline double timeWithFailures(double interval, const CheckpointCost &cost, double between) {
  return between / interval * std::expm1((interval + cost.at(interval)) / between);
}

} // namespace dtc
