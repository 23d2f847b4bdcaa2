// A device from what its kernels took: the other way round than cost.h.
#pragma once

#include "timing/cost/cost.h"

#include <span>
#include <vector>

namespace dtc::timing {

/// A kernel that ran, with all that lies between it and the next one.
struct Observation {
  KernelWork work;
  double seconds = 0;
};

/// Of a run: what a step's kernels take while it is traced, and what a step takes that is not.
struct TracedRun {
  double launches = 0, kernels = 0, untraced = 0; ///< of a step; seconds
};

/// On a device that runs ahead of its host, a trace makes each launch longer: it lies between two events, and is given
/// by itself.
struct TracingCost {
  double launch = 0; ///< by what a launch is longer, seconds
  double step = 0;   ///< what a step takes beside its kernels, seconds
};

/// The line kernels - untraced = launch * launches - step by least squares, of relative errors as long steps have
/// larger ones; neither is negative. For runs that differ in launches; nothing where there are none.
TracingCost fitTracing(std::span<const TracedRun> runs);

/// A measured figure as files have it: no digits that mean nothing.
double toFourDigits(double figure);

/// Of one value or more.
double median(std::vector<double> values);

/// By how much the median of as many other measurements may differ; 0 of a single one. Medians that are further apart
/// than both of these together differ, at 95% (McGill, Tukey and Larsen, Variations of Box Plots, 1978).
double uncertaintyOfMedian(std::vector<double> values);

/// Replaces peaks, memory bandwidth, launch time and efficiencies of `device`, which is a GPU if it has no threads:
///   peaks             what the best products of each type reach
///   memory bandwidth  what the best kernels reach that move more than caches hold (16 MB; of GPUs 256); where there
///   are
///                     none, the best of all
///   launch time       what the shortest kernels take
///   efficiencies      of each class and type the median share at each size, sizes that differ by less than a factor of
///                     the fourth root of two being one; nothing of sizes that take hardly longer than a launch
/// Nothing where there are no observations.
void fitDevice(std::span<const Observation> observations, Device &device);

} // namespace dtc::timing
