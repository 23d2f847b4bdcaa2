// A device from the times that its kernels took: the inverse of cost.h.
#pragma once

#include "timing/cost/cost.h"

#include <span>
#include <vector>

namespace dtc::timing {

/// A kernel that ran, with everything between it and the next one.
struct Observation {
  KernelWork work;
  double seconds = 0;
};

/// Of a run: what the kernels of a traced step take, and what an untraced step takes.
struct TracedRun {
  double launches = 0, kernels = 0, untraced = 0; ///< of a step; times in seconds
};

/// On a device that runs ahead of its host, a trace makes each launch longer: it puts every launch between two events,
/// and hands it over by itself.
struct TracingCost {
  double launch = 0; ///< how much longer a launch is, seconds
  double step = 0;   ///< what a step takes on top of its kernels, seconds
};

/// The line kernels - untraced = launch * launches - step by least squares of the relative errors, since long steps
/// have larger errors; neither cost is negative. For runs that differ in launches; zero where there are none.
TracingCost fitTracing(std::span<const TracedRun> runs);

/// A measured figure as files have it: without meaningless digits.
double toFourDigits(double figure);

/// Requires at least one value.
double median(std::vector<double> values);

/// By how much the median of equally many other measurements may differ; 0 for a single one. Two medians further apart
/// than the sum of their uncertainties differ, at 95% (McGill, Tukey and Larsen, Variations of Box Plots, 1978).
double uncertaintyOfMedian(std::vector<double> values);

/// Replaces peaks, memory bandwidth, launch time and efficiencies of `device`, which is a GPU if it has no threads:
///   peaks             what the best products of each type reach
///   memory bandwidth  what the best kernels reach that move more than caches hold (16 MB; on GPUs 256 MB); where
///                     there are none, the best of all
///   launch time       what the shortest kernels take
///   efficiencies      for each class and type the median share at each size. Sizes that differ by less than a factor
///                     of the fourth root of two count as one; sizes that take hardly longer than a launch are left out
/// Changes nothing if there are no observations.
void fitDevice(std::span<const Observation> observations, Device &device);

} // namespace dtc::timing
