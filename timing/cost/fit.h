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

/// A measured figure as files have it: no digits that mean nothing.
double toFourDigits(double figure);

/// Of one value or more.
double median(std::vector<double> values);

/// Replaces peaks, memory bandwidth, launch time and efficiencies of `device`:
///   peaks             what the best products of each type reach
///   memory bandwidth  what the best kernels reach that move 16 MB or more; where there are none, the best of all
///   launch time       what the shortest kernels take
///   efficiencies      of each class and type the median share at each size, sizes that differ by less than a factor of
///                     the fourth root of two being one
/// Nothing where there are no observations.
void fitDevice(std::span<const Observation> observations, Device &device);

} // namespace dtc::timing
