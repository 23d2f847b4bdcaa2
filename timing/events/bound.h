// The time below which no order of what a program starts, and no number of channels, can bring its step.
#pragma once

#include "timing/events/simulate.h"

namespace dtc::timing {

/// The largest of: the work of the busiest rank, its host's included; what the busiest link moves, at its full
/// bandwidth; and the longest chain of commands that wait for each other, if nothing but these kept them. Kernels and
/// transports are as the cluster file has them.
struct LowerBound {
  double seconds = 0;
  enum Reason { Compute, Link, CriticalPath } reason = Compute;
  int ofClass = 0; ///< whose work or link it is, or that ends last
  int level = -1;  ///< of the link
};

/// `simulated` is of the same step, layout and conditions.
LowerBound lowerBound(const Step &step, const Layout &layout, const Conditions &conditions, const Simulated &simulated);

} // namespace dtc::timing
