// A lower bound on a step's time, for any number of channels and any order in which they take what is started.
#pragma once

#include "timing/events/simulate.h"

namespace dtc::timing {

/// The largest of: the work of the busiest rank, including its host's and what moving costs its processor; what the
/// busiest link moves, at its full bandwidth; the longest chain of commands that wait for each other, if nothing else
/// delayed them; and what a link moves between two points in time, from the earliest at which it can begin and with
/// what must follow it. Kernels and transports are as the cluster file has them, and ranks compute, start and wait in
/// the order of their lists.
struct LowerBound {
  double seconds = 0;
  enum Reason { Compute, Link, CriticalPath, LinkInTime } reason = Compute;
  int ofClass = 0;   ///< the class whose work or link it is, or that ends last
  int level = -1;    ///< of the link
  double moving = 0; ///< for Compute: in how many of these seconds the rank's processor moves something
};

/// `simulated` is the result for the same step, layout and conditions.
LowerBound lowerBound(const Step &step, const Layout &layout, const Conditions &conditions, const Simulated &simulated);

/// A task of a machine that does one at a time.
struct Task {
  double release = 0; ///< when it can begin
  double seconds = 0; ///< that it takes
  double tail = 0;    ///< that must pass after it
};

/// When all can be over, tails included, on a machine that may leave a task for another at any moment: the one with the
/// longest tail first (Jackson 1955; Horn 1974). No machine that has to finish what it begins is faster. 0 for no
/// tasks.
double preemptiveEnd(std::vector<Task> tasks);

} // namespace dtc::timing
